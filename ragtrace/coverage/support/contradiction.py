"""Which sentences of a chunk say the opposite of a claim: another value in the same place, or a negation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from ragtrace.coverage.support.placement import Placed, Turn, close_company, company
from ragtrace.coverage.support.reading import Reading, Vocabulary, Window
from ragtrace.coverage.support.statement import Statement
from ragtrace.coverage.values import Value, same_kind, says

__all__ = ["Finding", "compare", "containment", "opposition", "rarities_of"]

SAME_PLACE: Final = 0.5  # share of the words around a value or negation from which a sentence speaks of the same thing
MARGIN: Final = 0.2  # by which it must be closer than a sentence that says what the claim says
SAME_MATTER: Final = 0.3  # share of a claim's words, by rarity, that such a sentence holds, or of its own in the claim
SAME_SENTENCE: Final = 0.6  # the same, where a negation turns the meaning
SAME_LENGTH: Final = 0.15  # months and years differ by this share of their days
COPIED: Final = 0.6  # share of the words around, from which a sentence is taken to be a copy there
FEWEST: Final = 6  # words of a sentence, from which the share of them that a claim holds tells something
MOST: Final = 40  # values of a claim, and places of one word, that are looked up


class Said(NamedTuple):
    """What some sentence says of one value or negation of a claim: how closely the same, how closely something else."""

    same: float = 0.0
    other: float = 0.0
    reason: str = ""

    @property
    def opposes(self) -> bool:
        """Whether something else is said, and in closer company than what the claim says."""
        return self.other >= SAME_PLACE and self.other > self.same + MARGIN

    def joined(self, more: Said) -> Said:
        """Both, the closest of each."""
        other = max(self, more, key=itemgetter(1, 2))
        return Said(max(self.same, more.same), other.other, other.reason)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a chunk says of each value and negation of a claim, and the places of the sentences that contradict."""

    said: Mapping[str, Said] = field(default_factory=dict)
    sentences: frozenset[int] = frozenset()


def opposition(findings: Iterable[Finding]) -> tuple[float, str | None]:
    """How far some chunks, heard together, contradict a claim, in [0, 1], and why."""
    heard: dict[str, Said] = {}
    for finding in findings:
        for key, said in finding.said.items():
            heard[key] = heard.get(key, Said()).joined(said)
    worst = max((said for said in heard.values() if said.opposes), key=lambda said: said.other, default=None)
    return (worst.other, worst.reason) if worst else (0.0, None)


class Rarities(NamedTuple):
    """How rare each word of a claim is, and the sum of it."""

    weights: Mapping[str, float]
    total: float


def containment(statement: Statement, words: frozenset[str], rarities: Rarities) -> float:
    """The share of the claim's words that `words` holds, weighed by rarity, in [0, 1]; 1 for a claim without words."""
    if not rarities.total:
        return 1.0
    return min(1.0, sum(map(rarities.weights.__getitem__, statement.words & words)) / rarities.total)


def compare(statement: Statement, readings: Sequence[Reading], rarities: Rarities) -> list[Finding]:
    """Compare a claim with each sentence of some chunks; rarities: of the claim's words.

    A sentence says something else where the words around a value or a negation of the claim stand around another value
    of the same kind, or around the same word without the negation (or the reverse). What other chunks negate makes no
    sentence say something else: it tells only where they have to agree.
    """
    if not any(_may_oppose(statement, sentence, rarities) for reading in readings for sentence in reading.sentences):
        return [Finding()] * len(readings)  # what agrees matters only where something does not
    negated = frozenset().union(*(reading.negated for reading in readings))
    turning = statement.placed.negated | (negated & statement.placed.vocabulary)
    return [_compare(statement, reading, rarities, turning) for reading in readings]


def _compare(statement: Statement, reading: Reading, rarities: Rarities, turning: frozenset[str]) -> Finding:
    """turning: words of the claim that the claim or some chunk negates."""
    found: dict[str, Said] = {}
    against: set[int] = set()
    for at, sentence in enumerate(reading.sentences):
        if not sentence.values and turning.isdisjoint(sentence.vocabulary):
            continue
        spoken: dict[str, Said] = {}
        for key, said in _spoken(statement, sentence, turning, _held(statement, sentence, rarities)):
            spoken[key] = spoken[key].joined(said) if key in spoken else said
        for key, said in spoken.items():
            found[key] = found[key].joined(said) if key in found else said
            if said.opposes:
                against.add(at)
    return Finding(found, frozenset(against))


def _may_oppose(statement: Statement, sentence: Window, rarities: Rarities) -> bool:
    """Whether a closer look at a sentence could find it to say something else."""
    placed = statement.placed
    turned = not placed.vocabulary.isdisjoint(sentence.vocabulary & (placed.negated | sentence.negated))
    valued = any(same_kind(value, stated) for value in placed.values[:MOST] for stated in sentence.values)
    needed = SAME_MATTER if valued else SAME_SENTENCE
    return (turned or valued) and _held(statement, sentence, rarities) >= needed


