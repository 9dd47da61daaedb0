"""What was counted is remembered as long as one wants, and nothing counts twice, whenever it comes again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.store import Finished, Kept, Store, totals
from ragtrace.store.tables import counted
from ragtrace.types import Fault, Feedback, RequestRecord
from tests.store.test_spans_together import waits

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]

DAY = 86_400
SECOND = 1_000_000_000
NOW = 1_000.0 * DAY
KEEP: dict[Kept, float] = {"all": 30 * DAY, "counted": 100 * DAY}


def _old(days: float) -> int:
    return int((NOW - days * DAY) * SECOND)


def _delivered(store: Store, make: MakeRecord, done: MakeFinished, days: float) -> None:
    """A request that began so many days ago, judged, analyzed, and with a fault."""
    request_id = f"r{days}"
    began = _old(days)
    store.write(
        [
            make(request_id, started_at=began, ended_at=began),
            Feedback(request_id=request_id, score=1.0, created_at=began),
            Fault(service="shop", where="pack", kind="Error", message="no", at=began),
        ]
    )
    store.finish([done(job) for job in store.claim("w", limit=10)])


def _counts(store: Store) -> dict[str, float]:
    """The totals over all labels, and the faults."""
    found: dict[str, float] = {"faults": sum(each.count for each in store.faults())}
    for total in store.totals():
        if total.name != "ragtrace_analyses_total":  # work is counted whatever it is for
            found[total.name] = found.get(total.name, 0.0) + total.value
    return found


def _remembered(store: Store) -> int:
    with store._database.read() as connection:
        return len(connection.scalars(sa.select(counted.c.day).where(counted.c.request_id != "")).all())


def test_nothing_counts_twice_whatever_is_forgotten(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Requests, results, judgements and faults that come again after their requests, or what was counted, went."""
    for days in (5, 50, 99, 150, 400):
        _delivered(store, make_record, make_finished, days)
    assert _remembered(store) == 20
    before = _counts(store)
    assert before["ragtrace_requests_total"] == before["done"] == before["faults"] == 5
    would = store.prune(KEEP, now=NOW, dry_run=True)
    gone = store.prune(KEEP, now=NOW)
    assert (gone.rows, gone.rows["request"], gone.rows["counted"]) == (would.rows, 4, 8)
    assert _remembered(store) == 12

    for days in (5, 50, 99, 150, 400):
        _delivered(store, make_record, make_finished, days)
    assert _counts(store) == before
    assert len(store.find_requests()) == 5
    store.prune(KEEP, now=NOW)
    assert _remembered(store) == 12
    assert store.prune(KEEP, now=NOW, dry_run=True).rows["counted"] == 0


def test_what_comes_late_for_the_first_time(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """It counts unless it began before all that is remembered; it is stored and analyzed all the same."""
    store.prune(KEEP, now=NOW)
    for days in (99, 101):
        _delivered(store, make_record, make_finished, days)
    assert {row.request_id for row in store.find_requests()} == {"r99", "r101"}
    assert store.get_analysis("r101") is not None
    assert _counts(store)["ragtrace_requests_total"] == _counts(store)["done"] == 1


def test_a_later_day_stays(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """Who asks for more to be remembered than is does not make anything count again."""
    _delivered(store, make_record, make_finished, 150)
    before = _counts(store)
    store.prune(KEEP, now=NOW)
    store.prune({"counted": 900.0 * DAY}, now=NOW)
    _delivered(store, make_record, make_finished, 150)
    assert _counts(store) == before


def test_page_by_page(store: Store, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is looked at once, on whichever page it is."""
    monkeypatch.setattr(totals, "_PAGE", 3)
    store.write([make_record(f"{number}", started_at=_old(150 if number % 4 else 5)) for number in range(20)])
    assert store.prune({"counted": 100.0 * DAY}, now=NOW).rows["counted"] == 15
    assert _remembered(store) == 5


def test_a_writer_beside_the_forgetting(store: Store, make_record: MakeRecord) -> None:
    """It waits for a row that is being forgotten, and does not count what the row was about."""
    if store.url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    old = make_record(started_at=_old(150))
    store.write([old])
    store.prune({"all": 1.0}, now=NOW)
    errors: list[Exception] = []

    def write() -> None:
        try:
            store.write([old])
        except Exception as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    day = totals.day_of(NOW - 100 * DAY)
    with store._database.write() as connection:
        totals.forget_before(connection, day)
        deleted: Any = connection.execute(sa.delete(counted).where(counted.c.day < day))
        assert deleted.rowcount == 1
        writer.start()
        waits(store, writer)
    writer.join(60)
    assert errors == []
    assert len(store.find_requests()) == 1
    assert _counts(store)["ragtrace_requests_total"] == 1
