"""Claims made from true sentences: with a number, a name, a word or the sense turned, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["Changed", "contradicted", "names_of", "numbers_of"]

_NUMBER: Final = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_VERB: Final = re.compile(
    r"\b(is|are|was|were|can|will|should|must|has|have|had|does|do|did|could|would|may)\b(?! not\b)"
)
_NOT: Final = re.compile(r"\b(is|are|was|were|can|will|should|must|has|have|had|does|do|did|could|would|may) not\b")
_PAIRS: Final = [
    pair.split("/")
    for pair in (
        "increase/decrease increases/decreases increased/decreased increasing/decreasing higher/lower highest/lowest "
        "more/less most/least before/after minimum/maximum first/last always/never with/without above/below left/right "
        "hot/cold warm/cool north/south east/west largest/smallest larger/smaller longer/shorter earlier/later "
        "early/late open/closed male/female inside/outside public/private positive/negative better/worse best/worst "
        "many/few older/younger old/new high/low long/short large/small big/little up/down top/bottom front/back "
        "allowed/forbidden required/optional include/exclude includes/excludes included/excluded same/different "
        "common/rare dry/wet permanent/temporary easy/difficult safe/dangerous slow/fast slowly/quickly daily/weekly "
        "monthly/yearly both/neither"
    ).split()
]
_OPPOSITES: Final = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_OPPOSED: Final = re.compile(rf"\b({'|'.join(_OPPOSITES)})\b")


class Changed(NamedTuple):
    """A sentence with one thing turned: `text[start:end]`."""

    text: str
    start: int
    end: int


def contradicted(sentence: str, names: Sequence[str], numbers: Sequence[str], draw: Generator) -> Changed | None:
    """`sentence` with one number, name or word exchanged, or negated; None where it has none of these.

    names, numbers: of the same text, to exchange by; `sentence`'s own are not taken.
    """
    ways = (
        lambda: _other_number(sentence, numbers, draw),
        lambda: _other_name(sentence, names, draw),
        lambda: _opposite(sentence, draw),
        lambda: _negated(sentence, draw),
    )
    for place in draw.permutation(len(ways)):
        changed = ways[place]()
        if changed is not None and changed.text != sentence:
            return changed
    return None


def names_of(text: str) -> list[str]:
    """Names inside of sentences, in their order, each once."""
    return list(dict.fromkeys(_NAME.findall(text)))


def numbers_of(text: str) -> list[str]:
    """Numbers as written, in their order, each once."""
    return list(dict.fromkeys(_NUMBER.findall(text)))


def _put(sentence: str, start: int, end: int, new: str) -> Changed:
    return Changed(sentence[:start] + new + sentence[end:], start, start + len(new))


def _one(pattern: re.Pattern[str], sentence: str, draw: Generator) -> re.Match[str] | None:
    found = list(pattern.finditer(sentence))
    return found[int(draw.integers(len(found)))] if found else None


def _other_number(sentence: str, numbers: Sequence[str], draw: Generator) -> Changed | None:
    """By another number of the text, which no list of missing words tells, or by another digit."""
    match = _one(_NUMBER, sentence, draw)
    if match is None:
        return None
    others = [each for each in numbers if each not in sentence and len(each) == len(match.group())]
    if others and draw.integers(2):
        return _put(sentence, match.start(), match.end(), others[int(draw.integers(len(others)))])
    digits = list(match.group())
    places = [place for place, char in enumerate(digits) if char.isdigit()]
    place = places[int(draw.integers(len(places)))]
    digits[place] = str((int(digits[place]) + int(draw.integers(1, 9)) - 1) % 9 + 1)
    return _put(sentence, match.start(), match.end(), "".join(digits))


def _other_name(sentence: str, names: Sequence[str], draw: Generator) -> Changed | None:
    match = _one(_NAME, sentence, draw)
    others = [name for name in names if name not in sentence]
    if match is None or not others:
        return None
    return _put(sentence, match.start(), match.end(), others[int(draw.integers(len(others)))])


def _opposite(sentence: str, draw: Generator) -> Changed | None:
    match = _one(_OPPOSED, sentence, draw)
    return _put(sentence, match.start(), match.end(), _OPPOSITES[match.group()]) if match else None


def _negated(sentence: str, draw: Generator) -> Changed | None:
    negative = _NOT.search(sentence)
    if negative is not None:
        return _put(sentence, negative.start(), negative.end(), negative.group(1))
    match = _one(_VERB, sentence, draw)
    return _put(sentence, match.start(), match.end(), f"{match.group()} not") if match else None
