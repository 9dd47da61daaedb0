"""Contradiction of a claim in its own words: another value, an opposite, a negation, or two things exchanged.

Something in a place of the claim contradicts where a sentence has the claim's words around another thing of the same
kind, and no sentence has them as closely around the same thing. Two numbers among shared words are no contradiction; a
value that the evidence states somewhere needs more likeness than one that it does not have.

Two names, roles or values of a claim (who acquired whom, who pays, whose is 40 %) are exchanged where both stand in one
sentence of the evidence, and the words around each are around the other there, or where they stand the other way around
the same word ("A acquired B"), both active or both passive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import fsum
from typing import Final, Literal, NamedTuple, TypeAlias

from ragtrace.coverage.support._placement import Placed, Spot, Spots, Switch, likeness
from ragtrace.coverage.support.readings import Rarities, Reading, Statement
from ragtrace.coverage.text import content_stems, is_content, stem
from ragtrace.coverage.values import Value, same_kind, says

__all__ = ["Finding", "Origin", "compare", "opposition"]

Origin: TypeAlias = Literal["stated", "computed", "unproven", "unknown", "asked"]
_OriginOf: TypeAlias = Callable[[Value], Origin]
_ValueKind: TypeAlias = Literal["same", "unit", "value"]
_Relation: TypeAlias = Literal["same", "loosely", "other"]

SAME_MATTER: Final = 0.3  # share of a claim's words, by rarity, that such a sentence holds, or of its own in the claim
SAME_LENGTH: Final = 0.15  # months and years differ by this share of their days
MARGIN: Final = 0.1  # by which it must be more alike than a sentence that says what the claim says
PROPORTION: Final = 0.75  # of its likeness, the most that a sentence that says so may have
FEWEST: Final = 6  # words of a sentence, from which the share of them that a claim holds tells something
MOST: Final = 20  # values, words of pairs of opposites, and places of one word, that are compared on each side
FEWEST_AROUND: Final = 2  # words in common around two values, of which the evidence states the claim's, or two words
CROWDED: Final = 6  # values of a sentence from which it is a table, and all of them alternatives
NEEDED: Final[Mapping[str, float]] = {
    "unit": 0.25, "unknown": 0.25, "unproven": 0.25, "computed": 0.6, "stated": 0.55, "turn": 0.55, "exchange": 0.35,
    "only": 0.55,
}  # fmt: skip
"""The likeness from which a thing of this kind contradicts, chosen on the domains that the verdict is fitted on."""
OPPOSITE: Final[Mapping[str, float]] = dict.fromkeys(
    ("limit", "order", "level", "rank in order", "change", "period"), 0.4
)  # the same, of pairs of opposites
LOOSELY: Final = 0.55  # the same, of the other pairs of opposites
IN_FRONT: Final = frozenset(("quantity", "position", "frequency", "modality"))  # before the same word alone

_YES_OR_NO: Final = re.compile(r"\W*(?:yes|no)\b(?!\s\w)", re.IGNORECASE)  # what follows repeats the question
_ALTERNATIVE: Final = re.compile(r"\b(?:or|also|either|as\s+well|both|too|alternatively)\b", re.IGNORECASE)
_RESTRICTS: Final = re.compile(
    r"\b(?:only|solely|exclusively|just|limited|no\s+other|nobody|except|unless|sole|alone|merely|must|not)\b|n['’]t\b",
    re.IGNORECASE,
)
_CELL: Final = "|"  # between the cells of a table's row
_HOW_OFTEN: Final = frozenset("every each once twice after from".split())
"""Behind an "only" that restricts how often or when, and names no one of several things."""
IN_ITS_CASE: Final = 0.65  # how sure it is that a value of another case is wrong: suspicion, and in a copy proof
MOST_CASES: Final = 5  # values of one kind, each with a condition of its own, that a sentence and those beside it have
_PARTING: Final = re.compile(r"[,;:]\s|\b(?:and|but|while|whereas)\b", re.IGNORECASE)
_ASIDE: Final = re.compile(r"(?:\bnot|n['’]t)\s*,[^,.;]{1,60},", re.IGNORECASE)
_BOUNDS: Final = frozenset(("limit", "level", "order"))  # opposites that two cases of one sentence may have
_POUNDS: Final = frozenset(("GBP", "lb"))
_WRITTEN_OUT: Final = re.compile(r"\d[^.;\n]*?(?:=|≈)\s?\W{0,3}$")


class Said(NamedTuple):
    """What some sentence says of one thing of a claim: how closely the same, how closely something else, in [0, 1].

    needed: the closeness from which something else contradicts.
    """

    same: float = 0.0
    other: float = 0.0
    reason: str = ""
    needed: float = 1.0

    @property
    def is_close(self) -> bool:
        """Whether something else is said in company close enough."""
        return self.other >= self.needed

    @property
    def opposes(self) -> bool:
        """Whether something else is said, and in closer company than what the claim says."""
        return self.is_close and self.same <= min(self.other - MARGIN, self.other * PROPORTION)

    @property
    def contradiction(self) -> float:
        """0 where nothing opposes; else in [0.5, 1], by how closely."""
        return 0.5 + 0.5 * (self.other - self.needed) / (1 - self.needed) if self.opposes else 0.0

    def joined(self, more: Said) -> Said:
        """Both, the closest of each; of the others the one that surpasses most what is needed."""
        ours = self.other - self.needed >= more.other - more.needed
        closest = self if ours else more
        return Said(max(self.same, more.same), closest.other, closest.reason, closest.needed)


_UNHEARD: Final = Said()
"""Stands for something else that is not said closely enough to matter."""


class _Near(NamedTuple):
    """A sentence that may speak of the same as a claim: its place in the chunk, the share of the claim's words that it
    has, what its values are to those of the claim, and how many are the same; the places of those that the sentences
    before and behind it state, or a row of a table; the whole chunk, and the words of the question."""

    at: int
    placed: Placed
    held: float
    related: Sequence[Sequence[_Relation | None]]
    same: int
    beside: Set[int]
    chunk: Reading
    words: Set[str]

    @property
    def neighbors(self) -> list[Placed]:
        """The sentences right before and behind it."""
        sentences, at = self.chunk.sentences, self.at
        return [each.placed for each in (*sentences[max(0, at - 1) : at], *sentences[at + 1 : at + 2])]


class _Case(NamedTuple):
    """A value, and the words of that part of a sentence which has it."""

    value: Value
    words: frozenset[str]
    placed: Placed


@dataclass(frozen=True, slots=True)
class Finding:
    """What a chunk says of each thing of a claim of which some chunk says something else, and the places of the
    sentences that contradict."""

    said: Mapping[str, Said] = field(default_factory=dict)
    sentences: frozenset[int] = frozenset()


def opposition(findings: Iterable[Finding]) -> tuple[float, str | None]:
    """How far some chunks, heard together, contradict a claim, in [0, 1], and why."""
    heard: dict[str, Said] = {}
    for finding in findings:
        for key, said in finding.said.items():
            heard[key] = heard.get(key, Said()).joined(said)
    worst = max((said for said in heard.values() if said.opposes), key=lambda said: said.contradiction, default=None)
    return (worst.contradiction, worst.reason) if worst else (0.0, None)


def compare(
    statement: Statement,
    readings: Sequence[Reading],
    rarities: Rarities,
    origin_of: _OriginOf,
    asked: Set[str] = frozenset(),
) -> list[Finding]:
    """Compare a claim with each sentence of some chunks.

    rarities: of the claim's words; origin_of: whether the evidence states a value of the claim, or the question does;
    asked: the words of the question.
    """
    placed = statement.placed
    tabled = _in_tables(statement.values, readings)
    near = [list(_near(statement, reading, rarities, tabled, asked)) for reading in readings]
    turned = statement.is_turned
    spoken = [[_spoken(placed, sentence, origin_of, is_turned=turned) for sentence in each] for each in near]
    doubted = {key for sentences in spoken for said in sentences for key, each in said.items() if each.is_close}
    if not doubted:
        return [Finding()] * len(near)
    is_place_doubted = not all(key.startswith("value ") for key in doubted)
    values = [place for place in range(min(MOST, len(placed.values))) if f"value {place}" in doubted]
    for sentences, found in zip(near, spoken, strict=True):  # what agrees matters only where something does not
        for place, sentence in enumerate(sentences):
            if is_place_doubted:
                found[place] = _spoken(placed, sentence, origin_of, is_turned=turned, with_agreed=True)
            if values and sentence.related:
                _hear(found[place], _same_values(placed, sentence, values))
    return [_finding(sentences, found, doubted) for sentences, found in zip(near, spoken, strict=True)]


def _in_tables(claimed: Sequence[Value], readings: Sequence[Reading]) -> frozenset[int]:
    """The places of a claim's values that a row of a table states: heads tell what they are of, and no words around."""
    rows = [each for reading in readings if _CELL in reading.text for each in reading.sentences if _CELL in each.text]
    return frozenset(place for place, value in enumerate(claimed) if any(row.stated.holds(value) for row in rows))


