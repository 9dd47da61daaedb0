"""From a page to its postmortem with the cause that a probe of the index found, over real servers.

Four services ask FAISS indexes of a sailing club's handbook. One is rolled out with too few probes, one with a filter,
one without the needed chunks, one with an embedding that ranks them too low. Requests are judged with gold
evidence and a probe; `ragtrace export`, Prometheus with the shipped rules and Alertmanager page the owner of retrieval,
whose commands are then run as they stand on the pages.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragtrace.analyze import examine
from ragtrace.analyze.analysis import ServiceView
from ragtrace.analyze.probe_schedule import IndexProber, ProbeBudget
from ragtrace.engines.faiss_index import FaissProbe
from ragtrace.store import Store
from ragtrace.types import Gold
from tests.analyze.test_probe_schedule import CAUSES, DEPTH, WRONG, flat, lost_by, request_of
from tests.club import CHUNKS, QUESTIONS, vector
from tests.live.alerting.replaying import Course, Recorded, Recording, Replay
from tests.live.alerting.servers import Alertmanager, Notification, Webhook
from tests.live.prometheus import Prometheus, program
from tests.live.test_alerting import DEADLINE_SECONDS, EVERYBODY, LOOKBACK, _exporter, _rendered, _settings

pytestmark = pytest.mark.alone

SEGMENT = "default"
SHOWN = {
    "missed_by_search": "Measure the recall of the approximate search against an exact one",
    "filtered": "Test each filter with questions whose evidence must pass it",
    "below_depth": "Measure candidate recall by depth on the gold set",
    "not_indexed": "Check after each ingestion that the evidence of the gold set is in the index",
}
"""By cause what the postmortem says would have shown it."""


def recording(asked: Sequence[tuple[str, FaissProbe, int]], version: str) -> Recording:
    """Requests to applications over the probes' indexes, analyzed with gold evidence and the probe."""
    found = []
    for question, probe, depth in asked:
        candidates = probe.probe(question, depth, False)
        is_found = QUESTIONS[question] in {one.chunk_id for one in candidates}
        answer = CHUNKS[QUESTIONS[question]] if is_found else WRONG
        record = request_of(question, candidates, answer, depth=depth, versions={"index": version}, segment=SEGMENT)
        analysis, case = examine(record, Gold(service="club", question=question, chunk_ids=(QUESTIONS[question],)))
        prober = IndexProber(probe, ProbeBudget(a_minute=10_000))
        found.append(Recorded(record, prober.with_probe(record, analysis, case, ServiceView())))
    return {SEGMENT: found}


def courses() -> dict[str, Course]:
    """By cause: well by an exact index; then every question whose evidence is lost so."""
    exact = FaissProbe(flat(), vector, ids=list(CHUNKS), texts=CHUNKS)
    well = [
        (question, exact, DEPTH)
        for question, evidence in QUESTIONS.items()
        if evidence in {one.chunk_id for one in exact.probe(question, DEPTH, False)}
    ]
    lost = {cause: lost_by(cause) for cause in CAUSES}
    assert well
    assert all(lost.values())
    healthy = recording(well, "v0")
    return {cause: Course(healthy, recording(asked, "v1")) for cause, asked in lost.items()}


def ragtrace(command: str, store: str) -> str:
    """What a command of a page prints."""
    words = shlex.split(command)
    assert words[0] == "ragtrace"
    done = subprocess.run(
        [sys.executable, "-m", "ragtrace", *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "160", "RAGTRACE_STORE": store},
    )
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_a_page_leads_to_each_cause_and_its_fix(tmp_path: Path) -> None:
    """Each page is of retrieval and names the index's release; triage and postmortem the cause and what to do."""
    pytest.importorskip("faiss", reason="FAISS is not installed (pip install 'ragtrace[models]')")
    for package in ("prometheus", "prometheus-alertmanager"):
        program(package, package)
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    notifications: list[Notification] = []
    with contextlib.ExitStack() as stack:
        webhooks = {owner: Webhook(owner, notifications) for owner in EVERYBODY}
        for webhook in webhooks.values():
            stack.callback(webhook.close)
        rules = _rendered(tmp_path, {owner: webhook.receivers() for owner, webhook in webhooks.items()})
        alertmanager = Alertmanager(tmp_path / "alertmanager", rules / "alertmanager.yml")
        store = stack.enter_context(Store.open(url))
        replay = Replay(store, courses())
        port = stack.enter_context(_exporter(url, tmp_path / "exporter.log"))
        prometheus = Prometheus(
            tmp_path / "prometheus", [port], _settings(rules, alertmanager), [f"--query.lookback-delta={LOOKBACK}"]
        )
        for server in (alertmanager, prometheus):
            stack.callback(server.stop)
            server.start()
        known = f"count(ragtrace:sli_requests:increase30m{{stage='retrieval'}} >= 20) == {len(CAUSES)}"
        assert replay.go_on(lambda: bool(prometheus.query(known)), DEADLINE_SECONDS), "too few requests were counted"
        replay.break_()
        replay.go_on(lambda: set(_pages(notifications)) >= set(CAUSES), DEADLINE_SECONDS)
    pages = _pages(notifications)
    assert set(pages) == set(CAUSES), "not every service was paged about"
    for cause, (words, fix) in CAUSES.items():
        assert (pages[cause].owner, pages[cause].group) == ("retrieval-indexing", (cause, "retrieval"))
        said = pages[cause].body["alerts"][0]["annotations"]
        assert said["release"].startswith("index=v1")
        triage = ragtrace(said["triage"], url)
        assert "retrieval is the first broken stage" in triage
        assert f"cause {words}" in triage
        assert fix in triage
        written = ragtrace(f"ragtrace postmortem --service {cause} --since '3h ago'", url)
        assert "First failed stage: **retrieval**" in written
        assert f"**{words}" in written
        assert "Suspected release: **index=v1**" in written
        assert SHOWN[cause] in written


def _pages(notifications: Sequence[Notification]) -> dict[str, Notification]:
    """The first page about each service."""
    found: dict[str, Notification] = {}
    for each in notifications:
        if each.severity == "page":
            found.setdefault(each.group[0], each)
    return found
