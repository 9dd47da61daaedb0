"""The simulations of `bench/gate.py` in short, on synthetic requests and with fixed seeds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from bench.gate import DESIGNS, Design, Source, announced, equal_versions, small_segment
from ragtrace.gate.types import Policy
from tests.gate.populations import RULES, traffic

RUNS = 30


@pytest.fixture(scope="module")
def source() -> Source:
    """A thousand requests with twelve metrics."""
    return Source(traffic(1000, 1), Policy(rules=RULES, resamples=200))


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_equal_versions_are_seldom_blocked(source: Source, design: Design) -> None:
    """No more blocks than a share of alpha has in 999 of 1,000 such simulations."""
    small = replace(design, size=min(design.size, 400))
    found = Counter(equal_versions(source, small, seed) for seed in range(RUNS))
    assert found["block"] <= stats.binom.ppf(0.999, RUNS, source.policy.alpha)
    assert found.total() == RUNS


@pytest.mark.parametrize("paired", [True, False])
def test_the_announced_size_finds_the_margin(source: Source, paired: bool) -> None:
    """At least as often as a power of 0.8 has in 999 of 1,000 such simulations. Two metrics, to be quick."""
    rules = tuple(rule for rule in RULES if rule.metric in ("answer_coverage", "evidence_presence"))
    few = Source(source.population, Policy(rules=rules, resamples=200))
    results = [announced(few, "answer_coverage", paired, seed) for seed in range(20)]
    hits = sum(found is not None and found[1] for found in results)
    assert hits >= stats.binom.ppf(0.001, 20, 0.8)


def test_a_small_segment_is_not_hidden(source: Source) -> None:
    """A twentieth of the requests loses ten points while the mean over all improves."""
    results = [small_segment(source, 2000, seed) for seed in range(20)]
    assert np.mean([better for better, _ in results]) >= 0.9
    assert sum(hit for _, hit in results) >= stats.binom.ppf(0.001, 20, 0.9)
