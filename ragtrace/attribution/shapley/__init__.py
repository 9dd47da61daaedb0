"""Shapley values of games with vector values: one entry, several estimators over the same log of coalitions."""

from ragtrace.attribution.shapley._estimation import Method, SettingValue, default_budget, known_values, shapley_values
from ragtrace.attribution.shapley._values import ShapleyValues

__all__ = ["Method", "SettingValue", "ShapleyValues", "default_budget", "known_values", "shapley_values"]
