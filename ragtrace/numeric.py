"""Numbers as arguments: those of Python or NumPy, and no truth value, text, date or complex number."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import ConfigurationError, RagtraceError

__all__ = ["check_seed", "is_integer", "is_real", "real_array"]


def is_integer(number: object) -> bool:
    """Whether it is a whole number by its type: 3, not 3.0."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def is_real(number: object) -> bool:
    """Whether it is a real number by its type; infinity and NaN are."""
    return is_integer(number) or isinstance(number, float | np.floating)


def check_seed(seed: object) -> None:
    """Raises: ConfigurationError unless it is an integer of at least 0, without which no run could be repeated."""
    if not is_integer(seed) or seed < 0:  # type: ignore[operator]
        raise ConfigurationError.of("seed", seed, "an integer of at least 0")


def real_array(values: ArrayLike, name: str, error: type[RagtraceError]) -> NDArray[np.float64]:
    """The values as float64, not a copy where they are that already.

    Raises: `error` for what holds no real numbers, or no array of them: NumPy reads texts and dates as numbers, and
        cuts off imaginary parts.
    """
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "biufO":
            raise TypeError(f"got {found.dtype}")
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as reason:
        raise error(f"{name} must be an array of real numbers: {reason}") from reason
