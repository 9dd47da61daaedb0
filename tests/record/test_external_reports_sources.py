"""Reports of ingestion jobs: what can be used is on disk at once, what cannot is counted and harms nobody."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

import ragtrace
from ragtrace.errors import ConfigurationError
from ragtrace.types import Fault, SourceReport

CHANGED = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
CHANGED_NS = 1_767_323_045_678_901_000


def reports(recorded: Any) -> list[SourceReport]:
    """The reports so far, all of them durable."""
    found = [item for item in recorded.items if isinstance(item, SourceReport)]
    assert [item for item in recorded.durable if isinstance(item, SourceReport)] == found
    return found


def test_a_report_has_the_service_and_the_time_of_its_own(configure: Any) -> None:
    """Nothing else is needed; each call is a report of its own."""
    recorded = configure(service="assistant")
    before = time.time_ns()
    ragtrace.source_report(" wiki ")
    ragtrace.source_report("wiki")
    first, second = reports(recorded)
    assert (first.service, first.source, first.documents) == ("assistant", "wiki", None)
    assert (first.newest_at, first.delay_seconds) == (None, None)
    assert before <= first.reported_at <= second.reported_at <= time.time_ns()
    assert first.report_id != second.report_id


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"documents": 0}, {"documents": 0}),
        ({"documents": np.int64(7)}, {"documents": 7}),
        ({"delay_seconds": 90}, {"delay_seconds": 90.0}),
        ({"delay_seconds": np.float32(0.5)}, {"delay_seconds": 0.5}),
        ({"newest": CHANGED}, {"newest_at": CHANGED_NS}),
        ({"newest": CHANGED.astimezone(timezone(timedelta(hours=9)))}, {"newest_at": CHANGED_NS}),
        ({"newest": 1_767_323_045}, {"newest_at": 1_767_323_045_000_000_000}),
        ({"newest": -1.5}, {"newest_at": -1_500_000_000}),
        ({"at": CHANGED, "service": "other"}, {"reported_at": CHANGED_NS, "service": "other"}),
    ],
)
def test_what_can_be_said(recorded: Any, given: dict[str, Any], read: dict[str, Any]) -> None:
    """Numbers of any library, datetimes of any zone, Unix seconds."""
    ragtrace.source_report("wiki", **given)
    (report,) = reports(recorded)
    assert {name: getattr(report, name) for name in read} == read


BAD: list[dict[str, Any]] = [
    {"source": ""},
    {"source": 7},
    {"source": "x" * 201},
    {"service": ""},
    {"documents": -1},
    {"documents": 2.5},
    {"documents": True},
    {"documents": "many"},
    {"documents": 2**63},
    {"delay_seconds": -0.1},
    {"delay_seconds": float("nan")},
    {"delay_seconds": float("inf")},
    {"delay_seconds": "soon"},
    {"newest": datetime(2026, 1, 2)},  # without a zone
    {"newest": "2026-01-02"},
    {"newest": True},
    {"newest": float("nan")},
    {"newest": 1e30},
    {"newest": 4_102_444_800.0},  # 2100: no clock is that wrong
    {"at": 4_102_444_800.0},
]


@pytest.mark.parametrize("given", BAD, ids=str)
def test_what_cannot_be_used_is_counted(configure: Any, given: dict[str, Any]) -> None:
    """The job goes on, and `ragtrace doctor` names the value and what to give."""
    recorded = configure(raise_errors=False)
    ragtrace.source_report(**{"source": "wiki", **given})
    assert reports(recorded) == []
    assert recorded.faults == [("source_report", "ConfigurationError")]
    (fault,) = [item for item in recorded.items if isinstance(item, Fault)]
    assert "is not usable; give" in fault.message


@pytest.mark.parametrize("given", BAD[:3], ids=str)
def test_raise_errors_raises_it(recorded: Any, given: dict[str, Any]) -> None:
    """For tests of the job itself."""
    with pytest.raises(ConfigurationError, match="is not usable; give a name of 1 to 200 characters"):
        ragtrace.source_report(**{"source": "wiki", **given})


def test_clocks_may_differ_a_little(recorded: Any) -> None:
    """A document that another machine changed a minute from now has just changed."""
    ragtrace.source_report("wiki", newest=time.time() + 60)
    assert len(reports(recorded)) == 1


def test_a_report_without_configure_warns(caplog: pytest.LogCaptureFixture) -> None:
    """It says what to do."""
    with caplog.at_level(logging.WARNING, "ragtrace"):
        ragtrace.source_report("wiki", documents=3)
    assert "the report on source wiki is lost: call ragtrace.configure() first" in caplog.text


def test_a_report_on_an_address_tells_no_password(configure: Any) -> None:
    """A source that is a URL is kept without the user and the password in it."""
    recorded = configure(service="assistant")
    ragtrace.source_report("postgresql://reader:s3cret@db/wiki", documents=1)
    assert [report.source for report in reports(recorded)] == ["postgresql://db/wiki"]
