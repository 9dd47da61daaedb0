"""What people do with the queue: look at its jobs, run dead ones again, take jobs out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.store.bulk import chunks
from ragtrace.store.rows import JobRow, JobState
from ragtrace.store.tables import job

__all__ = ["drop", "find", "retry"]

_FIELDS: Final = tuple(job.c[name] for name in JobRow.__slots__)
_HELD: Final = ("leased",)  # a worker has it in hand


def find(
    connection: sa.Connection,
    state: JobState | None,
    kind: str | None,
    service: str | None,
    limit: int,
    request_id: str | None = None,
) -> list[JobRow]:
    """Jobs, the newest first."""
    chosen = _chosen(state, kind, service, request_id)
    query = sa.select(*_FIELDS).where(*chosen).order_by(job.c.id.desc()).limit(limit)
    return [JobRow(**row) for row in connection.execute(query).mappings()]


def retry(connection: sa.Connection, ids: Sequence[int] | None, kind: str | None, service: str | None) -> int:
    """Make dead jobs pending, with all their attempts again. ids: None for all. Returns how many."""
    again = {"state": "pending", "attempts": 0, "available_at": 0.0, "finished_at": None}
    count = 0
    for where in _pages(ids):
        statement = sa.update(job).where(job.c.state == "dead", *_chosen(None, kind, service), *where)
        count += connection.execute(statement.values(**again)).rowcount
    return count


def drop(
    connection: sa.Connection, ids: Sequence[int] | None, state: JobState, kind: str | None, service: str | None
) -> int:
    """Delete jobs of a state; the requests stay as they are, and one that comes in a newer revision is enqueued again.
    A job that is leased is never deleted. Returns how many."""
    count = 0
    for where in _pages(ids):
        chosen = (job.c.state.not_in(_HELD), *_chosen(state, kind, service), *where)
        count += connection.execute(sa.delete(job).where(*chosen)).rowcount
    return count


def _pages(ids: Sequence[int] | None) -> Iterator[Sequence[sa.ColumnElement[bool]]]:
    if ids is None:
        yield ()
    else:
        yield from ((job.c.id.in_(some),) for some in chunks(ids))


def _chosen(
    state: JobState | None, kind: str | None, service: str | None, request_id: str | None = None
) -> list[sa.ColumnElement[bool]]:
    wanted = {"state": state, "kind": kind, "service": service, "request_id": request_id}
    return [job.c[name] == value for name, value in wanted.items() if value is not None]
