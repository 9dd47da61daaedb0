"""Spans that arrived and are not yet a record: parts of traces, each once, when a trace is to be assembled, and how it
becomes the record of a request.

A trace is due a grace period after its root has ended, else some time after its first span. Whoever assembles it takes
it for a while; if a part comes meanwhile, what was assembled is written nevertheless, and the trace is due again. A
lease is known by when it ends, by the number of parts, and by that of attempts: whoever stood still until another one
has the trace, or until it was forgotten and begun anew, changes nothing of it. Times are Unix seconds.

Locks. On PostgreSQL several write at once; none waits for another in a circle, since all keep to one order:

1. Whoever writes or deletes requests locks their rows, and those of other tables, before those of traces.
2. Whoever changes or deletes what is stored of traces locks these first, in the order of their keys, or passes over
   those that are locked. Then come their parts; it never waits for one, since nobody else changes it.
3. Whoever adds spans inserts the new parts first, and then the rows of their traces, each in the order of their keys.
   Where it waits for a part it has no trace yet; and nobody who has a trace waits for a part that is not committed.

Parts are stored by themselves when they come, and against the texts of their record once that is written, so that no
text lies in the store twice while spans are kept. A part that is stored against texts names their hashes, in order; it
cannot be read without them. So they count as used as long as it is there (`ragtrace.store._space`).

Spans that come late may be all that is at hand of a trace: the earlier ones were forgotten when their request was
stored long ago. What was made of all of them stays then; the late ones may be a request of their own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
import zstandard

from ragtrace.errors import CorruptStore, RecordError
from ragtrace.store import _feedback as feedback, _records as records, _requests as requests, service_traits
from ragtrace.store._content import (
    compress,
    compress_against,
    decompress,
    decompress_against,
    fetch_texts,
    read_record,
    texts_of,
)
from ragtrace.store._job_queue import leased_together
from ragtrace.store.database import Database, chunks, clean, insert, insert_new, look_up
from ragtrace.store.rows import Assembled, DueTrace, SpanPart, StoredPart, TraceJudgment
from ragtrace.store.tables import request, span_part, trace
from ragtrace.types import GenerateRun, RequestRecord, RetrieveRun, replace

__all__ = [
    "add_judgments",
    "add_spans",
    "claim",
    "drop",
    "fail",
    "forget",
    "locked",
    "of_traces",
    "read_parts",
    "renew",
    "unreadable",
    "waiting",
    "write_assembled",
]

_LOG: Final = logging.getLogger("ragtrace.store")
_ATTEMPTS: Final = 5
_RETRY: Final = 30.0  # seconds


class _CompressedPart(NamedTuple):
    """A part as it is stored. Its digest is that of the compressed bytes, which are a fifth as many."""

    part: SpanPart
    digest: str
    body: bytes

    @property
    def key(self) -> tuple[str, str, str]:
        """Of its row."""
        return clean(self.part.tenant), self.part.trace_id, self.digest


def _compressed(parts: Iterable[SpanPart]) -> list[_CompressedPart]:
    """The parts made ready, before the write lock is taken."""
    bodies = [(each, compress(each.body)) for each in parts]
    return [_CompressedPart(each, _stored_as(body), body) for each, body in bodies]


def _stored_as(body: bytes) -> str:
    """The digest by which a part is known."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _insert(
    connection: sa.Connection, parts: Sequence[_CompressedPart], now: float, grace: float, ttl: float
) -> tuple[int, list[_CompressedPart]]:
    """Store the parts that are new, and say when their traces are due. Returns how many were new, and the others."""
    rows = {each.key: each for each in parts}
    if not rows:
        return 0, []
    names = ("tenant", "trace_id", "digest")
    statement = insert(connection, span_part).on_conflict_do_nothing().returning(*(span_part.c[name] for name in names))
    values = [dict(zip(names, key, strict=True)) | {"body": rows[key].body} for key in sorted(rows)]
    new = [tuple(row) for row in connection.execute(statement, values)]
    due: dict[tuple[str, str], list[SpanPart]] = {}
    for key in new:
        due.setdefault(key[:2], []).append(rows.pop(key).part)
    if due:
        _touch(connection, due, now, grace, ttl)
    return len(new), list(rows.values())


