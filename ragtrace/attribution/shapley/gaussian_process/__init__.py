"""Shapley values under a Gaussian process over games: which pairs to evaluate, and what follows from them."""

from ragtrace.attribution.shapley.gaussian_process.estimator import GaussianProcess

__all__ = ["GaussianProcess"]
