"""Fits the doubt scores of `ragtrace.analyze._doubt_model`, and says how they do where the fit did not look.

Each score is a logistic regression of requests that break at its stage against sound ones (and, where the answer must
not count against a stage, against those that break behind it), both outcomes and all domains weighed alike. It is
fitted anew for each domain and injector, on all other domains and the other injector, and judged on those left out; the
lines between the states are quantiles of these left-out scores: once of the scores alone, and once of their sums with
the place that each has among its service's, for which every domain is a service with the traffic of production.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.model import MIX
from ragtrace.analyze._doubt_model import place_odds

__all__ = ["SCORES", "Fitted", "Recipe", "Row", "fit_all", "logistic", "outcome_weights", "printed"]

RIDGE: Final = 1.0
ROUNDS: Final = 40
TRAFFIC: Final = 500  # requests of a service that its others are set beside


@dataclass(frozen=True, slots=True)
class Row:
    """One request: where it is from, what it breaks first (None: nothing), and its features by name.

    injector: `sound`, `natural`, or the name of one. usable: the names of the scores that can be computed of it.
    """

    domain: str
    injector: str
    fault: str | None
    truth: str | None
    features: Mapping[str, float]
    usable: frozenset[str]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one score is fitted. against: the stages whose breaks count as sound here. unusual: the weight of the place
    among a service's scores. sound: the share of the broken requests that may lie below the line of soundness;
    suspected, broken: the share of the sound ones that may lie above these lines."""

    name: str
    stage: str
    features: tuple[str, ...]
    against: tuple[str, ...] = ()
    unusual: float = 2.0
    sound: float | None = None
    suspected: float | None = None
    broken: float | None = None


