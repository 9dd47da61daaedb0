"""What a column can hold: texts without NUL, which PostgreSQL refuses, and integers of 64 bits."""

from __future__ import annotations

from typing import Final, overload

__all__ = ["bigint", "clean"]

_LARGEST: Final = 2**63 - 1


@overload
def clean(text: str) -> str: ...
@overload
def clean(text: str | None) -> str | None: ...
def clean(text: str | None) -> str | None:
    """`text` as every database can store it: NUL and lone surrogates become U+FFFD."""
    if text is None or (text.isascii() and "\x00" not in text):
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def bigint(value: int) -> int:
    """`value`, or the nearest integer that 64 bits hold; the payload keeps the exact one."""
    return max(-_LARGEST, min(_LARGEST, value))
