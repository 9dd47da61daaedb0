"""How often a healthy service gets a ticket for suspicion, or a page, and how soon a rise is noticed: simulated weeks.

The formulas stand here in arrays; that Prometheus computes the same is tested in tests/live/test_rules.py.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.alerts.policy import Policy
from ragtrace.alerts.replay import minutes
from tests.alerts.conftest import Made

Counts: TypeAlias = NDArray[np.float64]

WEEK = 7 * 24 * 60
SEGMENTS = 5
STAGES = 4
EVERY = 2  # minutes between two looks, as the slow interval has it


class Traffic(NamedTuple):
    """Requests and those of them that are counted, cumulated by minute: (series, minutes + 1)."""

    total: Counts
    part: Counts


def drawn(series: int, length: int, rate: float, share: float | Counts, seed: int) -> Traffic:
    """Requests at a mean rate each minute, of which a share, by minute or always the same, is counted."""
    generator = np.random.default_rng(seed)
    total = generator.poisson(rate, (series, length))
    part = generator.binomial(total, share)
    before = np.zeros((series, 1))
    return Traffic(*(np.concatenate([before, np.cumsum(one, axis=1)], axis=1) for one in (total, part)))


def risen(made: Policy, traffic: Traffic) -> NDArray[np.bool_]:
    """Whether the recorded share has risen over any window, by series and look."""
    suspicion = made.settings.growth.suspected
    at = np.arange(EVERY, traffic.total.shape[1], EVERY)
    any_risen = np.zeros((traffic.total.shape[0], len(at)), dtype=bool)
    for comparison in suspicion.windows:
        window, baseline = minutes(comparison.window), minutes(comparison.baseline)
        now = [counts[:, at] - counts[:, np.maximum(at - window, 0)] for counts in traffic]
        end = np.maximum((at - window) // window * window, 0)
        past = [counts[:, end] - counts[:, np.maximum(end - baseline, 0)] for counts in traffic]
        with np.errstate(divide="ignore", invalid="ignore"):
            share, usual = now[1] / now[0], past[1] / past[0]
            error = np.sqrt(1 / now[0] + 1 / past[0])
            z = 2 * (np.arcsin(np.sqrt(share)) - np.arcsin(np.sqrt(usual))) / error
            enough = (now[0] >= suspicion.minimum) & (past[0] >= suspicion.minimum)
            any_risen |= enough & (z > suspicion.z) & (share - usual >= comparison.rise)
    return any_risen


def firing(condition: NDArray[np.bool_], hold: int) -> NDArray[np.bool_]:
    """Whether an alert fires whose condition must hold for so many minutes."""
    looks = hold // EVERY + 1
    held = np.cumsum(np.pad(condition, ((0, 0), (looks, 0))), axis=1)
    return held[:, looks:] - held[:, :-looks] == looks


def tickets(made: Policy, traffic: Traffic) -> int:
    """How many tickets for suspicion all series get together."""
    fires = firing(risen(made, traffic), minutes(made.settings.hold.ticket))
    return int((fires[:, 1:] & ~fires[:, :-1]).sum())


def burning(made: Policy, traffic: Traffic, severity: str) -> NDArray[np.bool_]:
    """Whether a budget of 5 % burns fast enough, by series and look."""
    rates = made.settings.burn_rates
    at, z = np.arange(EVERY, traffic.total.shape[1], EVERY), rates.z
    any_burning = np.zeros((traffic.total.shape[0], len(at)), dtype=bool)
    for pair in rates.page if severity == "page" else rates.ticket:
        (n, bad), (short_n, short_bad) = (
            [counts[:, at] - counts[:, np.maximum(at - minutes(window), 0)] for counts in traffic]
            for window in (pair.long, pair.short)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            p = bad / n
            low = (p + z * z / 2 / n - z * np.sqrt(p * (1 - p) / n + z * z / 4 / n**2)) / (1 + z * z / n)
            burns = (low > pair.factor * 0.05) & (short_bad / short_n > pair.factor * 0.05)
        any_burning |= burns & (short_n >= pair.minimum) & (n >= pair.least_long)
    return any_burning


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
    assert not firing(burning(policy, traffic, "page"), minutes(policy.settings.hold.page["retrieval"])).any()
    fires = firing(burning(policy, traffic, "ticket"), minutes(policy.settings.hold.ticket))
    by_week = (fires[:, 1:] & ~fires[:, :-1]).reshape(weeks, -1).sum(axis=1)
    assert by_week.max() <= 1
    assert by_week.mean() <= 0.25


def test_a_daily_cycle_is_no_rise(made: Made) -> None:
    """A share that goes from 10 % at night to 20 % by day, with many requests: what comes every day is usual."""
    by_minute = 0.15 + 0.05 * np.sin(np.arange(2 * WEEK) * 2 * np.pi / (24 * 60))
    assert tickets(made(), drawn(SEGMENTS * STAGES, 2 * WEEK, 4.0, by_minute, seed=0)) == 0


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
