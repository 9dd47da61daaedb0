"""Failure rates and WARG by model, segment and condition, each beside its floor and what a random order gives.

They are means over explained requests with bootstrap intervals; each request is weighted by the inverse of its chance
to be kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import warg_chance, warg_floor
from ragtrace.analyze.alignment import PERSISTENCES
from ragtrace.explanations import Alignment, Explanation
from ragtrace.plausible_values import sampling_weight
from ragtrace.store import ATTRIBUTION, Store
from ragtrace.types import RequestRecord

__all__ = [
    "CONDITION",
    "ORIGINAL",
    "RESAMPLES",
    "AgainstChance",
    "ExplainedRequest",
    "Group",
    "GroupRates",
    "Observation",
    "PlaceShares",
    "Stratum",
    "Sweep",
    "WeightedMean",
    "condition_of",
    "estimated",
    "observed",
    "place_shares",
    "rates",
    "read_explained",
]

RESAMPLES: Final = 1000
_CONFIDENCE: Final = 0.95
_CELLS: Final = 2_000_000  # requests times resamples that are drawn at once
CONDITION: Final = "condition"
"""The attribute (or version) of a record that names its condition."""
ORIGINAL: Final = "original"
_PAGE: Final = 100
CUTOFF: Final = 2  # 0-based rank beyond which a document counts as ranked low


@dataclass(frozen=True, slots=True)
class WeightedMean:
    """A weighted mean over `requests` requests with its 95 % bootstrap interval, which one request does not have."""

    mean: float
    low: float | None
    high: float | None
    requests: int


def estimated(values: Sequence[float], weights: Sequence[float], seed: int = 0) -> WeightedMean | None:
    """Σ w_i x_i / Σ w_i over requests, resampled by request; None without any. Deterministic by seed.

    weights: > 0, the inverse of the probability with which each request was kept.
    """
    n = len(values)
    if not n:
        return None
    x, w = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    mean = float(x @ w / w.sum())
    if n == 1:
        return WeightedMean(mean, None, None, 1)
    means = _resampled(x, w, np.random.default_rng(seed))
    low, high = np.quantile(means, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return WeightedMean(mean, float(low), float(high), n)


def _resampled(x: NDArray[np.float64], w: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The mean of each resample, a few resamples at a time."""
    n = len(x)
    rows = max(1, _CELLS // n)
    means = []
    for start in range(0, RESAMPLES, rows):
        chosen = rng.integers(n, size=(min(rows, RESAMPLES - start), n))
        means.append((x * w)[chosen].sum(axis=1) / w[chosen].sum(axis=1))
    return np.concatenate(means)


Stratum: TypeAlias = Literal["random", "flagged"]


@dataclass(frozen=True, slots=True)
class ExplainedRequest:
    """A request with its explanation. `drawn`: it was explained because it was drawn at random, whatever its flags."""

    record: RequestRecord
    explanation: Explanation
    drawn: bool

    @property
    def weight(self) -> float:
        """The inverse of the probability with which the request was sampled; 1 for one that a flag brought."""
        return sampling_weight(self.record.head_probability) if self.drawn else 1.0


@dataclass(frozen=True, slots=True)
class Observation:
    """How retriever and generator agree in one request, under one condition.

    model: what answered. attributed_by: the model whose log-probabilities the generator's ranking comes from, or the
    likeness of whose answers, where it gives no log-probabilities.
    """

    request_id: str
    segment: str
    model: str
    attributed_by: str
    condition: str
    weight: float
    drawn: bool
    alignment: Alignment
    shares: tuple[float, ...] = ()  # in the order of the prompt

    @property
    def k(self) -> int:
        """The number of ranked documents."""
        return len(self.alignment.retriever)


def condition_of(record: RequestRecord) -> str:
    """The condition under which a request ran: its attribute `condition`, else its version of it, else `original`."""
    stated = record.attributes.get(CONDITION) or record.versions.get(CONDITION)
    return str(stated) if stated else ORIGINAL


def observed(explained: ExplainedRequest) -> Observation | None:
    """The observation of an explained request; None where nothing is known of its generator's ranking."""
    record, found = explained.record, explained.explanation
    if found.alignment is None or found.generator is None or not found.alignment.retriever:
        return None
    generation = record.generation
    answered_by = (generation.model if generation is not None else None) or record.versions.get("model")
    scorer = found.generator.model or "unknown"
    return Observation(
        request_id=record.request_id,
        segment=record.segment,
        model=answered_by or scorer,
        attributed_by=scorer if found.generator.unit == "log_probability" else f"{scorer}, likeness of answers",
        condition=condition_of(record),
        weight=explained.weight,
        drawn=explained.drawn,
        alignment=found.alignment,
        shares=found.generator.shares,
    )


def read_explained(store: Store, *, service: str | None = None, since: int | None = None) -> Iterator[ExplainedRequest]:
    """All requests with a stored explanation, oldest first. since: nanoseconds."""
    found = store.analyses(service=service, kind=ATTRIBUTION, since=since)
    for page in _pages((row.request_id, analysis.explanation) for row, analysis in found):
        records = store.get_records(page)
        drawn = store.drawn(page, ATTRIBUTION)
        for request_id, explanation in page.items():
            if request_id in records:
                record = records[request_id]
                yield ExplainedRequest(record, explanation, request_id in drawn and record.head_sampled)


def _pages(found: Iterable[tuple[str, Explanation | None]]) -> Iterator[dict[str, Explanation]]:
    """A few at a time: records come with their texts."""
    known = ((request_id, explanation) for request_id, explanation in found if explanation is not None)
    while page := dict(islice(known, _PAGE)):
        yield page


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
class AgainstChance:
    """An estimate, None where it is undefined in all requests, beside the floor and the chance level of the same
    requests: what equal rankings give, and what a random order gives."""

    estimate: WeightedMean | None
    floor: float | None
    chance: float | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """WARG at one p, raw and adjusted (0 equal rankings, 1 no better than a random order)."""

    p: float
    warg: AgainstChance
    adjusted: AgainstChance


@dataclass(frozen=True, slots=True)
class GroupRates:
    """The numbers of one group. requests: all of it; each estimate has the number of those in which it is defined."""

    group: Group
    requests: int
    wasted_retrieval: AgainstChance
    noise_distraction: AgainstChance
    spearman: AgainstChance  # of both rankings; equal ones have 1, a random order 0
    sweep: tuple[Sweep, ...]


@dataclass(frozen=True, slots=True)
class PlaceShares:
    """Figure 5 of RAG-E: the mean share of the document in each place of the prompt, the first one first.

    In the unit of the shares, over requests with the group's k documents.
    """

    group: Group
    places: tuple[WeightedMean, ...]


def rates(observations: Sequence[Observation], *, seed: int = 0) -> list[GroupRates]:
    """Tables 2 and 3 of RAG-E: a row for each model and condition with all segments together, one for each number of
    documents k where there are several, and one for each segment where there are several.

    Values compare at equal k and p only. A row over several k says so; its floor and chance are those of the mixture.
    """
    return [_row(group, members, seed) for group, members in _groups(observations)]


def place_shares(observations: Sequence[Observation], *, seed: int = 0) -> list[PlaceShares]:
    """A curve for each model, condition and number of documents k, all segments together.

    Between the original order and a shuffled one primacy is told from a retriever that puts the best document first.
    """
    found = []
    for key, members in _by(observations, lambda each: (each.model, each.attributed_by, each.condition)):
        for (k,), same in _by(members, lambda each: (each.k,)):
            usable = [each for each in same if len(each.shares) == k]
            weights = [each.weight for each in usable]
            means = [estimated([each.shares[place] for each in usable], weights, seed) for place in range(k)]
            if usable:
                found.append(PlaceShares(_group(key, None, usable), tuple(mean for mean in means if mean is not None)))
    return found


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


def _row(group: Group, members: Sequence[Observation], seed: int) -> GroupRates:
    return GroupRates(
        group=group,
        requests=len(members),
        wasted_retrieval=_flag(members, lambda each: each.alignment.wasted_retrieval, seed),
        noise_distraction=_flag(members, lambda each: each.alignment.noise_distraction, seed),
        spearman=_spearman(members, seed),
        sweep=tuple(_sweep(members, p, seed) for p in PERSISTENCES),
    )


def _flag(members: Sequence[Observation], flag: Callable[[Observation], bool | None], seed: int) -> AgainstChance:
    """A failure rate. A random order ranks a given document low in k - 3 of k cases."""
    known = [each for each in members if flag(each) is not None]
    chances = [(each.k - CUTOFF - 1) / each.k for each in known]
    return _measured(known, [float(bool(flag(each))) for each in known], [0.0] * len(known), chances, seed)


def _spearman(members: Sequence[Observation], seed: int) -> AgainstChance:
    known = [(each, each.alignment.spearman) for each in members if each.alignment.spearman is not None]
    values = [value for _, value in known]
    return _measured([each for each, _ in known], values, [1.0] * len(known), [0.0] * len(known), seed)


def _sweep(members: Sequence[Observation], p: float, seed: int) -> Sweep:
    usable = [observation for observation in members if p in observation.alignment.ps and observation.k > 1]
    raw = [_at(observation, observation.alignment.warg, p) for observation in usable]
    adjusted = [_at(observation, observation.alignment.adjusted, p) for observation in usable]
    floors, chances = (
        [warg_floor(observation.k, p) for observation in usable],
        [warg_chance(observation.k, p) for observation in usable],
    )
    ones = [1.0] * len(usable)
    return Sweep(
        p=p,
        warg=_measured(usable, raw, floors, chances, seed),
        adjusted=_measured(usable, adjusted, [0.0] * len(usable), ones, seed),
    )


def _at(each: Observation, values: Sequence[float], p: float) -> float:
    return values[each.alignment.ps.index(p)]


def _measured(
    members: Sequence[Observation],
    values: Sequence[float],
    floors: Sequence[float],
    chances: Sequence[float],
    seed: int,
) -> AgainstChance:
    weights = [each.weight for each in members]
    return AgainstChance(estimated(values, weights, seed), _mean(floors, weights), _mean(chances, weights))


def _mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    total = sum(weights)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total if values else None
