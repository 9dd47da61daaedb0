"""Requests are found by service, segment, time and stage, through the indexes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from ragtrace.store import Finished, Store
from ragtrace.store._requests import find_query
from ragtrace.types import RequestRecord

MakeRecord = Callable[..., RequestRecord]


@pytest.fixture
def filled(store: Store, make_record: MakeRecord, make_finished: Callable[..., Finished]) -> Store:
    """Four requests of two services, three of them analyzed."""
    store.write(
        [
            make_record("r1", started_at=10),
            make_record("r2", started_at=20, segment="travel", flags=("slow",)),
            make_record("r3", started_at=30),
            make_record("r4", started_at=40, service="other"),
        ]
    )
    stages: dict[str, Any] = {"r1": "retrieval", "r2": None, "r4": "generation"}
    jobs = [job for job in store.claim("w") if job.request_id in stages]
    store.finish([make_finished(job, stage=stages[job.request_id]) for job in jobs])
    return store


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ["r4", "r3", "r2", "r1"]),
        ({"limit": 2}, ["r4", "r3"]),
        ({"service": "shop"}, ["r3", "r2", "r1"]),
        ({"service": "shop", "segment": "billing"}, ["r3", "r1"]),
        ({"since": 20, "until": 40}, ["r3", "r2"]),
        ({"stage": "retrieval"}, ["r1"]),
        ({"stage": "generation", "service": "shop"}, []),
        ({"stage": "generation", "since": 40}, ["r4"]),
    ],
)
def test_requests_are_found_newest_first(filled: Store, asked: dict[str, Any], found: list[str]) -> None:
    """Each condition narrows the result, `since` included and `until` excluded."""
    assert [row.request_id for row in filled.find_requests(**asked)] == found


def test_a_row_carries_its_diagnosis(filled: Store) -> None:
    """The row of an analyzed request says what broke; that of another says nothing."""
    rows = {row.request_id: row for row in filled.find_requests()}
    assert (rows["r1"].verdict, rows["r1"].stage, rows["r1"].owner) == ("recall_failure", "retrieval", "search")
    assert (rows["r3"].verdict, rows["r3"].stage) == (None, None)
    assert rows["r2"].flags == ("slow",)


def test_request_ids_are_found_by_their_beginning(store: Store, make_record: MakeRecord) -> None:
    """The beginning is compared letter by letter, and an id equal to it comes first."""
    store.write([make_record(request_id) for request_id in ("ab", "abc", "aB1", "a%b")])
    assert store.find_request_ids("ab") == ["ab", "abc"]
    assert store.find_request_ids("a%") == ["a%b"]
    assert store.find_request_ids("", limit=1) != []
    assert store.find_request_ids("x") == []


def test_analyses_are_paged_by_start(store: Store, make_record: MakeRecord, make_finished: Any) -> None:
    """All analyses come once, by the request's start, over several pages."""
    store.write([make_record(f"r{number:04}", started_at=number // 7) for number in range(450)])
    store.finish([make_finished(job) for job in store.claim("w", limit=1_000)])
    seen = [(row.request_id, analysis.request_id) for row, analysis in store.analyses()]
    assert seen == [(f"r{number:04}", f"r{number:04}") for number in range(450)]
    assert len(list(store.analyses(service="shop", since=60))) == 450 - 7 * 60
    assert list(store.analyses(service="unknown")) == []
    assert list(store.analyses(kind="deep")) == []


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ({}, "ix_request_started_at"),
        ({"service": "s"}, "ix_request_service_started_at"),
        ({"service": "s", "segment": "g", "since": 5}, "ix_request_service_segment_started_at"),
        ({"stage": "retrieval"}, "ix_diagnosis_kind_stage_started_at"),
    ],
)
def test_every_search_uses_an_index(tmp_path: Path, asked: dict[str, Any], index: str) -> None:
    """SQLite's plan names the index and scans no table."""
    path = tmp_path / "plan.db"
    with Store.open(f"sqlite:///{path}"):
        engine = sa.create_engine(f"sqlite:///{path}")
        query = find_query(**asked).compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
        with engine.connect() as connection:
            plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
        engine.dispose()
    assert index in plan[0]
    assert not [step for step in plan if step.startswith("SCAN") and "USING INDEX" not in step]
