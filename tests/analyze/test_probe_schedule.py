"""Which requests the index is asked about, what a probe that fails costs, and the causes from record to postmortem."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from rich.console import Console

import ragtrace
from ragtrace.analyze import examine, worker
from ragtrace.analyze.analysis import ServiceView
from ragtrace.analyze.diagnosis import RETURNED_BEFORE
from ragtrace.analyze.probe_schedule import IndexProber, ProbeBudget, is_suspected
from ragtrace.analyze.worker import WorkerSettings
from ragtrace.engines.faiss_index import FaissProbe
from ragtrace.errors import ConfigurationError
from ragtrace.export import evidence_path
from ragtrace.probe import CallableProbe
from ragtrace.store import Store
from ragtrace.triage import Window, markdown, triage_request, triage_segment
from ragtrace.triage.postmortem import postmortem
from ragtrace.types import (
    Analysis,
    Candidate,
    GenerateRun,
    Generation,
    Gold,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)
from tests.club import CHUNKS, QUESTIONS, vector, vectors

IDS = list(CHUNKS)
DEPTH = 3
MINUTE = 60_000_000_000
WRONG = "I could not find that in the handbook."

faiss = pytest.importorskip("faiss", reason="FAISS is not installed (pip install 'ragtrace[models]')")


def flat(without: str | None = None) -> Any:
    """An exact index of all chunks, or of all but one."""
    index = faiss.IndexIDMap(faiss.IndexFlatIP(vectors().shape[1]))
    kept = [place for place, name in enumerate(IDS) if name != without]
    index.add_with_ids(vectors()[kept], np.array(kept))
    return index


def ivf() -> Any:
    """Twelve lists, of which one is searched."""
    size = vectors().shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(size), size, 12, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.train(vectors())
    index.add(vectors())
    index.nprobe = 1
    return index


class Fault:
    """An index with a fault: of each question, what its search returns, and the probe of the same index."""

    def __init__(self, cause: str, question: str) -> None:
        self.evidence = QUESTIONS[question]
        self.question = question
        self.depth = DEPTH
        given: dict[str, Any] = {"ids": IDS, "texts": CHUNKS, "version": "v1"}
        index = flat()
        if cause == "missed_by_search":
            index = ivf()
        elif cause == "not_indexed":
            index = flat(self.evidence)
        elif cause == "filtered":
            given["passes"] = lambda name: name != self.evidence
        self.probe = FaissProbe(index, vector, **given)

    def returns(self, depth: int) -> list[Any]:
        """What the application's search returns."""
        return self.probe.probe(self.question, depth, False)

    @property
    def is_lost(self) -> bool:
        """Whether the candidates lack the evidence."""
        return self.evidence not in {one.chunk_id for one in self.returns(self.depth)}


def lost_by(cause: str) -> list[tuple[str, FaissProbe, int]]:
    """Questions that lose their evidence by this fault, with the probe of their index and the depth asked for."""
    if cause == "below_depth":  # a search whose vectors are of other words
        made = {question: _sunk(evidence) for question, evidence in QUESTIONS.items()}
        asked = FaissProbe(flat(), made.__getitem__, ids=IDS, texts=CHUNKS, version="v1")
        return [(question, asked, DEPTH) for question in QUESTIONS]
    faults = [(question, Fault(cause, question)) for question in QUESTIONS]
    return [(question, fault.probe, DEPTH) for question, fault in faults if fault.is_lost]


def _sunk(evidence: str) -> Any:
    """A query's vector for which the evidence is among the first thirty, and not among the first six."""
    for other in IDS:
        made = vectors()[IDS.index(other)] * 0.6 + vectors()[IDS.index(evidence)] * 0.4
        scores = vectors() @ made
        rank = int((scores > scores[IDS.index(evidence)]).sum()) + 1
        if 2 * DEPTH < rank <= 10 * DEPTH:
            return made
    base = vectors().mean(axis=0) - vectors()[IDS.index(evidence)] * 0.1
    return base


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a store that is not there yet."""
    return f"sqlite:///{tmp_path}/r.db"


@pytest.fixture
def record_lost(url: str) -> Iterator[Callable[[str, FaissProbe, int], str]]:
    """Records one request of an application that searches the probe's index; gives its id."""

    def record(question: str, probe: FaissProbe, depth: int) -> str:
        ragtrace.configure(service="club", store=url, versions={"index": "v1"}, probe=probe)

        @ragtrace.retrieve
        def search(query: str, top_k: int) -> list[Any]:
            found = probe.probe(query, top_k, False)
            return [{"id": one.chunk_id, "text": one.text, "score": one.score, "source": "handbook"} for one in found]

        @ragtrace.pack
        def pack(hits: list[Any]) -> list[Any]:
            return hits

        @ragtrace.generate
        def answer(question: str, hits: list[Any]) -> str:
            return WRONG

        with ragtrace.request(query=question) as request:
            answer(question, pack(search(question, depth)))
        assert ragtrace.flush()
        return str(request.request_id)

    yield record
    ragtrace.shutdown()


