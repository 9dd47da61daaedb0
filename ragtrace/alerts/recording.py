"""The recording rules, and the PromQL that rules share.

Recorded for every window: how many requests were judged, how many of them bad, how sure that is, and what burns its
budget; and for the windows of suspicion how many requests are suspected, how many usually are, and what has risen.
Series keep `reference` and `judge`: neither two references nor two judges ever stand in one ratio. What burns or has
risen has neither label, so that a change of judge neither resolves nor doubles an alert.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ragtrace.alerts.policy import Policy
from ragtrace.alerts.settings import BurnRate, Comparison, Duration, Override, Suspicion

__all__ = [
    "BUDGET",
    "PAGE_BURNING",
    "SIGNS",
    "TICKET_BURNING",
    "Group",
    "Pattern",
    "Rule",
    "bad_ratio",
    "burning",
    "either",
    "increase",
    "quoted",
    "recording_groups",
    "requests",
    "risen",
    "selector",
    "share",
    "silences",
    "states",
    "usual",
    "wilson",
    "windows",
]

Rule: TypeAlias = dict[str, Any]
Group: TypeAlias = dict[str, Any]

BUDGET: Final = "ragtrace:sli:budget"
PAGE_BURNING: Final = "ragtrace:sli_burning:page"
TICKET_BURNING: Final = "ragtrace:sli_burning:ticket"

# What points to a break without proving it: a suspicion, and an answer that declines, whether rightly or not.
SIGNS: Final[Mapping[str, Mapping[str, str]]] = {
    "suspected": {"state": "suspected"},
    "refused": {"state": "not_known", "reason": "refused"},
}
_SHARES: Final = {**SIGNS, "not_known": {"state": "not_known"}}

_BY_STAGE: Final = "service, segment, stage"
_BY_JUDGE: Final = "service, segment, stage, reference, judge"

# What alerts judge: requests with no earlier stage broken or suspected, drawn at random.
_JUDGED: Final = {"scope": "conditional", "stratum": "random"}
_SLOW_FROM_MILLISECONDS: Final = Duration.parse("1d").milliseconds


class Pattern(str):
    """A regular expression in the place of a label's value."""

    __slots__ = ()


def quoted(text: str) -> str:
    """A string of PromQL."""
    return json.dumps(text, ensure_ascii=False)


def selector(name: str, labels: Mapping[str, str] | None = None, **more: str) -> str:
    """A series by its labels. A value is a literal, whatever stands in it, unless it is a `Pattern`."""
    written = []
    for label, value in {**(labels or {}), **more}.items():
        operator = "=~" if isinstance(value, Pattern) else "="
        written.append(f"{label}{operator}{quoted(value)}")
    return f"{name}{{{', '.join(written)}}}" if written else name


def increase(name: str, window: Duration, past: str = "", *, by: str, labels: Mapping[str, str] | None = None) -> str:
    """How much a counter has risen in a window, summed; `past` is an offset."""
    return f"sum by ({by}) (increase({selector(name, labels)}[{window}]{past}))"


def either(*alternatives: str) -> str:
    """Any of the expressions, each on lines of its own."""
    return "\nor\n".join(alternatives)


def requests(window: Duration) -> str:
    """The recorded number of requests in which a stage is sound or broken."""
    return f"ragtrace:sli_requests:increase{window.name}"


def bad_ratio(window: Duration) -> str:
    """The recorded share of them in which it is broken."""
    return f"ragtrace:sli_bad:ratio_rate{window.name}"


def wilson(window: Duration) -> str:
    """The recorded lower bound of that share."""
    return f"ragtrace:sli_bad:wilson{window.name}"


def burning(burn_rate: BurnRate) -> str:
    """The recorded bound of what burns on both windows of a pair."""
    return f"ragtrace:sli_burning:{burn_rate.name}"


def states(window: Duration) -> str:
    """The recorded number of requests in which a stage has any state."""
    return f"ragtrace:sli_states:increase{window.name}"


def share(what: str, window: Duration) -> str:
    """The recorded share of them that is `suspected`, `refused` or `not_known`."""
    return f"ragtrace:sli_{what}:ratio_rate{window.name}"


def usual(sign: str, window: Duration) -> str:
    """The recorded share of the baseline before a window."""
    return f"ragtrace:sli_{sign}:usual{window.name}"


def risen(sign: str, window: Duration | None = None) -> str:
    """The recorded share of a sign that has risen over a window, by default over any."""
    return f"ragtrace:sli_{sign}:risen{'' if window is None else window.name}"


def _count(sign: str, window: Duration) -> str:
    return f"ragtrace:sli_{sign}:increase{window.name}"


def _score(sign: str, window: Duration) -> str:
    return f"ragtrace:sli_{sign}:z{window.name}"


def windows(made: Policy) -> tuple[Duration, ...]:
    """Every window over which an indicator is recorded, shortest first."""
    lengths: dict[int, Duration] = {}
    for burn_rate in made.settings.burn_rates.every:
        lengths |= {window.milliseconds: window for window in (burn_rate.short, burn_rate.long)}
    return tuple(lengths[length] for length in sorted(lengths))


