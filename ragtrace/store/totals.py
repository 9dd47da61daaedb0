"""Totals: series that only grow, advanced in the transaction that writes what they count, until somebody has them
forgotten; and the budgets of labels: the first values of a label count by name, those beyond its budget as `other`.

Histograms are kept the way Prometheus shows them, as cumulative buckets, a sum and a count.

What was counted is remembered, so that nothing counts twice: these rows outlive the requests that they are about. Each
has the day on which what it is about began. Days before some day may be forgotten: what began before it counts no more
then, whether it comes again or for the first time. That day is kept in a row without an id and a kind, the first one of
all. It is moved before anything is forgotten, and read after new rows are inserted: so whoever could insert a row
because it was forgotten sees the day.

A service has its place among those of its tenant (what stands before the first slash of its name), a tenant among 200,
a segment, a source and a provider among those of their service. A place is written down in the transaction that counts
the value first, and stays until somebody has the totals forgotten: so workers and restarts agree, what has counted by
name goes on so, and neither the totals nor the exposition grow by names that senders make up.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from math import inf
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from ragtrace.registry.instruments import ANALYSIS_COST, ATTRIBUTION_BUDGET_EXHAUSTED, BUDGETS, LABEL_FOLDS
from ragtrace.store.database import Database, chunks, clean, insert, insert_for, pages, take_advisory_lock
from ragtrace.store.rows import ATTRIBUTION, Delta, Exemplar, Labels, Total
from ragtrace.store.tables import counted, exposed, source, spending, total

__all__ = [
    "INNER",
    "LIMITS",
    "OTHER",
    "TENANT",
    "UNREPORTED",
    "Key",
    "Place",
    "add",
    "admit",
    "bound",
    "candidate_names",
    "counted_before",
    "counted_pages",
    "day_of",
    "delete",
    "expose",
    "exposed_names",
    "exposed_values",
    "forget_before",
    "forget_places",
    "histogram_deltas",
    "keys",
    "namespace",
    "places",
    "places_of",
    "shown",
    "spend",
    "spent",
    "totals",
    "uncounted",
]

Key: TypeAlias = tuple[str, str]
"""The name of a series and its labels, as they are written."""

_KEY: Final = (total.c.name, total.c.labels)
_EXEMPLAR: Final = ("exemplar_trace_id", "exemplar_value", "exemplar_at")


def bound(value: float) -> str:
    """A bucket's bound as the label `le` writes it."""
    return "+Inf" if value == inf else repr(float(value))


def histogram_deltas(
    name: str,
    labels: Iterable[tuple[str, str]],
    value: float,
    buckets: Sequence[float],
    exemplar: Exemplar | None = None,
) -> tuple[Delta, ...]:
    """One observation of a histogram, as deltas of its series.

    Every bucket is named, those that the value is above with 0, so that all exist from the first observation on. The
    exemplar goes to the smallest bucket that holds the value.

    Args:
        buckets: increasing upper bounds, without +Inf.
    """
    fixed = tuple(labels)
    first = next(index for index, upper in enumerate((*buckets, inf)) if value <= upper)
    series = _bucket_deltas(name, fixed, tuple(buckets), first)
    if exemplar is not None:
        series = (*series[:first], replace(series[first], exemplar=exemplar), *series[first + 1 :])
    return (*series, Delta(f"{name}_sum", fixed, value), Delta(f"{name}_count", fixed, 1.0))


@lru_cache(maxsize=8192)  # of a service few observations differ in more than their value
def _bucket_deltas(name: str, labels: Labels, buckets: tuple[float, ...], first: int) -> tuple[Delta, ...]:
    """Of each bucket, +Inf included, 1 from the `first` on that holds an observation, without exemplars."""
    return tuple(
        Delta(f"{name}_bucket", (*labels, ("le", bound(upper))), 1.0 if index >= first else 0.0)
        for index, upper in enumerate((*buckets, inf))
    )