def _near(
    statement: Statement, reading: Reading, rarities: Rarities, tabled: Set[int], asked: Set[str]
) -> Iterator[_Near]:
    beside: list[set[int]] = [set(tabled) for _ in reading.sentences]
    for place, value in enumerate(statement.values):
        if reading.stated.holds(value):
            for at, sentence in enumerate(reading.sentences):
                if sentence.stated.holds(value):
                    for near in (*beside[max(0, at - 1) : at], *beside[at + 1 : at + 2]):
                        near.add(place)
    words, weight_of, total = statement.words, rarities.weights.__getitem__, rarities.total
    for at, sentence in enumerate(reading.sentences):
        shared = words & sentence.words
        held = min(1.0, fsum(map(weight_of, shared)) / total) if total else 1.0  # as `containment`
        if held < SAME_MATTER:
            count = len(sentence.words)  # a claim may join what two sentences say
            if count < FEWEST or len(shared) / count < SAME_MATTER:
                continue
        related = _relations(statement.placed, sentence.placed)
        same = sum([row.count("same") for row in related if "same" in row])
        yield _Near(at, sentence.placed, held, related, same, beside[at], reading, asked)


def _relations(claimed: Placed, given: Placed) -> list[list[_Relation | None]]:
    """What each of the first `MOST` values of a sentence is to each value of a claim: the same; the same, of another
    kind, as a number without its unit is; another one of the same kind; or None of these."""
    stated = given.values[:MOST]
    return [[_relation(value, other) for other in stated] for value in claimed.values] if stated else []


