"""Whether intervals of corrected rates hold: services whose true rates are known are drawn from, labeled and corrected.

Each simulated service has its own size, true rate, verdict (from blind to good, some of them worse than none), doubts,
share of even draws, number of labels and, in every third one, uneven sampling. An interval of 95 % shall hold in 93 to
97 % of them where the rate lies between 2 and 50 %, and in at least 93 % elsewhere; where the verdict is bad, the mean
error shall be within its own standard error of 0.

Usage: python bench/label_rates.py [--services N] [--seed N]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from ragtrace.sample_statistics import FEWEST_LABELS, correct, draw_order, inclusion_probabilities

__all__ = ["RANGES", "Outcome", "simulate", "simulated"]

RANGES: Final = {"2 to 50 %": (0.02, 0.5), "0.2 to 2 %": (0.002, 0.02), "50 to 95 %": (0.5, 0.95)}
_MOST_LABELS: Final = 1_000
_MOST_REQUESTS: Final = 10_000
_INTEREST: Final = (0.0, 3.0, 1.0)  # of requests that are sound, suspected or named


class Outcome(NamedTuple):
    """One service: its true rate, how many labels, whether its verdict is bad, and what came of it."""

    truth: float
    labels: int
    is_bad: bool
    rate: float
    low: float
    high: float
    normal_holds: bool

    @property
    def holds(self) -> bool:
        """Whether the interval holds the true rate."""
        return self.low <= self.truth <= self.high


def simulated(services: int, least: float, most: float, seed: int) -> list[Outcome]:
    """So many services with true rates between two, log-uniform."""
    rng = np.random.default_rng(seed)
    return [simulate(rng, float(np.exp(rng.uniform(np.log(least), np.log(most)))), at) for at in range(services)]


def simulate(rng: np.random.Generator, truth: float, number: int) -> Outcome:
    """One service with a true rate. number: every third one is sampled unevenly."""
    labels = round(np.exp(rng.uniform(np.log(FEWEST_LABELS), np.log(_MOST_LABELS))))
    size = min(_MOST_REQUESTS, round(labels * np.exp(rng.uniform(np.log(3), np.log(60)))))
    is_broken = rng.random(size) < truth
    found, false = rng.uniform(0, 0.95), rng.choice([0.0, 0.01, 0.05, 0.3])
    verdicts = np.where(is_broken, rng.random(size) < found, rng.random(size) < false)
    doubted = np.where(is_broken, rng.random(size) < rng.uniform(0.1, 0.8), rng.random(size) < rng.uniform(0.05, 0.5))
    importance = rng.choice([1.0, 2.0, 4.0], size) if number % 3 == 0 else np.ones(size)
    interest = np.choose(np.where(verdicts, 2, doubted), _INTEREST)
    probabilities = inclusion_probabilities(interest, labels, float(rng.choice([0.2, 0.5, 1.0])))
    drawn = draw_order(rng.random(size), probabilities)[:labels]
    said = is_broken[drawn].astype(np.float64)
    result = correct(verdicts, importance, drawn, said, probabilities[drawn])
    normal = _normal_holds(verdicts, said, drawn, importance[drawn] / probabilities[drawn], result.tuning, truth)
    return Outcome(truth, labels, bool(found <= false), result.rate, result.low, result.high, normal)


def _normal_holds(
    verdicts: NDArray[np.bool_],
    labels: NDArray[np.float64],
    drawn: NDArray[np.intp],
    weights: NDArray[np.float64],
    tuning: float,
    truth: float,
) -> bool:
    """Whether the normal interval of the same estimate would have held, for comparison."""
    residuals = labels - tuning * verdicts[drawn]
    mean = np.average(residuals, weights=weights)
    share = float(verdicts.mean())
    variance = (weights**2 * (residuals - mean) ** 2).sum() / weights.sum() ** 2
    variance += tuning**2 * share * (1 - share) / len(verdicts)
    return bool(abs(tuning * share + mean - truth) <= 1.96 * np.sqrt(variance))


def _lines(outcomes: list[Outcome]) -> Iterator[str]:
    holds = np.mean([each.holds for each in outcomes])
    normal = np.mean([each.normal_holds for each in outcomes])
    yield f"intervals hold in {holds:.1%} (normal ones in {normal:.1%}), mean width {_mean_width(outcomes):.3f}"
    rates = np.quantile([each.truth for each in outcomes], np.linspace(0, 1, 6))
    for least, most in pairwise(rates):
        some = [each for each in outcomes if least <= each.truth <= most]
        yield f"  rates {least:.3f} to {most:.3f}: {np.mean([each.holds for each in some]):.1%}"
    few = [each for each in outcomes if each.labels < 2 * FEWEST_LABELS]
    yield f"  fewer than {2 * FEWEST_LABELS} labels: {np.mean([each.holds for each in few]):.1%}"
    for name, some in (("all", outcomes), ("bad verdict", [each for each in outcomes if each.is_bad])):
        errors = np.array([each.rate - each.truth for each in some])
        yield f"  mean error, {name}: {errors.mean():+.5f} ± {errors.std() / np.sqrt(len(errors)):.5f}"


def _mean_width(outcomes: list[Outcome]) -> float:
    return float(np.mean([each.high - each.low for each in outcomes]))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name, (least, most) in RANGES.items():
        print(f"{given.services} services with true rates of {name}:")
        print("\n".join(_lines(simulated(given.services, least, most, given.seed))))


if __name__ == "__main__":
    main()