def add(connection: sa.Connection, deltas: Iterable[Delta]) -> None:
    """Advance the totals by `deltas`, once in a transaction. Rows are taken in one order, so that two writers never
    wait for each other."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    written: dict[Labels, str] = {}  # most deltas of a batch have the same labels
    now = time.time()
    for delta in _named(connection, tuple(deltas)):
        labels = written.get(delta.labels) or written.setdefault(delta.labels, _written(delta.labels))
        key = (delta.name, labels)
        if (row := sums.get(key)) is None:
            row = {"name": key[0], "labels": key[1], "value": 0.0, "first_at": now, **dict.fromkeys(_EXEMPLAR)}
            sums[key] = row
        row["value"] += delta.value
        if delta.exemplar is not None:
            shown = (delta.exemplar.trace_id, delta.exemplar.value, delta.exemplar.at)
            row.update(zip(_EXEMPLAR, shown, strict=True))
    if sums:
        connection.execute(_upsert(connection.dialect.name), [sums[key] for key in sorted(sums)])


@cache
def _upsert(dialect: str) -> sa.Insert:
    statement = insert_for(dialect, total)
    new = statement.excluded
    latest = {name: sa.case((new.exemplar_trace_id.is_not(None), new[name]), else_=total.c[name]) for name in _EXEMPLAR}
    return statement.on_conflict_do_update(
        index_elements=["name", "labels"], set_={"value": total.c.value + new.value, **latest}
    )


def totals(connection: sa.Connection) -> list[Total]:
    """Every series in the order of its first appearance (then by name and labels), so that the order never changes:
    what an exporter cuts off at a limit stays cut off."""
    rows = connection.execute(sa.select(total).order_by(total.c.first_at, total.c.name, total.c.labels))
    return [
        Total(
            row.name,
            _read(row.labels),
            row.value,
            None
            if row.exemplar_trace_id is None
            else Exemplar(row.exemplar_trace_id, row.exemplar_value, row.exemplar_at),
        )
        for row in rows
    ]


def keys(connection: sa.Connection, *chosen: sa.ColumnElement[bool], lock: bool) -> list[Key]:
    """The series that these conditions choose, in the order in which writers lock them; lock: locked."""
    query = sa.select(*_KEY).where(*chosen)
    python = connection.dialect.name == "sqlite"  # writers sort as Python does
    ordered = query.order_by(*[column if python else column.collate("C") for column in _KEY])
    return [(row.name, row.labels) for row in connection.execute(ordered.with_for_update() if lock else ordered)]


def delete(connection: sa.Connection, series: Sequence[Key]) -> int:
    """Delete these series, which are locked; returns how many."""
    for some in chunks(series):
        connection.execute(sa.delete(total).where(sa.tuple_(*_KEY).in_(some)))
    return len(series)


def _written(labels: Labels) -> str:
    return json.dumps(sorted(labels), ensure_ascii=True, separators=(",", ":"))


def _read(labels: str) -> Labels:
    return tuple((name, value) for name, value in json.loads(labels))


_DAY: Final = 86_400
_DAY_NS: Final = _DAY * 1_000_000_000
_BEFORE: Final = {"request_id": "", "kind": ""}
_FIRST_DAY: Final = sa.select(counted.c.day).filter_by(**_BEFORE)
_PAGE: Final = 2_000


def uncounted(connection: sa.Connection, given: Iterable[tuple[str, str, int]]) -> set[tuple[str, str]]:
    """Those of these (id, kind) that were not counted before, each with its beginning in nanoseconds. From now on they
    are."""
    begun = {(identity, kind): at // _DAY_NS for identity, kind, at in given}
    rows = [{"request_id": key[0], "kind": key[1], "day": begun[key]} for key in sorted(begun)]
    if not rows:
        return set()
    new = {(row.request_id, row.kind) for row in connection.execute(_counting(connection.dialect.name), rows)}
    first = _first_day(connection) if new else 0
    return {key for key in new if begun[key] >= first}


@cache
def _counting(dialect: str) -> Any:
    statement = insert_for(dialect, counted).on_conflict_do_nothing()
    return statement.returning(counted.c.request_id, counted.c.kind)


def _first_day(connection: sa.Connection) -> int:
    """Before which nothing counts."""
    return connection.scalar(_FIRST_DAY) or 0


def day_of(moment: float) -> int:
    """The day of a moment in Unix seconds."""
    return int(moment // _DAY)


def counted_before(day: int) -> sa.Select[tuple[str, str]]:
    """What is forgotten before a day."""
    return sa.select(counted.c.request_id, counted.c.kind).where(counted.c.request_id != "", counted.c.day < day)


def forget_before(connection: sa.Connection, day: int) -> None:
    """Let nothing count any more that began before a day; a later one that was set stays."""
    statement = insert(connection, counted).values(**_BEFORE, day=day)
    later = statement.excluded.day > counted.c.day
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(counted.primary_key), set_={"day": statement.excluded.day}, where=later
        )
    )


def counted_pages(database: Database, day: int) -> Iterator[sa.Delete]:
    """What deletes the rows before a day, page by page of all rows, which are read by their key."""
    key = [counted.c.request_id, counted.c.kind]
    place = sa.tuple_(*key)
    for rows in pages(database.read, sa.select(*key, counted.c.day), key, _PAGE):
        if any(row.day < day for row in rows):
            first, last = (sa.tuple_(sa.literal(row.request_id), sa.literal(row.kind)) for row in (rows[0], rows[-1]))
            yield sa.delete(counted).where(place >= first, place <= last, counted.c.day < day)


def spend(connection: sa.Connection, spent: Mapping[str, float], budgets: Mapping[str, float], now: float) -> None:
    """Add seconds by resource to those of the day, and count a budget that they use up, once a day."""
    deltas: list[Delta] = []
    for resource, seconds in sorted(spent.items()):
        labels = (("resource", resource),)
        after = _grown(connection, resource, seconds, now)
        deltas.append(Delta(ANALYSIS_COST.name, (("job_kind", ATTRIBUTION), *labels), seconds))
        crossed = resource in budgets and after - seconds < budgets[resource] <= after
        deltas.append(Delta(ATTRIBUTION_BUDGET_EXHAUSTED.name, labels, float(crossed)))
    add(connection, deltas)


def _grown(connection: sa.Connection, resource: str, seconds: float, now: float) -> float:
    """The day's seconds with these."""
    statement = insert(connection, spending).values(day=_day(now), resource=resource, seconds=seconds)
    grown = statement.on_conflict_do_update(
        index_elements=list(spending.primary_key),
        set_={"seconds": spending.c.seconds + statement.excluded.seconds},
    )
    return float(connection.scalars(grown.returning(spending.c.seconds)).one())