SCORES: Final = (
    Recipe("RETRIEVAL", "retrieval", ("pool_match", "pool_facets", "declined"), ("generation",),
           sound=0.25, suspected=0.07),
    Recipe("MISSED", "retrieval", ("pool_match", "first_match", "pool_facets"), ("generation",),
           unusual=0.0, suspected=0.2),
    Recipe("ACQUITTAL", "retrieval",
           ("pool_match", "pool_facets", "declined", "supported", "answered", "unclaimed"),
           sound=0.2),
    Recipe("RANKING", "ranking",
           ("lead", "facets_lead", "packed_match", "left_count", "left_standing", "declined", "answered"),
           ("generation",),
           unusual=1.0, sound=0.2, suspected=0.05, broken=0.003),
    Recipe("GRADED", "ranking",
           ("lead", "facets_lead", "packed_match", "left_count", "left_standing", "declined", "answered",
            "graded_lead"),
           ("generation",),
           unusual=1.0, sound=0.2, suspected=0.05),
    Recipe("GENERATION", "generation",
           ("supported", "weakest", "foreign", "odd", "absent", "contradicted", "altered", "on_topic"),
           sound=0.25, suspected=0.06, broken=0.006),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fitted:
    """A score: base and weights, its lines, and what the left-out rows say of it.

    left_out: the log odds of each row by a fit that did not see it, NaN where it is not usable; known: the same beside
    its domain's scores.
    """

    recipe: Recipe
    base: float
    weights: dict[str, float]
    lines: dict[str, float]
    left_out: NDArray[np.float64]
    known_lines: dict[str, float]
    known: NDArray[np.float64]
    rows: int
    broken: int


def fit_all(rows: Sequence[Row]) -> list[Fitted]:
    """Every score of `SCORES` that some row has the signs of: those of a judge are there where it was asked."""
    return [_fitted(recipe, rows) for recipe in SCORES if any(recipe.name in row.usable for row in rows)]


def printed(fitted: Iterable[Fitted], rows: Sequence[Row]) -> str:
    """The constants for `ragtrace.analyze._doubt_model`, and the left-out figures behind them as comments."""
    lines = []
    for one in fitted:
        recipe = one.recipe
        lines += _comments(one, rows)
        lines.append(f"{recipe.name}: Final = DoubtModel(")
        lines.append(f'    name="{recipe.name}",')
        lines.append(f"    base={one.base:.2f},")
        weights = ", ".join(f'"{name}": {weight:.2f}' for name, weight in one.weights.items())
        lines.append(f"    weights={{{weights}}},")
        lines.append(f"    lines=Thresholds({_arguments(one.lines)}),")
        lines.append(f"    unusual={recipe.unusual},")
        lines.append(f"    known=Thresholds({_arguments(one.known_lines)}),")
        lines.append(")")
    return "\n".join(lines)


def _arguments(lines: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:.2f}" for name, value in lines.items())


def _fitted(recipe: Recipe, rows: Sequence[Row]) -> Fitted:
    table = np.array([[row.features[name] for name in recipe.features] for row in rows], dtype=np.float64)
    broken = np.array([row.truth == recipe.stage for row in rows])
    fine = np.array([row.truth is None or row.truth in recipe.against for row in rows])
    usable = np.array([recipe.name in row.usable for row in rows])
    domains = np.array([row.domain for row in rows])
    injectors = np.array([row.injector for row in rows])
    used = usable & (broken | fine)
    left_out = _left_out(table, broken, used, usable, domains, injectors)
    sound = np.array([row.truth is None for row in rows]) & usable & ~np.isnan(left_out)
    weights = outcome_weights(broken[used], domains[used])
    coefficients = logistic(table[used], broken[used].astype(float), weights)
    known = _known(left_out, np.array([row.truth or "" for row in rows]), domains, recipe.unusual)
    hit = broken & usable & ~np.isnan(left_out)
    return Fitted(
        recipe,
        float(coefficients[0]),
        dict(zip(recipe.features, map(float, coefficients[1:]), strict=True)),
        _lines(recipe, left_out, sound, hit, domains),
        left_out,
        _lines(replace(recipe, broken=None), known, sound, hit, domains),
        known,
        int(used.sum()),
        int((broken & used).sum()),
    )


def _left_out(
    table: NDArray[np.float64],
    broken: NDArray[np.bool_],
    used: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
    domains: NDArray[np.str_],
    injectors: NDArray[np.str_],
) -> NDArray[np.float64]:
    """The score of each wanted row by a fit without its domain and its injector; rows of no injector get the mean of
    the fits without each."""
    names = sorted({name for name in injectors.tolist() if name not in ("sound", "natural")})
    scores = np.zeros((len(broken), len(names)))
    for domain in sorted(set(domains.tolist())):
        held = wanted & (domains == domain)
        for column, injector in enumerate(names):
            train = used & (domains != domain) & (injectors != injector)
            if not (broken & train).any() or not held.any():
                scores[held, column] = np.nan
                continue
            weights = outcome_weights(broken[train], domains[train])
            scores[held, column] = _score(logistic(table[train], broken[train].astype(float), weights), table[held])
    found = scores.mean(axis=1)
    for column, injector in enumerate(names):
        own = injectors == injector
        found[own] = scores[own, column]
    found[~wanted] = np.nan
    return np.asarray(found)


def _known(
    odds: NDArray[np.float64], truths: NDArray[np.str_], domains: NDArray[np.str_], unusual: float
) -> NDArray[np.float64]:
    """The log odds beside those of their domain, of which as many are sound and broken as in production."""
    chance = np.random.default_rng(0)
    found = odds.copy()
    for domain in sorted(set(domains.tolist())):
        own = (domains == domain) & ~np.isnan(odds)
        sound = odds[own & (truths == "")]
        if not len(sound):
            continue
        usual: list[float] = []
        for stage, share in MIX.items():
            drawn = odds[own & (truths == (stage or ""))]
            usual += chance.choice(drawn if len(drawn) else sound, round(TRAFFIC * share)).tolist()
        found[own] += unusual * np.array([place_odds(value, usual) for value in odds[own]])
    return found


def outcome_weights(broken: NDArray[np.bool_], domains: NDArray[np.str_]) -> NDArray[np.float64]:
    """Both outcomes alike, and within each every domain alike; the sum is the number of rows."""
    weights = np.zeros(len(broken))
    for outcome in (True, False):
        part = broken == outcome
        names = sorted(set(domains[part].tolist()))
        for name in names:
            own = part & (domains == name)
            weights[own] = len(broken) / 2 / len(names) / own.sum()
    return weights


def logistic(
    table: NDArray[np.float64], outcome: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Base and weights by Newton's method, with a ridge."""
    design = np.column_stack([np.ones(len(table)), table])
    ridge = np.diag([1e-6, *[RIDGE] * table.shape[1]])
    found = np.zeros(design.shape[1])
    for _ in range(ROUNDS):
        chance = 1 / (1 + np.exp(-design @ found))
        slope = design.T @ (weights * (outcome - chance)) - ridge @ found
        curve = (design * (weights * chance * (1 - chance))[:, None]).T @ design + ridge
        step = np.linalg.solve(curve, slope)
        found = found + step
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(found, dtype=np.float64)


def _score(coefficients: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.float64]:
    odds: NDArray[np.float64] = coefficients[0] + table @ coefficients[1:]
    return odds


def _lines(
    recipe: Recipe,
    scores: NDArray[np.float64],
    sound: NDArray[np.bool_],
    broken: NDArray[np.bool_],
    domains: NDArray[np.str_],
) -> dict[str, float]:
    lines = {}
    if recipe.sound is not None:
        lines["sound"] = _quantile(scores[broken], domains[broken], recipe.sound)
    for name, share in (("suspected", recipe.suspected), ("broken", recipe.broken)):
        if share is not None:
            lines[name] = _quantile(scores[sound], domains[sound], 1 - share)
    if "sound" in lines and "suspected" in lines:
        lines["sound"] = min(lines["sound"], lines["suspected"])
    return lines


def _quantile(scores: NDArray[np.float64], domains: NDArray[np.str_], share: float) -> float:
    """The score below which so much of the rows lies, every domain weighed alike."""
    weights = np.zeros(len(scores))
    for name in set(domains.tolist()):
        own = domains == name
        weights[own] = 1 / own.sum()
    order = np.argsort(scores)
    below = np.cumsum(weights[order]) / weights.sum()
    return float(scores[order][min(len(scores) - 1, int(np.searchsorted(below, share)))])


def _comments(one: Fitted, rows: Sequence[Row]) -> list[str]:
    usable = ~np.isnan(one.left_out)
    broken = np.array([row.truth == one.recipe.stage for row in rows]) & usable
    sound = np.array([row.truth is None for row in rows]) & usable
    domains = np.array([row.domain for row in rows])
    found = [f"# {one.recipe.name}: {one.rows} requests, {one.broken} broken; left out:"]
    for kind, lines, scores in (("", one.lines, one.left_out), ("known, ", one.known_lines, one.known)):
        for name, line in lines.items():
            is_sound = name == "sound"
            hits = scores < line if is_sound else scores >= line
            each = {domain: float(hits[sound & (domains == domain)].mean()) for domain in sorted(set(domains.tolist()))}
            worst = min(each, key=lambda key: each[key]) if is_sound else max(each, key=lambda key: each[key])
            found.append(
                f"#   {kind}{name}: {hits[sound].mean():.1%} of sound requests ({each[worst]:.1%} in {worst}), "
                f"{hits[broken].mean():.1%} of broken ones"
            )
    return found
