"""Owns the release gate's runs: what was compared, what was decided, and the whole report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
import zstandard

from ragtrace.errors import CorruptStore
from ragtrace.store.compared import GateRun
from ragtrace.store.compared_tables import gate_run, gate_version
from ragtrace.store.compression import compress, decompress
from ragtrace.store.database import insert
from ragtrace.store.text import bigint, clean

__all__ = ["add", "body", "find", "of_release"]

_COLUMNS: Final = tuple(column for column in gate_run.c if column.name != "body")


def add(connection: sa.Connection, run: GateRun, report: bytes) -> None:
    """Store a run with its report; the same run again changes nothing."""
    row = {column.name: getattr(run, column.name) for column in _COLUMNS}
    texts = {name: clean(value) for name, value in row.items() if name != "created_at"}
    values = {**texts, "created_at": bigint(run.created_at), "body": compress(report)}
    connection.execute(insert(connection, gate_run).values(values).on_conflict_do_nothing())
    versions = sorted({(clean(component), clean(version)) for component, version in run.versions})
    rows = [{"run_id": clean(run.run_id), "component": each, "version": version} for each, version in versions]
    if rows:
        connection.execute(insert(connection, gate_version).on_conflict_do_nothing(), rows)


def find(connection: sa.Connection, service: str | None, limit: int) -> list[GateRun]:
    """The newest runs, newest first."""
    query = sa.select(*_COLUMNS)
    if service is not None:
        query = query.where(gate_run.c.service == clean(service))
    return _runs(connection, query, limit)


def of_release(
    connection: sa.Connection, service: str, component: str, version: str | None, limit: int
) -> list[GateRun]:
    """The newest runs whose candidate carried a version of a component (None: any), newest first."""
    judged = sa.select(gate_version.c.run_id).where(gate_version.c.component == clean(component))
    if version is not None:
        judged = judged.where(gate_version.c.version == clean(version))
    query = sa.select(*_COLUMNS).where(gate_run.c.service == clean(service), gate_run.c.run_id.in_(judged))
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


def body(connection: sa.Connection, run_id: str) -> bytes | None:
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
