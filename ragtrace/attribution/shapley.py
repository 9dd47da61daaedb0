"""`shapley_values`: chooses the estimator and the budget, evaluates the game, and stops when the estimate is good
enough: its errors are small, or what is read from its ranking will hardly change.

A method of estimation may be asked for by one text: the estimator's name with its settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import expected_warg_change, flag_probabilities, normal_draws
from ragtrace.attribution._gaussian_process import GaussianProcess
from ragtrace.attribution._sampling import KernelShap, MonteCarloShap, PairedMonteCarloShap, Permutations
from ragtrace.attribution.game import (
    CoalitionLog,
    Coalitions,
    Fitted,
    Game,
    ShapleyValues,
    Values,
    all_coalitions,
    checked_players,
    complements,
    decode,
    encode,
    exact_values,
    share_residual,
    token_mean,
    undefined,
)
from ragtrace.errors import AttributionError, ConfigurationError
from ragtrace.numeric import check_seed, is_integer, is_real

__all__ = [
    "METHODS",
    "Method",
    "SettingValue",
    "default_budget",
    "known_values",
    "shapley_values",
]

N_DRAWS = 200
WARG_CHANGE = 0.02
PERSISTENCE = 0.9
EXACT_BY_DEFAULT = 6  # up to so many players the default budget is 2^k
MAX_EXACT = 20  # players: a million coalitions are the most that a run holds
LARGE = 8192  # evaluations beyond which the Gaussian process, whose cost is cubic, gives way to permutations
_NO_TOKENS = "the answer has no tokens"
ROUND = 8  # evaluations, four pairs, between two looks at the stopping conditions
METHODS: dict[str, type[Any]] = {
    "kernelshap": KernelShap,
    "mcshap": MonteCarloShap,
    "pmcshap": PairedMonteCarloShap,
    "permutation": Permutations,
    "gp": GaussianProcess,
}


class Estimator(Protocol):
    """Which coalitions to evaluate, nested in the budget, and what follows from their values."""

    @property
    def name(self) -> str:
        """The method's name."""

    def coalitions(self, n_players: int, budget: int, seed: int) -> Coalitions:
        """`(n, k)` with n <= budget; for 2 <= budget < 2^k."""

    def estimate(self, coalitions: Coalitions, values: Values, seed: int) -> Fitted:
        """Values and errors; `coalitions` as the method above returned them."""


def default_budget(n_players: int) -> int:
    """2^k evaluations up to 6 players, where that is at most 64; 8 k beyond. Raises: as `CoalitionLog`."""
    k = checked_players(n_players)
    return 1 << k if k <= EXACT_BY_DEFAULT else 8 * k


def shapley_values(
    game: Game,
    n_players: int,
    *,
    method: str = "auto",
    budget: int | None = None,
    seed: int = 0,
    continue_from: CoalitionLog | None = None,
    target_standard_error: float | None = None,
    settle: float | None = None,
    ranking: Sequence[int] | None = None,
    **options: Any,
) -> ShapleyValues:
    """Shapley values of the players of a game with one column of values per output token.

    Args:
        game: `(n, k)` coalitions to `(n, m)` values; called once with all coalitions unless a condition may stop it.
        n_players: k, 0 to 30.
        method: "exact", "kernelshap", "mcshap", "pmcshap", "permutation", "gp", or "auto": exact where the budget
            reaches 2^k, else "gp", and "permutation" beyond 8,192 evaluations.
        budget: the most distinct coalitions that the estimate rests on, 2 or more; default `default_budget(k)`.
        seed: same seed, same result; a larger budget evaluates a superset.
        continue_from: the log of an earlier result; what it knows is not evaluated again, and no condition ends the run
            before it is used.
        target_standard_error, settle, ranking: see `StopConditions`.
        options: gp (and auto): prior, costs (see `GaussianProcess`); kernelshap: paired; mcshap, pmcshap: n_fits,
            pool_share; pmcshap: released.

    Raises: ConfigurationError for arguments, AttributionError for players or what the game returns.
    Source: RAG-E, §3.2; docs/explanation/attribution.md for the estimators.
    """
    n_players = checked_players(n_players)
    log = _continued(continue_from, n_players)
    stopping = StopConditions(target_standard_error, settle, ranking, n_players)
    check_seed(seed)
    limit = _budget(method, n_players, budget)
    estimator = _estimator_of(method, limit, options)
    all_known = len(log) == 1 << n_players and (method == "auto" or limit == len(log))
    rounds = _rounds(limit, n_players) if stopping.wanted else [limit]
    for spent, further in zip(rounds, [*rounds[1:], limit], strict=True):
        if estimator is None or spent >= 1 << n_players or all_known:
            return _exact(game, log)
        if spent < limit and _is_known(estimator, further, seed, log):
            continue
        coalitions = estimator.coalitions(n_players, spent, seed)
        log.evaluate(game, coalitions)
        fitted = _fitted(estimator, coalitions, log.values_of(coalitions), seed)
        stopped = stopping.reached(fitted, seed) if spent < limit else None
        result = _result(fitted, log, estimator.name, len(coalitions), stopped)
        if stopped is not None:
            break
    return result


