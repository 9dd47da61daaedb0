"""Matching: does a candidate meet a facet? Typed and graded in [0, 1]: intervals, versions, quantities, places, names.

A candidate that states another value of the same matter (last year's edition, another country) contradicts the facet;
one that says nothing of it lacks it; of one without text and without a field that speaks of it nothing is known.

A field of the metadata that states the matter (`effective_from`, `jurisdiction`, `version`) is authoritative: a text
that merely mentions last year's edition does not make the chunk last year's. Without such a field the text decides;
each matter is read on first use and kept by text, since chunks recur between requests. A name is met by its words in
any inflection, its initials, its code without hyphens, its law.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from packaging.version import Version

from ragtrace.coverage.facets._entities import CODE, Reference, TextReferences, reference_of
from ragtrace.coverage.facets._places import Place, is_ambiguous, place_match, places_in, places_of
from ragtrace.coverage.text import Readings, cached_property, stem, without_accents, words
from ragtrace.coverage.values import DateRange, Value, date_ranges, overlap, values
from ragtrace.coverage.values.quantities import AmountWanted, amount_match, amount_wanted, dates_in
from ragtrace.coverage.values.value import unit_of
from ragtrace.coverage.values.versions import Constraint, constraint_of, version_match, versions_of, versions_stated
from ragtrace.types import Candidate, Facet

__all__ = [
    "MET",
    "Judgment",
    "contradictions",
    "facet_in_text",
    "facet_matrix",
    "judge_facet",
]

MET: Final = 0.5  # match from which a facet counts as met
_UNIT: Final = re.compile(r"[^\W\d_]+|[€$£¥₹₩₽₺%]")
_KEPT: Final = 64  # judgments that are kept with one text
_NAMED: Final = 3  # values that a contradiction names
_BY_BOUND: Final = 0.5  # match of a time that a text only includes: "since 2015" says little of 2024
_TITLE: Final = re.compile(r"[^\W\d].*\s(?:19|20)\d\d")  # a name that ends in a year
_FROM: Final = ("effective_from", "valid_from", "effective_date", "start_date", "from_date")
_TO: Final = ("effective_to", "valid_to", "valid_until", "end_date", "to_date", "expires")
_AT: Final = ("date", "published", "published_at", "year", "fiscal_year", "period")
_PLACE: Final = ("jurisdiction", "country", "region", "state", "territory", "city")
_VERSION: Final = ("version", "edition", "revision", "release")
_READ: Final = 200_000  # characters of one chunk that are read


@dataclass(frozen=True, slots=True)
class Judgment:
    """How well one candidate meets a facet, None where that is unknown, and what it states instead."""

    match: float | None
    said: Collection[object] = ()

    @property
    def contradicted(self) -> bool:
        """Whether the candidate states another value."""
        return bool(self.said)

    @property
    def given(self) -> str | None:
        """What the candidate states instead, as text."""
        return ", ".join(sorted(map(_written, self.said))[:_NAMED]) if self.said else None


_UNKNOWN: Final = Judgment(None)
_FULL: Final = Judgment(1.0)


def facet_matrix(facets: Sequence[Facet], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """match(f, c) for every facet and candidate: shape (n_facets, n_candidates), in [0, 1], NaN where unknown.

    Unknown is a candidate without text whose metadata do not speak of the facet.
    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    matrix = np.full((len(facets), len(candidates)), np.nan)
    wanted = [_wanted(facet) for facet in facets]
    for column, candidate in enumerate(candidates if wanted else ()):
        given = CandidateFacts(candidate.metadata, candidate.text)
        for row, each in enumerate(wanted):
            match = _judge(each, given).match
            if match is not None:
                matrix[row, column] = match
    return matrix


def judge_facet(facet: Facet, candidate: Candidate) -> Judgment:
    """How one candidate meets one facet, or what it states instead."""
    return _judge(_wanted(facet), CandidateFacts(candidate.metadata, candidate.text))