def analyzed(url: str, request_id: str, **given: Any) -> Analysis:
    """The request's analysis by a worker of this process."""
    with Store.open(url) as store:
        worker.run(store, WorkerSettings(**given))
        found = store.get_analysis(request_id)
    assert found is not None
    return found


CAUSES = {
    "missed_by_search": ("missed by the approximate search", "nprobe"),
    "filtered": ("removed by a filter", "filter"),
    "below_depth": ("below the depth asked for", "Ask deeper"),
    "not_indexed": ("not indexed", "ragtrace source list"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_goes_from_the_record_to_the_postmortem(
    cause: str, url: str, record_lost: Callable[[str, FaissProbe, int], str]
) -> None:
    """With gold evidence: the verdict, the stored finding, `show`, triage and the postmortem name it with its fix."""
    words, fix = CAUSES[cause]
    lost = lost_by(cause)
    assert lost, "the index finds the evidence of every question: nothing is tried here"
    question, probe, depth = lost[0]
    request_id = record_lost(question, probe, depth)
    with Store.open(url) as store:
        store.put_gold([Gold(service="club", question=question, chunk_ids=(QUESTIONS[question],))])
    analysis = analyzed(url, request_id)
    verdict = analysis.diagnosis
    assert (verdict.verdict, verdict.stage, verdict.cause) == ("recall_failure", "retrieval", cause)
    assert analysis.probe is not None
    assert (analysis.probe.by_gold, analysis.probe.asked, analysis.probe.index_version) == (True, 10 * depth, "v1")
    with Store.open(url) as store:
        with store._database.read() as connection:
            row = connection.execute(sa.text("SELECT * FROM index_probe")).mappings().one()
        assert (row["request_id"], row["cause"], row["chunk_id"]) == (request_id, cause, QUESTIONS[question])
        assert (row["depth"], row["depth_asked"], row["index_version"]) == (depth, 10 * depth, "v1")
        record = store.get_record(request_id)
        assert record is not None
        shown = _printed(evidence_path.render(record, analysis))
        assert words in shown
        assert fix in shown
        report = triage_request(store, record, analysis)
        assert [(one.cause, one.words) for one in report.causes] == [(cause, words)]
        assert fix in markdown(report)
        assert f"; cause: {words}; " in report.conclusion


@pytest.mark.parametrize("cause", ["missed_by_search", "filtered", "below_depth"])
def test_without_gold_evidence_no_cause_is_a_wrong_one(cause: str) -> None:
    """Of the questions that lose their evidence so, some are told: with this cause and this evidence."""
    told = []
    for question, probe, depth in lost_by(cause):
        found = _without_gold(question, probe, depth)
        assert found.probe is not None
        if found.diagnosis.stage == "retrieval":
            assert found.diagnosis.cause == cause
            assert found.probe.chunks[0].chunk_id == QUESTIONS[question]
            told.append(question)
    assert told


def test_sound_requests_stay_so() -> None:
    """Of no question whose evidence is found does a probe of any of the indexes call the retrieval broken."""
    judged = 0
    for question in QUESTIONS:
        for cause in ("missed_by_search", "none"):
            fault = Fault(cause, question)
            if not fault.is_lost:
                judged += 1
                assert _without_gold(question, fault.probe, DEPTH).diagnosis.state("retrieval") != "broken"
    assert judged > len(QUESTIONS)


def test_a_gap_of_the_corpus_is_told_from_a_loss(url: str, record_lost: Callable[[str, FaissProbe, int], str]) -> None:
    """A version that nothing in the index states: suspected, with the sources whose owners are to be told."""
    question = "What does edition 7.3 of the race rules say about the start at the pier?"
    analysis = analyzed(url, record_lost(question, FaissProbe(flat(), vector, ids=IDS, texts=CHUNKS, version="v1"), 3))
    (finding, *_) = analysis.diagnosis.stages
    assert (finding.state, finding.reason) == ("suspected", "corpus_gap")
    assert finding.evidence[-2:] == (
        "an exact search of 30 candidates in place of 3 finds nothing better",
        "for the owners of the sources: handbook",
    )
    assert analysis.probe is not None
    assert analysis.probe.sources == ("handbook",)
    with Store.open(url) as store:
        record = store.get_record(analysis.request_id)
    assert record is not None
    assert "ask the owner of the source" in _printed(evidence_path.render(record, analysis))


def test_without_a_probe_nothing_is_called_absent_from_the_index(
    url: str, record_lost: Callable[[str, FaissProbe, int], str]
) -> None:
    """A chunk that another request got from the same version of the index is known to be there."""
    fault = Fault("none", "Who may drive the rescue boat with a helper on board?")
    record_lost(fault.question, fault.probe, DEPTH)  # it finds its evidence
    question = "When does the clubhouse bar open on weekdays?"
    known, unknown = fault.evidence, "not-known"
    with Store.open(url) as store:
        worker.run(store, WorkerSettings(probe=_silent()))
        for needed, cause in ((known, "returned_before"), (unknown, "absent_from_candidates")):
            store.put_gold([Gold(service="club", question=question, chunk_ids=(needed,))])
            analysis = analyzed(url, record_lost(question, fault.probe, DEPTH), probe=_silent())
            assert analysis.diagnosis.cause == cause
    assert RETURNED_BEFORE not in " ".join(analysis.diagnosis.evidence)


def _silent() -> CallableProbe:
    """A probe that another version of the index answers, so that it tells nothing."""
    return CallableProbe(lambda query, depth: [], version="v2")


def request_of(
    question: str, found: Sequence[Candidate], answer: str = WRONG, *, depth: int = DEPTH, **given: Any
) -> RequestRecord:
    """A request that packed all that it found."""
    chunks = tuple(PackedChunk(chunk_id=one.chunk_id, position=one.rank, text=one.text) for one in found)
    stages = (
        RetrieveRun(query=question, top_k=depth, candidates=tuple(found)),
        PackRun(packing=Packing(chunks=chunks)),
        GenerateRun(generation=Generation(answer=answer)),
    )
    return RequestRecord(
        **{"request_id": question, "service": "club", "stages": stages} | given, query=Query(original=question)
    )


def _without_gold(question: str, probe: FaissProbe, depth: int) -> Analysis:
    """The analysis of a request of that index, with a probe and without gold evidence."""
    record = request_of(question, probe.probe(question, depth, False), depth=depth)
    analysis, case = examine(record)
    return IndexProber(probe, ProbeBudget(others=1.0)).with_probe(record, analysis, case, ServiceView())


def _printed(what: Any) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(what)
    return " ".join(console.export_text().split())


def suspected(request_id: str = "r", service: str = "club") -> tuple[RequestRecord, Analysis, Any]:
    """A request whose retrieval is suspected, with what `examine` says of it."""
    names = ("dogs", "keys", "vhf")
    found = [Candidate(chunk_id=name, rank=rank, text=CHUNKS[name]) for rank, name in enumerate(names, 1)]
    question = "What is the annual mooring fee for a keelboat?"
    record = request_of(question, found, request_id=request_id, service=service)
    analysis, case = examine(record)
    assert analysis.diagnosis.state("retrieval") == "suspected"
    return record, analysis, case


def asking(answered: list[str] | None = None) -> CallableProbe:
    """A probe that returns what the request found; it notes the queries."""
    names = ("dogs", "keys", "vhf")

    def search(query: str, depth: int) -> list[dict[str, Any]]:
        if answered is not None:
            answered.append(query)
        return [{"id": name, "text": CHUNKS[name]} for name in names]

    return CallableProbe(search, exact=search)


def test_the_draw_is_by_request_and_of_the_share_that_was_given() -> None:
    """The same requests in every process; about a fifth of them; all and none at the ends."""
    ids = [f"request-{number}" for number in range(2_000)]
    drawn = [name for name in ids if ProbeBudget(others=0.2).draws(name, is_suspected=False)]
    assert drawn == [name for name in ids if ProbeBudget(others=0.2).draws(name, is_suspected=False)]
    assert 0.17 < len(drawn) / len(ids) < 0.23
    assert not any(ProbeBudget(others=0.0).draws(name, is_suspected=False) for name in ids)
    assert all(ProbeBudget().draws(name, is_suspected=True) for name in ids)


def test_so_many_requests_of_a_service_are_asked_about_in_a_minute() -> None:
    """The third one of the same minute is not; another service has its own."""
    queries: list[str] = []
    prober = IndexProber(asking(queries), ProbeBudget(a_minute=2))
    told = [prober.with_probe(*suspected(f"r{number}"), ServiceView()).probe for number in range(3)]
    assert [one is not None for one in told] == [True, True, False]
    assert prober.with_probe(*suspected("other", service="shop"), ServiceView()).probe is not None
    assert len(queries) == 9  # three searches each
    assert IndexProber(asking(), ProbeBudget(a_minute=0)).with_probe(*suspected(), ServiceView()).probe is None


def test_a_probe_that_names_its_services_is_asked_about_no_other() -> None:
    """A store may hold requests of many applications, each with an index of its own."""
    prober = IndexProber(_OfShop())
    told = [prober.with_probe(*suspected("r", service=name), ServiceView()).probe for name in ("shop", "club")]
    assert [one is not None for one in told] == [True, False]


class _OfShop:
    """A probe for one service."""

    services = ("shop",)

    def probe(self, query: str, depth: int, exact: bool) -> list[dict[str, Any]]:
        """What the request found."""
        return [{"id": name, "text": CHUNKS[name]} for name in ("dogs", "keys", "vhf")]

    def has(self, chunk: str) -> None:
        """Nobody knows."""


def test_what_nothing_is_wrong_with_is_drawn_apart() -> None:
    """A finding says whether its request was suspected or one of those that show nothing."""
    fault = Fault("none", "Who may drive the rescue boat with a helper on board?")
    sound = _without_gold(fault.question, fault.probe, DEPTH)
    assert sound.probe is not None
    assert (sound.diagnosis.state("retrieval") == "sound") == sound.probe.drawn
    told = IndexProber(asking()).with_probe(*suspected(), ServiceView()).probe
    assert told is not None
    assert (told.drawn, told.outcome) == (False, "nothing_better")


def test_a_request_whose_later_stages_are_in_doubt_is_asked_about_as_well() -> None:
    """A chunk that matches the question may be a near miss, and an answer that declines, or that nothing bears out, an
    answer without its evidence. With gold evidence nothing is lost."""
    question = "What is the annual mooring fee for a keelboat under nine metres?"
    found = [Candidate(chunk_id="mooring-fee", rank=1, text=CHUNKS["mooring-fee"])]
    answers = ("The annual mooring fee for a keelboat under nine metres is 640 euros.", WRONG)
    analyses = [examine(request_of(question, found, answer))[0] for answer in answers]
    assert {each.diagnosis.state("retrieval") for each in analyses} == {"sound"}
    assert [is_suspected(each) for each in analyses] == [False, True]
    gold = Gold(service="club", question=question, chunk_ids=("mooring-fee",))
    assert not is_suspected(examine(request_of(question, found, WRONG), gold)[0])


def test_a_probe_that_raises_costs_its_finding_alone(caplog: pytest.LogCaptureFixture) -> None:
    """One warning for many failures of a kind, each counted; after an answer the next failure is said again."""
    works = False
    good = asking()

    def search(query: str, depth: int) -> Any:
        if not works:
            raise ConnectionError("no route to the index")
        return good.search(query, depth)

    counted: list[tuple[str, str]] = []
    prober = IndexProber(
        CallableProbe(search), ProbeBudget(a_minute=99), on_fault=lambda name, kind, text: counted.append((name, kind))
    )
    with caplog.at_level(logging.WARNING, "ragtrace.analyze"):
        for number in range(3):
            record, analysis, case = suspected(f"r{number}")
            judged = prober.with_probe(record, analysis, case, ServiceView())
            assert judged.probe is not None
            assert (judged.probe.outcome, judged.probe.why) == ("failed", "ConnectionError")
            assert judged.diagnosis == analysis.diagnosis
        assert len(caplog.records) == 1
        assert "no route to the index" in caplog.text
        assert counted == [("club", "ConnectionError")] * 3
        works = True
        prober.with_probe(*suspected("again"), ServiceView())
        works = False
        prober.with_probe(*suspected("and again"), ServiceView())
        assert len(caplog.records) == 2


def test_a_probe_that_hangs_is_let_be_until_it_returns() -> None:
    """The request is judged in time without it, and nothing else is asked meanwhile."""
    gate = threading.Event()
    kinds: list[str] = []
    good = asking()

    def search(query: str, depth: int) -> Any:
        assert gate.wait(30)
        return good.search(query, depth)

    prober = IndexProber(
        CallableProbe(search), ProbeBudget(seconds=0.05), on_fault=lambda name, kind, text: kinds.append(kind)
    )
    began = time.monotonic()
    first = prober.with_probe(*suspected("a"), ServiceView()).probe
    assert time.monotonic() - began < 10
    assert first is not None
    assert first.why == "TimeoutError"
    assert prober.with_probe(*suspected("b"), ServiceView()).probe is None
    assert kinds == ["TimeoutError"]
    gate.set()
    assert prober._hanging is not None
    prober._hanging.join(30)
    assert prober.with_probe(*suspected("c"), ServiceView()).probe is not None


def test_faults_of_a_probe_are_counted_in_the_store(url: str) -> None:
    """By service and kind, where `ragtrace doctor` and the exporter find them."""

    def fails(query: str, depth: int) -> Any:
        raise ConnectionError("no route")

    record, _, _ = suspected()
    with Store.open(url) as store:
        store.write([record])
        summary = worker.run(store, WorkerSettings(probe=CallableProbe(fails)))
        assert (summary.done, summary.failed) == (1, 0)
        assert [(one.service, one.where, one.kind, one.count) for one in store.faults()] == [
            ("club", "probe", "ConnectionError", 1)
        ]


@pytest.mark.parametrize(
    "given", [{"suspected": 1.5}, {"others": -0.1}, {"seconds": 0}, {"deeper": 0}, {"a_minute": -1}]
)
def test_a_budget_that_cannot_be_kept_is_refused(given: dict[str, Any]) -> None:
    """Shares lie from 0 to 1, the rest is positive."""
    with pytest.raises(ConfigurationError):
        ProbeBudget(**given)


def test_a_finding_goes_with_its_request(url: str) -> None:
    """And with the next analysis that has none."""
    record, _, _ = suspected()
    with Store.open(url) as store:
        store.write([record])
        worker.run(store, WorkerSettings(probe=asking()))
        assert store.counts()["index_probe"] == 1
        store.redo(again=True)
        worker.run(store)
        assert store.counts()["index_probe"] == 0


def test_a_postmortem_names_the_cause_and_what_would_have_shown_it(url: str) -> None:
    """Of a segment whose search breaks at a release: the causes, the fix, and the task that prevents it."""
    now = time.time_ns()
    lost = lost_by("missed_by_search")
    sound = [question for question in QUESTIONS if not Fault("none", question).is_lost]
    good, broken = (FaissProbe(index, vector, ids=IDS, texts=CHUNKS) for index in (flat(), ivf()))
    with Store.open(url) as store:
        store.put_gold(
            [Gold(service="club", question=question, chunk_ids=(needed,)) for question, needed in QUESTIONS.items()]
        )
        for number in range(120):
            is_broken = number >= 60
            question = lost[number % len(lost)][0] if is_broken else sound[number % len(sound)]
            found = (broken if is_broken else good).probe(question, DEPTH, False)
            at = now - (120 - number) * MINUTE
            answer = WRONG if is_broken else CHUNKS[QUESTIONS[question]]
            given: dict[str, Any] = {"request_id": f"r{number:04}", "started_at": at, "ended_at": at + 1_000_000}
            versions = {"index": "v2" if is_broken else "v1"}
            store.write([request_of(question, found, answer, versions=versions, **given)])
        worker.run(store, WorkerSettings(probe=broken, probe_budget=ProbeBudget(a_minute=1_000)))
        window = Window.of(now - 60 * MINUTE, now)
        report = triage_segment(store, "club", None, window, now=now)
        assert (report.stage, report.causes[0].cause) == ("retrieval", "missed_by_search")
        written = postmortem(store, "club", None, window, now=now)
    assert "missed by the approximate search" in written
    assert "raise nprobe" in written
    assert "Measure the recall of the approximate search" in written
