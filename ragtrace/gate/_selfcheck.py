"""A self-check of the gate on the baseline against itself: how often it blocks without a cause, and what it would find.

The baseline is split at random into halves, cluster by cluster, and the halves are judged as baseline and candidate.
Of two runs of one version, the sides of each pair are exchanged at random instead, cluster by cluster.
For the power one half is made worse by each rule's margin: of scores and booleans a share of the requests, drawn at
random, falls to the worst value, so that values stay in their range; quantities are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragtrace.formats import percent
from ragtrace.gate._judgment import alpha_shares, decide, judge
from ragtrace.gate._metrics import METRICS
from ragtrace.gate.types import Cell, Comparison, Policy, Population, Rule, SelfCheck
from ragtrace.sample_statistics import wilson

__all__ = ["selfcheck", "worsen"]

_MOST: Final = 10_000
_EACH: Final = 4  # runs for one that tries the power
_RESAMPLES: Final = 400  # for intervals: a thousand runs say more than finer bounds in each
_NAMED: Final = 4  # metrics in a sentence
_TWO_SIDED_95: Final = 1.96


def selfcheck(
    population: Population | Comparison,
    policy: Policy,
    runs: int = 1000,
    seed: int | None = None,
    *,
    most: int = _MOST,
    progress: Callable[[int], None] | None = None,
) -> SelfCheck:
    """Split the population `runs` times; of a paired comparison of one version with itself, exchange sides instead.

    most: requests (of each side of a comparison) that take part, drawn at random where there are more.

    seed: the policy's unless given. progress: told the number of runs that are done.
    Raises: MissingExtraError without SciPy.
    """
    policy = msgspec.structs.replace(policy, resamples=min(policy.resamples, _RESAMPLES))
    chance = np.random.default_rng([policy.seed if seed is None else seed, 0])
    draw, requests, pairs = _drawing(population, most, chance)
    blocked = passed = 0
    hits: dict[str, int] = {}
    tried: dict[str, int] = {}
    for run in range(runs):
        comparison = draw()
        cells = judge(comparison, policy)
        blocked += any(cell.blocks for cell in cells)
        passed += decide(cells, policy) == "pass"
        for metric, hit in _finds(comparison, policy, cells, chance) if run % _EACH == 0 else ():
            tried[metric] = tried.get(metric, 0) + 1
            hits[metric] = hits.get(metric, 0) + hit
        if progress is not None:
            progress(run + 1)
    powers = {metric: hits[metric] / count for metric, count in tried.items()}
    low, high = wilson(blocked, runs, _TWO_SIDED_95)
    return SelfCheck(
        runs=runs,
        requests=requests,
        pairs=pairs,
        alpha=policy.alpha,
        false_block_rate=blocked / runs if runs else 0.0,
        low=low,
        high=high,
        pass_rate=passed / runs if runs else 0.0,
        inconclusive_rate=(runs - blocked - passed) / runs if runs else 0.0,
        power=min(powers.values(), default=None),
        powers=powers,
        wanted_power=policy.power,
        seed=policy.seed if seed is None else seed,
        warnings=tuple(_warnings(policy, powers, low, passed / max(1, runs), requests, pairs)),
    )


def worsen(population: Population, rules: Iterable[Rule], chance: np.random.Generator) -> Population:
    """The population with every metric's mean made worse by its margin, as far as chance goes; a metric that has less
    than the margin to lose stays as it is."""
    scores = dict(population.scores)
    for rule in rules:
        values = scores.get(rule.metric)
        if values is None or np.isnan(values).all():
            continue
        defined = ~np.isnan(values)
        mean = float(np.average(values[defined], weights=population.weights[defined]))
        margin = rule.margin * abs(mean) if rule.relative else rule.margin
        sign = 1.0 if rule.direction == "higher" else -1.0
        if rule.kind == "quantity":
            scores[rule.metric] = values * max(0.0, 1 - sign * margin / mean) if mean else values
            continue
        left = mean if sign > 0 else 1 - mean
        if 0 < margin <= left:
            struck = defined & (chance.random(len(values)) < margin / left)
            scores[rule.metric] = np.where(struck, 0.0 if sign > 0 else 1.0, values)
    return replace(population, scores=scores)


def _finds(
    comparison: Comparison, policy: Policy, cells: Sequence[Cell], chance: np.random.Generator
) -> list[tuple[str, bool]]:
    """Of each blocking rule whether a loss of the margin is found, as the first step of Holm's procedure would."""
    judged = [cell for cell in cells if cell.action == "block" and cell.outcome != "not_enough_data"]
    asked = [cell.metric for cell in judged if cell.family == "overall"]
    rules = tuple(msgspec.structs.replace(rule, floor=None) for rule in policy.rules if rule.metric in asked)
    if not rules:
        return []
    level = policy.alpha * alpha_shares(cell.family for cell in judged)["overall"] / len(asked)
    one, two = comparison.baseline, comparison.candidate
    worse = worsen(two, rules, chance)
    one, worse = (replace(side, segments=[""] * len(side)) for side in (one, worse))
    alone = msgspec.structs.replace(policy, rules=rules, required_segments=())
    guards = {rule.metric for rule in rules if rule.guardrail}
    return [
        (cell.metric, _at_most(cell.p_harm, level) and (cell.metric in guards or cell.outcome != "pass"))
        for cell in judge(Comparison(one, worse, comparison.pairs), alone)
        if cell.outcome != "not_enough_data" and worse.scores[cell.metric] is not two.scores[cell.metric]
    ]


