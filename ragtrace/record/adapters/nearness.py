"""The one rule for scores and distances: higher is better in the record, so a distance is written as its negative.

A number that is called a distance is one. A number without a name is judged by the order that it stands in: a list of
results is best first, so numbers that rise from its first item to its last are distances. No distance is turned into
a similarity: how depends on the metric, which the result does not tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from ragtrace.record.coercion.values import number

__all__ = ["is_distance_name", "negative", "rises"]


def is_distance_name(name: str) -> bool:
    """Whether a field of this name holds a distance: `distance`, `cosine_distance`, `dist`."""
    return name == "dist" or name.endswith("distance")


def negative(value: Any) -> float | None:
    """A distance as a score. None stays None, and zero keeps no sign."""
    distance = number(value)
    return None if distance is None else -distance or 0.0


def rises(values: Iterable[Any]) -> bool | None:
    """True when the numbers rise and never fall, False when they fall; None when that cannot be told."""
    numbers = [found for value in values if (found := number(value)) is not None]
    if any(later < earlier for earlier, later in pairwise(numbers)):
        return False
    return True if any(later > earlier for earlier, later in pairwise(numbers)) else None
