"""Writes records and what arrives with them, and reads records back.

A record of a revision that is stored already, or of an older one, changes nothing, so a batch may be written again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.coverage import ANALYZER_VERSION
from ragtrace.registry.instruments import REQUESTS
from ragtrace.store import arrivals, queue, totals
from ragtrace.store.content import Texts, chunks, fetch, join, strip
from ragtrace.store.database import insert
from ragtrace.store.payload import read_record, write_record
from ragtrace.store.rows import Delta
from ragtrace.store.tables import release, request
from ragtrace.store.text import bigint, clean
from ragtrace.types import Fault, Feedback, Item, RequestRecord, replace

__all__ = ["Batch", "read"]

_KIND: Final = "coverage"


class Batch:
    """Items made ready for one transaction: everything is encoded before the write lock is taken.

    Raises: RecordError when a record cannot be encoded; nothing is written then.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self._records = _newest(item for item in items if isinstance(item, RequestRecord))
        self._feedback = [item for item in items if isinstance(item, Feedback)]
        self._faults = [item for item in items if isinstance(item, Fault)]
        self._texts = Texts()
        self._rows = {record.request_id: _row(record, self._texts) for record in self._records}

    def write(self, connection: sa.Connection) -> None:
        """Write the batch. Tables and rows are taken in one order, so that two writers never wait for each other."""
        now = time.time()
        self._texts.store(connection)
        new = self._insert(connection)
        changed = self._update(connection, self._rows.keys() - new)
        records = [record for record in self._records if record.request_id in new | changed]
        queue.enqueue(connection, [_job(record) for record in records if record.head_sampled or record.flags], now)
        _register(connection, records)
        arrivals.add_feedback(connection, self._feedback)
        arrivals.add_faults(connection, self._faults)
        totals.add(connection, [_count(record) for record in records if record.request_id in new])

    def _insert(self, connection: sa.Connection) -> set[str]:
        """Insert the requests that are new, and return their ids."""
        if not self._rows:
            return set()
        statement = insert(connection, request).on_conflict_do_nothing().returning(request.c.request_id)
        return set(connection.scalars(statement, list(self._rows.values())))

    def _update(self, connection: sa.Connection, known: Iterable[str]) -> set[str]:
        """Replace the requests of which a newer revision came, and return their ids."""
        newer: list[str] = []
        for ids in chunks(sorted(known)):
            stored = sa.select(request.c.request_id, request.c.record_revision).where(request.c.request_id.in_(ids))
            for row in connection.execute(stored.order_by(request.c.request_id).with_for_update()):
                if row.record_revision < self._rows[row.request_id]["record_revision"]:
                    newer.append(row.request_id)
        if newer:
            statement = sa.update(request).where(request.c.request_id == sa.bindparam("key"))
            connection.execute(statement, [{**self._rows[each], "key": each} for each in newer])
        return set(newer)


def _newest(records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Each request once, at its highest revision, by id."""
    newest: dict[str, RequestRecord] = {}
    for record in records:
        request_id = clean(record.request_id)
        known = newest.get(request_id)
        if known is None or known.record_revision < record.record_revision:
            newest[request_id] = record if request_id == record.request_id else replace(record, request_id=request_id)
    return [newest[request_id] for request_id in sorted(newest)]


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
    }


def _job(record: RequestRecord) -> dict[str, Any]:
    return {
        "request_id": record.request_id,
        "kind": _KIND,
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


def _register(connection: sa.Connection, records: Sequence[RequestRecord]) -> None:
    """Note each version that the records carry, with the earliest time at which one did."""
    first: dict[tuple[str, str, str], int] = {}
    for record in records:
        for component, version in record.versions.items():
            key = (clean(record.service), clean(component), clean(version))
            first[key] = min(first.get(key, bigint(record.started_at)), bigint(record.started_at))
    if not first:
        return
    statement = insert(connection, release)
    earliest = statement.excluded.first_seen_at
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["service", "component", "version"],
            set_={"first_seen_at": earliest},
            where=earliest < release.c.first_seen_at,
        ),
        [dict(zip(release.c.keys(), (*key, first[key]), strict=True)) for key in sorted(first)],
    )


def read(connection: sa.Connection, request_ids: Iterable[str]) -> dict[str, RequestRecord]:
    """The records of these ids that are stored, texts and feedback joined. Raises: CorruptStore, RecordError."""
    stored: dict[str, bytes] = {}
    for ids in chunks(dict.fromkeys(map(clean, request_ids))):
        columns = sa.select(request.c.request_id, request.c.payload).where(request.c.request_id.in_(ids))
        stored.update((row.request_id, row.payload) for row in connection.execute(columns))
    bare = {request_id: read_record(request_id, payload) for request_id, payload in stored.items()}
    texts = fetch(connection, (digest for _, slots in bare.values() for digest in slots if digest is not None))
    judged = arrivals.feedback_of(connection, bare)
    return {
        request_id: replace(
            join(record, slots, texts), feedback=arrivals.united(record.feedback, judged.get(request_id, []))
        )
        for request_id, (record, slots) in bare.items()
    }