def known_values(
    log: CoalitionLog, *, method: str = "auto", budget: int | None = None, seed: int = 0, **options: Any
) -> ShapleyValues:
    """What a method makes of coalitions that were evaluated already, so that methods can be compared at no cost.

    Where the log knows the coalitions that the method would choose itself, the estimate rests on those, and is what
    `shapley_values` gives; else on all that are known, in pairs where the method takes pairs, which another method may
    have chosen. A complete log gives exact values, unless a smaller `budget` is given.

    Raises: AttributionError for a log without the empty and the full coalition, and for a method that cannot read it:
    "exact" of an incomplete log, "permutation" where whole orders are missing. ConfigurationError: as `shapley_values`.
    """
    k, whole = log.n_players, 1 << log.n_players
    if not log.knows(np.array([[False], [True]]).repeat(k, axis=1)):
        raise AttributionError("the log lacks the empty or the full coalition; take one of `shapley_values`")
    check_seed(seed)
    limit = len(log) if budget is None else _budget("auto", k, min(budget, len(log)))
    estimator = _estimator_of(method, limit, options)
    if limit >= whole:
        return _exact(_asked_nothing, log)
    if estimator is None:
        raise AttributionError(f"exact values need all {whole} coalitions; the log has {len(log)}")
    coalitions = estimator.coalitions(k, limit, seed)
    if not log.knows(coalitions):
        coalitions = _as_read(estimator, log)
    fitted = _fitted(estimator, coalitions, log.values_of(coalitions), seed)
    return _result(fitted, log, estimator.name, len(coalitions), None)


def _asked_nothing(coalitions: Coalitions) -> Values:
    raise AttributionError(f"{len(coalitions)} coalitions are not in the log")


def _as_read(estimator: Estimator, log: CoalitionLog) -> Coalitions:
    """All coalitions of a log as an estimator takes them. Raises: AttributionError for permutations."""
    if isinstance(estimator, Permutations):
        raise AttributionError("the coalitions that were evaluated pass no whole orders of the players")
    whole = (1 << log.n_players) - 1
    inner = [code for code in encode(log.coalitions).tolist() if code not in (0, whole)]
    if isinstance(estimator, MonteCarloShap) or (isinstance(estimator, KernelShap) and not estimator.paired):
        return decode(np.array([0, whole, *inner], dtype=np.int64), log.n_players)
    place = {code: at for at, code in enumerate(inner)}
    first = [code for code in inner if place[code] < place.get(whole ^ code, -1)]
    pairs = complements(decode(np.array([whole, *first], dtype=np.int64), log.n_players))
    return pairs if isinstance(estimator, GaussianProcess) else np.concatenate([pairs[1::-1], pairs[2:]])


def _continued(log: CoalitionLog | None, n_players: int) -> CoalitionLog:
    """A log of its own with what is known already."""
    if log is None:
        return CoalitionLog(n_players)
    if not isinstance(log, CoalitionLog):
        raise ConfigurationError.of("continue_from", type(log).__name__, "the attribute `log` of an earlier result")
    if log.n_players != n_players:
        raise AttributionError(f"the log has {log.n_players} players, the game {n_players}; continue from its own log")
    return log.copy()


def _budget(method: str, n_players: int, budget: int | None) -> int:
    """The evaluations that may be used, at most 2^k."""
    most = 1 << n_players
    if budget is None:
        return most if method == "exact" else default_budget(n_players)
    if not is_integer(budget) or budget < min(2, most):
        raise ConfigurationError.of("budget", budget, "an integer of at least 2: the empty and the full coalition")
    if method == "exact" and budget < most:
        raise ConfigurationError.of("budget", budget, f'at least 2^{n_players} = {most} for "exact", or another method')
    return min(int(budget), most)


def _estimator_of(method: str, budget: int, options: Mapping[str, Any]) -> Estimator | None:
    """The estimator of this name with its options; None for "exact".

    Raises: ConfigurationError for another method, or an option that it does not have.
    """
    if method not in ("auto", "exact", *METHODS):
        raise ConfigurationError.of("method", method, ", ".join(["auto", "exact", *METHODS]))
    kind = None if method == "exact" else GaussianProcess if method == "auto" else METHODS[method]
    allowed = [] if kind is None else [field.name for field in fields(kind)]
    for name in options:
        if name not in allowed:
            raise ConfigurationError.of("option", name, f"of {', '.join(allowed) or 'none'} for the method {method}")
    if kind is None:
        return None
    chosen: Estimator = kind(**options)
    return Permutations() if method == "auto" and budget > LARGE else chosen


