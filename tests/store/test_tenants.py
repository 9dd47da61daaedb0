"""What is kept by service of a tenant's own services goes with the tenant; nothing of anybody else's does."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from ragtrace.store import Assembled, SpanPart, Store, Subject
from ragtrace.store.database import insert
from ragtrace.store.tables import exposed, metadata
from ragtrace.types import Gold, RequestRecord

APART = ("request", "job", "tenant_service")  # by request, and by tenant
BY_SERVICE = [table for table in metadata.sorted_tables if "service" in table.c and table.name not in APART]
OWN, OTHERS = ("a/shop", "a/x'\"]é%_"), ("shop", "A/shop", "a.b/shop", "b/shop", "a")


def fill(store: Store, service: str) -> None:
    """Put a row of this service into every table that is kept by service, and totals that have its label."""
    written = f'["service","{service}"]'
    with store._database.write() as connection:
        for table in BY_SERVICE:
            row = {column.name: _value(column, service) for column in table.c}
            if table is exposed:
                row["service"] = _json(service)
            connection.execute(insert(connection, table).values(**row).on_conflict_do_nothing())
        for labels in ([["service", service]], [["segment", written], ["service", service]], [["segment", written]]):
            row = {"name": "counted", "labels": _json(labels), "value": 1.0, "first_at": 1.0}
            connection.execute(insert(connection, metadata.tables["total"]).values(**row).on_conflict_do_nothing())
        run = {"run_id": service, "component": "index", "version": "1"}
        connection.execute(insert(connection, metadata.tables["gate_version"]).values(**run))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _value(column: sa.Column[Any], service: str) -> Any:
    kinds: dict[type, Any] = {str: service, int: 1, float: 1.0, bytes: b"1", bool: True}
    return kinds[column.type.python_type]


def named(store: Store, tenant: str, service: str, trace_id: str) -> None:
    """Store a request as the assembler does, of a tenant's spans."""
    store.add_spans([SpanPart(tenant, trace_id, trace_id.encode(), True)], now=100.0)
    (due,) = store.claim_traces(now=200.0)
    record = RequestRecord(
        request_id=f"{tenant}:{trace_id}", service=service, tenant_id=tenant or None, trace_id=trace_id
    )
    store.assembled([Assembled(due, record)])


def left(store: Store) -> dict[str, set[str]]:
    """By service, the tables that name it."""
    found: dict[str, set[str]] = {}
    with store._database.read() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(sa.select(table)).mappings():
                for service in (*OWN, *OTHERS):
                    if row.get("service") in (service, _json(service)) or row.get("run_id") == service:
                        found.setdefault(service, set()).add(table.name)
                    if _json(["service", service]) in row.get("labels", ""):
                        found.setdefault(service, set()).add("total")
    return found


def test_all_that_is_kept_by_service(store: Store) -> None:
    """Of the tenant's own services every row of every table goes, found before; those of others, and of services that
    only look alike, stay as they were, and the tenant's that others may name are told."""
    for place, service in enumerate(OWN, 1):
        named(store, "a", service, f"{place:032x}")
    named(store, "a", "shop", f"{7:032x}")
    named(store, "b", "b/shop", f"{8:032x}")
    for service in (*OWN, *OTHERS):
        fill(store, service)
    before = left(store)
    assert all({*(table.name for table in BY_SERVICE), "total", "gate_version"} <= before[each] for each in OWN)

    found = store.find_subject(Subject(tenant="a"))
    gone = store.erase(Subject(tenant="a"))
    assert (gone.requests, gone.shared, found.shared) == (3, ("shop",), ("shop",))
    assert {name: gone.rows[name] for name in found.rows} == {**found.rows, "background": 3}  # of the shared one too
    assert gone.rows["total"] == 3 * len(OWN)  # with the one that counts requests
    assert gone.rows["gate_run"] == len(OWN)
    after = left(store)
    assert not set(OWN) & after.keys()
    requests = {"request", "job", "background", "tenant_service"}  # of the tenant's own requests in a shared service
    assert {each: after[each] - requests for each in OTHERS} == {each: before[each] - requests for each in OTHERS}
    assert store.erase(Subject(tenant="a")).rows == {}


def test_requests_that_were_pruned(store: Store) -> None:
    """What is kept by service is the tenant's still when none of its requests is stored any more."""
    named(store, "a", "a/shop", "1" * 32)
    fill(store, "a/shop")
    store.prune({"all": 0.0}, now=4e9)
    assert store.counts()["request"] == 0
    assert store.find_subject(Subject(tenant="a")).rows["release"] == 1
    store.erase(Subject(tenant="a"))
    assert left(store) == {}


def test_a_service_that_others_sent_to(store: Store) -> None:
    """A host that writes to the store itself may name a service as a tenant's are: it stays, and is told as shared;
    and so it does where another tenant was allowed to name it, whose requests are gone."""
    for place, service in enumerate(OWN, 1):
        named(store, "a", service, f"{place:032x}")
        store.put_gold([Gold(service=service, question="What?", chunk_ids=("c",))])
    store.write([RequestRecord(request_id="host", service=OWN[0])])
    named(store, "b", OWN[1], f"{8:032x}")
    store.erase(Subject(requests=(f"b:{8:032x}",)))

    for gone in (store.find_subject(Subject(tenant="a")), store.erase(Subject(tenant="a"))):
        assert sorted(gone.shared) == sorted(OWN)
        assert "gold" not in gone.rows
    assert store.find_subject(Subject(tenant="a")).rows == {}
    assert store.counts()["gold"] == 2


def test_a_session_leaves_the_services(store: Store) -> None:
    """A session, even the tenant's only one, is not the tenant."""
    named(store, "a", "a/shop", "1" * 32)
    store.write([RequestRecord(request_id="a:2", service="a/shop", tenant_id="a", session_id="s")])
    fill(store, "a/shop")
    gone = store.erase(Subject(tenant="a", session="s"))
    assert (gone.requests, gone.shared) == (1, ())
    assert {"release", "total", "gold"} <= left(store)["a/shop"]


def test_what_comes_meanwhile(store: Store) -> None:
    """A service to which a request comes while the tenant is erased keeps what is counted of it, for the next time."""
    named(store, "a", "a/shop", "1" * 32)
    fill(store, "a/shop")
    subject = Subject(tenant="a")
    found = store.find_subject(subject)
    original = store._database.write
    calls = iter(range(100))

    def write() -> Any:
        if next(calls) == 2:  # behind the lease and the first page
            store._database.write = original  # type: ignore[method-assign]
            named(store, "a", "a/shop", "2" * 32)
        return original()

    store._database.write = write  # type: ignore[method-assign]
    gone = store.erase(subject)
    assert "release" not in gone.rows
    assert {"release", "total"} <= left(store)["a/shop"]
    assert store.find_subject(subject).requests == found.requests == 1
    assert store.erase(subject).rows["release"] == 1
    assert left(store) == {}