def _relation(value: Value, stated: Value) -> _Relation | None:
    dates, given = value.dates, stated.dates
    if (dates is None) != (given is None):
        return None
    if dates and given and value.other_dates is None and stated.other_dates is None:  # nearly always
        if dates.last < given.first or given.last < dates.first:
            return "other"
        if dates == given and value.bounds is None and stated.bounds is None:
            return "same"
    if same_kind(value, stated):
        return "same" if says(value, stated) else "other"
    return "loosely" if says(value, stated) else None


def _hear(found: dict[str, Said], spoken: Iterable[tuple[str, Said]]) -> None:
    """Add what is said to what was said before."""
    for key, said in spoken:
        found[key] = found[key].joined(said) if key in found else said


def _finding(sentences: Sequence[_Near], spoken: Sequence[Mapping[str, Said]], doubted: Set[str]) -> Finding:
    against: list[int] = []
    found: dict[str, Said] = {}
    for sentence, said in zip(sentences, spoken, strict=True):
        if said:
            _hear(found, ((key, each) for key, each in said.items() if key in doubted))
            if any(each.other >= each.needed and each.opposes for each in said.values()):
                against.append(sentence.at)
    return Finding(found, frozenset(against))


def _spoken(
    claimed: Placed, sentence: _Near, origin_of: _OriginOf, *, is_turned: bool, with_agreed: bool = False
) -> dict[str, Said]:
    """What a sentence says of each thing of a claim. Without with_agreed only what else it says, and of values also of
    which: how closely it says the same takes longer, and matters only where something else is close."""
    given, held, related = sentence.placed, sentence.held, sentence.related
    found: dict[str, Said] = {}
    if related:
        _hear(found, _of_values(claimed, sentence, origin_of))
    if not is_turned:
        if not claimed.switches_by_kind.keys().isdisjoint(given.switches_by_kind):
            _hear(found, _of_opposites(claimed, given, held, with_agreed=with_agreed))
        if claimed.heads or given.heads:
            _hear(found, _of_negations(claimed, given, held, with_agreed=with_agreed))
    if "only" in claimed.text:
        _hear(found, _of_only(claimed, given, held))
    for pair, same, other in _exchanges(claimed, sentence, with_agreed=with_agreed):
        said = Said(same, other, f"{pair} are exchanged", NEEDED["exchange"])
        found[pair] = found[pair].joined(said) if pair in found else said
    return found


