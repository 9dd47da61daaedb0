"""Games over the documents of a prompt, the log of the coalitions that were evaluated, and their Shapley values.

`ShapleyValues` is what an estimator returns: values, errors, the distribution of the document scores. Beside it stand
the weights of coalitions in Shapley's formula and in the Shapley kernel, and the exact values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.alignment import normal_draws
from ragtrace.errors import AttributionError
from ragtrace.numeric import is_integer, real_array

__all__ = [
    "MAX_PLAYERS",
    "CoalitionLog",
    "Coalitions",
    "Fitted",
    "Game",
    "ShapleyValues",
    "Values",
    "all_coalitions",
    "checked_players",
    "coalition_weights",
    "complements",
    "decode",
    "encode",
    "exact_values",
    "kernel_weights",
    "marginal_weights",
    "share_residual",
    "token_mean",
    "undefined",
]

Coalitions: TypeAlias = NDArray[np.bool_]
"""`(n, k)`: one coalition per row, True where the player takes part."""

Values: TypeAlias = NDArray[np.float64]

Game: TypeAlias = Callable[[Coalitions], Values]
"""Takes `(n, k)` coalitions, returns `(n, m)` values: one column per output token."""

MAX_PLAYERS = 30


def checked_players(n_players: int) -> int:
    """The number of players, in Python's integers: in NumPy's small ones 2^k would overflow.

    Raises: AttributionError unless it is an integer from 0 to 30.
    """
    if not is_integer(n_players) or not 0 <= n_players <= MAX_PLAYERS:
        allowed = f"give an integer from 0 to {MAX_PLAYERS}"
        raise AttributionError(f"{n_players!r} players cannot be attributed to; {allowed}")
    return int(n_players)


def encode(coalitions: Coalitions) -> NDArray[np.int64]:
    """One integer per coalition: bit i is set where player i takes part."""
    return coalitions.astype(np.int64) @ (np.int64(1) << np.arange(coalitions.shape[1], dtype=np.int64))


def decode(codes: NDArray[np.int64], n_players: int) -> Coalitions:
    """The coalitions of these integers, `(n, k)`."""
    bits: NDArray[np.int64] = (codes[:, None] >> np.arange(n_players, dtype=np.int64)) & 1
    return bits.astype(np.bool_)


def all_coalitions(n_players: int) -> Coalitions:
    """All 2^k coalitions; the row is the coalition's integer, so the empty one comes first and the full one last."""
    return decode(np.arange(1 << n_players, dtype=np.int64), n_players)


def complements(coalitions: Coalitions) -> Coalitions:
    """Each coalition followed by its complement, `(2n, k)`."""
    return np.stack([coalitions, ~coalitions], axis=1).reshape(-1, coalitions.shape[1])


