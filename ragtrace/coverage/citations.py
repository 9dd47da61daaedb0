"""Citations: the marks in an answer, the packed chunks that they name, and how well the claims are cited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragtrace.coverage.thresholds import SUPPORTED
from ragtrace.types import Citation, Claim, PackedChunk

__all__ = [
    "citation_coverage",
    "citation_precision",
    "citation_recall",
    "dangling_citations",
    "find_citations",
    "without_citations",
]

_NUMBERS: Final = r"\d{1,3}(?:\s*[-–]\s*\d{1,3})?(?:\s*[,;]\s*\d{1,3}(?:\s*[-–]\s*\d{1,3})?)*"
_MARK: Final = re.compile(
    rf"""\[\^?(?P<plain>{_NUMBERS})\]
    | [(\[](?:see\s+)?(?:documents?|docs?|sources?|passages?|chunks?|refs?)\.?\s*:?\s*(?P<named>{_NUMBERS})[)\]]
    | 【(?P<wide>\d{{1,3}})(?:[†:][^】\n]*)?】
    | \[(?P<id>[^\]\s]{{2,128}})\]""",
    re.IGNORECASE | re.VERBOSE,
)


def find_citations(answer: str, packed: Sequence[PackedChunk]) -> tuple[Citation, ...]:
    """Citations in `answer` in order: [1], [1,3-5], (Document 5), 【3†source】, [^2], [chunk-id].

    A number names the chunk at that place of the prompt, the first being 1. A mark that names no packed chunk is
    dangling: its `chunk_id` is None. A bracketed word that is no chunk id is no citation.
    """
    by_place = {str(place): chunk.chunk_id for place, chunk in enumerate(packed, start=1)}
    ids = {chunk.chunk_id for chunk in packed}
    found: list[Citation] = []
    for match in _MARK.finditer(answer):
        if name := match.group("id"):
            targets: list[str | None] = [name] if name in ids else []
        else:
            numbers = _numbers(match.group("plain") or match.group("named") or match.group("wide"))
            targets = [by_place.get(number) for number in numbers if number != "0"]
        for target in targets:
            found.append(Citation(marker=match.group(), chunk_id=target, start=match.start(), end=match.end()))
    return tuple(found)


def without_citations(text: str) -> str:
    """`text` with its citation marks blanked out, every other character in its place."""
    return _MARK.sub(lambda match: " " * len(match.group()) if not match.group("id") else match.group(), text)


def citation_coverage(claims: Sequence[Claim]) -> float | None:
    """CC = |{s factual: s is cited}| / |{s factual}|, in [0, 1]; None without factual claims.

    A dangling citation cites nothing. Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval
    Coverage Metrics", §3.
    """
    factual = [claim for claim in claims if claim.factual]
    cited = [claim for claim in factual if any(citation.chunk_id for citation in claim.citations)]
    return len(cited) / len(factual) if factual else None


def citation_precision(claims: Sequence[Claim], supports: Sequence[dict[str, float]]) -> float | None:
    """Share of the resolved citations whose chunk supports its claim; None without citations.

    supports: for each claim, chunk id -> support in [0, 1].
    """
    marks = [
        support.get(citation.chunk_id, 0.0) >= SUPPORTED
        for claim, support in zip(claims, supports, strict=True)
        if claim.factual
        for citation in claim.citations
        if citation.chunk_id
    ]
    return sum(marks) / len(marks) if marks else None


def citation_recall(claims: Sequence[Claim], supports: Sequence[dict[str, float]]) -> float | None:
    """Share of the supported factual claims that cite a chunk which supports them; None without supported claims."""
    supported = [
        any(citation.chunk_id and support.get(citation.chunk_id, 0.0) >= SUPPORTED for citation in claim.citations)
        for claim, support in zip(claims, supports, strict=True)
        if claim.factual and (claim.support or 0.0) >= SUPPORTED
    ]
    return sum(supported) / len(supported) if supported else None


def dangling_citations(claims: Sequence[Claim]) -> float | None:
    """How many citations of the answer name no packed chunk; None where the answer cites nothing at all."""
    marks = [citation for claim in claims for citation in claim.citations]
    return float(sum(1 for citation in marks if citation.chunk_id is None)) if marks else None


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for part in re.split(r"\s*[,;]\s*", text):
        first, _, last = (piece.strip() for piece in part.replace("–", "-").partition("-"))
        span = range(int(first), int(last or first) + 1)
        found += [str(number) for number in span[:50]]
    return found
