"""Traffic as promtool's tests write it: phases of requests become counters; checks say who is alerted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ragtrace.alerts.policy import Policy
from ragtrace.alerts.promql import selector

__all__ = ["SERVICE", "Alert", "Check", "Phase", "Scenario", "gauge", "judged", "ramp", "requests", "scenario_test"]

SERVICE: Final = "ragtrace-test"

_SINCE_START: Final = "30d"

Series: TypeAlias = dict[str, str]


class Phase(NamedTuple):
    """Some minutes of traffic.

    Args:
        minutes: how long it goes on.
        bad: by indicator, the share of bad requests among those whose earlier stages were good. A request with a bad
            earlier stage is bad in the later ones as well: what counts in the scope `all`.
        traffic: requests each minute.
        counted: by indicator, the requests each minute whose earlier stages were good, where `bad` does not say it.
    """

    minutes: int
    bad: Mapping[str, float] = {}
    traffic: float = 10.0
    counted: Mapping[str, float] = {}


class Alert(NamedTuple):
    """An alert that is expected: its name, the stage whose owner gets it, and its labels."""

    name: str
    stage: str
    labels: Mapping[str, str]


class Check(NamedTuple):
    """The alerts that fire at a minute, or `ever` until then, and no others."""

    minute: int
    alerts: tuple[Alert, ...] = ()
    ever: bool = False


class Scenario(NamedTuple):
    """What happens, and who is alerted. `interval`: minutes between samples."""

    name: str
    series: tuple[Series, ...]
    checks: tuple[Check, ...]
    interval: int = 1


def judged(
    made: Policy,
    phases: Sequence[Phase],
    segment: str,
    *,
    stratum: str = "random",
    reference: str = "proxy",
    never_good: Iterable[str] = (),
) -> Iterator[Series]:
    """The counters of every indicator in both scopes. `never_good`: indicators whose good counter does not exist."""
    given = {one.name: one.instrument.sli.given for one in made.indicators if one.instrument.sli}
    stages = {one.name: one.stage.name for one in made.indicators}
    for name in given:
        earlier = [other for other in given if stages[other] in given[name]]
        labels = {"service": SERVICE, "segment": segment, "metric": name, "stratum": stratum, "reference": reference}
        rates = [_rates(phase, name, earlier) for phase in phases]
        for scope, total, good in (("conditional", 0, 1), ("all", 2, 3)):
            both = (("sli_requests", total), ("sli_good_requests", good))
            for id_, column in both[: 1 if name in never_good else 2]:
                counter = ramp((phase.minutes, rate[column]) for phase, rate in zip(phases, rates, strict=True))
                yield {"series": selector(made.series(id_), labels, scope=scope), "values": counter}


def _rates(phase: Phase, name: str, earlier: Sequence[str]) -> tuple[float, float, float, float]:
    """Requests each minute: those with good earlier stages and the good ones of them, then the same of all."""
    reaching = phase.traffic
    for other in earlier:
        reaching *= 1 - phase.bad.get(other, 0.0)
    good = 1 - phase.bad.get(name, 0.0)
    counted = phase.counted.get(name, reaching)
    return counted, counted * good, phase.traffic, reaching * good


def requests(made: Policy, phases: Sequence[Phase], segment: str) -> Iterator[Series]:
    """The requests that arrive, and an analyzer and an exporter that are well."""
    minutes = sum(phase.minutes for phase in phases)
    arriving = ramp((phase.minutes, phase.traffic) for phase in phases)
    labels = {"service": SERVICE, "segment": segment, "status": "ok", "stratum": "random"}
    yield {"series": selector(made.series("requests"), labels), "values": arriving}
    success = selector(made.series("analyzer_last_success"), service=SERVICE)
    yield {"series": success, "values": ramp([(minutes, 60.0)])}
    yield {"series": selector("up", job=made.settings.platform.job), "values": gauge([(minutes, 1.0)])}


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


def scenario_test(made: Policy, scenario: Scenario) -> dict[str, Any]:
    """The scenario as promtool reads it."""
    return {
        "name": scenario.name,
        "interval": f"{scenario.interval}m",
        "input_series": list(scenario.series),
        "promql_expr_test": [_check(made, check) for check in scenario.checks],
    }


def _check(made: Policy, check: Check) -> dict[str, Any]:
    firing = 'ALERTS{alertstate="firing", alertname=~"Ragtrace.+"}'
    alerts = f"last_over_time({firing}[{_SINCE_START}])" if check.ever else firing
    return {
        "expr": f"count by (alertname, owner, service, segment, source) ({alerts})",
        "eval_time": f"{check.minute}m",
        "exp_samples": [
            {"labels": selector("", alert.labels, alertname=alert.name, owner=made.owner(alert.stage)), "value": 1}
            for alert in check.alerts
        ],
    }
