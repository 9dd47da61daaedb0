"""How far Shapley estimates are off at equal budgets, relative to PMCSHAP, and whether their intervals hold.

Every game is a complete table, so the exact values are known. Each estimator gets the same number of distinct
evaluations; a cell is left out where it reaches 2^k. MSE is the mean over documents, tokens and seeds, relative to
PMCSHAP's (M = 200, N' = .75 N) on the same game; the geometric mean is over games. "90 % holds" is the share of 90 %
intervals that hold the exact value, per token and for the documents' scores.
Usage: python bench/shapley.py --help
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: small matrices gain nothing from threads

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.games import KnownGame, known, synthetic_games, tabled_games
from ragtrace.alignment import noise_distraction, rank_by_score, warg, wasted_retrieval
from ragtrace.attribution import ShapleyValues, shapley_values
from ragtrace.attribution._gaussian_process import designed_pairs

PLAYERS, MULTIPLES = (5, 8, 10, 12), (2, 4, 8, 16)
PER_FAMILY = 6  # of six families: 36 games per k
FINAL, CALIBRATION = 0, 2000  # first seeds: the games of the figures are not those of the calibration
TARGETS = {2: 0.2, 4: 0.15, 8: 0.15, 16: 0.15}
NORMAL_90 = 1.645
REFERENCE = "pmcshap"
HEADER = "  k    N       method             MSE/PMCSHAP   worst 90 % holds  scores  top-1"
STOPPED_GAMES = 9000  # first seed of those on which stopping is measured
CONFIDENCES, ERRORS = (0.75, 0.9), (0.1, 0.05)  # to settle at; of the range of the scores, to stop at
METHODS: dict[str, dict[str, Any]] = {REFERENCE: {"method": "pmcshap"}, "auto": {"method": "auto"}}
FURTHER: dict[str, dict[str, Any]] = {
    "gp, fixed prior": {"method": "gp", "prior": "fixed"},
    "permutation": {"method": "permutation"},
    "kernelshap, pairs": {"method": "kernelshap", "paired": True},
    "mcshap": {"method": "mcshap"},
    "kernelshap": {"method": "kernelshap"},
    "pmcshap, released": {"method": "pmcshap", "released": True},
}


@dataclass
class Cell:
    """The results of one method at one k and budget: per game, and per interval."""

    squared: list[float]  # mean squared error, per game
    off: list[NDArray[np.float64]]  # |error| / standard error, per game and seed, tokens
    scores_off: list[NDArray[np.float64]]  # the same for the documents' scores
    top: list[bool]  # whether the best document is the right one

    @property
    def coverage(self) -> float:
        """The share of 90 % intervals of values that hold the truth."""
        return share(self.off, NORMAL_90)

    @property
    def score_coverage(self) -> float:
        """The share of 90 % intervals of scores that hold the truth."""
        return share(self.scores_off, NORMAL_90)


def share(off: list[NDArray[np.float64]], limit: float) -> float:
    """The share of errors below the limit; NaN where no error was estimated."""
    return float((np.concatenate(off) <= limit).mean()) if off else float("nan")


def geometric(ratios: list[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))


def measure(games: list[KnownGame], budget: int, seeds: int, **options: Any) -> Cell:
    """Runs one method on every game with every seed."""
    cell = Cell([], [], [], [])
    for each in games:
        results = [shapley_values(each.game, each.n_players, budget=budget, seed=at, **options) for at in range(seeds)]
        cell.squared.append(float(np.mean([(result.values - each.truth) ** 2 for result in results])))
        cell.top += [bool(result.scores.argmax() == each.truth.mean(axis=1).argmax()) for result in results]
        for result in results:
            if result.reason is None:
                keep_intervals(cell, result, each)
    return cell


def keep_intervals(cell: Cell, result: ShapleyValues, each: KnownGame) -> None:
    """How many standard errors the estimate is off; a standard error of 0 is met up to rounding."""
    errors = np.maximum(result.standard_error, 1e-9)
    score_errors = np.maximum(np.sqrt(np.diagonal(result.covariance).clip(0)), 1e-9)
    cell.off.append((np.abs(result.values - each.truth) / errors).ravel())
    cell.scores_off.append(np.abs(result.scores - each.truth.mean(axis=1)) / score_errors)


def table(games_of: Callable[[int], list[KnownGame]], players: list[int], seeds: int, methods: dict[str, Any]) -> None:
    """Prints one line per k, budget and method, then the means over k."""
    print(HEADER)
    ratios: dict[tuple[str, int], list[float]] = {}
    intervals: dict[str, list[float]] = {}
    for k in players:
        games = games_of(k)
        for multiple in multiples(k) if games else []:
            reference = measure(games, multiple * k, seeds, **METHODS[REFERENCE])
            for name, options in methods.items():
                cell = reference if name == REFERENCE else measure(games, multiple * k, seeds, **options)
                relative = [own / other for own, other in zip(cell.squared, reference.squared, strict=True)]
                ratios.setdefault((name, multiple), []).extend(relative)
                intervals.setdefault(name, []).append(cell.coverage)
                print(line(k, multiple, name, relative, cell), flush=True)
    summarize(ratios, intervals)


def line(k: int, multiple: int, name: str, relative: list[float], cell: Cell) -> str:
    """One line of the table."""
    return (
        f"{k:3} {multiple * k:4} {multiple:3}k  {name:18} {geometric(relative):11.3f} {max(relative):7.2f} "
        f"{cell.coverage:10.1%} {cell.score_coverage:7.1%} {np.mean(cell.top):6.1%}"
    )


def summarize(ratios: dict[tuple[str, int], list[float]], intervals: dict[str, list[float]]) -> None:
    """Prints the geometric means over all games, and how many intervals hold."""
    print("\ngeometric means over all games")
    for (name, multiple), values in ratios.items():
        target = f"  (at most {TARGETS[multiple]})" if name == "auto" else ""
        print(f"  N = {multiple:2}k  {name:18} {geometric(values):.3f}{target}")
    for name, covered in intervals.items():
        defined = [share for share in covered if share == share]
        if defined:
            held = f"{np.mean(defined):.1%} hold, {min(defined):.1%} to {max(defined):.1%} by cell"
            print(f"  90 % intervals of {name}: {held}")


def multiples(k: int) -> list[int]:
    """The budgets, in multiples of k, that do not reach 2^k."""
    return [multiple for multiple in MULTIPLES if multiple * k < 1 << k]


def calibrate(players: list[int], seeds: int, methods: dict[str, Any]) -> None:
    """Prints, per method, the factor that would make 90 % of the intervals of the calibration games hold."""
    for name, options in methods.items():
        factors = []
        for k in players:
            games = synthetic_games(k, PER_FAMILY, CALIBRATION)
            cells = [measure(games, multiple * k, seeds, **options) for multiple in multiples(k)]
            factors += [float(np.quantile(np.concatenate(cell.off), 0.9)) / NORMAL_90 for cell in cells if cell.off]
        if factors:
            span = f"{min(factors):.2f} to {max(factors):.2f} by cell"
            print(f"{name:18} {geometric(factors):.2f} on top of what is applied, {span}")


def stopping(players: list[int], seeds: int, methods: dict[str, Any]) -> None:
    """Prints how often runs end before their budget of 16 k, and how often they are right then."""
    print("settled:  k  confidence  ended  evaluations  best document  wasted  noise   WARG off by")
    for k in players:
        games = synthetic_games(k, PER_FAMILY, STOPPED_GAMES)
        for name, options in methods.items():
            for confidence in CONFIDENCES:
                print(f"{k:11} {confidence:11} {settled(games, seeds, confidence, options)}  {name}", flush=True)
    print("\ntarget:   k  of the range  ended  evaluations  90 % of scores holds")
    for k in players:
        games = synthetic_games(k, PER_FAMILY, STOPPED_GAMES)
        for name, options in methods.items():
            for error in ERRORS:
                print(f"{k:11} {error:13} {targeted(games, seeds, error, options)}  {name}", flush=True)


def settled(games: list[KnownGame], seeds: int, confidence: float, options: dict[str, Any]) -> str:
    """Of the runs that end because they are settled: what agrees with the exact values."""
    found = []
    for each in games:
        for seed in range(seeds):
            order = np.random.default_rng([seed, 1]).permutation(each.n_players).tolist()
            result = shapley_values(
                each.game, each.n_players, budget=most(each), seed=seed, settle=confidence, ranking=order, **options
            )
            if result.stopped:
                own, exact = read(order, result.scores), read(order, each.truth.mean(axis=1))
                right = [float(a == b) for a, b in zip(own[:3], exact[:3], strict=True)]
                found.append([result.n_evaluations, *right, abs(own[3] - exact[3])])
    if not found:
        return f"{0:6.1%}"
    evaluations, top, wasted, noise, change = np.mean(found, axis=0)
    ended = len(found) / len(games) / seeds
    return f"{ended:6.1%} {evaluations:12.1f} {top:14.1%} {wasted:7.1%} {noise:6.1%} {change:13.3f}"


def targeted(games: list[KnownGame], seeds: int, error: float, options: dict[str, Any]) -> str:
    """Of the runs that end because their errors are small: how many 90 % intervals of scores hold the exact value."""
    cell, spent = Cell([], [], [], []), []
    for each in games:
        target = error * float(np.ptp(each.truth.mean(axis=1)))
        for seed in range(seeds):
            result = shapley_values(
                each.game, each.n_players, budget=most(each), seed=seed, target_standard_error=target, **options
            )
            if result.stopped:
                spent.append(result.n_evaluations)
                keep_intervals(cell, result, each)
    ended = f"{len(spent) / len(games) / seeds:6.1%}"
    return f"{ended} {np.mean(spent):12.1f} {cell.score_coverage:21.1%}" if spent else ended


def most(game: KnownGame) -> int:
    """The budget of a run that may stop: 16 k, or just not all coalitions."""
    return min(16 * game.n_players, (1 << game.n_players) - 2)


def read(order: list[int], scores: NDArray[np.float64]) -> tuple[int, bool | None, bool | None, float]:
    """The best document, both flags and WARG(0.9) of these scores."""
    used = rank_by_score(order, scores[order]).documents
    return int(scores.argmax()), wasted_retrieval(order, used), noise_distraction(order, used), warg(order, used)


def durations() -> None:
    """Prints how long a design and a fit take."""
    for k, budget in ((10, 80), (20, 160), (30, 240)):
        started = time.perf_counter()
        designed_pairs(k, budget // 2, 99)
        print(f"design k = {k}, N = {budget}: {1e3 * (time.perf_counter() - started):.0f} ms, once per process")
    columns = np.concatenate([game.table for game in synthetic_games(10, 2, FINAL)[:8]], axis=1)
    game = known("wide", columns)
    done = shapley_values(game.game, 10, budget=80)
    taken = []
    for _ in range(11):
        started = time.perf_counter()
        shapley_values(game.game, 10, budget=80, continue_from=done.log)
        taken.append(time.perf_counter() - started)
    print(f"fit k = 10, N = 80, m = {columns.shape[1]}: {1e3 * median(taken):.0f} ms (at most 100 ms)\n")


def main() -> None:
    """Reads the options and prints the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--full", action="store_true", help="every estimator, and eight seeds instead of four")
    options.add_argument("--calibrate", action="store_true", help="print calibration factors instead")
    options.add_argument("--stopping", action="store_true", help="measure runs that end before their budget instead")
    options.add_argument("--tables", type=Path, help="a folder of complete value tables (.npz) to measure on as well")
    options.add_argument("--players", type=int, nargs="+", default=list(PLAYERS))
    given = options.parse_args()
    methods, seeds = (METHODS | FURTHER, 8) if given.full else (METHODS, 4)
    if given.calibrate:
        calibrate(given.players, seeds, methods)
        return
    if given.stopping:
        stopping([k for k in given.players if 8 * k < 1 << k], seeds, methods)
        return
    durations()
    print("synthetic games")
    table(lambda k: synthetic_games(k, PER_FAMILY, FINAL), given.players, seeds, methods)
    if given.tables:
        held = tabled_games(given.tables)
        print(f"\ntables of {given.tables}")
        table(lambda k: [game for game in held if game.n_players == k], given.players, seeds, methods)


if __name__ == "__main__":
    main()
