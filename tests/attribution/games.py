"""Small games for the tests: tables, a counter of evaluations, and what the estimators are called with."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.game import Coalitions, Game, all_coalitions, encode

ESTIMATORS: dict[str, dict[str, Any]] = {
    "exact": {"method": "exact"},
    "gp": {"method": "gp"},
    "gp-fixed": {"method": "gp", "prior": "fixed"},
    "kernelshap": {"method": "kernelshap"},
    "kernelshap-paired": {"method": "kernelshap", "paired": True},
    "mcshap": {"method": "mcshap", "n_fits": 20},
    "pmcshap": {"method": "pmcshap", "n_fits": 20},
    "permutation": {"method": "permutation"},
}
SAMPLING = [name for name in ESTIMATORS if name != "exact"]


def table_game(table: NDArray[np.float64]) -> Game:
    """The game of a complete table `(2^k, m)`, the row being the coalition's integer."""
    return lambda coalitions: table[encode(coalitions)]


def random_table(n_players: int, n_columns: int = 3, seed: int = 0) -> NDArray[np.float64]:
    """Additive contributions, pairs and noise, so that no estimator but the exact one is exact."""
    random = np.random.default_rng([n_players, n_columns, seed])
    players = all_coalitions(n_players).astype(np.float64)
    pairs = (players[:, :, None] * players[:, None, :]).reshape(len(players), -1)
    table: NDArray[np.float64] = players @ random.normal(size=(n_players, n_columns)) - 2.0
    table += 0.5 * pairs @ random.normal(size=(n_players**2, n_columns))
    return table + 0.3 * random.normal(size=table.shape)


class CountedGame:
    """A game that remembers how often each coalition was evaluated, and in how many calls."""

    def __init__(self, game: Game) -> None:
        self.game, self.calls, self.seen = game, 0, Counter[int]()

    def __call__(self, coalitions: Coalitions) -> NDArray[np.float64]:
        """Counts, then evaluates."""
        self.calls += 1
        self.seen.update(encode(coalitions).tolist())
        return self.game(coalitions)
