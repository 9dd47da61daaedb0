"""Is a name in a text? By its words in any inflection, by its initials, and by what its code is without hyphens."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import Final

from ragtrace.coverage.facets.entities import CODE
from ragtrace.coverage.text import stem, without_accents, words

__all__ = ["Name", "Naming", "phrase"]

_ACRONYM: Final = re.compile(r"([A-Z][A-Z&]{1,7})s?")
_JOINED: Final = 6  # letters from which a name is found across hyphens and spaces
_LEGAL: Final = frozenset("inc corp corpor ltd limit llc gmbh plc ag sa co compani".split())  # stems
_SMALL: Final = frozenset("of the and for to in on de la le les du des und".split())
_EDITION: Final = re.compile(r":(?:19|20)\d\d$")
_FAMILY: Final = re.compile(r"\d+")
_CODE_LETTERS: Final = re.compile(
    r"(?<!\w)(?:[^\W\d_]{1,20}[\s./-]?\d{1,20}[\d./-]{0,20}\w{0,2}|\d{1,4}-[A-Za-z]{1,2})"
)
APART: Final = 0.5  # match of a name whose words all stand in the text, but not together
_WINDOW: Final = 12  # words within which they count


@lru_cache(maxsize=16384)
def phrase(text: str) -> str:
    """The stems of a text's words, accents dropped, joined by spaces."""
    return _phrase(text)


def _phrase(text: str) -> str:
    return " ".join(stem(word) for word in words(without_accents(text)))


class Naming:
    """A text, ready to be searched for names."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def padded(self) -> str:
        """The text's phrase, with a space at both ends."""
        return f" {_phrase(self._text)} "

    @cached_property
    def acronyms(self) -> frozenset[str]:
        """Words in capitals, their plurals as the singular."""
        return frozenset(match.group(1) for word in words(self._text) if (match := _ACRONYM.fullmatch(word)))

    @cached_property
    def joined(self) -> str:
        """The letters and digits of the text alone: Alpha-Beta is alphabeta."""
        return "".join(filter(str.isalnum, without_accents(self._text).casefold()))

    @cached_property
    def initials(self) -> str:
        """The initials of the text's words in order, small words left out, lower case kept apart by being lower."""
        return "".join(word[0] for word in words(without_accents(self._text)) if word.casefold() not in _SMALL)

    @cached_property
    def codes(self) -> frozenset[str]:
        """Codes and numbers behind names, without what separates their parts: X-200 and X 200 are x200."""
        found = [match.group() for match in CODE.finditer(self._text)]
        found += [match.group() for match in _CODE_LETTERS.finditer(self._text)]
        return frozenset(map(squeezed, found))

    @cached_property
    def families(self) -> frozenset[str]:
        """The codes with each number as #: x200 and x300 are of the family x#."""
        return frozenset(family(code) for code in self.codes)

    @cached_property
    def positions(self) -> dict[str, list[int]]:
        """Where each stem stands."""
        found: dict[str, list[int]] = {}
        for position, word in enumerate(self.padded.split()):
            found.setdefault(word, []).append(position)
        return found


class Name:
    """A name that is looked for."""

    def __init__(self, written: str) -> None:
        self.phrase = phrase(written)
        plain = self.phrase.split()
        while len(plain) > 1 and plain[-1] in _LEGAL:
            plain.pop()
        self._words = plain
        self._plain = f" {' '.join(plain)} "
        content = [word for word in words(without_accents(written)) if word.casefold() not in _SMALL]
        capital = len(content) >= 3 and all(word[0].isupper() for word in content)
        self._short = "".join(word[0] for word in content) if capital else ""
        acronym = _ACRONYM.fullmatch(written)
        self._acronym = acronym.group(1) if acronym and len(acronym.group(1)) > 2 else ""
        letters = "".join(filter(str.isalnum, without_accents(written).casefold()))
        self._joined = letters if len(letters) >= _JOINED and len(plain) < 3 else ""
        self.code = squeezed(written) if any(map(str.isdigit, written)) else ""
        self._undated = squeezed(_EDITION.sub("", written)) if _EDITION.search(written) else ""

    def match(self, naming: Naming) -> float:
        """1 for the name, its code or its initials; half for a standard without its year (ISO 27001 for ISO 27001:2022)
        and where all words stand close together; else 0."""
        if not self.phrase:
            return 0.0
        if self._plain in naming.padded or (self.code and self.code in naming.codes):
            return 1.0
        if self._short and self._short in naming.acronyms:
            return 1.0
        if self._acronym and (self._acronym in naming.acronyms or self._acronym in naming.initials):
            return 1.0
        if self._joined and self._joined in naming.joined:
            return 1.0
        if self._undated and self._undated in naming.codes:
            return APART
        return APART if len(self._words) > 1 and self._close(naming.positions) else 0.0

    def denied(self, naming: Naming) -> bool:
        """Whether the text names another code of the same family (X-300 for X-200), and not this one."""
        return bool(self.code and self.code not in naming.codes and family(self.code) in naming.families)

    def _close(self, positions: dict[str, list[int]]) -> bool:
        if not all(word in positions for word in self._words):
            return False
        rarest = min(self._words, key=lambda word: len(positions[word]))
        return any(
            all(any(abs(at - other) <= _WINDOW for other in positions[word]) for word in self._words)
            for at in positions[rarest][:50]
        )


def squeezed(code: str) -> str:
    """A code without spaces and separators, in lower case."""
    return re.sub(r"[\s./#§:-]", "", code).casefold()


def family(code: str) -> str:
    """A squeezed code with each number as #."""
    return _FAMILY.sub("#", code)