def _at_most(p_value: float | None, level: float) -> bool:
    return p_value is not None and p_value <= level


def _drawing(
    source: Population | Comparison, most: int, chance: np.random.Generator
) -> tuple[Callable[[], Comparison], int, int | None]:
    """What makes the next comparison of equals, and how many requests and pairs take part."""
    if isinstance(source, Population):
        population = _limited(source, most, chance)
        return lambda: Comparison(*_split(population, chance), None), len(population), None
    pairs = source.pairs
    assert pairs is not None, "two runs of one version are paired"
    chosen = pairs[_kept([source.baseline.clusters[row] for row in pairs[:, 0]], most, chance)]
    one, two = (_part(side, rows, name) for side, rows, name in
                zip((source.baseline, source.candidate), chosen.T, "ab", strict=True))  # fmt: skip
    clusters, both, rows = _numbers(one.clusters), _joined(one, two), np.arange(len(one))

    def exchanged() -> Comparison:
        swapped = (chance.random(int(clusters.max(initial=-1)) + 1) < 0.5)[clusters]
        first = np.where(swapped, rows + len(one), rows)
        second = np.where(swapped, rows, rows + len(one))
        return Comparison(_part(both, first, "a"), _part(both, second, "b"), np.column_stack([rows, rows]))

    return exchanged, 2 * len(one), len(one)


def _split(population: Population, chance: np.random.Generator) -> tuple[Population, Population]:
    """Two halves; who shares a cluster stays together."""
    clusters = _numbers(population.clusters)
    side = np.zeros(int(clusters.max(initial=-1)) + 1, dtype=np.bool_)
    side[: len(side) // 2] = True
    chance.shuffle(side)
    first = side[clusters]
    return _part(population, np.flatnonzero(first), "a"), _part(population, np.flatnonzero(~first), "b")


def _limited(population: Population, most: int, chance: np.random.Generator) -> Population:
    if len(population) <= most:
        return population
    return _part(population, _kept(population.clusters, most, chance), population.name)


def _kept(clusters: Sequence[str], most: int, chance: np.random.Generator) -> NDArray[np.int64]:
    """The rows that take part: whole clusters, but for the last one."""
    if len(clusters) <= most:
        return np.arange(len(clusters))
    numbers = _numbers(clusters)
    rank = chance.permutation(int(numbers.max()) + 1)[numbers]
    return np.sort(np.argsort(rank, kind="stable")[:most])


def _numbers(names: Sequence[str]) -> NDArray[np.int64]:
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def _part(population: Population, rows: NDArray[np.int64], name: str) -> Population:
    def of(values: Sequence[str]) -> list[str]:
        return [values[at] for at in rows]

    return replace(
        population,
        name=name,
        request_ids=of(population.request_ids),
        questions=of(population.questions),
        segments=of(population.segments),
        clusters=of(population.clusters),
        weights=population.weights[rows],
        scores={metric: values[rows] for metric, values in population.scores.items()},
        states={stage: codes[rows] for stage, codes in population.states.items()},
        causes=of(population.causes),
    )


def _joined(one: Population, two: Population) -> Population:
    """The requests of both."""
    return replace(
        one,
        request_ids=[*one.request_ids, *two.request_ids],
        questions=[*one.questions, *two.questions],
        segments=[*one.segments, *two.segments],
        clusters=[*one.clusters, *two.clusters],
        weights=np.concatenate([one.weights, two.weights]),
        scores={metric: np.concatenate([values, two.scores[metric]]) for metric, values in one.scores.items()},
        states={stage: np.concatenate([codes, two.states[stage]]) for stage, codes in one.states.items()},
        causes=[*one.causes, *two.causes],
    )


def _warnings(
    policy: Policy, powers: dict[str, float], low: float, passed: float, requests: int, pairs: int | None
) -> Iterable[str]:
    if low > policy.alpha:
        promised = percent(policy.alpha)
        yield f"More false blocks than the promised {promised}: requests are alike in ways that no cluster tells."
    size, unit = (requests // 2, "requests on each side") if pairs is None else (pairs, "pairs")
    if pairs is None and requests and passed < policy.power:
        yield (
            f"Halves have no question in common, and most splits stay undecided with {size:,} {unit}. Two replays do "
            "have: replay this version once more, and give that run as --candidate."
        )
    weak = sorted((metric for metric, power in powers.items() if power < policy.power), key=powers.__getitem__)
    if weak:
        titles = [METRICS[metric].title if metric in METRICS else metric for metric in weak]
        names = ", ".join(titles[:_NAMED]) + (f" and {len(weak) - _NAMED} more metrics" if weak[_NAMED:] else "")
        more = (
            "Pairs of the same questions find more; so do more requests,"
            if pairs is None
            else "More questions find more; so do"
        )
        yield (
            f"A loss of the margin is found in less than {percent(policy.power)} of cases with {size:,} {unit}, of: "
            f"{names}. Where it is not found, the candidate stays undecided: it passes in at most "
            f"{percent(policy.alpha)}. {more} a wider margin, or fewer rules that block."
        )
