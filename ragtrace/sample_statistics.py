"""Statistics of samples: bounds of a share, several tests at once, and people's labels: which requests to draw, how far
labelers agree, and rates corrected by labels.

A corrected rate is prediction-powered: the verdict is known of every request of a population, the label of few that
were drawn with known probabilities; the verdict narrows the interval as far as it is right, and biases nothing where it
is wrong. Source: Angelopoulos, Duchi and Zrnic (2023), "PPI++: Efficient prediction-powered inference"; for weights,
Särndal, Swensson and Wretman (1992), "Model assisted survey sampling", chapter 6.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import ceil, sqrt
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.errors import ConfigurationError

__all__ = [
    "FEWEST_LABELS",
    "ONE_SIDED_95",
    "TWO_SIDED_95",
    "Correction",
    "change_interval",
    "cohen_kappa",
    "correct",
    "draw_order",
    "effective_size",
    "holm",
    "inclusion_probabilities",
    "krippendorff_alpha",
    "share_and_size",
    "wilson",
]

ONE_SIDED_95: Final = 1.645
TWO_SIDED_95: Final = 1.959963984540054


def wilson(part: float, whole: float, z: float = ONE_SIDED_95) -> tuple[float, float]:
    """Lower and upper bound of the share that `part` of `whole` stands for, in [0, 1]; (0, 1) of none.

    z: standard deviations; 1.645 leaves 5 % on each side, 1.96 leaves 2.5 %.
    Source: Wilson (1927), "Probable inference"; Google SRE workbook, chapter 5, for why a sampled ratio needs it.
    """
    if whole <= 0:
        return 0.0, 1.0
    share, square = part / whole, z * z / whole
    middle = (share + square / 2) / (1 + square)
    reach = z * sqrt(share * (1 - share) / whole + square / (4 * whole)) / (1 + square)
    low = max(0.0, middle - reach) if part > 0 else 0.0
    return low, (min(1.0, middle + reach) if part < whole else 1.0)


def effective_size(share: float, variance: float, kish: float) -> float:
    """Of a weighted share: how many requests drawn evenly and independently would tell as much; no more than by the
    weights alone (`kish`), as the few of great weight may all have been lucky.

    Source: Korn and Graubard (1998), "Confidence intervals for proportions with small expected number of positive
    counts".
    """
    known = 0.0 < share < 1.0 and variance > 0
    return min(share * (1 - share) / variance, kish) if known else kish


def share_and_size(weighed: Sequence[tuple[bool, float]]) -> tuple[float, float]:
    """The share of those that count, each with its weight (Hájek's estimate), and how many requests that were drawn
    evenly would tell as much of it.

    weighed: at least one, with weights above 0: one over the probability with which it was drawn.
    """
    if len({weight for _, weight in weighed}) == 1:
        return sum(counts for counts, _ in weighed) / len(weighed), float(len(weighed))
    whole = sum(weight for _, weight in weighed)
    share = sum(weight for counts, weight in weighed if counts) / whole
    variance = sum((weight * (counts - share)) ** 2 for counts, weight in weighed) / whole**2
    return share, effective_size(share, variance, whole**2 / sum(weight**2 for _, weight in weighed))


def holm(p_values: Sequence[float], chances: Sequence[Callable[[float], float]] | None = None) -> list[float]:
    """Adjusted p-values in the given order, each at most 1: reject where one is at most alpha.

    chances: of each test the probability, where there is nothing to find, of a p-value as small as the one given or
    smaller; None: that p-value itself. A test that cannot get so small then takes nothing from the others.

    Sources: Holm (1979), "A simple sequentially rejective multiple test procedure"; of discrete tests Tarone (1990), "A
    modified Bonferroni method for discrete data", and Westfall and Wolfinger (1997), "Multiple tests with discrete
    distributions".
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted, highest = [1.0] * len(p_values), 0.0
    for step, at in enumerate(order):
        p = p_values[at]
        as_small = (len(p_values) - step) * p if chances is None else sum(chances[each](p) for each in order[step:])
        highest = max(highest, min(1.0, as_small))
        if highest == 1.0:
            break
        adjusted[at] = highest
    return adjusted


FEWEST_LABELS: Final = 100
"""Below so many labels no rate is corrected: its interval would not hold."""

_RARE: Final = 3.0  # counts up to which Wilson's nearer bound is too near
_ENOUGH: Final = 50.0  # labels from which on rare ones are as good as Poisson's
_STEPS: Final = 60  # halvings of a bisection

_Floats: TypeAlias = NDArray[np.float64]
_Bounds: TypeAlias = tuple[float, float, float]


def inclusion_probabilities(interest: _Floats, expected: int, uniform: float) -> _Floats:
    """With which probability each request is drawn: π = min(1, c · (u/N + (1 − u) · interest/Σ interest)).

    interest: `(N,)`, at least 0: how much more than the others a request is worth a label; where all are 0 the draw is
    uniform. expected: how many are drawn, Σ π. uniform: u in (0, 1], the share that all requests have alike.
    Returns: `(N,)` in (0, 1]; all 1 where no more than `expected` are there.
    Raises: ConfigurationError for a share that is not in (0, 1], or for no request to draw.
    """
    if not 0 < uniform <= 1:
        raise ConfigurationError.of("uniform", uniform, "a share above 0, at most 1")
    if expected < 1:
        raise ConfigurationError.of("labels", expected, "at least 1")
    size, total = len(interest), float(interest.sum())
    if size <= expected:
        return np.ones(size)
    even = np.full(size, 1 / size)
    share = uniform * even + (1 - uniform) * interest / total if total > 0 else even
    found = np.minimum(1.0, expected * share)
    while (missing := expected - float(found.sum())) > 1e-9:  # what is certain leaves its rest to the others
        free = found < 1
        found[free] = np.minimum(1.0, found[free] * (1 + missing / float(found[free].sum())))
    return found


def draw_order(numbers: _Floats, probabilities: _Floats) -> NDArray[np.intp]:
    """The requests in the order in which they are drawn: by number over probability (sequential Poisson sampling).

    The first n are the draw of n, and the next ones extend it. numbers: `(N,)`, uniform in [0, 1) and the same for the
    same request. Source: Ohlsson (1998), "Sequential Poisson sampling".
    """
    return np.argsort(numbers / probabilities, kind="stable")


@dataclass(frozen=True, slots=True)
class Correction:
    """A rate corrected by labels, with its interval of 95 %.

    verdict: the share that the verdict itself gives. tuning: λ, how much of the verdict is used; 0 for one that tells
    nothing. labels: how many were used. to_halve: how many more would halve the interval, drawn as these were; None
    where the population has not so many requests.
    """

    rate: float
    low: float
    high: float
    verdict: float
    tuning: float
    labels: int
    to_halve: int | None


class _Cell(NamedTuple):
    """The requests with one verdict: their share, the share of them that labels call broken, and how many labels drawn
    evenly would tell as much of that; 0 where none has a label."""

    share: float
    rate: float
    size: float


def correct(
    verdicts: NDArray[np.bool_],
    importance: _Floats,
    labeled: NDArray[np.intp],
    labels: _Floats,
    probabilities: _Floats,
) -> Correction:
    """The rate of labels in a population: θ = λ · mean(verdicts) + mean over labeled of (label − λ · verdict).

    Both means are weighted by importance, the second one by importance/probability. λ is the slope of the labels on the
    verdict, the choice of smallest variance for even weights. So θ is the mean of the rates behind either verdict, and
    its interval joins their Wilson intervals (MOVER), each for as many labels as its weights are worth, with the
    variance of a population of N; next to 0 and 1 by Poisson's bound. A normal interval holds in 45 to 90 % at rates
    of 2 %.

    verdicts, importance: `(N,)`, importance above 0: what each request stands for. labeled: `(n,)` places of the
    labeled among them. labels: `(n,)` in [0, 1]. probabilities: `(n,)` in (0, 1], up to a factor.
    Raises: ConfigurationError for fewer than `FEWEST_LABELS` labels.
    Sources: Zou and Donner (2008), "Construction of confidence limits about effect
    measures"; Korn and Graubard (1998) for weights; Brown, Cai and DasGupta (2001), "Interval estimation for a
    binomial proportion", section 4.1.1, for rare counts.
    """
    if len(labels) < FEWEST_LABELS:
        raise ConfigurationError(
            f"{len(labels)} labels correct no rate: give at least {FEWEST_LABELS - len(labels)} more ({FEWEST_LABELS})"
        )
    weights, seen = importance[labeled] / probabilities, verdicts[labeled]
    share = float(np.average(verdicts, weights=importance))
    overall = float(np.average(labels, weights=weights))
    cells = [
        _cell(1 - share, labels[~seen], weights[~seen], overall),
        _cell(share, labels[seen], weights[seen], overall),
    ]
    rate = sum(cell.share * cell.rate for cell in cells)
    population = _kish(importance)
    low, high = _interval(cells, population, 1.0)
    return Correction(
        rate=rate,
        low=low,
        high=high,
        verdict=share,
        tuning=cells[1].rate - cells[0].rate if cells[0].size and cells[1].size else 0.0,
        labels=len(labels),
        to_halve=_to_halve(cells, population, len(labels), len(verdicts)),
    )


def _kish(weights: _Floats) -> float:
    return float(weights.sum() ** 2 / (weights**2).sum())


def _cell(share: float, labels: _Floats, weights: _Floats, overall: float) -> _Cell:
    if not len(labels):
        return _Cell(share, overall, 0.0)
    rate = float(np.average(labels, weights=weights))
    variance = float((weights**2 * (labels - rate) ** 2).sum() / weights.sum() ** 2)
    return _Cell(share, rate, effective_size(rate, variance, _kish(weights)))


def _interval(cells: Sequence[_Cell], population: float, times: float) -> tuple[float, float]:
    """The ends of the interval if each cell had so many times its labels."""
    rate = sum(cell.share * cell.rate for cell in cells)
    between = sum(cell.share * (cell.rate - rate) ** 2 for cell in cells) / population
    below = above = TWO_SIDED_95**2 * between
    for cell in cells:
        low, high = _bounds(cell.rate, cell.size * times)
        below += (cell.share * (cell.rate - low)) ** 2
        above += (cell.share * (high - cell.rate)) ** 2
    return max(0.0, rate - sqrt(below)), min(1.0, rate + sqrt(above))


def _bounds(rate: float, size: float) -> tuple[float, float]:
    low, high = wilson(rate * size, size, TWO_SIDED_95)
    if size > _ENOUGH:
        if 0 < rate * size <= _RARE:
            low = min(low, _poisson_bound(rate * size) / size)
        if 0 < (1 - rate) * size <= _RARE:
            high = max(high, 1 - _poisson_bound((1 - rate) * size) / size)
    return low, high


def _poisson_bound(count: float) -> float:
    """The lower bound of a Poisson mean, one-sided at 95 % (Wilson and Hilferty's approximation)."""
    return float(count * max(0.0, 1 - 1 / (9 * count) - ONE_SIDED_95 / (3 * sqrt(count))) ** 3)


def _to_halve(cells: Sequence[_Cell], population: float, labels: int, requests: int) -> int | None:
    def width(times: float) -> float:
        low, high = _interval(cells, population, times)
        return high - low

    wanted, least, most = width(1.0) / 2, 1.0, requests / labels
    if width(most) > wanted:
        return None
    for _ in range(_STEPS):
        middle = (least + most) / 2
        least, most = (middle, most) if width(middle) > wanted else (least, middle)
    return ceil((most - 1) * labels)


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """How far two labelers agree beyond chance: (p_o − p_e)/(1 − p_e), at most 1; 0 is chance.

    first, second: what both said of the same requests. None where nothing can differ: no request, or one word only.
    Source: Cohen (1960), "A coefficient of agreement for nominal scales".
    """
    size = len(first)
    one, two = Counter(first), Counter(second)
    expected = sum(one[word] * two[word] for word in one)  # of size²
    if expected == size * size:
        return None
    agreed = sum(a == b for a, b in zip(first, second, strict=True))
    return (agreed * size - expected) / (size * size - expected)


def change_interval(before: _Bounds, after: _Bounds) -> tuple[float, float]:
    """The interval of after - before of two independent rates, each given as (rate, low, high), at their confidence.

    Source: Zou and Donner (2008), "Construction of confidence limits about effect measures: a general approach".
    """
    change = after[0] - before[0]
    down = sqrt((after[0] - after[1]) ** 2 + (before[2] - before[0]) ** 2)
    up = sqrt((after[2] - after[0]) ** 2 + (before[0] - before[1]) ** 2)
    return max(-1.0, change - down), min(1.0, change + up)


def krippendorff_alpha(units: Sequence[Sequence[Hashable]]) -> float | None:
    """How far any number of labelers agree beyond chance: 1 − D_o/D_e for nominal words, at most 1; 0 is chance.

    units: of each request what its labelers said; one that has a single label says nothing. None where nothing can
    differ. Source: Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section C.
    """
    pairs: defaultdict[tuple[Hashable, Hashable], float] = defaultdict(float)
    for said in units:
        for pair in permutations(said, 2):
            pairs[pair] += 1 / (len(said) - 1)
    margins: defaultdict[Hashable, float] = defaultdict(float)
    for (word, _), weight in pairs.items():
        margins[word] += weight
    whole = sum(margins.values())
    different = sum(margins[one] * margins[two] for one, two in permutations(margins, 2))
    if not different:
        return None
    observed = sum(weight for (one, two), weight in pairs.items() if one != two)
    return 1 - (whole - 1) * observed / different
