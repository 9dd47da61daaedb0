"""The scores of an explanation, under the names of the metric registry."""

from __future__ import annotations

from typing import Final

from ragtrace.explanations import Alignment, Explanation
from ragtrace.types import Score

__all__ = ["NO_MODEL", "PERSISTENCE", "completeness_delta", "scores_of"]

NO_MODEL: Final = "no model was given"
"""Why a part is missing for which a worker was given no model."""
PERSISTENCE: Final = 0.9
"""The p of the WARG that is counted; an explanation holds those of all p."""


def scores_of(explanation: Explanation) -> tuple[Score, ...]:
    """WARG with what it is compared with, the two flags, the completeness error, and the cost."""
    generator, words = explanation.generator, explanation.query
    estimates = [each.evaluations for each in (generator, words) if each is not None]
    evaluations = sum(estimates) + sum(each.evaluations for each in explanation.retriever)
    delta = completeness_delta(explanation)
    is_wanted = generator is not None or explanation.skipped.get("generator") not in (None, NO_MODEL)
    return (
        *(_of_alignment(explanation.alignment) if is_wanted else ()),
        *([_score("completeness_delta", delta, "")] if delta is not None else ()),
        _score("attribution_evaluations", evaluations, ""),
        _score("attribution_duration", explanation.seconds, ""),
    )


def completeness_delta(explanation: Explanation) -> float | None:
    """max_d |Σβ - (s(x) - s(x0))|: the largest error of the token attributions; None without any.

    Source: RAG-E, §3.1.
    """
    deltas = [abs(each.completeness_delta or 0.0) for each in explanation.retriever]
    return max(deltas, default=None)


def _of_alignment(found: Alignment | None) -> tuple[Score, ...]:
    names = ("warg_adjusted", "warg", "warg_floor", "warg_chance")
    if found is None:
        return tuple(_score(name, None, "not_explained") for name in (*names, "wasted_retrieval", "noise_distraction"))
    at = found.ps.index(PERSISTENCE)
    series = (found.adjusted, found.warg, found.floor, found.chance)
    return (
        *(_score(name, values[at], "") for name, values in zip(names, series, strict=True)),
        _score("wasted_retrieval", found.wasted_retrieval, "few_documents"),
        _score("noise_distraction", found.noise_distraction, "few_documents"),
    )


def _score(metric: str, value: float | None, reason: str) -> Score:
    return Score(metric=metric, value=None if value is None else float(value), reason=reason if value is None else None)
