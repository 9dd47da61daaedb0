"""Two names, roles or values of a claim that stand in each other's place: who acquired whom, who pays, whose is 40 %.

Both stand in one sentence of the evidence. They are exchanged where the words around each are around the other there,
or where they stand the other way around the same word ("A acquired B"), both active or both passive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from ragtrace.coverage.support.placement import Around, Placed, Relation, likeness
from ragtrace.coverage.text import is_content, stem

__all__ = ["exchanges"]

MOST: Final = 12  # names, and values, of a claim that are compared two by two
CROWDED: Final = 8  # values of a sentence from which it is a table
NEAR: Final = 9  # words between two names that a word of both relates
ALIKE: Final = 0.5  # share of the words between two names that are the same the other way around
SHARP: Final = 3  # power of the weights of the words around, which are those of the whole sentence
VALUES_CROSSED: Final = 0.35  # likeness of each value with the place of the other
NAMES_CROSSED: Final = 0.55  # the same, of names
ROLES_CROSSED: Final = 0.8  # the same, of roles
NEARLY: Final = 0.9  # of both likenesses of roles together, the most that those with the own places may have
SAME: Final = 0.7  # share of a claim's words that a sentence has in which its roles are exchanged
STRAIGHT: Final = 0.85  # of both likenesses together, the most that those with the own places may have
_MUTUAL: Final = frozenset(
    map(stem, "meet met marry married border connect join differ equal versus compare play mean name call".split())
)  # what is the same the other way around


class _Spot(NamedTuple):
    first: int
    last: int


def exchanges(
    claimed: Placed, given: Placed, held: float, related: Sequence[Sequence[Relation | None]]
) -> Iterator[tuple[str, float, float]]:
    """Of each two that a sentence has what they are, and how surely they stand there as in the claim and exchanged,
    each in [0, 1]. held: the share of the claim's words that the sentence has; related: `relations` of the values."""
    values = _shared_values(claimed, given, related) if min(len(claimed.values), len(given.values)) > 1 else []
    for kind in dict.fromkeys(_kind_of(claimed, own) for own, _ in values) if len(values) > 1 else ():
        alike = [both for both in values if _kind_of(claimed, both[0]) == kind]
        yield from _exchanged(claimed, given, alike, held, VALUES_CROSSED)
    if min(len(claimed.names), len(given.names), len(claimed.all_name_terms & given.all_name_terms)) > 1:
        yield from _names(
            claimed, given, _shared(claimed.names, claimed.name_terms, given.names, given.name_terms), held
        )
    if held >= SAME and min(len(claimed.roles), len(given.roles)) > 1:
        yield from _names(
            claimed,
            given,
            _shared(claimed.roles, claimed.role_terms, given.roles, given.role_terms),
            held,
            ROLES_CROSSED,
        )


def _names(
    claimed: Placed, given: Placed, names: Sequence[tuple[_Spot, _Spot]], held: float, needed: float = NAMES_CROSSED
) -> Iterator[tuple[str, float, float]]:
    yield from _exchanged(claimed, given, names, held, needed)
    for (one, one_there), (two, two_there) in combinations(names, 2):
        (first, first_there), (second, second_there) = sorted([(one, one_there), (two, two_there)])
        pair = f"{_written(claimed, first)} and {_written(claimed, second)}"
        pair = f"the order of {pair}"
        if first_there.last < second_there.first:
            yield pair, _related(claimed, first, second, given, first_there, second_there) * held, 0.0
        else:
            yield pair, 0.0, _related(claimed, first, second, given, second_there, first_there) * held


def _shared_values(
    claimed: Placed, given: Placed, related: Sequence[Sequence[Relation | None]]
) -> list[tuple[_Spot, _Spot]]:
    """The values of a claim that a sentence states once, with their places in both."""
    if len(given.values) > CROWDED:
        return []
    found = []
    for place, span in enumerate(claimed.spans[:MOST]):
        where = [at for at, relation in enumerate(related[place]) if relation == "same"]
        if span and len(where) == 1 and (there := given.spans[where[0]]) and not claimed.named[place]:
            found.append((_Spot(*span), _Spot(*there)))
    return found


def _kind_of(placed: Placed, spot: _Spot) -> tuple[str, str]:
    value = placed.values[placed.word_places[spot.first]]
    return value.kind, value.unit


def _shared(
    own: Sequence[tuple[int, int]],
    own_terms: Sequence[frozenset[str]],
    given: Sequence[tuple[int, int]],
    given_terms: Sequence[frozenset[str]],
) -> list[tuple[_Spot, _Spot]]:
    """The names or roles of a claim that a sentence has once, with their places in both."""
    ours = list(zip(own, own_terms, strict=True))[:MOST]
    theirs = list(zip(given, given_terms, strict=True))[:MOST]
    found = []
    for place, terms in ours:
        there = [other for other, others in theirs if not terms.isdisjoint(others)]
        if len(there) == 1 and sum(not terms.isdisjoint(others) for _, others in ours) == 1:
            found.append((_Spot(*place), _Spot(*there[0])))
    return found


def _exchanged(
    claimed: Placed, given: Placed, shared: Sequence[tuple[_Spot, _Spot]], held: float, needed: float
) -> Iterator[tuple[str, float, float]]:
    if len(shared) < 2:
        return
    around = [(_sharp(claimed.around(*own)), _sharp(given.around(*there))) for own, there in shared]
    for (at, one), (to, two) in combinations(enumerate(around), 2):
        crossed = likeness(one[0], two[1], held), likeness(two[0], one[1], held)
        straight = likeness(one[0], one[1], held), likeness(two[0], two[1], held)
        pair = f"the places of {_written(claimed, shared[at][0])} and {_written(claimed, shared[to][0])}"
        is_copy = needed == ROLES_CROSSED  # all words around but the other role's are the same in both places
        is_exchanged = min(crossed) >= needed and sum(straight) < (NEARLY if is_copy else STRAIGHT) * sum(crossed)
        yield pair, 0.0 if is_copy and is_exchanged else sum(straight) / 2, sum(crossed) / 2 if is_exchanged else 0.0


def _sharp(around: Around) -> Around:
    """The words around a place, the nearest of them nearly alone: both places are in one sentence."""
    weights = {term: weight**SHARP for term, weight in around.weights.items()}
    return Around(weights, sum(weights.values()))


def _related(claimed: Placed, first: _Spot, second: _Spot, given: Placed, one: _Spot, two: _Spot) -> float:
    """How much the words between two names are those between them in a sentence; 0 where the voice differs."""
    ours, theirs = range(first.last + 1, second.first), range(one.last + 1, two.first)
    if max(len(ours), len(theirs)) > NEAR or _is_passive(claimed, ours) != _is_passive(given, theirs):
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
    return any(placed.words[at].written in ("by", "from") for at in between)


def _written(placed: Placed, spot: _Spot) -> str:
    return placed.text[placed.words[spot.first].start : placed.words[spot.last].end]
