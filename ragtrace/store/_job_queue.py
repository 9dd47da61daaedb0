"""The queue of analyses: jobs that are leased, fenced, retried and, past the cap of attempts, set aside.

A job goes pending → leased → done. A lease that runs out puts it back; so does a failure, after a pause; the cap makes
it dead instead. The fence is the lease's token: only the newest lease of a job can heartbeat, finish or fail it. People
look at jobs, run dead ones again, and take jobs out. Times are Unix seconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, get_args

import sqlalchemy as sa

from ragtrace.store.database import chunks, insert, insert_for
from ragtrace.store.rows import COVERAGE, Backlog, Job, JobRow, JobState
from ragtrace.store.tables import diagnosis, job, request

__all__ = [
    "ATTEMPTS",
    "ask",
    "backlog",
    "backlog_queries",
    "before",
    "claim",
    "claimable",
    "depth",
    "drawn",
    "drop",
    "enqueue",
    "expired",
    "fail",
    "find",
    "finish",
    "heartbeat",
    "leased_together",
    "owned",
    "redo",
    "release",
    "retry",
]

ATTEMPTS: Final = 5
_FLAGGED: Final = 10  # priority of a flagged request's job; others have 0

_REPEATED: Final = -10

_IN_VAIN: Final = 2  # attempts, after which a job is leased alone

_FIELDS: Final = tuple(job.c[name] for name in Job.__slots__)
_SHOWN: Final = tuple(job.c[name] for name in JobRow.__slots__)
_PENDING: Final = job.c.state == sa.literal_column("'pending'")  # as the partial indexes have it, literally
_LEASED: Final = job.c.state == sa.literal_column("'leased'")
_DEAD: Final = job.c.state == sa.literal_column("'dead'")
_FREE: Final[dict[str, Any]] = {"lease_owner": None, "lease_token": None, "lease_expires_at": None}


def enqueue(connection: sa.Connection, jobs: Sequence[dict[str, Any]], now: float) -> None:
    """Add jobs given by request_id, kind, analyzer_version, record_revision, service, flagged, and their priority where
    it does not follow from that; a job whose key is known is left as it is."""
    rows = [
        {
            "priority": _FLAGGED if new["flagged"] else 0,
            **new,
            "state": "pending",
            "attempts": 0,
            "available_at": 0.0,  # at once: a clock that was set back since must keep no job waiting
            "created_at": now,
        }
        for new in jobs
    ]
    if rows:
        connection.execute(_enqueuing(connection.dialect.name), rows)


@cache
def _enqueuing(dialect: str) -> sa.Insert:
    return insert_for(dialect, job).on_conflict_do_nothing()


def ask(connection: sa.Connection, request_id: str, kind: str, analyzer_version: str, now: float) -> bool:
    """Enqueue an analysis that a person waits for, before what was drawn; a dead job of it runs again, another one of
    it stays as it is. Returns whether the request is stored."""
    found = connection.execute(
        sa.select(request.c.record_revision, request.c.service)
        .where(request.c.request_id == request_id)
        .with_for_update(read=True)  # what is deleted meanwhile gets no job
    ).one_or_none()
    if found is None:
        return False
    key = {
        "request_id": request_id,
        "kind": kind,
        "analyzer_version": analyzer_version,
        "record_revision": found.record_revision,
    }
    enqueue(connection, [{**key, "service": found.service, "flagged": True}], now)
    own = [job.c[name] == value for name, value in key.items()]
    again = {"state": "pending", "attempts": 0, "available_at": 0.0, "finished_at": None}
    connection.execute(sa.update(job).where(job.c.state == "dead", *own).values(**again))
    connection.execute(sa.update(job).where(job.c.state == "pending", *own).values(priority=_FLAGGED))
    return True


def before(connection: sa.Connection, given: JobRow) -> int:
    """How many pending jobs of its kind are leased before a pending one."""
    own = sa.select(job.c.priority).where(job.c.id == given.id).scalar_subquery()
    first = sa.or_(job.c.priority > own, sa.and_(job.c.priority == own, job.c.id < given.id))
    counted = sa.select(sa.func.count()).where(_PENDING, job.c.kind == given.kind, first)
    return connection.scalar(counted) or 0


def redo(
    connection: sa.Connection,
    analyzer_version: str,
    now: float,
    *,
    service: str | None = None,
    since: int | None = None,
    again: bool = False,
) -> int:
    """Enqueue the requests whose newest coverage analysis is by another analyzer, behind those that wait for their
    first one; `again`: whoever it is by. Of one service alone, and of requests that began at `since` (nanoseconds) or
    later, where these are given. Returns how many."""
    chosen = [diagnosis.c.kind == COVERAGE]
    if not again:
        chosen.append(diagnosis.c.analyzer_version != analyzer_version)
    if since is not None:
        chosen.append(diagnosis.c.started_at >= since)
    reopened = _reopen(connection, service, chosen, analyzer_version, now) if again else 0
    columns = {
        "request_id": diagnosis.c.request_id,
        "kind": diagnosis.c.kind,
        "analyzer_version": sa.literal(analyzer_version),
        "record_revision": diagnosis.c.record_revision,
        "service": request.c.service,
        "flagged": request.c.flags != "[]",
        "priority": sa.literal(_REPEATED),
        "state": sa.literal("pending"),
        "attempts": sa.literal(0),
        "available_at": sa.literal(0.0),
        "created_at": sa.literal(now),
    }
    outdated = sa.select(*columns.values()).join_from(
        diagnosis, request, request.c.request_id == diagnosis.c.request_id
    )
    if service is not None:
        outdated = outdated.where(request.c.service == service)
    ordered = outdated.where(*chosen).order_by(request.c.request_id)  # as writers lock them
    locked = ordered.with_for_update(of=request, read=True)  # what is deleted meanwhile gets no job
    statement = insert(connection, job).from_select(list(columns), locked)
    return reopened + len(connection.scalars(statement.on_conflict_do_nothing().returning(job.c.id)).all())


def _reopen(
    connection: sa.Connection,
    service: str | None,
    chosen: Sequence[sa.ColumnElement[bool]],
    analyzer_version: str,
    now: float,
) -> int:
    """Make the jobs that are done pending again, those of the newest analyses by this analyzer. Returns how many."""
    newest = sa.and_(
        diagnosis.c.request_id == job.c.request_id,
        diagnosis.c.kind == job.c.kind,
        diagnosis.c.record_revision == job.c.record_revision,
    )
    done = sa.select(job.c.id).join(diagnosis, newest)
    done = done.where(job.c.state == "done", job.c.analyzer_version == analyzer_version, *chosen)
    if service is not None:
        done = done.where(job.c.service == service)
    ids = connection.scalars(done.order_by(job.c.id).with_for_update(of=job)).all()
    fresh = {"state": "pending", "priority": _REPEATED, "attempts": 0, "available_at": 0.0, "created_at": now}
    for some in chunks(ids):
        connection.execute(sa.update(job).where(job.c.id.in_(some)).values(**fresh, finished_at=None))
    return len(ids)


def claim(
    connection: sa.Connection, owner: str, kinds: Sequence[str], limit: int, lease_seconds: float, now: float
) -> list[Job]:
    """Lease up to `limit` jobs, flagged first, then oldest; one that was leased several times in vain goes alone."""
    _reclaim(connection, now)
    rows = connection.execute(claimable(kinds, limit, now)).mappings().all()
    if not rows:
        return []
    rows = rows[: leased_together([row["attempts"] for row in rows])]
    lease = {"lease_owner": owner, "lease_token": uuid.uuid4().hex, "lease_expires_at": now + lease_seconds}
    leased = sa.update(job).where(job.c.id.in_([row["id"] for row in rows]))
    connection.execute(leased.values(state="leased", attempts=job.c.attempts + 1, **lease))
    return [Job(**{**row, "attempts": row["attempts"] + 1, "lease_token": lease["lease_token"]}) for row in rows]


def claimable(kinds: Sequence[str], limit: int, now: float) -> sa.Select[Any]:
    """The jobs to lease next. Those that another claim holds at this moment are skipped."""
    return (
        sa.select(*_FIELDS)
        .where(_PENDING, job.c.kind.in_(kinds), job.c.available_at <= now)
        .order_by(job.c.priority.desc(), job.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )


def expired(now: float) -> sa.Select[Any]:
    """The jobs whose lease ran out. Those whose worker is finishing them at this moment are skipped."""
    return sa.select(job.c.id).where(_LEASED, job.c.lease_expires_at < now).with_for_update(skip_locked=True)


def _reclaim(connection: sa.Connection, now: float) -> None:
    """Put back the jobs whose lease ran out, or bury them at the cap."""
    _put_back(connection, connection.scalars(expired(now)).all(), "lease ran out", now)


def release(connection: sa.Connection, owner: str, now: float) -> int:
    """Put back the jobs of a worker that is gone without waiting for its leases, or bury them at the cap. What its last
    transaction still holds is left to the lease. Returns how many."""
    held = sa.select(job.c.id).where(_LEASED, job.c.lease_owner == owner).with_for_update(skip_locked=True)
    ids = connection.scalars(held).all()
    _put_back(connection, ids, "worker ended", now)
    return len(ids)


def _put_back(connection: sa.Connection, given: Sequence[int], why: str, now: float) -> None:
    for ids in chunks(given):
        spent = job.c.attempts >= ATTEMPTS
        error = sa.func.coalesce(job.c.error + sa.literal("; "), "") + sa.literal(why)
        connection.execute(
            sa.update(job)
            .where(job.c.id.in_(ids))
            .values(
                state=sa.case((spent, "dead"), else_="pending"),
                finished_at=sa.case((spent, now), else_=None),
                error=error,
                **_FREE,
            )
        )


def owned(connection: sa.Connection, jobs: Iterable[Job]) -> list[Job]:
    """Those of `jobs` whose lease is still the newest, locked until the transaction ends."""
    given = {each.id: each for each in jobs}
    kept: list[Job] = []
    for ids in chunks(sorted(given)):
        rows = connection.execute(
            sa.select(job.c.id, job.c.lease_token)
            .where(job.c.id.in_(ids), job.c.state == "leased")
            .order_by(job.c.id)
            .with_for_update()
        )
        kept += [given[row.id] for row in rows if row.lease_token == given[row.id].lease_token]
    return kept


def heartbeat(connection: sa.Connection, jobs: Sequence[Job], lease_seconds: float, now: float) -> list[Job]:
    """Prolong the leases that are still owned, and return their jobs."""
    kept = owned(connection, jobs)
    for ids in chunks(each.id for each in kept):
        connection.execute(sa.update(job).where(job.c.id.in_(ids)).values(lease_expires_at=now + lease_seconds))
    return kept


def finish(connection: sa.Connection, jobs: Sequence[Job], now: float) -> None:
    """Mark jobs that are `owned` as done."""
    for ids in chunks(each.id for each in jobs):
        connection.execute(
            sa.update(job).where(job.c.id.in_(ids)).values(state="done", finished_at=now, error=None, **_FREE)
        )


def fail(
    connection: sa.Connection, failed: Job, error: str, retry_in: float, now: float, *, for_good: bool = False
) -> None:
    """Put a job back for later, or bury it: at the cap, or for good. Nothing happens when the lease was lost."""
    if not owned(connection, [failed]):
        return
    dead = for_good or failed.attempts >= ATTEMPTS
    state: dict[str, Any] = {"state": "dead", "finished_at": now} if dead else {"state": "pending"}
    connection.execute(
        sa.update(job).where(job.c.id == failed.id).values(**state, error=error, available_at=now + retry_in, **_FREE)
    )


def depth(connection: sa.Connection, kind: str) -> dict[JobState, int]:
    """How many jobs of a kind are in each state."""
    counts: dict[JobState, int] = dict.fromkeys(get_args(JobState), 0)
    of_kind = sa.select(job.c.state, sa.func.count()).where(job.c.kind == kind)
    for state, count in connection.execute(of_kind.group_by(job.c.state)):
        counts[state] = count
    return counts


def backlog(connection: sa.Connection, now: float) -> dict[str, Backlog]:
    """The jobs that are not done, by kind. The done ones, which stay, are not read."""
    found: dict[str, Backlog] = {}
    for state, query in backlog_queries(now).items():
        for kind, count, oldest in connection.execute(query):
            known = found.get(kind, Backlog())
            times = [time for time in (known.oldest, oldest) if time is not None]
            found[kind] = replace(known, oldest=min(times, default=None), **{state: count})
    return found


def backlog_queries(now: float) -> dict[str, sa.Select[Any]]:
    """For each state its jobs by kind, and when the oldest one that could run now was enqueued; each reads the index of
    its state alone."""
    runs = {_PENDING: job.c.available_at <= now, _LEASED: job.c.lease_expires_at < now, _DEAD: sa.false()}
    all_of = {"pending": [job.c.created_at >= 0], "leased": [], "dead": []}  # leads SQLite to the index that covers
    return {
        name: sa.select(job.c.kind, sa.func.count(), sa.func.min(sa.case((runs[state], job.c.created_at), else_=None)))
        .where(state, *all_of[name])
        .group_by(job.c.kind)
        for name, state in (("pending", _PENDING), ("leased", _LEASED), ("dead", _DEAD))
    }


def drawn(connection: sa.Connection, kind: str, request_ids: Iterable[str]) -> set[str]:
    """Those of the requests for which a job of this kind was drawn at random, and not bought by a flag."""
    found: set[str] = set()
    for ids in chunks(request_ids):
        of_kind = sa.select(job.c.request_id).where(job.c.kind == kind, job.c.request_id.in_(ids))
        found.update(connection.scalars(of_kind.where(sa.not_(job.c.flagged))))
    return found


def leased_together(attempts: Sequence[int]) -> int:
    """How many of those that are next, by the attempts of each so far, are leased at once: all before the first one
    that was leased several times in vain, or that one alone: what ends its workers takes nobody else's attempts along.
    """
    return max(1, next((place for place, tried in enumerate(attempts) if tried >= _IN_VAIN), len(attempts)))


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
    query = sa.select(*_SHOWN).where(*chosen).order_by(job.c.id.desc()).limit(limit)
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
        chosen = (job.c.state != "leased", *_chosen(state, kind, service), *where)
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
