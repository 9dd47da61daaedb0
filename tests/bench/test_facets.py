"""Facets read from the questions to develop on: nearly all are right, and nearly all that is required is read."""

from __future__ import annotations

import pytest

from bench.facets import Label, measure, read_questions
from ragtrace.types import Facet

WRITTEN = ("law", "standards", "finance", "medicine", "software", "travel", "support")
PUBLISHED = ("clapnq", "mtrag", "expertqa")


@pytest.mark.parametrize("origins", [WRITTEN, (*WRITTEN, *PUBLISHED)], ids=["written", "all"])
def test_facets_of_questions_are_those_that_a_reader_requires(origins: tuple[str, ...]) -> None:
    """Precision, of weak terms too, is 0.92 or more; recall of names, times, places and numbers 0.88 or more."""
    questions = [question for question in read_questions("development") if question.origin in origins]
    if {question.origin for question in questions} != set(origins):
        pytest.skip("no data sets of published questions; set RAGTRACE_BENCH_DATA")
    figures = measure(questions)
    assert figures.precision >= 0.92, figures.wrong
    assert figures.recall >= 0.88, figures.wrong


def test_half_of_the_questions_are_legal_or_technical() -> None:
    """Of those that were written for this, but for the part that was written blind."""
    parts = {part: read_questions(part) for part in ("development", "mixed")}
    written = [each for questions in parts.values() for each in questions if each.origin not in PUBLISHED]
    hard = [each for each in written if each.origin in ("law", "standards", "software", "technical")]
    assert len(written) == 167
    assert len(hard) > len(written) / 2


@pytest.mark.parametrize(
    ("label", "facet", "met"),
    [
        (Label(frozenset({"entity"}), ("acme corp",), True), Facet(kind="entity", value="Acme Corp"), True),
        (Label(frozenset({"entity"}), ("acme corp",), True), Facet(kind="entity", value="Acme"), False),
        (Label(frozenset({"entity"}), ("acme corp",), True), Facet(kind="jurisdiction", value="Acme Corp"), False),
        (Label(frozenset({"term"}), ("ground rent",), False), Facet(kind="entity", value="rent", weak=True), True),
        (Label(frozenset({"term"}), ("ground rent",), False), Facet(kind="entity", value="ground", weak=True), False),
        (Label(frozenset({"time"}), ("q1 2023",), True), Facet(kind="time", value="in Q1 2023"), True),
    ],
)
def test_a_facet_is_right_where_it_is_the_whole_of_a_label(label: Label, facet: Facet, met: bool) -> None:
    """A part of a name is wrong; a term may leave out what describes it."""
    assert label.is_met(facet) is met
