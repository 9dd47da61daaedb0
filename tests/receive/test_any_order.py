"""Spans of a trace, in batches of any kind and order, sent again, with assembly in between: one request in the end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

import pytest
import sqlalchemy as sa
from hypothesis import given, settings, strategies as st

from ragtrace import config
from ragtrace.plausible_values import EARLIEST
from ragtrace.receive._assembly import Assembler
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Store
from ragtrace.store.tables import job
from ragtrace.types import RequestRecord, replace
from tests.receive.spans import assembled, model, span
from tests.receive.test_assembly import request
from tests.receive.test_assembly_assembler import part

NUMBERS = count(1)
POLICY = config.load(capture_content="full")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for all examples, each of which has a trace of its own."""
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('spans')}/spans.db") as opened:
        yield opened


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 4), min_size=1), max_size=6), st.sets(st.integers(0, 6)), st.randoms())
def test_one_request(store: Store, batches: list[set[int]], assembled_after: set[int], random: Random) -> None:
    """Its record is that of all spans at once, its revision their number, and each revision has one job."""
    trace_id = f"{next(NUMBERS):032x}"
    judge = model(4, 1, "Is it grounded?", "yes")
    spans = [
        replace(each, trace_id=trace_id, started_at=EARLIEST + each.started_at, ended_at=EARLIEST + each.ended_at)
        for each in (*request(), judge, span(5, 3))
    ]
    sent = [*batches, set(range(5)) - set().union(*batches)]
    random.shuffle(sent)
    assembler = Assembler(store, POLICY)
    now = 100.0
    for place, batch in enumerate(sent):
        chosen = [spans[each] for each in batch]
        random.shuffle(chosen)
        store.add_spans([part(chosen)] if chosen else [], now=now)
        now += 1_000
        if place in assembled_after:
            assembler.step(now=now)
    while assembler.step(now=now + 1_000):
        now += 1_000

    expected = ContentPolicy(POLICY).finish(assembled(spans))
    assert isinstance(expected, RequestRecord)
    stored = store.get_record(trace_id)
    assert stored is not None
    assert stored == replace(expected, schema_version=stored.schema_version)
    with store._database.read() as connection:
        of_trace = sa.select(job.c.record_revision).where(job.c.request_id == trace_id)
        revisions = connection.scalars(of_trace).all()
    assert len(set(revisions)) == len(revisions)
    assert max(revisions) == expected.record_revision == 5
    assert store.traces_waiting()[0] == 0
