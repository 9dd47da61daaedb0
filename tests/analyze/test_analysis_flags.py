"""Flags that a request earns by what it holds."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.analyze import analyze_record, flags_of, screen
from ragtrace.types import Candidate, GenerateRun, Generation, RequestRecord, RetrieveRun, Score, replace
from tests.analyze.examples import RERANK, RETRIEVE, packed, request


def scored(*scores: float | None) -> RequestRecord:
    """A request whose candidates have these scores."""
    candidates = tuple(Candidate(chunk_id=str(rank), rank=rank, score=score) for rank, score in enumerate(scores, 1))
    return request(RetrieveRun(candidates=candidates))


def test_a_healthy_request_has_no_flag() -> None:
    """Neither by itself nor by its analysis."""
    record = request()
    assert flags_of(record, analyze_record(record), 0.5) == ()
    assert screen(record) == ()


def test_an_abstention() -> None:
    """The answer as a whole declines."""
    assert flags_of(request(answer="I do not know.")) == ("abstention",)
    assert flags_of(request(answer="We pay €5,000. I do not know more.")) == ()


@pytest.mark.parametrize(
    ("scores", "low", "flags"),
    [
        ((0.4, 0.3), 0.5, ("low_retrieval_score",)),
        ((0.4, 0.5), 0.5, ()),
        ((0.4, None), 0.5, ("low_retrieval_score",)),
        ((None, None), 0.5, ()),
        ((), 0.5, ()),
        ((0.4, 0.3), None, ()),
    ],
)
def test_a_low_retrieval_score(scores: tuple[float | None, ...], low: float | None, flags: tuple[str, ...]) -> None:
    """Only where the host said what is low, and a score is known."""
    assert flags_of(scored(*scores), low_score=low) == flags


@pytest.mark.parametrize(
    ("metric", "value", "flags"),
    [
        ("query_coverage", 0.5, ("low_coverage",)),
        ("joint_query_coverage", 0.5, ("low_coverage",)),
        ("evidence_recall", 0.5, ("low_coverage",)),
        ("answer_coverage", 0.5, ("low_coverage",)),
        ("answer_coverage", 0.9, ()),
        ("answer_coverage", None, ()),
        ("citation_coverage", 0.0, ()),
        ("contradiction_rate", 0.5, ("contradiction",)),
        ("contradiction_rate", 0.05, ()),
    ],
)
def test_the_objectives_decide(metric: str, value: float | None, flags: tuple[str, ...]) -> None:
    """Those of the registry, as in the diagnosis; an undefined metric and citations flag nothing."""
    record = request()
    analysis = replace(analyze_record(record), scores=(Score(metric=metric, value=value),))
    assert flags_of(record, analysis) == flags


def test_both_ways_raise_the_same_flags() -> None:
    """An answer that contradicts its prompt: by the worker's analysis and by the screening."""
    stages: Any = (
        RETRIEVE,
        RERANK,
        packed("water"),
        GenerateRun(generation=Generation(answer="We pay up to €9,000 for escape of water [1].")),
    )
    record = request(*stages)
    flags = flags_of(record, analyze_record(record))
    assert "contradiction" in flags
    assert screen(record) == flags
