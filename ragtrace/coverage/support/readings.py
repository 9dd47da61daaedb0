"""Chunks and claims, each read once: words, pairs of words, windows, values and names, found when first needed."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from operator import or_
from typing import Any, Final, NamedTuple

from ragtrace.coverage._refusals import FRAME_WORDS, mentions_blanked
from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.support._placement import Placed
from ragtrace.coverage.text import (
    Readings,
    cached_property,
    content_stems,
    is_content,
    located_terms,
    sentences,
    stem,
    terms,
    without_accents,
)
from ragtrace.coverage.values import NUMBER_WORDS, Figure, StatedValues, Value, figures_in, values
from ragtrace.types import Claim

__all__ = [
    "Evidence",
    "Name",
    "Rarities",
    "Reading",
    "SentenceWindow",
    "Statement",
    "Vocabulary",
    "containment",
    "rarities_of",
]

HEADING: Final = 200  # characters of a chunk's first line that may name what it is about
_NUMBER_WORDS: Final = frozenset(map(stem, NUMBER_WORDS))
MOST_SHARED: Final = 1024  # texts of which is kept what they share with a question, about 2 kB each
STEM: Final = 4  # letters that two words share when they are forms of one word ("technical", "technician")


class _Read:
    """The words and pairs of a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def kept(self) -> dict[str, Any]:
        """For what others conclude from it alone."""
        return {}

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Words and numbers in order."""
        return tuple(terms(self.text))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Words and numbers."""
        return frozenset(self.terms)

    @cached_property
    def pairs(self) -> frozenset[str]:
        """Words that follow each other, at most one between them, joined by a space."""
        one, two, three = self.terms, self.terms[1:], self.terms[2:]
        near, far = zip(one, two, strict=False), zip(one, three, strict=False)
        return frozenset(map(" ".join, chain(near, far)))

    @cached_property
    def written(self) -> frozenset[tuple[str, str]]:
        """Its pairs of words as they are written, in small letters, stop words included."""
        return frozenset(written_pairs(self.text))

    @cached_property
    def stems(self) -> frozenset[str]:
        """The beginnings of its words."""
        return frozenset(word[:STEM] for word in self.vocabulary if len(word) >= STEM)

    @cached_property
    def folded(self) -> str:
        """The text in small letters, without accents."""
        return without_accents(self.text.casefold())

    @cached_property
    def joined(self) -> str:
        """The letters and digits of the text alone, small and without accents: ERR_LOCKED is errlocked."""
        return "".join(filter(str.isalnum, self.folded))


class SentenceWindow(_Read):
    """One sentence of a chunk, or two that follow each other; whole, start: the chunk, and where it begins there."""

    def __init__(
        self, text: str, parts: Sequence[SentenceWindow] = (), whole: Reading | None = None, start: int = 0
    ) -> None:
        super().__init__(text)
        self.parts = parts
        self._whole = whole
        self.start = start

    @cached_property
    def words(self) -> frozenset[str]:
        """Words that carry meaning, no numbers."""
        return frozenset().union(*(part.words for part in self.parts)) if self.parts else _content(self.terms)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """What it says in figures."""
        if self.parts:
            return tuple(value for part in self.parts for value in part.values)
        return values(self.text) if any(map(_may_be_value, self.terms)) else ()

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """Its figures with their places in the chunk's tables."""
        if self._whole is None:
            return tuple(figure for part in self.parts for figure in part.figures)
        return self._whole.figures[self._places(self._whole)]

    @cached_property
    def numbers(self) -> tuple[Value, ...]:
        """The values of its figures."""
        if self._whole is None:
            return tuple(value for part in self.parts for value in part.numbers)
        return self._whole.numbers[self._places(self._whole)]

    def _places(self, whole: Reading) -> slice:
        starts, start = whole.number_starts, self.start
        return slice(bisect_left(starts, start), bisect_left(starts, start + len(self.text)))

    @cached_property
    def stated(self) -> StatedValues:
        """Its values, ready to be asked for one."""
        return StatedValues(self.values)

    @cached_property
    def placed(self) -> Placed:
        """Where its words stand."""
        return Placed.read(self.text)


class Shared(NamedTuple):
    """Which of some words each window of a text has, those of its heading counted for all; and each such set once."""

    words: frozenset[str]
    windows: Sequence[frozenset[str]]
    distinct: frozenset[frozenset[str]]


