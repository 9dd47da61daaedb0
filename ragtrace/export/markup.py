"""HTML and SVG that cannot be broken by what stands in it: every text is escaped, unless it is `Html` already."""

from __future__ import annotations

from html import escape
from typing import Final

__all__ = ["Html", "join", "tag"]

_VOID: Final = frozenset({"br", "meta"})


class Html(str):
    """A piece of a page."""

    __slots__ = ()


def join(*parts: str) -> Html:
    """Parts in a row; those that are not `Html` are escaped."""
    return Html("".join([part if isinstance(part, Html) else escape(part) for part in parts]))


def tag(name: str, /, *parts: str, **attributes: str | float | bool | None) -> Html:
    """An element. A trailing `_` of an attribute's name is dropped, others become `-`; None and False leave it out."""
    given = {key: value for key, value in attributes.items() if value is not None and value is not False}
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in given.items())}>"
    return Html(opened) if name in _VOID else Html(f"{opened}{join(*parts)}</{name}>")


def _attribute(key: str, value: str | float | bool) -> str:
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
