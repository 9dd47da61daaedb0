"""Requests outside the sample, in the background: their spans end, they are screened, and held for a late flag."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from ragtrace.collect.queue import ITEMS
from ragtrace.collect.recent import Recent
from ragtrace.collect.screening import Screening
from ragtrace.collect.weights import weigh
from ragtrace.record import Draft, new_request_id
from ragtrace.record.guard import fault_now, place_of
from ragtrace.types import Addendum, Fault, Item, RequestRecord, replace

__all__ = ["Outside", "addendum"]


class Outside:
    """What is known of requests that are not kept, until they are forgotten.

    `wants` and `take` are for the host's threads, all else for the reading thread.
    """

    def __init__(self, recent: Recent, screening: Screening | None = None, service: str = "default") -> None:
        self._recent = recent
        self._service = service
        self._screening = screening
        self._begin()

    def _begin(self) -> None:
        self._claiming = threading.Lock()
        self._reading = threading.Lock()  # held while the background reads a draft
        self._current: Draft | None = None  # that draft
        self._numbers: dict[Draft, int] = {}  # of those of this cycle that can be flagged

    def wants(self, draft: Draft) -> bool:
        """Whether there is anything to do for this request: its spans, its screening, or a late flag."""
        return draft.has_spans or self._screening is not None or (draft.known_id is not None and self._recent.limit > 0)

    def hold(self, drafts: Iterable[Draft]) -> None:
        """Let late flags find these requests from now on; one whose id nobody has asked for cannot be flagged."""
        for draft in drafts:
            if draft.known_id is not None and self._recent.limit:
                self._numbers[draft] = self._recent.add(draft.known_id, draft, draft.weight)

    def take(self, request_id: str, flags: tuple[str, ...]) -> list[Item]:
        """What is held of a request, with these flags; it is the caller's now."""
        while True:
            with self._claiming:
                current = self._current
                if current is None or current.known_id != request_id:
                    found = self._recent.take(request_id)
                    break
            with self._reading:  # until it has been read
                continue
        built = [_flagged(item, flags) if isinstance(item, ITEMS) else item.build(flags) for item in found]
        return [item for item in built if item is not None]

    def read(self, drafts: Sequence[Draft]) -> tuple[list[Item], list[Fault]]:
        """End the requests' spans and screen them: what a flag has made worth keeping, and what went wrong."""
        kept: list[Item] = []
        faults: list[Fault] = []
        for draft in drafts:
            try:
                found = self._read(draft)
            except Exception as error:
                faults.append(self._fault(error))
            else:
                kept += [found] if found is not None else []
        return kept, faults

    def _read(self, draft: Draft) -> Item | None:
        screening = self._screening if self._screening is not None and self._screening.affords() else None
        with self._reading:
            if not self._claim(draft):
                return None
            try:
                built = self._build(draft, needed=screening is not None)
            finally:
                self._current = None
        if screening is None or not isinstance(built, RequestRecord):
            return None
        flags = screening.flags(built)
        if flags and draft in self._numbers and not self._recent.drop(self._numbers[draft]):
            return addendum(built.request_id, built.service, flags)  # a late flag has kept the record meanwhile
        return _flagged(built, flags) if flags else None

    def _claim(self, draft: Draft) -> bool:
        """Begin to read a draft; False when a late flag has taken it."""
        with self._claiming:
            if draft in self._numbers and not self._recent.holds(self._numbers[draft]):
                return False
            self._current = draft
            return True

    def _build(self, draft: Draft, *, needed: bool) -> Item | None:
        """What is to be screened; a request whose spans end anyway is held as its record from then on."""
        if not needed and not draft.has_spans:
            if draft not in self._numbers:
                draft.discard()
            return None
        built = draft.build()
        if built is None or not self._recent.limit:
            return built
        if draft in self._numbers:
            self._recent.replace(self._numbers[draft], built, weigh(built))
        elif draft.known_id is not None:  # drawn for the spans
            self._numbers[draft] = self._recent.add(draft.known_id, built, weigh(built))
        return built

    def end_cycle(self, *, at_once: bool) -> list[Fault]:
        """Forget what is old or too much; what went wrong, `at_once` when somebody waits for it."""
        self._numbers.clear()
        _forget(self._recent.trim())
        return self._screening.report(at_once=at_once) if self._screening is not None else []

    def close(self) -> None:
        """Forget all."""
        _forget(self._recent.clear())

    def begin_anew(self) -> None:
        """In a forked child: what is held is the parent's."""
        self._begin()
        self._recent = self._recent.emptied()

    def _fault(self, error: Exception) -> Fault:
        return fault_now(self._service, "screen", type(error).__name__, place_of(error))


def addendum(request_id: str, service: str, flags: tuple[str, ...]) -> Addendum:
    """Flags of a request whose record is elsewhere."""
    return Addendum(
        request_id=request_id, service=service, addendum_id=new_request_id(), created_at=time.time_ns(), flags=flags
    )


def _flagged(item: Item, flags: tuple[str, ...]) -> Item:
    if not isinstance(item, RequestRecord | Addendum):
        return item
    return replace(item, flags=tuple(dict.fromkeys((*item.flags, *flags))))


def _forget(items: Iterable[Draft | Item]) -> None:
    for item in items:
        if not isinstance(item, ITEMS):
            item.discard()
