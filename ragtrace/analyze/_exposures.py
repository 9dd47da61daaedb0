"""The exposure of one request by provider: whose documents stood in its prompt, what they deserved, what was used.

A document is exposed where it stands in the prompt: the generator reads that and nothing else. What it deserves is the
exposure that a ranking with the useful documents first gives it (`ragtrace.exposure.target_exposure`); useful is what
the reference names, gold where there is gold, else the proxy; or a document from which alone the answer is worth more
than from none. A document is used where the answer rests on it, by the
source that is named: claims, citations or Shapley values.

Source: Kim and Diaz, "Towards Fair RAG", section 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

import numpy as np

from ragtrace.coverage import SUPPORTED
from ragtrace.exposure import target_exposure
from ragtrace.types import Analysis, Candidate, RequestRecord

__all__ = [
    "NO_PROVIDER",
    "UNNAMED",
    "ProviderSums",
    "UsedBy",
    "UsefulBy",
    "UsefulDocuments",
    "counted_key",
    "provider_of",
    "providers_of",
    "request_exposures",
    "used_documents",
    "useful_documents",
    "valued_documents",
]

UsedBy = Literal["claims", "citations", "shapley"]
UsefulBy = Literal["reference", "utility"]

NO_PROVIDER: Final = "none"
"""The setting with which nothing counts by provider."""
UNNAMED: Final = "(none)"
"""The provider of documents that name none."""

_PROVIDERS: Final = 20  # of one request that are listed by
_FIELDS: Final = ("source", "doc_id", "modality")
_SURE: Final = 1.6448536269514722  # standard errors above 0 of a Shapley share that counts as used
_NO_PROMPT: Final = "what stood in the prompt is not known"


@dataclass(slots=True)
class ProviderSums:
    """What one request adds to a provider: numbers of documents, or of what they deserve.

    `known`: where the useful ones are known; `judged`: where it is known what was used; capacity: how many of its
    candidates the prompt could have held. misused: used, and contradicted by another part of the answer. worth: what
    its candidates are worth alone, together.
    """

    candidates: float = 0.0
    candidates_known: float = 0.0
    useful: float = 0.0
    worth: float = 0.0
    exposed: float = 0.0
    exposed_known: float = 0.0
    deserved: float = 0.0
    exposed_judged: float = 0.0
    used: float = 0.0
    contradicted: float = 0.0
    misused: float = 0.0
    capacity: float = 0.0
    capacity_known: float = 0.0
    capacity_judged: float = 0.0


@dataclass(frozen=True, slots=True)
class UsedDocuments:
    """The chunks that an answer rests on, and those that it contradicts."""

    used: frozenset[str]
    contradicted: frozenset[str]


@dataclass(frozen=True, slots=True)
class UsefulDocuments:
    """Which of a request's candidates are useful, in their order; `by`: what says so (oracle, proxy, or the measure of
    their worth). worths: what each is worth alone, where that is known."""

    flags: Sequence[bool]
    by: str
    worths: Sequence[float] | None = None


def counted_key(provider: str) -> str:
    """What names providers in totals, as `provider_of` takes it; empty where the setting says that nothing counts."""
    return "" if provider == NO_PROVIDER else provider


def provider_of(candidate: Candidate, by: str) -> str:
    """Who provides a document. by: `source` (of a URL its host), `doc_id`, `modality`, or a key of its metadata."""
    named: object = getattr(candidate, by) if by in _FIELDS else candidate.metadata.get(by)
    name = "" if named is None else str(named).strip()
    if by == "source" and "://" in name:
        try:
            name = urlsplit(name).hostname or name
        except ValueError:
            return UNNAMED
    return name or UNNAMED


def providers_of(candidates: Sequence[Candidate], by: str) -> tuple[str, ...]:
    """The first providers of the candidates, each once; none where nothing names them. by: as `provider_of` takes it,
    or empty."""
    if not by:
        return ()
    ranked = sorted(candidates, key=lambda each: each.rank)
    return tuple(dict.fromkeys(provider_of(each, by) for each in ranked))[:_PROVIDERS]


def useful_documents(analysis: Analysis | None, candidates: Sequence[Candidate]) -> UsefulDocuments | None:
    """Which candidates are useful by the reference; None where there is none."""
    if analysis is None or analysis.reference == "none" or not analysis.reference_chunks:
        return None
    known = set(analysis.reference_chunks)
    return UsefulDocuments([each.chunk_id in known for each in candidates], analysis.reference)


def valued_documents(explained: Analysis | None, candidates: Sequence[Candidate]) -> UsefulDocuments | None:
    """Which candidates are useful by what each is worth alone; None where that was not asked of all of them."""
    found = explained.explanation.utility if explained and explained.explanation else None
    if found is None:
        return None
    worths = dict(zip(found.chunk_ids, found.values, strict=True))
    if any(each.chunk_id not in worths for each in candidates):
        return None
    useful = found.useful()
    return UsefulDocuments(
        [each.chunk_id in useful for each in candidates], found.measure, [worths[each.chunk_id] for each in candidates]
    )


def used_documents(analysis: Analysis | None, used_by: str) -> UsedDocuments | None:
    """Which documents the answer rests on, and which it contradicts; None where that is not known.

    analysis: of the coverage for claims and citations, of the attribution for shapley, whose shares count where they
    are above 0 beyond their error.
    """
    if used_by == "shapley":
        shares = analysis.explanation.generator if analysis and analysis.explanation else None
        if shares is None or shares.players != "documents":
            return None
        pairs = zip(shares.chunk_ids, shares.shares, shares.share_errors, strict=True)
        found = frozenset(chunk_id for chunk_id, share, error in pairs if share > _SURE * (error or 0.0))
        return UsedDocuments(found, frozenset())
    claims = [claim for claim in analysis.claims if claim.factual] if analysis is not None else []
    if not claims:
        return None
    against = frozenset(
        chunk for claim in claims for chunk, value in claim.contradictions.items() if value >= SUPPORTED
    )
    if used_by == "citations":
        cited = frozenset(mark.chunk_id for claim in claims for mark in claim.citations if mark.chunk_id)
        return UsedDocuments(cited, against) if cited else None
    supporting = (chunk for claim in claims for chunk, value in claim.supports.items() if value >= SUPPORTED)
    return UsedDocuments(frozenset(supporting), against)


def request_exposures(
    record: RequestRecord,
    candidates: Sequence[Candidate],
    by: str,
    useful: UsefulDocuments | None,
    used: UsedDocuments | None,
) -> dict[str, ProviderSums] | str:
    """What one request adds to each provider; or why it counts nowhere. candidates: those of the record."""
    if record.packing is None:
        return _NO_PROMPT
    packed = {chunk.chunk_id for chunk in record.packing.chunks} & {each.chunk_id for each in candidates}
    if not record.is_retrieved or not packed:
        return "no candidate is in the prompt" if record.is_retrieved else "candidates are not known"
    deserved = target_exposure(useful.flags, len(packed)) if useful is not None else np.zeros(len(candidates))
    sums: dict[str, ProviderSums] = defaultdict(ProviderSums)
    for place, (candidate, deserves) in enumerate(zip(candidates, deserved.tolist(), strict=True)):
        one, is_packed = sums[provider_of(candidate, by)], candidate.chunk_id in packed
        one.candidates += 1
        one.exposed += is_packed
        if useful is not None:
            one.candidates_known += 1
            one.useful += useful.flags[place]
            one.worth += useful.worths[place] if useful.worths is not None else 0.0
            one.exposed_known += is_packed
            one.deserved += deserves
        if used is not None and is_packed:
            is_used, is_denied = candidate.chunk_id in used.used, candidate.chunk_id in used.contradicted
            one.exposed_judged += 1
            one.used += is_used
            one.contradicted += is_denied
            one.misused += is_used and is_denied
    for one in sums.values():
        one.capacity = min(one.candidates, len(packed))
        one.capacity_known = one.capacity if useful is not None else 0.0
        one.capacity_judged = one.capacity if used is not None else 0.0
    return dict(sums)
