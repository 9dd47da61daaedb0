"""Games over the documents of a prompt, and the log of the coalitions that were evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import AttributionError

__all__ = [
    "MAX_PLAYERS",
    "CoalitionLog",
    "Coalitions",
    "Game",
    "Values",
    "all_coalitions",
    "complements",
    "decode",
    "encode",
    "is_integer",
    "real_numbers",
]

Coalitions: TypeAlias = NDArray[np.bool_]
"""`(n, k)`: one coalition per row, True where the player takes part."""

Values: TypeAlias = NDArray[np.float64]

Game: TypeAlias = Callable[[Coalitions], Values]
"""Takes `(n, k)` coalitions, returns `(n, m)` values: one column per output token."""

MAX_PLAYERS = 30


def is_integer(number: object) -> bool:
    """Whether it is a whole number of Python or of NumPy, and no truth value."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


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


def real_numbers(values: NDArray[np.generic]) -> Values:
    """What a game returned, as float64. Raises: AttributionError for values that are no real numbers."""
    try:
        if np.iscomplexobj(values):  # NumPy would cut off the imaginary part
            raise TypeError("complex")
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise AttributionError(f"the game returned {values.dtype} values; it must return real numbers") from error


class CoalitionLog:
    """The coalitions that were evaluated and what the game returned; none is evaluated twice.

    Hand a result's log to `shapley_values(continue_from=...)` and more budget continues the run.

    Args:
        n_players: k, 0 to 30.
        coalitions: `(n, k)` of an earlier run, for instance as read from a store.
        values: `(n, m)`, what the game returned for them.
    """

    def __init__(self, n_players: int, coalitions: ArrayLike | None = None, values: ArrayLike | None = None) -> None:
        if not is_integer(n_players) or not 0 <= n_players <= MAX_PLAYERS:
            allowed = f"give an integer from 0 to {MAX_PLAYERS}"
            raise AttributionError(f"{n_players!r} players cannot be attributed to; {allowed}")
        self.n_players = int(n_players)
        self._coalitions = np.zeros((0, self.n_players), dtype=np.bool_)
        self._values: Values | None = None
        self._rows: dict[int, int] = {}
        if coalitions is not None and values is not None:
            self._append(np.asarray(coalitions, dtype=np.bool_), np.asarray(values))
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

    def evaluate(self, game: Game, coalitions: Coalitions) -> None:
        """Asks the game, in one call, for those of the coalitions that are not known yet.

        Raises: AttributionError where the game returns another shape than `(n, m)`, or a value that is not finite.
        """
        codes, first = np.unique(encode(coalitions), return_index=True)
        missing = np.sort(first[[code not in self._rows for code in codes.tolist()]])
        if len(missing):
            asked = np.ascontiguousarray(coalitions[missing])
            self._append(asked, np.asarray(game(asked.copy())))

    def values_of(self, coalitions: Coalitions) -> Values:
        """`(n, m)`, the known values of these coalitions."""
        if self._values is None:
            raise AttributionError("the log is empty; evaluate the coalitions first")
        return self._values[[self._rows[code] for code in encode(coalitions).tolist()]]

    def _append(self, coalitions: Coalitions, values: NDArray[np.generic]) -> None:
        """Checks and keeps what the game returned."""
        values = _checked(coalitions, values, self.n_players, None if self._values is None else self._values.shape[1])
        codes = encode(coalitions).tolist()
        if len(set(codes)) < len(codes):
            raise AttributionError("a coalition appears twice in the log; keep one row of each")
        self._rows.update({code: len(self._rows) + at for at, code in enumerate(codes)})
        self._coalitions = np.concatenate([self._coalitions, coalitions])
        self._values = values.copy() if self._values is None else np.concatenate([self._values, values])


def _checked(
    coalitions: Coalitions, values: NDArray[np.generic], n_players: int, n_columns: int | None
) -> NDArray[np.float64]:
    """The values as float64, `(n, m)` and finite."""
    if coalitions.ndim != 2 or coalitions.shape[1] != n_players:
        raise AttributionError(
            f"coalitions of shape {coalitions.shape} do not fit {n_players} players; give (n, {n_players})"
        )
    m = "m" if n_columns is None else n_columns
    if values.ndim != 2 or len(values) != len(coalitions) or (n_columns is not None and values.shape[1] != n_columns):
        raise AttributionError(
            f"the game returned shape {values.shape} for {len(coalitions)} coalitions; "
            f"it must return ({len(coalitions)}, {m}): one row per coalition, one column per output token"
        )
    numbers = real_numbers(values)
    finite = np.isfinite(numbers).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        column = int(np.argmin(np.isfinite(numbers[row])))
        raise AttributionError(
            f"the game returned {numbers[row, column]} for output token {column} and the coalition of players "
            f"{np.flatnonzero(coalitions[row]).tolist()}; values must be finite: check the model's precision"
        )
    return numbers
