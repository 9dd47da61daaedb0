"""Places of finds in a text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Span", "united"]

Span: TypeAlias = tuple[int, int]


def united(spans: Iterable[Span]) -> list[Span]:
    """In order, overlapping ones as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