def _of_values(claimed: Placed, sentence: _Near, origin_of: _OriginOf) -> Iterator[tuple[str, Said]]:
    """Other values in the place of a claim's; none where two of them are others, which tells of another case."""
    evidence, held, related = sentence.placed, sentence.held, sentence.related
    same_places: Set[int] = frozenset()
    if sentence.same:
        same_places = {index for row in related for index, relation in enumerate(row) if relation == "same"}
    kinds: dict[int, list[tuple[int, _ValueKind]]] = {}
    said: set[int] = set()
    others: set[int] = set()
    for place, row in enumerate(related[:MOST]):
        if claimed.named[place]:
            continue
        number = claimed.values[place].number
        for index, relation in enumerate(row):
            if relation is None and number != evidence.values[index].number:
                continue  # as `_kind` would say: nothing
            if kind := _kind(claimed, place, evidence, index, relation, same_places):
                kinds.setdefault(place, []).append((index, kind))
                if kind != "unit":
                    (said if kind == "same" else others).add(place)
    is_other = len(others - said) > 1
    for place, kinds_there in kinds.items():
        value, span = claimed.values[place], claimed.spans[place]
        is_beside = place in sentence.beside
        is_compared = place in others and (place in said or is_beside)
        if is_compared and (cases := _cases_around(value, sentence)):
            own = _own_case(cases, claimed, sentence)
            if own is None and place in said:
                continue  # "at 7:45", of "at 6:15 on weekdays and at 7:45 on weekends": of which case is not said
            if own is not None and says(value, own.value):
                continue
            if own is not None and own.placed is evidence and span is not None and origin_of(value) != "asked":
                if sum(same_kind(value, other) for other in claimed.values) == 1:  # of several it may be another's
                    reason = f"{value.raw}, the evidence says {own.value.raw}"
                    yield f"value {place}", Said(0.0, IN_ITS_CASE, reason, 0.5)
                continue
        for index, kind in kinds_there:
            if kind == "value" and is_other:
                continue
            stated, where = evidence.values[index], evidence.spans[index]
            if span is None or where is None:
                continue
            if kind == "same":
                if other := _swapped(claimed, place, evidence, index):
                    yield f"value {place}", Said(0.0, 1.0, f"{value.raw}, the evidence says {other.raw}", 0.5)
                continue
            origin = origin_of(value)
            if origin in ("computed", "stated") and _WRITTEN_OUT.search(claimed.text[: value.start]):
                continue  # 96 − 12 = 84: the figure is that of the sum, and no other one's
            is_table = len(evidence.values) >= CROWDED or _CELL in evidence.text
            if origin == "asked" or (origin in ("stated", "computed") and is_table):
                continue
            if kind == "value" and (is_beside or (origin != "unknown" and value.unit != stated.unit)):
                continue  # "Ground 4: two months' rent. Notice: 14 days."; years are not altered to weeks
            if value.kind == "number" and not claimed.counts[place]:
                origin = "stated"  # that both count the same is not known
            needed = NEEDED["unit"] if kind == "unit" and origin != "stated" else NEEDED[origin]
            fewest = 1 if origin == "unknown" else FEWEST_AROUND
            alike = likeness(claimed.around(span), evidence.around(where), held, fewest)
            is_close = alike >= needed
            reason = f"{value.raw}, the evidence says {stated.raw}" if is_close else ""
            yield f"value {place}", Said(0.0, alike, reason, needed) if is_close else _UNHEARD


def _cases_around(value: Value, sentence: _Near) -> list[_Case]:
    """The cases of which a sentence tells, with those beside it, where a value is that of one of them; else none."""
    cases = [case for each in (sentence.placed, *sentence.neighbors) for case in _cases(each, value)]
    return cases if 1 < len(cases) <= MOST_CASES and any(says(value, case.value) for case in cases) else []


def _own_case(cases: Sequence[_Case], claimed: Placed, sentence: _Near) -> _Case | None:
    """The only one of several cases of which claim and question have all words of its own; None where that tells none
    of them."""
    words = sentence.words | content_stems(claimed.text)
    told = []
    for place, case in enumerate(cases):
        alone = case.words.difference(*(other.words for at, other in enumerate(cases) if at != place))
        if not alone:
            return None
        if alone <= words:
            told.append(case)
    return told[0] if len(told) == 1 else None


def _cases(placed: Placed, like: Value) -> list[_Case]:
    """The parts of a sentence that have one value each of the kind of another, with their words; kept with it."""
    kind = (like.kind, like.unit, like.dates is None)
    found: list[_Case] | None = placed.cases.get(kind)
    if found is None:
        found = placed.cases[kind] = _read_cases(placed, like)
    return found


def _read_cases(placed: Placed, like: Value) -> list[_Case]:
    if _CELL in placed.text:
        return []
    alike = [value for at, value in enumerate(placed.values) if not placed.named[at] and same_kind(value, like)]
    cases: list[_Case] = []
    start = 0
    for value, following in zip(alike, (*alike[1:], None), strict=bool(alike)):
        if following is None:
            end = len(placed.text)
        elif (parting := _PARTING.search(placed.text, value.end, following.start)) is not None:
            end = parting.start()
        else:
            return []
        cases.append(_Case(value, content_stems(placed.text[start:end]), placed))
        start = end
    return cases


