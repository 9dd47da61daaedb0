"""Owns the traits of requests: what tells which requests of two versions can be compared, in narrow columns.

A record's payload is large; a comparison of many thousands of requests reads none of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from ragtrace.store.compared import Replayed, Traits
from ragtrace.store.compared_tables import trait
from ragtrace.store.database import insert
from ragtrace.store.golds import question_hash
from ragtrace.store.tables import request
from ragtrace.store.text import bigint, clean
from ragtrace.types import GenerateRun, RequestRecord

__all__ = ["REPLAY", "put", "replayed", "replays", "traits_of"]

REPLAY: Final = "ragtrace.replay."
"""What the names of a replay's attributes begin with: `run`, `question`, `attempt`, `document`."""


def traits_of(record: RequestRecord) -> Traits:
    """The traits of a record: a replay's own question id, else the hash of what was asked."""
    replay = {name: record.attributes.get(REPLAY + name) for name in ("run", "question", "attempt", "document")}
    asked = record.query.original
    attempt = replay["attempt"]
    return Traits(
        question=_text(replay["question"]) or (question_hash(asked) if asked.strip() else ""),
        cluster=clean(record.session_id) or _text(replay["document"]),
        versions={clean(name): clean(version) for name, version in record.versions.items()},
        input_tokens=_tokens(record, "input_tokens"),
        output_tokens=_tokens(record, "output_tokens"),
        replay=_text(replay["run"]),
        attempt=bigint(attempt) if isinstance(attempt, int) else 1,
    )


def _text(value: object) -> str | None:
    return clean(str(value)) if value not in (None, "") else None


def _tokens(record: RequestRecord, kind: str) -> int | None:
    usages = [run.generation.usage for run in record.stages if isinstance(run, GenerateRun)]
    known = [number for usage in usages if usage and (number := getattr(usage, kind)) is not None]
    return max(0, bigint(sum(known))) if known else None


def put(connection: sa.Connection, records: Sequence[RequestRecord]) -> None:
    """Write the traits of records that are new or changed."""
    rows = [_row(record) for record in records]
    if rows:
        statement = insert(connection, trait)
        rest = {column.name: statement.excluded[column.name] for column in trait.c if not column.primary_key}
        connection.execute(statement.on_conflict_do_update(index_elements=["request_id"], set_=rest), rows)


def _row(record: RequestRecord) -> dict[str, Any]:
    found = traits_of(record)
    values = {name: getattr(found, name) for name in Traits.__slots__}
    return {"request_id": record.request_id, **values, "versions": json.dumps(found.versions, sort_keys=True)}


def replayed(connection: sa.Connection, run: str) -> list[Replayed]:
    """The requests of a replay by question, the earlier attempts first."""
    columns = (trait.c.question, trait.c.attempt, request.c.request_id, request.c.service, request.c.status)
    joined = trait.join(request, request.c.request_id == trait.c.request_id)
    of_run = sa.select(*columns).select_from(joined).where(trait.c.replay == clean(run))
    return [Replayed(*row) for row in connection.execute(of_run.order_by(trait.c.question, trait.c.attempt))]


def replays(connection: sa.Connection) -> list[str]:
    """The names of the replays that have requests."""
    found: list[str] = []
    query = sa.select(sa.func.min(trait.c.replay)).where(
        trait.c.replay.is_not(None)
    )  # one look into the index for each
    while (name := connection.scalar(query.where(trait.c.replay > found[-1]) if found else query)) is not None:
        found.append(name)
    return found
