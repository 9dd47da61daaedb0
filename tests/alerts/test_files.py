"""The rendered files: complete, named, explained, of known series only, and checked without Prometheus's programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtrace import installation
from ragtrace.alerts import check, render, run_tests, write
from ragtrace.analyze._stage_states import REASONS
from ragtrace.errors import ConfigurationError
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from tests.alerts.conftest import Written

OWNERS = {stage.name: stage.owner for stage in STAGES} | {"platform": "platform"}
SECTIONS = ["What it means", "Check, in this order", "Mitigate", "Confirm recovery"]


def rules(name: str, **arguments: Any) -> list[dict[str, Any]]:
    """The rules of one rendered file."""
    body = yaml.safe_load(render(**arguments)[name])
    return [rule for group in body["groups"] for rule in group["rules"]]


ALERTS = rules("alerts.yml")


def test_every_stage_has_a_page_a_ticket_and_a_ticket_for_suspicion() -> None:
    """Named after the stage; and nothing else pages for a stage."""
    names = {rule["alert"] for rule in ALERTS}
    for stage in STAGES:
        name = stage.name.title()
        assert {f"Ragtrace{name}Page", f"Ragtrace{name}Ticket", f"Ragtrace{name}SuspectedTicket"} <= names
    suspected = [name for name in names if "Suspected" in name or "Refused" in name]
    assert len(suspected) == len(STAGES)  # an answer that declines has no ticket of its own
    pages = [rule for rule in ALERTS if rule["labels"]["severity"] == "page"]
    assert len([rule for rule in pages if rule["labels"]["stage"] != "platform"]) == len(STAGES)


def test_no_alert_has_the_judge_in_its_identity() -> None:
    """A change of judge would resolve it, or fire it twice; the recorded ratios keep judges and references apart."""
    for rule in rules("recording.yml"):
        by = "service, segment, stage, reference, judge"
        if re.search(r":(increase|usual)\w+$", rule["record"]):
            assert by in rule["expr"] or "sum_over_time" in rule["expr"]
        if re.search(r"burning:\w+\d", rule["record"]):
            assert rule["expr"].startswith("max by (service, segment, stage) (")
        if re.search(r"risen\w", rule["record"]):
            assert rule["expr"].startswith("max by (service, segment) (")
            assert set(rule["labels"]) == {"stage"}
    assert not re.search(r"\bjudge\b", str([(rule["expr"], rule["labels"]) for rule in ALERTS]))


def test_every_reason_has_a_remedy() -> None:
    """What would help where next to nothing can be judged, for each reason that the analyzer gives."""
    (unjudged,) = (rule for rule in ALERTS if rule["alert"] == "RagtraceUnjudged")
    assert set(re.findall(r'eq \. "(\w+)"', unjudged["annotations"]["description"])) == set(REASONS)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_says_whose_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    """Severity, stage, owner; a summary, values, links, and for a stage a suspected release and a command."""
    labels, told = rule["labels"], rule["annotations"]
    assert labels["severity"] in ("page", "ticket")
    assert labels["owner"] == OWNERS[labels["stage"]]
    assert told["summary"].startswith(f"{labels['stage']}: ")
    assert told["runbook"].startswith("docs/runbooks/")
    assert re.match(r"http://localhost:3000/d/ragtrace-\w+", told["dashboard"])
    assert bool(told.get("action")) == (labels["stage"] == "platform")
    if labels["stage"] != "platform":
        assert "ragtrace_release_timestamp_seconds" in told["release"]
        is_of_source = "labels.source" in told["summary"]
        is_of_provider = "labels.provider" in told["summary"]
        assert told["triage"].startswith(
            "ragtrace source list"
            if is_of_source
            else "ragtrace exposure report --service="
            if is_of_provider
            else "ragtrace triage segment --service="
        )
        assert is_of_source or is_of_provider or told["answer"].startswith("ragtrace triage judge --service=")


def test_alerts_and_runbooks_are_the_same_set() -> None:
    """Each alert has a page that names it and has every section; no page is for nothing, and none stays unlisted."""
    root = installation.checkout()
    if root is None:
        pytest.skip("docs/ is not part of the wheel")
    pages = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs" / "runbooks").glob("*.md")}
    for rule in ALERTS:
        page = pages[Path(rule["annotations"]["runbook"]).name]
        assert f"`{rule['alert']}`" in page
        assert f"Owner: {rule['labels']['owner']}." in " ".join(page.split())
    named = {name for text in pages.values() for name in re.findall(r"`(Ragtrace\w+)`", text.split("## ")[0])}
    assert named == {rule["alert"] for rule in ALERTS}
    for name, text in pages.items():
        assert re.findall("^## (.*)$", text, re.MULTILINE) == SECTIONS, name
    listing = (root / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(Ragtrace\w+)`", listing))
    assert listed == {re.sub("(Page|Ticket)$", "", name) for name in named}


def test_rules_use_known_series_only() -> None:
    """Those of the registry, `up`, and those that are recorded before they are used."""
    known = {one.name + part for one in INSTRUMENTS.values() for part in ("", "_sum", "_count")}
    recorded = [(rule["record"], rule.get("labels", {}).get("stage")) for rule in rules("recording.yml")]
    assert len(set(recorded)) == len(recorded)
    recorded_names = {name for name, _ in recorded}
    for rule in [*rules("recording.yml"), *ALERTS]:
        assert set(re.findall(r"\bragtrace[_:][\w:]+", rule["expr"])) <= known | recorded_names, rule


def test_time_scale_changes_durations_alone() -> None:
    """Names of series, labels and texts are the same; every window and wait is shorter."""
    scaled = {rule["alert"]: rule for rule in rules("alerts.yml", time_scale=60)}
    for rule in ALERTS:
        other = scaled[rule["alert"]]
        assert other["labels"] == rule["labels"]
        assert other["annotations"]["summary"] == rule["annotations"]["summary"]
        names = re.compile(r"\bragtrace[\w:]+")
        assert names.findall(other["expr"]) == names.findall(rule["expr"])
        if "[" in rule["expr"]:
            assert other["expr"] != rule["expr"]
    page = scaled["RagtraceRetrievalPage"]
    assert (page["for"], page["keep_firing_for"]) == ("2s", "5s")
    assert "[1s]" not in str(ALERTS)
    citation = scaled["RagtraceCitationPage"]["expr"]
    assert "> time() - 360)" in citation


def test_own_targets_make_own_budgets(written: Written) -> None:
    """The first override that fits counts before the target of the stage; a silenced segment has no budget."""
    segments = [
        {"service": "shop", "segment": "legal", "targets": {"retrieval": 0.99}},
        {"segment": "canary", "alert": False},
    ]
    (budget,) = [
        rule["expr"]
        for rule in rules(
            "recording.yml", config=written(targets={"ranking": 0.9}, segments=segments, burn_rates=PAIRS)
        )
        if rule["record"] == "ragtrace:sli:budget"
    ]
    known = "ragtrace:sli_requests:increase2h"  # the longest window that is recorded often
    by = "group by (service, segment, stage)"
    assert budget.split("\n") == [
        "(",
        f'0.01 * {by} ({known}{{service="shop", segment="legal", stage=~"retrieval"}})',
        "or",
        f'0.1 * {by} ({known}{{service="shop", segment="legal", stage=~"ranking"}})',
        "or",
        f'0.05 * {by} ({known}{{service="shop", segment="legal", stage=~"generation|citation"}})',
        "or",
        f'0.05 * {by} ({known}{{segment="canary", stage=~"retrieval|generation|citation"}})',
        "or",
        f'0.1 * {by} ({known}{{segment="canary", stage=~"ranking"}})',
        "or",
        f'0.05 * {by} ({known}{{stage=~"retrieval|generation|citation"}})',
        "or",
        f'0.1 * {by} ({known}{{stage=~"ranking"}})',
        ")",
        f'unless on (service, segment) ({known}{{segment="canary"}}',
        f'  unless on (service, segment) {known}{{service="shop", segment="legal"}})',
    ]


PAIRS = {
    "page": [{"short": "5m", "long": "30m", "factor": 5, "minimum": 3}],
    "ticket": [{"short": "2h", "long": "1d", "factor": 1, "minimum": 3}],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rendered files, on a machine without promtool and amtool."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    write(tmp_path, render())
    return tmp_path


def test_without_the_programs_names_are_checked(folder: Path) -> None:
    """And it is said that this was all, and what to install."""
    rules, routes = check(folder)
    assert (rules.good, rules.by) == (True, "ragtrace")
    assert "names of series only: promtool was not found; install it" in rules.said
    assert (routes.good, routes.by) == (True, "ragtrace")
    assert "names of receivers only: amtool was not found" in routes.said


def test_an_unknown_series_is_found_without_promtool(folder: Path) -> None:
    """The rule and the series are named."""
    path = folder / "alerts.yml"
    path.write_text(path.read_text().replace("ragtrace_queue_oldest_seconds", "ragtrace_queue_oldest"))
    rules, _ = check(folder)
    assert not rules.good
    assert "RagtraceQueueOld: ragtrace_queue_oldest is in no registry" in rules.said


def test_an_unknown_receiver_is_found_without_amtool(folder: Path) -> None:
    """The receiver is named."""
    path = folder / "alertmanager.yml"
    path.write_text(path.read_text().replace("- name: release-guard-page", "- name: somebody"))
    _, routes = check(folder)
    assert not routes.good
    assert "route to release-guard-page, which is no receiver" in routes.said


def test_scenarios_need_promtool(folder: Path) -> None:
    """Nothing else can run them, and the message says what to install."""
    with pytest.raises(ConfigurationError, match=r"promtool was not found; install it .*apt-get install prometheus"):
        run_tests(folder)


def test_with_pages_an_alert_carries_an_address(written: Written) -> None:
    """Of a stage's alerts, in the place of the commands: whose it is stands there as labels do in addresses."""
    files = render(written(links={"pages": "https://rag.example.org/"}))
    groups = yaml.safe_load(files["alerts.yml"])["groups"]
    (told,) = (
        rule["annotations"] for group in groups for rule in group["rules"] if rule["alert"] == "RagtraceRankingPage"
    )
    assert told["triage"] == (
        "https://rag.example.org/triage?service={{ $labels.service | urlquery }}"
        "&segment={{ $labels.segment | urlquery }}"
        '&since={{ with query "(time() - 10800) * 1e9" }}{{ . | first | value | printf "%.0f" }}{{ end }}'
        '&until={{ with query "(time() - 0) * 1e9" }}{{ . | first | value | printf "%.0f" }}{{ end }}'
        "&stage=ranking&severity=page"
    )
    assert told["answer"] == f"{told['triage']}#judge"
    with pytest.raises(ConfigurationError, match="an address like"):
        render(written(links={"pages": "javascript:alert(1)"}))
