"""Integrated Gradients of models that turn at once from zero, since they normalize embeddings."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from ragtrace.attribution import Rule, integrated_gradients
from ragtrace.attribution.integrated_gradients import Array

RULES: tuple[Rule, ...] = get_args(Rule)


def normalizing(points: Array) -> tuple[Array, Array]:
    """A score of RMS-normalized embeddings: from zero on it turns at once, by a gradient of 1e6."""
    weights = np.array([[2.0, -1.0], [0.5, 3.0]])
    squares = (points**2).sum(axis=-1, keepdims=True) + 1e-12
    along = (points * weights).sum(axis=-1, keepdims=True)
    gradients = weights / np.sqrt(squares) - along * points / squares**1.5
    return (along / np.sqrt(squares)).sum(axis=(1, 2)), gradients


@pytest.mark.parametrize("rule", RULES)
def test_a_path_that_turns_at_its_beginning(rule: Rule) -> None:
    """No 256 nodes of a rule see it; those that crowd at the baseline do, and give each token its own."""
    x = np.array([[1.0, 2.0], [-1.5, 0.5]])
    plain = integrated_gradients(normalizing, x, 0 * x, rule=rule, n_steps=256, tolerance=None)
    assert abs(plain.completeness_delta) > 0.4
    found = integrated_gradients(normalizing, x, 0 * x, rule=rule)
    exact = [0, 0.75 / np.sqrt(2.5)]
    np.testing.assert_allclose(found.values, exact, atol=1e-3)
    assert abs(found.completeness_delta) < 1e-3


def test_other_baselines_end_at_the_cap() -> None:
    """A path that does not begin at zero has no more nodes, however steep it begins."""

    def shifted(points: Array) -> tuple[Array, Array]:
        return normalizing(points - 1)

    x = np.array([[1.0, 2.0], [-1.5, 0.5]])
    assert integrated_gradients(shifted, 1 + x, 1 + 0 * x).n_evaluations == 496 + 2
    assert integrated_gradients(normalizing, x, 0 * x).n_evaluations == 496 + 256 + 2


def test_a_beginning_without_gradients() -> None:
    """Where there are no finite ones so close to the baseline, what the rule has found stays, with its delta."""
    x = np.array([[1.0, 2.0], [-1.5, 0.5]])

    def fragile(points: Array) -> tuple[Array, Array]:
        score, gradients = normalizing(points)
        largest = np.abs(points).max(axis=(1, 2), keepdims=True)
        return score, np.where((largest > 0) & (largest < 1e-9), np.nan, gradients)

    plain = integrated_gradients(fragile, x, 0 * x, n_steps=256, tolerance=None)
    found = integrated_gradients(fragile, x, 0 * x)
    np.testing.assert_array_equal(found.values, plain.values)
    assert found.completeness_delta == plain.completeness_delta
