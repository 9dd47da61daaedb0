"""Spans between their arrival and their assembly: each once, due in time, nothing lost between two workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from ragtrace.store import Assembled, SpanPart, Store, _spans as spans
from ragtrace.store.tables import span_part, trace
from ragtrace.types import RequestRecord
from tests.store.parts import bodies

Make = Callable[..., RequestRecord]


def part(trace: str = "t1", body: bytes = b"spans", tenant: str = "", *, ended: bool = True) -> SpanPart:
    """A part of a trace."""
    return SpanPart(tenant, trace, body, ended)


def claimed(store: Store, now: float) -> list[str]:
    """The traces that are due."""
    return [each.trace_id for each in store.claim_traces(now=now)]


def test_each_part_once(store: Store) -> None:
    """A part that comes again, alone or beside a new one, changes nothing."""
    assert store.add_spans([part(), part()], now=100) == 1
    assert store.add_spans([part(), part(body=b"more")], now=101) == 1
    (due,) = store.claim_traces(now=200)

    assert due.parts == 2
    assert bodies(store, [due]) == {("", "t1"): [b"more", b"spans"]}


def test_due_after_the_root(store: Store) -> None:
    """A grace period after the root, which other spans do not prolong."""
    store.add_spans([part()], grace=5, ttl=60, now=100)
    store.add_spans([part(body=b"more", ended=False)], grace=5, ttl=60, now=104)

    assert claimed(store, 104.9) == []
    assert claimed(store, 105.1) == ["t1"]


def test_due_without_a_root(store: Store) -> None:
    """After the time to live; a root that comes makes it sooner."""
    store.add_spans([part(ended=False), part("t2", ended=False)], grace=5, ttl=60, now=100)
    store.add_spans([part(body=b"root")], grace=5, ttl=60, now=110)

    assert claimed(store, 115.1) == ["t1"]
    assert claimed(store, 159) == []
    assert "t2" in claimed(store, 161)


def test_settled(store: Store, make_record: Make) -> None:
    """An assembled trace is written with its record, and not due until another span comes."""
    store.add_spans([part()], now=100)
    (due,) = store.claim_traces(now=200)
    store.assembled([Assembled(due, make_record("r1"))])

    assert store.get_record("r1") is not None
    assert claimed(store, 9_999) == []
    assert store.traces_waiting() == (0, None)
    store.add_spans([part(body=b"late", ended=False)], grace=5, ttl=60, now=300)
    assert claimed(store, 306) == ["t1"]


def test_span_during_assembly(store: Store) -> None:
    """What comes while a trace is being assembled is not forgotten."""
    store.add_spans([part()], grace=1, now=100)
    (due,) = store.claim_traces(now=200, lease_seconds=60)
    store.add_spans([part(body=b"meanwhile")], grace=1, now=201)
    store.assembled([Assembled(due, None)])

    (again,) = store.claim_traces(now=203)
    assert again.parts == 2


def test_one_worker_at_a_time(store: Store) -> None:
    """A taken trace is due again only when its lease has run out."""
    store.add_spans([part()], now=100)

    assert claimed(store, 200) == ["t1"]
    assert claimed(store, 230) == []
    assert claimed(store, 261) == ["t1"]


def test_failures_end(store: Store) -> None:
    """A trace that fails again and again waits for another span, with its reason."""
    store.add_spans([part()], now=100)
    now = 200.0
    for _ in range(5):
        (due,) = store.claim_traces(now=now)
        store.fail_trace(due, "broken", now=now)
        now += 100

    assert claimed(store, now) == []
    store.add_spans([part(body=b"more")], now=now)
    assert claimed(store, now + 100) == ["t1"]


def test_tenants_are_apart(store: Store) -> None:
    """The same trace id of two tenants is two traces."""
    store.add_spans([part(tenant="a"), part(tenant="b", body=b"other")], now=100)
    due = store.claim_traces(now=200)

    assert bodies(store, due) == {("a", "t1"): [b"spans"], ("b", "t1"): [b"other"]}


def test_forgotten(store: Store) -> None:
    """Spans of assembled traces go after a while; those that wait stay."""
    store.add_spans([part(), part("t2", ended=False)], grace=1, ttl=10_000, now=100)
    store.assembled([Assembled(each, None) for each in store.claim_traces(now=200)])

    assert store.forget_spans(1_000, now=1_000) == 0
    assert store.forget_spans(1_000, now=1_200) == 1
    assert store.counts()["span_part"] == 1
    assert store.traces_waiting()[0] == 1


def test_a_trace_that_ends_its_assemblers(store: Store) -> None:
    """After two leases in vain it goes alone, and at the cap it is set aside; the age of what waits is not hidden."""
    store.add_spans([part(f"t{number}") for number in range(3)], now=100)
    now, sizes = 200.0, []
    while due := store.claim_traces(now=now, lease_seconds=10):
        sizes.append(len(due))
        store.assembled([Assembled(each, None) for each in due if len(due) == 1 and each.trace_id != "t1"])
        assert store.traces_waiting()[1] in (100, None)
        now += 20
    assert sizes == [3, 3, *[1] * 5]
    assert store.traces_waiting() == (0, None)
    assert store.forget_spans(0, now=now + 9) == 2


def test_traces_come_by_the_key(tmp_path: Path) -> None:
    """SQLite's plan searches the key of each table for several traces, of several tenants; kept spans are many."""
    path = tmp_path / "plan.db"
    keys = [(tenant, f"{number:032x}") for tenant in "ab" for number in range(3)]
    with Store.open(f"sqlite:///{path}"):
        engine = sa.create_engine(f"sqlite:///{path}")
        for table, index in ((trace, "sqlite_autoindex_trace_1"), (span_part, "sqlite_autoindex_span_part_1")):
            conditions = list(spans.of_traces(table, keys))
            assert len(conditions) == 2
            written = sa.select(table).where(conditions[0]).compile(engine, compile_kwargs={"literal_binds": True})
            with engine.connect() as connection:
                plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {written}")]
            assert plan == [f"SEARCH {table.name} USING INDEX {index} (tenant=? AND trace_id=?)"]
        engine.dispose()


def test_a_lease_that_is_prolonged(store: Store) -> None:
    """It is known by its new end from then on; neither what has a part more nor what another took is prolonged."""
    parts = [SpanPart("", each * 32, b"1", True) for each in "abc"]
    store.add_spans(parts, now=100)
    due = store.claim_traces(now=200, lease_seconds=60)
    store.add_spans([SpanPart("", "b" * 32, b"2", True)], now=230)
    renewed = store.renew_traces(due, lease_seconds=60, now=240)
    assert {key[1][0]: each.leased_until for key, each in renewed.items()} == {"a": 300, "c": 300}
    assert [each.trace_id[0] for each in store.claim_traces(now=290)] == ["b"]

    (first, second) = (renewed["", each * 32] for each in "ac")
    store.fail_trace(due[0], "by its old lease", now=291)
    store.assembled([Assembled(first, None)])
    assert store.traces_waiting()[0] == 2
    (taken,) = store.claim_traces(now=310)
    assert store.renew_traces([second, first], now=311) == {}
    assert store.renew_traces([taken], now=9_000) == {("", "c" * 32): replace(taken, leased_until=9_060)}
