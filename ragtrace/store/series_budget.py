"""Budgets of labels: the first values of a label count by name, those beyond its budget as `other`.

A service has its place among those of its tenant (what stands before the first slash of its name), a tenant among 200,
a segment, a source and a provider among those of their service. A place is written down in the transaction that counts
the value first, and stays until somebody has the totals forgotten: so workers and restarts agree, what has counted by
name goes on so, and neither the totals nor the exposition grow by names that senders make up.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.registry.instruments import BUDGETS, LABEL_FOLDS
from ragtrace.store.database import chunks, clean, insert, take_advisory_lock
from ragtrace.store.rows import Delta, Labels
from ragtrace.store.tables import exposed, source

__all__ = [
    "INNER",
    "LIMITS",
    "OTHER",
    "TENANT",
    "UNREPORTED",
    "Place",
    "add",
    "admit",
    "candidate_names",
    "forget",
    "named",
    "names",
    "namespace",
    "places",
    "read",
    "rows_of",
    "shown",
]

OTHER: Final = "other"
TENANT: Final = "tenant"  # no metric has this label; tenants have places as its values
UNREPORTED: Final = 25
"""How many sources of a service that no report names count by name where candidates come from them: a host may take the
address of each document for its source."""

_TENANTS: Final = 200
_LONGEST: Final = 256  # characters of a name; each of a service's series has it
INNER: Final = frozenset(("segment", "source", "provider", "model", "question_type"))
LIMITS: Final[Mapping[str, int]] = {**BUDGETS, TENANT: _TENANTS}
"""How many values of a label have a place, of a service or, for services, of a tenant."""
_TURN: Final = 0x7261677472610004  # "ragtra", 4
_COLUMNS: Final = (exposed.c.label, exposed.c.service, exposed.c.value)
_AMONG: Final = sa.select(*_COLUMNS).where(sa.tuple_(*_COLUMNS).in_(sa.bindparam("places", expanding=True)))

Place: TypeAlias = tuple[str, str, str]
"""A label, the service that it is of (of a service: its tenant), and the value."""


def namespace(service: str) -> str:
    """The tenant whose service it is, or nothing: what stands before the first slash."""
    tenant, slash, _ = service.partition("/")
    return tenant if slash else ""


def places(service: str) -> tuple[Place, ...]:
    """The places that a service needs, the wider one first; what counts as `other` needs none of its own."""
    tenant = namespace(service)
    wide = ((TENANT, "", tenant),) if tenant else ()
    return wide if service in (OTHER, f"{tenant}/{OTHER}") else (*wide, ("service", tenant, service))


def shown(service: str, has_place: Container[Place]) -> str:
    """A service by the name under which it counts."""
    if all(place in has_place for place in places(service)):
        return service
    tenant = namespace(service)
    return f"{tenant}/{OTHER}" if tenant and (TENANT, "", tenant) in has_place else OTHER


def named(connection: sa.Connection, deltas: Sequence[Delta]) -> list[Delta]:
    """Deltas under the names by which they count, places that are given now included, and how often none was left.

    Called once in a transaction, before any total is locked: a turn is taken where a place is given.
    """
    labelings = {given: labels for given in {delta.labels for delta in deltas} if "service" in (labels := dict(given))}
    services = {labels["service"] for labels in labelings.values()}
    wide = {place for service in services for place in places(service)}
    taken = _take(connection, {place for place in wide if place[0] == TENANT})
    taken |= _take(connection, {place for place in wide if not place[1] or (TENANT, "", place[1]) in taken})
    names = {service: shown(service, taken) for service in services}
    for labels in labelings.values():
        labels["service"] = names[labels["service"]]
    wanted = {
        (label, labels["service"], labels[label])
        for labels in labelings.values()
        for label in INNER
        if labels.get(label, OTHER) != OTHER
    }
    kept = _take(connection, wanted)
    for labels in labelings.values():
        labels |= {
            label: OTHER for label in INNER if label in labels and (label, labels["service"], labels[label]) not in kept
        }
    folded = Counter(label for label, _, _ in wanted - kept)
    folded["service"] = sum(name != service for service, name in names.items())
    counts = [Delta(LABEL_FOLDS.name, (("label", label),), float(count)) for label, count in folded.items() if count]
    renamed = {given: tuple(labels.items()) for given, labels in labelings.items()}
    changed = {given: labels for given, labels in renamed.items() if given != labels}
    return [*((_with(delta, changed) for delta in deltas) if changed else deltas), *counts]


def _with(delta: Delta, changed: Mapping[Labels, Labels]) -> Delta:
    labels = changed.get(delta.labels)
    return delta if labels is None else replace(delta, labels=labels)


def names(connection: sa.Connection, services: Iterable[str]) -> dict[str, str]:
    """The names under which these services count."""
    wanted = set(services)
    taken = _known(connection, {place for service in wanted for place in places(service)})
    return {service: shown(service, taken) for service in wanted}


def candidate_names(service: str) -> set[str]:
    """The names under which a service may have counted, whoever admitted it or had it forgotten meanwhile."""
    tenant = namespace(service)
    return {service, OTHER, f"{tenant}/{OTHER}" if tenant else OTHER}


def _take(connection: sa.Connection, wanted: set[Place]) -> set[Place]:
    """Those of these values that have a place, those that get one now included."""
    known = _known(connection, wanted)
    missing = {place for place in wanted - known if len(place[2]) <= _LONGEST}
    if not _free(connection, missing):
        return known  # what is used up stays so: nobody has to wait
    take_advisory_lock(connection, _TURN)
    known |= _known(connection, missing)
    given = _free(connection, missing - known)
    if given:
        connection.execute(insert(connection, exposed), given)
    return known | {(row["label"], _read(row["service"]), _read(row["value"])) for row in given}


def _known(connection: sa.Connection, wanted: Iterable[Place]) -> set[Place]:
    """Those of these values that have a place."""
    found: set[Place] = set()
    for some in chunks(sorted((label, _written(of), _written(value)) for label, of, value in wanted)):
        rows = connection.execute(_AMONG, {"places": some})
        found.update((label, _read(of), _read(value)) for label, of, value in rows)
    return found


def _free(connection: sa.Connection, wanted: Iterable[Place]) -> list[dict[str, Any]]:
    """Rows that give these values places, as far as there are any, in the order of their names."""
    by: dict[tuple[str, str], list[str]] = defaultdict(list)
    for label, of, value in sorted(wanted):
        if value != OTHER:
            by[label, of].append(value)
    rows: list[dict[str, Any]] = []
    for (label, of), values in by.items():
        same = exposed.c.label == label, exposed.c.service == _written(of)
        count = sa.select(sa.func.count(), sa.func.coalesce(sa.func.max(exposed.c.place), -1)).where(*same)
        taken, last = connection.execute(count).one()
        room = LIMITS[label] - taken
        if label == "source" and taken + len(values) > UNREPORTED:
            values = _reported_first(connection, of, values, UNREPORTED - taken)
        rows += _rows(label, of, values[: max(room, 0)], last + 1)
    return rows


def _reported_first(connection: sa.Connection, service: str, values: list[str], others: int) -> list[str]:
    """The sources that somebody reports, and as many others."""
    query = sa.select(source.c.source).where(source.c.service == clean(service), source.c.source.in_(values))
    reported = set(connection.scalars(query))
    unreported = [value for value in values if value not in reported]
    return [*(value for value in values if value in reported), *unreported[: max(others, 0)]]


def _rows(label: str, of: str, values: Sequence[str], first: int) -> list[dict[str, Any]]:
    return [
        {"label": label, "service": _written(of), "value": _written(value), "place": place}
        for place, value in enumerate(values, start=first)
    ]


def read(connection: sa.Connection) -> dict[tuple[str, str], tuple[str, ...]]:
    """The values in the order in which they got their place, by label and service."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in connection.execute(sa.select(exposed).order_by(exposed.c.place, exposed.c.value)):
        found[row.label, _read(row.service)].append(_read(row.value))
    return {key: tuple(values) for key, values in found.items()}


