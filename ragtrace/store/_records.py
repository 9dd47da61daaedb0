"""Records, written with what arrives with them, and read back; their addenda, which became known outside of them.

A record of a revision that is stored already, or of an older one, changes nothing, and an addendum is united with its
record once: so a batch may be written again. The flags that hold stand in their column; the payload may lack new ones.

An addendum is kept whether or not its request is stored. A stored record's revision is the one that its recorder gave,
plus one for each addendum in it. So a record that is written again is recognized as known, and a newer one of its
recorder takes the addenda along.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from ragtrace.errors import CorruptStore, RecordError
from ragtrace.plausible_values import MOST_SKEW, sentences, settle
from ragtrace.registry.instruments import REQUESTS
from ragtrace.store import (
    _feedback as feedback,
    _job_queue as job_queue,
    _releases as releases,
    _requests as requests,
    _search as search,
    corpus,
    populations,
    totals,
)
from ragtrace.store._content import (
    Slots,
    Texts,
    fetch_texts,
    join,
    read_addendum,
    read_record,
    strip,
    write_addendum,
    write_record,
)
from ragtrace.store.database import Database, bigint, chunks, clean, insert, insert_for, look_up, take_advisory_lock
from ragtrace.store.rows import COVERAGE, Delta
from ragtrace.store.tables import addendum, request
from ragtrace.types import (
    ANALYZER_VERSION,
    Addendum,
    Fault,
    Feedback,
    Item,
    RequestRecord,
    SourceReport,
    TakenRequest,
    content_hash,
    encode_addendum,
    replace,
)

__all__ = ["Batch", "add_flags", "read", "wait_for_turn"]

_LOG: Final = logging.getLogger("ragtrace.store")
_TURN: Final = 0x7261677472610001  # "ragtra", 1
_REQUEST: Final = "request"


class _StoredRevision(NamedTuple):
    """A request that was stored before: the revision that its recorder gave, and its flags."""

    revision: int
    flags: tuple[str, ...]


class Batch:
    """Items made ready for one transaction: everything is encoded before the write lock is taken.

    Raises: RecordError when a record or addendum cannot be encoded, or is not built yet; nothing is written then.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        if any(isinstance(item, TakenRequest) for item in items):
            raise RecordError("a request that was taken is no record; build it first (ragtrace.record.build_record)")
        now = time.time_ns()
        self._items = tuple(
            settle(item, now, MOST_SKEW, earliest=0) if isinstance(item, RequestRecord) else item for item in items
        )
        records = requests.newest(item for item in self._items if isinstance(item, RequestRecord))
        self._records, self._others = requests.split(records)
        self._feedback = [item for item in items if isinstance(item, Feedback)]
        self._faults = [item for item in items if isinstance(item, Fault)]
        self._reports = [item for item in items if isinstance(item, SourceReport)]
        self._texts = Texts()
        self._rows = {record.request_id: _row(record, self._texts) for record in self._records}
        for record in self._others:
            _row(record, self._texts)  # its texts, and whether it can be encoded
        self._addenda = _Addenda((item for item in items if isinstance(item, Addendum)), self._texts)

    @property
    def hashes(self) -> Mapping[str, str]:
        """The texts of the batch, each with its hash."""
        return self._texts.hashes

    def prepare(self, database: Database) -> None:
        """Do before the transaction that writes the batch what would keep other writers waiting in it."""
        self._texts.prepare(database)

    def write(self, connection: sa.Connection) -> Batch:
        """Write the batch, without what was erased, and return what was written. Tables and rows are taken in one
        order, so that two writers never wait for each other."""
        if self._rows or self._addenda.request_ids or self._feedback:
            self._addenda.take_advisory_lock(connection, alone=bool(self._feedback))
        kept = requests.without_erased(connection, self._items)
        batch = self if len(kept) == len(self._items) else Batch(kept)
        batch._write(connection)
        return batch

    def _write(self, connection: sa.Connection) -> None:
        now = time.time()
        self._texts.store(connection, now)
        by_id, new, stored = self._take(connection)
        records = self._unite(connection, by_id, stored)
        job_queue.enqueue(connection, [_job(record) for record in records if record.head_sampled or record.flags], now)
        populations.put_traits(connection, records)
        search.put(connection, records)
        releases.register(connection, records)
        said = [*self._feedback, *feedback.carried(by_id)]
        feedback.add(connection, said)
        repeated = [requests.repeated(by_id[request_id]) for request_id in sorted(new - self._rows.keys())]
        outside = [fault for request_id in sorted(new) for fault in _outside(by_id[request_id])]
        feedback.add_faults(connection, [*self._faults, *repeated, *outside])
        corpus.add_reports(connection, self._reports)
        feedback.take_over(connection, [by_id[request_id] for request_id in sorted(new)])
        begun = ((request_id, _REQUEST, bigint(by_id[request_id].started_at)) for request_id in new)
        first = totals.uncounted(connection, begun)  # one that was deleted may come again
        judged = feedback.judgments(connection, said, new)
        counts = [_count(by_id[request_id]) for request_id, _ in sorted(first)]
        totals.add(connection, [*counts, *feedback.count_outcomes(connection, judged)])

    def _take(
        self, connection: sa.Connection
    ) -> tuple[Mapping[str, RequestRecord], set[str], Mapping[str, _StoredRevision]]:
        """Insert the requests that are new, and lock the others: all records under the ids that they have in the store,
        the new ids, and what is stored of the others.

        One that is deleted as too old after it was found to be there must be inserted, and nobody may insert while he
        has others locked, or two writers would wait for each other: so all are given back, and taken anew.
        """
        while True:
            begun = connection.begin_nested()
            given, new = self._insert(connection)
            stored = _locked(connection, (given.keys() | self._addenda.request_ids) - new)
            if given.keys() <= new | stored.keys():
                begun.commit()
                return given, new, stored
            begun.rollback()

    def _insert(self, connection: sa.Connection) -> tuple[dict[str, RequestRecord], set[str]]:
        """Insert the requests that are new: all records under the ids that they have in the store, and the new ids."""
        new = _inserted(connection, list(self._rows.values()))
        known = [record for record in self._records if record.request_id not in new]
        if not known and not self._others:
            return {record.request_id: record for record in self._records}, new
        apart = {record.request_id: record for record in requests.tell_apart(connection, [*known, *self._others])}
        further = sorted(apart.keys() - self._rows.keys())
        given = {record.request_id: record for record in self._records if record.request_id in new} | apart
        return given, new | _inserted(connection, [_row(apart[each], Texts()) for each in further])

    def _unite(
        self, connection: sa.Connection, records: Mapping[str, RequestRecord], stored: Mapping[str, _StoredRevision]
    ) -> list[RequestRecord]:
        """Unite records and addenda, whichever came first, and return the records that are new or changed, by id."""
        given = {request_id: record for request_id, record in records.items() if _is_newer(record, stored)}
        added = self._addenda.insert(connection)
        known = _find_addenda(connection, given)
        extended = {
            request_id: _united(record, added[request_id])
            for request_id in sorted(stored.keys() & added.keys() - given.keys())
            if (record := _readable(connection, request_id)) is not None
        }
        for request_id, record in given.items():
            if request_id in stored or request_id in known:
                held = _flagged(record, stored[request_id].flags if request_id in stored else ())
                extended[request_id] = _united(held, known.get(request_id, ()))
        _replace(connection, extended)
        changed = given | extended
        return [changed[request_id] for request_id in sorted(changed)]


