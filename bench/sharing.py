"""Whether pairs that share beginnings pay: the error of `auto` with `costs` beside that without.

Prompts of k documents of 120 tokens in order, a question of 20 and an answer of 64. Prefill tokens are counted by the
engine's tree: what several prompts begin with counts once. Two comparisons, at the same number of subsets, and at the
same prefill tokens, where sharing buys more subsets. Errors are mean squared ones relative to the design without costs,
the geometric mean over games and seeds. Nothing is timed. Up to N = 4k the two designs are the same.
Usage: python bench/sharing.py --help
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: small matrices gain nothing from threads

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.games import FAMILIES, KnownGame, synthetic_games, tabled_games
from ragtrace.attribution import shapley_values
from ragtrace.attribution._gaussian_process import GaussianProcess
from ragtrace.attribution.game import Coalitions
from ragtrace.engines._token_tree import Edge, grow

DOCUMENT, QUESTION, ANSWER = 120, 20, 64  # tokens
PLAYERS, MULTIPLES, PER_FAMILY = (8, 10, 12), (6, 8, 12, 16), 6
LEAST: Final = 1e-14  # an error that is none
Errors = NDArray[np.float64]


def prefill(coalitions: Coalitions) -> tuple[int, int]:
    """Tokens that a model reads for these subsets: beginnings once, and one by one."""
    tail = list(range(-QUESTION - ANSWER, 0))
    sequences = []
    for row in coalitions:
        kept = np.flatnonzero(row).tolist()
        listed = [
            each for at, i in enumerate(kept) for each in (2 + at, *range(1000 * (i + 1), 1000 * (i + 1) + DOCUMENT))
        ]
        sequences.append([1, *listed, *tail][:-1])
    return _size(grow(sequences, ANSWER)), sum(map(len, sequences))


def _size(edges: Sequence[Edge]) -> int:
    return sum(len(edge.tokens) + _size(edge.children) for edge in edges)


def costs_of(k: int) -> tuple[float, ...]:
    """What each document takes to read, and what follows them."""
    return (*[DOCUMENT + 1.0] * k, QUESTION + ANSWER)


def within(k: int, tokens: int, start: int, seed: int) -> int:
    """The largest budget of the design with costs that takes at most so many tokens."""
    budget, most = start, (1 << k) - 2
    coalitions = GaussianProcess(costs=costs_of(k)).coalitions(k, most, seed)
    while budget + 2 <= most and prefill(coalitions[: budget + 2])[0] <= tokens:
        budget += 2
    return budget


def errors(games: Sequence[KnownGame], budget: int, seed: int, costs: tuple[float, ...] | None) -> Errors:
    """Mean squared error on each game."""
    found = [shapley_values(each.game, each.n_players, budget=budget, seed=seed, costs=costs) for each in games]
    squared = [float(((one.values - each.truth) ** 2).mean()) for one, each in zip(found, games, strict=True)]
    return np.maximum(squared, LEAST)


def compare(games: Sequence[KnownGame], k: int, seeds: int) -> None:
    """One line per budget and family, and one for all synthetic games."""
    families = np.array([each.family for each in games])
    for budget in (multiple * k for multiple in MULTIPLES if multiple * k < 1 << k):
        alike, more, counts = [], [], []
        for seed in range(seeds):
            tokens, alone = prefill(GaussianProcess().coalitions(k, budget, seed))
            shared = prefill(GaussianProcess(costs=costs_of(k)).coalitions(k, budget, seed))[0]
            bought = within(k, tokens, budget - k, seed)
            plain = errors(games, budget, seed, None)
            alike.append(errors(games, budget, seed, costs_of(k)) / plain)
            more.append(errors(games, bought, seed, costs_of(k)) / plain)
            counts.append((alone / tokens, shared / tokens, bought / budget))
        sharing, saved, bought_more = np.mean(counts, axis=0)
        groups = {family: families == family for family in dict.fromkeys(families)}
        synthetic = np.isin(families, list(FAMILIES))
        for name, chosen in {**groups, "synthetic": synthetic}.items():
            same, further = np.array(alike)[:, chosen], np.array(more)[:, chosen]
            print(
                f"{name:12}{k:3} {budget:4}  {sharing:6.2f} x   {saved:6.3f} {geometric(same):8.2f}   "
                f"{bought_more:9.2f} {geometric(further):8.2f} {np.mean(further < 1):7.0%}",
                flush=True,
            )


def geometric(ratios: Errors) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(ratios).mean()))


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--players", type=int, nargs="+", default=list(PLAYERS))
    options.add_argument("--tables", type=Path, help="a folder of complete value tables (.npz) to measure on as well")
    given = options.parse_args()
    print("                     shared      same subsets        same tokens")
    print("games         k    N   before   tokens      MSE     subsets      MSE  better")
    held = tabled_games(given.tables) if given.tables else []
    for k in given.players:
        tabled = [each for each in held if each.n_players == k]
        compare([*synthetic_games(k, PER_FAMILY, 0), *tabled], k, given.seeds)


if __name__ == "__main__":
    main()
