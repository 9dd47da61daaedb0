"""What is read from a stored explanation by itself."""

from __future__ import annotations

import pytest

from ragtrace.explanations import (
    Explanation,
    GeneratorAttribution,
    RetrieverAttribution,
    TermUse,
    TokenWeights,
    term_uses,
)
from ragtrace.types import replace

QUESTION = "When was the old bridge built?"
SPANS = ((0, 4), (5, 8), (9, 12), (13, 16), (17, 23), (24, 29))  # When was the old bridge built


def _query(*shares: float) -> GeneratorAttribution:
    return GeneratorAttribution(players="words", query_spans=SPANS, shares=shares)


def _why(query: TokenWeights, number: int = 0, chunk_id: str = "a") -> RetrieverAttribution:
    return RetrieverAttribution(chunk_id=chunk_id, query=query, query_number=number)


def _used(terms: tuple[TermUse, ...]) -> dict[str, str]:
    return {term.text: term.used_by for term in terms}


def test_who_went_by_which_term() -> None:
    """Tokens of a word are summed; the fewest words that hold half of the mass are used."""
    tokens = TokenWeights(spans=((0, 4), (12, 16), (16, 20), (20, 23), (23, 29)), weights=(0.1, 0.2, 0.5, 0.4, 0.6))
    found = Explanation(query=_query(1.2, 0.0, -0.5, 0.0, 1.0, 0.1), retriever=(_why(tokens),))
    terms = term_uses(found, QUESTION)
    assert [term.used_by for term in terms] == ["generator", *["neither"] * 3, "retriever", "neither"]
    assert terms[4].retriever == pytest.approx(0.9 / 1.8)
    assert [term.place for term in terms] == list(SPANS)
    assert terms[2].generator == pytest.approx(-0.5 / 2.3)
    more = term_uses(found, QUESTION, mass=0.8)
    assert _used(more)["bridge"] == "both"
    assert _used(more)["built"] == "retriever"


def test_documents_count_alike() -> None:
    """A document with tenfold gradients has no more to say than another one."""
    large = _why(TokenWeights(spans=SPANS, weights=(0, 0, 0, 10, 30, 0)))
    small = _why(TokenWeights(spans=SPANS, weights=(0, 0, 0, 3, 0, 1)), chunk_id="b")
    terms = term_uses(Explanation(query=_query(0, 0, 0, 0, 1, 0), retriever=(large, small)), QUESTION)
    assert [term.retriever for term in terms] == pytest.approx([0, 0, 0, 0.5, 0.375, 0.125])
    assert _used(terms)["old"] == "retriever"
    assert _used(terms)["bridge"] == "generator"


def test_a_rewritten_query_is_read_by_its_words() -> None:
    """Words of the question are found whatever their case and place; others stand behind, and no generator saw them."""
    rewritten = "bridge year Built"
    tokens = TokenWeights(spans=((0, 6), (7, 11), (12, 17)), weights=(1.0, 2.0, 1.0))
    found = Explanation(query=_query(0, 0, 0, 0, 1, 0), retriever=(_why(tokens, number=1),))
    terms = term_uses(found, QUESTION, (QUESTION, rewritten))
    assert [term.retriever for term in terms] == pytest.approx([0, 0, 0, 0, 0.25, 0.25, 0.5])
    assert terms[-1] == TermUse(text="year", retriever=0.5, used_by="retriever")
    assert _used(terms)["bridge"] == "generator"


def test_both_sides_are_needed() -> None:
    """Without one of them there is no overlay; weights that are all negative make nobody use anything."""
    lowered = _why(TokenWeights(spans=SPANS, weights=(-1.0,) * 6))
    both = Explanation(query=_query(*[-1.0] * 6), retriever=(lowered,))
    assert {term.used_by for term in term_uses(both, QUESTION)} == {"neither"}
    assert term_uses(replace(both, query=None), QUESTION) == ()
    assert term_uses(replace(both, retriever=()), QUESTION) == ()
