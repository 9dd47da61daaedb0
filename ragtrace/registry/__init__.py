"""The metric registry: every metric's name, unit, labels, buckets, owner and objective, authored in `metrics/`.

`ragtrace.registry.instruments` holds the values (generated), this package's face holds their types.
"""

from __future__ import annotations

from ragtrace.registry.types import (
    UNIT_NAMES,
    AnalysisKind,
    GateRule,
    Instrument,
    Kind,
    Objective,
    RefusalGate,
    StageGate,
    StageInfo,
)

__all__ = [
    "UNIT_NAMES",
    "AnalysisKind",
    "GateRule",
    "Instrument",
    "Kind",
    "Objective",
    "RefusalGate",
    "StageGate",
    "StageInfo",
]
