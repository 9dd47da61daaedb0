"""Releases: which version of a component came into use when, as requests carried it or as somebody recorded it; the
versions that prompts have by their frames; and the runs of the release gate: what was compared, what was decided, and
the whole report.

A request that names no `prompt_hash` gets that of its prompt's frame: what stays of it without its chunks, its question
and its numbers. So a prompt that somebody changed without a word is a release like any other. A frame that holds a
conversation or a name is another one in each request, and no version: one counts from its tenth request in a service
on, and only while each tenth of the service's last requests has it."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import sqlalchemy as sa
import zstandard

from ragtrace.errors import CorruptStore
from ragtrace.prompts import escaped, parsed, wrappers_of
from ragtrace.store._content import compress, decompress
from ragtrace.store.database import begins, bigint, clean, insert, insert_for
from ragtrace.store.rows import GateRun, Release
from ragtrace.store.tables import gate_run, gate_version, release
from ragtrace.types import Item, RequestRecord, RetrieveRun, replace

__all__ = [
    "CAME_AT",
    "COMPONENT",
    "PromptFrames",
    "add_gate_run",
    "find",
    "forget",
    "frame_hash",
    "gate_report",
    "gate_runs",
    "gate_runs_of",
    "record",
    "register",
]

CAME_AT: Final = sa.func.coalesce(release.c.recorded_at, release.c.first_seen_at)
"""When a version came into use: the recorded time, else the first request's."""

_KEY: Final = tuple(column.name for column in release.primary_key)
_COLUMNS: Final = (*_KEY, "first_seen_at")


def register(connection: sa.Connection, records: Sequence[RequestRecord]) -> None:
    """Note each version that the records carry, with the earliest time at which one did."""
    first: dict[tuple[str, str, str], int] = {}
    for record in records:
        for component, version in record.versions.items():
            key = (clean(record.service), clean(component), clean(version))
            first[key] = min(first.get(key, bigint(record.started_at)), bigint(record.started_at))
    if not first:
        return
    rows = [dict(zip(_COLUMNS, (*key, first[key]), strict=True)) for key in sorted(first)]
    connection.execute(_registering(connection.dialect.name), rows)


@cache
def _registering(dialect: str) -> sa.Insert:
    statement = insert_for(dialect, release)
    earliest = statement.excluded.first_seen_at
    return statement.on_conflict_do_update(
        index_elements=["service", "component", "version"],
        set_={"first_seen_at": earliest},
        where=sa.or_(release.c.first_seen_at.is_(None), earliest < release.c.first_seen_at),
    )


def record(connection: sa.Connection, service: str, component: str, version: str, at: int) -> None:
    """Note when a version came into use; a later word replaces an earlier one."""
    key = dict(zip(_KEY, map(clean, (service, component, version)), strict=True))
    statement = insert(connection, release).values(**key, recorded_at=bigint(at))
    connection.execute(
        statement.on_conflict_do_update(index_elements=list(_KEY), set_={"recorded_at": statement.excluded.recorded_at})
    )


def forget(connection: sa.Connection, service: str, component: str, version: str) -> bool:
    """Take back when a version came into use; the first request that carried it stays. False when nobody said it."""
    key = (service, component, version)
    same = [column == clean(value) for column, value in zip(release.primary_key, key, strict=True)]
    taken_back = sa.update(release).where(*same, release.c.recorded_at.is_not(None)).values(recorded_at=None)
    found = connection.execute(taken_back).rowcount > 0
    connection.execute(sa.delete(release).where(*same, release.c.first_seen_at.is_(None)))
    return found


def find(connection: sa.Connection, service: str | None) -> list[Release]:
    """All releases, earliest first."""
    query = sa.select(release).order_by(CAME_AT, *release.primary_key)
    if service is not None:
        query = query.where(release.c.service == clean(service))
    return [Release(**row) for row in connection.execute(query).mappings()]


_OF_RUN: Final = tuple(column for column in gate_run.c if column.name != "body")


def add_gate_run(connection: sa.Connection, run: GateRun, report: bytes) -> None:
    """Store a run with its report; the same run again changes nothing."""
    row = {column.name: getattr(run, column.name) for column in _OF_RUN}
    texts = {name: clean(value) for name, value in row.items() if name != "created_at"}
    values = {**texts, "created_at": bigint(run.created_at), "body": compress(report)}
    connection.execute(insert(connection, gate_run).values(values).on_conflict_do_nothing())
    versions = sorted({(clean(component), clean(version)) for component, version in run.versions})
    rows = [{"run_id": clean(run.run_id), "component": each, "version": version} for each, version in versions]
    if rows:
        connection.execute(insert(connection, gate_version).on_conflict_do_nothing(), rows)


