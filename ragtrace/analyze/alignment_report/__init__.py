"""The paper's analyses over a store: failure rates, WARG, its stability, and the words that retrieval goes by."""

from ragtrace.analyze.alignment_report._rates import (
    AgainstChance,
    Group,
    GroupRates,
    PlaceShares,
    Sweep,
    WeightedMean,
    estimated,
)
from ragtrace.analyze.alignment_report._report import AlignmentReport, Basis, alignment_report
from ragtrace.analyze.alignment_report._rescoring import (
    CONDITIONS,
    Skipped,
    StabilityCurve,
    StabilityPoint,
    sampled_records,
    under_condition,
)
from ragtrace.analyze.alignment_report._words import MassShare, Overlap

__all__ = [
    "CONDITIONS",
    "AgainstChance",
    "AlignmentReport",
    "Basis",
    "Group",
    "GroupRates",
    "MassShare",
    "Overlap",
    "PlaceShares",
    "Skipped",
    "StabilityCurve",
    "StabilityPoint",
    "Sweep",
    "WeightedMean",
    "alignment_report",
    "estimated",
    "sampled_records",
    "under_condition",
]
