"""The quantity that a short text holds."""

from __future__ import annotations

from ragtrace.coverage.values import Value, values

__all__ = ["quantity_of"]


def quantity_of(text: str) -> Value:
    """The first quantity or number of a text that has one."""
    return next(value for value in values(text) if value.kind in ("quantity", "number"))
