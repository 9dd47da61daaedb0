"""From a stored request to its scores and its diagnosis: the analyzer and its worker."""

from __future__ import annotations

from ragtrace.analyze.analysis import ServiceView, analyze_record, examine, flags_of, judge_id, screen
from ragtrace.analyze.diagnosis import diagnose

__all__ = ["ServiceView", "analyze_record", "diagnose", "examine", "flags_of", "judge_id", "screen"]
