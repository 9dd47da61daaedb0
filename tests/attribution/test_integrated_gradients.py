"""Integrated Gradients of functions whose integral is known."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrace.attribution import (
    Rule,
    gradient,
    gradient_times_input,
    integrated_gradients,
    integrated_gradients_of_many,
)
from ragtrace.errors import AttributionError

RULES: tuple[Rule, ...] = get_args(Rule)
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
X, X0 = RNG.normal(size=(2, 5, 3))
MATRIX = RNG.normal(size=(15, 15))
MATRIX = MATRIX + MATRIX.T


def linear(points: Array) -> tuple[Array, Array]:
    """Each number counts by its place."""
    factors = np.arange(15).reshape(5, 3)
    return (points * factors).sum(axis=(1, 2)), np.broadcast_to(factors, points.shape)


def quadratic(points: Array) -> tuple[Array, Array]:
    """x'Ax, whose integrated gradient is (x - x0)' A (x + x0) part by part."""
    flat = points.reshape(len(points), -1)
    return np.einsum("ni,ij,nj->n", flat, MATRIX, flat), 2 * (flat @ MATRIX).reshape(points.shape)


def steep(points: Array) -> tuple[Array, Array]:
    """A tanh that turns at three quarters of the way from 0 to 1."""
    values = np.tanh(60 * (points.sum(axis=(1, 2)) - 0.77))
    return values, np.broadcast_to((60 * (1 - values**2))[:, None, None], points.shape)


@pytest.mark.parametrize("rule", RULES)
def test_a_linear_function(rule: Rule) -> None:
    """Every rule is exact."""
    found = integrated_gradients(linear, X, X0, rule=rule, n_steps=2)
    np.testing.assert_allclose(found.values, ((X - X0) * np.arange(15).reshape(5, 3)).sum(axis=1), atol=1e-12)
    assert found.completeness_delta == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rule", ["midpoint", "gauss-legendre", "gregory", "trapezoid"])
def test_a_quadratic_function(rule: Rule) -> None:
    """The closed form is met, and the values sum to the difference of the scores."""
    found = integrated_gradients(quadratic, X, X0, rule=rule, tolerance=None)
    expected = ((X - X0) * (MATRIX @ (X + X0).reshape(-1)).reshape(5, 3)).sum(axis=1)
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-9)
    difference = quadratic(X[None])[0][0] - quadratic(X0[None])[0][0]
    assert found.completeness_delta == pytest.approx(found.values.sum() - difference, abs=1e-9)


def test_nodes_are_doubled_until_the_values_add_up() -> None:
    """A steep turn needs more than 16; the delta says what is left."""
    x = np.full((1, 1), 1.0)
    coarse = integrated_gradients(steep, x, 0 * x, tolerance=None)
    fine = integrated_gradients(steep, x, 0 * x, tolerance=0.005)
    assert coarse.n_evaluations == 16 + 2
    assert abs(coarse.completeness_delta) > 0.01
    assert abs(fine.completeness_delta) <= 0.005 * 2
    assert fine.n_evaluations > coarse.n_evaluations


def test_doubling_ends_at_the_cap() -> None:
    """A jump cannot be integrated: 16 + 32 + 64 + 128 + 256 nodes, and a delta that tells."""
    found = integrated_gradients(lambda points: (np.sign(points.sum(axis=(1, 2)) - 0.5), 0 * points), [[1.0]], [[0.0]])
    assert found.n_evaluations == 496 + 2
    assert found.completeness_delta == -2


def test_an_unchanged_score_has_an_absolute_floor() -> None:
    """Where s(x) = s(x0) a relative tolerance would never be met."""
    found = integrated_gradients(lambda p: ((p**2 - p).sum(axis=(1, 2)) * 1e-3, (2 * p - 1) * 1e-3), [[1.0]], [[0.0]])
    assert found.n_evaluations == 16 + 2


@pytest.mark.parametrize("rule", RULES)
def test_no_point_is_evaluated_twice(rule: Rule) -> None:
    """Neither when nodes are doubled, nor at the ends."""
    seen: list[float] = []

    def noted(points: Array) -> tuple[Array, Array]:
        seen.extend(points.reshape(-1).tolist())
        return steep(points)

    found = integrated_gradients(noted, np.ones((1, 1)), np.zeros((1, 1)), rule=rule, tolerance=1e-9)
    assert len(seen) == len(set(seen)) == found.n_evaluations


@given(st.integers(0, 2**31))
def test_dummy_and_symmetry(seed: int) -> None:
    """A token that changes nothing gets nothing, two that are alike get the same, one that stays gets nothing."""
    rng = np.random.default_rng(seed)
    x, x0 = rng.normal(size=(2, 4, 2))
    x[1], x0[1] = x[0], x0[0]
    x0[3] = x[3]

    def function(points: Array) -> tuple[Array, Array]:
        summed = points[:, [0, 1, 3]].sum(axis=1)
        slopes = np.cos(summed)[:, None, :] * np.array([1.0, 1.0, 0.0, 1.0])[None, :, None]
        return np.sin(summed).sum(axis=1), slopes

    values = integrated_gradients(function, x, x0).values
    assert values[0] == pytest.approx(values[1])
    assert values[2] == 0
    assert values[3] == 0


@pytest.mark.parametrize("rule", RULES)
def test_many_are_what_each_is_alone(rule: Rule) -> None:
    """Inputs of different lengths in one call, each with its own need of nodes."""
    scales, lengths = [0.1, 40.0, 3.0], [2, 5, 1]
    inputs = [RNG.normal(size=(n, 3)) for n in lengths]
    baselines = [np.zeros((n, 3)) for n in lengths]

    def function(points: Array, owners: Array) -> tuple[Array, Array]:
        scale = np.array(scales)[owners]
        arguments = scale[:, None, None] * points
        return np.tanh(arguments).sum(axis=(1, 2)), scale[:, None, None] / np.cosh(arguments) ** 2

    def of_one(number: int, points: Array, _: Array) -> tuple[Array, Array]:
        return function(points, np.full(len(points), number))

    together = integrated_gradients_of_many(function, inputs, baselines, rule=rule, tolerance=1e-4)
    for number, found in enumerate(together):
        (alone,) = integrated_gradients_of_many(
            partial(of_one, number),
            inputs[number : number + 1],
            baselines[number : number + 1],
            rule=rule,
            tolerance=1e-4,
        )
        np.testing.assert_allclose(found.values, alone.values, atol=1e-12)
        assert found.n_evaluations == alone.n_evaluations
    assert together[1].n_evaluations > together[0].n_evaluations


def test_the_ends_may_be_valued_without_a_gradient() -> None:
    """Then only the nodes cost a gradient."""
    ends: list[Array] = []

    def value(points: Array, owners: Array) -> Array:
        ends.extend(points)
        return quadratic(points)[0]

    (found,) = integrated_gradients_of_many(lambda points, _: quadratic(points), [X], [X0], tolerance=None, value=value)
    assert found.n_evaluations == 16
    np.testing.assert_array_equal(sorted(map(np.sum, ends)), sorted([X.sum(), X0.sum()]))
    np.testing.assert_allclose(found.values, integrated_gradients(quadratic, X, X0, tolerance=None).values)


def test_large_inputs_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of one call is bounded, and the result the same."""
    monkeypatch.setattr(import_module("ragtrace.attribution.integrated_gradients"), "_ELEMENTS_PER_CALL", 70)
    calls: list[int] = []

    def noted(points: Array) -> tuple[Array, Array]:
        calls.append(len(points))
        return quadratic(points)

    found = integrated_gradients(noted, X, X0, tolerance=None)
    np.testing.assert_allclose(found.values.sum(), (quadratic(X[None])[0] - quadratic(X0[None])[0])[0])
    assert max(calls) * X.size <= 70


