"""Totals only grow, one row for each series; what was counted is remembered as long as one wants, and counts once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.store import Delta, Exemplar, Finished, Kept, Store, Total, histogram_deltas, totals
from ragtrace.store.tables import counted
from ragtrace.types import Analysis, Fault, Feedback, RequestRecord
from tests.store.test_spans_concurrency import waits


def _finish_with(store: Store, make_record: Callable[..., RequestRecord], *batches: tuple[Delta, ...]) -> list[Total]:
    """Finish one job for each batch of deltas, and return the series that they gave."""
    store.write([make_record(f"r{number}") for number in range(len(batches))])
    for job, deltas in zip(store.claim("w"), batches, strict=True):
        store.finish([Finished(job, Analysis(request_id=job.request_id, analyzer_version="v"), deltas)])
    return [total for total in store.totals() if not total.name.startswith("ragtrace_")]


def test_series_are_told_apart_by_name_and_labels(store: Store, make_record: Callable[..., RequestRecord]) -> None:
    """The order of the labels makes no difference; their values do, whatever letters they have."""
    awkward = 'quote " comma , \x00 é'
    series = _finish_with(
        store,
        make_record,
        (Delta("a", (("x", "1"), ("y", "2")), 1.0), Delta("a", (("y", "2"), ("x", "1")), 0.5), Delta("b", (), 0.0)),
        (Delta("a", (("x", "1"), ("y", "2")), 2.0), Delta("a", (("x", awkward),), 1.0)),
    )
    assert series == [
        Total("a", (("x", "1"), ("y", "2")), 3.5),
        Total("b", (), 0.0),
        Total("a", (("x", awkward),), 1.0),
    ]


def test_the_latest_exemplar_is_kept(store: Store, make_record: Callable[..., RequestRecord]) -> None:
    """A delta without an exemplar leaves the one that there is."""
    shown = Exemplar("trace2", 0.4, 2.0)
    series = _finish_with(
        store,
        make_record,
        (Delta("a", (), 1.0, Exemplar("trace1", 0.3, 1.0)),),
        (Delta("a", (), 1.0, shown), Delta("a", (), 1.0)),
        (Delta("a", (), 1.0),),
    )
    assert series == [Total("a", (), 4.0, shown)]


@pytest.mark.parametrize(
    ("value", "counts"),
    [(0.0, [1, 1, 1, 1]), (0.5, [0, 1, 1, 1]), (0.50001, [0, 0, 1, 1]), (1.0, [0, 0, 1, 1]), (7.0, [0, 0, 0, 1])],
)
def test_a_histogram_counts_in_every_bucket_from_the_value_on(value: float, counts: list[float]) -> None:
    """Buckets are cumulative with inclusive upper bounds; the exemplar stands in the smallest that holds the value."""
    exemplar = Exemplar("t", value, 1.0)
    *buckets, total, count = histogram_deltas("h", (("service", "s"),), value, (0.0, 0.5, 1.0), exemplar)
    assert [delta.value for delta in buckets] == counts
    assert [dict(delta.labels)["le"] for delta in buckets] == ["0.0", "0.5", "1.0", "+Inf"]
    assert [delta.exemplar for delta in buckets].index(exemplar) == counts.index(1)
    assert (total.name, total.value, total.labels) == ("h_sum", value, (("service", "s"),))
    assert (count.name, count.value, count.exemplar) == ("h_count", 1.0, None)


def test_series_keep_the_order_of_their_first_appearance(
    store: Store, make_record: Callable[..., RequestRecord]
) -> None:
    """A later series is listed last, whatever its name, and growing changes no order."""
    series = _finish_with(store, make_record, (Delta("b", (), 1.0),), (Delta("a", (), 1.0), Delta("b", (), 1.0)))
    assert [total.name for total in series] == ["b", "a"]


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
    """Requests, results, judgments and faults that come again after their requests, or what was counted, went."""
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