def contradictions(facets: Sequence[Facet], candidates: Sequence[Candidate]) -> NDArray[np.bool_]:
    """Which candidate states another value of which facet: shape (n_facets, n_candidates)."""
    found = [[judge_facet(facet, candidate).contradicted for candidate in candidates] for facet in facets]
    return np.array(found, dtype=np.bool_).reshape(len(facets), len(candidates))


def facet_in_text(facet: Facet, text: str) -> bool:
    """Whether `text` (a query) states the facet, fully or for the greater part, in its own words or in others."""
    if facet.value.strip() and facet.value.casefold() in text.casefold():
        return True
    return (_judge(_wanted(facet), CandidateFacts({}, text)).match or 0.0) >= MET


class _Wanted:
    """A facet, each form of it read once."""

    def __init__(self, facet: Facet) -> None:
        forms = (facet.value, *facet.aliases)
        self.kind = facet.kind
        self.names = [_Name(form) for form in forms]
        self.is_plain = False
        self.dates: list[DateRange] = []
        self.titles: list[_Name] = []
        self.places: list[Place] = []
        self.versions: list[Constraint] = []
        self.amounts: list[AmountWanted] = []
        if facet.kind == "time":
            self.dates = [dates for form in forms for dates in date_ranges(form)]
            self.titles = [_Name(alias) for alias in facet.aliases if _TITLE.fullmatch(alias)]
        elif facet.kind == "jurisdiction":
            self.places = [place for form in forms for place in places_of(form)]
            self.is_plain = not any(map(is_ambiguous, forms)) and all(len(form) > 3 for form in forms)
        elif facet.kind == "version":
            self.versions = [constraint for form in forms if (constraint := constraint_of(form))]
        elif facet.kind == "quantity":
            self.amounts = [amount for form in forms if (amount := amount_wanted(form))]


@lru_cache(maxsize=4096)
def _wanted(facet: Facet) -> _Wanted:
    return _Wanted(facet)


def _judge(wanted: _Wanted, given: CandidateFacts) -> Judgment:
    """By the text alone the answer is kept with the text's reading, for the next who asks."""
    if given.text is None or not given.is_bare:
        return _MATCHERS[wanted.kind](wanted, given)
    kept = given.text.kept
    judgment = kept.get(wanted)
    if judgment is None:
        if len(kept) >= _KEPT:
            kept.clear()
        judgment = kept[wanted] = _MATCHERS[wanted.kind](wanted, given)
    return judgment


def _time(wanted: _Wanted, given: CandidateFacts) -> Judgment:
    if given.stated_dates:
        best = max((overlap(one, other) for one in wanted.dates for other in given.stated_dates), default=0.0)
        if best < MET and wanted.titles and given.text:  # the year of a name says nothing of the chunk's own date
            best = max(float(title.match(given.text.naming) == 1.0) for title in wanted.titles)
        return _judged(best, given.stated_dates)
    if given.text is None:
        return _UNKNOWN
    if not wanted.dates:
        return _name(wanted, given)
    said = given.text.dates
    best = max((_said_time(one, value) for one in wanted.dates for value in said), default=0.0)
    return _judged(best, said)


def _said_time(wanted: DateRange, value: Value) -> float:
    """A time that a text says: whole where the date itself lies in what is asked, half where only its bound does."""
    if value.bounds is not None and value.bounds == wanted:
        return 1.0
    stated = max(overlap(wanted, reading) for reading in value.readings)
    bound = overlap(wanted, value.bounds) * _BY_BOUND if value.bounds else 0.0
    return max(stated, bound)


def _jurisdiction(wanted: _Wanted, given: CandidateFacts) -> Judgment:
    if not wanted.places:
        return _name(wanted, given)
    places = given.stated_places
    if not places:
        if given.text is None:
            return _UNKNOWN
        places = given.text.places
    best = max((place_match(one, other) for one in wanted.places for other in places), default=0.0)
    if best < 1.0 and wanted.is_plain and not given.stated_places and _named(wanted, given) == 1.0:
        return _FULL  # in small letters, or in a language that the text is not taken to be in
    return _judged(best, places)


