"""The weights of layer 1 of a claim's support, fitted on several labelled sets, and judged on those left out.

A logistic regression with an offset for each set, in which each set and both of its labels weigh the same; no weight is
negative. Sets: ExpertQA, WiCE, BEGIN, CLAP-NQ, the development halves of RAGTruth QA and summaries, and the domains of
bench/domains that are not held out. Each set is judged by weights of the others (both of RAGTruth are left out
together), RAGTruth QA on its held-out half; SciFact and the held-out domains are never fitted on.

Usage: python bench/words.py [--claims N]; RAGTRACE_BENCH_DATA names the folder of the data sets. Prints the weights
that `ragtrace/coverage/support/lexical.py` holds, and the AUROC of support with them beside what is shipped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.builtin_verifier import OPEN, SEALED, TRAINED_ON, Labeled, paired, read_claims, some
from bench.datasets import DATA
from bench.support import auroc, read_samples
from ragtrace.coverage.support import Evidence, Statement, lexical
from ragtrace.coverage.support.readings import Reading
from ragtrace.engines.verifier_examples import is_held_out
from ragtrace.types import Claim

RIDGE: Final = 200.0
PER_SET: Final = 1000.0  # what the claims of a set weigh together
DOUBTED: Final = 0.12  # share of the supported claims written by hand that lie below 0.5: so the constant is chosen
UNSTATED: Final = 4  # place of that measure, which bounds the support
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """The claims of one set. rows: `(n_claims, 5)`, as `Measures.vector`; unsupported: 0 or 1."""

    sources: tuple[str, ...]
    rows: Floats
    unsupported: Floats

    def part(self, kept: Iterable[bool]) -> Measured:
        """Some of the claims."""
        chosen = np.array(list(kept))
        sources = tuple(source for source, keep in zip(self.sources, chosen, strict=True) if keep)
        return Measured(sources, self.rows[chosen], self.unsupported[chosen])


def read_set(name: str, limit: int | None) -> Measured:
    """The measures of a set's claims. Raises: FileNotFoundError, ConfigurationError."""
    if name == "ragtruth-qa":
        samples = read_samples(DATA / "ragtruth" / "qa.jsonl")
        rows = [sample.measures.vector for sample in samples]
        return _measured([sample.source for sample in samples], rows, [sample.unsupported for sample in samples])
    claims = some(read_claims(name), limit)
    rows = [_measures(each).vector for each in claims]
    return _measured([each.source for each in claims], rows, [not each.is_supported for each in claims])


def _measures(labeled: Labeled) -> lexical.Measures:
    readings = [Evidence.read(str(place), text).reading for place, text in enumerate(labeled.chunks)]
    claim = Claim(text=labeled.text, start=0, end=len(labeled.text))
    return lexical.measure(Statement.read(claim), lexical.Ground(readings, Reading(labeled.question)))


def _measured(sources: Sequence[str], rows: Sequence[Sequence[float]], unsupported: Sequence[bool]) -> Measured:
    return Measured(tuple(sources), np.array(rows), np.array(unsupported, dtype=np.float64))


def fit(sets: Sequence[Measured]) -> Floats:
    """The weights, none negative."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    x = np.concatenate([each.rows for each in sets])
    y = np.concatenate([each.unsupported for each in sets])
    which = np.concatenate([np.full(len(each.sources), place) for place, each in enumerate(sets)])
    weight = np.concatenate([_balanced(each.unsupported) for each in sets])
    scale = x.std(axis=0) + 1e-9
    z, count = (x - x.mean(axis=0)) / scale, x.shape[1]

    def loss(t: Floats) -> tuple[float, Floats]:
        odds = z @ t[:count] + t[count:][which]
        error = weight * (1 / (1 + np.exp(-odds)) - y)
        gradient = np.append(z.T @ error + RIDGE * t[:count], np.bincount(which, error, minlength=len(sets)))
        fitted = (weight * (np.logaddexp(0, odds) - y * odds)).sum()
        return float(fitted + RIDGE * (t[:count] ** 2).sum() / 2), gradient

    bounds = [(0, None)] * count + [(None, None)] * len(sets)
    found = minimize(loss, np.zeros(count + len(sets)), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights: Floats = found[:count] / scale
    return weights


def _balanced(unsupported: Floats) -> Floats:
    half: Floats = np.where(unsupported > 0, PER_SET / 2 / unsupported.sum(), PER_SET / 2 / (1 - unsupported).sum())
    return half


def support(rows: Floats, weights: Floats, bias: float) -> Floats:
    """As `lexical` has it: a claim with something unstated is at most `lexical.UNSTATED`."""
    found: Floats = 1 / (1 + np.exp(bias + rows @ weights))
    return np.where(rows[:, UNSTATED] > 0, np.minimum(found, lexical.UNSTATED), found)


def constant(written: Measured, weights: Floats) -> float:
    """The constant with which so many of the supported claims that state nothing unheard are doubted."""
    rows = written.rows[written.unsupported == 0]
    return float(-np.quantile(rows @ weights, 1 - DOUBTED))


def developed(sets: Mapping[str, Measured]) -> dict[str, Measured]:
    """What is fitted on: of RAGTruth the sources that are not held out."""
    return {
        name: sets[name].part(not is_held_out(source) for source in sets[name].sources)
        if name.startswith("ragtruth")
        else sets[name]
        for name in TRAINED_ON
        if name in sets
    }


def judge(sets: Mapping[str, Measured]) -> Iterator[tuple[str, Measured, Floats, Floats]]:
    """Of each open and sealed set its claims, and their support as shipped and by weights of the other sets."""
    for name in (*OPEN, *SEALED):
        if name not in sets:
            continue
        family = name.partition("-")[0]
        others = [each for key, each in developed(sets).items() if key.partition("-")[0] != family]
        weights = fit(others)
        tested = sets[name].part(map(is_held_out, sets[name].sources)) if name == "ragtruth-qa" else sets[name]
        shipped = support(tested.rows, np.array(lexical.WEIGHTS), lexical.BIAS)
        yield name, tested, shipped, support(tested.rows, weights, lexical.BIAS)


def main(arguments: Sequence[str]) -> None:
    """Print weights and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=int, help="of each set, at most")
    given = parser.parse_args(arguments)
    sets = {}
    for name in (*TRAINED_ON, *SEALED):
        try:
            sets[name] = read_set(name, given.claims)
        except (FileNotFoundError, ValueError):
            print(f"{name}: not in {DATA}; set RAGTRACE_BENCH_DATA")
    train = developed(sets)
    weights = fit(list(train.values()))
    bias = constant(train["handwritten"], weights)
    print(f"WEIGHTS = {tuple(round(float(weight), 2) for weight in weights)}; BIAS = {bias:.2f}")
    for name, tested, shipped, left_out in judge(sets):
        truth = 1 - tested.unsupported
        less, low, high = paired(truth, tested.sources, left_out, shipped)
        print(f"{name:22} {len(truth):5} claims, {int(tested.unsupported.sum()):4} unsupported: "
              f"left out {auroc(truth, left_out):.3f}, shipped {auroc(truth, shipped):.3f} "
              f"({less:+.3f}, {low:+.3f} to {high:+.3f}); below 0.5: {(shipped < 0.5)[truth > 0].mean():.0%} of the "
              f"supported, {(shipped < 0.5)[truth == 0].mean():.0%} of the unsupported")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
