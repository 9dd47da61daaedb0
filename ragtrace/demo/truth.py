"""What an injected fault really did to a request, told from the pipeline's own data and never from a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ragtrace.demo.corpus import Question
from ragtrace.demo.pipeline import Outcome
from ragtrace.types import Stage

__all__ = ["Truth", "judge"]

_Standing: TypeAlias = Literal["prompt", "candidates", "nowhere"]


@dataclass(frozen=True, slots=True)
class Truth:
    """`stage`: where the fault broke the request, None where it left it untouched.

    `organic`: the healthy run had lost oracle evidence of this question already.
    """

    stage: Stage | None = None
    organic: bool = False


def judge(question: Question, healthy: Outcome, observed: Outcome) -> Truth:
    """Compare a run with the healthy run of the same question.

    Oracle evidence gone from the candidates: retrieval. Gone between candidates and prompt, its answering sentence
    cut away included: ranking. The answer's text altered with the same prompt: generation.
    """
    before, after = _standing(question.evidence, healthy), _standing(question.evidence, observed)
    lost = [after[chunk_id] for chunk_id in before if before[chunk_id] == "prompt" != after[chunk_id]]
    organic = any(standing != "prompt" for standing in before.values())
    if "nowhere" in lost:
        return Truth("retrieval", organic)
    if "candidates" in lost:
        return Truth("ranking", organic)
    same_prompt = healthy.context == observed.context
    altered = same_prompt and healthy.answer.answer != observed.answer.answer
    return Truth("generation" if altered else None, organic)


def _standing(evidence: Mapping[str, str], outcome: Outcome) -> dict[str, _Standing]:
    """How far each oracle chunk came; in the prompt only counts with the sentence that answers."""
    packed = {chunk.chunk_id: chunk.text for chunk in outcome.context.chunks}
    found = {hit.chunk_id for hit in outcome.hits}

    def standing(chunk_id: str, sentence: str) -> _Standing:
        if sentence in packed.get(chunk_id, ""):
            return "prompt"
        return "candidates" if chunk_id in found else "nowhere"

    return {chunk_id: standing(chunk_id, sentence) for chunk_id, sentence in evidence.items()}
