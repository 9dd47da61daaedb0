"""Agreement of the retriever's ranking with the generator's use of it: WARG, failure modes, and how sure they are.

Everything here is arithmetic on rankings; no model is needed.
"""

from ragtrace.alignment._failures import (
    FlagProbabilities,
    expected_warg_change,
    flag_probabilities,
    noise_distraction,
    normal_draws,
    wasted_retrieval,
)
from ragtrace.alignment._rankings import (
    Ranked,
    Ranking,
    rank_by_score,
    rbo,
    rbo_ext,
    spearman,
    warg,
    warg_adjusted,
    warg_chance,
    warg_floor,
    warg_normalized,
)

__all__ = [
    "FlagProbabilities",
    "Ranked",
    "Ranking",
    "expected_warg_change",
    "flag_probabilities",
    "noise_distraction",
    "normal_draws",
    "rank_by_score",
    "rbo",
    "rbo_ext",
    "spearman",
    "warg",
    "warg_adjusted",
    "warg_chance",
    "warg_floor",
    "warg_normalized",
    "wasted_retrieval",
]