def _same_values(claimed: Placed, sentence: _Near, places: Sequence[int]) -> Iterator[tuple[str, Said]]:
    """How closely a sentence says those values of the claim that another one is found in the place of."""
    given, held, related = sentence.placed, sentence.held, sentence.related
    for place in places:
        value, span, row = claimed.values[place], claimed.spans[place], related[place]
        if span is None or ("same" not in row and "loosely" not in row and not _may_mean(value, given.values[:MOST])):
            continue
        same = [
            where
            for at, where in enumerate(given.spans[:MOST])
            if where
            and _kind(claimed, place, given, at, row[at], frozenset()) == "same"
            and not _swapped(claimed, place, given, at)
        ]
        cases = _cases_around(value, sentence) if same else []
        own = _own_case(cases, claimed, sentence) if cases else None
        if own is not None and not says(value, own.value):
            continue  # that of another case
        for where in same:
            yield f"value {place}", Said(likeness(claimed.around(span), given.around(where), held, 1))


def _may_mean(value: Value, stated: Sequence[Value]) -> bool:
    """Whether one of some values is the same as another one although it does not say it (see `_kind`)."""
    if value.dates:
        return value.dates in [other.dates for other in stated]
    return value.number in [other.number for other in stated]


def _kind(
    claimed: Placed, place: int, evidence: Placed, index: int, relation: _Relation | None, same_places: Set[int]
) -> _ValueKind | None:
    """What a value of a sentence is to one of the claim: the same, the same number of another unit, or another value
    that could stand in its place; None for none of these. same_places: values of the sentence that the claim states."""
    value, stated = claimed.values[place], evidence.values[index]
    if relation is None and value.number != stated.number:
        return None
    if claimed.named[place] or evidence.named[index]:
        return None
    if relation in ("same", "loosely"):
        return "same"
    if value.dates and value.dates == stated.dates and _turns_at(stated, evidence):
        return "same"  # until 1902, when it was converted: so from 1902 on it was another
    if {value.unit, stated.unit} == _POUNDS and value.number == stated.number:
        return "same"  # "1350 pounds" is read as money
    if value.number == stated.number and value.unit != stated.unit and not value.dates and not stated.dates:
        return "unit" if value.unit and (stated.unit or stated.kind == "number") else None
    if relation is None or index in same_places:
        return None
    if value.dates and stated.dates and abs(value.dates.days - stated.dates.days) > SAME_LENGTH * value.dates.days:
        return None
    return "value" if stated.kind != "number" or evidence.counts[index] == claimed.counts[place] else None


def _turns_at(value: Value, evidence: Placed) -> bool:
    """Whether a sentence says what changed at the end of a time: "until 1902, when"."""
    return (
        re.search(rf"{re.escape(value.raw)}\s*,?\s+(?:when|after\s+which)\b", evidence.text, re.IGNORECASE) is not None
    )


def _swapped(claimed: Placed, place: int, given: Placed, at: int) -> Value | None:
    """The value that a sentence has in the place of a claim's where the claim has two of them the other way around:
    "60 % project, 40 % exam" for "40 % project, 60 % exam"."""
    value, own, others = claimed.values[place], claimed.counts[place], given.counts[at]
    if not own or not others or own == others:
        return None
    other, stated = claimed.counting.get(others), given.counting.get(own)
    crossed = other and stated and same_kind(other, value) and says(other, stated) and not says(value, stated)
    return stated if crossed else None


def _of_opposites(claimed: Placed, given: Placed, held: float, *, with_agreed: bool) -> Iterator[tuple[str, Said]]:
    agreeing: dict[tuple[int, int], bool] = {}
    for own, switch in enumerate(claimed.switches[:MOST]):
        if switch.loose or switch.kind not in given.switches_by_kind or (switch.kind in _BOUNDS and given.has_cases):
            continue  # ready "after 48 hours if it is up to 3 cm thick, after 60 if it is thicker"
        for there in given.switches_by_kind[switch.kind]:
            if there < MOST and (agrees := _agrees(claimed, own, given, there)) is not None:
                agreeing[own, there] = agrees
    opposed = [places for places, agrees in agreeing.items() if not agrees]
    if not opposed and not with_agreed:
        return
    alike = {
        (own, there): likeness(claimed.around(_ends(claimed, own)), given.around(_ends(given, there)), held)
        for own, there in agreeing
    }
    for own, there, said in _contrasted(alike, opposed):
        switch, other = claimed.switches[own], given.switches[there]
        reason = f"“{switch.written}”, the evidence says “{other.written}”"
        yield f"opposite {own}", said._replace(reason=reason, needed=OPPOSITE.get(switch.kind, LOOSELY))