def gate_runs(connection: sa.Connection, service: str | None, tenant: str | None, limit: int) -> list[GateRun]:
    """The newest runs, newest first. tenant: of its services alone."""
    query = sa.select(*_OF_RUN)
    if service is not None:
        query = query.where(gate_run.c.service == clean(service))
    if tenant is not None:
        query = query.where(begins(gate_run.c.service, f"{tenant}/"))
    return _runs(connection, query, limit)


def gate_runs_of(
    connection: sa.Connection, service: str, component: str, version: str | None, limit: int
) -> list[GateRun]:
    """The newest runs whose candidate carried a version of a component (None: any), newest first."""
    judged = sa.select(gate_version.c.run_id).where(gate_version.c.component == clean(component))
    if version is not None:
        judged = judged.where(gate_version.c.version == clean(version))
    query = sa.select(*_OF_RUN).where(gate_run.c.service == clean(service), gate_run.c.run_id.in_(judged))
    return _runs(connection, query, limit)


def _runs(connection: sa.Connection, query: sa.Select[Any], limit: int) -> list[GateRun]:
    ordered = query.order_by(gate_run.c.created_at.desc(), gate_run.c.run_id.desc()).limit(limit)
    rows = connection.execute(ordered).mappings().all()
    versions = _versions(connection, [row["run_id"] for row in rows])
    return [GateRun(**row, versions=tuple(versions.get(row["run_id"], ()))) for row in rows]


def _versions(connection: sa.Connection, run_ids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    query = sa.select(gate_version).where(gate_version.c.run_id.in_(run_ids)).order_by(*gate_version.primary_key)
    for row in connection.execute(query):
        found.setdefault(row.run_id, []).append((row.component, row.version))
    return found


def gate_report(connection: sa.Connection, run_id: str) -> bytes | None:
    """The report of the one run whose id begins so; None where there is none, or more than one.

    Raises: CorruptStore.
    """
    beginning = clean(run_id)
    same = sa.func.substr(gate_run.c.run_id, 1, len(beginning)) == beginning
    rows = connection.execute(sa.select(gate_run.c.run_id, gate_run.c.body).where(same).limit(2)).all()
    if len(rows) != 1:
        return None
    try:
        return decompress(rows[0].body)
    except zstandard.ZstdError as error:
        raise CorruptStore(
            f"the gate run {rows[0].run_id!r} cannot be read: {error}; restore the database from a copy"
        ) from error


COMPONENT: Final = "prompt_hash"
"""The version that it becomes, unless the host states one."""

_LAST: Final = 100  # requests of a service
_LEAST: Final = 10
_SERVICES: Final = 500
_LONGEST: Final = 100_000  # characters of a template that are read
_NUMBER: Final = re.compile(r"\d+")
_QUESTION: Final = "\x00"
_DIGEST: Final = 6  # bytes


class PromptFrames:
    """The frames that the last requests of each service had, as far as this process wrote them. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: OrderedDict[str, OrderedDict[str, str]] = OrderedDict()  # frames by service and request

    def named(self, items: Sequence[Item]) -> list[Item]:
        """The items, records with the hash of their prompt's frame where that is a version."""
        return [self.version(item) if isinstance(item, RequestRecord) else item for item in items]

    def version(self, record: RequestRecord) -> RequestRecord:
        """The record with the version of its prompt, where it states none and its frame is known by now."""
        if COMPONENT in record.versions:
            return record
        digest = frame_hash(record)
        if digest is None or not self._is_usual(record, digest):
            return record
        return replace(record, versions={**record.versions, COMPONENT: digest})

    def _is_usual(self, record: RequestRecord, digest: str) -> bool:
        """A request counts once, however often its writing is tried."""
        with self._lock:
            last = self._last.setdefault(record.service, OrderedDict())
            self._last.move_to_end(record.service)
            if len(self._last) > _SERVICES:
                self._last.popitem(last=False)
            last[record.request_id] = digest
            last.move_to_end(record.request_id)
            if len(last) > _LAST:
                last.popitem(last=False)
            return list(last.values()).count(digest) >= _LEAST


def frame_hash(record: RequestRecord) -> str | None:
    """Twelve hexadecimal digits of the frame of a record's last prompt; None where its chunks were not recognized, or
    too few of them to tell what around them is a chunk's own."""
    template = record.generation.prompt_template if record.generation else None
    if template is None or len(template) > _LONGEST:
        return None
    asked = {record.query.original, record.query.rewritten}
    asked |= {run.query for run in record.stages if isinstance(run, RetrieveRun)}
    for question in sorted((text for text in asked if text and text.strip()), key=len, reverse=True):
        template = template.replace(escaped(question), _QUESTION)
    wrappers = wrappers_of(tuple(parsed(template)[0]))
    if wrappers is None:
        return None
    frame = " ".join(_NUMBER.sub("0", wrappers.bare).split())
    return hashlib.blake2b(frame.encode("utf-8", "replace"), digest_size=_DIGEST).hexdigest()
