"""Keeps what ends its workers apart: a job, or a trace, that was leased several times in vain is leased alone.

Else it would take the attempts of all that are leased with it along with its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["leased_together"]

_SUSPECT: Final = 2  # attempts


def leased_together(attempts: Sequence[int]) -> int:
    """How many of those that are next, by the attempts of each so far, are leased at once: all before the first suspect
    one, or that one alone."""
    return max(1, next((place for place, tried in enumerate(attempts) if tried >= _SUSPECT), len(attempts)))
