"""The recording rules, and the PromQL that rules share.

Recorded for every window: how many requests were judged, how many of them bad, how sure that is, and what burns its
budget; for the windows of suspicion in how many requests each stage is in doubt and in how many answers are far from
their questions, in how many they usually are, what has risen, and at which stage; and what part each provider has of
the places in prompts, of what is used and deserved.
Series keep `reference` and `judge`: neither two references nor two judges ever stand in one ratio. What burns or has
risen has neither label, so that a change of judge neither resolves nor doubles an alert.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ragtrace.alerts._policy import AlertPolicy
from ragtrace.alerts.settings import BurnRate, Duration, Override, RiseThreshold, Suspicion

__all__ = [
    "BUDGET",
    "DISTANT",
    "DOUBTED",
    "PAGE_BURNING",
    "TICKET_BURNING",
    "Group",
    "Pattern",
    "Rule",
    "bad_ratio",
    "burning",
    "doubted",
    "either",
    "increase",
    "not_known",
    "provider",
    "quoted",
    "recording_groups",
    "requests",
    "risen",
    "selector",
    "silences",
    "states",
    "usual",
    "wilson",
    "windows",
]

Rule: TypeAlias = dict[str, Any]
Group: TypeAlias = dict[str, Any]

BUDGET: Final = "ragtrace:sli:budget"
DOUBTED: Final = "doubted"  # what is compared with what is usual: stages in doubt,
DISTANT: Final = "distant"  # and answers far from their questions, which is no doubt of a single one
PAGE_BURNING: Final = "ragtrace:sli_burning:page"
TICKET_BURNING: Final = "ragtrace:sli_burning:ticket"

_ANSWERS: Final = "generation"  # the stage whose answers are far from their questions
_BY_STAGE: Final = "service, segment, stage"
_BY_JUDGE: Final = "service, segment, stage, reference, judge"
_BY_RULE: Final = "service, segment, reference, judge"

# What alerts judge: requests with no earlier stage broken or suspected, drawn at random.
_RANDOM: Final = {"stratum": "random"}
_JUDGED: Final = {"scope": "conditional", **_RANDOM}
# What providers have parts of: the metric, which of its series, and the labels whose values are never mixed.
_PARTS: Final[tuple[tuple[str, str, dict[str, str], tuple[str, ...]], ...]] = (
    ("shown", "provider_exposure", {}, ()),
    ("used", "provider_attributed_exposure", {"used_by": "claims"}, ()),
    ("deserved", "provider_deserved_exposure", {}, ("reference",)),
)
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
    """The recorded number of requests to which a stage applies."""
    return f"ragtrace:sli_states:increase{window.name}"


def not_known(window: Duration) -> str:
    """The recorded share of them in which nothing is known of it."""
    return f"ragtrace:sli_not_known:ratio_rate{window.name}"


def doubted(window: Duration, what: str = DOUBTED) -> str:
    """The recorded share of them in which it is in doubt, or in which the answer is far from its question."""
    return _compared("ratio_rate", window, what)


def usual(window: Duration, what: str = DOUBTED) -> str:
    """The recorded share of the baseline before a window."""
    return _compared("usual", window, what)


def risen(window: Duration | None = None) -> str:
    """The recorded share that has risen over a window, by default over any, at the stage where the rise began."""
    return f"ragtrace:sli_doubted:risen{'' if window is None else window.name}"


def provider(what: str, when: str) -> str:
    """The recorded part that a provider has of what is shown, used or deserved, or its requests; `now` or `usual`."""
    return f"ragtrace:provider_{what}:{when}"


def _compared(part: str, window: Duration, what: str = DOUBTED) -> str:
    """What is recorded of a share: its count, itself, what is usual, `z`, rise, error, or a rise that is clear."""
    return f"ragtrace:sli_{what}:{part}{window.name}"


def windows(made: AlertPolicy) -> tuple[Duration, ...]:
    """Every window over which an indicator is recorded, shortest first."""
    lengths: dict[int, Duration] = {}
    for burn_rate in made.settings.burn_rates.every:
        lengths |= {window.milliseconds: window for window in (burn_rate.short, burn_rate.long)}
    return tuple(lengths[length] for length in sorted(lengths))


def recording_groups(made: AlertPolicy) -> list[Group]:
    """The groups of recording rules; those of long windows and of suspicion run less often."""
    every = windows(made)
    evaluation = made.settings.evaluation
    fast = [one for one in every if one.milliseconds < _SLOW_FROM_MILLISECONDS]
    slow = [one for one in every if one.milliseconds >= _SLOW_FROM_MILLISECONDS]
    groups = [
        _group("ragtrace-sli-slow", evaluation.slow_interval, _indicator_rules(made, slow)),
        _group("ragtrace-sli", evaluation.interval, [*_indicator_rules(made, fast), *_burning_rules(made, every)]),
        _group("ragtrace-suspicion", evaluation.slow_interval, [*_suspicion_rules(made)]),
        _group("ragtrace-exposure", evaluation.slow_interval, [*_exposure_rules(made)]),
    ]
    return [group for group in groups if group["rules"]]


def _group(name: str, interval: Duration, rules: list[Rule]) -> Group:
    return {"name": name, "interval": str(interval), "rules": rules}


def _indicator_rules(made: AlertPolicy, over: list[Duration]) -> list[Rule]:
    z = made.settings.burn_rates.z
    return [rule for window in over for rule in (_requests(made, window), _bad_ratio(made, window), _wilson(window, z))]


def _requests(made: AlertPolicy, window: Duration) -> Rule:
    return {
        "record": requests(window),
        "expr": increase(made.series("sli_requests"), window, by=_BY_JUDGE, labels=_JUDGED),
    }


def _bad_ratio(made: AlertPolicy, window: Duration) -> Rule:
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


def _exposure_rules(made: AlertPolicy) -> Iterator[Rule]:
    """Each provider's part of what all providers of its service have, and the requests that it was in, in the window
    and in the baseline before it. Two references never stand in one part."""
    fall = made.settings.exposure
    for when, window, ago in (("now", fall.window, ""), ("usual", fall.baseline, f" offset {fall.window}")):
        for what, watched, labels, by in _PARTS:
            own = increase(made.series(watched), window, ago, by=", ".join(("service", "provider", *by)), labels=labels)
            whole = increase(made.series(watched), window, ago, by=", ".join(("service", *by)), labels=labels)
            on = ", ".join(("service", *by))
            yield {"record": provider(what, when), "expr": f"{own}\n/ on ({on}) group_left () ({whole} > 0)"}
        seen = increase(made.series("provider_requests"), window, ago, by="service, provider")
        yield {"record": provider("requests", when), "expr": seen}


def _burning_rules(made: AlertPolicy, every: tuple[Duration, ...]) -> Iterator[Rule]:
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


def _budgets(made: AlertPolicy, known: str) -> str:
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


def silences(made: AlertPolicy, known: Callable[[dict[str, str]], str]) -> list[str]:
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


def _suspicion_rules(made: AlertPolicy) -> Iterator[Rule]:
    """In how many requests a stage is in doubt, and an answer far from its question, over each window and before it, by
    judge; what has risen, and where. Where no model reads answers, nothing is recorded of how far they are.
    """
    suspicion = made.settings.growth.suspected
    for comparison in suspicion.windows:
        window = comparison.window
        counted, unjudged = (
            f"increase({selector(made.series(id_), _RANDOM, scope='all')}[{window}])"
            for id_ in ("sli_requests", "sli_unjudged_requests")
        )
        yield {"record": states(window), "expr": f"sum by ({_BY_JUDGE}) ({counted} or {unjudged})"}
        counts = {
            what: increase(made.series(f"sli_{what}_requests"), window, by=_BY_JUDGE, labels=_RANDOM)
            for what in (DOUBTED, DISTANT)
        }
        counts[DOUBTED] += f"\nor 0 * {states(window)}"
        for what, count in counts.items():
            yield {"record": _compared("increase", window, what), "expr": count}
            yield {"record": doubted(window, what), "expr": _ratio(_compared("increase", window, what), window)}
        unknown = _RANDOM | {"scope": "all", "state": "not_known"}
        number = increase(made.series("sli_unjudged_requests"), window, by=_BY_JUDGE, labels=unknown)
        yield {"record": not_known(window), "expr": _ratio(number, window)}
        for what in counts:
            yield from _comparing(comparison, suspicion, what)
        yield from _locating(made, window)
    yield {"record": risen(), "expr": either(*(risen(one.window) for one in suspicion.windows))}


def _ratio(count: str, window: Duration) -> str:
    return f"clamp_max({count} / ({states(window)} > 0), 1)"


def _comparing(comparison: RiseThreshold, suspicion: Suspicion, what: str) -> Iterator[Rule]:
    """The share against that of the baseline: what is usual, by how much it rose, how sure that is, what rose clearly.

    Nothing is usual yet where the baseline holds too few requests of this judge. The distance in standard errors is
    that after the arcsine transformation of both shares: it keeps its level where shares are small and requests few;
    the plain difference does not. Source: J. Cohen, Statistical power analysis for the behavioral sciences, 1988,
    chapter 6.
    """
    window = comparison.window
    now, before, every = doubted(window, what), usual(window, what), states(window)
    count, z, rise = (_compared(part, window, what) for part in ("increase", "z", "rise"))
    past, past_count = _baseline(every, comparison), _baseline(count, comparison)
    enough = f"{suspicion.minimum:g}"
    yield {"record": before, "expr": f"clamp_max({past_count} / ({past} >= {enough}), 1)"}
    sizes = f"1 / ({every} >= {enough}) + 1 / {past}"
    effect = f"2 * (asin(sqrt({now})) - asin(sqrt({before})))"
    yield {"record": z, "expr": f"{effect}\n/ sqrt({sizes})"}
    yield {"record": rise, "expr": f"({now} and {z}) - {before}"}
    pooled = f"({count} + {past_count} + 0.5) / ({every} + {past} + 1)"
    yield {
        "record": _compared("error", window, what),
        "expr": f"sqrt(\n  {pooled}\n  * (1 - {pooled})\n  * ({sizes})\n)",
    }
    yield {
        "record": _compared("clear_rise", window, what),
        "expr": f"{rise} >= {comparison.points:g}\nand {effect} >= {comparison.effect:.4g}\nand {z} > {suspicion.z:g}",
    }


def _locating(made: AlertPolicy, window: Duration) -> Iterator[Rule]:
    """A clear rise is put down to the first stage that rose with it: a break of one stage makes later ones doubtful,
    and leaves earlier ones as they are. Where it is not sure enough which stage that is, nothing has risen yet. That
    more answers are far from their questions is a rise of generation in this.
    """
    stages = [indicator.name for indicator in made.indicators]
    for place, stage in enumerate(stages):
        rises = [(later, DOUBTED) for later in stages[place:]]
        rises += [(later, DISTANT) for later, _ in rises if later == _ANSWERS]
        began = [_began(made, window, stages[:place], stage, *rise) for rise in rises]
        share = selector(doubted(window), stage=stage)
        expr = f"max by (service, segment) (\n{share}\nand on ({_BY_RULE}) (\n{either(*began)}\n)\n)"
        yield {"record": risen(window), "expr": expr, "labels": {"stage": stage}}


def _began(
    made: AlertPolicy, window: Duration, earlier: Sequence[str], stage: str, later: str, what: str = DOUBTED
) -> str:
    """The clear rise of `later`, where it began at `stage`."""
    suspicion = made.settings.growth.suspected
    clear = selector(_compared("clear_rise", window, what), stage=later)

    def bound(of: str, sign: str) -> str:
        rise, error = (selector(_compared(part, window), stage=of) for part in ("rise", "error"))
        limit = f"on ({_BY_RULE}) {suspicion.part:g} * {clear}"
        return f"({rise} {sign} on ({_BY_RULE}) {suspicion.sure:g} * {error}) > {limit}"

    lines = [clear]
    if stage != later:
        lines.append(f"and on ({_BY_RULE}) ({bound(stage, '-')})")
    lines += [f"unless on ({_BY_RULE}) ({bound(one, '+')})" for one in earlier]
    return "\n".join(lines)


def _baseline(name: str, comparison: RiseThreshold) -> str:
    """The sum of a recorded number over the baseline, in whole windows that lie before the present one."""
    window = comparison.window
    return f"sum_over_time({name}[{comparison.baseline}:{window}] offset {window})"
