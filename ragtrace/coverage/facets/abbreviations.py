"""Abbreviations in brackets: "zidovudine (AZT)" names one thing in two ways, and either way meets it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragtrace.coverage.text import content_words
from ragtrace.types import Facet, replace

__all__ = ["with_long_forms"]

_WORDS_BEFORE: Final = re.compile(r"(?:[\w'’/-]+\s+){0,7}[\w'’/-]+(?=\s*\()")


def with_long_forms(facets: Sequence[Facet], text: str) -> list[Facet]:
    """`facets`, in order, those in brackets united with what stands before.

    They become an alias of the facet before them, or take the words before them as aliases where these are no facet.
    """
    united: list[Facet] = []
    for facet in facets:
        if not _in_brackets(facet, text):
            united.append(facet)
        elif united and _stands_before(united[-1], facet, text):
            united[-1] = replace(united[-1], aliases=(*united[-1].aliases, facet.value))
        else:
            united.append(replace(facet, aliases=_long_forms(facet, text)))
    return united


def _in_brackets(facet: Facet, text: str) -> bool:
    start, end = facet.start or 0, facet.end or 0
    return facet.kind == "entity" and text[start - 1 : start] == "(" and text[end : end + 1] == ")"


def _stands_before(one: Facet, facet: Facet, text: str) -> bool:
    return one.kind == "entity" and text[one.end : facet.start].strip() == "("


def _long_forms(facet: Facet, text: str) -> tuple[str, ...]:
    """The words before the brackets whose initials it has, else the last of them."""
    letters = [char.casefold() for char in facet.value if char.isalpha()]
    start = facet.start or 0
    match = _WORDS_BEFORE.search(text, max(0, start - 80), start)
    words = match.group().split() if match else []
    spelled = words[-len(letters) :]
    if len(spelled) > 1 and [word[0].casefold() for word in spelled] == letters:
        return (" ".join(spelled),)
    return tuple(word for word in words[-1:] if len(word) > 3 and content_words(word))
