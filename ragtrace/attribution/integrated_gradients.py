"""Integrated Gradients over token embeddings, with the quadrature of their integral, and the plain gradients to compare
with.

No model: only a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.errors import AttributionError
from ragtrace.numeric import is_integer, is_real, real_array

__all__ = [
    "MAX_NODES",
    "Attribution",
    "Rule",
    "graded",
    "gradient",
    "gradient_times_input",
    "integrated_gradients",
    "integrated_gradients_of_many",
    "quadrature",
    "refined",
]

Rule: TypeAlias = Literal["midpoint", "gauss-legendre", "gregory", "trapezoid", "right"]
Floats: TypeAlias = NDArray[np.float64]

MAX_NODES: Final = 256
_GATHERED: Final = 0.4
_END_CORRECTIONS: Final = (-1 / 12, -1 / 24)  # Gregory's coefficients of the first and second differences
_WITH_ENDS: Final = ("trapezoid", "gregory")
_GRADING: Final = 8
Array: TypeAlias = NDArray[Any]
ValueAndGrad: TypeAlias = Callable[[Array], tuple[ArrayLike, ArrayLike]]
"""Takes `(n, n_tokens, dimension)` points, returns their values `(n,)` and gradients of the points' shape."""
ValueAndGradOfMany: TypeAlias = Callable[[Array, NDArray[np.intp]], tuple[ArrayLike, ArrayLike]]
"""The same with `(n,)` indices that say whose points they are; shorter inputs are padded with zeros at their end."""
ValueOfMany: TypeAlias = Callable[[Array, NDArray[np.intp]], ArrayLike]
_SMALLEST_DELTA: Final = 1e-4
_ELEMENTS_PER_CALL: Final = 1 << 24
_STEEP: Final = 10  # times the median of a path's gradients
_NO_GRADIENTS: Final = np.zeros((0, 0, 0))
"""What a function of values alone returns beside them."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """What each token adds to a score.

    values: `(n_tokens,)`. completeness_delta: their sum less s(x) - s(x0), 0 when exact. n_evaluations: gradients.
    """

    values: NDArray[np.float64]
    completeness_delta: float
    n_evaluations: int


def integrated_gradients(
    value_and_grad: ValueAndGrad,
    inputs: ArrayLike,
    baseline: ArrayLike,
    *,
    n_steps: int = 16,
    rule: Rule = "midpoint",
    tolerance: float | None = 0.005,
) -> Attribution:
    """β_i = Σ_dim (x_i - x0_i) ∫ ∂s/∂x_i along the line from `baseline` to `inputs`, both `(n_tokens, dimension)`.

    n_steps: nodes of the integral. rule: see `quadrature`. tolerance: the nodes are doubled, at most to 256, until
    |Σβ - (s(x) - s(x0))| <= max(tolerance · |s(x) - s(x0)|, 1e-4); a path from zero that is not within it then, and has
    by far its largest gradients there, is integrated once more by 256 nodes that crowd there, and the better of both is
    kept. None: neither. No point is asked twice.

    Raises: AttributionError for shapes, rules or tolerances that do not fit, and for values that are not finite.
    Source: Sundararajan, Taly and Yan (2017); RAG-E, §3.1, whose weights of 1/L for L + 1 terms are `right` mended.
    """
    (found,) = integrated_gradients_of_many(
        lambda points, _: value_and_grad(points), [inputs], [baseline], n_steps=n_steps, rule=rule, tolerance=tolerance
    )
    return found


def integrated_gradients_of_many(
    value_and_grad: ValueAndGradOfMany,
    inputs: Sequence[ArrayLike],
    baselines: Sequence[ArrayLike],
    *,
    n_steps: int = 16,
    rule: Rule = "midpoint",
    tolerance: float | None = 0.005,
    value: ValueOfMany | None = None,
) -> list[Attribution]:
    """`integrated_gradients` of several inputs, whose nodes are evaluated together; only those off tolerance go on.

    value: the scores without their gradients, for the two ends of each path; else `value_and_grad` is asked for them.

    Raises: as `integrated_gradients`.
    """
    if tolerance is not None and not (is_real(tolerance) and tolerance > 0):
        raise AttributionError(f"tolerance is {tolerance!r}; give a positive number, or None to accept any error")
    if len(inputs) != len(baselines):
        raise AttributionError(f"{len(inputs)} inputs and {len(baselines)} baselines; give one baseline for each input")
    paths = [_Path(number, *_checked(x, x0)) for number, (x, x0) in enumerate(zip(inputs, baselines, strict=True))]
    dimensions = sorted({path.inputs.shape[1] for path in paths})
    if len(dimensions) > 1:
        raise AttributionError(f"inputs of dimensions {dimensions}; give those of one model")
    pending, n = paths, n_steps
    while pending:
        nodes, weights = quadrature(rule, n)
        ends = [0.0, 1.0] if value is None else []
        _evaluate(value_and_grad, [(path, node) for path in pending for node in path.unseen([*nodes, *ends])])
        if value is not None:
            _evaluate(_without_gradient(value), [(path, end) for path in pending for end in path.unseen([0.0, 1.0])])
        for path in pending:
            path.integrate(nodes, weights)
        pending = [] if tolerance is None else [path for path in pending if not path.settled(tolerance)]
        finer = refined(rule, n)
        if finer is None:
            break
        n = finer
    for path in pending:
        if path.turns_at_zero:
            _integrate_at_baseline(value_and_grad, path)
    return [path.attribution() for path in paths]


def gradient(value_and_grad: ValueAndGrad, inputs: ArrayLike) -> NDArray[np.float64]:
    """The Euclidean norm of each token's gradient at the input: `(n_tokens,)`, not negative.

    Raises: as `integrated_gradients`.
    """
    return np.asarray(np.linalg.norm(_gradient_at(value_and_grad, inputs), axis=-1))


def gradient_times_input(value_and_grad: ValueAndGrad, inputs: ArrayLike) -> NDArray[np.float64]:
    """The product of each token's gradient with its embedding: `(n_tokens,)`; may be negative.

    Raises: as `integrated_gradients`.
    """
    return np.asarray((_gradient_at(value_and_grad, inputs) * np.asarray(inputs)).sum(axis=-1))


def _gradient_at(value_and_grad: ValueAndGrad, inputs: ArrayLike) -> NDArray[np.float64]:
    x, _ = _checked(inputs, inputs)
    path = _Path(0, x, x)
    _, gradients = _asked(lambda points, _: value_and_grad(points), x[None], [(path, 1.0)])
    return np.asarray(gradients[0], dtype=np.float64)


@dataclass(slots=True)
class _Path:
    """The line from a baseline to an input, and what is known at its points: value, and slope per token."""

    number: int
    inputs: Array
    baseline: Array
    values: dict[float, float] = field(default_factory=dict)
    slopes: dict[float, NDArray[np.float64]] = field(default_factory=dict)
    tokens: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def difference(self) -> float:
        return self.values[1.0] - self.values[0.0]

    def delta(self, tokens: NDArray[np.float64]) -> float:
        return float(tokens.sum()) - self.difference

    def distance(self, tokens: NDArray[np.float64]) -> float:
        return abs(self.delta(tokens))

    def unseen(self, nodes: Sequence[float]) -> list[float]:
        return [float(node) for node in dict.fromkeys(nodes) if float(node) not in self.values]

    def point(self, at: float) -> Array:
        """Exact at both ends."""
        mixed: Array = (1 - at) * self.baseline + at * self.inputs
        return mixed.astype(self.inputs.dtype, copy=False)

    def integrate(self, nodes: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        self.tokens = weights @ np.stack([self.slopes[float(node)] for node in nodes])

    @property
    def turns_at_zero(self) -> bool:
        """Whether it begins at zero and gradients all but diverge there, as in models that normalize embeddings."""
        if self.baseline[(self.inputs != self.baseline).any(axis=1)].any():
            return False
        sizes = {at: float(np.abs(slopes).sum()) for at, slopes in self.slopes.items()}
        return sizes[min(sizes)] > _STEEP * float(np.median(list(sizes.values())))

    def settled(self, tolerance: float) -> bool:
        return self.distance(self.tokens) <= max(tolerance * abs(self.difference), _SMALLEST_DELTA)

    def attribution(self) -> Attribution:
        return Attribution(self.tokens, self.delta(self.tokens), len(self.slopes))


def _integrate_at_baseline(value_and_grad: ValueAndGradOfMany, path: _Path) -> None:
    """Once more, by nodes that crowd there; keeps what adds up better."""
    before, (nodes, weights) = path.tokens, graded()
    try:
        _evaluate(value_and_grad, [(path, node) for node in path.unseen(nodes.tolist())])
    except AttributionError:
        return  # so close to the baseline some models have no finite gradient: what there is has a delta that tells
    path.integrate(nodes, weights)
    path.tokens = min(before, path.tokens, key=path.distance)


def _without_gradient(value: ValueOfMany) -> ValueAndGradOfMany:
    return lambda points, owners: (value(points, owners), _NO_GRADIENTS)


def _evaluate(function: ValueAndGradOfMany, asked: list[tuple[_Path, float]]) -> None:
    """Ask for the points in calls of bounded size, and note what comes back with the paths."""
    for part in _parts(asked):
        points = np.zeros((len(part), max(len(path.inputs) for path, _ in part), part[0][0].inputs.shape[1]))
        points = points.astype(part[0][0].inputs.dtype)
        for row, (path, at) in enumerate(part):
            points[row, : len(path.inputs)] = path.point(at)
        values, gradients = _asked(function, points, part)
        for row, (path, at) in enumerate(part):
            path.values[at] = float(values[row])
            if len(gradients):
                step = path.inputs.astype(np.float64) - path.baseline
                path.slopes[at] = np.einsum("td,td->t", gradients[row, : len(step)], step)


def _asked(
    function: ValueAndGradOfMany, points: Array, part: list[tuple[_Path, float]]
) -> tuple[NDArray[np.float64], Array]:
    """Values and gradients of one call, checked; no gradients where the function has none."""
    found, slopes = function(points, np.array([path.number for path, _ in part], dtype=np.intp))
    values, gradients = real_array(found, "what the function returns as values", AttributionError), np.asarray(slopes)
    fits = slopes is _NO_GRADIENTS or (gradients.shape == points.shape and gradients.dtype.kind in "biuf")
    if values.shape != (len(part),) or not fits:
        raise AttributionError(
            f"the function returned values of shape {values.shape} and gradients of {gradients.shape} for points of "
            f"{points.shape}; it must return ({len(part)},) and the points' shape, in real numbers"
        )
    finite = np.isfinite(values) & (np.isfinite(gradients).all(axis=(1, 2)) if len(gradients) else True)
    if not finite.all():
        path, at = part[int(np.argmin(finite))]
        raise AttributionError(
            f"the score or its gradient is not finite for input {path.number} at {at:.3g} of the path; "
            "check the model's precision, or give another baseline"
        )
    return values, gradients


def _parts(asked: list[tuple[_Path, float]]) -> Iterator[list[tuple[_Path, float]]]:
    """Neighbors, in lists whose padded points stay within a fixed memory."""
    part: list[tuple[_Path, float]] = []
    largest = 0
    for path, at in asked:
        largest = max(largest, path.inputs.size)
        if part and largest * (len(part) + 1) > _ELEMENTS_PER_CALL:
            yield part
            part, largest = [], path.inputs.size
        part.append((path, at))
    if part:
        yield part


def _checked(inputs: ArrayLike, baseline: ArrayLike) -> tuple[Array, Array]:
    """Both in the precision of the inputs, if that is a floating one."""
    x, x0 = real_array(inputs, "inputs", AttributionError), real_array(baseline, "baseline", AttributionError)
    if x.ndim != 2 or x.shape != x0.shape:
        raise AttributionError(f"inputs {x.shape} and baseline {x0.shape}; give both as (n_tokens, dimension)")
    if not (np.isfinite(x).all() and np.isfinite(x0).all()):
        raise AttributionError("inputs or baseline are not finite; check the model's precision")
    given = np.asarray(inputs).dtype
    precision = given if np.issubdtype(given, np.floating) else np.dtype(np.float64)
    return x.astype(precision, copy=False), x0.astype(precision, copy=False)


def quadrature(rule: Rule, n: int) -> tuple[Floats, Floats]:
    """The `n` nodes of a rule in [0, 1] and their weights, which sum to 1.

    `midpoint`, `right` and `trapezoid` have equal distances; `trapezoid` and `gregory` contain both ends.

    `gregory` gathers its nodes in the middle of the path, where encoders turn from "unknown" to the text (t becomes
    t + 0.4 sin(2πt)/(2π)), and corrects the trapezoid rule at both ends by first and second differences. On MiniLM and
    from `unk` it has a fifth of the error of `midpoint`; not where the turn lies elsewhere
    (docs/explanation/attribution.md).

    Raises: AttributionError for an unknown rule, or less than 1 node (2 with ends), or more than 256.
    """
    if rule not in get_args(Rule):
        raise AttributionError(f"no rule {rule!r}; give one of {', '.join(get_args(Rule))}")
    least = 2 if rule in _WITH_ENDS else 1
    if not is_integer(n) or not least <= n <= MAX_NODES:
        raise AttributionError(f"{n!r} nodes for the {rule} rule; give an integer from {least} to {MAX_NODES}")
    return _RULES[rule](n)


def refined(rule: Rule, n: int) -> int | None:
    """The next number of nodes: half the distance between them. None past the cap of 256."""
    doubled = 2 * n - 1 if rule in _WITH_ENDS else 2 * n
    return doubled if doubled <= MAX_NODES else None


def graded() -> tuple[Floats, Floats]:
    """256 nodes that crowd at the baseline, t = u^8 with Gauss-Legendre nodes u, and their weights.

    For gradients that all but diverge there: a model that normalizes what it is given turns from zero to the text at
    once, within a millionth of the path.
    """
    u, weights = _gauss_legendre(MAX_NODES)
    return u**_GRADING, weights * _GRADING * u ** (_GRADING - 1)


def _midpoint(n: int) -> tuple[Floats, Floats]:
    return (2 * np.arange(n) + 1) / (2 * n), np.full(n, 1 / n)


def _right(n: int) -> tuple[Floats, Floats]:
    return np.arange(1, n + 1) / n, np.full(n, 1 / n)


def _gauss_legendre(n: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1) / 2, weights / 2


def _trapezoid(n: int) -> tuple[Floats, Floats]:
    weights = np.full(n, 1 / (n - 1))
    weights[[0, -1]] /= 2
    return np.arange(n) / (n - 1), weights


def _gregory(n: int) -> tuple[Floats, Floats]:
    t, weights = _trapezoid(n)
    for order, coefficient in enumerate(_END_CORRECTIONS[: n - 1], start=1):
        difference = np.diff(np.eye(n), n=order, axis=0)
        weights = weights + coefficient * (difference[-1] + (-1) ** order * difference[0]) / (n - 1)
    weights = weights * (1 + _GATHERED * np.cos(2 * np.pi * t))
    nodes = t + _GATHERED * np.sin(2 * np.pi * t) / (2 * np.pi)
    nodes[-1] = 1.0
    return nodes, weights / weights.sum()


_RULES: Final[dict[str, Callable[[int], tuple[Floats, Floats]]]] = {
    "midpoint": _midpoint,
    "right": _right,
    "trapezoid": _trapezoid,
    "gauss-legendre": _gauss_legendre,
    "gregory": _gregory,
}
