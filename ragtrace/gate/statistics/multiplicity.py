"""How alpha is shared by the families of cells, and Holm's step-down within each.

Source: Holm (1979), "A simple sequentially rejective multiple test procedure".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ragtrace.gate.model import Family

__all__ = ["holm", "shares"]

_WEIGHTS: Final[Mapping[Family, float]] = {"overall": 1.0, "segments": 3.0, "floors": 1.0}
"""Segments get three times the share, since they hold the most cells and the fewest requests."""


def shares(families: Iterable[Family]) -> dict[Family, float]:
    """The part of alpha of each family that has cells; they sum to 1."""
    present = set(families)
    whole = sum(weight for family, weight in _WEIGHTS.items() if family in present)
    return {family: weight / whole for family, weight in _WEIGHTS.items() if family in present}


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the given order: reject where one is at most alpha."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for step, at in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - step) * p_values[at]))
        adjusted[at] = highest
    return adjusted
