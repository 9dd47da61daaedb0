"""Characters that command a terminal or turn a line round: a text of the host may hold them, what we print may not."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["UNSAFE", "harmless", "plain_label"]

UNSAFE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """The text without them; its lines stay as they are."""
    return UNSAFE.sub("", text)


def plain_label(text: str) -> str:
    """A label on one line: without those characters, each run of white space one space."""
    return text if text.isprintable() else " ".join(harmless(text).split())
