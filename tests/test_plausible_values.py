"""The bounds of a record's numbers: what is outside is replaced, told, and changed once only."""

from __future__ import annotations

import math
from itertools import product

import pytest

from ragtrace.config import load
from ragtrace.errors import ConfigurationError
from ragtrace.plausible_values import EARLIEST, LEAST_PROBABILITY, sampling_weight, sentences, settle, settle_moment
from ragtrace.triage._statistics import share_of
from ragtrace.types import Query, RequestRecord, RetrieveRun, decode_record, encode_record

SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND
SKEW = 300.0
AHEAD = NOW + 300 * SECOND
ODD = (-(2**63), -1, 0, 5, EARLIEST, NOW - SECOND, NOW, AHEAD, AHEAD + 1, 2**63, 2**64 - 1)


def _record(started_at: int = NOW - SECOND, ended_at: int = NOW, **fields: object) -> RequestRecord:
    values: dict[str, object] = {"request_id": "r", "service": "s", "started_at": started_at, "ended_at": ended_at}
    return RequestRecord(**{**values, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(("start", "end"), list(product(ODD, ODD)))
def test_every_pair_of_times_becomes_one_that_can_be(start: int, end: int) -> None:
    """Start and end lie between 2000 and the skew ahead, in their order, and so do those of runs. Settling again later
    changes nothing. What was replaced is told, and the record can be written."""
    run = RetrieveRun(started_at=start, ended_at=end)
    record = settle(_record(start, end, stages=(run,)), NOW, SKEW)

    assert EARLIEST <= record.started_at <= AHEAD
    assert record.ended_at == 0 or record.started_at <= record.ended_at <= AHEAD
    (run,) = record.stages  # type: ignore[assignment]
    assert all(not at or EARLIEST <= at <= AHEAD for at in (run.started_at, run.ended_at))
    assert run.ended_at == 0 or run.started_at <= run.ended_at
    assert settle(record, NOW + 10 * SECOND, SKEW) is record
    assert ("started_at" in record.stated) == (record.started_at != start)
    assert ("ended_at" in record.stated) == (record.ended_at != end)
    assert sentences(record.stated).keys() == record.stated.keys()
    assert decode_record(encode_record(record)).stated == record.stated


def test_what_can_be_stays() -> None:
    """The record itself comes back."""
    record = _record(stages=(RetrieveRun(started_at=NOW - 5, ended_at=NOW),), head_probability=0.25)
    assert settle(record, NOW, SKEW) is record
    assert settle(_record(head_sampled=False, head_probability=0.0), NOW, SKEW).stated == {}


def test_a_clock_that_is_wrong_by_years_keeps_durations() -> None:
    """The request ended when it arrived; its stages keep their places in it."""
    far = NOW + 10**18
    run = RetrieveRun(started_at=far + SECOND, ended_at=far + 2 * SECOND)
    record = settle(_record(far, far + 3 * SECOND, stages=(run,)), NOW, SKEW)
    assert (record.started_at, record.ended_at) == (NOW - 3 * SECOND, NOW)
    assert (record.stages[0].started_at, record.stages[0].ended_at) == (NOW - 2 * SECOND, NOW - SECOND)
    assert record.stated == {"started_at": far, "ended_at": far + 3 * SECOND, "stages": 1}


@pytest.mark.parametrize("at", ODD)
def test_a_moment_is_itself_or_now(at: int) -> None:
    """Of what has one time only."""
    assert settle_moment(at, NOW, SKEW) == (at if EARLIEST <= at <= AHEAD else NOW)


@pytest.mark.parametrize("probability", [5e-324, 1e-300, 0.0, -1.0, 1.5, 1e308, LEAST_PROBABILITY / 2])
def test_a_probability_that_cannot_be_weighed_counts_once(probability: float) -> None:
    """And is told; one that can, is its weight."""
    record = settle(_record(head_probability=probability), NOW, SKEW)
    assert (record.head_probability, record.stated) == (1.0, {"head_probability": probability})
    assert sampling_weight(probability) == 1.0
    assert sampling_weight(0.25) == 4.0


def test_no_sum_of_weights_overflows() -> None:
    """Not even the squares of a billion of the largest weights; and a share of such requests is a number."""
    most = sampling_weight(LEAST_PROBABILITY)
    assert math.isfinite((1e9 * most) ** 2)
    tally = share_of([(place % 2 == 0, sampling_weight(each)) for place, each in enumerate((5e-324, 1e-9, 1.0))])
    assert all(each is not None and math.isfinite(each) for each in (tally.share, tally.low, tally.high))


def test_a_value_of_a_wrong_type_is_left_to_the_writer() -> None:
    """Which says what it is."""
    record = _record(started_at="now")  # type: ignore[arg-type]
    assert settle(record, NOW, SKEW) is record
    assert settle(_record(query=Query(original="q")), NOW, SKEW).query.original == "q"


@pytest.mark.parametrize(
    ("name", "value"), [("sample_rate", 5e-324), ("sample_rate", 1e-10), ("clock_skew", -1), ("clock_skew", 86_401)]
)
def test_settings_have_the_same_bounds(name: str, value: float) -> None:
    """A rate that gives no weight, and a skew of more than a day, are refused with what is allowed."""
    with pytest.raises(ConfigurationError, match="give"):
        load(**{name: value})
    assert load(sample_rate=0).sample_rate == 0.0
    assert load(sample_rate=1e-9, clock_skew=86_400).clock_skew == 86_400
