"""Text that is safe to print, store and parse: no characters that command a terminal or turn a line round, no users and
passwords of URLs, and JSON that every strict parser reads.

What JSON lacks, as NaN and the infinities, is null there. Half characters and those that command a terminal are
escaped, so that the text can be printed anywhere and says the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

__all__ = ["UNSAFE", "dumps", "harmless", "masked", "plain_label", "visible", "without_login"]

UNSAFE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNSEEN: Final = re.compile(f"{UNSAFE.pattern}|[\ud800-\udfff]")
_LOGIN: Final = re.compile(r"(?<=://)[^\s/?#]*@")
_PERHAPS: Final = re.compile(r"//.*@|(?<![\w/:])[^\s'\"/:]+:(?:(?!//)[^'\"])*@", re.DOTALL)


def harmless(text: str) -> str:
    """The text without them; its lines stay as they are."""
    return UNSAFE.sub("", text)


def visible(text: str) -> str:
    """The text with one replacement character for each of them, and for each half character: offsets into it stay."""
    return _UNSEEN.sub(lambda found: " " if found[0] == "\r" else "\N{REPLACEMENT CHARACTER}", text)


def plain_label(text: str) -> str:
    """A label on one line: without those characters, each run of white space one space."""
    return text if text.isprintable() else " ".join(harmless(text).split())


def without_login(text: str) -> str:
    """The text without the users and passwords of the URLs in it: what stands between `://` and `@`."""
    return _LOGIN.sub("", text) if "@" in text else text


def masked(value: str) -> str:
    """A value that should be a URL, as a message shows it: without all that may be a user or a password in it, also
    where these hold a slash or a space, or no scheme stands before them."""
    if "@" not in value:
        return value
    return _PERHAPS.sub(lambda found: "//***@" if found[0].startswith("//") else "***@", value)


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
    return _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _finite(value: Any) -> Any:
    """A copy in which no number is NaN or infinite."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
