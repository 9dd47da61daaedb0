"""What a claim says, read once for all evidence that it is compared with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.claims.frames import FRAME_WORDS, mentions_blanked
from ragtrace.coverage.support.placement import Placed
from ragtrace.coverage.text import is_content, located_terms, without_accents
from ragtrace.coverage.values import Value
from ragtrace.types import Claim

__all__ = ["Name", "Statement"]

_NAME: Final = re.compile(r"(?<=[a-z,;)\"“] )[A-Z][\w-]*[a-z][\w-]*")
_CODE: Final = re.compile(
    r"""(?<![\w/.@])(?:(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Za-z]{2})[A-Za-z0-9]{1,40}(?:[-_][A-Za-z0-9]{1,40}){0,20}
        |[A-Za-z][A-Za-z0-9]{0,40}(?:_[A-Za-z0-9]{1,40}){1,20})(?![\w/@])""",
    re.VERBOSE,
)
_PART: Final = re.compile(
    r"""(?:section|sec|article|art|clause|chapter|paragraph|page|part|table|figure|annex|appendix|schedule|exhibit|rule|item
        |note|line|row|column|step|phase|version|volume|policy)s?\.?\s+[§\#]?\d""",
    re.IGNORECASE | re.VERBOSE,
)
_LABEL: Final = re.compile(r"[^:]{1,60}:\s")
_NUMBERED: Final = re.compile(r"\b((?:step|option)\s)(\d{1,2})\b", re.IGNORECASE)
_ABBREVIATED: Final = re.compile(r"(?<![\w'’-])((?:[\w'’-]+ ){2,7})\(([A-Z]{2,7})s?\)")
LONG: Final = 4  # letters from which a capitalized word is taken to be a name


class Name(NamedTuple):
    """A name: its stem, as many of the word's letters, small and without accents, and how it is written.

    `is_code`: letters with digits or underscores (HMAC-SHA256, ERR_LOCKED), which stands for nothing but itself; its
    letters are those and the digits alone.
    """

    stem: str
    letters: str
    written: str
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim without its citations.

    `placed`: its terms and values in order. Without the words that only frame it: `terms`, its words and numbers in
    order; `places`, of each the index of the value that it is part of, or -1; `words`, those that are part of no value;
    `names`, those that begin with a capital in the middle of a sentence, and codes.
    """

    placed: Placed
    terms: tuple[str, ...]
    places: tuple[int, ...]
    words: frozenset[str]
    names: tuple[Name, ...]

    @classmethod
    def read(cls, claim: Claim) -> Statement:
        """Offsets stay those of the claim's text."""
        known = [mark for mark in claim.citations if mark.chunk_id]
        return _statement(_unnumbered(mentions_blanked(without_citations(claim.text, known, claim.start))))

    @property
    def values(self) -> tuple[Value, ...]:
        """What it says in figures."""
        return self.placed.values

    @property
    def stated(self) -> tuple[Value, ...]:
        """The values that it states: all but the numbers of names, such as "section 26" and "Act 2015"."""
        return tuple(value for value, is_named in zip(self.values, self.placed.named, strict=True) if not is_named)


@lru_cache(maxsize=1024)  # an answer's claims are read to judge it, and again for its signs
def _statement(text: str) -> Statement:
    placed = Placed.read(text)
    kept = [both for both in zip(placed.terms, placed.places, strict=True) if both[0] not in FRAME_WORDS]
    words = frozenset(term for term, place in kept if place < 0 and is_content(term))
    return Statement(
        placed=placed,
        terms=tuple(term for term, _ in kept),
        places=tuple(place for _, place in kept),
        words=words,
        names=(*_names(text, words), *_codes(text, placed)),
    )


def _unnumbered(text: str) -> str:
    """`text` without the numbers by which an answer counts its own steps, every other character in its place."""
    return _NUMBERED.sub(lambda match: match.group(1) + " " * len(match.group(2)), text)


def _names(text: str, words: frozenset[str]) -> list[Name]:
    label = _LABEL.match(text)  # what stands before a colon may be written like a title
    known = frozenset(_spelled_out(text))
    found: list[Name] = []
    for match in _NAME.finditer(text, label.end() if label else 0):
        folded = match.group().casefold()
        if match.start() not in known and not _PART.match(text, match.start()):
            found += [Name(term, without_accents(folded[start : start + len(term)]), match.group())
                      for term, start in located_terms(folded) if len(term) >= LONG and term in words]  # fmt: skip
    return found


def _codes(text: str, placed: Placed) -> Iterator[Name]:
    """Codes that are no value: HMAC-SHA256 and page_token, and not 24-hour."""
    for match in _CODE.finditer(text):
        written = match.group()
        joined = "".join(filter(str.isalnum, written.casefold()))
        taken = any(value.start < match.end() and match.start() < value.end for value in placed.values)
        if len(joined) >= LONG and not taken:
            yield Name(joined, joined, written, is_code=True)


def _spelled_out(text: str) -> Iterator[int]:
    """Where the words begin that only spell out an abbreviation: "Home Equity Line of Credit (HELOC)"."""
    for match in _ABBREVIATED.finditer(text):
        letters = match.group(2).casefold()
        spelled = list(re.finditer(r"\S+", match.group(1)))[-len(letters) :]
        if "".join(word.group()[0] for word in spelled).casefold() == letters:
            yield from (match.start() + word.start() for word in spelled)
