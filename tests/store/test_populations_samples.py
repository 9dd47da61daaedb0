"""Requests with their scores: the random stratum, evenly thinned, from indexes alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from ragtrace.store import Sample, Store
from ragtrace.store.populations import count_query, sample_query

if TYPE_CHECKING:
    from tests.store.conftest import MakeRecord

METRICS = ("query_coverage", "answer_coverage")


@pytest.fixture
def filled(store: Store, make_record: MakeRecord, make_finished: Any) -> Store:
    """Twenty requests of two segments, one flagged, one of another service, one without an analysis."""
    records = [
        make_record(f"r{number:02}", segment="ab"[number % 2], started_at=number, tenant_id=f"t{number % 3}")
        for number in range(20)
    ]
    flagged = make_record("flagged", segment="a", started_at=5, head_sampled=False, flags=("slow",))
    store.write([*records, flagged, make_record("other", service="other", started_at=5)])
    jobs = [job for job in store.claim("w", limit=100) if job.request_id != "r19"]
    store.finish([make_finished(job, value=0.5) for job in jobs])
    return store


def test_analyzed_requests_of_the_random_stratum_are_drawn(filled: Store) -> None:
    """Oldest first, with the scores that were asked for; undefined ones are None."""
    found = filled.sample("shop", None, 0, 100, METRICS, None)
    rows = found.rows
    assert (found.stored, found.drawn) == (20, 20)
    assert [row.request_id for row in rows] == [f"r{number:02}" for number in range(19)]
    assert rows[0].scores == {"query_coverage": 0.5, "answer_coverage": None}
    assert (rows[0].segment, rows[0].started_at, rows[0].stage) == ("a", 0, "retrieval")


def test_service_segment_and_time_bound_them(filled: Store) -> None:
    """From the first on, up to but without the last."""
    found = filled.sample("shop", "b", 3, 9, METRICS, None)
    assert (found.stored, [row.request_id for row in found.rows]) == (3, ["r03", "r05", "r07"])
    assert filled.sample("unknown", None, 0, 100, METRICS, None) == Sample((), 0, 0)


def test_more_than_the_limit_are_thinned_out_evenly(filled: Store) -> None:
    """Every fourth of twenty, the same ones each time."""
    found = filled.sample("shop", None, 0, 100, METRICS, 5)
    assert (found.stored, found.drawn, found.is_estimate) == (20, 5, False)
    assert [row.request_id for row in found.rows] == ["r03", "r07", "r11", "r15"]
    assert filled.sample("shop", None, 0, 100, METRICS, 5) == found


def test_of_very_many_the_number_is_estimated_and_the_sample_follows_the_traffic(
    store: Store, make_record: MakeRecord, make_finished: Any
) -> None:
    """Nobody counts them: a day with a rush in one tenth of it, in bursts of three, is drawn as its requests lie."""
    rush = [9_000_000 + number // 3 * 1_800 + number % 3 for number in range(1_600)]
    calm = [number * 22_500 for number in range(400)]
    moments = [("calm", at) for at in calm] + [("rush", at) for at in rush]
    store.write([make_record(f"{name}{at}", segment=name, started_at=at) for name, at in moments])
    store.finish([make_finished(job) for job in store.claim("w", limit=2_000)])
    found = store.sample("shop", None, 0, 10_000_000, (), 30)
    assert found.is_estimate
    assert found.stored == pytest.approx(2_000, rel=0.1)
    assert 25 <= found.drawn == len(found.rows) <= 31
    in_rush = [row for row in found.rows if row.segment == "rush"]
    assert len(in_rush) / len(found.rows) == pytest.approx(0.8, abs=0.07)
    assert len({int(row.request_id[4:]) % 3 for row in in_rush}) > 1  # not the first of each burst alone
    assert [row.started_at for row in found.rows] == sorted({row.started_at for row in found.rows})
    one = store.sample("shop", "calm", 0, 10_000_000, (), 5)
    assert (one.is_estimate, {row.segment for row in one.rows}) == (True, {"calm"})
    assert one.stored == pytest.approx(400, rel=0.1)


def test_scores_of_given_requests_include_flagged_ones(filled: Store) -> None:
    """Those that have an analysis, oldest first."""
    rows = filled.scored(["r19", "flagged", "r01", "nobody"], METRICS)
    assert [row.request_id for row in rows] == ["r01", "flagged"]
    assert filled.scored([], METRICS) == []


def test_tenants_are_read_without_texts(filled: Store) -> None:
    """None where the request carried none."""
    assert filled.tenants(["r00", "r01", "flagged", "nobody"]) == {"r00": "t0", "r01": "t1", "flagged": None}


@pytest.mark.parametrize("segment", [None, "g"])
def test_samples_are_drawn_from_an_index_alone(tmp_path: Path, segment: str | None) -> None:
    """SQLite counts and thins out without touching a request's row."""
    path = tmp_path / "plan.db"
    with Store.open(f"sqlite:///{path}"):
        engine = sa.create_engine(f"sqlite:///{path}")
        plans = []
        for query in (count_query("s", segment, 0, 9), sample_query("s", segment, 0, 9, 50)):
            text = query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
            with engine.connect() as connection:
                plans.append([row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")])
        engine.dispose()
    index = "ix_request_service_segment_started_at" if segment else "ix_request_service_started_at"
    for plan in plans:
        assert any(f"SEARCH request USING COVERING INDEX {index}" in step for step in plan), plan
        assert not [step for step in plan if step.startswith("SCAN") and step.split()[1] in _TABLES], plan


_TABLES = ("request", "diagnosis")