def _inserted(connection: sa.Connection, rows: list[dict[str, Any]]) -> set[str]:
    """Insert those of these requests that are new, and return their ids."""
    if not rows:
        return set()
    return set(connection.scalars(_inserting(connection.dialect.name), rows))


@cache
def _inserting(dialect: str) -> Any:
    return insert_for(dialect, request).on_conflict_do_nothing().returning(request.c.request_id)


def _locked(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, _StoredRevision]:
    """Those of these requests that are stored. Their rows stay locked, in one order."""
    stored: dict[str, _StoredRevision] = {}
    columns = sa.select(request.c.request_id, request.c.record_revision, request.c.flags)
    for ids in chunks(sorted(request_ids)):
        numbers = _count_addenda(connection, ids)
        rows = connection.execute(
            columns.where(request.c.request_id.in_(ids)).order_by(request.c.request_id).with_for_update()
        )
        for row in rows:
            revision = row.record_revision - numbers.get(row.request_id, 0)
            stored[row.request_id] = _StoredRevision(revision, tuple(json.loads(row.flags)))
    return stored


def _is_newer(record: RequestRecord, stored: Mapping[str, _StoredRevision]) -> bool:
    known = stored.get(record.request_id)
    return known is None or known.revision < bigint(record.record_revision)


def _readable(connection: sa.Connection, request_id: str) -> RequestRecord | None:
    """A stored record; None when it cannot be read: raised, that would keep the records behind it out of the store."""
    try:
        return _read(connection, [request_id]).get(request_id)
    except (CorruptStore, RecordError) as error:
        _LOG.error("an addendum cannot be united with its request: %s", error)
        return None