def _ends(placed: Placed, place: int) -> tuple[int, int]:
    """The first and last word of one of a pair of opposites."""
    switch = placed.switches[place]
    return switch.first, switch.last


def _contrasted(
    alike: Mapping[tuple[int, int], float], opposed: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, Said]]:
    """What two places say of each other: as closely the same, or the opposite where no place of both agrees as closely.

    alike: the likeness of each place of a claim with one of a sentence; opposed: those that say opposite things.
    """
    agreed = alike.keys() - set(opposed)
    yield from ((own, there, Said(alike[own, there])) for own, there in agreed)
    for own, there in opposed:
        meant = max((alike[each] for each in agreed if own == each[0] or there == each[1]), default=0.0)
        if meant < PROPORTION * alike[own, there]:
            yield own, there, Said(0.0, alike[own, there])


def _of_only(claimed: Placed, evidence: Placed, held: float) -> Iterator[tuple[str, Said]]:
    """An "only" before something of which a sentence names alternatives: "online or at the counter"."""
    alternatives = _ALTERNATIVE.search(evidence.text) and not (
        _ALTERNATIVE.search(claimed.text) or _RESTRICTS.search(evidence.text)
    )
    for place, word in enumerate(claimed.words[:-1]):
        if word != "only" or not claimed.next_term(place) or claimed.word_places[place + 1] >= 0:
            continue
        if claimed.words[place + 1] in _HOW_OFTEN:
            continue
        for there in islice(evidence.spots(claimed.next_term(place)), MOST):
            alike = likeness(claimed.around((place, place)), evidence.around((there, there)), held)
            reason = "“only”, the evidence names others"
            yield f"only {place}", Said(0.0, alike, reason, NEEDED["only"]) if alternatives else Said(alike)


def _agrees(claimed: Placed, own: int, given: Placed, there: int) -> bool | None:
    """Whether a word of a pair of opposites is meant as one of a sentence is; None where they cannot be compared."""
    switch, other = claimed.switches[own], given.switches[there]
    if switch.kind == "limit":
        bound, stated = claimed.bounded(switch), given.bounded(other)
        is_same = says(bound, stated) if bound and stated else bound is stated and switch.written == other.written
        if not is_same:
            return None
    if claimed.senses[own] == given.senses[there]:
        return True
    if other.loose or switch.weak or (switch.written == other.written and not switch.compares):
        return None
    if switch.kind in IN_FRONT and claimed.next_term(switch.last) != given.next_term(other.last):
        return None
    if switch.kind == "condition" and _is_put_otherwise(claimed, switch, given, other):
        return None
    if switch.kind == "modality" and (
        claimed.is_negated(switch.first)
        or given.is_negated(other.first)
        or claimed.has_date(switch.first)
        or given.has_date(other.first)
    ):
        return None  # "must not" and "may not" are the same; what can be claimed until a day has to be, by it
    if switch.kind == "order" and (claimed.refers_back(switch) or given.refers_back(other)):
        return None
    if switch.kind == "limit" and (claimed.is_denied(switch) or given.is_denied(other)):
        return None  # "no later than two hours before" is at least two hours before
    if switch.kind == "limit" and claimed.is_between:
        return None  # "below 99.9 % but above 99.5 %" is no opposite of "below 99.5 %"
    if switch.kind != "limit":
        is_table = len(given.values) >= CROWDED
        if is_table or claimed.is_other_case(switch.first, given, other.first):
            return None
    return False


def _is_put_otherwise(claimed: Placed, switch: Switch, given: Placed, other: Switch) -> bool:
    """Whether "if" and "unless" may say the same, since what depends on them is negated in one of both: "paid only if",
    "not paid unless"."""
    if claimed.is_exclusive(switch) or given.is_exclusive(other):
        return True
    return len(claimed.negations) % 2 != len(given.negations) % 2


