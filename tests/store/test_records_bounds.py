"""Times and probabilities that cannot be: what is stored in their place, and that the request is known all the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragtrace.config import load
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Store, Subject, migrate
from ragtrace.store.address import Address
from ragtrace.store.database import Database
from ragtrace.store.tables import request
from ragtrace.types import Feedback, RequestRecord

MakeRecord = Callable[..., RequestRecord]

SECOND = 1_000_000_000
DAY = 86_400
AHEAD = 2**63 + 5  # the year 2262
"""More than a column holds."""


def _in_days(days: float) -> float:
    return time.time() + days * DAY


@pytest.mark.parametrize("started_at", [AHEAD, 2**64 - 1, -5, -(2**63)])
def test_a_start_that_cannot_be_outlives_no_retention(store: Store, make_record: MakeRecord, started_at: int) -> None:
    """It has the time of its arrival: after that it is kept as long as any other, and not a day longer or shorter."""
    store.write([make_record(started_at=started_at, ended_at=started_at + 2)])
    (row,) = store.find_requests()
    assert abs(row.started_at / SECOND - time.time()) < DAY
    assert store.prune({"all": 30 * DAY}, now=_in_days(29)).rows.get("request", 0) == 0
    assert store.prune({"all": 30 * DAY}, now=_in_days(31)).rows["request"] == 1


def test_what_was_said_is_kept_and_counted_once(store: Store, make_record: MakeRecord) -> None:
    """The record carries the stated numbers, and a fault says how many there were, however often it comes."""
    for _ in range(2):
        store.write([make_record(started_at=AHEAD, ended_at=AHEAD + 7, head_probability=5e-324)])
    record = store.get_record("r1")
    assert record is not None
    assert record.stated == {"started_at": AHEAD, "ended_at": AHEAD + 7, "head_probability": 5e-324}
    assert (record.head_probability, record.duration_ns) == (1.0, 7)
    assert {(each.where, each.kind): each.count for each in store.faults()} == {
        ("bounds", "started_at"): 1,
        ("bounds", "ended_at"): 1,
        ("bounds", "head_probability"): 1,
    }


def test_the_same_request_is_known_by_what_it_said(store: Store, make_record: MakeRecord) -> None:
    """Sent again at another time it is the same; one with the same id and another start is another one."""
    store.write([make_record(started_at=AHEAD)])
    time.sleep(0.001)
    store.write([make_record(started_at=AHEAD, record_revision=1)])
    assert [row.request_id for row in store.find_requests()] == ["r1"]
    store.write([make_record(started_at=AHEAD - 10 * DAY * SECOND)])
    assert len(store.find_requests()) == 2


def test_what_is_erased_stays_erased(store: Store, make_record: MakeRecord) -> None:
    """A spool that delivers it again does not bring it back."""
    store.write([make_record(started_at=AHEAD)])
    store.erase(Subject(requests=("r1",)))
    store.write([make_record(started_at=AHEAD)])
    assert store.find_requests() == []


def test_what_older_versions_stored_begins_at_the_upgrade(tmp_path: Path, make_record: MakeRecord) -> None:
    """It is kept as long as what came that day; a request that tells the truth stays as it is."""
    url = f"sqlite:///{tmp_path}/older.db"
    with Store.open(url) as store:
        store.write([make_record("r1", started_at=SECOND), make_record("r2", started_at=SECOND)])
    database = Database(Address.parse(url))
    with database.write() as connection:
        connection.execute(sa.update(request).where(request.c.request_id == "r1").values(started_at=2**63 - 1))
        connection.exec_driver_sql("DROP INDEX ix_request_tenant_id_service_started_at_request_id")
        connection.exec_driver_sql("ALTER TABLE request DROP COLUMN stated_at")
        for column in ("expenses", "providers"):
            connection.exec_driver_sql(f"ALTER TABLE diagnosis DROP COLUMN {column}")
        for view in ("v_label", "v_feedback"):
            connection.exec_driver_sql(f"DROP VIEW {view}")
        for table in ("audit", "request_label", "drawn", "drawing", "calibration", "search_entry"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        connection.exec_driver_sql("UPDATE ragtrace_version SET version_num = '0015'")
    database.close()
    migrate(url)
    with Store.open(url) as store:
        starts = {row.request_id: row.started_at for row in store.find_requests()}
        store.write([make_record("r1", started_at=2**63 + 5)])  # it is known by what was stored of its start
        assert len(store.find_requests()) == 2
    assert starts["r2"] == SECOND
    assert abs(starts["r1"] / SECOND - time.time()) < DAY


def test_a_door_takes_no_judgment_of_another_time() -> None:
    """Feedback that was said to come in 2262 or before 2000 would wait for its request for ever, or not at all."""
    policy = ContentPolicy(load())
    for at in (AHEAD, 0, 5):
        said = policy.finish(Feedback(request_id="r1", score=1.0, created_at=at))
        assert isinstance(said, Feedback)
        assert abs(said.created_at / SECOND - time.time()) < DAY
