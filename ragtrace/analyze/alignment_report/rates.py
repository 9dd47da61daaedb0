"""Failure rates and WARG by model, segment and condition, each beside its floor and what a random order gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragtrace.alignment import warg_chance, warg_floor
from ragtrace.analyze.alignment_report.estimates import Estimate, estimated
from ragtrace.analyze.alignment_report.observed import ORIGINAL, Observation
from ragtrace.analyze.explaining.aligning import PERSISTENCES

__all__ = ["Group", "Measured", "Row", "Sweep", "rates"]

CUTOFF: Final = 2  # 0-based rank beyond which a document counts as ranked low


@dataclass(frozen=True, slots=True)
class Group:
    """What a row speaks of. segment None: all segments. k None: the mixture of the numbers of documents in `ks`."""

    model: str
    attributed_by: str
    condition: str
    segment: str | None
    k: int | None
    ks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """An estimate, None where it is undefined in all requests, beside the floor and the chance level of the same
    requests: what equal rankings give, and what a random order gives."""

    estimate: Estimate | None
    floor: float | None
    chance: float | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """WARG at one p, raw and adjusted (0 equal rankings, 1 no better than a random order)."""

    p: float
    warg: Measured
    adjusted: Measured


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one group. requests: all of it; each estimate has the number of those in which it is defined."""

    group: Group
    requests: int
    wasted_retrieval: Measured
    noise_distraction: Measured
    sweep: tuple[Sweep, ...]


def rates(observations: Sequence[Observation], *, seed: int = 0) -> list[Row]:
    """Tables 2 and 3 of RAG-E: a row for each model and condition with all segments together, one for each number of
    documents k where there are several, and one for each segment where there are several.

    Values compare at equal k and p only. A row over several k says so; its floor and chance are those of the mixture.
    """
    return [_row(group, members, seed) for group, members in _groups(observations)]


def _groups(observations: Sequence[Observation]) -> Iterator[tuple[Group, list[Observation]]]:
    """Rows in their order: a model's and condition's whole, by k, by segment."""
    for key, members in _by(observations, lambda each: (each.model, each.attributed_by, each.condition)):
        yield _group(key, None, members), members
        by_k = _by(members, lambda each: (each.k,))
        if len(by_k) > 1:
            yield from ((_group(key, None, same), same) for _, same in by_k)
        by_segment = _by(members, lambda each: (each.segment,))
        if len(by_segment) > 1:
            yield from ((_group(key, segment, same), same) for (segment,), same in by_segment)


def _by(
    observations: Sequence[Observation], key: Callable[[Observation], tuple[Any, ...]]
) -> list[tuple[tuple[Any, ...], list[Observation]]]:
    """In order, the original condition before others."""
    found: defaultdict[tuple[Any, ...], list[Observation]] = defaultdict(list)
    for each in observations:
        found[key(each)].append(each)
    return sorted(found.items(), key=lambda pair: [(each != ORIGINAL, each) for each in pair[0]])


def _group(key: tuple[Any, ...], segment: str | None, members: Sequence[Observation]) -> Group:
    model, attributed_by, condition = key
    ks = tuple(sorted({each.k for each in members}))
    return Group(model, attributed_by, condition, segment, ks[0] if len(ks) == 1 else None, ks)


def _row(group: Group, members: Sequence[Observation], seed: int) -> Row:
    return Row(
        group=group,
        requests=len(members),
        wasted_retrieval=_flag(members, lambda each: each.alignment.wasted_retrieval, seed),
        noise_distraction=_flag(members, lambda each: each.alignment.noise_distraction, seed),
        sweep=tuple(_sweep(members, p, seed) for p in PERSISTENCES),
    )


def _flag(members: Sequence[Observation], flag: Callable[[Observation], bool | None], seed: int) -> Measured:
    """A failure rate. A random order ranks a given document low in k - 3 of k cases."""
    known = [each for each in members if flag(each) is not None]
    chances = [(each.k - CUTOFF - 1) / each.k for each in known]
    return _measured(known, [float(bool(flag(each))) for each in known], [0.0] * len(known), chances, seed)


def _sweep(members: Sequence[Observation], p: float, seed: int) -> Sweep:
    known = [each for each in members if p in each.alignment.ps and each.k > 1]
    raw = [_at(each, each.alignment.warg, p) for each in known]
    adjusted = [_at(each, each.alignment.adjusted, p) for each in known]
    floors, chances = [warg_floor(each.k, p) for each in known], [warg_chance(each.k, p) for each in known]
    ones = [1.0] * len(known)
    return Sweep(
        p=p,
        warg=_measured(known, raw, floors, chances, seed),
        adjusted=_measured(known, adjusted, [0.0] * len(known), ones, seed),
    )


def _at(each: Observation, values: Sequence[float], p: float) -> float:
    return values[each.alignment.ps.index(p)]


def _measured(
    members: Sequence[Observation],
    values: Sequence[float],
    floors: Sequence[float],
    chances: Sequence[float],
    seed: int,
) -> Measured:
    weights = [each.weight for each in members]
    return Measured(estimated(values, weights, seed), _mean(floors, weights), _mean(chances, weights))


def _mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    total = sum(weights)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total if values else None
