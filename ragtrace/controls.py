"""What a text of the host may hold and what we print or store may not: characters that command a terminal or turn a
line round, and the users and passwords of URLs."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["UNSAFE", "harmless", "masked", "plain_label", "without_login"]

UNSAFE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LOGIN: Final = re.compile(r"(?<=://)[^\s/?#]*@")
_PERHAPS: Final = re.compile(r"//.*@|(?<![\w/:])[^\s'\"/:]+:(?:(?!//)[^'\"])*@", re.DOTALL)


def harmless(text: str) -> str:
    """The text without them; its lines stay as they are."""
    return UNSAFE.sub("", text)


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
