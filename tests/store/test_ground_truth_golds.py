"""Gold sets are found by the words of their question."""

from __future__ import annotations

from ragtrace.store import Store
from ragtrace.types import Facet, Gold

GOLD = Gold(
    service="shop",
    question="What is the Fee?",
    chunk_ids=("c1", "c2"),
    query_class="fees",
    facets=(Facet(kind="entity", value="fee"),),
)


def test_case_and_white_space_make_no_difference(store: Store) -> None:
    """A gold set is found by its question however that is spaced and capitalized, in its service only."""
    assert store.put_gold([GOLD]) == 1
    assert store.find_golds([("shop", "  what is\tthe fee? ")]).get(("shop", "  what is\tthe fee? ")) == GOLD
    assert store.find_golds([("other", "What is the Fee?")]).get(("other", "What is the Fee?")) is None
    assert store.find_golds([("shop", "What is the price?")]).get(("shop", "What is the price?")) is None


def test_a_gold_set_is_replaced(store: Store) -> None:
    """The last one of a question stands, also within one batch."""
    newer = Gold(service="shop", question="what is the fee?", chunk_ids=("c9",))
    store.put_gold([GOLD])
    assert store.put_gold([GOLD, newer]) == 1
    assert store.find_golds([("shop", "What is the Fee?")]).get(("shop", "What is the Fee?")) == newer
    assert store.counts()["gold"] == 1


def test_many_questions_are_found_at_once(store: Store) -> None:
    """Each pair as given leads to its gold set; unknown ones are absent."""
    golds = [Gold(service=f"s{number % 2}", question=f"question {number}") for number in range(1_200)]
    assert store.put_gold(golds) == 1_200
    asked = {(gold.service, gold.question.upper()): gold for gold in golds}
    assert store.find_golds([*asked, ("s0", "question 1")]) == asked
    assert store.find_golds([]) == {}
