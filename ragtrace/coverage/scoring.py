"""An answer scored against chunks, on its own: no record, no store."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrace.coverage.answer import judge_claims
from ragtrace.coverage.claims import is_abstention
from ragtrace.coverage.text import is_english
from ragtrace.coverage.verifier import JudgedAnswer, Verifier, verify_answers
from ragtrace.types import Claim, PackedChunk, replace

__all__ = ["score_answer", "undetermined"]


def score_answer(
    answer: str, chunks: Sequence[str], *, query: str | None = None, verifier: Verifier | None = None
) -> list[Claim]:
    """The claims of `answer`, each with its support by `chunks`.

    Args:
        answer: as the model wrote it, citations and Markdown included.
        chunks: the texts in the order of the prompt; the first is chunk "1", as the citation [1] names it.
        query: the question; its words are not held against a claim.
        verifier: a model for layer 2, such as `ragtrace.engines.verifier.EntailmentVerifier`; without one, words alone
            decide.

    Returns:
        For each sentence `start`, `end` (`answer[start:end]` is its `text`), `factual`, `support` and `contradiction`
        in [0, 1], `supports` and `contradictions` by chunk, `citations`, `best_chunk`. Claims that state nothing have
        neither support nor contradiction; nor has any claim where they cannot be told, and `reason` says why:
        `abstained` (the answer declines), `no_evidence_text` (no chunk has a text), `language` (the answer or all
        chunks are not English, and no verifier is given).
    """
    packed = tuple(
        PackedChunk(chunk_id=str(place), position=place, text=text) for place, text in enumerate(chunks, start=1)
    )
    claims, supports = judge_claims(answer, packed, query=query)
    reason = undetermined(answer, chunks)
    if reason and not (reason == "language" and verifier is not None):
        return [
            replace(
                claim, support=None, contradiction=None, best_chunk=None, supports={}, contradictions={}, reason=reason
            )
            for claim in claims
        ]
    if verifier is not None:
        claims = verify_answers([JudgedAnswer(claims, supports, packed)], verifier)[0].claims
    return list(claims)


def undetermined(answer: str, chunks: Sequence[str]) -> str | None:
    """Why words cannot tell whether `chunks` support `answer`: abstained, language or no_evidence_text; else None."""
    if is_abstention(answer):
        return "abstained"
    texts = [text for text in chunks if text.strip()]
    if not texts:
        return "no_evidence_text"
    return None if is_english(answer) and any(map(is_english, texts)) else "language"