class CoalitionLog:
    """The coalitions that were evaluated and what the game returned; none is evaluated twice.

    Hand a result's log to `shapley_values(continue_from=...)` and more budget continues the run.

    Args:
        n_players: k, 0 to 30.
        coalitions: `(n, k)` of an earlier run, for instance as read from a store.
        values: `(n, m)`, what the game returned for them.
    """

    def __init__(self, n_players: int, coalitions: ArrayLike | None = None, values: ArrayLike | None = None) -> None:
        self.n_players = checked_players(n_players)
        self._coalitions = np.zeros((0, self.n_players), dtype=np.bool_)
        self._values: Values | None = None
        self._rows: dict[int, int] = {}
        if coalitions is not None and values is not None:
            self._append(_members(coalitions, self.n_players), values)
        elif coalitions is not None or values is not None:
            raise AttributionError("a log needs coalitions and values; give both, or neither")

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def coalitions(self) -> Coalitions:
        """`(n, k)`, in the order of their evaluation."""
        return self._coalitions.copy()

    @property
    def values(self) -> Values:
        """`(n, m)`, what the game returned; `(0, 0)` before the first evaluation."""
        return np.zeros((0, 0)) if self._values is None else self._values.copy()

    def copy(self) -> Self:
        """A log of its own with the same entries."""
        return type(self)(self.n_players, self._coalitions, self._values) if len(self) else type(self)(self.n_players)

    def knows(self, coalitions: ArrayLike) -> bool:
        """Whether all of these coalitions were evaluated."""
        return self._rows.keys() >= set(encode(_members(coalitions, self.n_players)).tolist())

    def evaluate(self, game: Game, coalitions: ArrayLike) -> None:
        """Asks the game, in one call, for those of the coalitions that are not known yet.

        Raises: AttributionError where the game returns another shape than `(n, m)`, or a value that is not finite, and
            for coalitions of other players.
        """
        coalitions = _members(coalitions, self.n_players)
        codes, first = np.unique(encode(coalitions), return_index=True)
        missing = np.sort(first[[code not in self._rows for code in codes.tolist()]])
        if len(missing):
            asked = np.ascontiguousarray(coalitions[missing])
            self._append(asked, game(asked.copy()))

    def values_of(self, coalitions: ArrayLike) -> Values:
        """`(n, m)`, the known values of these coalitions. Raises: AttributionError for one that was not evaluated."""
        coalitions = _members(coalitions, self.n_players)
        rows = [self._rows.get(code, -1) for code in encode(coalitions).tolist()]
        if -1 in rows:
            unknown = np.flatnonzero(coalitions[rows.index(-1)]).tolist()
            raise AttributionError(f"the log does not know the coalition of players {unknown}; evaluate it first")
        return np.zeros((0, 0)) if self._values is None else self._values[rows]

    def _append(self, coalitions: Coalitions, returned: ArrayLike) -> None:
        """Checks and keeps what the game returned."""
        values = _checked(coalitions, returned, None if self._values is None else self._values.shape[1])
        codes = encode(coalitions).tolist()
        if len(set(codes)) < len(codes):
            raise AttributionError("a coalition appears twice in the log; keep one row of each")
        self._rows.update({code: len(self._rows) + at for at, code in enumerate(codes)})
        self._coalitions = np.concatenate([self._coalitions, coalitions])
        self._values = values.copy() if self._values is None else np.concatenate([self._values, values])


def _members(coalitions: ArrayLike, n_players: int) -> Coalitions:
    """The coalitions as `(n, k)` truth values."""
    known = isinstance(coalitions, np.ndarray) and coalitions.dtype == np.bool_
    given = np.asarray(coalitions) if known else real_array(coalitions, "coalitions", AttributionError)
    if given.ndim != 2 or given.shape[1] != n_players:
        shape = f"coalitions of shape {given.shape}"
        raise AttributionError(f"{shape} do not fit {n_players} players; give (n, {n_players})")
    members = given.astype(np.bool_, copy=False)
    if not np.array_equal(members, given):
        raise AttributionError("a coalition says of each player whether it takes part; give truth values, or 0 and 1")
    return members


def _checked(coalitions: Coalitions, returned: ArrayLike, n_columns: int | None) -> Values:
    """What the game returned as float64, `(n, m)` and finite."""
    values = real_array(returned, "what the game returns", AttributionError)
    m = "m" if n_columns is None else n_columns
    if values.ndim != 2 or len(values) != len(coalitions) or (n_columns is not None and values.shape[1] != n_columns):
        raise AttributionError(
            f"the game returned shape {values.shape} for {len(coalitions)} coalitions; "
            f"it must return ({len(coalitions)}, {m}): one row per coalition, one column per output token"
        )
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        column = int(np.argmin(np.isfinite(values[row])))
        raise AttributionError(
            f"the game returned {values[row, column]} for output token {column} and the coalition of players "
            f"{np.flatnonzero(coalitions[row]).tolist()}; values must be finite: check the model's precision"
        )
    return values


_BLOCK = 1 << 16  # coalitions weighed at a time, so that 2^20 of them fit into memory


class Fitted(NamedTuple):
    """Values `(k, m)`, their standard errors `(k, m)`, the scores' covariance `(k, k)`, why there are none.

    cautious: the covariance by which a ranking counts as settled, where it is another one.
    """

    values: Values
    standard_error: Values
    covariance: NDArray[np.float64]
    reason: str | None
    cautious: NDArray[np.float64] | None = None


def undefined(values: Values, reason: str) -> Fitted:
    """An estimate whose errors are unknown (NaN)."""
    k = len(values)
    return Fitted(values, np.full_like(values, np.nan), np.full((k, k), np.nan), reason)