def test_no_inputs_and_no_tokens() -> None:
    """Nothing is attributed to nothing."""
    assert integrated_gradients_of_many(lambda points, _: linear(points), [], []) == []
    found = integrated_gradients(lambda p: (np.ones(len(p)), 0 * p), np.zeros((0, 3)), np.zeros((0, 3)))
    assert found.values.shape == (0,)
    assert found.completeness_delta == 0


def test_plain_gradients() -> None:
    """The norm of the slopes, and their product with the input."""
    slopes = np.arange(15).reshape(5, 3)
    np.testing.assert_allclose(gradient(linear, X), np.linalg.norm(slopes, axis=1))
    np.testing.assert_allclose(gradient_times_input(linear, X), (slopes * X).sum(axis=1))


def test_bad_input() -> None:
    """Shapes, tolerances and numbers that cannot be used are named."""
    with pytest.raises(AttributionError, match=r"inputs \(5, 3\) and baseline \(4, 3\)"):
        integrated_gradients(linear, X, X0[:4])
    for tolerance in (0, float("nan"), "0.01", True):
        with pytest.raises(AttributionError, match=f"tolerance is {tolerance!r}; give a positive number"):
            integrated_gradients(linear, X, X0, tolerance=tolerance)  # type: ignore[arg-type]
    for n_steps in (2.5, None):
        with pytest.raises(AttributionError, match=f"{n_steps} nodes for the midpoint rule; give an integer"):
            integrated_gradients(linear, X, X0, n_steps=n_steps)  # type: ignore[arg-type]
    with pytest.raises(AttributionError, match="one baseline for each input"):
        integrated_gradients_of_many(lambda points, _: linear(points), [X], [])
    wide = [np.ones((1, 2)), np.ones((1, 3))]
    with pytest.raises(AttributionError, match=r"inputs of dimensions \[2, 3\]"):
        integrated_gradients_of_many(lambda points, _: linear(points), wide, wide)
    with pytest.raises(AttributionError, match="must return"):
        integrated_gradients(lambda points: (np.zeros(3), points), X, X0)
    with pytest.raises(
        AttributionError, match=r"not finite for input 0 at .* of the path; check the model's precision"
    ):
        integrated_gradients(lambda points: (points.sum(axis=(1, 2)), points * np.nan), X, X0)