def _flagged(record: RequestRecord, flags: Iterable[str]) -> RequestRecord:
    """The record with these flags as well: one that was raised stays."""
    return replace(record, flags=tuple(dict.fromkeys((*record.flags, *flags))))


def _replace(connection: sa.Connection, records: Mapping[str, RequestRecord]) -> None:
    """Write stored requests anew; their texts are stored."""
    rows = [{**_row(records[each], Texts()), "key": each} for each in sorted(records)]
    if rows:
        connection.execute(sa.update(request).where(request.c.request_id == sa.bindparam("key")), rows)


def add_flags(connection: sa.Connection, earned: Mapping[str, Iterable[str]]) -> None:
    """Raise flags of stored requests, by their ids. Their revisions stay: nothing that is analyzed has changed."""
    by_id = {clean(request_id): flags for request_id, flags in earned.items()}
    given = request.c.request_id
    ordered = given if connection.dialect.name == "sqlite" else given.collate("C")  # writers sort as Python does
    raised = sa.select(given, request.c.flags).order_by(ordered).with_for_update()
    changed = [
        {
            "of_id": row.request_id,
            "flags": json.dumps(list(dict.fromkeys((*json.loads(row.flags), *by_id[row.request_id])))),
        }
        for ids in chunks(sorted(by_id))
        for row in connection.execute(raised.where(given.in_(ids)))
    ]
    if changed:
        connection.execute(sa.update(request).where(given == sa.bindparam("of_id")), changed)


def _row(record: RequestRecord, texts: Texts) -> dict[str, Any]:
    bare, slots = strip(record, texts)
    return {
        "request_id": record.request_id,
        "service": clean(record.service),
        "segment": clean(record.segment),
        "started_at": bigint(record.started_at),
        "ended_at": bigint(record.ended_at),
        "status": record.status,
        "trace_id": clean(record.trace_id),
        "query_class": clean(record.query.query_class),
        "flags": json.dumps(record.flags),
        "head_sampled": record.head_sampled,
        "head_probability": record.head_probability,
        "record_revision": bigint(record.record_revision),
        "payload": write_record(bare, slots),
        "tenant_id": clean(record.tenant_id),
        "session_id": clean(record.session_id),
        "stated_at": requests.began_at(record) if "started_at" in record.stated else None,
    }


def _outside(record: RequestRecord) -> Iterator[Fault]:
    """One for each kind of number in a record that cannot be."""
    for name, sentence in sentences(record.stated).items():
        message = f"request {record.request_id}: {sentence}"
        yield Fault(service=record.service, where="bounds", kind=name, message=message, at=record.started_at)


def _job(record: RequestRecord) -> dict[str, Any]:
    return {
        "request_id": record.request_id,
        "kind": COVERAGE,
        "analyzer_version": ANALYZER_VERSION,
        "record_revision": bigint(record.record_revision),
        "service": clean(record.service),
        "flagged": bool(record.flags),
    }


def _count(record: RequestRecord) -> Delta:
    labels = {
        "service": clean(record.service),
        "segment": clean(record.segment),
        "status": record.status,
        "stratum": "random" if record.head_sampled else "flagged",
    }
    return Delta(REQUESTS.name, tuple(labels.items()), 1.0)


def read(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, RequestRecord]:
    """The records of these ids that are stored, texts and feedback joined. Raises: CorruptStore, RecordError."""
    records = _read(connection, request_ids)
    judged = feedback.find(connection, records)
    return {
        request_id: replace(record, feedback=feedback.united(request_id, record.feedback, judged.get(request_id, [])))
        for request_id, record in records.items()
    }


