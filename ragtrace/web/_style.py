"""The style sheet of the pages: that of the explanation, their own rules, and which sentence each claim lights."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Final

from ragtrace.export.explanation_html import stylesheet as explanation_rules

__all__ = ["CLAIMS", "stylesheet"]

CLAIMS: Final = 120
"""Claims of an answer that light their sentence under the pointer; a link leads to it in any case."""


def stylesheet() -> str:
    """All rules, for every page."""
    own = resources.files("ragtrace.web").joinpath("page", "web.css").read_text("utf-8")
    return f"{explanation_rules()}{own}{''.join(_linked())}"


def _linked() -> Iterator[str]:
    """A claim under the pointer or the keyboard lights its sentence, and the sentence its claim."""
    for number in range(1, CLAIMS + 1):
        hot = f".c{number}:is(:hover,:focus-visible,:target)"
        yield f".reading:has({hot}) .c{number}{{--lit:1;outline:2px solid currentColor;outline-offset:1px}}"
