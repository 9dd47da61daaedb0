"""Coalitions, and the log that evaluates each of them once."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.attribution.game import CoalitionLog, all_coalitions, complements, decode, encode
from ragtrace.errors import AttributionError
from tests.attribution.games import CountedGame, random_table, table_game


def test_integers_stand_for_coalitions() -> None:
    """Bit i is player i, in both directions, up to the largest number of players."""
    codes = np.array([0, 1, 6, (1 << 30) - 1])
    assert encode(decode(codes, 30)).tolist() == codes.tolist()
    assert decode(np.array([6]), 3).tolist() == [[False, True, True]]
    assert encode(all_coalitions(3)).tolist() == list(range(8))


def test_complements_follow_their_coalition() -> None:
    """Rows alternate between a coalition and everybody else."""
    assert encode(complements(decode(np.array([1, 6]), 3))).tolist() == [1, 6, 6, 1]


def test_log_asks_for_what_it_does_not_know() -> None:
    """Known coalitions, and repeated ones of one call, are not evaluated again."""
    table = random_table(3)
    game, log = CountedGame(table_game(table)), CoalitionLog(3)
    log.evaluate(game, decode(np.array([0, 7, 7, 2]), 3))
    log.evaluate(game, decode(np.array([2, 5, 0]), 3))
    log.evaluate(game, decode(np.array([5]), 3))
    assert dict(game.seen) == {0: 1, 7: 1, 2: 1, 5: 1}
    assert game.calls == 2
    assert np.array_equal(log.values_of(decode(np.array([5, 0]), 3)), table[[5, 0]])


def test_log_survives_storage() -> None:
    """A log built from its own arrays knows the same."""
    log = CoalitionLog(3)
    log.evaluate(table_game(random_table(3)), all_coalitions(3))
    again = CoalitionLog(3, log.coalitions, log.values)
    assert np.array_equal(again.values_of(all_coalitions(3)), log.values)
    assert len(again) == 8


def test_copy_is_independent() -> None:
    """What a copy learns the original does not."""
    log = CoalitionLog(2)
    copied = log.copy()
    copied.evaluate(table_game(random_table(2)), all_coalitions(2))
    assert (len(log), len(copied)) == (0, 4)


def test_game_cannot_change_the_log() -> None:
    """A game that writes into the coalitions it is given harms nobody."""

    def vandal(coalitions: np.ndarray) -> np.ndarray:
        values: np.ndarray = coalitions.sum(axis=1, keepdims=True).astype(float)
        coalitions[:] = False
        return values

    log = CoalitionLog(2)
    log.evaluate(vandal, all_coalitions(2))
    assert log.values_of(all_coalitions(2))[:, 0].tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(
    "returned",
    [
        np.zeros(4),
        np.zeros((3, 2)),
        np.zeros((4, 2, 1)),
        None,
        np.full((4, 1), "x"),
        np.full((4, 1), 1j),
        [[1], [1, 2]],
    ],
)
def test_odd_values_are_named(returned: np.ndarray) -> None:
    """Another shape, or no numbers, is an error that says what must be returned."""
    with pytest.raises(AttributionError, match=r"must return \(4, m\)|must be an array of real numbers"):
        CoalitionLog(2).evaluate(lambda coalitions: returned, all_coalitions(2))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_must_be_finite(value: float) -> None:
    """The message names the coalition and the output token."""
    table = random_table(2)
    table[2, 1] = value
    with pytest.raises(AttributionError, match=r"output token 1 and the coalition of players \[1\]"):
        CoalitionLog(2).evaluate(table_game(table), all_coalitions(2))


def test_number_of_columns_may_not_change() -> None:
    """A game that returns other tokens in a later call is broken."""
    log = CoalitionLog(2)
    log.evaluate(table_game(random_table(2, 3)), decode(np.array([0]), 2))
    with pytest.raises(AttributionError, match=r"\(1, 3\)"):
        log.evaluate(table_game(random_table(2, 2)), decode(np.array([1]), 2))


@pytest.mark.parametrize("n_players", [-1, 31, 2.0, True, None])
def test_number_of_players(n_players: object) -> None:
    """0 to 30, nothing else."""
    with pytest.raises(AttributionError, match="0 to 30"):
        CoalitionLog(n_players)  # type: ignore[arg-type]


def test_logs_are_checked() -> None:
    """Half a log, players that do not fit, a coalition twice: each is an error."""
    with pytest.raises(AttributionError, match="both, or neither"):
        CoalitionLog(2, coalitions=all_coalitions(2))
    with pytest.raises(AttributionError, match="do not fit"):
        CoalitionLog(3, all_coalitions(2), np.zeros((4, 1)))
    with pytest.raises(AttributionError, match="twice"):
        CoalitionLog(2, decode(np.array([1, 1]), 2), np.zeros((2, 1)))
    with pytest.raises(AttributionError, match="truth values, or 0 and 1"):
        CoalitionLog(2, [[0.5, 2]], [[1.0]])
    with pytest.raises(AttributionError, match="coalitions must be an array of real numbers"):
        CoalitionLog(2, [["a", ""]], [[1.0]])
    assert CoalitionLog(2, [[0, 1]], [[1.0]]).knows([[False, True]])


def test_what_a_log_knows() -> None:
    """Coalitions that were not evaluated, or of other players, are errors: no value of another coalition is given."""
    log = CoalitionLog(2, [[False, True]], [[1.0]])
    assert log.values_of([[0, 1]]).tolist() == [[1.0]]
    assert (log.knows([[0, 1]]), log.knows([[0, 1], [1, 1]])) == (True, False)
    for asked in (log, CoalitionLog(2)):
        with pytest.raises(
            AttributionError, match=r"does not know the coalition of players \[0, 1\]; evaluate it first"
        ):
            asked.values_of([[1, 1]])
    for function in (log.values_of, log.knows, lambda rows: log.evaluate(table_game(random_table(2)), rows)):
        with pytest.raises(AttributionError, match="do not fit 2 players"):
            function([[0, 1, 0]])
