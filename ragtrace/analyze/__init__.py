"""From a stored request to its scores and its diagnosis: the analyzer and its worker."""

from __future__ import annotations

from ragtrace.analyze.analysis import analyze_record
from ragtrace.analyze.diagnosis import diagnose
from ragtrace.analyze.policies import flags_of, screen

__all__ = ["analyze_record", "diagnose", "flags_of", "screen"]