def _version(wanted: _Wanted, given: CandidateFacts) -> Judgment:
    if not wanted.versions:
        return _name(wanted, given)
    if given.stated_versions:
        every = clear = given.stated_versions
    elif given.text is None:
        return _UNKNOWN
    else:
        every, clear = given.text.versions
    best = max((version_match(one, other) for one in wanted.versions for other in every), default=0.0)
    return _judged(best, clear)


def _quantity(wanted: _Wanted, given: CandidateFacts) -> Judgment:
    if given.text is None:
        return _UNKNOWN
    found = [
        amount_match(one, other)
        for one in wanted.amounts
        for other in given.text.amounts
        if other.unit or not one.value.unit or one.value.unit in given.text.units
    ]
    return Judgment(max(found, default=0.0))


def _name(wanted: _Wanted, given: CandidateFacts) -> Judgment:
    match = _named(wanted, given)
    if match == 0.0 and given.text is None:
        return _UNKNOWN
    if match < MET and given.text and any(name.denied(given.text.naming) for name in wanted.names):
        return Judgment(match, ("another code of the same kind",))
    return Judgment(match)


def _named(wanted: _Wanted, given: CandidateFacts) -> float:
    phrases = given.phrases
    if phrases and any(name.phrase in phrases for name in wanted.names if name.phrase):
        return 1.0
    naming = given.text.naming if given.text else None
    return max((name.match(naming, phrases) for name in wanted.names), default=0.0) if naming else 0.0


def _judged(best: float, said: Collection[object]) -> Judgment:
    if best >= MET or not said:
        return _FULL if best == 1.0 else Judgment(best)
    return Judgment(best, said)


def _written(said: object) -> str:
    """A stated value as text: a date as it stands, a place by its codes, an interval by its ends."""
    if isinstance(said, Value):
        return said.raw
    if isinstance(said, DateRange):
        return f"{said.first.isoformat()} to {said.last.isoformat()}"
    return " ".join(filter(None, said)) if isinstance(said, tuple) else str(said)


_MATCHERS: Final[dict[str, Callable[[_Wanted, CandidateFacts], Judgment]]] = {
    "time": _time,
    "jurisdiction": _jurisdiction,
    "version": _version,
    "quantity": _quantity,
    "entity": _name,
    "custom": _name,
}


class TextReading:
    """What a text states by itself. `kept` is for what others conclude from it alone."""

    def __init__(self, text: str) -> None:
        self._text = text[:_READ]
        self.kept: dict[Any, Any] = {}

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """All typed values."""
        return values(self._text)

    @cached_property
    def dates(self) -> tuple[Value, ...]:
        """The dates, each once."""
        distinct = {(value.dates, value.bounds): value for value in dates_in(self._text)}
        return tuple(distinct.values())

    @cached_property
    def amounts(self) -> tuple[Value, ...]:
        """Quantities and numbers, each once."""
        found = (value for value in self.values if value.kind in ("quantity", "number"))
        return tuple({(value.number, value.unit): value for value in found}.values())

    @cached_property
    def units(self) -> frozenset[str]:
        """The units that the text names anywhere, as a heading does: a bare number may be of one of them."""
        written = {match.group() for match in _UNIT.finditer(self._text)}
        return frozenset(unit for unit in map(unit_of, written) if unit)

    @cached_property
    def places(self) -> frozenset[Place]:
        """The places that are named."""
        return frozenset(place for _, _, place in places_in(self._text))

    @cached_property
    def versions(self) -> tuple[frozenset[Version], frozenset[Version]]:
        """The versions that may be stated, and those that surely are."""
        return versions_stated(self._text)

    @cached_property
    def naming(self) -> _Naming:
        """The words, ready to be searched for names."""
        return _Naming(self._text)


_read_text: Final = Readings(TextReading)


_NOTHING_STATED: Final = {"stated_dates": (), "stated_places": frozenset(), "stated_versions": frozenset(),
                          "phrases": frozenset()}  # fmt: skip


