"""The head decision and request ids."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import ragtrace
from ragtrace.record.sampling import is_sampled, new_request_id

KEYS = [f"{number:032x}" for number in range(4000)]


def test_a_smaller_sample_is_a_subset_of_a_larger_one() -> None:
    """A request sampled at 5 % is also sampled at 20 %."""
    small, large = ({key for key in KEYS if is_sampled(key, rate)} for rate in (0.05, 0.2))
    assert small < large
    assert abs(len(large) / len(KEYS) - 0.2) < 0.03


def test_the_ends_of_the_range() -> None:
    """Rate 0 keeps nothing, rate 1 everything."""
    assert not any(is_sampled(key, 0.0) for key in KEYS)
    assert all(is_sampled(key, 1.0) for key in KEYS)


def test_request_ids_are_uuids_that_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later millisecond gives a greater id; the layout is that of UUID version 7."""
    ids = []
    for millisecond in (1_700_000_000_000, 1_700_000_000_001, 1_800_000_000_000):
        monkeypatch.setattr("time.time_ns", lambda at=millisecond: at * 1_000_000)
        ids.append(new_request_id())
    assert ids == sorted(ids)
    assert all(len(made) == 32 and uuid.UUID(made).version == 7 for made in ids)
    assert uuid.UUID(ids[0]).variant == uuid.RFC_4122


def test_an_unsampled_request_is_not_kept(configure: Any) -> None:
    """Without flags it leaves nothing."""
    recorded = configure(sample_rate=0.0)
    with ragtrace.request(query="q"):
        pass
    assert recorded.items == []


def test_a_flag_keeps_a_request_outside_the_random_sample(configure: Any) -> None:
    """The flagged stratum is told apart: not head_sampled, with the probability it had."""
    recorded = configure(sample_rate=0.0)
    with ragtrace.request(query="q", flag="vip"):
        pass
    assert (recorded.record.head_sampled, recorded.record.head_probability) == (False, 0.0)
    assert recorded.durable == [recorded.record]


def test_a_flag_leaves_a_request_in_the_random_sample(recorded: Any) -> None:
    """Flags and the draw are independent."""
    with ragtrace.request(query="q", flag=True):
        pass
    assert (recorded.record.head_sampled, recorded.record.flags) == (True, ("host",))


def test_the_draw_is_by_trace(configure: Any) -> None:
    """Two services in one trace decide alike."""
    recorded = configure(sample_rate=0.5)
    for _ in range(20):
        with recorded.provider.get_tracer("host").start_as_current_span("host"):
            for _ in range(2):
                with ragtrace.request(query="q", flag="keep"):
                    pass
    drawn: dict[str, set[bool]] = {}
    for record in recorded.records:
        drawn.setdefault(record.trace_id, set()).add(record.head_sampled)
    assert all(len(decisions) == 1 for decisions in drawn.values())
    assert {next(iter(decisions)) for decisions in drawn.values()} == {True, False}
