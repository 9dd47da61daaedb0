"""Nodes and weights of the integration rules."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from ragtrace.attribution.integrated_gradients import MAX_NODES, Rule, graded, quadrature, refined
from ragtrace.errors import AttributionError

RULES: tuple[Rule, ...] = get_args(Rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [2, 3, 16, 256])
def test_a_rule_is_a_mean(rule: Rule, n: int) -> None:
    """`n` different nodes in [0, 1], and weights that sum to 1, so that a constant is integrated exactly."""
    nodes, weights = quadrature(rule, n)
    assert len(set(nodes.tolist())) == len(weights) == n
    assert nodes.min() >= 0
    assert nodes.max() <= 1
    assert weights.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("rule", ["midpoint", "gauss-legendre", "gregory", "trapezoid"])
def test_a_line_is_integrated_exactly(rule: Rule) -> None:
    """By all rules that are symmetric."""
    nodes, weights = quadrature(rule, 9)
    assert weights @ nodes == pytest.approx(0.5, abs=1e-12)


def test_gauss_legendre_is_exact_for_polynomials() -> None:
    """Up to the degree 2n - 1."""
    nodes, weights = quadrature("gauss-legendre", 5)
    assert weights @ nodes**9 == pytest.approx(0.1, abs=1e-12)


def test_graded_nodes_see_what_happens_at_the_beginning() -> None:
    """A turn within a millionth of the path, and what grows with the logarithm of that; lines as well."""
    nodes, weights = graded()
    assert len(set(nodes.tolist())) == len(weights) == MAX_NODES
    assert weights @ nodes == pytest.approx(0.5, abs=1e-12)
    for squared in (1e-6, 1e-12, 1e-16):
        assert weights @ (squared / (nodes**2 + squared) ** 1.5) == pytest.approx(1, abs=1e-6)
        assert weights @ (nodes**2 + squared) ** -0.5 == pytest.approx(np.arcsinh(squared**-0.5), rel=1e-9)


def test_gregory_is_made_for_a_turn_in_the_middle() -> None:
    """Of a path that turns in its middle and goes on sloping it misses a tenth of what the others do."""

    def error(rule: Rule, n: int) -> float:
        nodes, weights = quadrature(rule, n)
        slope = 14 / np.cosh(14 * (nodes - 0.45)) ** 2 + nodes**2
        exact = np.tanh(14 * 0.55) + np.tanh(14 * 0.45) + 1 / 3
        return abs(float(weights @ slope) - float(exact))

    for other in ("midpoint", "gauss-legendre", "trapezoid"):
        assert error("gregory", 20) < 0.1 * error(other, 20)


@pytest.mark.parametrize("rule", ["gregory", "trapezoid", "right"])
def test_refining_keeps_the_nodes(rule: Rule) -> None:
    """So that what is known of them is not computed again."""
    n = refined(rule, 16)
    assert n is not None
    assert set(quadrature(rule, 16)[0].tolist()) <= set(quadrature(rule, n)[0].tolist())


@pytest.mark.parametrize("rule", RULES)
def test_refining_ends(rule: Rule) -> None:
    """At 256 nodes at most."""
    sizes = [16]
    while (n := refined(rule, sizes[-1])) is not None:
        sizes.append(n)
    assert len(sizes) == 5
    assert 240 < sizes[-1] <= MAX_NODES


@pytest.mark.parametrize(
    ("rule", "n", "message"),
    [("simpson", 8, "no rule 'simpson'; give one of midpoint"), ("midpoint", 0, "give an integer from 1 to 256"),
     ("trapezoid", 1, "give an integer from 2 to 256"), ("gregory", 2.5, "2.5 nodes for the gregory rule"),
     ("midpoint", "16", "'16' nodes"), ("midpoint", True, "True nodes"),
     ("right", 257, "257 nodes for the right rule")],
)  # fmt: skip
def test_no_such_rule(rule: Rule, n: int, message: str) -> None:
    """The error says what there is."""
    with pytest.raises(AttributionError, match=message):
        quadrature(rule, n)
