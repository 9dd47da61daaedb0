"""Owen values: their definition over all orders in which parts stay together, the axioms, and a budget."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.attribution import PartitionTree, balanced_tree, owen_values, shapley_values
from ragtrace.errors import AttributionError

TREES: dict[str, PartitionTree] = {
    "balanced": balanced_tree(range(6)),
    "chain": (((((0, 1), 2), 3), 4), 5),
    "sides": ((0, 1), ((2, 3), (4, 5))),
    "crossed": ((5, 0), ((3, 1), (2, 4))),
    "one": 0,
}


def game_of(players: int, seed: int = 0) -> Callable[[NDArray[np.bool_]], NDArray[np.float64]]:
    """A game with a value of its own, of two outputs, for every coalition."""
    table = np.random.default_rng(seed).normal(size=(2**players, 2))
    return lambda coalitions: table[coalitions @ (1 << np.arange(players))]


def orders(part: PartitionTree) -> list[list[int]]:
    """All orders of the players in which those of a part stand together: of two children one is first, or the other."""
    if isinstance(part, int):
        return [[part]]
    one, other = (orders(child) for child in part)
    return [[*a, *b] for a in one for b in other] + [[*b, *a] for a in one for b in other]


def by_orders(game: Callable[[NDArray[np.bool_]], NDArray[np.float64]], tree: PartitionTree) -> NDArray[np.float64]:
    """The mean over these orders of what each player adds when it enters: the definition."""
    every = orders(tree)
    values = np.zeros((len(every[0]), 2))
    for order in every:
        there = np.zeros((1, len(order)), dtype=bool)
        before = game(there)[0]
        for player in order:
            there[0, player] = True
            values[player] += game(there)[0] - before
            before = game(there)[0]
    return values / len(every)


@pytest.mark.parametrize("tree", TREES)
def test_the_definition(tree: str) -> None:
    """Exact for each shape of tree, and the sum is what all together add."""
    players = 1 if tree == "one" else 6
    game = game_of(players)
    found = owen_values(game, TREES[tree])
    assert found.is_exact
    assert found.values == pytest.approx(by_orders(game, TREES[tree]), abs=1e-12)
    assert found.completeness_delta < 1e-12
    assert found.evaluations <= 2**players


def test_two_players_are_shapleys() -> None:
    """Where the tree forbids no order; and three players' tree forbids some."""
    assert owen_values(game_of(2), (0, 1)).values == pytest.approx(np.asarray(shapley_values(game_of(2), 2).values))
    assert len(orders(((0, 1), 2))) < len(list(permutations(range(3))))


def test_dummies_and_additive_games() -> None:
    """Who adds nothing gets nothing; who always adds the same gets that."""
    worth = np.array([0.0, 2.0, -1.0, 0.5, 0.0])
    found = owen_values(lambda coalitions: (coalitions @ worth)[:, None], balanced_tree(range(5)))
    assert found.values[:, 0] == pytest.approx(worth, abs=1e-12)


@pytest.mark.parametrize("budget", [2, 3, 5, 9, 17])
def test_a_budget_keeps_the_sum(budget: int) -> None:
    """Few evaluations: what stays closed is spread over its players."""
    found = owen_values(game_of(6), TREES["sides"], budget)
    assert found.evaluations <= budget + 1
    assert found.completeness_delta < 1e-12
    assert not found.is_exact
    if budget == 2:
        assert np.ptp(found.values, axis=0) == pytest.approx([0.0, 0.0])


def test_what_is_worth_most_is_opened_first() -> None:
    """The one word that matters is found with twice as many evaluations as there are players, not 128 times as many."""

    def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        return coalitions[:, [77]].astype(np.float64)

    found = owen_values(game, balanced_tree(range(128)), budget=270)
    assert found.values[77, 0] > 0.99
    assert found.evaluations <= 271


def test_what_cannot_be_attributed() -> None:
    """Trees without players or with one twice, a budget of one, a game of another shape."""
    for call in (
        lambda: balanced_tree([]),
        lambda: owen_values(game_of(2), (0, 0)),
        lambda: owen_values(game_of(2), (0, 1), 1),
        lambda: owen_values(lambda coalitions: np.zeros(len(coalitions)), (0, 1)),
    ):
        with pytest.raises(AttributionError):
            call()
