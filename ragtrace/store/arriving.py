"""The part of the store where spans wait until they are a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragtrace.store import records, spans
from ragtrace.store.opened import Opened, moment
from ragtrace.store.rows import DueTrace, SpanPart
from ragtrace.types import RequestRecord

__all__ = ["Arriving"]


class Arriving(Opened):
    """Spans of others, between their arrival and their assembly."""

    def add_spans(
        self, parts: Sequence[SpanPart], *, grace: float = 5.0, ttl: float = 60.0, now: float | None = None
    ) -> int:
        """Store parts of traces; one that is stored already changes nothing. Returns how many were new.

        grace: seconds from a trace's root, or from a span that is late, to its assembly; ttl: seconds from a trace's
        first span, after which it is assembled without a root.
        """
        with self._database.write() as connection:
            return spans.add(connection, parts, moment(now), grace, ttl)

    def claim_traces(self, *, limit: int = 64, lease_seconds: float = 60.0, now: float | None = None) -> list[DueTrace]:
        """Take traces that are due; what is not assembled within the lease is due again."""
        with self._database.write() as connection:
            return spans.claim(connection, limit, lease_seconds, moment(now))

    def spans_of(self, traces: Iterable[DueTrace]) -> dict[tuple[str, str], list[bytes]]:
        """The parts of traces, by tenant and trace id."""
        with self._database.read() as connection:
            return spans.bodies(connection, traces)

    def assembled(self, found: Sequence[RequestRecord], traces: Sequence[DueTrace]) -> None:
        """Write the records of traces and settle these, in one transaction.

        Raises: RecordError when a record cannot be encoded; nothing is written then.
        """
        batch = records.Batch(list(found))
        with self._database.write() as connection:
            batch.write(connection)
            spans.settle(connection, traces)

    def fail_trace(self, failed: DueTrace, error: str, now: float | None = None) -> None:
        """Try a trace again later; at the cap of attempts it waits for another span."""
        with self._database.write() as connection:
            spans.fail(connection, failed, error, moment(now))

    def forget_spans(self, older_than: float, *, limit: int = 500, now: float | None = None) -> int:
        """Delete assembled traces to which no span has come for so many seconds, up to `limit`. Returns how many."""
        with self._database.write() as connection:
            return spans.forget(connection, moment(now) - older_than, limit)

    def traces_waiting(self) -> tuple[int, float | None]:
        """How many traces are to be assembled, and when the first is due, in Unix seconds."""
        with self._database.read() as connection:
            return spans.waiting(connection)