@dataclass(frozen=True)
class ShapleyValues:
    """Shapley values of k players for m output tokens.

    Attributes:
        values: `(k, m)`; each column sums to `full - empty` (to 1e-9; not so for `pmcshap(released=True)`).
        standard_error: `(k, m)`, calibrated; 0 where exact, NaN where undefined.
        empty: `(m,)`, the value of the coalition without players.
        full: `(m,)`, the value of the coalition of all players.
        n_evaluations: the distinct coalitions that the values rest on, empty and full included.
        exact: whether all 2^k coalitions were evaluated.
        method: the estimator that was used, never "auto".
        covariance: `(k, k)`, of the errors of `scores`.
        log: every coalition evaluated so far; `continue_from=` takes it.
        stopped: what ended the run before its budget: "target_standard_error", "settle", or None.
        reason: why the standard error is undefined, or None.
    """

    values: Values
    standard_error: Values
    empty: NDArray[np.float64]
    full: NDArray[np.float64]
    n_evaluations: int
    exact: bool
    method: str
    covariance: NDArray[np.float64]
    log: CoalitionLog
    stopped: str | None = None
    reason: str | None = None

    @property
    def scores(self) -> NDArray[np.float64]:
        """`(k,)`: each player's mean over the output tokens, by which documents are ranked; NaN without tokens."""
        return token_mean(self.values)

    @property
    def ranking(self) -> list[int]:
        """Players by descending score; players with equal scores in their own order."""
        return [int(player) for player in np.argsort(-self.scores, kind="stable")]

    def draws(self, n: int, seed: int = 0) -> NDArray[np.float64]:
        """`(n, k)` vectors of scores from the estimate's distribution.

        The share of draws in which a flag is set is its probability. Columns are players in their own order.

        Raises: AttributionError where the standard error is undefined.
        """
        if self.reason is not None:
            raise AttributionError(f"the estimate has no distribution to draw from: {self.reason}")
        return normal_draws(self.scores, self.covariance, n_draws=n, seed=seed)


def token_mean(values: Values) -> NDArray[np.float64]:
    """`(k,)`: mean over the columns, NaN where there are none."""
    return np.asarray(values.mean(axis=1)) if values.shape[1] else np.full(len(values), np.nan)


def marginal_weights(n_players: int) -> NDArray[np.float64]:
    """`(k,)`: what a player's marginal contribution to a coalition of size 0 .. k-1 weighs, s!(k-s-1)!/k!."""
    return np.array([1 / (n_players * comb(n_players - 1, size)) for size in range(n_players)])


def coalition_weights(coalitions: Coalitions) -> NDArray[np.float64]:
    """`(k, n)`: the weight of each coalition's value in each player's Shapley value."""
    n_players = coalitions.shape[1]
    weights = np.append(marginal_weights(n_players), 0.0)  # a player outside the full coalition does not exist
    sizes = coalitions.sum(axis=1)
    joining, staying = weights[np.maximum(sizes - 1, 0)], -weights[sizes]
    signed: NDArray[np.float64] = np.where(coalitions, joining[:, None], staying[:, None]).T
    return signed


def kernel_weights(coalitions: Coalitions) -> NDArray[np.float64]:
    """`(n,)`: the Shapley kernel (k-1)/(C(k,s) s (k-s)) of coalitions that are neither empty nor full."""
    k = coalitions.shape[1]
    by_size = np.array([0.0] + [(k - 1) / (comb(k, s) * s * (k - s)) for s in range(1, k)] + [0.0])
    weights: NDArray[np.float64] = by_size[coalitions.sum(axis=1)]
    return weights


def exact_values(coalitions: Coalitions, values: Values) -> Values:
    """`(k, m)`: the Shapley values from the values of all 2^k coalitions, in any order."""
    phi = np.zeros((coalitions.shape[1], values.shape[1]))
    for start in range(0, len(coalitions), _BLOCK):
        phi += coalition_weights(coalitions[start : start + _BLOCK]) @ values[start : start + _BLOCK]
    return phi


def share_residual(phi: Values, difference: NDArray[np.float64]) -> Values:
    """The values shifted equally per player, so that they sum to v(full) - v(empty) in each column."""
    shifted: Values = phi + (difference - phi.sum(axis=0)) / len(phi)
    return shifted
