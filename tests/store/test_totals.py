"""Totals only grow, one row for each series."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragtrace.store import Delta, Exemplar, Finished, Store, Total, histogram_deltas
from ragtrace.types import Analysis, RequestRecord


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