def spent(connection: sa.Connection, now: float) -> dict[str, float]:
    """What was spent on the day of `now`, in seconds by resource."""
    rows = connection.execute(sa.select(spending.c.resource, spending.c.seconds).where(spending.c.day == _day(now)))
    return {row.resource: row.seconds for row in rows}


def _day(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).date().isoformat()


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


def _named(connection: sa.Connection, deltas: Sequence[Delta]) -> list[Delta]:
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


def exposed_names(connection: sa.Connection, services: Iterable[str]) -> dict[str, str]:
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
    return known | {(row["label"], _read_value(row["service"]), _read_value(row["value"])) for row in given}


def _known(connection: sa.Connection, wanted: Iterable[Place]) -> set[Place]:
    """Those of these values that have a place."""
    found: set[Place] = set()
    for some in chunks(sorted((label, _written_value(of), _written_value(value)) for label, of, value in wanted)):
        rows = connection.execute(_AMONG, {"places": some})
        found.update((label, _read_value(of), _read_value(value)) for label, of, value in rows)
    return found


def _free(connection: sa.Connection, wanted: Iterable[Place]) -> list[dict[str, Any]]:
    """Rows that give these values places, as far as there are any, in the order of their names."""
    by: dict[tuple[str, str], list[str]] = defaultdict(list)
    for label, of, value in sorted(wanted):
        if value != OTHER:
            by[label, of].append(value)
    rows: list[dict[str, Any]] = []
    for (label, of), values in by.items():
        same = exposed.c.label == label, exposed.c.service == _written_value(of)
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
        {"label": label, "service": _written_value(of), "value": _written_value(value), "place": place}
        for place, value in enumerate(values, start=first)
    ]


def exposed_values(connection: sa.Connection) -> dict[tuple[str, str], tuple[str, ...]]:
    """The values in the order in which they got their place, by label and service."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in connection.execute(sa.select(exposed).order_by(exposed.c.place, exposed.c.value)):
        found[row.label, _read_value(row.service)].append(_read_value(row.value))
    return {key: tuple(values) for key, values in found.items()}


def expose(connection: sa.Connection, new: Iterable[Place]) -> None:
    """Give these values a place as far as there are any, as if they were counted."""
    _take(connection, set(new))


def admit(connection: sa.Connection, service: str) -> bool:
    """Give a service a place, whatever the budgets say. False where it has one."""
    take_advisory_lock(connection, _TURN)
    wanted = places(service)
    missing = [place for place in wanted if place not in _known(connection, wanted)]
    for label, of, value in missing:
        last = sa.select(sa.func.coalesce(sa.func.max(exposed.c.place), -1))
        same = exposed.c.label == label, exposed.c.service == _written_value(of)
        connection.execute(
            insert(connection, exposed), _rows(label, of, [value], (connection.scalar(last.where(*same)) or 0) + 1)
        )
    return bool(missing)


def forget_places(connection: sa.Connection, service: str, segment: str | None) -> int:
    """Take the places of a service and of all that is of it back, or those of one segment. Returns how many."""
    take_advisory_lock(connection, _TURN)
    if segment is not None:
        same = exposed.c.label == "segment", exposed.c.value == _written_value(segment)
        return connection.execute(
            sa.delete(exposed).where(exposed.c.service == _written_value(service), *same)
        ).rowcount
    tenant = namespace(service)
    gone = connection.execute(sa.delete(exposed).where(places_of([service]))).rowcount
    left = (
        sa.select(exposed.c.value)
        .where(exposed.c.label == "service", exposed.c.service == _written_value(tenant))
        .limit(1)
    )
    if tenant and connection.scalar(left) is None:
        alone = exposed.c.label == TENANT, exposed.c.value == _written_value(tenant)
        connection.execute(sa.delete(exposed).where(*alone))
    return gone


def places_of(services: Iterable[str]) -> sa.ColumnElement[bool]:
    """Which places are those of services, and of what is of them."""
    written = [_written_value(service) for service in services]
    inner = sa.and_(exposed.c.service.in_(written), exposed.c.label.not_in(("service", TENANT)))
    return sa.or_(inner, sa.and_(exposed.c.label == "service", exposed.c.value.in_(written)))


def _written_value(text: str) -> str:
    """As the totals' labels are written: PostgreSQL takes no NUL, and neither database a lone surrogate."""
    return json.dumps(text, ensure_ascii=True)


def _read_value(written: str) -> str:
    text: str = json.loads(written)
    return text
