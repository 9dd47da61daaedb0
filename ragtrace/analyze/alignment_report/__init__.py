"""The paper's analyses over a store: failure rates, WARG, its stability, and the words that retrieval goes by."""

from ragtrace.analyze.alignment_report._rates import AgainstChance, Group, GroupRates, PlaceShares, Sweep, WeightedMean
from ragtrace.analyze.alignment_report._report import AlignmentReport, Basis, alignment_report
from ragtrace.analyze.alignment_report._rescoring import CONDITIONS, under_condition
from ragtrace.analyze.alignment_report._stability import StabilityCurve, StabilityPoint
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
    "StabilityCurve",
    "StabilityPoint",
    "Sweep",
    "WeightedMean",
    "alignment_report",
    "under_condition",
]
