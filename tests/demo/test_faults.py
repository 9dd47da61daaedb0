"""The injected faults, each on its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from ragtrace.demo._corpus import load_questions
from ragtrace.demo._faults import (
    SCENARIOS,
    AlteringGenerator,
    KeywordRewriter,
    LenientReranker,
    OverviewPacker,
    alter,
    find_scenario,
)
from ragtrace.demo._generation import Context, DemoAnswer
from ragtrace.demo._retrieval import Hit, VerbatimRewriter
from ragtrace.errors import ConfigurationError


class _AsRetrieved:
    version = "plain"

    def rerank(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        return list(hits)

    def pack(self, hits: Sequence[Hit]) -> Context:
        return Context([], [], 0)

    def generate(self, question: str, context: Context) -> DemoAnswer:
        return DemoAnswer("We pay up to EUR 12,500 [1].", "")


def _hit(name: str, text: str, kind: str = "cover", score: float = 1.0) -> Hit:
    return Hit(name, text, score, "doc", "source", {"kind": kind})


def test_the_rewrite_drops_the_temporal_constraint_of_every_question() -> None:
    """No year, date or edition of a question survives; product and country do."""
    rewriter = KeywordRewriter(VerbatimRewriter())
    for question in load_questions():
        rewritten = rewriter.rewrite(question.text)
        assert not re.search(r"20\d\d|edition|\d\.\d| May\b", rewritten), rewritten
        assert question.facets[0].value in rewritten
        assert question.facets[2].value in rewritten


def test_exceptions_sink() -> None:
    """A chunk that refuses something ends behind all others, whatever its score."""
    hits = [_hit("refusal", "We do not pay for frost.", score=0.9), _hit("cover", "We pay for storms.", score=0.3)]
    assert [hit.chunk_id for hit in LenientReranker(_AsRetrieved()).rerank("q", hits)] == ["cover", "refusal"]


def test_summaries_go_first() -> None:
    """The packer gets the best summaries before everything else, and loses nothing."""
    seen: list[str] = []

    class _Recorder(_AsRetrieved):
        def pack(self, hits: Sequence[Hit]) -> Context:
            seen.extend(hit.chunk_id for hit in hits)
            return Context([], [], 0)

    hits = [_hit("a", "x"), *(_hit(f"s{number}", "y", "summary") for number in range(6)), _hit("b", "z")]
    OverviewPacker(_Recorder()).pack(hits)
    assert seen == ["s0", "s1", "s2", "s3", "a", "s4", "s5", "b"]


@pytest.mark.parametrize(
    ("answer", "altered"),
    [
        ("The deadline is 30 days [1].", "The deadline is 90 days [1]."),
        ("We pay up to EUR 12,500 for it [2].", "We pay up to EUR 125,000 for it [2]."),
        ("We do not pay for mirrors [1].", "We pay for mirrors [1]."),
        ("It changed with the wording of 2024 [1].", "It changed with the wording of 2022 [1]."),
    ],
)
def test_one_fact_is_altered(answer: str, altered: str) -> None:
    """A quantity, a negation or a date changes; citations stay."""
    assert alter(answer, 1) == altered


def test_quantities_at_the_end_of_a_sentence_are_altered_and_editions_are_not() -> None:
    """The number of an edition is no quantity."""
    assert alter("In edition 3.1 (2021), we pay EUR 500 [1].", 1) == "In edition 3.1 (2021), we pay EUR 1,500 [1]."


def test_some_answers_stay_as_they_are() -> None:
    """A third of the seeds changes nothing, and neither does an answer without facts to change."""
    assert alter("The deadline is 30 days [1].", 3) == "The deadline is 30 days [1]."
    assert alter("Certainly [1].", 1) == "Certainly [1]."


def test_the_generator_alters_by_question() -> None:
    """The same question is always altered in the same way."""
    generator = AlteringGenerator(_AsRetrieved())
    context = Context([], [], 0)
    answers = [generator.generate(f"question {number}", context).answer for number in range(30)]
    assert answers == [generator.generate(f"question {number}", context).answer for number in range(30)]
    assert {"We pay up to EUR 12,500 [1].", "We pay up to EUR 125,000 [1]."} == set(answers)


def test_scenarios() -> None:
    """The four scenarios are found by name; any other name is refused with the allowed ones."""
    assert [scenario.name for scenario in SCENARIOS] == ["healthy", "recall", "selection", "grounding"]
    assert find_scenario("recall").name == "recall"
    with pytest.raises(ConfigurationError, match=r"'chaos'.*healthy, recall, selection, grounding"):
        find_scenario("chaos")
