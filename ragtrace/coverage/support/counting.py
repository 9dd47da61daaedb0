"""What a value counts."""

from __future__ import annotations

import re
from typing import Final

from ragtrace.coverage.text import stem
from ragtrace.coverage.values import Value

__all__ = ["counted"]

_NEXT_WORD: Final = re.compile(r"[\s\-]*([^\W\d_]+)")


def counted(text: str, value: Value) -> str:
    """The stem of the word behind a value: "claim" in "3 claims"."""
    match = _NEXT_WORD.match(text, value.end)
    return stem(match.group(1)) if match else ""
