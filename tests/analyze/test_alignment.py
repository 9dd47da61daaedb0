"""The documents' ranking, and how the generator's shares agree with it."""

from __future__ import annotations

import pytest

from ragtrace.alignment import warg, warg_adjusted, warg_chance, warg_floor
from ragtrace.analyze.alignment import align, align_terms, ranking_of
from ragtrace.analyze.prompts import Unexplained
from ragtrace.explanations import GeneratorAttribution, TermUse
from ragtrace.types import RankMove, RerankRun, replace
from tests.analyze.examples import RETRIEVE, packed, request


def shared(**shares: float) -> GeneratorAttribution:
    """An attribution with these shares, certain but for their last one, in prompt order."""
    k = len(shares)
    covariance = tuple(tuple(0.01 * (i == j) for j in range(k)) for i in range(k))
    return GeneratorAttribution(
        chunk_ids=tuple(shares), shares=tuple(shares.values()), share_covariance=covariance, seed=3
    )


def test_the_rerankers_order_comes_first() -> None:
    """It, where there is one, restricted to the prompt; what it did not rank comes after, by the retriever."""
    moves = tuple(
        RankMove(chunk_id=name, rank_before=before, rank_after=after)
        for name, before, after in (("theft", 2, 1), ("old", 3, 2), ("water", 1, None))
    )
    record = request(RETRIEVE, RerankRun(moves=moves), packed("old", "water", "theft"))
    assert ranking_of(record, ("old", "water", "theft")) == ("theft", "old", "water")
    assert ranking_of(record, ("water", "old")) == ("old", "water")


def test_else_the_retrievers_order() -> None:
    """Of the packed documents; without any ranking there is none."""
    record = request(RETRIEVE, packed("old", "theft", "water"))
    assert ranking_of(record, ("old", "theft", "water")) == ("water", "theft", "old")
    assert ranking_of(request(packed("old")), ("old",)) is None


def test_alignment_is_that_of_the_rankings() -> None:
    """WARG with floor and chance at each p, by descending share."""
    found = align(("a", "b", "c", "d"), shared(d=0.0, a=3.0, c=2.0, b=1.0))
    assert found.generator == ("a", "c", "b", "d")
    assert found.ps == (0.5, 0.6, 0.7, 0.8, 0.9)
    at = found.ps.index(0.9)
    assert found.warg[at] == warg(list("abcd"), list("acbd"), 0.9)
    assert (found.floor[at], found.chance[at]) == (warg_floor(4, 0.9), warg_chance(4, 0.9))
    assert found.adjusted[at] == warg_adjusted(list("abcd"), list("acbd"), 0.9)
    assert (found.wasted_retrieval, found.noise_distraction) == (False, False)
    assert (found.wasted_probability, found.noise_probability) == (0.0, 0.0)
    assert (found.ties, found.spearman) == (0, 0.8)


@pytest.mark.parametrize(("full", "is_unused"), [(-1.02, True), (-1.15, False), (-0.92, True), (-0.8, False)])
def test_what_is_not_used_is_not_wasted(full: float, is_unused: bool) -> None:
    """No flag where all documents together add (or take) less than 0.1 nats a token; the ranking is compared all the
    same."""
    found = align(tuple("abcd"), replace(shared(a=0.0, b=1.0, c=0.9, d=1.05), empty=-1.0, full=full))
    assert found.unused is is_unused
    flags = (found.wasted_retrieval, found.noise_distraction, found.wasted_probability is None)
    assert flags == ((None, None, True) if is_unused else (True, True, False))
    assert found.warg


def test_likeness_is_never_unused() -> None:
    """Its scale is another one."""
    alike = replace(shared(a=0.0, b=1.0, c=0.9, d=1.05), unit="similarity", empty=0.5, full=0.5)
    assert align(tuple("abcd"), alike).unused is False


def test_flags_are_as_sure_as_the_shares() -> None:
    """Shares whose difference is within their errors leave the flag open."""
    found = align(tuple("abcd"), shared(a=0.0, b=1.0, c=0.9, d=1.05))
    assert found.wasted_retrieval is True
    assert found.noise_distraction is True
    assert found.wasted_probability == 1.0
    assert 0.4 < (found.noise_probability or 0.0) < 0.9
    unsure = GeneratorAttribution(chunk_ids=tuple("abcd"), shares=(0.0, 1.0, 0.9, 1.05))
    assert align(tuple("abcd"), unsure).noise_probability is None


