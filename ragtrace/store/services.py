"""What is known of each service from its requests: whether its answers cite, and what it usually returns.

A service counts as citing from the moment on that enough of its answers have cited; it stays so until an operator
has it forgotten (`forget_citing`), since a collapse of citations is what must be seen. Stray marks do not add up to
that: the share that is asked for is above theirs, and what came long ago weighs less and less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store.database import insert
from ragtrace.store.payload import read_traffic, write_traffic
from ragtrace.store.rows import Citing, ServiceTraffic
from ragtrace.store.tables import background, citing, request
from ragtrace.store.text import clean

__all__ = [
    "citing_of",
    "forget_citing",
    "forget_traffic",
    "is_enough",
    "note_answers",
    "save_traffic",
    "traffic_made",
    "traffic_of",
]

FEWEST: Final = 3  # answers that cite beyond the share below, from which on a service counts as citing
SHARE: Final = 0.2  # of all its answers with claims
REMEMBERED: Final = 400  # answers: the counts are halved at so many, so that a service may begin to cite at any time


def is_enough(answers: int, cited: int) -> bool:
    """Whether a service counts as citing that cited in so many of its answers with claims.

    Stray marks in 5 % of all answers reach this line with a probability below 0.0003, however many answers come: a
    random walk with steps of 0.8 and -0.2 that begins at -3 (Lundberg's inequality).
    """
    return cited >= FEWEST + SHARE * answers


def note_answers(connection: sa.Connection, answers: Mapping[str, tuple[int, int]], now_ns: int) -> None:
    """Add, by service, how many answers with claims came and how many of them cite."""
    for service, (count, cited) in sorted(answers.items()):
        statement = insert(connection, citing).values(
            service=clean(service), answers=count, cited=cited, counted_from=0
        )
        new = statement.excluded
        added = {"answers": citing.c.answers + new.answers, "cited": citing.c.cited + new.cited}
        counted = statement.on_conflict_do_update(index_elements=["service"], set_=added).returning(citing)
        row = connection.execute(counted).one()
        changes: dict[str, int] = {}
        if row.since is None and is_enough(row.answers, row.cited):
            changes["since"] = now_ns
        if row.answers >= REMEMBERED:
            changes |= {"answers": row.answers // 2, "cited": row.cited // 2}
        if changes:
            connection.execute(sa.update(citing).where(citing.c.service == row.service).values(**changes))


def citing_of(connection: sa.Connection, services: Iterable[str] | None = None) -> dict[str, Citing]:
    """What is known of the answers of these services, or of all."""
    query = sa.select(citing).order_by(citing.c.service)
    if services is not None:
        query = query.where(citing.c.service.in_([clean(service) for service in services]))
    rows = connection.execute(query).mappings()
    return {row["service"]: Citing(**{name: row[name] for name in Citing.__slots__}) for row in rows}


def forget_citing(connection: sa.Connection, service: str, now_ns: int) -> bool:
    """Learn anew, from the requests that begin from now on, whether a service cites. Returns whether it counted as
    citing."""
    known = citing_of(connection, [service]).get(clean(service))
    if known is None:
        return False
    fresh = {"answers": 0, "cited": 0, "since": None, "counted_from": now_ns}
    connection.execute(sa.update(citing).where(citing.c.service == clean(service)).values(**fresh))
    return known.since is not None


def traffic_made(connection: sa.Connection, services: Iterable[str]) -> dict[str, int]:
    """When what is kept of these services was made, in nanoseconds; nothing of a service of which nothing is kept."""
    names = background.c.service.in_([clean(service) for service in services])
    return {row.service: row.made_at for row in connection.execute(sa.select(background).where(names))}


def traffic_of(connection: sa.Connection, service: str) -> ServiceTraffic | None:
    """What a service usually returns; None where nothing is kept, or nothing that can be read."""
    body = connection.scalar(sa.select(background.c.body).where(background.c.service == clean(service)))
    if body is None:
        return None
    try:
        return read_traffic(body)
    except CorruptStore:
        return None  # an estimate: it is made again


def save_traffic(connection: sa.Connection, service: str, traffic: ServiceTraffic, *, is_new: bool) -> bool:
    """Keep what a service usually returns; what another worker kept meanwhile is replaced.

    is_new: nothing was kept before, as far as the worker knows. Else what is gone was erased, and nothing is written.
    Returns whether it was written.
    """
    row = {"chunks": len(traffic.seen), "made_at": traffic.made_at, "body": write_traffic(traffic)}
    if not is_new:
        same = background.c.service == clean(service)
        return connection.execute(sa.update(background).where(same).values(**row)).rowcount > 0
    statement = insert(connection, background).values(service=clean(service), **row)
    rest = {name: statement.excluded[name] for name in row}
    connection.execute(statement.on_conflict_do_update(index_elements=["service"], set_=rest))
    return True


def forget_traffic(connection: sa.Connection, request_ids: Sequence[str]) -> int:
    """Delete what the services of these requests usually return: who looks for a word could find it there. Returns of
    how many services."""
    of_requests = sa.select(request.c.service).where(request.c.request_id.in_(request_ids))
    return connection.execute(sa.delete(background).where(background.c.service.in_(of_requests))).rowcount
