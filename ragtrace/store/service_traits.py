"""Services: whether the answers of each cite, what it usually returns, which are one tenant's alone, and by which
calibrations each is judged.

A service counts as citing from the moment on that enough of its answers have cited; it stays so until an operator
has it forgotten (`forget_citing`), since a collapse of citations is what must be seen. Stray marks do not add up to
that: the share that is asked for is above theirs, and what came long ago weighs less and less.

A service is a tenant's alone where its name begins with the tenant's and a slash, as a receiver stores it, and nobody
else has sent anything under it. A host that writes to the store itself may have given any name to any service.

A service's calibrations are the lines that judge it, one in use and one in shadow for each judge, and those of grades
of retrieval. What was fitted never changes; a state does, and the counts of what a calibration in shadow would have
said. The lines of grades are in use at once, in place of those before.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import EllipsisType
from typing import Final

import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store import totals
from ragtrace.store._content import read_traffic, write_traffic
from ragtrace.store.database import bigint, chunks, clean, insert
from ragtrace.store.rows import Citing, FaultFigures, GradeLine, ServiceCalibration, ServiceTraffic, ShadowCounts
from ragtrace.store.tables import (
    background,
    calibration,
    citing,
    exposed,
    gate_run,
    gate_version,
    job,
    metadata,
    release,
    request,
    source,
    source_report,
    tenant_service,
    total,
)

__all__ = [
    "accept_calibration",
    "alone",
    "citing_of",
    "count",
    "delete",
    "find_calibrations",
    "forget_citing",
    "forget_named",
    "forget_traffic",
    "grade_lines",
    "is_enough",
    "keep_grade_line",
    "named",
    "note_answers",
    "note_named",
    "note_shadow",
    "propose_calibration",
    "reject_calibration",
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


_FIRST: Final = (release, source_report, source)


def note_named(connection: sa.Connection, named: Iterable[tuple[str, str]]) -> None:
    """Note that spans of a tenant named a service, for each pair of both. The last step of a transaction: who waits for
    one of these rows holds nothing else that another waits for."""
    rows = [{"tenant": clean(tenant), "service": clean(service)} for tenant, service in named]
    unique = {(row["tenant"], row["service"]): row for row in rows}
    if unique:
        statement = insert(connection, tenant_service).on_conflict_do_nothing()
        connection.execute(statement, [unique[key] for key in sorted(unique)])


def named(connection: sa.Connection, tenant: str) -> list[str]:
    """The services that the tenant's spans named, and those of its stored requests."""
    noted = sa.select(tenant_service.c.service).where(tenant_service.c.tenant == clean(tenant))
    stored = sa.select(request.c.service).where(request.c.tenant_id == clean(tenant))
    return sorted(connection.scalars(sa.union(noted, stored)))


def alone(connection: sa.Connection, tenant: str, services: Iterable[str], *, unused: bool = False) -> list[str]:
    """Those of the services that are the tenant's alone; unused: and of which no request is stored."""
    owner = clean(tenant)
    others = tenant_service.c.tenant != owner
    theirs = request.c.tenant_id.is_distinct_from(owner)
    return [
        service
        for service in services
        if service.startswith(f"{owner}/")
        and not _exists(connection, tenant_service.c.service == service, others)
        and not _exists(connection, request.c.service == service, *([] if unused else [theirs]))
    ]


