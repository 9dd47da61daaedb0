"""Requests outside the sample: their spans end where the request ends, and they are held for a late flag; in the
background they are screened."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ragtrace.collect._queue import ITEMS, weigh
from ragtrace.record import Draft, new_request_id
from ragtrace.record.guard import fault_now, place_of
from ragtrace.types import Addendum, Fault, Item, RequestRecord, replace

__all__ = ["RecentRequests", "Screen", "Screening", "UnsampledRequests", "addendum"]

_LOG: Final = logging.getLogger("ragtrace")
_CREDIT: Final = 0.5  # seconds of CPU time at most that may be spent at once
_REPORT_EVERY: Final = 10.0  # seconds
Screen: TypeAlias = Callable[[RequestRecord], tuple[str, ...]]


class UnsampledRequests:
    """What is known of requests that are not kept, until they are forgotten.

    `is_to_be_read`, `let_pass` and `take` are for the host's threads, all else for the reading thread.
    """

    def __init__(self, recent: RecentRequests, screening: Screening | None = None, service: str = "default") -> None:
        self._recent = recent
        self._service = service
        self._screening = screening
        self._begin()

    def _begin(self) -> None:
        self._claiming = threading.RLock()  # a stream that the garbage collector ends while it is held comes by here
        self._claimed: dict[Draft, _Claim] = {}  # those whose spans are ended, or that are read
        self._numbers: dict[Draft, int] = {}  # of those of this cycle that can be flagged

    def is_to_be_read(self, draft: Draft) -> bool:
        """Whether the background has to see this request: it is screened, or its spans tell what was taken."""
        return self._screening is not None or (draft.has_spans and not draft.is_outlined)

    def let_pass(self, draft: Draft) -> None:
        """End the spans of a request that nobody reads, and hold it for a late flag. Here, since they are in the
        processor's cache, and are freed before a garbage collection goes through them: it takes less than half of what
        another thread needs for it a moment later."""
        if draft.known_id is not None and self._recent.limit:
            self._recent.add(draft.known_id, draft, draft.weight)
            with self._claiming:
                claim = self._claimed[draft] = _Claim()
            try:
                draft.end_spans()
            finally:
                self._let_go(draft, claim)
        else:
            draft.end_spans()
            if draft.known_id is None or not self._recent.limit:
                draft.discard()
                return
            self._recent.add(draft.known_id, draft, draft.weight)  # drawn for the spans
        _forget(self._recent.trim())

    def hold(self, drafts: Iterable[Draft]) -> None:
        """Let late flags find these requests from now on; one whose id nobody has asked for cannot be flagged."""
        for draft in drafts:
            if draft.known_id is not None and self._recent.limit:
                self._numbers[draft] = self._recent.add(draft.known_id, draft, draft.weight)

    def take(self, request_id: str, flags: tuple[str, ...]) -> list[Item]:
        """What is held of a request, with these flags; it is the caller's now."""
        while True:
            with self._claiming:
                claims = [
                    claim
                    for draft, claim in self._claimed.items()
                    if draft.known_id == request_id and claim.owner != threading.get_ident()
                ]
                if not claims:
                    found = self._recent.take(request_id)
                    break
            for claim in claims:
                claim.done.wait()
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
        claim = self._claim(draft)
        if claim is None:
            return None
        try:
            built = self._build(draft, needed=screening is not None)
        finally:
            self._let_go(draft, claim)
        if screening is None or not isinstance(built, RequestRecord):
            return None
        flags = screening.flags(built)
        if flags and draft in self._numbers and not self._recent.drop(self._numbers[draft]):
            return addendum(built.request_id, built.service, flags)  # a late flag has kept the record meanwhile
        return _flagged(built, flags) if flags else None

    def _claim(self, draft: Draft) -> _Claim | None:
        """Begin to read a draft; None when a late flag has taken it."""
        with self._claiming:
            if draft in self._numbers and not self._recent.holds(self._numbers[draft]):
                return None
            claim = self._claimed[draft] = _Claim()
            return claim

    def _let_go(self, draft: Draft, claim: _Claim) -> None:
        with self._claiming:
            del self._claimed[draft]
        claim.done.set()

    def _build(self, draft: Draft, *, needed: bool) -> Item | None:
        """What is to be screened; of all others the spans end, and what was taken is held, unread."""
        if not needed:
            draft.end_spans()
            if draft not in self._numbers:
                if draft.known_id is None or not self._recent.limit:
                    draft.discard()
                else:  # drawn for the spans
                    self._recent.add(draft.known_id, draft, draft.weight)
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


class _Claim:
    """A thread that is at a draft, so that a late flag has to wait; one of a span processor in that thread has not."""

    __slots__ = ("done", "owner")

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.done = threading.Event()


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


