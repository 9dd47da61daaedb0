"""Reports on sources of documents, what they say by now, and the names under which candidates' sources count."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.store import SourceState, Store
from ragtrace.store.corpus import counts_query, sources_query
from ragtrace.types import SourceReport


def _report(at: int, documents: int | None = None, source: str = "wiki", **fields: object) -> SourceReport:
    return SourceReport(service="shop", source=source, reported_at=at, documents=documents, **fields)  # type: ignore[arg-type]


def test_each_value_is_that_of_the_last_report_that_names_it(store: Store) -> None:
    """A report without a number leaves the one before."""
    store.write([_report(10, 5, newest_at=3, delay_seconds=60.0), _report(20, 6), _report(30, newest_at=2)])
    assert store.sources() == [SourceState("shop", "wiki", 30, documents=6, newest_at=2, delay_seconds=60.0)]


def test_the_order_of_arrival_makes_no_difference(store: Store) -> None:
    """Reports that waited in a spool come late, and twice."""
    reports = [_report(at, 100 + at, newest_at=at, delay_seconds=float(at), report_id=f"i{at}") for at in range(12)]
    shuffled = random.Random(3).sample(reports * 2, 24)
    for report in shuffled:
        store.write([report])
    usual = 100 + (0 + 10) / 2
    assert store.sources() == [SourceState("shop", "wiki", 11, 111, 11, 11.0, usual_documents=usual)]
    assert store.counts()["source_report"] == 12


def test_a_report_without_an_id_is_known_by_what_it_says(store: Store) -> None:
    """A command that is run again with the same time adds nothing."""
    store.write([_report(10, 5)])
    store.write([_report(10, 5), _report(10, 6)])
    assert store.counts()["source_report"] == 2


def test_sources_are_listed_by_service_in_the_order_of_their_first_reports(store: Store) -> None:
    """A later report does not move one."""
    store.write([_report(1, source="wiki"), _report(2, source="tickets")])
    store.write([_report(9, source="wiki"), replace_service(_report(3), "other")])
    assert [(each.service, each.source, each.reported_at) for each in store.sources()] == [
        ("shop", "wiki", 9),
        ("shop", "tickets", 2),
        ("other", "wiki", 3),
    ]
    assert [each.source for each in store.sources("other")] == ["wiki"]


def replace_service(report: SourceReport, service: str) -> SourceReport:
    """The same report for another service."""
    return SourceReport(service=service, source=report.source, reported_at=report.reported_at)


@pytest.mark.parametrize(
    ("counts", "usual", "unusual"),
    [
        ((100, 100, 100), None, False),
        ((100, 100, 100, 105), 100.0, False),
        ((100, 100, 100, 111), 100.0, True),
        ((100, 100, 100, 89), 100.0, True),
        ((100, 100, 100, 0), 100.0, True),
        ((0, 0, 0, 1), 0.0, True),
        ((0, 0, 0, 0), 0.0, False),
        ((80, 100, 120, 90, 110, 140), 100.0, False),  # it goes up and down by a tenth to a fifth
        ((100, 101, 0, 102, 100, 0), 100.0, True),  # a bad run before does not make the next one usual
        ((*[1] * 20, *[100] * 20, 100), 100.0, False),  # only the last 20 say what is usual
    ],
)
def test_a_volume_is_unusual_by_the_reports_before(
    store: Store, counts: Sequence[int], usual: float | None, unusual: bool
) -> None:
    """By their median and median absolute deviation; never less than a tenth of the usual number."""
    store.write([_report(at, count) for at, count in enumerate(counts)])
    (state,) = store.sources()
    assert (state.documents, state.usual_documents, state.is_unusual) == (counts[-1], usual, unusual)


def test_a_change_is_a_share_of_the_usual_number() -> None:
    """Undefined without one."""
    state = SourceState("shop", "wiki", 1, documents=60, usual_documents=80.0)
    assert state.change == pytest.approx(-0.25)
    assert replace(state, usual_documents=0.0).change is None
    assert replace(state, usual_documents=None).change is None
    assert replace(state, documents=None).change is None


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        (sources_query(), {"service_source_reported_at", "documents", "newest_at", "delay_seconds"}),
        (counts_query("shop", "wiki"), {"documents"}),
    ],
)
def test_the_history_is_not_scanned(tmp_path: Path, query: sa.Select[Any], indexes: set[str]) -> None:
    """SQLite looks each value up in an index of its own, in its order, also where no report names it."""
    path = tmp_path / "plan.db"
    with Store.open(f"sqlite:///{path}"):
        engine = sa.create_engine(f"sqlite:///{path}")
        written = query.compile(dialect=engine.dialect, compile_kwargs={"literal_binds": True})
        with engine.connect() as connection:
            plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {written}")]
        engine.dispose()
    searched = [step for step in plan if "source_report" in step]
    assert {step.partition("ix_source_report_")[2].split()[0] for step in searched} == indexes
    assert all(step.startswith("SEARCH") for step in searched)
    assert [step for step in plan if "RIGHT PART" in step] == []


def test_a_source_that_is_no_longer_ingested_is_forgotten(store: Store) -> None:
    """With its history; another of the same name in another service stays."""
    store.write([_report(1, 5), _report(2, 5), replace_service(_report(3), "other")])
    assert store.forget_source("shop", "wiki")
    assert not store.forget_source("shop", "wiki")
    assert [each.service for each in store.sources()] == ["other"]
    assert store.counts()["source_report"] == 1
    store.write([_report(9, 7)])
    assert store.sources("shop") == [SourceState("shop", "wiki", 9, documents=7)]