class Reading(_Read):
    """One text, read lazily; the same text is read once, whichever request it comes with."""

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """Words and numbers in order, those of a list's numbering left out."""
        return tuple(chain.from_iterable(sentence.terms for sentence in self.sentences))

    @cached_property
    def words(self) -> frozenset[str]:
        """Words that carry meaning, no numbers."""
        # Sentences are split only where they are needed: of most candidates nothing but the words is.
        return _content(self.terms) if "sentences" in self.__dict__ else content_stems(self.text)

    @cached_property
    def sentences(self) -> tuple[SentenceWindow, ...]:
        """Each sentence as a window of its own."""
        return tuple(SentenceWindow(sentence.text, (), self, sentence.start) for sentence in sentences(self.text))

    @cached_property
    def windows(self) -> tuple[SentenceWindow, ...]:
        """The sentences, then every two that follow each other."""
        singles = self.sentences
        return (*singles, *(SentenceWindow("", two) for two in pairwise(singles)))

    @cached_property
    def window_sizes(self) -> tuple[int, ...]:
        """Of each window the number of its words."""
        words = [sentence.words for sentence in self.sentences]
        return (*map(len, words), *(len(one | two) for one, two in pairwise(words)))

    def shared(self, words: frozenset[str]) -> Shared:
        """Those of some words that each window has: cheaper than to build the windows. Kept for the next who asks about
        the same question."""
        found = _shared.get(self)
        if found is None or found.words != words:
            named = words & self.heading
            single = [words & sentence.words for sentence in self.sentences]
            windows = [*single, *map(or_, single, single[1:])]
            with_heading = [named | each for each in windows] if named else windows
            if len(_shared) >= MOST_SHARED:
                _shared.clear()
            found = _shared[self] = Shared(words, with_heading, frozenset(with_heading))
        return found

    def window_values(self, at: int) -> tuple[Value, ...]:
        """The values of a window."""
        count = len(self.sentences)
        parts = self.sentences[at : at + 1] if at < count else self.sentences[at - count : at - count + 2]
        return tuple(value for part in parts for value in part.values)

    @cached_property
    def heading(self) -> frozenset[str]:
        """The words of the first line, which names what the text is about."""
        return _content(terms(self._first_line))

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The values of all sentences."""
        return tuple(value for window in self.sentences for value in window.values)

    @cached_property
    def stated(self) -> StatedValues:
        """Its values, ready to be asked for one."""
        return StatedValues(self.values)

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """Its figures, with row, column and the scale of their heading; the sentences are the rows of prose."""
        return figures_in(self.text, [(each.start, each.start + len(each.text)) for each in self.sentences])

    @cached_property
    def numbers(self) -> tuple[Value, ...]:
        """The values of its figures, as the whole text has them: found sooner than rows and columns are."""
        return tuple(value for value in values(self.text) if value.kind in ("quantity", "number"))

    @cached_property
    def number_starts(self) -> list[int]:
        """Where these begin."""
        return [value.start for value in self.numbers]

    @property
    def _first_line(self) -> str:
        return self.text.lstrip().partition("\n")[0][:HEADING]


_read: Final = Readings(Reading)
_shared: Final[dict[Reading, Shared]] = {}


class Evidence(NamedTuple):
    """One chunk and what it says."""

    chunk_id: str
    reading: Reading

    @classmethod
    def read(cls, chunk_id: str, text: str) -> Evidence:
        """A chunk's text is read once."""
        return cls(chunk_id, _read(text))

    @property
    def windows(self) -> tuple[SentenceWindow, ...]:
        """Windows of one and of two sentences."""
        return self.reading.windows

    @property
    def heading(self) -> frozenset[str]:
        """The words of the first line."""
        return self.reading.heading

    @property
    def words(self) -> frozenset[str]:
        """All words that carry meaning."""
        return self.reading.words


class Vocabulary:
    """Inverse document frequencies over a pool of chunks: log(1 + n / df); an unseen word counts as df = 1/2."""

    def __init__(self, pool: Iterable[Evidence]) -> None:
        self._chunks = [chunk.words for chunk in pool]
        self._weights: dict[str, float] = {}

    def weight(self, word: str) -> float:
        """The rarity of a word's stem, > 0."""
        found = self._weights.get(word)
        if found is None:
            frequency = [word in words for words in self._chunks].count(True)
            found = self._weights[word] = math.log1p((len(self._chunks) + 1) / (frequency + 0.5))
        return found


