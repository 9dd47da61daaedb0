"""Turns the traces that are due into records, page by page, until it is told to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Final, Literal, TypeAlias, TypeVar

from ragtrace.config import Config
from ragtrace.errors import CorruptStore, SchemaMismatch, StoreError, StoreUnavailable
from ragtrace.receive.assembly import judgements_of, record_of
from ragtrace.receive.otlp import read_protobuf
from ragtrace.receive.tenants import NO_RIGHTS, Claim, Rights, believed, owned
from ragtrace.receive.told import in_order
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Assembled, DueTrace, Store, StoredPart
from ragtrace.types import Feedback, RequestRecord

__all__ = ["Assembler", "Counted", "Fate"]

Fate: TypeAlias = Literal["assembled", "failed"]
Counted: TypeAlias = Callable[[Fate | Claim, int], object]
"""Is told how many traces were assembled, or failed, and what became of their senders' word on sampling."""

_Said = TypeVar("_Said", RequestRecord, Feedback)

_LOG: Final = logging.getLogger("ragtrace.receive")
_PAGE: Final = 128
_PAGE_BYTES: Final = 16 << 20  # of the spans that are read at once; in memory they are several times as large
_LARGEST: Final = 32 << 20  # bytes of the spans of one trace
_LEASE: Final = 60.0  # seconds; whoever stands still at one trace for longer loses all that he has
_IDLE: Final = 0.5  # seconds between two looks at an empty store
_PAUSE: Final = 5.0  # seconds after the store failed
_FORGET: Final = 60.0  # seconds between two looks for spans that are no longer needed
_PAGE_FORGOTTEN: Final = 500
_ALL_FAIL: Final = (StoreUnavailable, SchemaMismatch, CorruptStore)  # whatever is written


class Assembler:
    """Makes records of traces. Several may run, in several processes: each trace is one's at a time.

    config: its capture policy says what of content is kept. keep: seconds for which the spans of an assembled trace
    stay, so that a late one can still be united with them. rights: what the spans of a tenant may say.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        keep: float = 3600.0,
        rights: Callable[[str], Rights] = lambda tenant: NO_RIGHTS,
        counted: Counted = lambda fate, count: None,
    ) -> None:
        self._store = store
        self._rights = rights
        self._counted = counted
        self._policy = ContentPolicy(config)
        self._keep = keep

    def run(self, stop: Event, report: Callable[[Exception], object] = lambda error: None) -> None:
        """Work until `stop` is set. Errors of the store are logged, reported, and waited out."""
        forgotten = 0.0
        while not stop.is_set():
            try:
                count = self.step()
                forgotten += _IDLE
                if forgotten >= _FORGET and self._forget() < _PAGE_FORGOTTEN:
                    forgotten = 0.0  # else there is more: it goes on after the next page, so that neither waits long
            except Exception as error:  # one that ended this thread would end the assembly of all
                _LOG.warning("spans wait: %s", error, exc_info=not isinstance(error, StoreError))
                report(error)
                stop.wait(_PAUSE)
                continue
            if not count:
                stop.wait(_IDLE)

    def step(self, now: float | None = None) -> int:
        """Assemble the traces that are due, up to a page of them. Returns how many were taken."""
        leases = _Leases(self._store, now)
        due = leases.claim()
        for each in due:
            if each.bytes > _LARGEST:
                error = f"its spans take {each.bytes:,} bytes; a trace may have {_LARGEST:,}"
                _LOG.warning("trace %s of tenant %r cannot be assembled: %s", each.trace_id, each.tenant, error)
                self._fail(leases, each, error)
        for some in _pages([each for each in due if each.bytes <= _LARGEST]):
            self._assemble(leases, some)
        return len(due)

    def _assemble(self, leases: _Leases, due: Sequence[DueTrace]) -> None:
        stored = self._store.spans_of(due)
        made: list[Assembled] = []
        for each in due:
            leases.keep()
            try:
                made.append(self._made(each, stored.pop((each.tenant, each.trace_id), [])))
            except Exception as error:  # a trace that cannot be read stops no other
                _LOG.exception("trace %s of tenant %r cannot be assembled", each.trace_id, each.tenant)
                self._fail(leases, each, f"{type(error).__name__}: {error}")
        self._write(leases, made)

    def _forget(self) -> int:
        return self._store.forget_spans(self._keep, limit=_PAGE_FORGOTTEN)

    def _made(self, due: DueTrace, parts: list[StoredPart] | CorruptStore) -> Assembled:
        if isinstance(parts, CorruptStore):
            raise parts
        spans = [span for part in parts for span in read_protobuf(part.body).spans]
        told, count = in_order(spans)
        record = record_of(told, count)
        if record is None:
            said = tuple(self._finished(each) for each in judgements_of(told))
            return Assembled(due, None, judgements=said)
        span_ids = {each.span.span_id for each in told}
        rights = self._rights(due.tenant)
        record, claim = believed(self._finished(record), due.tenant, rights)
        if claim is not None:
            self._counted(claim, 1)
        return Assembled(due, owned(record, due.tenant, rights), parts, span_ids)

    def _finished(self, item: _Said) -> _Said:
        """What of it may be kept."""
        finished = self._policy.finish(item)
        assert isinstance(finished, type(item))
        return finished

    def _write(self, leases: _Leases, made: list[Assembled]) -> None:
        """All in one transaction; one by one where a record cannot be written, so that no other waits for it."""
        leases.keep()
        try:
            self._store.assembled([each._replace(trace=leases.newest(each.trace)) for each in made])
        except _ALL_FAIL:
            raise
        except Exception as error:
            if len(made) == 1:
                self._fail(leases, made[0].trace, str(error))
            else:
                for each in made:
                    self._write(leases, [each])
        else:
            self._counted("assembled", len(made))

    def _fail(self, leases: _Leases, due: DueTrace, error: str) -> None:
        self._store.fail_trace(leases.newest(due), error, leases.now)
        self._counted("failed", 1)


class _Leases:
    """The leases of the traces of one step. They are prolonged between two traces, so that none is lost while there is
    progress, however slow. now: the time that is taken for the present, None for the clock's."""

    def __init__(self, store: Store, now: float | None) -> None:
        self.now = now
        self._store = store
        self._held: dict[tuple[str, str], DueTrace] = {}
        self._renewed_at = self._time()

    def claim(self) -> list[DueTrace]:
        """Take a page of the traces that are due."""
        due = self._store.claim_traces(limit=_PAGE, lease_seconds=_LEASE, now=self.now)
        self._held = {(each.tenant, each.trace_id): each for each in due}
        return due

    def keep(self) -> None:
        """Prolong those that are still held, where a third of their time is over."""
        if self._time() - self._renewed_at > _LEASE / 3:
            self._renewed_at = self._time()
            self._held |= self._store.renew_traces(self._held.values(), lease_seconds=_LEASE, now=self.now)

    def newest(self, due: DueTrace) -> DueTrace:
        """The trace with its newest lease."""
        return self._held[due.tenant, due.trace_id]

    def _time(self) -> float:
        return time.time() if self.now is None else self.now


def _pages(due: Sequence[DueTrace]) -> Iterator[list[DueTrace]]:
    """The traces in groups that are not too large together."""
    page: list[DueTrace] = []
    size = 0
    for each in due:
        if page and size + each.bytes > _PAGE_BYTES:
            yield page
            page, size = [], 0
        page.append(each)
        size += each.bytes
    if page:
        yield page
