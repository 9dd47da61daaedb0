"""Exposure by provider, of one request and of a window of them: whose documents stood in prompts, what they deserved,
what was used.

A document is exposed where it stands in the prompt: the generator reads that and nothing else. What it deserves is the
exposure that a ranking with the useful documents first gives it (`ragtrace.exposure.target_exposure`); useful is what
the reference names, gold where there is gold, else the proxy; or a document from which alone the answer is worth more
than from none. A document is used where the answer rests on it, by the source that is named: claims, citations or
Shapley values.

A window is read from a store into flat columns. Each of its requests counts by its chance to be kept; one that counts
nowhere has a reason.

Source: Kim and Diaz, "Towards Fair RAG", section 3.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage import SUPPORTED
from ragtrace.exposure import log_probability, propensity_weight, target_exposure
from ragtrace.plausible_values import sampling_weight
from ragtrace.store import ATTRIBUTION, Store
from ragtrace.types import Analysis, Candidate, RequestRecord

__all__ = [
    "COLUMNS",
    "NO_PROVIDER",
    "OTHERS",
    "UNNAMED",
    "ExposureWindow",
    "ProviderSums",
    "UsedBy",
    "UsefulBy",
    "UsefulDocuments",
    "WindowReader",
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


OTHERS: Final = "(others)"
"""The providers that are not listed by name, joined."""
COLUMNS: Final = tuple(ProviderSums.__dataclass_fields__)
"""What is summed of a provider."""

_columns_of: Final = attrgetter(*COLUMNS)
_WHOLE: Final = frozenset(each for each in COLUMNS if each not in ("deserved", "worth"))
_ROUNDED: Final = 1e-3  # of a log-probability that a host wrote down
_PAGE: Final = 50  # records at a time: they come with their texts

_Floats = NDArray[np.float64]


@dataclass(slots=True)
class ExposureWindow:
    """The requests of one window: a weight each, and one row of sums for each provider of each request."""

    weights: list[float] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)  # of providers, each with its number
    requests: array[int] = field(default_factory=lambda: array("i"))  # of each row
    providers: array[int] = field(default_factory=lambda: array("i"))
    sums: list[array[float]] = field(
        default_factory=lambda: [array("f" if each in _WHOLE else "d") for each in COLUMNS]
    )
    left_out: Counter[str] = field(default_factory=Counter)
    useful_by: Counter[str] = field(default_factory=Counter)
    used_requests: int = 0
    propensities: list[float | None] = field(default_factory=list)  # None: the ranking was not drawn

    def __len__(self) -> int:
        return len(self.weights)

    def add(self, weight: float, sums: dict[str, ProviderSums]) -> None:
        """Keep one request."""
        for name, one in sums.items():
            self.requests.append(len(self.weights))
            self.providers.append(self.names.setdefault(name, len(self.names)))
            for column, value in zip(self.sums, _columns_of(one), strict=True):
                column.append(value)
        self.weights.append(weight)

    def candidates(self) -> dict[str, float]:
        """How many candidates each provider has."""
        column = np.array(self.sums[COLUMNS.index("candidates")])
        found = np.bincount(np.array(self.providers), weights=column, minlength=len(self.names))
        return dict(zip(self.names, found.tolist(), strict=True))

    def table(self, providers: Sequence[str], groups: int | None = None) -> _Floats:
        """`(requests, columns, providers)`, weighed. groups: requests join so many groups, whose sums are the rows."""
        size = len(self) if groups is None else min(groups, len(self))
        requests = np.array(self.requests, dtype=np.intp)
        cells = requests % size * len(providers) + self._places(providers)
        weights = np.array(self.weights)[requests]
        found = np.empty((size, len(COLUMNS), len(providers)))
        for column, values in enumerate(self.sums):
            sums = np.bincount(cells, weights=weights * np.array(values), minlength=size * len(providers))
            found[:, column] = sums.reshape(size, -1)
        return found

    def seen(self, providers: Sequence[str]) -> NDArray[np.intp]:
        """How many requests have a candidate of each provider."""
        pairs = np.unique(np.array(self.requests, dtype=np.intp) * len(providers) + self._places(providers))
        return np.asarray(np.bincount(pairs % len(providers), minlength=len(providers)))

    def _places(self, providers: Sequence[str]) -> NDArray[np.intp]:
        """Where each row's provider stands among these."""
        listed = {provider: place for place, provider in enumerate(providers)}
        places = np.array([listed.get(name, listed.get(OTHERS, 0)) for name in self.names], dtype=np.intp)
        return np.asarray(places[np.array(self.providers)])


