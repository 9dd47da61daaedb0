"""Owns which services the spans of each tenant named, and what is kept by service of those that are one tenant's alone.

A service is a tenant's alone where its name begins with the tenant's and a slash, as a receiver stores it, and nobody
else has sent anything under it. A host that writes to the store itself may have given any name to any service.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from ragtrace.store import label_budget, totals
from ragtrace.store.bulk import chunks
from ragtrace.store.compared_tables import gate_run, gate_version
from ragtrace.store.database import insert
from ragtrace.store.surrounding_tables import release, source, source_report
from ragtrace.store.tables import exposed, job, metadata, request, total
from ragtrace.store.text import clean
from ragtrace.store.upkeep_tables import tenant_service

__all__ = ["alone", "count", "delete", "forget", "named", "note"]

_FIRST: Final = (release, source_report, source)


def note(connection: sa.Connection, named: Iterable[tuple[str, str]]) -> None:
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
    services = {*services, f"{clean(tenant)}/{label_budget.OTHER}"}  # under which those without a place count
    chosen_of = list(_chosen(services))
    for table, chosen in chosen_of:  # writers hold these before they take a place, and a place before a total
        if table in _FIRST:
            deleted[table.name] += connection.execute(sa.delete(table).where(chosen)).rowcount
    for service in sorted(services):
        deleted[exposed.name] += label_budget.forget(connection, service, None)
    deleted[total.name] += totals.delete(connection, _series(connection, tenant, services, lock=True))
    for table, chosen in chosen_of:
        if table not in (*_FIRST, exposed):
            deleted[table.name] += connection.execute(sa.delete(table).where(chosen)).rowcount
    return deleted


def forget(connection: sa.Connection, tenant: str, services: Collection[str]) -> int:
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
                yield table, label_budget.rows_of(some) if table is exposed else table.c.service.in_(some)


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
