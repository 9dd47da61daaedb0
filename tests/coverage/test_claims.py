"""Claims and citations of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.coverage import (
    citation_coverage,
    citation_precision,
    citation_recall,
    dangling_citations,
    find_citations,
    is_abstention,
    split_claims,
)
from ragtrace.types import Citation, Claim, PackedChunk

PACKED = [PackedChunk(chunk_id=f"chunk-{place}", position=place) for place in range(1, 6)]


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("It is so [1].", ["chunk-1"]),
        ("It is so [1, 3-5].", ["chunk-1", "chunk-3", "chunk-4", "chunk-5"]),
        ("It is so (Document 2).", ["chunk-2"]),
        ("It is so (sources: 2, 3).", ["chunk-2", "chunk-3"]),
        ("It is so 【3†source】.", ["chunk-3"]),
        ("It is so [^4].", ["chunk-4"]),
        ("It is so [chunk-5].", ["chunk-5"]),
        ("It is so [9].", [None]),
        ("It is so [sic].", []),
        ("It is so (2024).", []),
    ],
)
def test_citation_marks_are_resolved_to_packed_chunks(text: str, chunks: list[str | None]) -> None:
    """Numbers count prompt places from 1; a mark without a chunk is dangling; brackets alone are no citation."""
    found = find_citations(text, PACKED)
    assert [citation.chunk_id for citation in found] == chunks
    assert all(text[citation.start : citation.end] == citation.marker for citation in found)


def test_claims_know_what_states_something() -> None:
    """Greetings, questions, headings and refusals are not factual."""
    answer = "Sure!\n# Cover\nThe limit is €5 [1]. Does that help? I could not find the year. Please contact us."
    assert [(claim.text, claim.factual) for claim in split_claims(answer, PACKED)] == [
        ("Sure!", False),
        ("# Cover", False),
        ("The limit is €5 [1].", True),
        ("Does that help?", False),
        ("I could not find the year.", False),
        ("Please contact us.", False),
    ]


@pytest.mark.parametrize(
    ("answer", "abstains"),
    [
        ("I don't know.", True),
        ("The documents do not mention a limit.", True),
        ("There is not enough information in the context to answer.", True),
        ("I don't know the year, but the limit is €5.", True),
        ("I cannot find the year. The limit is €5.", False),
        ("The limit is €5.", False),
        ("", False),
    ],
)
def test_abstention_is_the_whole_answer(answer: str, abstains: bool) -> None:
    """An answer that states something beside its refusal is no abstention."""
    assert is_abstention(answer) is abstains


@given(st.text(max_size=300))
def test_claims_slice_the_answer(answer: str) -> None:
    """Offsets always slice to the claim's text, and citations lie inside their claim."""
    for claim in split_claims(answer, PACKED):
        assert answer[claim.start : claim.end] == claim.text
        assert all(claim.start <= (mark.start or 0) < claim.end for mark in claim.citations)


def cited(support: float, *chunks: str | None, factual: bool = True) -> Claim:
    """A claim with citations of the given chunks."""
    marks = tuple(Citation(marker="[?]", chunk_id=chunk, start=0) for chunk in chunks)
    return Claim(start=0, end=1, text="x", factual=factual, support=support, citations=marks)


def test_citation_metrics() -> None:
    """Coverage counts claims, precision citations, recall supported claims; dangling marks cite nothing."""
    claims = [cited(1.0, "a"), cited(1.0, "b", None), cited(0.0, None), cited(0.0, factual=False)]
    supports = [{"a": 1.0}, {"a": 1.0, "b": 0.0}, {}, {}]
    assert citation_coverage(claims) == pytest.approx(2 / 3)
    assert citation_precision(claims, supports) == 0.5
    assert citation_recall(claims, supports) == 0.5
    assert dangling_citations(claims) == 2.0


def test_citation_metrics_without_claims_are_undefined() -> None:
    """No factual claims, no citations: None, not zero and not one."""
    assert citation_coverage([cited(0.0, factual=False)]) is None
    assert citation_precision([cited(1.0)], [{}]) is None
    assert citation_recall([cited(0.0)], [{}]) is None
    assert dangling_citations([cited(1.0)]) is None
