"""How old the best candidate of each source is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ragtrace.analyze._totals import DATES, analysis_deltas, candidate_ages
from ragtrace.registry.instruments import CANDIDATE_AGE
from ragtrace.types import Analysis, Candidate, RequestRecord, RetrieveRun

STARTED = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAY = 86_400.0


def _record(*candidates: Candidate, **fields: Any) -> RequestRecord:
    started = int(STARTED.timestamp()) * 1_000_000_000
    runs = (RetrieveRun(candidates=candidates),)
    return RequestRecord(request_id="r1", service="shop", started_at=started, ended_at=started, stages=runs, **fields)


def _found(rank: int, source: str | None, **metadata: Any) -> Candidate:
    return Candidate(chunk_id=f"c{rank}", rank=rank, source=source, metadata=metadata)


def _age(value: Any, key: str = "updated_at") -> float | None:
    return dict(candidate_ages(_record(_found(1, "wiki", **{key: value})))).get("wiki")


@pytest.mark.parametrize(
    ("value", "age"),
    [
        ("2026-03-09T12:00:00Z", DAY),
        ("2026-03-09T12:00:00+02:00", DAY + 7_200),
        ("2026-03-09T12:00:00", DAY),
        ("2026-03-09 12:00", DAY),
        ("2026-03-09", 1.5 * DAY),
        ("March 9, 2026", 1.5 * DAY),
        ("2026-02", 10.5 * DAY),  # the last day of the month: it is at least so old
        (STARTED.timestamp() - 60, 60.0),
        (int(STARTED.timestamp() - 60) * 1_000, 60.0),
        (int(STARTED.timestamp() - 60) * 1_000_000_000, 60.0),
        ("2026-03-11", 0.0),  # ahead by less than a day: another zone
        ("2026-03-12T13:00Z", None),
        ("2026", None),  # a year says too little
        ("03/04/2026", None),  # March or April
        ("2026-01-01 to 2026-02-01", None),
        (2026, None),
        (20260309, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (-1, None),
        ("soon", None),
        ("2026-13-45T99:00:00", None),
        (["2026-03-09"], None),
        (None, None),
    ],
)
def test_what_a_date_says(value: Any, age: float | None) -> None:
    """ISO 8601, dates in words, Unix seconds and their fractions; what is vague or ahead says nothing."""
    assert _age(value) == (None if age is None else pytest.approx(age))


@pytest.mark.parametrize("key", DATES)
def test_where_a_date_stands(key: str) -> None:
    """The documented keys of the metadata."""
    assert _age("2026-03-09", key) == 1.5 * DAY


def test_the_first_key_that_can_be_read_counts() -> None:
    """When a document was updated, rather than when it was made."""
    both = {"date": "2020-01-01", "updated_at": "2026-03-09"}
    assert list(candidate_ages(_record(_found(1, "wiki", **both)))) == [("wiki", 1.5 * DAY)]
    unread = {"date": "2026-03-09", "updated_at": "long ago"}
    assert list(candidate_ages(_record(_found(1, "wiki", **unread)))) == [("wiki", 1.5 * DAY)]


def test_the_best_candidate_of_each_source_that_states_a_date_counts() -> None:
    """Later ones of the same source do not."""
    record = _record(
        _found(1, "wiki"),
        _found(2, "wiki", date="2026-03-09"),
        _found(3, "tickets", date="2026-03-08"),
        _found(4, "wiki", date="2020-01-01"),
        _found(5, None, date="2026-03-07"),
        _found(6, "mail"),
    )
    assert list(candidate_ages(record)) == [("wiki", 1.5 * DAY), ("tickets", 2.5 * DAY), ("unknown", 3.5 * DAY)]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("https://docs.example.com/a/b?c", "docs.example.com"),
        ("s3://bucket/key", "bucket"),
        ("http://[broken", "unknown"),
        ("file:///a/b", "file:///a/b"),
        ("kb/policy.md", "kb/policy.md"),
        (" ", "unknown"),
    ],
)
def test_a_url_counts_as_its_host(source: str, name: str) -> None:
    """Each document has another URL; anything else is a name."""
    assert [found for found, _ in candidate_ages(_record(_found(1, source, date="2026-03-09")))] == [name]


def test_a_request_that_was_kept_for_a_flag_alone_says_nothing() -> None:
    """It would not speak for the traffic."""
    record = _record(_found(1, "wiki", date="2026-03-09"), head_sampled=False, flags=("x",))
    assert list(candidate_ages(record)) == []


def test_an_analysis_observes_each_age() -> None:
    """With the source beside the service, in the buckets of the registry."""
    record = _record(_found(1, "wiki", date="2026-03-09"), _found(2, "tickets", date="2026-02-01"))
    deltas = analysis_deltas(record, Analysis(request_id="r1", analyzer_version="v"), now=record.ended_at)
    sums = {dict(each.labels)["source"]: each.value for each in deltas if each.name == f"{CANDIDATE_AGE.name}_sum"}
    assert sums == {"wiki": 1.5 * DAY, "tickets": 37.5 * DAY}
    assert {name for each in deltas if each.name == f"{CANDIDATE_AGE.name}_count" for name, _ in each.labels} == {
        "service",
        "source",
    }
