"""Spans that are damaged in the store: the check names their trace, and the same spans, sent again, mend it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store import DueTrace, Store
from ragtrace.store.tables import bundle, content, span_part
from ragtrace.types import content_hash
from tests.store.parts import FOUR, ONE, THREE, TWO, MakeRecord, assembled, bodies, execute, part, read, state, text

DAMAGES = {
    "the texts are gone": sa.delete(content),
    "the texts are damaged": sa.update(bundle).values(body=b"x"),
    "the part is damaged": sa.update(span_part).values(body=b"x"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_spans_that_are_sent_again(store: Store, make_record: MakeRecord, damage: sa.Executable) -> None:
    """They replace what cannot be read, one part after the other, and their trace is assembled."""
    store.add_spans([part(1), part(2)], now=0)
    (due,) = store.claim_traces(now=100)
    store.assembled([assembled(store, make_record, due)])
    execute(store, damage)
    store.add_spans([part(3)], now=200)
    (due,) = store.claim_traces(now=300)
    error = store.spans_of([due])["", ONE]
    assert isinstance(error, CorruptStore)
    assert "send the same spans again" in str(error) or "bundle" in str(error)
    store.fail_trace(due, str(error), now=300)

    assert store.add_spans([part(1), part(3)], now=301) == 0
    assert store.add_spans([part(2), part(4)], now=302) == 1
    (due,) = store.claim_traces(now=308)
    assert (due.parts, due.attempts) == (4, 0)
    assert [each.body for each in sorted(read(store, due), key=lambda each: each.body)] == sorted(
        part(seed).body for seed in (1, 2, 3, 4)
    )
    store.assembled([assembled(store, make_record, due)])
    assert store.traces_waiting()[0] == 0
    assert len(read(store, due)) == 4
    assert store.forget_spans(0, now=9_999) == 1


def test_a_trace_at_the_cap_of_attempts(store: Store) -> None:
    """Its spans, sent again, give it as many attempts as new ones; once more, they change nothing."""
    store.add_spans([part(1)], now=0)
    execute(store, sa.update(span_part).values(body=b"x"))
    for now in range(100, 600, 100):
        (due,) = store.claim_traces(now=now)
        store.fail_trace(due, "CorruptStore: its spans are damaged", now=now)
    assert store.claim_traces(now=9_000) == []
    store.add_spans([part(1)], grace=5, now=9_000)
    (due,) = store.claim_traces(now=9_006)
    assert due.attempts == 0
    assert bodies(store, [due]) == {("", ONE): [part(1).body]}
    store.fail_trace(due, "IndexError: list index out of range", now=9_006)
    before = state(store)
    store.add_spans([part(1)], now=9_007)

    assert state(store) == before


def test_spans_of_a_whole_trace_that_are_sent_again(store: Store, make_record: MakeRecord) -> None:
    """They change nothing, and take no write of their own."""
    store.add_spans([part(1)], now=0)
    (due,) = store.claim_traces(now=100)
    store.assembled([assembled(store, make_record, due)])
    before = state(store)
    assert store.add_spans([part(1)], now=200) == 0

    assert state(store) == before


def test_who_read_the_damage_fails_nothing_that_was_mended(store: Store) -> None:
    """The same spans came while a trace was read in vain: it is due as they say."""
    store.add_spans([part(1)], now=0)
    execute(store, sa.update(span_part).values(body=b"x"))
    (due,) = store.claim_traces(now=100)
    store.fail_trace(due, "CorruptStore", now=100)
    (due,) = store.claim_traces(now=200)
    store.add_spans([part(1)], grace=5, now=201)
    store.fail_trace(due, "CorruptStore", now=202)

    (due,) = store.claim_traces(now=207)
    assert due.attempts == 0


def test_the_check_names_each_damaged_trace(store: Store, make_record: MakeRecord) -> None:
    """Once, with what to do, whether it waits or is kept, and in whichever form its parts are."""
    for trace_id in (ONE, TWO, THREE, FOUR):
        store.add_spans([part(seed, trace_id) for seed in (1, 2)], now=0)
    kept = [each for each in store.claim_traces(now=100) if each.trace_id in (TWO, THREE)]
    store.assembled([assembled(store, make_record, each) for each in kept])
    whole = store.inspect(sample=None)
    assert (whole.problems, whole.read) == ((), 2 + 8)

    execute(store, sa.update(span_part).where(span_part.c.trace_id.in_([ONE, TWO])).values(body=b"x"))
    for sample in (None, 100):
        problems = store.inspect(sample=sample).problems
        assert [each.split(":")[0] for each in problems] == [f"trace /{ONE}", f"trace /{TWO}"]
        assert all(
            "its spans are damaged" in each and "restore the database from a backup" in each for each in problems
        )
    assert store.inspect(sample=1).problems == tuple(each for each in problems if ONE in each)
    execute(store, sa.delete(content).where(content.c.hash == content_hash(text(1))))
    told = [each for each in store.inspect(sample=None).problems if each.startswith("trace")]
    assert [each.split(":")[0] for each in told] == [f"trace /{each}" for each in (ONE, TWO, THREE)]
    assert "1 of the 2 texts of its spans are missing" in told[2]


def test_a_bit_of_a_waiting_part(store: Store) -> None:
    """Bytes that can still be inflated, but are others, are found by their digest."""
    store.add_spans([part(1)], now=0)
    with store._database.read() as connection:
        body = bytearray(connection.scalar(sa.select(span_part.c.body)) or b"")
    body[-5] ^= 1
    execute(store, sa.update(span_part).values(body=bytes(body)))

    (problem,) = store.inspect().problems
    assert problem.startswith(f"trace /{ONE}: its spans are damaged")
    assert isinstance(store.spans_of([DueTrace("", ONE, 1, 0)])["", ONE], CorruptStore)