class CandidateFacts:
    """What a candidate states: by its metadata where they speak of a matter, else by its text; None is unknown."""

    def __init__(self, metadata: Mapping[str, Any], text: str | None) -> None:
        self._metadata = metadata
        self.is_bare = not metadata
        if self.is_bare:
            self.__dict__.update(_NOTHING_STATED)
        self.text = None if text is None else _read_text(text)

    @cached_property
    def stated_dates(self) -> tuple[DateRange, ...]:
        """The time that the metadata state."""
        first, last = self._first_date(_FROM), self._first_date(_TO)
        if first or last:
            return (DateRange(first.first if first else date.min, last.last if last else date.max),)
        return tuple(found for value in self._stated(_AT) for found in date_ranges(value))

    @cached_property
    def stated_places(self) -> frozenset[Place]:
        """The places that the metadata state."""
        return frozenset(place for value in self._stated(_PLACE) for place in places_of(value))

    @cached_property
    def stated_versions(self) -> frozenset[Version]:
        """The versions that the metadata state."""
        return frozenset(version for value in self._stated(_VERSION) for version in versions_of(value))

    @cached_property
    def phrases(self) -> frozenset[str]:
        """All values of the metadata, as phrases."""
        return frozenset(_name_phrase(value) for value in self._stated(tuple(self._metadata)))

    def _first_date(self, names: Sequence[str]) -> DateRange | None:
        return next((dates for value in self._stated(names) for dates in date_ranges(value)), None)

    def _stated(self, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            value = self._metadata.get(name)
            if isinstance(value, (list, tuple)):
                yield from (str(item)[:1000] for item in value)
            elif value is not None:
                yield str(value)[:1000]


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
def _name_phrase(text: str) -> str:
    """The stems of a text's words, accents dropped, joined by spaces."""
    return _phrase(text)


def _phrase(text: str) -> str:
    return " ".join(stem(word) for word in words(without_accents(text)))


class _Naming:
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


class _Name:
    """A name that is looked for."""

    def __init__(self, written: str) -> None:
        self.phrase = _name_phrase(written)
        plain = self.phrase.split()
        while len(plain) > 1 and plain[-1] in _LEGAL:
            plain.pop()
        self._words = plain
        self._plain = f" {' '.join(plain)} "
        self._and = f" {_name_phrase(written.replace(' & ', ' and '))} " if " & " in written else self._plain
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
        self._title = _Name(self._reference.title) if self._reference and self._reference.title else None

    def match(self, naming: _Naming, declared: Collection[str] = ()) -> float:
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

    def denied(self, naming: _Naming) -> bool:
        """Whether the text names another one of the same family, and not this one: X-300 for X-200, section 27 of the
        same law, the law of another year."""
        if self._reference:
            return self._is_other(self._reference, naming)
        return bool(self.code and self.code not in naming.codes and family(self.code) in naming.families)

    def _cited(self, reference: Reference, naming: _Naming, declared: Collection[str]) -> float:
        """A provision counts by half where its law is not named; a law without its year, and by its year alone
        ("the 2015 Act"), by half."""
        if not reference.number:
            return self._entitled(reference, naming, declared)
        stated = naming.references.match(reference.word, reference.number)
        if not stated or self._title is None:
            return stated
        return stated if self._entitled(reference, naming, declared) else min(stated, APART)

    def _entitled(self, reference: Reference, naming: _Naming, declared: Collection[str]) -> float:
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

    def _is_other(self, reference: Reference, naming: _Naming) -> bool:
        if self._years(reference, naming):
            return True
        if not reference.number or not naming.references.has_others(reference.word):
            return False
        return self._title is not None and self._entitled(reference, naming, ()) >= APART

    def _years(self, reference: Reference, naming: _Naming) -> bool:
        """Whether the text names the law of other years only."""
        if self._title is None or not reference.year:
            return False
        years = re.findall(rf" {re.escape(self._title.phrase)} (?:of )?((?:1[6-9]|20)\d\d)(?= )", naming.padded)
        return bool(years) and reference.year not in years

    def _is_spelled(self, acronym: str, naming: _Naming) -> bool:
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