def _touch(
    connection: sa.Connection, due: dict[tuple[str, str], list[SpanPart]], now: float, grace: float, ttl: float
) -> None:
    statement = insert(connection, trace)
    new = statement.excluded
    # A late span of a trace that was assembled, or whose root has ended, waits for the grace period only.
    soon = sa.func.coalesce(trace.c.due_at, now + grace)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["tenant", "trace_id"],
            set_={
                "parts": trace.c.parts + new.parts,
                "bytes": trace.c.bytes + new.bytes,
                "last_at": new.last_at,
                "due_at": sa.case((soon < new.due_at, soon), else_=new.due_at),
                "attempts": 0,
            },
        ),
        [
            {
                "tenant": tenant,
                "trace_id": trace_id,
                "parts": len(parts),
                "bytes": sum(len(each.body) for each in parts),
                "last_at": now,
                "due_at": now + (grace if any(each.ended for each in parts) else ttl),
                "attempts": 0,
            }
            for (tenant, trace_id), parts in sorted(due.items())
        ],
    )


def _of_failed(connection: sa.Connection, parts: Iterable[_CompressedPart]) -> list[_CompressedPart]:
    """Those of these parts whose trace could not be assembled when it was tried last."""
    candidates = list(parts)
    failed: set[tuple[str, str]] = set()
    for same in of_traces(trace, {part.key[:2] for part in candidates}):
        broken = sa.select(trace.c.tenant, trace.c.trace_id).where(same, trace.c.error.is_not(None))
        failed.update((row.tenant, row.trace_id) for row in connection.execute(broken))
    return [part for part in candidates if part.key[:2] in failed]


def _mend(connection: sa.Connection, parts: Iterable[_CompressedPart], now: float, grace: float) -> None:
    """Put these parts in the place of what is stored of them, where that is something else. Their traces, if they could
    not be assembled, are due again then; the error stays until they are, for the sake of further parts."""
    by_key = {part.key: part for part in parts}
    broken = {key for key, row in locked(connection, {key[:2] for key in by_key}).items() if row.error is not None}
    mended: set[tuple[str, str]] = set()
    for key in sorted(part_key for part_key in by_key if part_key[:2] in broken):
        same = [column == value for column, value in zip(span_part.primary_key, key, strict=True)]
        other = sa.or_(span_part.c.texts.is_not(None), span_part.c.body != by_key[key].body)
        new = {"body": by_key[key].body, "texts": None}
        if connection.execute(sa.update(span_part).where(*same, other).values(**new)).rowcount:
            mended.add(key[:2])
    for chosen in of_traces(trace, mended):
        connection.execute(sa.update(trace).where(chosen).values(due_at=now + grace, last_at=now, attempts=0))