def _of_negations(claimed: Placed, given: Placed, held: float, *, with_agreed: bool) -> Iterator[tuple[str, Said]]:
    """A word that one of both negates, and the other has in a clause without any negation."""
    shared = (claimed.head_terms | given.head_terms) & claimed.term_set & given.term_set
    for term in filter(is_content, shared):
        there_all = list(islice(given.spots(term), MOST))
        pairs = [(own, there) for own in islice(claimed.spots(term), MOST) for there in there_all]
        opposed = [(own, there) for own, there in pairs if _is_negated_otherwise(claimed, own, given, there)]
        if not opposed and not with_agreed:
            continue
        alike: dict[tuple[int, int], float] = {}
        for own, there in pairs:
            around, beside = claimed.around((own, own)), given.around((there, there))
            is_alone = not around.total and not beside.total  # "Do not freeze."
            fewest = 1 if _YES_OR_NO.match(claimed.text) else FEWEST_AROUND
            alike[own, there] = 1.0 if is_alone else likeness(around, beside, held, fewest)
        for own, _, said in _contrasted(alike, opposed):
            reason = f"“{claimed.words[own]}” {NEGATED}"
            yield f"turn {own}", said._replace(reason=reason, needed=NEEDED["turn"])


def _is_negated_otherwise(claimed: Placed, own: int, given: Placed, there: int) -> bool:
    if (own in claimed.heads) == (there in given.heads) or claimed.is_negated(own) == given.is_negated(there):
        return False
    if claimed.is_condition(own) or given.is_condition(there):
        return False
    if claimed.is_negated(own) and _ASIDE.search(given.text):
        return False  # "does not, as guides like to claim, show" it
    if given.is_conditional and claimed.is_negated(own) and len(claimed.negated_clauses) > 1:
        return False  # "not doubled, as you weren't late" where it is doubled if somebody was
    if claimed.may_share_negation(own) or given.may_share_negation(there):
        return False
    return claimed.turning(own) == given.turning(there) and not claimed.is_other_case(own, given, there)


MOST_EXCHANGED: Final = 12  # values of a claim that are compared two by two
TABLE_VALUES: Final = 8  # values of a sentence from which it is a table
BETWEEN: Final = 9  # words between two names that a word of both relates
NEGATED: Final = "is negated against the evidence"
"""How the reason of a contradiction ends that is a negation."""

ALIKE: Final = 0.5  # share of the words between two names that are the same the other way around
VALUES_CROSSED: Final = 0.35  # likeness of each value with the place of the other
NAMES_CROSSED: Final = 0.55  # the same, of names
ROLES_CROSSED: Final = 0.8  # the same, of roles
NEARLY: Final = 0.9  # of both likenesses of roles together, the most that those with the own places may have
ROLES_HELD: Final = 0.7  # share of a claim's words that a sentence has in which its roles are exchanged
STRAIGHT: Final = 0.85  # of both likenesses together, the most that those with the own places may have
_MUTUAL: Final = frozenset(
    map(stem, "meet met marry married border connect join differ equal versus compare play mean name call".split())
)  # what is the same the other way around


_BESIDE: Final = frozenset("of for in on at during within per with".split())
_TOWARDS: Final = frozenset(("to", "from"))
_ARTICLES: Final = frozenset("the a an each every our your their its this these".split())


def _exchanges(claimed: Placed, sentence: _Near, *, with_agreed: bool) -> Iterator[tuple[str, float, float]]:
    """Of each two that a sentence has what they are, and how surely they stand there as in the claim and exchanged,
    each in [0, 1]; without `with_agreed` only of those that are exchanged."""
    evidence, held = sentence.placed, sentence.held
    may_be_crossed = sentence.same > 1 and 1 < len(evidence.values) <= TABLE_VALUES
    values = _shared_values(claimed, sentence) if may_be_crossed else []
    for kind in dict.fromkeys(_kind_of(claimed, own) for own, _ in values) if len(values) > 1 else ():
        alike = [both for both in values if _kind_of(claimed, both[0]) == kind]
        yield from _exchanged(claimed, evidence, alike, held, VALUES_CROSSED, with_agreed)
    names, others = claimed.name_spots, evidence.name_spots
    if len(names.terms & others.terms) > 1 and len(shared := _shared(names, others)) > 1:
        yield from _names(claimed, evidence, shared, held, NAMES_CROSSED, with_agreed)
    if held < ROLES_HELD:
        return
    roles, others = claimed.role_spots, evidence.role_spots
    if len(roles.terms & others.terms) > 1 and len(shared := _shared(roles, others)) > 1:
        yield from _names(claimed, evidence, shared, held, ROLES_CROSSED, with_agreed)


