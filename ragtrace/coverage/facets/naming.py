"""Is a name in a text? By its words in any inflection, its initials, its code without hyphens, its law."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property, lru_cache
from typing import Final

from ragtrace.coverage.facets.entities import CODE
from ragtrace.coverage.facets.references import Reference, TextReferences, reference_of
from ragtrace.coverage.text import stem, without_accents, words

__all__ = ["Name", "Naming", "phrase"]

_ACRONYM: Final = re.compile(r"([A-Z][A-Z&]{1,7})s?")
_JOINED: Final = 6  # letters from which a name is found across hyphens and spaces
_LEGAL: Final = frozenset(
    "inc corp corpor incorpor ltd limit llc llp lp gmbh plc ag sa nv bv spa oyj pti kk co compani".split()
)  # stems
_SMALL: Final = frozenset("of the and for to in on de la le les du des und".split())
_EDITION: Final = re.compile(r":(?:19|20)\d\d$")
_FAMILY: Final = re.compile(r"\d+")
_CODE_LETTERS: Final = re.compile(
    r"(?<!\w)(?:[^\W\d_]{1,20}[\s./-]?\d{1,20}[\d./-]{0,20}\w{0,2}|\d{1,4}-[A-Za-z]{1,2})"
)
_MODEL: Final = re.compile(r"[^\W\d].* (?P<model>(?=\S*[A-Za-z])(?=\S*\d)[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*)")
_SEPARATORS: Final = re.compile(r"(?<=ISO)/IEC\b|[\s./#§:-]")
_SPELLED: Final = 4  # letters from which an abbreviation is found in words without capitals: cost of goods sold
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
    def spelled(self) -> str:
        """The initials of all words in lower case, and of all but the small ones."""
        every = [word.casefold() for word in words(without_accents(self._text))]
        return " ".join("".join(word[0] for word in found)
                        for found in (every, [word for word in every if word not in _SMALL]))  # fmt: skip

    @cached_property
    def references(self) -> TextReferences:
        """The provisions of laws that are stated."""
        return TextReferences(self._text)

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
        self._and = f" {phrase(written.replace(' & ', ' and '))} " if " & " in written else self._plain
        content = [word for word in words(without_accents(written)) if word.casefold() not in _SMALL]
        capital = len(content) >= 3 and all(word[0].isupper() for word in content)
        self._short = "".join(word[0] for word in content) if capital else ""
        acronym = _ACRONYM.fullmatch(written)
        self._acronym = acronym.group(1) if acronym and len(acronym.group(1)) > 2 else ""
        letters = "".join(filter(str.isalnum, without_accents(written).casefold()))
        self._joined = letters if len(letters) >= _JOINED and len(plain) < 3 else ""
        model = _MODEL.fullmatch(written)
        coded = model.group("model") if model else written
        self.code = squeezed(coded) if any(map(str.isdigit, coded)) else ""
        self._undated = squeezed(_EDITION.sub("", written)) if _EDITION.search(written) else ""
        self._reference = reference_of(written)
        self._title = Name(self._reference.title) if self._reference and self._reference.title else None

    def match(self, naming: Naming, declared: Collection[str] = ()) -> float:
        """1 for the name, its code or its initials; half for a standard without its year (ISO 27001 for ISO 27001:2022)
        and where all words stand close together; else 0. declared: phrases that the text's metadata state."""
        if not self.phrase:
            return 0.0
        if self._plain in naming.padded or self._and in naming.padded:
            return 1.0
        if self._reference:
            return self._cited(self._reference, naming, declared)
        if self.code and self.code in naming.codes:
            return 1.0
        if self._short and self._short in naming.acronyms:
            return 1.0
        if self._acronym and self._is_spelled(self._acronym, naming):
            return 1.0
        if self._joined and self._joined in naming.joined:
            return 1.0
        if self._undated and self._undated in naming.codes:
            return APART
        return APART if len(self._words) > 1 and self._close(naming.positions) else 0.0

    def denied(self, naming: Naming) -> bool:
        """Whether the text names another one of the same family, and not this one: X-300 for X-200, section 27 of the
        same law, the law of another year."""
        if self._reference:
            return self._is_other(self._reference, naming)
        return bool(self.code and self.code not in naming.codes and family(self.code) in naming.families)

    def _cited(self, reference: Reference, naming: Naming, declared: Collection[str]) -> float:
        """A provision counts by half where its law is not named; a law without its year, and by its year alone
        ("the 2015 Act"), by half."""
        if not reference.number:
            return self._entitled(reference, naming, declared)
        stated = naming.references.match(reference.word, reference.number)
        if not stated or self._title is None:
            return stated
        return stated if self._entitled(reference, naming, declared) else min(stated, APART)

    def _entitled(self, reference: Reference, naming: Naming, declared: Collection[str]) -> float:
        """How well the text names the law."""
        title = self._title
        if title is None:
            return 0.0
        by_year = bool(reference.year) and f" {reference.year} {title.head} " in naming.padded
        if any(f" {title.phrase} " in f" {phrase} " for phrase in declared):
            return 1.0
        named = 0.0 if self._years(reference, naming) else title.match(naming)
        if by_year:
            return 1.0 if named or any(word in naming.positions for word in title.telling) else APART
        return (
            named if not reference.year or f" {title.phrase} {reference.year} " in naming.padded else min(named, APART)
        )

    def _is_other(self, reference: Reference, naming: Naming) -> bool:
        if self._years(reference, naming):
            return True
        if not reference.number or not naming.references.has_others(reference.word):
            return False
        return self._title is not None and self._entitled(reference, naming, ()) >= APART

    def _years(self, reference: Reference, naming: Naming) -> bool:
        """Whether the text names the law of other years only."""
        if self._title is None or not reference.year:
            return False
        years = re.findall(rf" {re.escape(self._title.phrase)} (?:of )?((?:1[6-9]|20)\d\d)(?= )", naming.padded)
        return bool(years) and reference.year not in years

    def _is_spelled(self, acronym: str, naming: Naming) -> bool:
        if acronym in naming.acronyms or acronym in naming.initials:
            return True
        letters = acronym.replace("&", "").casefold()
        return len(letters) >= _SPELLED and letters in naming.spelled

    @property
    def head(self) -> str:
        """The stem of the last word."""
        return self._words[-1] if self._words else ""

    @property
    def telling(self) -> list[str]:
        """The stems of the words before the last that are not small."""
        return [word for word in self._words[:-1] if word not in _SMALL]

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
    return _SEPARATORS.sub("", code).casefold()


def family(code: str) -> str:
    """A squeezed code with each number as #."""
    return _FAMILY.sub("#", code)
