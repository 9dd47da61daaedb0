"""Fits the prior to what was observed: a quasi-Newton search over rho and epsilon with exact gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ragtrace.attribution.shapley.gaussian_process.prior import ADDITIVE, EPSILON, RHO, Array, Prior

__all__ = ["effective_columns", "fitted_prior", "minimized"]

ITERATIONS = 30
_START = float(np.log(RHO / (1 - RHO)))  # logit rho
_RHO_SPREAD, _EPSILON_SPREAD = 1.5, 2.0  # of the normal priors on logit rho and log epsilon
_LIMIT = 16.0  # no parameter beyond: the kernel matrices would lose their rank


def effective_columns(values: Array) -> float:
    """The participation ratio of the columns' covariance: how many independent columns there are, at least 1."""
    scaled = values / _magnitude(values)
    centered = scaled - scaled.mean(axis=0)
    gram = centered @ centered.T
    square = float((gram**2).sum())
    return float(np.trace(gram)) ** 2 / square if square > 0 else 1.0


def fitted_prior(x: Array, odd: Array, even: Array, n_effective: float) -> Prior:
    """The prior under which the odd and even parts `(n, m)`, observed at x `(n, k)`, are most plausible."""
    magnitude = max(_magnitude(odd), _magnitude(even))
    odd, even = odd / magnitude, even / magnitude
    energy = float((odd**2).sum() + (even**2).sum())
    if energy <= 0:
        return Prior(np.full(x.shape[1], RHO), EPSILON)
    likelihood = _Likelihood(x, odd @ odd.T / energy, even @ even.T / energy, n_effective)
    start = np.append(np.full(x.shape[1], _START), np.log(EPSILON))
    return _prior(minimized(likelihood, start, ITERATIONS))


def _magnitude(values: Array) -> float:
    """The power of two at the largest value, by which all can be divided without rounding: squares then stay finite."""
    return float(np.ldexp(1.0, int(np.frexp(np.abs(values).max(initial=0.0))[1]) - 1))


def _prior(parameters: Array) -> Prior:
    """The prior of these (logit rho, log epsilon)."""
    return Prior(1 / (1 + np.exp(-parameters[:-1])), float(np.exp(parameters[-1])))


class _Likelihood:
    """Minus the log posterior of (logit rho, log epsilon), the games' scale profiled out, and its gradient."""

    def __init__(self, x: Array, odd: Array, even: Array, n_effective: float) -> None:
        self.x, self.odd, self.even, self.n_effective = x, odd, even, n_effective
        self.additive = ADDITIVE / x.shape[1] * (x @ x.T)

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """The objective and its gradient; infinite where the kernel matrices are not positive definite."""
        flat = np.zeros_like(parameters)
        if np.abs(parameters).max() > _LIMIT:
            return np.inf, flat
        prior = _prior(parameters)
        sinh, cosh = prior.interactions(self.x, self.x)
        noise = prior.epsilon / 2 * np.eye(len(self.x))
        try:
            odd, odd_determinant = _inverse(self.additive + sinh + noise)
            even, even_determinant = _inverse(ADDITIVE + cosh + noise)
        except np.linalg.LinAlgError:
            return np.inf, flat
        odd_fit, even_fit = odd @ self.odd, even @ self.even
        scale = float(np.trace(odd_fit) + np.trace(even_fit))
        n = 2 * len(self.x)
        value = self.n_effective / 2 * (n * np.log(scale) + odd_determinant + even_determinant)
        by_odd = self.n_effective / 2 * (odd - n / scale * odd_fit @ odd)
        by_even = self.n_effective / 2 * (even - n / scale * even_fit @ even)
        gradient = self._chain(prior, sinh, cosh, by_odd, by_even)
        return value + self._penalty(parameters), gradient + self._penalty_gradient(parameters)

    def _chain(self, prior: Prior, sinh: Array, cosh: Array, by_odd: Array, by_even: Array) -> Array:
        """From the gradient by the kernel matrices to that by the parameters."""
        crossed = ((by_odd * cosh + by_even * sinh) @ self.x * self.x).sum(axis=0)
        by_reach = (crossed - (by_odd * sinh + by_even * cosh).sum()) / 2
        by_rho = by_reach * 2 / (1 - prior.rho**2)
        by_epsilon = (np.trace(by_odd) + np.trace(by_even)) / 2
        return np.append(by_rho * prior.rho * (1 - prior.rho), by_epsilon * prior.epsilon)

    def _penalty(self, parameters: Array) -> float:
        """The normal priors on the parameters."""
        rho, epsilon = (parameters[:-1] - _START) / _RHO_SPREAD, (parameters[-1] - np.log(EPSILON)) / _EPSILON_SPREAD
        return float((rho**2).sum() + epsilon**2) / 2

    def _penalty_gradient(self, parameters: Array) -> Array:
        """The gradient of the penalty."""
        rho, epsilon = parameters[:-1] - _START, parameters[-1] - np.log(EPSILON)
        return np.append(rho / _RHO_SPREAD**2, epsilon / _EPSILON_SPREAD**2)


def _inverse(matrix: Array) -> tuple[Array, float]:
    """The inverse of a positive definite matrix and the logarithm of its determinant."""
    lower = np.linalg.cholesky(matrix)
    root = np.linalg.inv(lower)
    return root.T @ root, 2 * float(np.log(np.diagonal(lower)).sum())


def minimized(objective: Callable[[Array], tuple[float, Array]], start: Array, iterations: int) -> Array:
    """The point that a BFGS search with backtracking reaches; the objective returns its value and its gradient."""
    point, (value, gradient) = start, objective(start)
    inverse = np.eye(len(start)) / max(1.0, float(np.linalg.norm(gradient)))
    for iteration in range(iterations):
        direction = -inverse @ gradient
        slope = float(gradient @ direction)
        if slope > -1e-9:
            break
        step = 1.0
        reached = objective(point + direction)
        while reached[0] > value + 1e-4 * step * slope and step > 1e-6:
            step /= 2
            reached = objective(point + step * direction)
        if not reached[0] < value:
            break
        moved, turned = step * direction, reached[1] - gradient
        curvature = float(moved @ turned)
        if curvature > 1e-12:
            if iteration == 0:
                inverse = np.eye(len(start)) * curvature / float(turned @ turned)
            inverse = _updated(inverse, moved, turned, curvature)
        point, (value, gradient) = point + moved, reached
    return point


def _updated(inverse: Array, moved: Array, turned: Array, curvature: float) -> Array:
    """The BFGS update of the inverse Hessian after a step that turned the gradient."""
    left = np.eye(len(moved)) - np.outer(moved, turned) / curvature
    updated: Array = left @ inverse @ left.T + np.outer(moved, moved) / curvature
    return updated