class _Stored(NamedTuple):
    """A request with what was computed of it; explained: where Shapley values or utility are asked for."""

    record: RequestRecord
    analysis: Analysis | None
    explained: Analysis | None


@dataclass(slots=True)
class WindowReader:
    """Reads windows of a service."""

    store: Store
    service: str
    segment: str | None
    by: str
    useful_by: str
    used_by: str
    limit: int
    on_progress: Callable[[int, int], None] | None

    def window(self, since: int, until: int, alpha: float | None = None) -> ExposureWindow:
        """The analyzed requests of [since, until). alpha: weigh rankings that were drawn by its chance under it."""
        rows = self.store.sample(self.service, self.segment, since, until, (), self.limit).rows
        weights = {row.request_id: sampling_weight(row.head_probability) for row in rows}
        del rows  # of 100,000 requests they hold more than all that is summed
        return self.requests(weights, alpha)

    def requests(self, weights: Mapping[str, float], alpha: float | None = None) -> ExposureWindow:
        """These requests, by id, each with its weight."""
        found = ExposureWindow()
        for done, stored in enumerate(self._stored(list(weights)), 1):
            self._add(found, stored, weights[stored.record.request_id], alpha)
            if self.on_progress is not None:
                self.on_progress(done, len(weights))
        return found

    def _stored(self, ids: Sequence[str]) -> Iterator[_Stored]:
        for start in range(0, len(ids), _PAGE):
            page = ids[start : start + _PAGE]
            records, analyses = self.store.get_records(page), self.store.get_analyses(page)
            asks = self.used_by == "shapley" or self.useful_by == "utility"
            explained = self.store.get_analyses(page, ATTRIBUTION) if asks else {}
            for request_id in page:
                if request_id in records:
                    yield _Stored(records[request_id], analyses.get(request_id), explained.get(request_id))

    def _add(self, window: ExposureWindow, stored: _Stored, weight: float, alpha: float | None) -> None:
        """Count one request, or why it counts nowhere."""
        record, analysis = stored.record, stored.analysis
        candidates = record.candidates
        if self.useful_by == "utility":
            useful = valued_documents(stored.explained, candidates)
        else:
            useful = useful_documents(analysis, candidates)
        used = used_documents(stored.explained if self.used_by == "shapley" else analysis, self.used_by)
        sums = request_exposures(record, candidates, self.by, useful, used)
        if isinstance(sums, str):
            window.left_out[sums] += 1
            return
        window.useful_by.update([useful.by] if useful is not None else [])
        window.used_requests += used is not None
        window.add(weight, sums)
        window.propensities.append(None if alpha is None else _propensity(record, alpha))


def _propensity(record: RequestRecord, alpha: float) -> float | None:
    """How much likelier the recorded order is under another alpha; None where it was not drawn or has no scores."""
    drawn = record.sampled_ranking
    if drawn is None or (record.packing is not None and len(record.packing.chunks) > drawn.places):
        return None
    moved = sorted((each.rank_after, place) for place, each in enumerate(record.moves) if each.rank_after is not None)
    scores = [record.moves[place].score for _, place in moved] or [each.score for each in record.candidates]
    known = [score for score in scores if score is not None]
    if len(known) < len(scores) or len(scores) < drawn.places:
        return None
    said = log_probability(range(drawn.places), known, drawn.alpha)
    if not abs(said - drawn.log_probability) <= _ROUNDED * max(1.0, abs(said)):
        return None  # it was drawn from other scores than these
    return propensity_weight(range(len(known)), known, alpha, drawn.log_probability, k=drawn.places)
