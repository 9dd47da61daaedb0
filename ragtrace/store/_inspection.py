"""Looks whether a store is whole: SQLite's file, the payloads, the texts to which they refer, the jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore, RecordError
from ragtrace.store import _spans as spans
from ragtrace.store._content import fetch_texts, read_addendum, read_analysis, read_gold, read_record, read_traffic
from ragtrace.store._space import Space, measure
from ragtrace.store.database import Database, pages
from ragtrace.store.tables import (
    addendum,
    analysis,
    attribution_share,
    background,
    diagnosis,
    drawn,
    gold,
    job,
    metadata,
    request,
    request_label,
    score,
    search_entry,
    span_part,
    trait,
)

__all__ = ["Inspected", "count_rows", "inspect"]

_PAGE: Final = 200
_OF_REQUEST: Final = (trait, analysis, score, diagnosis, attribution_share, drawn, request_label, search_entry)


@dataclass(frozen=True, slots=True)
class Inspected:
    """What was found. problems: one line for each, with its remedy; none: the store is whole.

    read: how many payloads were read. rows: of each table.
    """

    problems: tuple[str, ...]
    read: int
    rows: Mapping[str, int]
    space: Space


def inspect(database: Database, sample: int | None) -> Inspected:
    """Look at the newest `sample` requests and at as many addenda, analyses, gold sets and parts of traces, whichever
    come first by their keys, or (None) at all of them.

    Raises: CorruptStore when the file is so damaged that it cannot be read.
    """
    problems = [*_broken_file(database)]
    if problems:  # reading on would stop somewhere
        return Inspected(tuple(problems), 0, {}, measure(database))
    read = 0
    for number, problem in chain(_payloads(database, sample), _spans(database, sample)):
        read += number
        problems += problem
    problems += _lost(database, everything=sample is None)
    with database.read() as connection:
        rows = count_rows(connection)
    return Inspected(tuple(problems), read, rows, measure(database))


def count_rows(connection: sa.Connection) -> dict[str, int]:
    """How many rows each table has."""
    return {name: _count(connection, table) for name, table in sorted(metadata.tables.items())}


def _count(connection: sa.Connection, table: sa.FromClause, *where: sa.ColumnElement[bool]) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table).where(*where)) or 0


def _broken_file(database: Database) -> Iterator[str]:
    """What SQLite says of its file."""
    if database.address.is_sqlite:
        with database.driver() as connection:
            try:
                said = [row[0] for row in connection.execute("PRAGMA quick_check(20)")]
            except sqlite3.DatabaseError as error:
                said = [str(error)]
        yield from (f"SQLite: {line}; restore the file from a backup" for line in said if line != "ok")


def _payloads(database: Database, sample: int | None) -> Iterator[tuple[int, list[str]]]:
    """For each page how many payloads it has, and what is wrong with them."""
    kinds = (
        (request, ("request_id",), request.c.payload, request.c.started_at),
        (addendum, ("addendum_id",), addendum.c.body, addendum.c.created_at),
        (analysis, analysis.primary_key.columns.keys(), analysis.c.body, analysis.c.computed_at),
        (gold, ("service", "question_hash"), gold.c.body, gold.c.question_hash),
        (background, ("service",), background.c.body, background.c.made_at),
    )
    for table, names, body, time in kinds:
        key = [table.c[name] for name in names]
        for page in _pages(database, key, body, time, sample):
            with database.read() as connection:
                yield len(page), [problem for row in page for problem in _wrong(connection, table, row)]


def _spans(database: Database, sample: int | None) -> Iterator[tuple[int, list[str]]]:
    """For each page of parts of traces how many it has, and for each trace one of whose parts cannot be read, why. One
    part is read at a time: it may be large."""
    key = list(span_part.primary_key)
    told: tuple[str, ...] = ()
    for page in _pages(database, key, span_part.c.texts, span_part.c.trace_id, sample):
        problems: list[str] = []
        with database.read() as connection:
            for tenant, trace_id, digest, _ in page:
                error = None if told == (tenant, trace_id) else spans.unreadable(connection, (tenant, trace_id, digest))
                if error is not None:
                    told = (tenant, trace_id)
                    problems.append(f"trace {tenant}/{trace_id}: {error}")
        yield len(page), problems


def _pages(
    database: Database, key: Sequence[sa.Column[Any]], body: sa.Column[Any], time: sa.Column[Any], sample: int | None
) -> Iterator[Sequence[Any]]:
    if sample is not None:
        order = [time.desc(), *key] if body.table is request else key  # the others have no index of their time
        with database.read() as connection:
            yield connection.execute(sa.select(*key, body).order_by(*order).limit(sample)).all()
        return
    yield from pages(database.read, sa.select(*key, body), key, _PAGE)


def _wrong(connection: sa.Connection, table: sa.Table, row: Any) -> Iterator[str]:
    """What is wrong with one payload, or with the texts that it refers to."""
    name = f"{table.name} {'/'.join(str(part) for part in row[:-1])}"
    hashes: set[str] = set()
    try:
        if table is request:
            hashes = {each for each in read_record(row[0], row[-1])[1] if each is not None}
        elif table is addendum:
            hashes = {each for each in read_addendum(row[0], row[-1])[1] if each is not None}
        elif table is analysis:
            read_analysis(row[-1])
        elif table is background:
            read_traffic(row[-1])
        else:
            read_gold(row[-1])
    except (CorruptStore, RecordError) as error:
        yield f"{name}: {error}"
    try:
        lacking = hashes - fetch_texts(connection, sorted(hashes)).keys()
    except CorruptStore as error:
        yield f"{name}: {error}"
    else:
        if lacking:
            yield f"{name}: {len(lacking)} of its {len(hashes)} texts are missing; restore the database from a backup"


def _lost(database: Database, *, everything: bool) -> Iterator[str]:
    """Rows whose request is not there."""
    remedy = {job.name: "ragtrace jobs drop --all takes dead ones out"}
    for table in (job, *(_OF_REQUEST if everything else ())):
        with database.read() as connection:
            there = sa.exists().where(request.c.request_id == table.c.request_id)
            number = _count(connection, table, sa.not_(there))
        if number:
            yield f"{table.name}: {number:,} rows without a request; {remedy.get(table.name, 'they are harmless')}"
