"""Spans that wait: whoever takes a trace for a while has it as long as nobody else has, and no longer."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa

from ragtrace.store import Assembled, DueTrace, Store
from tests.store.parts import ONE, TWO, MakeRecord, assembled, part, read, state


def begun_anew(store: Store, make: MakeRecord, *, claimed: bool) -> Assembled:
    """What an assembler made that stood still until its trace was assembled by another, forgotten, and begun anew."""
    store.add_spans([part(1)], now=0.1)
    (due,) = store.claim_traces(now=10.1)
    sleeper = assembled(store, make, due)
    (again,) = store.claim_traces(now=80.3)
    store.assembled([assembled(store, make, again)])
    assert store.forget_spans(10, now=200) == 1
    store.add_spans([part(2)], now=210.7, grace=5)
    if claimed:
        assert len(store.claim_traces(now=220.9)) == 1
    return sleeper


@pytest.mark.parametrize("claimed", [False, True])
def test_a_trace_that_was_begun_anew(store: Store, make_record: MakeRecord, claimed: bool) -> None:
    """Whoever had the former one settles and fails nothing, although both have as many parts."""
    sleeper = begun_anew(store, make_record, claimed=claimed)
    before = state(store)
    store.assembled([sleeper])
    store.fail_trace(sleeper.trace, "broken", now=221.0)

    assert state(store) == before
    (due,) = store.claim_traces(now=1_000.0)
    assert [each.body for each in read(store, due)] == [part(2).body]


def test_a_lease_that_another_has(store: Store, make_record: MakeRecord) -> None:
    """What was made under the former one is written, and changes nothing of the trace; the other settles it."""
    store.add_spans([part(1)], now=0.1)
    (former,) = store.claim_traces(now=10.1)
    (holder,) = store.claim_traces(now=80.3)
    before = state(store)
    store.fail_trace(former, "broken", now=81.0)
    store.assembled([assembled(store, make_record, former)])
    assert state(store) == before
    assert store.get_record(ONE) is not None
    store.assembled([assembled(store, make_record, holder)])

    assert store.traces_waiting() == (0, None)


def test_a_lease_that_ran_out(store: Store, make_record: MakeRecord) -> None:
    """As long as nobody else has taken the trace it still counts."""
    store.add_spans([part(1), part(1, TWO)], now=0.1)
    due = {each.trace_id: each for each in store.claim_traces(now=10.1, lease_seconds=0.1 + 0.2)}
    store.assembled([assembled(store, make_record, due[ONE])])
    store.fail_trace(due[TWO], "broken", now=5_000.0)

    (again,) = store.claim_traces(now=6_000.0)
    assert (again.trace_id, again.attempts) == (TWO, 1)


@pytest.mark.parametrize("between", [False, True])
def test_leases_of_one_moment(store: Store, make_record: MakeRecord, between: bool) -> None:
    """Two that begin and end at the same time are two, whether or not a part came between them."""
    store.add_spans([part(1)], grace=0, now=100)
    (first,) = store.claim_traces(now=100, lease_seconds=60 if between else 0)
    made = assembled(store, make_record, first)
    if between:
        store.add_spans([part(2)], grace=0, now=100)
    (second,) = store.claim_traces(now=100, lease_seconds=60 if between else 0)
    assert (first.leased_until, first.attempts + (not between)) == (second.leased_until, second.attempts)
    before = state(store)
    store.assembled([made])
    store.fail_trace(first, "broken", now=100)
    assert state(store) == before
    store.assembled([assembled(store, make_record, second)])

    assert store.traces_waiting()[0] == 0


def test_leases_of_several_claims(store: Store, make_record: MakeRecord) -> None:
    """They are settled in one transaction, and a trace by its own lease only."""
    drawn = random.Random(5)
    times = sorted(drawn.uniform(1e9, 2e9) for _ in range(20))
    for number, now in enumerate(times):
        store.add_spans([part(number, f"{number:032x}")], grace=0, now=now)
        (due,) = store.claim_traces(now=now, lease_seconds=3e9)
        times[number] = due.leased_until
    claims = [DueTrace("", f"{number:032x}", 1, 0, 0, until) for number, until in enumerate(times)]
    crossed = [DueTrace("", each.trace_id, 1, 0, 0, until) for each, until in zip(claims, reversed(times), strict=True)]
    store.assembled([Assembled(each, None) for each in crossed])
    assert store.traces_waiting()[0] == 20
    store.assembled([Assembled(each, None) for each in claims])

    assert store.traces_waiting()[0] == 0


def test_a_server_that_prints_few_digits(store: Store, make_record: MakeRecord) -> None:
    """The end of a lease is compared where it stands."""
    if store.url.startswith("sqlite"):
        pytest.skip("a setting of PostgreSQL")
    with store._database.write() as connection:
        name = connection.scalar(sa.text("SELECT current_database()"))
        connection.execute(sa.text(f"ALTER DATABASE {name} SET extra_float_digits = -8"))
    store._database.close()
    store.add_spans([part(1)], now=1.6e9 + 1 / 3)
    (due,) = store.claim_traces(now=1.7e9 + 1 / 3)
    store.assembled([assembled(store, make_record, due)])

    assert store.traces_waiting()[0] == 0


def test_the_statements_of_a_batch_of_new_spans(store: Store) -> None:
    """Nothing is asked beside what stores them."""
    seen: list[str] = []

    @sa.event.listens_for(store._database._engine, "before_cursor_execute")
    def _noted(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement.split()[0])

    store.add_spans([part(1), part(2, TWO)], now=0)
    assert [each for each in seen if each in {"SELECT", "INSERT", "UPDATE", "DELETE"}] == ["SELECT", "INSERT", "INSERT"]