class _Held(NamedTuple):
    request_id: str
    item: Draft | Item
    weight: int
    at: float


class RecentRequests:
    """Drafts, or the items built of them, oldest first; several of one request that ran in parts. Safe for threads.

    Args:
        limit: bytes; 0 holds nothing.
        seconds: for how long each is held.
    """

    def __init__(self, limit: int = 0, seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.RLock()  # as `UnsampledRequests` says
        self._numbers = itertools.count()
        self._held: dict[int, _Held] = {}
        self._bytes = 0

    def add(self, request_id: str, item: Draft | Item, weight: int) -> int:
        """Hold a part of a request, and give its number; `trim` sees to the bounds."""
        with self._lock:
            number = next(self._numbers)
            self._held[number] = _Held(request_id, item, weight, self._clock())
            self._bytes += weight
        return number

    def replace(self, number: int, item: Item, weight: int) -> None:
        """Hold what was built of a draft in its place."""
        with self._lock:
            known = self._held[number]
            self._held[number] = known._replace(item=item, weight=weight)
            self._bytes += weight - known.weight

    def holds(self, number: int) -> bool:
        """Whether a part is here."""
        return number in self._held

    def drop(self, number: int) -> bool:
        """Let go of a part; False when it is not here."""
        with self._lock:
            return self._remove(number) is not None

    def take(self, request_id: str) -> list[Draft | Item]:
        """Take out all parts of a request."""
        with self._lock:
            numbers = [number for number, held in self._held.items() if held.request_id == request_id]
            return [held.item for number in numbers if (held := self._remove(number)) is not None]

    def trim(self) -> list[Draft | Item]:
        """Let go of what is too old and, oldest first, of what is too much."""
        gone: list[Draft | Item] = []
        with self._lock:
            latest = self._clock() - self._seconds
            while self._held:
                number, oldest = next(iter(self._held.items()))
                if self._bytes <= self.limit and oldest.at >= latest:
                    break
                self._remove(number)
                gone.append(oldest.item)
        return gone

    def clear(self) -> list[Draft | Item]:
        """Let go of all."""
        with self._lock:
            gone = [held.item for held in self._held.values()]
            self._held, self._bytes = {}, 0
        return gone

    def emptied(self) -> RecentRequests:
        """Another one with these bounds."""
        return RecentRequests(self.limit, self._seconds, self._clock)

    def _remove(self, number: int) -> _Held | None:
        found = self._held.pop(number, None)
        if found is not None:
            self._bytes -= found.weight
        return found


class Screening:
    """Runs `screen` as long as there is credit: CPU time that grows by `share` seconds per second.

    Args:
        open_screen: makes the function that gives a record's flags; called at the first record.
        clock, cpu: seconds of wall-clock time, and of this thread's CPU time.
    """

    def __init__(
        self,
        open_screen: Callable[[], Screen],
        share: float,
        service: str = "default",
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._open_screen = open_screen
        self._screen: Screen | None = None
        self._share = share
        self._service = service
        self._clock, self._cpu = clock, cpu
        self._credit = _CREDIT
        self._credited_at = self._reported_at = clock()
        self._skipped = 0
        self._faults: list[Fault] = []
        self._is_broken = False

    def affords(self) -> bool:
        """Whether there is credit for another record; counts one that is skipped."""
        now = self._clock()
        self._credit = min(_CREDIT, self._credit + self._share * (now - self._credited_at))
        self._credited_at = now
        if self._credit > 0.0 and not self._is_broken:
            return True
        self._skipped += 1
        return False

    def flags(self, record: RequestRecord) -> tuple[str, ...]:
        """The reasons to keep this request; none for one that cannot be screened, which is counted."""
        try:
            if self._screen is None:
                self._screen = self._open_screen()
        except Exception as error:
            _LOG.warning("requests outside the sample are not screened: %s: %s", type(error).__name__, error)
            self._is_broken = True
            self._faults.append(self._fault(type(error).__name__, str(error)))
            return ()
        began = self._cpu()
        try:
            return tuple(self._screen(record))
        except Exception as error:
            self._faults.append(self._fault(type(error).__name__, place_of(error)))
            return ()
        finally:
            self._credit -= self._cpu() - began

    def report(self, *, at_once: bool) -> list[Fault]:
        """What went wrong, and now and then, or `at_once`, how many were skipped."""
        faults, self._faults = self._faults, []
        now = self._clock()
        if self._skipped and (at_once or now - self._reported_at >= _REPORT_EVERY):
            message = f"not screened: more than the share {self._share} of a processor core would be needed"
            faults.append(self._fault("budget", message, self._skipped))
            self._skipped, self._reported_at = 0, now
        return faults

    def _fault(self, kind: str, message: str, count: int = 1) -> Fault:
        return fault_now(self._service, "screen", kind, message, count)
