"""Assembly: spans come, wait as parts of a trace, and become the record of a request.

Spans that come late may be all that is at hand of a trace: the earlier ones were forgotten when their request was
stored long ago. What was made of all of them stays then; the late ones may be a request of their own."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from ragtrace.errors import CorruptStore, RecordError
from ragtrace.store import (
    _feedback as feedback,
    _records as records,
    _requests as requests,
    _spans as spans,
    service_traits,
)
from ragtrace.store._content import read_record
from ragtrace.store.database import Database, clean, look_up
from ragtrace.store.rows import Assembled, SpanPart, TraceJudgment
from ragtrace.store.tables import request
from ragtrace.types import GenerateRun, RequestRecord, RetrieveRun, replace

__all__ = ["add_judgments", "add_spans", "write"]

_LOG: Final = logging.getLogger("ragtrace.store")


def add_spans(database: Database, given: Sequence[SpanPart], grace: float, ttl: float, now: float) -> int:
    """Store parts of traces that were not erased. Returns how many were new."""
    packed = spans.compressed(given)
    with database.write() as connection:
        new, known = spans.add(connection, _unerased(connection, packed), now, grace, ttl)
        broken = spans.of_failed(connection, known)
    if broken:  # in a transaction of its own, which locks traces before parts
        with database.write() as connection:
            spans.mend(connection, broken, now, grace)
    return new


def _unerased(connection: sa.Connection, packed: Sequence[spans.CompressedPart]) -> Sequence[spans.CompressedPart]:
    gone = _erased(connection, {(each.part.tenant, each.part.trace_id) for each in packed})
    return [each for each in packed if (each.part.tenant, each.part.trace_id) not in gone] if gone else packed


def _erased(connection: sa.Connection, keys: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of these traces, by tenant and trace id, that were erased."""
    digests = {requests.digest_of_trace(*key): key for key in keys}
    return {digests[digest] for digest in requests.erased_among(connection, digests)}


def add_judgments(database: Database, judgments: Sequence[TraceJudgment]) -> None:
    """Store judgments that name a trace, each once; none of an erased one. Raises: RecordError."""
    with database.write() as connection:
        records.wait_for_turn(connection, alone=True)
        gone = _erased(connection, {(judgment.tenant, judgment.trace_id) for judgment in judgments})
        of_kept_traces = [judgment for judgment in judgments if (judgment.tenant, judgment.trace_id) not in gone]
        records.Batch(feedback.of_requests(connection, of_kept_traces)).write(connection)


def write(database: Database, made: Sequence[Assembled]) -> None:
    """Write the records of traces and settle these, in one transaction. Raises: RecordError."""
    with database.read() as connection:
        made = _without_fragments(connection, made)
    if said := _judgments(made):  # first: these are stored once, however often a trace is assembled
        add_judgments(database, said)
    built = [assembled.record for assembled in made if assembled.record is not None]
    batch = records.Batch(built)
    smaller = spans.smaller_parts(made, batch.hashes)
    batch.prepare(database)
    with database.write() as connection:
        records.wait_for_turn(connection, alone=False)
        gone = _erased(connection, {(assembled.trace.tenant, assembled.trace.trace_id) for assembled in made})
        if gone:
            batch = records.Batch([record for record in built if gone.isdisjoint(_traces(record))])
        stored = set(batch.write(connection).hashes.values())
        whole = spans.settle(connection, [assembled.trace for assembled in made], gone)
        spans.rewrite_parts(
            connection, [part for part in smaller if part.trace in whole and stored.issuperset(part.texts)]
        )
        service_traits.note_named(connection, _named(made, gone))


def _traces(record: RequestRecord) -> set[tuple[str, str]]:
    return requests.traces_of(record.request_id, record.tenant_id, record.trace_id)


def _named(made: Iterable[Assembled], gone: Collection[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The services that spans with a tenant's token named, but those of erased traces."""
    for each in made:
        trace = each.trace.tenant, each.trace.trace_id
        if each.record is not None and each.trace.tenant and trace not in gone:
            yield each.trace.tenant, each.record.service


class _AssembledRequest(NamedTuple):
    """A stored request, with the spans of which it tells."""

    request_id: str
    ended_at: int
    span_ids: set[str]


def _without_fragments(connection: sa.Connection, made: Sequence[Assembled]) -> list[Assembled]:
    """The traces, without the record of one that lacks spans of the request that is stored of it. A record that is of
    another request, which began after that one had ended, has an id of its own."""
    ids = dict.fromkeys(clean(assembled.record.request_id) for assembled in made if assembled.record)
    stored = look_up(connection, (request.c.request_id, request.c.ended_at, request.c.payload), ids)
    fragments = {fragment.request_id: fragment for fragment in _known(stored) if fragment.span_ids}
    return [_whole(connection, assembled, fragments) for assembled in made]


def _whole(connection: sa.Connection, made: Assembled, known: Mapping[str, _AssembledRequest]) -> Assembled:
    stored = known.get(clean(made.record.request_id)) if made.record else None
    if made.record is None or stored is None or not made.span_ids or stored.span_ids <= made.span_ids:
        return made
    if stored.span_ids.isdisjoint(made.span_ids):
        apart = _apart(connection, made.record, made.span_ids, stored)
        if apart is not None:
            return made._replace(record=apart)
    _LOG.warning(
        "spans of trace %s came when the others had been forgotten: its request stays as it is; keep spans for longer"
        " (--keep of `ragtrace serve`) where they come so late",
        made.trace.trace_id,
    )
    return made._replace(record=None, judgments=tuple(replace(each, request_id="") for each in made.record.feedback))


def _apart(
    connection: sa.Connection, record: RequestRecord, span_ids: Set[str], stored: _AssembledRequest
) -> RequestRecord | None:
    """A later request of a trace, under its own id: one that searched and answered after the first one had ended. None
    for spans that may be of that one, such as the call of a model that judges it."""
    columns = (request.c.request_id, request.c.ended_at, request.c.payload)
    given = f"{clean(record.request_id)}~"
    later = sa.select(*columns).where(
        request.c.trace_id == clean(record.trace_id), sa.func.substr(request.c.request_id, 1, len(given)) == given
    )
    for each in _known(map(tuple, connection.execute(later))):
        if not each.span_ids.isdisjoint(span_ids):
            return replace(record, request_id=each.request_id) if each.span_ids <= span_ids else None
    kinds = {type(run) for run in record.stages}
    follows = record.started_at >= stored.ended_at
    return requests.another(record) if follows and {RetrieveRun, GenerateRun} <= kinds else None


def _known(rows: Iterable[tuple[Any, ...]]) -> Iterator[_AssembledRequest]:
    for request_id, ended_at, payload in rows:
        try:
            record, _ = read_record(request_id, payload)
        except (CorruptStore, RecordError) as error:
            _LOG.error("request %s is written anew: %s", request_id, error)
            continue
        yield _AssembledRequest(request_id, ended_at, _span_ids(record))


def _span_ids(record: RequestRecord) -> set[str]:
    return {each for each in (record.span_id, *(run.span_id for run in record.stages)) if each}


def _judgments(made: Sequence[Assembled]) -> list[TraceJudgment]:
    """What judges requests whose records are not among these."""
    return [
        TraceJudgment(each.trace.tenant, each.trace.trace_id, said)
        for each in made
        if each.record is None
        for said in each.judgments
    ]
