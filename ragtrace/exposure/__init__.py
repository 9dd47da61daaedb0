"""Fair exposure: whose documents are retrieved, whose are used, and what another ranking would have shown.

Everything here is arithmetic on rankings; no model is needed.
"""

from ragtrace.exposure._measures import (
    Measure,
    attributed_exposure,
    attribution_rate,
    disparity,
    expected_utility,
    exposure,
    group_sums,
    relevance,
    target_exposure,
)
from ragtrace.exposure._plackett_luce import (
    FEWEST_EFFECTIVE,
    LARGEST_ALPHA,
    Reweighted,
    check_alpha,
    inclusion_probabilities,
    log_probability,
    plackett_luce_logits,
    propensity_weight,
    reweighted_mean,
    sample_rankings,
    seed_of,
)
from ragtrace.exposure._tradeoff import (
    UTILITIES,
    Curve,
    IntervalDifference,
    disparity_curve,
    exact_match,
    interval_differences,
    rouge_l,
    token_f1,
)

__all__ = [
    "FEWEST_EFFECTIVE",
    "LARGEST_ALPHA",
    "UTILITIES",
    "Curve",
    "IntervalDifference",
    "Measure",
    "Reweighted",
    "attributed_exposure",
    "attribution_rate",
    "check_alpha",
    "disparity",
    "disparity_curve",
    "exact_match",
    "expected_utility",
    "exposure",
    "group_sums",
    "inclusion_probabilities",
    "interval_differences",
    "log_probability",
    "plackett_luce_logits",
    "propensity_weight",
    "relevance",
    "reweighted_mean",
    "rouge_l",
    "sample_rankings",
    "seed_of",
    "target_exposure",
    "token_f1",
]
