"""Reads rows that are bare tuples, as stores and drivers return them: `(document, 0.2)`, `(7, text, 0.2)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

from ragtrace.record.adapters.nearness import rises
from ragtrace.record.coercion.values import number

__all__ = ["distances"]


def distances(rows: Sequence[Any]) -> Iterable[Any] | None:
    """The tuples with negative scores when those are distances, which only their order tells; None when they are not.

    The score is a tuple's last number, if that is no integer.
    """
    best, worst = rows[0], rows[-1]
    place = next((at for at in range(len(best) - 1, -1, -1) if _is_score(best[at])), None)
    if place is None or _falls(best, worst, place):  # the usual case costs nothing
        return None
    if not all(type(row) is tuple and len(row) > place for row in rows) or not rises(row[place] for row in rows):
        return None
    return [(*row[:place], _opposite(row[place]), *row[place + 1 :]) for row in rows]


def _falls(best: tuple[Any, ...], worst: Any, place: int) -> bool:
    """Whether the last row's number shows that the numbers do not rise."""
    score = number(worst[place]) if type(worst) is tuple and len(worst) > place else None
    highest = number(best[place])
    return score is not None and highest is not None and score <= highest


def _is_score(part: Any) -> bool:
    return not isinstance(part, Integral) and number(part) is not None


def _opposite(distance: Any) -> Any:
    found = number(distance)
    return distance if found is None else -found or 0.0
