"""The requests of a window, read from a store, and what they add to each provider, in flat columns.

Each request counts by its chance to be kept. A request that counts nowhere has a reason.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze._exposures import (
    ProviderSums,
    request_exposures,
    used_documents,
    useful_documents,
    valued_documents,
)
from ragtrace.exposure import log_probability, propensity_weight
from ragtrace.plausible_values import sampling_weight
from ragtrace.store import ATTRIBUTION, Store
from ragtrace.types import Analysis, RequestRecord

__all__ = ["COLUMNS", "OTHERS", "ExposureWindow", "WindowReader"]

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