def recording_groups(made: Policy) -> list[Group]:
    """The groups of recording rules; those of long windows and of suspicion run less often."""
    every = windows(made)
    evaluation = made.settings.evaluation
    fast = [one for one in every if one.milliseconds < _SLOW_FROM_MILLISECONDS]
    slow = [one for one in every if one.milliseconds >= _SLOW_FROM_MILLISECONDS]
    groups = [
        _group("ragtrace-sli-slow", evaluation.slow_interval, _indicator_rules(made, slow)),
        _group("ragtrace-sli", evaluation.interval, [*_indicator_rules(made, fast), *_burning_rules(made, every)]),
        _group("ragtrace-suspicion", evaluation.slow_interval, [*_suspicion_rules(made)]),
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
        "expr": increase(made.series("sli_requests"), window, by=_BY_JUDGE, labels=_JUDGED),
    }


def _bad_ratio(made: Policy, window: Duration) -> Rule:
    """A good counter that never rose is a bad ratio of 1, not silence."""
    total = requests(window)
    good = increase(made.series("sli_good_requests"), window, by=_BY_JUDGE, labels=_JUDGED)
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
    rates = made.settings.burn_rates
    yield {"record": BUDGET, "expr": _budgets(made, requests(longest_fast))}
    for burn_rate in rates.every:
        yield {"record": burning(burn_rate), "expr": _burns(burn_rate)}
    yield {"record": PAGE_BURNING, "expr": either(*map(burning, rates.page))}
    yield {"record": TICKET_BURNING, "expr": either(*map(burning, rates.ticket))}


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
        series = selector(known, labels, stage=Pattern("|".join(names)))
        yield f"{budget:g} * group by ({_BY_STAGE}) ({series})"


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
    """Each reference and each judge has its own ratio; a burn under any is a burn, one series, and one alert."""
    limit = f"on ({_BY_STAGE}) group_left () {burn_rate.factor:g} * {BUDGET}"
    return "\n".join(
        [
            f"max by ({_BY_STAGE}) (",
            f"  ({wilson(burn_rate.long)} > {limit})",
            f"  and ({bad_ratio(burn_rate.short)} > {limit})",
            f"  and ({requests(burn_rate.short)} >= {burn_rate.minimum:g})",
            f"  and ({requests(burn_rate.long)} >= {burn_rate.least_long:g})",
            ")",
        ]
    )


def _suspicion_rules(made: Policy) -> Iterator[Rule]:
    """What points to a break, over each window and the baseline before it, by judge; and what has risen."""
    suspicion = made.settings.growth.suspected
    for comparison in suspicion.windows:
        window = comparison.window
        counted, unjudged = (
            f"increase({selector(made.series(id_), _JUDGED)}[{window}])"
            for id_ in ("sli_requests", "sli_unjudged_requests")
        )
        yield {"record": states(window), "expr": f"sum by ({_BY_JUDGE}) ({counted} or {unjudged})"}
        for what, labels in _SHARES.items():
            count = increase(made.series("sli_unjudged_requests"), window, by=_BY_JUDGE, labels={**_JUDGED, **labels})
            yield {"record": _count(what, window), "expr": f"{count}\nor 0 * {states(window)}"}
            ratio = f"{_count(what, window)} / ({states(window)} > 0)"
            yield {"record": share(what, window), "expr": f"clamp_max({ratio}, 1)"}
        for sign in SIGNS:
            yield _usual(sign, comparison, suspicion)
            yield _significance(sign, comparison, suspicion)
            yield _risen(sign, comparison, suspicion)
    for sign in SIGNS:
        yield {"record": risen(sign), "expr": either(*(risen(sign, one.window) for one in suspicion.windows))}


def _baseline(name: str, comparison: Comparison) -> str:
    """The sum of a recorded number over the baseline, in whole windows that lie before the present one."""
    window = comparison.window
    return f"sum_over_time({name}[{comparison.baseline}:{window}] offset {window})"


def _usual(sign: str, comparison: Comparison, suspicion: Suspicion) -> Rule:
    """Nothing is usual yet where the baseline holds too few requests of this judge."""
    count, total = (_baseline(name(comparison.window), comparison) for name in (lambda w: _count(sign, w), states))
    return {
        "record": usual(sign, comparison.window),
        "expr": f"clamp_max({count} / ({total} >= {suspicion.minimum:g}), 1)",
    }


def _significance(sign: str, comparison: Comparison, suspicion: Suspicion) -> Rule:
    """How many standard errors the share lies above the usual one, after the arcsine transformation of both.

    It keeps its level where shares are small and requests few; the plain difference does not.
    Source: J. Cohen, Statistical power analysis for the behavioral sciences, 1988, chapter 6.
    """
    window = comparison.window
    now, before = (f"asin(sqrt({name}))" for name in (share(sign, window), usual(sign, window)))
    error = f"sqrt(1 / ({states(window)} >= {suspicion.minimum:g}) + 1 / {_baseline(states(window), comparison)})"
    return {"record": _score(sign, window), "expr": f"2 * ({now} - {before})\n/ {error}"}


def _risen(sign: str, comparison: Comparison, suspicion: Suspicion) -> Rule:
    window = comparison.window
    now = share(sign, window)
    lines = [
        f"max by ({_BY_STAGE}) (",
        f"  {now}",
        f"  and ({_score(sign, window)} > {suspicion.z:g})",
        f"  and ({now} - {usual(sign, window)} >= {comparison.rise:g})",
        ")",
    ]
    return {"record": risen(sign, window), "expr": "\n".join(lines)}
