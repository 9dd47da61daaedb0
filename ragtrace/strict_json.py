"""The JSON that ragtrace prints and writes for people and their programs: every strict parser reads it.

What JSON lacks, as NaN and the infinities, is null. Half characters and those that command a terminal are escaped, so
that the text can be printed anywhere and says the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from ragtrace.controls import UNSAFE

__all__ = ["dumps"]

_ESCAPED: Final = re.compile(f"{UNSAFE.pattern}|[\ud800-\udfff]")


def dumps(data: Any, *, indent: int | None = 2) -> str:
    """`data` as one JSON document. indent: None for one line without spaces.

    Raises: TypeError for a value of a type that JSON cannot hold.
    """
    separators = None if indent is not None else (",", ":")
    try:
        text = json.dumps(data, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
    except ValueError:  # it holds NaN or an infinity
        finite = _finite(data)
        text = json.dumps(finite, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _finite(value: Any) -> Any:
    """A copy in which no number is NaN or infinite."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
