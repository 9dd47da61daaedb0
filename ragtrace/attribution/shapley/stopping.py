"""When an estimate is good enough: its errors are small, or what is read from its ranking will hardly change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import expected_warg_change, flag_probabilities, normal_draws
from ragtrace.attribution.shapley.values import Fitted, token_mean
from ragtrace.errors import ConfigurationError
from ragtrace.numeric import is_integer, is_real

__all__ = ["Stopping"]

N_DRAWS = 200
WARG_CHANGE = 0.02
PERSISTENCE = 0.9


@dataclass(frozen=True)
class Stopping:
    """The conditions on which a run ends before its budget; the first that holds ends it.

    target_standard_error: the largest standard error of a player's score (its mean over the tokens).
    settle: the confidence, in (0.5, 1), at which the best player and both flags (wasted retrieval, noise distraction)
        are those of the estimate; the expected change of WARG(0.9) must be at most 0.02 as well.
    ranking: the players in the retriever's order, which the flags compare with; None: their own order.
    """

    target_standard_error: float | None
    settle: float | None
    ranking: Sequence[int] | None
    n_players: int

    def __post_init__(self) -> None:
        target, settle = self.target_standard_error, self.settle
        if target is not None and not (is_real(target) and target > 0):
            raise ConfigurationError.of("target_standard_error", target, "a number above 0, or None")
        if settle is not None and not (is_real(settle) and 0.5 < settle < 1):
            raise ConfigurationError.of("settle", settle, "a confidence between 0.5 and 1, for instance 0.9, or None")
        if self.ranking is not None and not _ranks_each(self.ranking, self.n_players):
            allowed = f"each player from 0 to {self.n_players - 1} once, or None"
            raise ConfigurationError.of("ranking", self.ranking, allowed)

    @property
    def wanted(self) -> bool:
        """Whether there is any condition."""
        return self.target_standard_error is not None or self.settle is not None

    def reached(self, estimate: Fitted, seed: int) -> str | None:
        """The name of the condition that holds, or None; while errors are undefined none does."""
        if not np.isfinite(estimate.covariance).all() or not estimate.values.size:
            return None
        error = np.sqrt(np.diagonal(estimate.covariance).clip(0).max())
        if self.target_standard_error is not None and error <= self.target_standard_error:
            return "target_standard_error"
        if self.settle is not None and self._settled(estimate, self.settle, seed):
            return "settle"
        return None

    def _settled(self, estimate: Fitted, confidence: float, seed: int) -> bool:
        """Whether draws from the estimate's distribution agree with it."""
        order = list(range(self.n_players)) if self.ranking is None else list(self.ranking)
        scores = token_mean(estimate.values)[order]
        draws = normal_draws(scores, estimate.covariance[np.ix_(order, order)], n_draws=N_DRAWS, seed=seed)
        if (draws.argmax(axis=1) == scores.argmax()).mean() < confidence:
            return False
        return (
            _agreement(scores, draws) >= confidence and expected_warg_change(scores, draws, PERSISTENCE) <= WARG_CHANGE
        )


def _ranks_each(ranking: Any, n_players: int) -> bool:
    """Whether it is a sequence of all players: of integers, since floats and truth values are other indices."""
    ordered = isinstance(ranking, Sequence | np.ndarray) and all(map(is_integer, ranking))
    return ordered and sorted(ranking) == list(range(n_players))


def _agreement(scores: NDArray[np.float64], draws: NDArray[np.float64]) -> float:
    """The least share of draws that set a flag as the estimate does; 1 where the flags are undefined."""
    estimated, drawn = flag_probabilities(scores[None]), flag_probabilities(draws)
    if estimated is None or drawn is None:
        return 1.0
    wasted = abs(drawn.wasted_retrieval - estimated.wasted_retrieval)
    noise = abs(drawn.noise_distraction - estimated.noise_distraction)
    return 1 - max(wasted, noise)
