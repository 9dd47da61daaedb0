"""Who used each term of a question: worked out by hand."""

from __future__ import annotations

import pytest

from ragtrace.explanations import Explanation, GeneratorAttribution, RetrieverAttribution, TokenWeights
from ragtrace.export._question_terms import QuestionTerm, question_terms
from ragtrace.export.explanation_html import sections
from ragtrace.types import Candidate, Query, RequestRecord, RetrieveRun, replace
from tests.export.explained import left_out, record

QUESTION = "Is theft covered abroad?"
ASKED = RequestRecord(request_id="r", service="s", segment="t", query=Query(original=QUESTION))


def _found(query: TokenWeights) -> Explanation:
    """The retriever's weights, and for the answer: theft 0.4, covered 0.05, abroad 0.2 nats."""
    return Explanation(
        query=GeneratorAttribution(
            players="words",
            query_spans=((0, 2), (3, 8), (9, 16), (17, 23), (23, 24)),
            shares=(-0.1, 0.4, 0.05, 0.2, 0.9),
        ),
        retriever=(RetrieverAttribution(chunk_id="c", query=query),),
    )


def _by_text(terms: tuple[QuestionTerm, ...]) -> dict[str, tuple[float, float, str]]:
    return {
        one.text: (pytest.approx(one.retriever), pytest.approx(one.generator), one.used_by)  # type: ignore[misc]
        for one in terms
    }


def test_a_term_is_used_from_a_quarter_of_the_strongest_one() -> None:
    """Parts of words add up, special tokens and marks are no terms, and what lowers the score is not used."""
    spans = ((0, 0), (0, 2), (2, 6), (6, 8), (8, 16), (16, 23), (23, 24))  # as a tokenizer cuts it, spaces first
    weights = (5.0, 0.0, 0.3, 0.1, 0.3, -0.2, 2.0)
    assert _by_text(question_terms(ASKED, _found(TokenWeights(spans=spans, weights=weights)))) == {
        "Is": (0.0, -0.25, "neither"),
        "theft": (1.0, 1.0, "both"),
        "covered": (0.75, 0.125, "retriever"),
        "abroad": (-0.5, 0.5, "generator"),
    }


def test_a_rewritten_question_is_joined_by_its_terms() -> None:
    """The retriever was asked in other words: a term counts where it stands there."""
    rewritten = "abroad THEFT insurance"
    asked = replace(ASKED, stages=(RetrieveRun(query=rewritten, candidates=(Candidate(chunk_id="c", rank=1),)),))
    weights = TokenWeights(spans=((0, 6), (7, 12), (13, 22)), weights=(0.1, 0.2, 0.7))
    used = {one.text: one.used_by for one in question_terms(asked, _found(weights))}
    assert used == {"Is": "neither", "theft": "both", "covered": "neither", "abroad": "both"}


def test_nothing_is_said_of_one_side_alone() -> None:
    """Without the answer's side, or without the retriever's, there is no comparison."""
    whole = _found(TokenWeights(spans=((3, 8),), weights=(1.0,)))
    assert question_terms(ASKED, replace(whole, query=None)) == ()
    assert question_terms(ASKED, replace(whole, retriever=())) == ()


def test_a_closed_model_colors_the_parts_of_the_prompt_by_their_weight() -> None:
    """From no color at 0 to the strongest at 1, in the order of the prompt, each with its figure."""
    body, _ = sections(record(), left_out((0.0, 1.0, 0.5)))
    parts = [line for line in body.splitlines() if '<p class="part">' in line]
    for line, shown in zip(parts, (("0.00", "s0"), ("1.00", "s8"), ("0.50", "s4")), strict=True):
        assert f"<b>{shown[0]}</b>" in line
        assert f'<i class="{shown[1]}">' in line