def _rounds(budget: int, n_players: int) -> list[int]:
    """The budgets after which the estimate is looked at: from 2k on, each 8 or a sixteenth above the one before.

    A look costs a fit, which takes ever longer.
    """
    looks = [min(2 * max(n_players, 1), budget)]
    while looks[-1] < budget:
        looks.append(min(looks[-1] + ROUND * max(1, looks[-1] // (16 * ROUND)), budget))
    return looks


def _is_known(estimator: Estimator, budget: int, seed: int, log: CoalitionLog) -> bool:
    """Whether the log holds what this budget buys: then there is no reason to stop at less."""
    return budget < 1 << log.n_players and log.knows(estimator.coalitions(log.n_players, budget, seed))


def _fitted(estimator: Estimator, coalitions: Coalitions, values: Values, seed: int) -> Fitted:
    """Values and errors; without an output token there is nothing to estimate."""
    if values.shape[1]:
        return estimator.estimate(coalitions, values, seed)
    return undefined(np.zeros((coalitions.shape[1], 0)), _NO_TOKENS)


def _exact(game: Game, log: CoalitionLog) -> ShapleyValues:
    """The closed form over all 2^k coalitions."""
    k = log.n_players
    if k > MAX_EXACT:
        raise AttributionError(
            f"2^{k} coalitions are more than can be held; give a budget below, or at most {MAX_EXACT} players"
        )
    coalitions = all_coalitions(k)
    log.evaluate(game, coalitions)
    values = log.values_of(coalitions)
    phi = exact_values(coalitions, values)
    phi = share_residual(phi, values[-1] - values[0]) if k else phi
    reason = None if values.shape[1] else _NO_TOKENS
    return _result(Fitted(phi, np.zeros_like(phi), np.zeros((k, k)), reason), log, "exact", len(coalitions), None)


def _result(fitted: Fitted, log: CoalitionLog, method: str, n_evaluations: int, stopped: str | None) -> ShapleyValues:
    """The estimate beside the values of the empty and the full coalition."""
    empty, full = log.values_of(np.array([[False], [True]]).repeat(log.n_players, axis=1))
    return ShapleyValues(
        values=fitted.values,
        standard_error=fitted.standard_error,
        empty=empty,
        full=full,
        n_evaluations=n_evaluations,
        exact=method == "exact",
        method=method,
        covariance=fitted.covariance,
        log=log,
        stopped=stopped,
        reason=fitted.reason,
    )


@dataclass(frozen=True)
class StopConditions:
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
        """Whether draws from the estimate's distribution agree with it.

        Errors that are small by chance would end a run that is looked at again and again: the larger of two counts.
        """
        order = list(range(self.n_players)) if self.ranking is None else list(self.ranking)
        scores = token_mean(estimate.values)[order]
        covariance = estimate.covariance if estimate.cautious is None else estimate.cautious
        draws = normal_draws(scores, covariance[np.ix_(order, order)], n_draws=N_DRAWS, seed=seed)
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


SettingValue: TypeAlias = bool | int | float | str

_NAMES: Final = ("auto", "exact", *METHODS)
_WRITTEN: Final = f"one of {', '.join(_NAMES)}, its settings behind a colon: pmcshap:n_fits=100+released=true"
_TRUTH: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Method:
    """An estimator of Shapley values by name, with settings that are not its defaults. See `shapley_values`."""

    name: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _estimator_of(self.name, 2, dict(self.options))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `NAME`, or `NAME:SETTING=VALUE+SETTING=VALUE`.

        Raises: ConfigurationError for another form, an unknown method, or a setting that the method does not have.
        """
        name, _, rest = text.strip().partition(":")
        if name not in _NAMES:
            raise ConfigurationError.of("method", text, _WRITTEN)
        pairs = [each.partition("=") for each in rest.split("+")] if rest else []
        if not all(key.strip() and value.strip() for key, _, value in pairs):
            raise ConfigurationError.of("method", text, _WRITTEN)
        return cls(name, {key.strip(): _value(value.strip()) for key, _, value in pairs})

    def __str__(self) -> str:
        settings = "+".join(f"{key}={_text(value)}" for key, value in self.options.items())
        return f"{self.name}:{settings}" if settings else self.name

    def values(self, game: Game, n_players: int, **how: Any) -> ShapleyValues:
        """`shapley_values` by this method; `how`: its further arguments. Raises: as it does."""
        return shapley_values(game, n_players, method=self.name, **how, **self.options)

    def known_values(self, log: CoalitionLog, *, budget: int | None = None, seed: int = 0) -> ShapleyValues:
        """`known_values` by this method. Raises: as it does."""
        return known_values(log, method=self.name, budget=budget, seed=seed, **self.options)

    def settings(self, found: ShapleyValues) -> dict[str, SettingValue]:
        """All settings of the estimator that gave a result, defaults included; none of exact values."""
        estimator = None if found.exact else _estimator_of(self.name, found.n_evaluations, dict(self.options))
        if estimator is None or not is_dataclass(estimator):
            return {}
        stated = {each.name: getattr(estimator, each.name) for each in fields(estimator)}
        return {name: value for name, value in stated.items() if isinstance(value, SettingValue)}


def _value(text: str) -> SettingValue:
    """A truth value or a number where the text is one."""
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _text(value: SettingValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
