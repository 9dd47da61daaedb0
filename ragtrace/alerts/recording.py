"""The recording rules: how many requests, how many of them bad, how sure that is, and what burns its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ragtrace.alerts.durations import Duration
from ragtrace.alerts.policy import Policy
from ragtrace.alerts.promql import (
    BUDGET,
    BY_INDICATOR,
    BY_REFERENCE,
    Pattern,
    bad_ratio,
    burning,
    either,
    increase,
    page_burning,
    requests,
    selector,
    wilson,
)
from ragtrace.alerts.settings import BurnRate, Override

__all__ = ["Group", "Rule", "recording_groups", "silences", "windows"]

Rule: TypeAlias = dict[str, Any]
Group: TypeAlias = dict[str, Any]

# What alerts judge: requests whose earlier stages were good, drawn at random.
_JUDGED: Final = {"scope": "conditional", "stratum": "random"}
_SLOW_FROM_MILLISECONDS: Final = Duration.parse("1d").milliseconds


def windows(made: Policy) -> tuple[Duration, ...]:
    """Every window over which an indicator is recorded, shortest first."""
    growth = made.settings.growth.contradiction_rate
    found = {growth.window.milliseconds: growth.window, growth.baseline.milliseconds: growth.baseline}
    for burn_rate in made.settings.burn_rates.every:
        found |= {window.milliseconds: window for window in (burn_rate.short, burn_rate.long)}
    return tuple(found[length] for length in sorted(found))


def recording_groups(made: Policy) -> list[Group]:
    """The groups of recording rules; those of long windows run less often."""
    every = windows(made)
    evaluation = made.settings.evaluation
    fast = [one for one in every if one.milliseconds < _SLOW_FROM_MILLISECONDS]
    slow = [one for one in every if one.milliseconds >= _SLOW_FROM_MILLISECONDS]
    groups = [
        _group("ragtrace-sli-slow", evaluation.slow_interval, _indicator_rules(made, slow)),
        _group("ragtrace-sli", evaluation.interval, [*_indicator_rules(made, fast), *_burning_rules(made, every)]),
    ]
    return [group for group in groups if group["rules"]]


def _group(name: str, interval: Duration, rules: list[Rule]) -> Group:
    return {"name": name, "interval": str(interval), "rules": rules}


def _indicator_rules(made: Policy, over: list[Duration]) -> list[Rule]:
    z = made.settings.burn_rates.z
    return [rule for window in over for rule in (_requests(made, window), _bad_ratio(made, window), _wilson(window, z))]


def _requests(made: Policy, window: Duration) -> Rule:
    return {
        "record": requests(window),
        "expr": increase(made.series("sli_requests"), window, by=BY_REFERENCE, labels=_JUDGED),
    }


def _bad_ratio(made: Policy, window: Duration) -> Rule:
    """A good counter that never rose is a bad ratio of 1, not silence."""
    total = requests(window)
    good = increase(made.series("sli_good_requests"), window, by=BY_REFERENCE, labels=_JUDGED)
    good = f"{good}\n  or 0 * {total}"
    return {"record": bad_ratio(window), "expr": f"clamp(\n  1 - (\n  {good}\n  ) / ({total} > 0),\n  0, 1\n)"}


def _wilson(window: Duration, z: float) -> Rule:
    """Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927."""
    p, n = bad_ratio(window), requests(window)
    center = f"{p} + {z**2 / 2:.6g} / {n}"
    margin = f"{z:g} * sqrt({p} * (1 - {p}) / {n} + {z**2 / 4:.6g} / {n} ^ 2)"
    return {
        "record": wilson(window),
        "expr": f"clamp_min(\n  (\n    {center}\n    - {margin}\n  ) / (1 + {z**2:.6g} / {n}),\n  0\n)",
    }


def _burning_rules(made: Policy, every: tuple[Duration, ...]) -> Iterator[Rule]:
    longest_fast = max(
        (one for one in every if one.milliseconds < _SLOW_FROM_MILLISECONDS),
        key=lambda one: one.milliseconds,
        default=every[0],
    )
    yield {"record": BUDGET, "expr": _budgets(made, requests(longest_fast))}
    for burn_rate in made.settings.burn_rates.every:
        yield {"record": burning(burn_rate), "expr": _burns(burn_rate)}
    yield {"record": page_burning(), "expr": either(*map(burning, made.settings.burn_rates.page))}


def _budgets(made: Policy, known: str) -> str:
    """The budget of every indicator that is known, by the first override that fits, else by the policy."""
    values: list[str] = []
    for override in made.settings.segments:
        own = {one.name: override.targets.get(one.name, 1 - one.budget) for one in made.indicators}
        values += _constants(own, known, _matching(override))
    values += _constants({one.name: 1 - one.budget for one in made.indicators}, known, {})
    silent = silences(made, lambda labels: selector(known, labels))
    return "\n".join([f"(\n{either(*values)}\n)", *silent]) if silent else either(*values)


def _constants(targets: Mapping[str, float], known: str, labels: dict[str, str]) -> Iterator[str]:
    by_target: dict[float, list[str]] = {}
    for name, target in targets.items():
        by_target.setdefault(round(1 - target, 9), []).append(name)
    for budget, names in by_target.items():
        series = selector(known, labels, metric=Pattern("|".join(names)))
        yield f"{budget:g} * group by ({BY_INDICATOR}) ({series})"


def silences(made: Policy, known: Callable[[dict[str, str]], str]) -> list[str]:
    """Lines that leave out the segments without alerts: those whose first override that fits says so.

    known: an expression for what is known of the services and segments with these labels.
    """
    lines = []
    for index, override in enumerate(made.settings.segments):
        if override.alert:
            continue
        silent = known(_matching(override))
        earlier = [known(_matching(one)) for one in made.settings.segments[:index] if one.alert]
        if earlier:
            silent = "(" + "\n  unless on (service, segment) ".join([silent, *earlier]) + ")"
        lines.append(f"unless on (service, segment) {silent}")
    return lines


def _matching(override: Override) -> dict[str, str]:
    labels = {"service": override.service, "segment": override.segment}
    return {name: value for name, value in labels.items() if value is not None}


def _burns(burn_rate: BurnRate) -> str:
    """Oracle and proxy are judged apart; where both burn, there is still one series, and one alert."""
    limit = f"on ({BY_INDICATOR}) group_left () {burn_rate.factor:g} * {BUDGET}"
    return "\n".join(
        [
            f"max by ({BY_INDICATOR}) (",
            f"  ({wilson(burn_rate.long)} > {limit})",
            f"  and ({bad_ratio(burn_rate.short)} > {limit})",
            f"  and ({requests(burn_rate.short)} >= {burn_rate.minimum:g})",
            ")",
        ]
    )