def _exists(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> bool:
    return connection.scalar(sa.select(sa.literal(1)).where(*where).limit(1)) is not None


def count(connection: sa.Connection, tenant: str, services: Collection[str]) -> Counter[str]:
    """The rows that `delete` and `forget` would delete, by table."""
    counted: Counter[str] = Counter()
    for table, chosen in _chosen(services):
        counted[table.name] += connection.scalar(sa.select(sa.func.count()).select_from(table).where(chosen)) or 0
    counted[total.name] += len(_series(connection, tenant, services))
    counted[tenant_service.name] += (
        connection.scalar(sa.select(sa.func.count()).select_from(tenant_service).where(*_pairs(tenant, services))) or 0
    )
    return counted


def delete(connection: sa.Connection, tenant: str, services: Collection[str]) -> Counter[str]:
    """Delete all that is kept of these services: totals and the places of their labels, releases, sources, the
    identity of chunks, gold sets, the gate's runs, whether they cite, what they usually return, faults, judged alerts.
    No request of theirs may be stored. Returns the numbers of rows by table."""
    deleted: Counter[str] = Counter()
    if not services:
        return deleted
    services = {*services, f"{clean(tenant)}/{totals.OTHER}"}  # under which those without a place count
    chosen_of = list(_chosen(services))
    for table, chosen in chosen_of:  # writers hold these before they take a place, and a place before a total
        if table in _FIRST:
            deleted[table.name] += connection.execute(sa.delete(table).where(chosen)).rowcount
    for service in sorted(services):
        deleted[exposed.name] += totals.forget_places(connection, service, None)
    deleted[total.name] += totals.delete(connection, _series(connection, tenant, services, lock=True))
    for table, chosen in chosen_of:
        if table not in (*_FIRST, exposed):
            deleted[table.name] += connection.execute(sa.delete(table).where(chosen)).rowcount
    return deleted


def forget_named(connection: sa.Connection, tenant: str, services: Collection[str]) -> int:
    """Forget that the tenant named services, but those in its namespace that are not among these: they stay, and so
    does whose they are. Returns how many it had named."""
    return connection.execute(sa.delete(tenant_service).where(*_pairs(tenant, services))).rowcount


def _pairs(tenant: str, services: Collection[str]) -> list[sa.ColumnElement[bool]]:
    prefix = f"{clean(tenant)}/"
    is_own = sa.func.substr(tenant_service.c.service, 1, len(prefix)) == prefix
    return [tenant_service.c.tenant == clean(tenant), sa.or_(sa.not_(is_own), tenant_service.c.service.in_(services))]


def _chosen(services: Collection[str]) -> Iterator[tuple[sa.Table, sa.ColumnElement[bool]]]:
    """Every table that is kept by service, and which of its rows are these services'. Requests go by themselves, and
    their jobs with them."""
    for some in chunks(sorted(services)):
        runs = sa.select(gate_run.c.run_id).where(gate_run.c.service.in_(some))
        yield gate_version, gate_version.c.run_id.in_(runs)
        for table in metadata.sorted_tables:
            if "service" in table.c and table not in (request, job, tenant_service):
                yield table, totals.places_of(some) if table is exposed else table.c.service.in_(some)


def _series(
    connection: sa.Connection, tenant: str, services: Collection[str], *, lock: bool = False
) -> Sequence[totals.Key]:
    """The totals of these services, in the order in which writers lock them."""
    if not services:
        return []
    begins = json.dumps(["service", f"{clean(tenant)}/"], ensure_ascii=True, separators=(",", ":")).removesuffix('"]')
    found = totals.keys(connection, total.c.labels.contains(begins, autoescape=True), lock=lock)
    known = frozenset(services)
    return [key for key in found if dict(json.loads(key[1])).get("service") in known]


_GRADES: Final = "grades "  # before the name of a judge of relevance, in place of the digest of what judges stages
_APART: Final = ("calibration_id", "service", "judge", "state", "created_at", "accepted_at", "shadow")


def propose_calibration(
    connection: sa.Connection, given: ServiceCalibration, fitted_from: str | EllipsisType | None = ...
) -> bool:
    """Put a calibration into shadow, in place of another one of its service and judge. False where another one is
    active than it was fitted from."""
    active = (*_of(clean(given.service), given.judge), calibration.c.state == "active")
    query = sa.select(calibration.c.calibration_id).where(*active).with_for_update()
    if fitted_from is not ... and connection.execute(query).scalar_one_or_none() != fitted_from:
        return False
    row = {name: getattr(given, name) for name in _APART if name != "shadow"}
    fitted = {name: value for name, value in asdict(given).items() if name not in _APART}
    row |= {"service": clean(given.service), "state": "shadow", "accepted_at": None}
    row |= {"created_at": bigint(given.created_at), "fitted": json.dumps(fitted, sort_keys=True)}
    connection.execute(sa.delete(calibration).where(*_of(row["service"], given.judge), calibration.c.state == "shadow"))
    connection.execute(sa.insert(calibration).values(row))
    return True


def accept_calibration(connection: sa.Connection, calibration_id: str, at: int) -> bool:
    """Let a calibration in shadow judge, and retire the one before. False where none of this id is in shadow."""
    query = sa.select(calibration.c.service, calibration.c.judge).where(*_in_shadow(calibration_id)).with_for_update()
    found = connection.execute(query).one_or_none()
    if found is None:
        return False
    active = (*_of(found.service, found.judge), calibration.c.state == "active")
    connection.execute(sa.update(calibration).where(*active).values(state="retired"))
    values = {"state": "active", "accepted_at": bigint(at)}
    connection.execute(sa.update(calibration).where(calibration.c.calibration_id == calibration_id).values(values))
    return True


def reject_calibration(connection: sa.Connection, calibration_id: str) -> bool:
    """Delete a calibration in shadow. False where none of this id is."""
    return connection.execute(sa.delete(calibration).where(*_in_shadow(calibration_id))).rowcount > 0


def note_shadow(connection: sa.Connection, counts: Mapping[str, ShadowCounts]) -> None:
    """Add to what calibrations in shadow would have said, by id."""
    columns = calibration.c
    for calibration_id, more in sorted(counts.items()):
        grown = {
            "shadow_requests": columns.shadow_requests + more.requests,
            "named": columns.named + more.named,
            "shadow_named": columns.shadow_named + more.shadow_named,
        }
        connection.execute(sa.update(calibration).where(*_in_shadow(calibration_id)).values(grown))


def find_calibrations(connection: sa.Connection, services: Collection[str] | None = None) -> list[ServiceCalibration]:
    """The calibrations of these services, or of all, newest first."""
    query = sa.select(calibration).order_by(calibration.c.created_at.desc(), calibration.c.calibration_id)
    query = query.where(calibration.c.judge.not_like(f"{_GRADES}%"))
    if services is not None:
        query = query.where(calibration.c.service.in_(sorted(map(clean, services))))
    return [_calibration(row) for row in connection.execute(query).mappings()]


def keep_grade_line(connection: sa.Connection, line: GradeLine) -> None:
    """Grade a service by this line from now on, and retire the one of the same judge before."""
    service, judge = clean(line.service), f"{_GRADES}{clean(line.judge)}"
    active = (*_of(service, judge), calibration.c.state == "active")
    connection.execute(sa.update(calibration).where(*active).values(state="retired"))
    row = {"calibration_id": secrets.token_hex(4), "service": service, "judge": judge, "state": "active"}
    times = {"created_at": bigint(line.fitted_at), "accepted_at": bigint(line.fitted_at)}
    connection.execute(sa.insert(calibration).values(**row, **times, fitted=json.dumps(asdict(line), sort_keys=True)))


def grade_lines(connection: sa.Connection, services: Collection[str]) -> list[GradeLine]:
    """The lines in use of these services, by their judges' names."""
    query = sa.select(calibration.c.fitted).where(
        calibration.c.service.in_(sorted(map(clean, services))),
        calibration.c.judge.like(f"{_GRADES}%"),
        calibration.c.state == "active",
    )
    found = (GradeLine(**json.loads(fitted)) for fitted in connection.execute(query).scalars())
    return sorted(found, key=lambda line: (line.service, line.judge))


def _of(service: str, judge: str) -> tuple[sa.ColumnElement[bool], ...]:
    return calibration.c.service == service, calibration.c.judge == judge


def _in_shadow(calibration_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return calibration.c.calibration_id == calibration_id, calibration.c.state == "shadow"


def _calibration(row: sa.RowMapping) -> ServiceCalibration:
    fitted = json.loads(row["fitted"])
    faults = tuple(FaultFigures(**each) for each in fitted.pop("faults"))
    shadow = ShadowCounts(row["shadow_requests"], row["named"], row["shadow_named"])
    known = {name: row[name] for name in _APART if name != "shadow"}
    return ServiceCalibration(**known, **fitted, faults=faults, shadow=shadow)