def test_equal_shares_are_ties_in_the_rankings_order() -> None:
    """They keep the order of the ranking, and are counted."""
    found = align(tuple("cabd"), shared(a=1.0, b=1.0, c=1.0, d=2.0))
    assert found.generator == tuple("dcab")
    assert found.ties == 2
    assert found.noise_distraction is True


@pytest.mark.parametrize("shares", [{"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}, {"a": 1.0, "b": 1.00003}])
def test_equal_shares_alone_are_no_ranking(shares: dict[str, float]) -> None:
    """The ranking would be compared with itself, and an answer that uses no document would agree with it entirely."""
    with pytest.raises(Unexplained, match="all documents have the same share"):
        align(tuple(shares), shared(**shares))


@pytest.mark.parametrize("ranking", [None, ("a",)])
def test_without_an_order_there_is_nothing_to_compare(ranking: tuple[str, ...] | None) -> None:
    """No ranking, or a single document."""
    with pytest.raises(Unexplained, match=r"ranking is not known|only one order"):
        align(ranking, shared(a=1.0))


def test_shares_that_a_model_cannot_tell_apart_tie() -> None:
    """Documents with the same text keep the retriever's order, and no flag hangs on the last digits."""
    ranking = ("a", "b", "c", "d", "e")
    certain = ((0.0,) * 5,) * 5
    for less in (0.0, 3e-5):
        shares = {"a": 2.0 - less, "b": 0.2, "c": 0.1, "d": 0.0, "e": 2.0}
        generator = GeneratorAttribution(
            chunk_ids=tuple(shares), shares=tuple(shares.values()), share_covariance=certain
        )
        found = align(ranking, generator)
        assert (found.generator, found.ties) == (("a", "e", "b", "c", "d"), 1)
        assert (found.noise_distraction, found.noise_probability) == (False, 0.0)
    apart = GeneratorAttribution(chunk_ids=ranking, shares=(2.0 - 1e-3, 0.2, 0.1, 0.0, 2.0), share_covariance=certain)
    assert align(ranking, apart).noise_distraction
    assert align(ranking, apart).noise_probability == 1.0


def _words(*shares: float) -> GeneratorAttribution:
    spans = tuple((at, at + 1) for at in range(len(shares)))
    covariance = tuple(tuple(1e-6 * (i == j) for j in range(len(shares))) for i in range(len(shares)))
    return GeneratorAttribution(
        players="words", query_spans=spans, shares=shares, share_covariance=covariance, empty=0.0, full=sum(shares)
    )


def _terms(*parts: float) -> list[TermUse]:
    return [TermUse(text="w", place=(at, at + 1), retriever=part) for at, part in enumerate(parts)]


def test_terms_are_aligned_as_documents_are() -> None:
    """WARG and both flags compare the order of retrieval's terms with that of the answer's."""
    found = align_terms([*_terms(0.4, 0.3, 0.2, 0.1), TermUse(text="else", retriever=0.9)], _words(0.1, 0.2, 0.3, 0.4))
    documents = align(list("abcd"), GeneratorAttribution(chunk_ids=tuple("abcd"), shares=(0.1, 0.2, 0.3, 0.4)))
    assert found.retriever == ("0:1", "1:2", "2:3", "3:4")
    assert found.generator == found.retriever[::-1]
    assert (found.warg, found.adjusted, found.spearman) == (documents.warg, documents.adjusted, documents.spearman)
    assert (found.wasted_retrieval, found.noise_distraction) == (True, True)
    assert found.wasted_probability == pytest.approx(1.0)
    same = align_terms(_terms(0.4, 0.3, 0.2, 0.1), _words(0.4, 0.3, 0.2, 0.1))
    assert (same.wasted_retrieval, same.noise_distraction, same.adjusted[-1]) == (False, False, 0.0)


def test_terms_without_an_order() -> None:
    """Of scores to which no term adds, and of an answer that needs all alike, nothing is said."""
    with pytest.raises(Unexplained, match="no term of the question"):
        align_terms(_terms(0.0, 0.0), _words(0.1, 0.2))
    with pytest.raises(Unexplained, match="all words have the same share"):
        align_terms(_terms(0.5, 0.1), _words(0.2, 0.2))
