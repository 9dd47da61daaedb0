"""The words for verdicts, states and reasons: what a report, an alert, a dashboard and a page call them.

Verdicts and states are closed lists. A reason is one of the eight of `ragtrace.analyze.stages.REASONS`; each has a noun
for what was seen. What would let more be judged stands in `ragtrace.analyze.judgeability`.
"""

from __future__ import annotations

from typing import Final

from ragtrace.types import StageState

__all__ = ["REASONS", "STATES", "VERDICTS", "reason_words"]

VERDICTS: Final[dict[str, str]] = {
    "healthy": "healthy",
    "no_break_found": "no break found",
    "no_retrieval_needed": "no retrieval needed",
    "error": "error",
    "recall_failure": "recall failure",
    "selection_failure": "selection failure",
    "grounding_failure": "grounding failure",
    "citation_failure": "citation failure",
}

STATES: Final[dict[StageState, str]] = {
    "sound": "sound",
    "broken": "broken",
    "suspected": "suspected",
    "not_known": "not known",
}

REASONS: Final[dict[str, str]] = {
    "facet_not_found": "a required fact that no candidate holds",
    "low_match": "words that do not match the question",
    "unsupported": "claims without support in the prompt",
    "contradicted": "claims that the prompt seems to contradict",
    "refused": "an answer that declines",
    "not_recorded": "texts that were not recorded",
    "language": "data, or a language other than English",
    "undecided": "no proof either way",
}
"""Why a stage is suspected or not known, as nouns that fit behind a colon."""

_OF_STAGE: Final = {("ranking", "low_match"): "a better match outside of the prompt"}


def reason_words(reason: str | None, stage: str | None = None) -> str:
    """What was seen, as a noun: `words that do not match the question`. A reason of a later version is spelled out."""
    if reason is None:
        return REASONS["undecided"]
    return _OF_STAGE.get((stage or "", reason)) or REASONS.get(reason) or reason.replace("_", " ")