def claim(connection: sa.Connection, limit: int, lease_seconds: float, now: float) -> list[DueTrace]:
    """Take up to `limit` traces that are due, the longest waiting first; they are due again when the lease runs out.

    One that was taken several times in vain goes alone. At the cap it is set aside.
    """
    _bury(connection, now)
    rows = connection.execute(
        sa.select(trace.c.tenant, trace.c.trace_id, trace.c.parts, trace.c.attempts, trace.c.bytes)
        .where(trace.c.due_at.is_not(None), trace.c.due_at <= now)
        .order_by(trace.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    until = now + lease_seconds
    due = [DueTrace(*row, until) for row in rows]
    due = due[: leased_together([due_trace.attempts for due_trace in due])]
    for same in of_traces(trace, ((due_trace.tenant, due_trace.trace_id) for due_trace in due)):
        leased = sa.update(trace).where(same)
        connection.execute(leased.values(due_at=until, attempts=trace.c.attempts + 1))
    return due


def _bury(connection: sa.Connection, now: float) -> None:
    spent = (trace.c.due_at.is_not(None), trace.c.due_at <= now, trace.c.attempts >= _ATTEMPTS)
    error = sa.func.coalesce(trace.c.error, f"whoever assembled it ended {_ATTEMPTS} times before it was done")
    keys = connection.execute(
        sa.select(trace.c.tenant, trace.c.trace_id).where(*spent).with_for_update(skip_locked=True)
    )
    for same in of_traces(trace, ((row.tenant, row.trace_id) for row in keys)):
        connection.execute(sa.update(trace).where(same).values(due_at=None, error=error))


def _settle(
    connection: sa.Connection, traces: Iterable[DueTrace], gone: Collection[tuple[str, str]] = ()
) -> set[tuple[str, str]]:
    """These traces are assembled. One to which a part has come since stays due, one that another has by now stays his;
    those in `gone`, by tenant and trace id, are deleted. Returns those that are settled and had no error before; they
    are locked."""
    given = {(each.tenant, each.trace_id): each for each in traces}
    rows = locked(connection, given)
    drop(connection, [key for key in rows if key in gone])
    there = {key: row for key, row in rows.items() if key not in gone}
    settled = _of_holder(connection, given, there, due_at=None, error=None)
    return {key for key in settled if rows[key].error is None}


def renew(
    connection: sa.Connection, traces: Iterable[DueTrace], lease_seconds: float, now: float
) -> dict[tuple[str, str], DueTrace]:
    """Prolong the leases of those of these traces that whoever was given them still has: these, with the new ones."""
    given = {(each.tenant, each.trace_id): each for each in traces}
    until = now + lease_seconds
    renewed = _of_holder(connection, given, locked(connection, given), due_at=until)
    return {key: dataclasses.replace(given[key], leased_until=until) for key in renewed}


def _of_holder(
    connection: sa.Connection,
    given: Mapping[tuple[str, str], DueTrace],
    rows: Mapping[tuple[str, str], sa.Row[Any]],
    **values: Any,
) -> set[tuple[str, str]]:
    """Change those of these locked traces that are still as they were given: to which no part has come since, and that
    no other has. Returns which."""
    held: dict[float, list[tuple[str, str]]] = {}
    for key, row in rows.items():
        if (row.parts, row.attempts) == (given[key].parts, given[key].attempts + 1):
            held.setdefault(given[key].leased_until, []).append(key)
    changed: set[tuple[str, str]] = set()
    for until, keys in held.items():
        for same in of_traces(trace, keys):
            mine = sa.update(trace).where(same, trace.c.due_at == until)  # not read: a server may print fewer digits
            done = mine.values(**values).returning(trace.c.tenant, trace.c.trace_id)
            changed.update((row.tenant, row.trace_id) for row in connection.execute(done))
    return changed


def fail(connection: sa.Connection, failed: DueTrace, error: str, now: float) -> None:
    """Put a trace back for later; at the cap of attempts it waits for another span. One that another has by now stays
    his."""
    again: dict[str, Any] = {"due_at": None if failed.attempts + 1 >= _ATTEMPTS else now + _RETRY}
    same = (trace.c.tenant == failed.tenant, trace.c.trace_id == failed.trace_id)
    held = (
        trace.c.parts == failed.parts,
        trace.c.attempts == failed.attempts + 1,
        trace.c.due_at == failed.leased_until,
    )
    connection.execute(sa.update(trace).where(*same, *held).values(error=clean(error), **again))


def forget(connection: sa.Connection, before: float, limit: int) -> int:
    """Delete up to `limit` assembled traces to which nothing has come since `before`. Returns how many. One that could
    not be assembled stays, with its error: its spans are nowhere else."""
    settled = (trace.c.due_at.is_(None), trace.c.error.is_(None), trace.c.last_at < before)
    old = sa.select(trace.c.tenant, trace.c.trace_id).where(*settled)
    keys = [
        (row.tenant, row.trace_id)
        for row in connection.execute(old.order_by(trace.c.last_at).limit(limit).with_for_update(skip_locked=True))
    ]
    drop(connection, keys)
    return len(keys)


def drop(connection: sa.Connection, keys: Iterable[tuple[str, str]]) -> None:
    """Delete traces, by tenant and trace id, with their parts. They should be locked."""
    given = list(keys)
    for table in (span_part, trace):
        for same in of_traces(table, given):
            connection.execute(sa.delete(table).where(same))


def locked(connection: sa.Connection, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], sa.Row[Any]]:
    """Those of these traces that are stored, by tenant and trace id, locked in the order of their keys: their parts,
    attempts and errors."""
    names = [trace.c[name] for name in ("tenant", "trace_id", "parts", "attempts", "error")]
    python = connection.dialect.name == "sqlite"  # senders sort as Python does
    order = trace.c.trace_id if python else trace.c.trace_id.collate("C")
    found: dict[tuple[str, str], sa.Row[Any]] = {}
    for same in of_traces(trace, keys):
        rows = connection.execute(sa.select(*names).where(same).order_by(order).with_for_update())
        found.update(((row.tenant, row.trace_id), row) for row in rows)
    return found


def of_traces(table: sa.Table, keys: Iterable[tuple[str, str]]) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions on `tenant` and `trace_id` that choose these traces in their order, by tenant: for pairs in one IN,
    SQLite would look through the whole table."""
    for tenant, own in groupby(sorted(keys), key=lambda key: key[0]):
        for some in chunks(trace_id for _, trace_id in own):
            yield sa.and_(table.c.tenant == tenant, table.c.trace_id.in_(some))


def waiting(connection: sa.Connection) -> tuple[int, float | None]:
    """How many traces are to be assembled, and when the first of them is due; for one that was taken already, when its
    last span came: a lease moves what is due."""
    due = sa.case((trace.c.attempts > 0, trace.c.last_at), else_=trace.c.due_at)
    row = connection.execute(sa.select(sa.func.count(), sa.func.min(due)).where(trace.c.due_at.is_not(None)))
    count, first = row.one()
    return count, first


_HASH: Final = 16  # bytes
_REMEDY: Final = (
    "restore the database from a backup, or send the same spans again once their assembly has failed; until then its "
    "request stays as it is, and its spans are kept"
)


class _SmallerPart(NamedTuple):
    """A part that takes less room against texts: the tenant and id of its trace, its digest, the hashes of the texts,
    and what is stored of it then."""

    trace: tuple[str, str]
    digest: str
    texts: tuple[str, ...]
    body: bytes


def _smaller_parts(made: Iterable[Assembled], hashes: Mapping[str, str]) -> list[_SmallerPart]:
    """The parts that are stored by themselves, made ready to be stored against the texts of their record.

    hashes: of the texts that are written with the records; others may be missing.
    """
    return [part for each in made for part in _smaller(each, hashes)]


def _smaller(made: Assembled, hashes: Mapping[str, str]) -> Iterator[_SmallerPart]:
    alone = [part for part in made.parts if part.alone]
    if made.record is None or not alone:
        return
    texts = {hashes[text]: text for text in texts_of(made.record) if text is not None and text in hashes}
    if not texts:
        return
    bodies = compress_against([part.body for part in alone], _joined(texts.values()))
    for part, body in zip(alone, bodies, strict=True):
        if len(body) + _HASH * len(texts) < part.alone:
            yield _SmallerPart((made.trace.tenant, made.trace.trace_id), part.digest, tuple(texts), body)


def _joined(texts: Iterable[str]) -> bytes:
    return "".join(texts).encode("utf-8", "surrogatepass")


def _rewrite_parts(connection: sa.Connection, parts: Iterable[_SmallerPart]) -> None:
    """Store these parts against their texts. Their traces must be those that `settle` has just settled, which are
    locked and have the parts that were read: one that was forgotten meanwhile would come back.

    They are deleted and inserted: rows that shrink in place would leave SQLite's pages half empty.
    """
    ordered = sorted(parts)
    same = sa.and_(*(column == sa.bindparam(f"of_{column.name}") for column in span_part.primary_key))
    keys = [{"of_tenant": part.trace[0], "of_trace_id": part.trace[1], "of_digest": part.digest} for part in ordered]
    if keys:
        connection.execute(sa.delete(span_part).where(same), keys)
    rows = [(*part.trace, part.digest, part.body, bytes.fromhex("".join(part.texts))) for part in ordered]
    insert_new(connection, tuple(span_part.c), rows)


def read_parts(
    connection: sa.Connection, traces: Iterable[DueTrace]
) -> dict[tuple[str, str], list[StoredPart] | CorruptStore]:
    """The parts of these traces, or why they cannot be read."""
    found: dict[tuple[str, str], list[Any]] = {}
    for same in of_traces(span_part, ((each.tenant, each.trace_id) for each in traces)):
        for row in connection.execute(sa.select(span_part).where(same)):
            found.setdefault((row.tenant, row.trace_id), []).append(row)
    return {key: _inflated(connection, rows) for key, rows in found.items()}


def unreadable(connection: sa.Connection, key: Iterable[str]) -> CorruptStore | None:
    """Why a part cannot be read; None where it can, or is there no more."""
    same = [column == value for column, value in zip(span_part.primary_key, key, strict=True)]
    found = _inflated(connection, connection.execute(sa.select(span_part).where(*same)).all())
    return found if isinstance(found, CorruptStore) else None


def _inflated(connection: sa.Connection, rows: Sequence[Any]) -> list[StoredPart] | CorruptStore:
    try:
        hashes = {digest for row in rows for digest in row.texts or ()}
        texts = fetch_texts(connection, hashes) if hashes else {}
        return [_part(row, texts) for row in rows]
    except CorruptStore as error:
        return error


def _part(row: Any, texts: Mapping[str, str]) -> StoredPart:
    lacking = [digest for digest in row.texts or () if digest not in texts]
    if lacking:
        raise CorruptStore(f"{len(lacking)} of the {len(row.texts)} texts of its spans are missing; {_REMEDY}")
    try:
        if row.texts is None:
            return StoredPart(row.digest, _alone(row.digest, row.body), len(row.body))
        return StoredPart(row.digest, decompress_against(row.body, _joined(texts[digest] for digest in row.texts)))
    except zstandard.ZstdError as error:
        raise CorruptStore(f"its spans are damaged ({error}); {_REMEDY}") from error


def _alone(digest: str, stored: bytes) -> bytes:
    """What is stored by itself. Its digest is that of what is stored; before the ninth schema, of what came."""
    body = decompress(stored)
    if digest != _stored_as(stored) and digest != _stored_as(body):
        raise zstandard.ZstdError("its digest is another")
    return body


def add_spans(database: Database, given: Sequence[SpanPart], grace: float, ttl: float, now: float) -> int:
    """Store parts of traces that were not erased. Returns how many were new."""
    packed = _compressed(given)
    with database.write() as connection:
        new, known = _insert(connection, _unerased(connection, packed), now, grace, ttl)
        broken = _of_failed(connection, known)
    if broken:  # in a transaction of its own, which locks traces before parts
        with database.write() as connection:
            _mend(connection, broken, now, grace)
    return new


def _unerased(connection: sa.Connection, packed: Sequence[_CompressedPart]) -> Sequence[_CompressedPart]:
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


def write_assembled(database: Database, made: Sequence[Assembled]) -> None:
    """Write the records of traces and settle these, in one transaction. Raises: RecordError."""
    with database.read() as connection:
        made = _without_fragments(connection, made)
    if said := _judgments(made):  # first: these are stored once, however often a trace is assembled
        add_judgments(database, said)
    built = [assembled.record for assembled in made if assembled.record is not None]
    batch = records.Batch(built)
    smaller = _smaller_parts(made, batch.hashes)
    batch.prepare(database)
    with database.write() as connection:
        records.wait_for_turn(connection, alone=False)
        gone = _erased(connection, {(assembled.trace.tenant, assembled.trace.trace_id) for assembled in made})
        if gone:
            batch = records.Batch([record for record in built if gone.isdisjoint(_traces(record))])
        stored = set(batch.write(connection).hashes.values())
        whole = _settle(connection, [assembled.trace for assembled in made], gone)
        _rewrite_parts(connection, [part for part in smaller if part.trace in whole and stored.issuperset(part.texts)])
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