def _read(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, RequestRecord]:
    flags: dict[str, str] = {}
    bare: dict[str, tuple[RequestRecord, Slots]] = {}
    columns = sa.select(request.c.request_id, request.c.flags, request.c.payload)
    for ids in chunks(dict.fromkeys(map(clean, request_ids))):
        for row in connection.execute(columns.where(request.c.request_id.in_(ids))):
            flags[row.request_id], bare[row.request_id] = row.flags, read_record(row.request_id, row.payload)
    texts = fetch_texts(connection, (digest for _, slots in bare.values() for digest in slots if digest is not None))
    return {
        request_id: replace(join(record, slots, texts), flags=tuple(json.loads(flags[request_id])))
        for request_id, (record, slots) in bare.items()
    }


class _Addenda:
    """The addenda of one batch, each once, encoded. Raises: RecordError when one cannot be."""

    def __init__(self, given: Iterable[Addendum], texts: Texts) -> None:
        self._given = {_identity(each): each for each in given}
        self._rows = [_addendum_row(identity, self._given[identity], texts) for identity in sorted(self._given)]
        self.request_ids: Collection[str] = {row["request_id"] for row in self._rows}

    def take_advisory_lock(self, connection: sa.Connection, *, alone: bool = False) -> None:
        """Writers of records go side by side, one of addenda (or of what else joins a record) alone: else a record and
        its addendum, written by two at once, would not see each other."""
        wait_for_turn(connection, alone=bool(self._rows) or alone)

    def insert(self, connection: sa.Connection) -> dict[str, list[Addendum]]:
        """Keep those that are new, and return them by request, oldest first."""
        found: dict[str, list[Addendum]] = defaultdict(list)
        if self._rows:
            statement = insert(connection, addendum).on_conflict_do_nothing()
            new = connection.scalars(statement.returning(addendum.c.addendum_id), self._rows)
            for each in sorted((self._given[identity] for identity in new), key=_order):
                found[clean(each.request_id)].append(each)
        return found


def wait_for_turn(connection: sa.Connection, *, alone: bool = False) -> None:
    """See `Addenda.take_advisory_lock`."""
    take_advisory_lock(connection, _TURN, shared=not alone)


def _addendum_row(identity: str, given: Addendum, texts: Texts) -> dict[str, Any]:
    return {
        "addendum_id": identity,
        "request_id": clean(given.request_id),
        "created_at": bigint(given.created_at),
        "body": write_addendum(*strip(given, texts)),
    }


def _identity(given: Addendum) -> str:
    """Its id; where it has none, a hash of what it says."""
    return clean(given.addendum_id) or content_hash(encode_addendum(given).decode())


def _order(given: Addendum) -> tuple[int, str]:
    return given.created_at, given.addendum_id


def _count_addenda(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, int]:
    """How many addenda these requests have; those without any are left out."""
    counts: dict[str, int] = {}
    for ids in chunks(request_ids):
        query = sa.select(addendum.c.request_id, sa.func.count().label("number"))
        rows = connection.execute(query.where(addendum.c.request_id.in_(ids)).group_by(addendum.c.request_id))
        counts.update((row.request_id, row.number) for row in rows)
    return counts


def _find_addenda(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, list[Addendum]]:
    """All addenda of these requests, oldest first. One that is damaged is there, and adds nothing."""
    found: dict[str, list[Addendum]] = defaultdict(list)
    having = {request_id for (request_id,) in look_up(connection, (addendum.c.request_id,), request_ids)}
    for ids in chunks(sorted(having)):
        query = sa.select(addendum).where(addendum.c.request_id.in_(ids))
        for row in connection.execute(query.order_by(addendum.c.created_at, addendum.c.addendum_id)).all():
            found[row.request_id].append(_read_addendum(connection, row))
    return found


def _read_addendum(connection: sa.Connection, row: sa.Row[Any]) -> Addendum:
    try:
        bare, slots = read_addendum(row.addendum_id, row.body)
        return join(bare, slots, fetch_texts(connection, (digest for digest in slots if digest is not None)))
    except (CorruptStore, RecordError) as error:  # raised on, it would keep every record behind it out of the store
        _LOG.error("an addendum of request %s is lost: %s", row.request_id, error)
        return Addendum(request_id=row.request_id, service="", addendum_id=row.addendum_id)


def _united(record: RequestRecord, given: Sequence[Addendum]) -> RequestRecord:
    """The record with these addenda, each a revision of its own."""
    extended = reduce(RequestRecord.extended, given, record)
    return replace(extended, record_revision=record.record_revision + len(given))