@lru_cache(maxsize=65536)
def _may_be_value(term: str) -> bool:
    """Whether a value may begin with a term: a number, in digits or in words."""
    return term[0].isdigit() or term in _NUMBER_WORDS


def _content(sequence: Iterable[str]) -> frozenset[str]:
    """Without numbers and negations, which are compared as such."""
    return frozenset(filter(is_content, sequence))


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
_WRITTEN: Final = re.compile(r"\w+")
_CONTRACTED: Final = re.compile(r"(\w)n['’]t\b")
_LABEL: Final = re.compile(r"[^:]{1,60}:\s")
_NUMBERED: Final = re.compile(r"\b((?:step|option)\s)(\d{1,2})\b", re.IGNORECASE)
_DAY: Final = re.compile(r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b")
_LEAVES_OUT: Final = re.compile(r"\b(?:not|never|no|except|excluding|closed)\s(?:on\s)?$", re.IGNORECASE)
"""A day that is left out ("not on Sundays") need not be named where the others are: Monday to Saturday."""
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
    `pairs`, each of them but the first with the one before it; `written`, its pairs of words as they are written;
    `pair_set`, `written_set`, each of these once;
    `names`, those that begin with a capital in the middle of a sentence, and codes. `is_turned`: it is an item of a
    list under a negation ("Not covered are:"), so that it alone does not tell what the answer says of it.
    """

    placed: Placed
    terms: tuple[str, ...]
    places: tuple[int, ...]
    words: frozenset[str]
    pairs: tuple[str, ...]
    pair_set: frozenset[str]
    written: tuple[tuple[str, str], ...]
    written_set: frozenset[tuple[str, str]]
    names: tuple[Name, ...]
    is_turned: bool = False

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
    found = tuple(term for term, _ in kept)
    pairs, written = tuple(map(" ".join, pairwise(found))), written_pairs(text)
    return Statement(
        placed=placed,
        terms=found,
        places=tuple(place for _, place in kept),
        words=words,
        pairs=pairs,
        pair_set=frozenset(pairs),
        written=written,
        written_set=frozenset(written),
        names=(*_names(text, words), *_codes(text, placed)),
    )


class Rarities(NamedTuple):
    """How rare each word of a claim is, and the sum of it."""

    weights: Mapping[str, float]
    total: float


def containment(statement: Statement, words: frozenset[str], rarities: Rarities) -> float:
    """The share of the claim's words that `words` holds, weighed by rarity, in [0, 1]; 1 for a claim without words."""
    if not rarities.total:
        return 1.0
    shared = math.fsum(map(rarities.weights.__getitem__, statement.words & words))  # the same in every order
    return min(1.0, shared / rarities.total)


def rarities_of(statement: Statement, vocabulary: Vocabulary) -> Rarities:
    """The rarities of a claim's words."""
    weights = {word: vocabulary.weight(word) for word in statement.words}
    return Rarities(weights, math.fsum(weights.values()))


def written_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of words that follow each other in a text, in small letters; "isn't" is "is not"."""
    return tuple(pairwise(_WRITTEN.findall(_CONTRACTED.sub(r"\1 not", text.casefold()))))


def _unnumbered(text: str) -> str:
    """`text` without the numbers by which an answer counts its own steps, every other character in its place."""
    return _NUMBERED.sub(lambda match: match.group(1) + " " * len(match.group(2)), text)


def _names(text: str, words: frozenset[str]) -> list[Name]:
    label = _LABEL.match(text)  # what stands before a colon may be written like a title
    known = frozenset(_spelled_out(text))
    found: list[Name] = []
    for match in _NAME.finditer(text, label.end() if label else 0):
        folded = match.group().casefold()
        is_left_out = _DAY.match(text, match.start()) and _LEAVES_OUT.search(text[: match.start()])
        if match.start() not in known and not _PART.match(text, match.start()) and not is_left_out:
            found += [Name(term, without_accents(folded[start : start + len(term)]), match.group())
                      for term, start in located_terms(folded)
                      if len(term) >= LONG and term in words and match.group()[start].isupper()]  # fmt: skip
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
