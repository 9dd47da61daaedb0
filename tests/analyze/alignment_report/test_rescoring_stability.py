"""How estimates settle as their budget grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze.alignment_report._rescoring import Skipped, curves, settling_of
from tests.analyze.alignment_report.explained import GENERATOR, request
from tests.analyze.engines import AdditiveGenerator


@dataclass
class RuggedGenerator:
    """A game without structure: the value of each prompt is a number drawn by its text."""

    name: str = "rugged"
    kind: str = "causal_lm"
    revision: str | None = None
    device: str = "cpu"
    prompts: list[str] = field(default_factory=list)

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """One number for each of two tokens."""
        self.prompts += prompts
        seeds = [[ord(letter) for letter in prompt] for prompt in prompts]
        return np.array([np.random.default_rng(seed).normal(size=2) for seed in seeds])

    def answer_places(self, prompt: str, answer: str) -> Sequence[tuple[int, int]]:
        """Where they stand."""
        return [(0, 2), (3, 5)]


def test_budgets_double_up_to_the_exact_values_and_no_prompt_is_scored_twice() -> None:
    """2k, 4k ... below 2^k, for each estimator, out of the 2^k prompts."""
    generator = RuggedGenerator()
    found = settling_of([request("r", "abcdef")], generator, most=64, skipped=Skipped())

    assert [(each.method, each.budget) for each in found] == [
        ("gp", 12), ("gp", 24), ("gp", 48), ("pmcshap", 12), ("pmcshap", 24), ("pmcshap", 48),
    ]  # fmt: skip
    assert all(each.exact_reference for each in found)
    assert len(generator.prompts) == len(set(generator.prompts)) == 64


def test_a_game_without_structure_settles_late() -> None:
    """Errors shrink with the budget; rankings come to agree."""
    records = [request(f"r{at}", "abcdefg") for at in range(12)]
    texts = [f"{at}" for at in range(12)]
    changed = [request(record.request_id, "abcdefg", f"{text} {{chunk:a}} {{chunk:b}} {{chunk:c}} {{chunk:d}} "
               "{chunk:e} {chunk:f} {chunk:g}") for record, text in zip(records, texts, strict=True)]  # fmt: skip
    for curve in curves(settling_of(changed, RuggedGenerator(), most=128, skipped=Skipped()), "rugged"):
        first, last = curve.points[0], curve.points[-1]
        assert (curve.k, curve.requests, first.budget, last.budget) == (7, 12, 14, 112)
        assert first.ranking.mean < last.ranking.mean
        assert first.warg_error.mean > last.warg_error.mean
        assert last.first.mean > 0.6


def test_an_additive_game_is_settled_at_once() -> None:
    """The least budget gives the ranking."""
    found = settling_of(
        [request("r", "abcdef")], AdditiveGenerator(GENERATOR.worth), most=64, skipped=Skipped(), methods=("gp",)
    )

    assert [(each.ranking, each.first, each.warg_error) for each in found] == [(1.0, True, 0.0)] * 3


def test_too_many_documents_are_compared_with_the_largest_budget() -> None:
    """Which is said, since it flatters; no more prompts are scored than the methods may."""
    generator = AdditiveGenerator(GENERATOR.worth)
    found = settling_of([request("r", "abcdefghij")], generator, most=100, skipped=Skipped(), methods=("gp",))

    assert [(each.budget, each.exact_reference) for each in found] == [(20, False), (40, False)]
    assert len(generator.prompts) <= 100


def test_only_equal_numbers_of_documents_are_put_together() -> None:
    """A curve for each k, weighted by the inverse of the sampling probability."""
    records = [request("r1", "abcd"), request("r2", "abcdef", head_probability=0.5)]
    settlings = settling_of(records, AdditiveGenerator(GENERATOR.worth), most=64, skipped=Skipped(), methods=("gp",))

    assert [(curve.k, curve.requests) for curve in curves(settlings, "m")] == [(4, 1), (6, 1)]
    assert {each.weight for each in settlings if each.k == 6} == {2.0}


@pytest.mark.parametrize(
    ("documents", "reason"),
    [("a", "a single document has only one order"), ("ab", "2 documents leave no budget between 4 prompts")],
)
def test_few_documents_have_no_curve(documents: str, reason: str) -> None:
    """The reason is counted."""
    skipped = Skipped()

    assert settling_of([request("r", documents)], AdditiveGenerator({}), most=64, skipped=skipped) == []
    assert [each.startswith(reason) for each in skipped.reasons] == [True]
    assert curves([], "m") == []


def test_a_document_that_ties_with_the_first_is_the_first() -> None:
    """Two documents stand in for one another: which of them is ahead by the last digits says nothing."""

    class Twins(RuggedGenerator):
        """What a and f say counts once; other documents only in the last digits."""

        def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
            there = [[float("The text a" in prompt or "The text f" in prompt)] for prompt in prompts]
            found: NDArray[np.float64] = 5 * np.array(there) + 1e-5 * super().score(prompts, answer)
            return found

    template = " ".join(f"{{chunk:{name}}}" for name in "abcdef")
    records = [request(f"r{at}", "abcdef", f"{at} {template}") for at in range(8)]
    found = settling_of(records, Twins(), most=64, skipped=Skipped(), methods=("gp",))
    assert len(found) == 24
    assert all(each.first for each in found)
