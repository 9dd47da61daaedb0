"""What a worker knows of the services that it analyzes: whether they cite, and what is usual in their requests."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

from ragtrace.analyze.analysis import ServiceView
from ragtrace.coverage import Background
from ragtrace.store import Citing, ServiceTraffic, Store
from ragtrace.store.populations import REPLAY
from ragtrace.types import Analysis, Claim, RequestRecord

__all__ = ["Services"]

ENOUGH: Final = 1_000  # chunks of a service, from which on its background stays as it is
KEPT: Final = 500  # doubts that are kept of each stage
JUDGES: Final = 2  # whose doubts are kept, the last ones
THINNED: Final = (
    20  # once these are full, every so many-th request replaces the oldest: an incident is not the usual soon
)
GROWTH: Final = 1.2  # by which what is known must have grown to be kept anew


class Services:
    """The views of services, as of the store; what new requests tell is kept with them, batch by batch."""

    def __init__(self, store: Store, judge: str) -> None:
        self._store = store
        self._judge = judge  # doubts of two judges are not compared
        self._traffic: dict[str, ServiceTraffic] = {}
        self._kept: dict[str, int] = {}  # requests behind what the store has of each service
        self._citing: dict[str, Citing] = {}

    def load(self, services: Iterable[str]) -> None:
        """Read what the store knows by now of these services."""
        names = sorted(set(services))
        self._citing.update(self._store.citing(names))
        made = self._store.traffic_made(names)
        for name in names:
            if name in self._kept and name not in made:
                self._forget(name)
            known = self._traffic.get(name, ServiceTraffic(made_at=-1))
            newer = self._store.traffic(name) if made.get(name, -1) > known.made_at else None
            if newer is not None and newer.requests > known.requests:
                self._traffic[name] = newer
                self._kept[name] = newer.requests

    def _forget(self, service: str) -> None:
        """Begin anew with a service: somebody's data were erased, and what was kept of its traffic with them."""
        self._traffic.pop(service, None)
        self._kept.pop(service, None)

    def view(self, record: RequestRecord) -> ServiceView:
        """What is known of a record's service."""
        cites, traffic = self._citing.get(record.service, Citing()).cites, self._traffic.get(record.service)
        if traffic is None:
            return ServiceView(cites=cites)
        return ServiceView(
            cites=cites,
            background=Background(len(traffic.seen), traffic.counts),
            usual={} if _is_replayed(record) else traffic.doubts.get(self._judge, {}),
        )

    def note(self, results: Iterable[tuple[RequestRecord, Analysis, Mapping[str, float]]]) -> None:
        """Take up what analyzed requests tell of their services, and keep it where it has grown enough.

        results: with each analysis the log odds of the doubts (`doubts.log_odds_of`).
        """
        answers: dict[str, tuple[int, int]] = {}
        for record, analysis, odds in results:
            known = self._traffic.get(record.service, ServiceTraffic())
            self._traffic[record.service] = _with(known, record, self._judge, odds)
            claims = [claim for claim in analysis.claims if claim.factual]
            if claims and record.started_at >= self._citing.get(record.service, Citing()).counted_from:
                count, cited = answers.get(record.service, (0, 0))
                answers[record.service] = (count + 1, cited + _cites(claims))
        self._store.note_answers(answers)
        for service, traffic in list(self._traffic.items()):
            kept = self._kept.get(service, 0)
            if traffic.requests < max(1.0, GROWTH * kept):
                continue
            if self._store.save_traffic(service, traffic, is_new=not kept):
                self._kept[service] = traffic.requests
            else:
                self._forget(service)


def _cites(claims: Iterable[Claim]) -> bool:
    """Whether a claim cites a chunk of the prompt: a mark that names none may be anything."""
    return any(mark.chunk_id is not None for claim in claims for mark in claim.citations)


def _is_replayed(record: RequestRecord) -> bool:
    """Whether a request is one of a replay: whichever is analyzed first, two of them are judged by the same lines."""
    return f"{REPLAY}run" in record.attributes


def _with(traffic: ServiceTraffic, record: RequestRecord, judge: str, odds: Mapping[str, float]) -> ServiceTraffic:
    seen, counts, doubts = traffic.seen, traffic.counts, traffic.doubts
    texts = [candidate.text for candidate in record.candidates if candidate.text]
    new = {key: text for text in texts if (key := zlib.crc32(text.encode())) not in seen}
    if new and len(seen) < ENOUGH:
        seen, counts = seen | new.keys(), _added(counts, Background.of(new.values()).counts)
    is_thinned = traffic.requests % THINNED == 0
    if odds and record.head_sampled and not _is_replayed(record):  # what was flagged is not usual
        ours = doubts.get(judge, {})
        grown = ours | {
            name: (*values, odd)[-KEPT:]
            for name, odd in odds.items()
            if len(values := ours.get(name, ())) < KEPT or is_thinned
        }
        doubts = dict([*((name, one) for name, one in doubts.items() if name != judge), (judge, grown)][-JUDGES:])
    return ServiceTraffic(seen, counts, doubts, traffic.requests + 1, time.time_ns())


def _added(counts: Mapping[int, int], more: Mapping[int, int]) -> dict[int, int]:
    grown = dict(counts)
    for key, count in more.items():
        grown[key] = grown.get(key, 0) + count
    return grown
