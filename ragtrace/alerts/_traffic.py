"""Traffic as promtool's tests write it: phases of requests become counters; checks say who is alerted.

`Plan` has the numbers of a policy's scenarios: how heavy a fault must be for a page, or only for a ticket, and how long
that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import asin, ceil, sin, sqrt
from typing import Any, Final, NamedTuple, TypeAlias

from ragtrace.alerts._policy import AlertPolicy, Indicator
from ragtrace.alerts._recording_rules import selector
from ragtrace.alerts.settings import BurnRate, Duration, RiseThreshold
from ragtrace.sample_statistics import wilson

__all__ = [
    "JUDGE",
    "SERVICE",
    "STEP",
    "AlertScenario",
    "Expectation",
    "ExpectedAlert",
    "Phase",
    "Plan",
    "Series",
    "gauge",
    "judged",
    "minutes",
    "raised",
    "ramp",
    "requests",
    "scenario_test",
]

SERVICE: Final = "ragtrace-test"
JUDGE: Final = "5eed0001"
STEP: Final = 5  # minutes between the samples of scenarios of hours and days

_SINCE_START: Final = "30d"
_HEALTHY: Final = 0.2  # of the budget
_USUAL: Final = 0.05  # share of requests in which a healthy stage is suspected
_LEAD: Final = 20  # healthy minutes before a fault

Series: TypeAlias = dict[str, str]


class Phase(NamedTuple):
    """Some minutes of traffic.

    Args:
        minutes: how long it goes on.
        bad: by stage, the share of requests in which it is broken, of those with no earlier stage broken or suspected.
            A request with a broken earlier stage is bad in the later ones as well: what counts in the scope `all`.
        traffic: requests each minute.
        counted: by stage, the requests each minute that reach it, where `bad` does not say it.
        suspected, not_known: by stage, the shares of those that reach it in which it is neither sound nor broken.
        distant: by stage, the share of all requests whose answer is far from its question.
    """

    minutes: int
    bad: Mapping[str, float] = {}
    traffic: float = 10.0
    counted: Mapping[str, float] = {}
    suspected: Mapping[str, float] = {}
    not_known: Mapping[str, float] = {}
    distant: Mapping[str, float] = {}


class ExpectedAlert(NamedTuple):
    """An alert that is expected: its name, the stage whose owner gets it, and its labels."""

    name: str
    stage: str
    labels: Mapping[str, str]


class Expectation(NamedTuple):
    """The alerts that fire at a minute, or `ever` until then, and no others."""

    minute: int
    alerts: tuple[ExpectedAlert, ...] = ()
    ever: bool = False


class AlertScenario(NamedTuple):
    """What happens, and who is alerted. `interval`: minutes between samples."""

    name: str
    series: tuple[Series, ...]
    checks: tuple[Expectation, ...]
    interval: int = 1


def raised(share: float, effect: float) -> float:
    """A share that is higher by so much after the arcsine transformation."""
    return sin(asin(sqrt(share)) + effect / 2) ** 2


def minutes(duration: Duration) -> int:
    """Whole minutes, rounded up."""
    return ceil(duration.milliseconds / 60_000)


class _Rates(NamedTuple):
    """Requests each minute in which a stage is sound or broken, is sound, is suspected, is not known, and in which the
    answer is far from its question; in one scope."""

    judged: float
    good: float
    suspected: float
    not_known: float
    distant: float = 0.0

    @property
    def doubted(self) -> float:
        """Those in which it is broken or suspected."""
        return self.judged - self.good + self.suspected


def judged(
    made: AlertPolicy,
    phases: Sequence[Phase],
    segment: str,
    *,
    stratum: str = "random",
    reference: str = "proxy",
    judge: str = JUDGE,
    reasons: Mapping[str, str] = {},
    never_good: Iterable[str] = (),
    interval: int = 1,
) -> Iterator[Series]:
    """The counters of every stage in both scopes.

    reasons: by stage, why it is not known; what declines is in doubt. never_good: stages whose good counter does not
    exist. interval: minutes between samples.
    """
    for indicator in made.indicators:
        name = indicator.name
        labels = {
            "service": SERVICE,
            "segment": segment,
            "stage": name,
            "stratum": stratum,
            "reference": reference,
            "judge": judge,
        }
        unjudged = {
            "suspected": {"state": "suspected", "reason": "low_match"},
            "not_known": {"state": "not_known", "reason": reasons.get(name, "undecided")},
        }
        by_scope = [_rates(phase, name, indicator.upstream) for phase in phases]
        for position, scope in enumerate(("conditional", "all")):
            rates = [both[position] for both in by_scope]
            series = {
                "judged": selector(made.series("sli_requests"), labels, scope=scope),
                "good": selector(made.series("sli_good_requests"), labels, scope=scope),
            } | {
                state: selector(made.series("sli_unjudged_requests"), labels, scope=scope, **more)
                for state, more in unjudged.items()
            }
            if scope == "all":
                series["doubted"] = selector(made.series("sli_doubted_requests"), labels)
                series["distant"] = selector(made.series("sli_distant_requests"), labels)
            for counter, written in series.items():
                by_phase = [getattr(rate, counter) for rate in rates]
                if counter == "doubted" and reasons.get(name) == "refused":
                    by_phase = [known + rate.not_known for known, rate in zip(by_phase, rates, strict=True)]
                is_absent = name in never_good if counter == "good" else counter != "judged" and not any(by_phase)
                if not is_absent:
                    samples = [phase.minutes // interval for phase in phases]
                    rises = [rate * interval for rate in by_phase]
                    yield {"series": written, "values": ramp(zip(samples, rises, strict=True))}


def _rates(phase: Phase, name: str, earlier: Sequence[str]) -> tuple[_Rates, _Rates]:
    """In the scope `conditional`, and in `all`."""
    reaching = phase.traffic
    for other in earlier:
        reaching *= 1 - phase.bad.get(other, 0.0) - phase.suspected.get(other, 0.0)
    suspected, not_known = phase.suspected.get(name, 0.0), phase.not_known.get(name, 0.0)
    known = 1 - suspected - not_known
    sound = known - phase.bad.get(name, 0.0)
    counted = phase.counted.get(name, reaching)
    conditional = _Rates(counted * known, counted * sound, counted * suspected, counted * not_known)
    every = phase.traffic
    distant = every * phase.distant.get(name, 0.0)
    return conditional, _Rates(every * known, reaching * sound, every * suspected, every * not_known, distant)


def requests(made: AlertPolicy, phases: Sequence[Phase], segment: str, *, interval: int = 1) -> Iterator[Series]:
    """The requests that arrive, and an analyzer and an exporter that are well."""
    samples = [phase.minutes // interval for phase in phases]
    arriving = ramp((number, phase.traffic * interval) for number, phase in zip(samples, phases, strict=True))
    labels = {"service": SERVICE, "segment": segment, "status": "ok", "stratum": "random"}
    yield {"series": selector(made.series("requests"), labels), "values": arriving}
    success = selector(made.series("analyzer_last_success"), service=SERVICE)
    yield {"series": success, "values": ramp([(sum(samples), 60.0 * interval)])}
    yield {"series": selector("up", job=made.settings.platform.job), "values": gauge([(sum(samples), 1.0)])}


def ramp(parts: Iterable[tuple[int, float]]) -> str:
    """A counter from 0: for so many samples, a rise of so much at each.

    Rises are multiples of 2**-10, which sum up exactly: a counter that fell by a rounding error would count as reset.
    """
    written, value = ["0"], 0.0
    for samples, rise in parts:
        step = round(rise * 1024) / 1024
        start = value + step
        written.append(f"{start!r}+{step!r}x{samples - 1}" if samples > 1 else repr(start))
        value += step * samples
    return " ".join(written)


def gauge(parts: Iterable[tuple[int, float]]) -> str:
    """A value that stays for so many samples each time."""
    return " ".join(f"{value:.10g}x{samples - 1}" if samples > 1 else f"{value:.10g}" for samples, value in parts)


def scenario_test(made: AlertPolicy, scenario: AlertScenario) -> dict[str, Any]:
    """The scenario as promtool reads it."""
    return {
        "name": scenario.name,
        "interval": f"{scenario.interval}m",
        "input_series": list(scenario.series),
        "promql_expr_test": [_check(made, check) for check in scenario.checks],
    }


def _check(made: AlertPolicy, check: Expectation) -> dict[str, Any]:
    firing = 'ALERTS{alertstate="firing", alertname=~"Ragtrace.+"}'
    alerts = f"last_over_time({firing}[{_SINCE_START}])" if check.ever else firing
    return {
        "expr": f"count by (alertname, owner, service, segment, source, provider, question_type) ({alerts})",
        "eval_time": f"{check.minute}m",
        "exp_samples": [
            {"labels": selector("", alert.labels, alertname=alert.name, owner=made.owner(alert.stage)), "value": 1}
            for alert in check.alerts
        ],
    }


class Plan:
    """The numbers of a policy's scenarios."""

    def __init__(self, made: AlertPolicy) -> None:
        self.made = made
        self.lead = _LEAD
        self.traffic = Phase(0).traffic
        rates, hold = made.settings.burn_rates, made.settings.hold
        needed = [rate.factor * one.budget for rate in rates.page for one in made.indicators]
        self.heavy = (1 + max(needed)) / 2
        self.healthy = {one.name: _HEALTHY * one.budget for one in made.indicators}
        self.usual = {one.name: _USUAL for one in made.indicators}
        waits = [minutes(hold.page[one.name]) for one in made.indicators]
        self.page = min(minutes(rate.long) for rate in rates.page) + max(waits) + 4
        self.recovery = max(minutes(rate.short) for rate in rates.page) + minutes(hold.keep_firing) + 4
        self.ticket = 2 * minutes(hold.ticket)

    def phase(self, length: int, **bad: float) -> Phase:
        """Traffic that is healthy but for what is `bad`."""
        return Phase(length, {**self.healthy, **bad})

    def fault(self, bad: Mapping[str, float]) -> list[Phase]:
        """Health, then the fault, then health again."""
        return [self.phase(self.lead), self.phase(self.page, **bad), self.phase(self.recovery)]

    def beside(self, upstream: Indicator, downstream: Indicator) -> float:
        """A bad ratio of a later stage that burns its budget no faster than the earlier stage's heavy fault does.

        Where the earlier stage may be worse than the later one, the later one would burn long before it.
        """
        return self.heavy * min(1.0, downstream.budget / upstream.budget)

    def slow(self, to: Indicator) -> tuple[float, int] | None:
        """A bad ratio too small for a page and enough for a ticket, and the minutes until it has one.

        None where tickets need as much as pages do.
        """
        rates = self.made.settings.burn_rates
        paging = min(rate.factor for rate in rates.page)
        factor = max((rate.factor for rate in rates.ticket if rate.factor < paging), default=None)
        if factor is None:
            return None
        bad = (factor + paging) / 2 * to.budget
        length = self.until_ticket(to, bad)
        return None if length is None else (bad, length)

    def until_ticket(self, to: Indicator, bad: float) -> int | None:
        """How long a fault lasts until it is a ticket; None where it never is one."""
        pairs = self.made.settings.burn_rates.ticket
        onsets = [onset for pair in pairs if (onset := self._onset(pair, to, bad)) is not None]
        return max(min(onsets) + minutes(self.made.settings.hold.ticket) + 5, self.ticket) if onsets else None

    def _onset(self, pair: BurnRate, to: Indicator, bad: float) -> int | None:
        """The minutes after which a fault burns on both windows of a pair."""
        z, needed = self.made.settings.burn_rates.z, pair.factor * to.budget
        for lasted in range(1, minutes(pair.long) + 1):
            long, short = (self._counted(minutes(window), lasted, to, bad) for window in (pair.long, pair.short))
            enough = short[1] >= pair.minimum and long[1] >= pair.least_long
            if enough and wilson(*long, z)[0] > needed and short[0] / short[1] > needed:
                return lasted
        return None

    def _counted(self, window: int, lasted: int, to: Indicator, bad: float) -> tuple[float, float]:
        """Bad requests and all of them in a window after so many minutes of the fault."""
        fault = min(lasted, window)
        calm = min(self.lead, window - fault)
        return self.traffic * (fault * bad + calm * self.healthy[to.name]), self.traffic * (fault + calm)

    @property
    def shortest(self) -> RiseThreshold:
        """The comparison of the shortest window, by which a rise is noticed first."""
        return min(self.made.settings.growth.suspected.windows, key=lambda one: one.window.milliseconds)

    @property
    def longest(self) -> RiseThreshold:
        """The comparison of the longest window, by which the smallest rise is noticed."""
        return max(self.made.settings.growth.suspected.windows, key=lambda one: one.window.milliseconds)

    def least_risen(self, comparison: RiseThreshold, before: int, traffic: float) -> float:
        """The smallest share that has risen from the usual one, `before` being the minutes of the baseline."""
        z = self.made.settings.growth.suspected.z
        error = sqrt(1 / (traffic * minutes(comparison.window)) + 1 / (traffic * before))
        return max(_USUAL + comparison.points, raised(_USUAL, max(comparison.effect, z * error)))
