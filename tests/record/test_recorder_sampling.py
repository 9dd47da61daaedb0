"""The head decision and request ids."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest

import ragtrace
from ragtrace.record._recorder import HeadSampler, is_sampled, new_request_id
from ragtrace.types import RequestRecord

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
    recorded = configure(sample_rate=0.0, sample_floor=0)
    with ragtrace.request(query="q"):
        pass
    assert recorded.items == []


def test_a_flag_keeps_a_request_outside_the_random_sample(configure: Any) -> None:
    """The flagged stratum is told apart: not head_sampled, with the probability it had."""
    recorded = configure(sample_rate=0.0, sample_floor=0)
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
    recorded = configure(sample_rate=0.5, sample_floor=0)
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


def test_a_floor_samples_the_first_requests_of_a_segment() -> None:
    """The n-th of them with floor / n, as long as that is more than the rate; each segment for itself."""
    sampler = HeadSampler(0.1, 2)
    assert [sampler.probability("rare") for _ in range(5)] == [1.0, 1.0, 2 / 3, 0.5, 0.4]
    for _ in range(15):
        sampler.probability("rare")
    assert sampler.probability("rare") == 0.1
    assert sampler.probability("new") == 1.0


def test_a_floor_holds_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the count begins again."""
    now = 1_000 * 3600 * 10**9
    monkeypatch.setattr("time.monotonic_ns", lambda: now)
    sampler = HeadSampler(0.0, 1)
    assert [sampler.probability("s") for _ in range(2)] == [1.0, 0.5]
    now += 3600 * 10**9 - 1
    assert sampler.probability("s") == 1 / 3
    now += 1
    assert sampler.probability("s") == 1.0


def test_segments_beyond_the_limit_share_a_floor() -> None:
    """A host that makes up segments without end takes no memory without end."""
    sampler = HeadSampler(0.0, 1)
    found = [sampler.probability(f"segment {number}") for number in range(2000)]
    assert found[:1001] == [1.0] * 1001
    assert found[1001:1003] == [1 / 2, 1 / 3]
    assert sampler.probability("segment 0") == 0.5


def test_without_a_floor_the_rate_holds() -> None:
    """For everything."""
    assert {HeadSampler(0.25).probability(name) for name in "abc"} == {0.25}


def test_a_sample_with_floors_estimates_totals_without_bias() -> None:
    """Weighted by 1 / probability, a 5 % sample gives each segment's total, in the mean over 300 runs: off by less
    than four standard errors, rare segments included; one that ignored the floors would be far off."""
    sizes = {"common": 600, "rare": 60, "very rare": 7}
    runs, drawn = 300, random.Random(7)
    sums, variances, naive = (dict.fromkeys(sizes, 0.0) for _ in range(3))
    for run in range(runs):
        order = [segment for segment, size in sizes.items() for _ in range(size)]
        drawn.shuffle(order)
        sampler = HeadSampler(0.05, 10)
        for number, segment in enumerate(order):
            probability = sampler.probability(segment)
            variances[segment] += (1 - probability) / probability / runs
            if is_sampled(f"{run}/{number}", probability):
                sums[segment] += 1 / probability
                naive[segment] += 1 / 0.05
    for segment, size in sizes.items():
        error = (variances[segment] / runs) ** 0.5
        assert abs(sums[segment] / runs - size) <= 4 * error + 1e-9, segment
        assert naive[segment] / runs - size > 4 * error + 1


def test_a_rare_segment_is_recorded_with_its_probability(configure: Any) -> None:
    """Named at any time during the request; the span says the same."""
    recorded = configure(sample_rate=0.0, sample_floor=1)
    for _ in range(2):
        with ragtrace.request(query="q", flag="seen") as request:
            request.set(segment="rare")
    assert [(record.segment, record.head_probability) for record in recorded.records] == [("rare", 1.0), ("rare", 0.5)]
    assert recorded.records[0].head_sampled
    span = recorded.exporter.get_finished_spans()[1]
    assert span.attributes["ragtrace.head_probability"] == 0.5
    assert span.attributes["ragtrace.head_sampled"] == recorded.records[1].head_sampled


def test_a_full_sample_has_no_sampler(recorded: Any) -> None:
    """At rate 1 nothing is counted."""
    active = ragtrace.record.active()
    assert active is not None
    assert active.sampler is None
    with ragtrace.request(query="q"):
        pass
    record: RequestRecord = recorded.record
    assert (record.head_sampled, record.head_probability) == (True, 1.0)