@pytest.mark.parametrize("gradients", [None, 1j, "a"])
def test_gradients_are_real_numbers(gradients: object) -> None:
    """None at all is an error, too."""
    with pytest.raises(AttributionError, match="the points' shape, in real numbers"):
        integrated_gradients(lambda points: (np.zeros(len(points)), _filled(points, gradients)), X, X0)


def _filled(points: np.ndarray, gradients: object) -> Any:
    return None if gradients is None else np.full(points.shape, gradients)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (X * np.nan, "inputs or baseline are not finite"),
        (X + np.inf, "inputs or baseline are not finite"),
        (X * 1j, "must be an array of real numbers"),
        ("text", "must be an array of real numbers"),
    ],
)
def test_inputs_are_finite_numbers(odd: Any, message: str) -> None:
    """Also where the function does not mind: the values would be undefined."""

    def constant(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(points)), np.zeros(points.shape)

    for inputs, baseline in ((odd, X0), (X, odd)):
        with pytest.raises(AttributionError, match=message):
            integrated_gradients(constant, inputs, baseline)


@pytest.mark.parametrize("precision", [np.float16, np.float32, np.float64])
def test_points_have_the_precision_of_the_inputs(precision: type[np.floating]) -> None:
    """Integers become float64."""
    seen: list[np.dtype[Any]] = []

    def noted(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen.append(points.dtype)
        return linear(points)

    integrated_gradients(noted, X.astype(precision), X0)
    integrated_gradients(noted, np.ones((5, 3), dtype=int), X0)
    assert set(seen) == {np.dtype(precision), np.dtype(np.float64)}
