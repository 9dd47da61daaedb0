"""The part of the store where spans wait until they are a record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store import addenda, erased, fragments, parts, records, spans, tenants, traced
from ragtrace.store.opened import Opened, moment
from ragtrace.store.span_rows import Assembled, DueTrace, SpanPart, StoredPart, TraceJudgement
from ragtrace.types import RequestRecord

__all__ = ["Arriving"]


class Arriving(Opened):
    """Spans of others, between their arrival and their assembly."""

    def add_spans(
        self, given: Sequence[SpanPart], *, grace: float = 5.0, ttl: float = 60.0, now: float | None = None
    ) -> int:
        """Store parts of traces; one whose trace was erased changes nothing, and so does one that is stored already,
        except where its trace could not be assembled: what is stored of it is replaced then. Returns how many were new.

        grace: seconds from a trace's root, or from a span that is late, to its assembly; ttl: seconds from a trace's
        first span, after which it is assembled without a root.
        """
        packed, at = spans.packed(given), moment(now)
        with self._database.write() as connection:
            new, known = spans.add(connection, _unerased(connection, packed), at, grace, ttl)
            broken = spans.of_failed(connection, known)
        if broken:  # in a transaction of its own, which locks traces before parts
            with self._database.write() as connection:
                spans.mend(connection, broken, at, grace)
        return new

    def add_judgements(self, given: Sequence[TraceJudgement]) -> None:
        """Store judgements that name a trace, each once, before or after the trace's request; none of an erased one.

        Raises: RecordError when one cannot be encoded; nothing is written then.
        """
        with self._database.write() as connection:
            addenda.wait_for_turn(connection, alone=True)
            gone = _erased(connection, {(each.tenant, each.trace_id) for each in given})
            kept = [each for each in given if (each.tenant, each.trace_id) not in gone]
            records.Batch(traced.found(connection, kept)).write(connection)

    def claim_traces(self, *, limit: int = 64, lease_seconds: float = 60.0, now: float | None = None) -> list[DueTrace]:
        """Take traces that are due; what is not assembled within the lease is due again."""
        with self._database.write() as connection:
            return spans.claim(connection, limit, lease_seconds, moment(now))

    def renew_traces(
        self, traces: Iterable[DueTrace], *, lease_seconds: float = 60.0, now: float | None = None
    ) -> dict[tuple[str, str], DueTrace]:
        """Prolong the leases of traces. Returns those that are still held, with their new leases, by tenant and id."""
        with self._database.write() as connection:
            return spans.renew(connection, traces, lease_seconds, moment(now))

    def spans_of(self, traces: Iterable[DueTrace]) -> dict[tuple[str, str], list[StoredPart] | CorruptStore]:
        """The parts of traces, by tenant and trace id; of a trace whose parts cannot be read, why."""
        with self._database.read() as connection:
            return parts.read(connection, traces)

    def assembled(self, made: Sequence[Assembled]) -> None:
        """Write the records of traces and settle these, in one transaction. Their parts are then stored against the
        texts of the records, where that takes less. A trace that was erased meanwhile is gone. Of one whose lease ran
        out and that another took since, only the record is written. One that lacks spans of the request that is stored
        of it changes nothing of that; its judgements are stored, as are those of traces without a record.

        Raises: RecordError when a record cannot be encoded; nothing is written then.
        """
        with self._database.read() as connection:
            made = fragments.without(connection, made)
        if said := fragments.judgements(made):  # first: these are stored once, however often a trace is assembled
            self.add_judgements(said)
        found = [each.record for each in made if each.record is not None]
        batch = records.Batch(found)
        smaller = parts.smaller(made, batch.hashes)
        batch.prepare(self._database)
        with self._database.write() as connection:
            addenda.wait_for_turn(connection, alone=False)
            gone = _erased(connection, {(each.trace.tenant, each.trace.trace_id) for each in made})
            if gone:
                batch = records.Batch([each for each in found if gone.isdisjoint(_traces(each))])
            stored = set(batch.write(connection).hashes.values())
            whole = spans.settle(connection, [each.trace for each in made], gone)
            parts.rewrite(
                connection, [each for each in smaller if each.trace in whole and stored.issuperset(each.texts)]
            )
            tenants.note(connection, _named(made, gone))

    def fail_trace(self, failed: DueTrace, error: str, now: float | None = None) -> None:
        """Try a trace again later; at the cap of attempts it waits for another span. If its lease ran out and another
        took it since, nothing changes."""
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


def _traces(record: RequestRecord) -> set[tuple[str, str]]:
    return erased.traces_of(record.request_id, record.tenant_id, record.trace_id)


def _named(made: Iterable[Assembled], gone: Collection[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The services that spans with a tenant's token named, but those of erased traces."""
    for each in made:
        trace = each.trace.tenant, each.trace.trace_id
        if each.record is not None and each.trace.tenant and trace not in gone:
            yield each.trace.tenant, each.record.service


def _unerased(connection: sa.Connection, packed: Sequence[spans.Packed]) -> Sequence[spans.Packed]:
    gone = _erased(connection, {(each.part.tenant, each.part.trace_id) for each in packed})
    return [each for each in packed if (each.part.tenant, each.part.trace_id) not in gone] if gone else packed


def _erased(connection: sa.Connection, keys: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of these traces, by tenant and trace id, that were erased."""
    digests = {erased.of_trace(*key): key for key in keys}
    return {digests[digest] for digest in erased.among(connection, digests)}