def add(connection: sa.Connection, new: Iterable[Place]) -> None:
    """Give these values a place as far as there are any, as if they were counted."""
    _take(connection, set(new))


def admit(connection: sa.Connection, service: str) -> bool:
    """Give a service a place, whatever the budgets say. False where it has one."""
    take_advisory_lock(connection, _TURN)
    wanted = places(service)
    missing = [place for place in wanted if place not in _known(connection, wanted)]
    for label, of, value in missing:
        last = sa.select(sa.func.coalesce(sa.func.max(exposed.c.place), -1))
        same = exposed.c.label == label, exposed.c.service == _written(of)
        connection.execute(
            insert(connection, exposed), _rows(label, of, [value], (connection.scalar(last.where(*same)) or 0) + 1)
        )
    return bool(missing)


def forget(connection: sa.Connection, service: str, segment: str | None) -> int:
    """Take the places of a service and of all that is of it back, or those of one segment. Returns how many."""
    take_advisory_lock(connection, _TURN)
    if segment is not None:
        same = exposed.c.label == "segment", exposed.c.value == _written(segment)
        return connection.execute(sa.delete(exposed).where(exposed.c.service == _written(service), *same)).rowcount
    tenant = namespace(service)
    gone = connection.execute(sa.delete(exposed).where(rows_of([service]))).rowcount
    left = (
        sa.select(exposed.c.value).where(exposed.c.label == "service", exposed.c.service == _written(tenant)).limit(1)
    )
    if tenant and connection.scalar(left) is None:
        alone = exposed.c.label == TENANT, exposed.c.value == _written(tenant)
        connection.execute(sa.delete(exposed).where(*alone))
    return gone


def rows_of(services: Iterable[str]) -> sa.ColumnElement[bool]:
    """Which places are those of services, and of what is of them."""
    written = [_written(service) for service in services]
    inner = sa.and_(exposed.c.service.in_(written), exposed.c.label.not_in(("service", TENANT)))
    return sa.or_(inner, sa.and_(exposed.c.label == "service", exposed.c.value.in_(written)))


def _written(text: str) -> str:
    """As the totals' labels are written: PostgreSQL takes no NUL, and neither database a lone surrogate."""
    return json.dumps(text, ensure_ascii=True)


def _read(written: str) -> str:
    text: str = json.loads(written)
    return text
