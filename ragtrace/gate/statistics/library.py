"""SciPy, imported when the first figure is asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

from ragtrace.engines.models import load_package

__all__ = ["optimize", "special", "stats"]


@cache
def special() -> Any:
    """`scipy.special`.

    Raises: MissingExtraError.
    """
    return load_package("scipy.special", package="scipy", extra="gate")


@cache
def stats() -> Any:
    """`scipy.stats`.

    Raises: MissingExtraError.
    """
    return load_package("scipy.stats", package="scipy", extra="gate")


@cache
def optimize() -> Any:
    """`scipy.optimize`.

    Raises: MissingExtraError.
    """
    return load_package("scipy.optimize", package="scipy", extra="gate")
