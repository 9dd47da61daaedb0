"""Layer 3 of a claim's support: the chunk that the generator took it from, by what is lost without that chunk.

Dropping a chunk tells what an answer was made from, not whether it is true: support and contradiction stay what words
and models said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ragtrace.coverage import SUPPORTED
from ragtrace.explanations import GeneratorAttribution
from ragtrace.types import Claim, replace

__all__ = ["ABLATION", "chunk_drops", "resting_on"]

ABLATION: Final = "ablation"
"""The layer of a claim whose chunk was found by leaving chunks out."""
LEAST: Final = 0.1  # nats per token that a claim must lose without a chunk to rest on it


def chunk_drops(found: GeneratorAttribution, start: int, end: int) -> dict[str, float]:
    """What each chunk's removal takes from the mean log-probability of the tokens of `answer[start:end]`, in nats.

    mean_j [v_j(all chunks) - v_j(all but this one)], over the tokens j that stand in the span, if only in part: many
    begin with the space before it. A chunk whose removal was not scored is left out. Source: "Diagnosing Hallucinations
    with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    tokens = [place for place, (first, last) in enumerate(found.answer_spans) if first < end and start < last]
    if not tokens:
        return {}
    pairs = zip(found.chunk_ids, found.drops, strict=False)
    return {chunk: float(np.mean([drops[place] for place in tokens])) for chunk, drops in pairs if drops}


def resting_on(claims: Sequence[Claim], found: GeneratorAttribution | None) -> tuple[Claim, ...]:
    """`claims`, those that lose their likelihood without a chunk with that chunk as their best one.

    A contradicted claim keeps the chunk that contradicts it. A claim that stands as firmly without any one chunk (it
    is in two, or in the model) keeps what earlier layers found.
    """
    return tuple(claims) if found is None else tuple(_resting(claim, found) for claim in claims)


def _resting(claim: Claim, found: GeneratorAttribution) -> Claim:
    if not claim.factual or (claim.contradiction or 0.0) >= SUPPORTED:
        return claim
    drops = chunk_drops(found, claim.start, claim.end)
    best = max(drops, key=lambda chunk: drops[chunk], default=None)
    if best is None or drops[best] < LEAST:
        return claim
    reason = f"without {best} each token is {drops[best]:.2f} nats less likely"
    return replace(claim, best_chunk=best, layer=ABLATION, reason=reason)
