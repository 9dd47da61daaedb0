"""Claims made from the evidence itself: sentences as they stand, or with a number, a name or the sense turned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["contradicted", "names_of"]

_NUMBER: Final = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_VERB: Final = re.compile(
    r"\b(is|are|was|were|can|will|should|must|has|have|had|does|do|did|could|would|may)\b(?! not\b)"
)
_NOT: Final = re.compile(r"\b(is|are|was|were|can|will|should|must|has|have|had|does|do|did|could|would|may) not\b")


def contradicted(sentence: str, names: Sequence[str], draw: Generator) -> str | None:
    """`sentence` with one number changed, one name exchanged, or negated; None where it has none of these.

    names: of the same text, to exchange by; `sentence`'s own are not taken.
    """
    ways = (_other_number, lambda text, by: _other_name(text, names, by), _negated)
    for place in draw.permutation(len(ways)):
        changed = ways[place](sentence, draw)
        if changed is not None and changed != sentence:
            return changed
    return None


def names_of(text: str) -> list[str]:
    """Names inside of sentences, in their order, each once."""
    return list(dict.fromkeys(_NAME.findall(text)))


def _other_number(sentence: str, draw: Generator) -> str | None:
    found = list(_NUMBER.finditer(sentence))
    if not found:
        return None
    match = found[int(draw.integers(len(found)))]
    digits = list(match.group())
    places = [place for place, char in enumerate(digits) if char.isdigit()]
    place = places[int(draw.integers(len(places)))]
    digits[place] = str((int(digits[place]) + int(draw.integers(1, 9)) - 1) % 9 + 1)
    return sentence[: match.start()] + "".join(digits) + sentence[match.end() :]


def _other_name(sentence: str, names: Sequence[str], draw: Generator) -> str | None:
    own = list(_NAME.finditer(sentence))
    others = [name for name in names if name not in sentence]
    if not own or not others:
        return None
    match = own[int(draw.integers(len(own)))]
    return sentence[: match.start()] + others[int(draw.integers(len(others)))] + sentence[match.end() :]


def _negated(sentence: str, draw: Generator) -> str | None:
    negative = _NOT.search(sentence)
    if negative is not None:
        return sentence[: negative.end(1)] + sentence[negative.end() :]
    found = list(_VERB.finditer(sentence))
    if not found:
        return None
    match = found[int(draw.integers(len(found)))]
    return f"{sentence[: match.end()]} not{sentence[match.end() :]}"
