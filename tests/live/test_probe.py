"""From a page to its postmortem with the cause that a probe of the index found, over real servers.

A FAISS index of a sailing club's handbook is rolled out with too few probes. Requests are judged with gold evidence and
a probe; `ragtrace export`, Prometheus with the shipped rules and Alertmanager page the owner of retrieval, whose
commands are then run as they stand on the page.
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
from tests.analyze.test_probe_schedule import DEPTH, WRONG, flat, ivf, request_of
from tests.club import CHUNKS, QUESTIONS, vector
from tests.live.alerting.replaying import Course, Recorded, Recording, Replay
from tests.live.alerting.servers import Alertmanager, Notification, Webhook
from tests.live.prometheus import Prometheus, program
from tests.live.test_alerting import DEADLINE_SECONDS, EVERYBODY, LOOKBACK, _exporter, _rendered, _settings

pytestmark = pytest.mark.alone

SEGMENT = "default"


def recording(probe: FaissProbe, questions: Sequence[str], version: str) -> Recording:
    """Requests to an application over the probe's index, analyzed with gold evidence and the probe."""
    prober = IndexProber(probe, ProbeBudget(a_minute=10_000))
    found = []
    for question in questions:
        candidates = probe.probe(question, DEPTH, False)
        is_found = QUESTIONS[question] in {one.chunk_id for one in candidates}
        answer = CHUNKS[QUESTIONS[question]] if is_found else WRONG
        record = request_of(question, candidates, answer, versions={"index": version}, segment=SEGMENT)
        analysis, case = examine(record, Gold(service="club", question=question, chunk_ids=(QUESTIONS[question],)))
        found.append(Recorded(record, prober.with_probe(record, analysis, case, ServiceView())))
    return {SEGMENT: found}


def courses() -> Course:
    """Well by an exact index; then every question whose evidence the approximate search misses."""
    good, bad = (FaissProbe(index, vector, ids=list(CHUNKS), texts=CHUNKS) for index in (flat(), ivf()))
    well = [
        question
        for question, evidence in QUESTIONS.items()
        if evidence in {one.chunk_id for one in good.probe(question, DEPTH, False)}
    ]
    missed = [
        question
        for question, evidence in QUESTIONS.items()
        if evidence not in {one.chunk_id for one in bad.probe(question, DEPTH, False)}
    ]
    assert well
    assert missed
    return Course(recording(good, well, "flat-1"), recording(bad, missed, "ivf-2"))


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


def test_a_page_leads_to_the_cause_and_its_fix(tmp_path: Path) -> None:
    """The page is of retrieval and names the index's release; triage and postmortem the cause and what to do."""
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
        replay = Replay(store, {"club": courses()})
        port = stack.enter_context(_exporter(url, tmp_path / "exporter.log"))
        prometheus = Prometheus(
            tmp_path / "prometheus", [port], _settings(rules, alertmanager), [f"--query.lookback-delta={LOOKBACK}"]
        )
        for server in (alertmanager, prometheus):
            stack.callback(server.stop)
            server.start()
        known = "ragtrace:sli_requests:increase30m{stage='retrieval'} >= 20"
        assert replay.go_on(lambda: bool(prometheus.query(known)), DEADLINE_SECONDS), "too few requests were counted"
        replay.break_()
        paged = replay.go_on(lambda: any(each.severity == "page" for each in notifications), DEADLINE_SECONDS)
        assert paged, "nobody was paged"
    (page, *_) = [each for each in notifications if each.severity == "page"]
    assert (page.owner, page.group) == ("retrieval-indexing", ("club", "retrieval"))
    said = page.body["alerts"][0]["annotations"]
    assert said["release"].startswith("index=ivf-2")
    triage = ragtrace(said["triage"], url)
    assert "retrieval is the first broken stage" in triage
    assert "cause missed by the approximate search" in triage
    assert "raise nprobe (IVF) or efSearch (HNSW)" in triage
    written = ragtrace("ragtrace postmortem --service club --since '3h ago'", url)
    assert "First failed stage: **retrieval**" in written
    assert "**missed by the approximate search" in written
    assert "Suspected release: **index=ivf-2**" in written
    assert "Measure the recall of the approximate search against an exact one" in written