def _held(statement: Statement, sentence: Window, rarities: Rarities) -> float:
    """How much a sentence and a claim share: of the claim, or of the sentence, since a claim may join what two say."""
    shared = len(sentence.words & statement.words)
    own = shared / len(sentence.words) if len(sentence.words) >= FEWEST else 0.0
    return max(containment(statement, sentence.words, rarities), own)


def _spoken(statement: Statement, sentence: Window, turning: frozenset[str], held: float) -> Iterator[tuple[str, Said]]:
    placed = statement.placed
    for place, value in enumerate(placed.values[:MOST]):
        if any(same_kind(value, stated) for stated in sentence.values):
            said = _of_value(placed, place, sentence.placed)
            yield f"value {place}", said if held >= SAME_MATTER else Said(said.same)
    opposing = placed.negated | sentence.negated if held >= SAME_SENTENCE else frozenset()
    for place, said in _turned(placed, sentence.placed, turning & sentence.vocabulary):
        yield f"turn {place}", said if placed.terms[place] in opposing else Said(said.same)


def _of_value(claimed: Placed, place: int, given: Placed) -> Said:
    value, spot = claimed.values[place], claimed.value_spots[place]
    said = Said()
    for at, stated in enumerate(given.values):
        where = given.value_spots[at]
        if spot is None or where is None:
            continue
        close = company(spot, where)
        if not close and not given.counts[at]:
            continue  # nothing in common: what it says tells nothing
        if says(value, stated):
            other = _swapped(claimed, place, given, at)
            against = Said(0.0, 1.0, f"{value.raw}, the evidence says {other.raw}") if other else None
            said = said.joined(against or Said(close))
        elif close >= SAME_PLACE and _in_its_place(claimed, place, stated, given.counts[at]):
            said = said.joined(Said(0.0, close, f"{value.raw}, the evidence says {stated.raw}"))
    return said


def _swapped(claimed: Placed, place: int, given: Placed, at: int) -> Value | None:
    """The value that a sentence has in the place of a claim's where the claim has two of them the other way around:
    "60 % project, 40 % exam" for "40 % project, 60 % exam"."""
    value, own, others = claimed.values[place], claimed.counts[place], given.counts[at]
    if not own or not others or own == others:
        return None
    other, stated = claimed.counting.get(others), given.counting.get(own)
    crossed = other and stated and same_kind(other, value) and says(other, stated) and not says(value, stated)
    return stated if crossed else None


def _in_its_place(claimed: Placed, place: int, stated: Value, counts: str) -> bool:
    """Whether a value could stand in the place of a claim's: of the same kind and unit, a bare number counts the same
    things, a date is as exact, and the claim does not say it as well."""
    value = claimed.values[place]
    if not same_kind(value, stated) or value.unit != stated.unit:
        return False
    if value.dates and stated.dates and abs(value.dates.days - stated.dates.days) > SAME_LENGTH * value.dates.days:
        return False
    alike = stated.kind != "number" or counts == claimed.counts[place]
    return alike and not any(same_kind(each, stated) and says(each, stated) for each in claimed.values)


def _turned(claimed: Placed, given: Placed, words: Iterable[str]) -> Iterator[tuple[int, Said]]:
    """For each place of the words in a claim how closely a sentence says the same and the opposite.

    Neither negation may be meant alike by another word behind it: "not currently supported" is "currently not
    supported".
    """
    pairs = [(one, other) for word in words for one in claimed.turns(word)[:MOST]
             for other in given.turns(word)[:MOST]]  # fmt: skip
    meant: dict[tuple[str, int], float] = {}
    opposed: list[tuple[Turn, Turn, float]] = []
    for one, other in pairs:
        close = close_company(one.spot, other.spot)
        if one.agrees(other, copied=close >= COPIED):
            same = company(one.spot, other.spot)
            for key in (("claim", one.anchor), ("sentence", other.anchor)):
                meant[key] = max(meant.get(key, 0.0), same)
            yield one.spot.place, Said(same)
        else:
            opposed.append((one, other, close))
    for one, other, close in opposed:
        if close > max(meant.get(("claim", one.anchor), 0.0), meant.get(("sentence", other.anchor), 0.0)):
            yield one.spot.place, Said(0.0, close, "negated against the evidence")


def rarities_of(statement: Statement, vocabulary: Vocabulary) -> Rarities:
    """The rarities of a claim's words."""
    weights = {word: vocabulary.weight(word) for word in statement.words}
    return Rarities(weights, sum(weights.values()))