def _names(
    claimed: Placed,
    given: Placed,
    names: Sequence[tuple[Spot, Spot]],
    held: float,
    needed: float,
    with_agreed: bool,
) -> Iterator[tuple[str, float, float]]:
    yield from _exchanged(claimed, given, names, held, needed, with_agreed)
    for (one, one_there), (two, two_there) in combinations(names, 2):
        first, first_there, second, second_there = one, one_there, two, two_there
        if two < one:
            first, first_there, second, second_there = two, two_there, one, one_there
        is_straight = first_there.last < second_there.first
        if is_straight and not with_agreed:
            continue
        if _are_beside(claimed, first, second) or _are_beside(given, *sorted((first_there, second_there))):
            continue
        pair = f"the order of {_written(claimed, first)} and {_written(claimed, second)}"
        if is_straight:
            yield pair, _related(claimed, first, second, given, first_there, second_there) * held, 0.0
        else:
            yield pair, 0.0, _related(claimed, first, second, given, second_there, first_there) * held


def _are_beside(placed: Placed, first: Spot, second: Spot) -> bool:
    """Whether one of two names stands beside what happens, behind a preposition, and neither does it nor bears it: "the
    pass of the year costs 9 euros for an adult"."""
    return _behind(placed, first) in _BESIDE | _TOWARDS or _behind(placed, second) in _BESIDE


def _behind(placed: Placed, spot: Spot) -> str:
    """The word that a name stands behind, a determiner left out."""
    before = [word for word in placed.words[max(0, spot.first - 2) : spot.first] if word not in _ARTICLES]
    return before[-1] if before else ""


def _shared_values(claimed: Placed, sentence: _Near) -> list[tuple[Spot, Spot]]:
    """The values of a claim that a sentence states once, with their places in both."""
    given, related = sentence.placed, sentence.related
    found = []
    for place, span in enumerate(claimed.spans[:MOST_EXCHANGED]):
        where = [at for at, relation in enumerate(related[place]) if relation == "same"]
        if span and len(where) == 1 and (there := given.spans[where[0]]) and not claimed.named[place]:
            found.append((Spot(*span), Spot(*there)))
    return found


def _kind_of(placed: Placed, spot: Spot) -> tuple[str, str]:
    value = placed.values[placed.word_places[spot.first]]
    return value.kind, value.unit


def _shared(own: Spots, given: Spots) -> list[tuple[Spot, Spot]]:
    """The names or roles of a claim that a sentence has once, with their places in both."""
    return [(spot, there) for spot, terms in own.single if (there := given.one_with(terms)) is not None]


def _exchanged(
    claimed: Placed,
    given: Placed,
    shared: Sequence[tuple[Spot, Spot]],
    held: float,
    needed: float,
    with_agreed: bool,
) -> Iterator[tuple[str, float, float]]:
    ours = [claimed.sharply_around(own) for own, _ in shared]
    for at, to in combinations(range(len(shared)), 2):
        two = given.sharply_around(shared[to][1])
        there = likeness(ours[at], two, held)
        if there < needed and not with_agreed:
            continue
        one = given.sharply_around(shared[at][1])
        back = likeness(ours[to], one, held) if there >= needed else 0.0
        if back < needed and not with_agreed:
            continue
        crossed, straight = there + back, likeness(ours[at], one, held) + likeness(ours[to], two, held)
        is_copy = needed == ROLES_CROSSED  # all words around but the other role's are the same in both places
        is_exchanged = back >= needed and straight < (NEARLY if is_copy else STRAIGHT) * crossed
        if is_exchanged or with_agreed:
            pair = f"the places of {_written(claimed, shared[at][0])} and {_written(claimed, shared[to][0])}"
            yield pair, 0.0 if is_copy and is_exchanged else straight / 2, crossed / 2 if is_exchanged else 0.0


def _related(claimed: Placed, first: Spot, second: Spot, given: Placed, one: Spot, two: Spot) -> float:
    """How much the words between two names are those between them in a sentence; 0 where the voice differs."""
    ours, theirs = range(first.last + 1, second.first), range(one.last + 1, two.first)
    if max(len(ours), len(theirs)) > BETWEEN or _is_passive(claimed, ours) != _is_passive(given, theirs):
        return 0.0
    between = {term for at in ours if (term := claimed.word_terms[at]) and is_content(term)}
    beside = {term for at in theirs if (term := given.word_terms[at]) and is_content(term)}
    if not between & beside or not _MUTUAL.isdisjoint(between & beside):
        return 0.0
    if (
        claimed.clauses[first.last] != claimed.clauses[second.first]
        or given.clauses[one.last] != given.clauses[two.first]
    ):
        return 0.0
    share = len(between & beside) / max(len(between), len(beside))
    return share if share >= ALIKE else 0.0


def _is_passive(placed: Placed, between: range) -> bool:
    return any(placed.words[at] in ("by", "from") for at in between)


def _written(placed: Placed, spot: Spot) -> str:
    return placed.text[placed.starts[spot.first] : placed.ends[spot.last]]
