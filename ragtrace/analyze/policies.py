"""Which requests are kept whatever their sampling: one function for the worker and for the screening in the host."""

from __future__ import annotations

from typing import Final

from ragtrace.analyze.analysis import analyze_record
from ragtrace.coverage import is_abstention
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.types import Analysis, RequestRecord

__all__ = ["flags_of", "screen"]

# Citations are left out: an application that never cites would have every request kept.
_COVERAGES: Final = ("query_coverage", "joint_query_coverage", "evidence_recall", "answer_coverage")


def flags_of(
    record: RequestRecord, analysis: Analysis | None = None, low_score: float | None = None
) -> tuple[str, ...]:
    """The flags that a request earns by what it holds, and by its analysis where there is one.

    `abstention`: the answer declines to answer. `low_retrieval_score`: no candidate has a score of `low_score` or
    more. `low_coverage` and `contradiction`: a metric misses the objective of the registry; a flag keeps a request, it
    blames nobody. What is undefined flags nothing.
    """
    flags = []
    answer = record.generation.answer if record.generation else None
    if answer is not None and is_abstention(answer):
        flags.append("abstention")
    scores = [candidate.score for candidate in record.candidates if candidate.score is not None]
    if low_score is not None and scores and max(scores) < low_score:
        flags.append("low_retrieval_score")
    if analysis is not None:
        if any(_misses(analysis, metric) for metric in _COVERAGES):
            flags.append("low_coverage")
        if _misses(analysis, "contradiction_rate"):
            flags.append("contradiction")
    return tuple(flags)


def _misses(analysis: Analysis, metric: str) -> bool:
    """Whether a score is defined and misses its objective."""
    value, objective = analysis.score(metric), INSTRUMENTS[metric].objective
    return value is not None and objective is not None and not objective.met(value)


def screen(record: RequestRecord, low_score: float | None = None) -> tuple[str, ...]:
    """Whether a request outside the sample is worth keeping; it is analyzed only as far as that is open."""
    return flags_of(record, low_score=low_score) or flags_of(record, analyze_record(record), low_score)
