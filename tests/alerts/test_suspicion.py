"""How often a healthy service gets a ticket for suspicion, or a page, and how soon a rise is noticed: simulated weeks.

The formulas stand in arrays in bench/alerting.py; that Prometheus computes the same is tested in
tests/live/test_rules.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from bench.alerting import EVERY, WEEK, Counts, Flags, Traffic, burning, clear_rises, firing, raised
from ragtrace.alerts._policy import AlertPolicy
from ragtrace.alerts._traffic import minutes
from tests.alerts.conftest import Made

SEGMENTS = 5
STAGES = 4


class Drawn(NamedTuple):
    """Requests and those of them that are counted, cumulated by minute: (series, minutes + 1)."""

    total: Counts
    part: Counts


def drawn(series: int, length: int, rate: float, share: float | Counts, seed: int) -> Drawn:
    """Requests at a mean rate each minute, of which a share, by minute or always the same, is counted."""
    generator = np.random.default_rng(seed)
    total = generator.poisson(rate, (series, length))
    part = generator.binomial(total, share)
    before = np.zeros((series, 1))
    return Drawn(*(np.concatenate([before, np.cumsum(one, axis=1)], axis=1) for one in (total, part)))


def risen(made: AlertPolicy, traffic: Drawn) -> Flags:
    """Whether the share has clearly risen over any window, by series and look."""
    return np.asarray(np.logical_or.reduce([one.clear for one in clear_rises(made, *traffic)]))


def tickets(made: AlertPolicy, traffic: Drawn) -> int:
    """How many tickets for suspicion all series get together."""
    fires = firing(risen(made, traffic), minutes(made.settings.hold.ticket))
    return int((fires[:, 1:] & ~fires[:, :-1]).sum())


def burns(made: AlertPolicy, traffic: Drawn, severity: str) -> Flags:
    """Whether a budget of 5 % burns fast enough, by series and look."""
    return np.asarray(np.logical_or.reduce(burning(made, *traffic, severity, 0.05)))


@pytest.mark.parametrize("rate", [1.0, 20.0])
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_a_healthy_week_gives_at_most_one_ticket_for_suspicion(made: Made, rate: float, share: float) -> None:
    """Five segments of four stages, from the first day on, at one request a minute and at twenty: none in ten weeks of
    each, where one a week were allowed."""
    series = 10 * SEGMENTS * STAGES
    assert tickets(made(), drawn(series, WEEK, rate / SEGMENTS, share, seed=int(rate))) <= 1


@pytest.mark.parametrize("rate", [1.0, 20.0])
def test_a_healthy_week_gives_no_page_and_at_most_one_ticket_for_its_budget(made: Made, rate: float) -> None:
    """With half of the budget bad, 2.5 % of the judged requests, from the first request on: twenty weeks of five
    segments of four stages."""
    weeks, policy = 20, made()
    traffic = drawn(weeks * SEGMENTS * STAGES, WEEK, rate / SEGMENTS, 0.025, seed=int(rate))
    assert not firing(burns(policy, traffic, "page"), minutes(policy.settings.hold.page["retrieval"])).any()
    fires = firing(burns(policy, traffic, "ticket"), minutes(policy.settings.hold.ticket))
    by_week = (fires[:, 1:] & ~fires[:, :-1]).reshape(weeks, -1).sum(axis=1)
    assert by_week.max() <= 1
    assert by_week.mean() <= 0.25


def test_a_daily_cycle_is_no_rise(made: Made) -> None:
    """A share that goes from 10 % at night to 20 % by day, with many requests: what comes every day is usual."""
    by_minute = 0.15 + 0.05 * np.sin(np.arange(2 * WEEK) * 2 * np.pi / (24 * 60))
    assert tickets(made(), drawn(SEGMENTS * STAGES, 2 * WEEK, 4.0, by_minute, seed=0)) == 0


@pytest.mark.parametrize(
    ("usual", "now", "is_clear"),
    [
        (0.15, 0.201, True),
        (0.15, 0.199, False),
        (0.06, 0.1, True),  # four points are much of six
        (0.4, 0.46, False),  # and six are little of forty
        (0.4, 0.47, True),
        (0.0, 0.035, False),  # but a few are little of nothing, too
        (0.0, 0.04, True),
    ],
)
def test_what_is_a_rise_depends_on_what_is_usual(made: Made, usual: float, now: float, is_clear: bool) -> None:
    """Of very many requests, over a day against the week before."""
    total = np.arange(WEEK + 24 * 60 + 1, dtype=np.float64)[None] * 1000
    part = np.minimum(total, 1000 * WEEK) * usual + np.maximum(total - 1000 * WEEK, 0) * now
    *_, day = clear_rises(made(), total, part)
    assert bool(day.clear[0, -1]) == is_clear


@pytest.mark.parametrize(
    ("rate", "rise", "within_hours"),
    [(20.0, 0.3, 2.5), (20.0, 0.15, 7), (1.0, 0.45, 5), (1.0, 0.3, 9), (1.0, 0.15, 26)],
)
def test_a_rise_is_a_ticket_within_hours(made: Made, rate: float, rise: float, within_hours: float) -> None:
    """Of one of five segments, from 15 %, after a healthy week: in nine of ten cases."""
    length = WEEK + round(within_hours * 60)
    by_minute = np.where(np.arange(length) < WEEK, 0.15, 0.15 + rise)
    policy = made()
    fires = firing(
        risen(policy, drawn(200, length, rate / SEGMENTS, by_minute, seed=3)),
        minutes(policy.settings.hold.ticket),
    )
    assert fires[:, WEEK // EVERY :].any(axis=1).mean() >= 0.9


@pytest.mark.parametrize(
    ("broken", "first"),
    [
        ({"retrieval": 0.35, "ranking": 0.1, "generation": 0.7}, "retrieval"),
        ({"ranking": 0.6, "generation": 0.6}, "ranking"),
        ({"generation": 0.8}, "generation"),
        ({"citation": 0.5}, "citation"),
    ],
)
def test_a_rise_of_several_stages_is_told_to_the_first(made: Made, broken: dict[str, float], first: str) -> None:
    """Four requests a minute, of which 40 % break: each stage is then in doubt as injected faults leave it."""
    policy, length = made(), WEEK + 24 * 60
    stages = [indicator.name for indicator in policy.indicators]
    usually = {"retrieval": 0.3, "ranking": 0.05, "generation": 0.1, "citation": 0.05}
    wrong = 0
    for seed in range(20):
        shares = [
            np.where(np.arange(length) < WEEK, usually[one], usually[one] + 0.4 * broken.get(one, 0.0))
            for one in stages
        ]
        random = np.random.default_rng(seed)
        total = random.poisson(4.0, length)
        doubts = np.stack([random.binomial(total, share) for share in shares])
        every, doubted = (
            np.pad(np.cumsum(one, axis=-1, dtype=np.float64), [(0, 0), (1, 0)])
            for one in (np.stack([total] * len(stages)), doubts)
        )
        fires = raised(policy, Traffic(every, np.zeros_like(every), every, doubted))
        begun = {stage: np.flatnonzero(flags)[0] for (stage, _), flags in fires.items() if flags.any()}
        assert begun, "no alert at all"
        wrong += min(begun, key=lambda stage: begun[stage]) != first
    assert wrong <= 1
