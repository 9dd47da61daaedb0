"""Shapley values of games with vector values: one entry, several estimators over the same log of coalitions."""

from ragtrace.attribution.shapley._estimation import default_budget, shapley_values
from ragtrace.attribution.shapley._values import ShapleyValues

__all__ = ["ShapleyValues", "default_budget", "shapley_values"]
