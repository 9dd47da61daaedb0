"""What of two requests counts as the same: nothing that the verdict on a stage reads may differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from ragtrace.gate._sameness import trace_of, unchanged
from ragtrace.types import Citation, GenerateRun, Generation, RequestRecord, RetrieveRun, Stage
from tests.gate.asked import judged

_ANSWER = "Theft is covered up to 500 EUR [1]."


def _record(request_id: str, answer: str = _ANSWER, marks: Sequence[Citation] = (), **other: Any) -> RequestRecord:
    record, _ = judged(request_id, answer, **other)
    generation = record.generation
    assert generation is not None
    run = GenerateRun(generation=msgspec.structs.replace(generation, citations=tuple(marks)))
    return msgspec.structs.replace(record, stages=(*record.stages[:-1], run))


def _same(one: RequestRecord, two: RequestRecord) -> set[Stage]:
    found = unchanged([trace_of(one)], [trace_of(two)], np.zeros((1, 2), dtype=np.int64))
    return {stage for stage, marks in found.items() if marks[0]}


def _cited(chunk_id: str | None) -> tuple[Citation]:
    return (Citation(marker="cite", chunk_id=chunk_id, start=0, end=29),)


def test_what_is_alike_is_the_same_in_every_stage() -> None:
    """With citations of the host as well."""
    stages = {"retrieval", "ranking", "generation", "citation"}
    assert _same(_record("a"), _record("b")) == stages
    assert _same(_record("a", marks=_cited("c1")), _record("b", marks=_cited("c1"))) == stages


@pytest.mark.parametrize("cited", ["c2", None, "elsewhere"])
def test_the_same_answer_may_cite_something_else(cited: str | None) -> None:
    """Another chunk, none that is there: only the citation changed."""
    one, two = _record("a", marks=_cited("c1")), _record("b", marks=_cited(cited))
    assert _same(one, two) == {"retrieval", "ranking", "generation"}


def test_another_numbering_makes_marks_name_other_chunks() -> None:
    """[1] is the first chunk of a prompt that counts from 1, and the second of one that counts from 0."""
    templates = [f"[{first}] {{chunk:c1}}\n[{first + 1}] {{chunk:c2}}\nNow." for first in (1, 0)]
    one, two = (_record(name, template=template) for name, template in zip("ab", templates, strict=True))
    assert _same(one, two) == {"retrieval", "ranking", "generation"}
    bare, other = (_record(name, "Covered.", template=each) for name, each in zip("ab", templates, strict=True))
    assert "citation" in _same(bare, other)


def test_all_that_models_were_given_is_compared() -> None:
    """A draft was made of an earlier prompt, which lost what it held; the last one is the same."""

    def drafted(request_id: str, first: str) -> RequestRecord:
        early, late = _record(request_id, packed=(first,)), _record(request_id, packed=("c2",))
        draft = GenerateRun(generation=Generation(answer="A draft."))
        return msgspec.structs.replace(late, stages=(*early.stages[:-1], draft, *late.stages[1:]))

    assert "ranking" in _same(drafted("a", "c1"), drafted("b", "c1"))
    assert _same(drafted("a", "c1"), drafted("b", "c3")) == {"retrieval"}


def test_what_is_not_recorded_is_not_known_to_be_the_same() -> None:
    """A retrieval that nobody recorded, and candidates of which one has no text."""

    def unrecorded(record: RequestRecord) -> RequestRecord:
        return msgspec.structs.replace(record, stages=record.stages[1:])

    def textless(record: RequestRecord) -> RequestRecord:
        first, *rest = record.candidates
        run = RetrieveRun(candidates=(msgspec.structs.replace(first, text=None), *rest))
        return msgspec.structs.replace(record, stages=(run, *record.stages[1:]))

    for lacking in (unrecorded, textless):
        assert "retrieval" not in _same(lacking(_record("a")), lacking(_record("b")))
