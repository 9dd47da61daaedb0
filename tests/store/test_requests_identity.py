"""Attempts: two requests to which a host gave the same id are both there, and a replay is no attempt."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ragtrace.store import Store
from ragtrace.types import Addendum, Fault, RequestRecord, replace

SECOND = 1_000_000_000
FIRST = RequestRecord(request_id="r", service="s", started_at=5 * SECOND, flags=("vip",))
RETRY = RequestRecord(request_id="r", service="s", started_at=9 * SECOND + 7, status="error", flags=("error",))
THIRD = RequestRecord(request_id="r", service="s", started_at=20 * SECOND, head_sampled=True)
RETRY_ID = "r~19700101T000009.000000007"


def stored(store: Store) -> dict[int, tuple[str, tuple[str, ...]]]:
    """Id and flags of what is stored, by start."""
    found = store.get_records(store.find_request_ids("r"))
    return {record.started_at: (record.request_id, record.flags) for record in found.values()}


def counted(store: Store) -> float:
    """How many requests the totals say there were."""
    return sum(total.value for total in store.totals() if total.name == "ragtrace_requests_total")


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_retry_with_the_same_id_is_a_request_of_its_own(store: Store, in_one_batch: bool) -> None:
    """Both attempts are there with their flags, found by the id as prefix, counted, and told of."""
    for batch in [[RETRY, FIRST]] if in_one_batch else [[FIRST], [RETRY]]:
        store.write(batch)
    assert stored(store) == {FIRST.started_at: ("r", ("vip",)), RETRY.started_at: (RETRY_ID, ("error",))}
    assert store.find_request_ids("r") == ["r", RETRY_ID]
    assert counted(store) == 2
    assert [(fault.where, fault.kind, fault.count) for fault in store.faults()] == [("request", "repeated", 1)]
    assert {job.request_id for job in store.claim("worker")} == {"r", RETRY_ID}


@pytest.mark.parametrize("order", list(itertools.permutations([FIRST, RETRY, THIRD])))
def test_a_replay_changes_nothing(store: Store, order: Any) -> None:
    """In whatever order they came and come again, one by one and together."""
    for record in order:
        store.write([record])
    before = stored(store)
    assert len(before) == 3
    for batch in ([THIRD], [RETRY], [FIRST], [FIRST, RETRY, THIRD], [RETRY, THIRD]):
        store.write(batch)
    assert stored(store) == before
    assert counted(store) == 3
    assert [fault.count for fault in store.faults()] == [2]


def test_an_addendum_to_the_id_joins_the_first(store: Store) -> None:
    """It does not say which attempt it means; a further attempt neither loses nor takes it."""
    store.write([Addendum(request_id="r", service="s", addendum_id="a", flags=("late",)), FIRST])
    store.write([RETRY, Fault(service="s", where="w", kind="k")])
    assert stored(store) == {FIRST.started_at: ("r", ("vip", "late")), RETRY.started_at: (RETRY_ID, ("error",))}


def test_attempts_that_are_written_at_once_are_all_there(url: str) -> None:
    """By several processes: none waits for another forever, none is lost."""
    numbers, writers = 12, 3
    records = [
        RequestRecord(request_id=f"r{number}", service="s", started_at=(writer + 1) * SECOND)
        for writer in range(writers)
        for number in range(numbers)
    ]
    begin = threading.Barrier(writers)

    def write(writer: int) -> None:
        with Store.open(url) as opened:
            begin.wait()
            opened.write(records[writer * numbers : (writer + 1) * numbers])

    Store.open(url).close()
    with ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(write, writer) for writer in range(writers)]:
            done.result()
    with Store.open(url) as opened:
        assert opened.counts()["request"] == numbers * writers
        assert counted(opened) == numbers * writers


@pytest.mark.parametrize("tenant", ["", "a:"])
def test_a_trace_is_one_request_whenever_it_began(store: Store, tenant: str) -> None:
    """A request that has its trace's id is no further attempt when a late span shows that it began earlier."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    early = replace(RETRY, request_id=tenant + trace, trace_id=trace, record_revision=1)
    late = replace(early, started_at=3 * SECOND, record_revision=2)
    for record in (early, late, early, late):
        store.write([record])

    assert [(row.request_id, row.started_at) for row in store.find_requests()] == [(tenant + trace, 3 * SECOND)]
    assert counted(store) == 1
    assert store.faults() == []
