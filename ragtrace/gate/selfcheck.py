"""What the gate does with the baseline against itself: how often it blocks without a cause, and what it would find.

The baseline is split at random into halves, cluster by cluster, and the halves are judged as baseline and candidate.
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

from ragtrace.gate.deciding import decide
from ragtrace.gate.judging import judge
from ragtrace.gate.model import Cell, Comparison, Policy, Population, Rule
from ragtrace.gate.statistics.multiplicity import shares
from ragtrace.wilson import wilson

__all__ = ["SelfCheck", "selfcheck", "worsen"]

_MOST: Final = 10_000
_EACH: Final = 4  # runs for one that tries the power
_RESAMPLES: Final = 400  # for intervals: a thousand runs say more than finer bounds in each
_TWO_SIDED_95: Final = 1.96


class SelfCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of `runs` random splits.

    requests: that took part, half of them on each side. false_block_rate: share of the splits that were blocked, with
    Wilson's 95 % interval [low, high]; at most alpha is promised. pass_rate, inconclusive_rate: of the splits that
    passed, and of those that neither passed nor were blocked for harm. power: of the weakest blocking rule, at its
    margin and this many requests; None where no rule can lose its margin. powers: of each, tried in every fourth run.
    """

    runs: int
    requests: int
    alpha: float
    false_block_rate: float
    low: float
    high: float
    pass_rate: float
    inconclusive_rate: float
    power: float | None
    powers: dict[str, float]
    wanted_power: float
    seed: int
    warnings: tuple[str, ...] = ()


def selfcheck(
    population: Population,
    policy: Policy,
    runs: int = 1000,
    seed: int | None = None,
    *,
    most: int = _MOST,
    progress: Callable[[int], None] | None = None,
) -> SelfCheck:
    """Split the population `runs` times. most: requests that take part, drawn at random where there are more.

    seed: the policy's unless given. progress: told the number of runs that are done.
    Raises: MissingExtraError without SciPy.
    """
    policy = msgspec.structs.replace(policy, resamples=min(policy.resamples, _RESAMPLES))
    chance = np.random.default_rng([policy.seed if seed is None else seed, 0])
    population = _limited(population, most, chance)
    blocked = passed = 0
    found: dict[str, int] = {}
    tried: dict[str, int] = {}
    for run in range(runs):
        one, two = _split(population, chance)
        cells = judge(Comparison(one, two, None), policy)
        blocked += any(cell.blocks for cell in cells)
        passed += decide(cells, policy) == "pass"
        for metric, hit in _finds(one, two, policy, cells, chance) if run % _EACH == 0 else ():
            tried[metric] = tried.get(metric, 0) + 1
            found[metric] = found.get(metric, 0) + hit
        if progress is not None:
            progress(run + 1)
    powers = {metric: found[metric] / count for metric, count in tried.items()}
    low, high = wilson(blocked, runs, _TWO_SIDED_95)
    return SelfCheck(
        runs=runs,
        requests=len(population),
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
        warnings=tuple(_warnings(policy, powers, low, len(population))),
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
    one: Population, two: Population, policy: Policy, cells: Sequence[Cell], chance: np.random.Generator
) -> list[tuple[str, bool]]:
    """Of each blocking rule whether a loss of the margin is found, as the first step of Holm's procedure would."""
    judged = [cell for cell in cells if cell.action == "block" and cell.outcome != "not_enough_data"]
    asked = [cell.metric for cell in judged if cell.family == "overall"]
    rules = tuple(msgspec.structs.replace(rule, floor=None) for rule in policy.rules if rule.metric in asked)
    if not rules:
        return []
    level = policy.alpha * shares(cell.family for cell in judged)["overall"] / len(asked)
    worse = worsen(two, rules, chance)
    comparison = Comparison(replace(one, segments=[""] * len(one)), replace(worse, segments=[""] * len(worse)), None)
    alone = msgspec.structs.replace(policy, rules=rules, required_segments=())
    guards = {rule.metric for rule in rules if rule.guardrail}
    return [
        (cell.metric, _at_most(cell.p_harm, level) and (cell.metric in guards or cell.outcome != "pass"))
        for cell in judge(comparison, alone)
        if cell.outcome != "not_enough_data" and worse.scores[cell.metric] is not two.scores[cell.metric]
    ]


def _at_most(p_value: float | None, level: float) -> bool:
    return p_value is not None and p_value <= level


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
    clusters = _numbers(population.clusters)
    rank = chance.permutation(int(clusters.max()) + 1)[clusters]
    return _part(population, np.sort(np.argsort(rank, kind="stable")[:most]), population.name)


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
        stages=of(population.stages),
        verdicts=of(population.verdicts),
        causes=of(population.causes),
    )


def _warnings(policy: Policy, powers: dict[str, float], low: float, requests: int) -> Iterable[str]:
    if low > policy.alpha:
        yield f"More false blocks than the promised {policy.alpha:g}: requests are alike in ways that no cluster tells."
    weak = [metric for metric, power in powers.items() if power < policy.power]
    if weak:
        yield (
            f"A loss of the margin is found in less than {policy.power:.0%} of cases in {', '.join(weak)} with "
            f"{requests // 2:,} requests on each side. Pairs of the same questions find more; so do more requests, a "
            "wider margin, or fewer rules that block."
        )
