"""Attribution of scores and answers to tokens and documents: why it was retrieved, what the answer used.

Everything here is arithmetic on functions that somebody else provides; no model is needed.
"""

from ragtrace.attribution._owen import OwenValues, PartitionTree, balanced_tree, owen_values
from ragtrace.attribution._sampling import SparseSurrogate, sparse_surrogate
from ragtrace.attribution.game import CoalitionLog, Game, ShapleyValues
from ragtrace.attribution.integrated_gradients import (
    Attribution,
    Rule,
    gradient,
    gradient_times_input,
    integrated_gradients,
    integrated_gradients_of_many,
)
from ragtrace.attribution.perturbation import (
    Curves,
    Estimate,
    LeftOut,
    aipc,
    aipc_difference,
    area_between,
    leave_one_out,
    perturbation_curves,
    score_drops,
)
from ragtrace.attribution.shapley import Method, default_budget, known_values, shapley_values
from ragtrace.attribution.spans import Span, Unit, WeightedSpan, merged_into_words

__all__ = [
    "Attribution",
    "CoalitionLog",
    "Curves",
    "Estimate",
    "Game",
    "LeftOut",
    "Method",
    "OwenValues",
    "PartitionTree",
    "Rule",
    "ShapleyValues",
    "Span",
    "SparseSurrogate",
    "Unit",
    "WeightedSpan",
    "aipc",
    "aipc_difference",
    "area_between",
    "balanced_tree",
    "default_budget",
    "gradient",
    "gradient_times_input",
    "integrated_gradients",
    "integrated_gradients_of_many",
    "known_values",
    "leave_one_out",
    "merged_into_words",
    "owen_values",
    "perturbation_curves",
    "score_drops",
    "shapley_values",
    "sparse_surrogate",
]
