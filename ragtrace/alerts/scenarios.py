"""The scenarios that the indicators' alerts must pass, with numbers that follow from the policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from ragtrace.alerts.burning import signal
from ragtrace.alerts.planning import Plan, minutes
from ragtrace.alerts.policy import Indicator, Policy
from ragtrace.alerts.promql import selector
from ragtrace.alerts.replay import SERVICE, Alert, Check, Phase, Scenario, Series, gauge, judged, requests
from ragtrace.wilson import wilson

__all__ = ["indicator_scenarios"]

FIRST: Final = "first"
SECOND: Final = "second"

_DAY: Final = 24 * 60


def indicator_scenarios(made: Policy) -> Iterator[Scenario]:
    """Every scenario of the indicators: faults by stage, what may be mistaken for one, low traffic."""
    plan = Plan(made)
    stages: dict[str, list[Indicator]] = {}
    for one in made.indicators:
        stages.setdefault(one.stage.name, []).append(one)
    qc, eo, ac = (stages[name][0] for name in ("retrieval", "ranking", "generation"))
    leak = {one.name: plan.beside(qc, one) for one in (qc, eo, ac)}
    yield _healthy(plan)
    yield _paged("recall failure", plan, qc, {qc.name: plan.heavy})
    yield _paged("recall failure that leaks downstream", plan, qc, leak)
    yield _paged("selection failure", plan, eo, {eo.name: plan.heavy})
    yield _paged("grounding failure", plan, ac, {one.name: plan.beside(ac, one) for one in stages["generation"]})
    for further in (one for one in made.indicators if one.position):
        yield _paged(f"{further.instrument.id} alone", plan, further, {further.name: plan.heavy})
    yield _downstream_first(plan, qc, eo)
    yield from _slow(plan, qc)
    yield from _long(plan, qc)
    for stage in made.settings.releases.required:
        yield from _after_release(plan, stages[stage][0])
    yield _two_segments(plan, qc, ac)
    yield _two_faults(plan, qc, ac)
    yield _two_references(plan, qc)
    yield _masked_reference(plan, qc)
    yield _never_good(plan, qc)
    yield _flagged(plan, qc)
    yield _few_bad(plan, qc)
    yield from _low_traffic(plan, qc)


def _page(indicator: Indicator, segment: str = FIRST) -> Alert:
    name = f"Ragtrace{signal(indicator.instrument.id)}Page"
    return Alert(name, indicator.stage.name, {"service": SERVICE, "segment": segment})


def _ticket(indicator: Indicator, segment: str = FIRST) -> Alert:
    return _page(indicator, segment)._replace(name=f"Ragtrace{signal(indicator.instrument.id)}Ticket")


def _scenario(
    name: str, plan: Plan, phases: Sequence[Phase], checks: Iterable[Check], more: Iterable[Series] = ()
) -> Scenario:
    """A scenario of one segment, beside a second one that is healthy."""
    series = [
        *judged(plan.made, phases, FIRST),
        *judged(plan.made, [plan.phase(_length(phases))], SECOND),
        *requests(plan.made, phases, FIRST),
        *more,
    ]
    return Scenario(name, tuple(series), tuple(checks))


def _length(phases: Sequence[Phase]) -> int:
    return sum(phase.minutes for phase in phases)


def _healthy(plan: Plan) -> Scenario:
    phases = [plan.phase(plan.lead + plan.ticket)]
    return _scenario("healthy", plan, phases, [Check(_length(phases), ever=True)])


def _paged(name: str, plan: Plan, to: Indicator, bad: Mapping[str, float]) -> Scenario:
    """The fault pages one owner while it lasts, and nobody before, after, or beside."""
    phases = plan.fault(bad)
    end = plan.lead + plan.page
    late = _length(phases)
    once = (_page(to),)
    checks = [Check(plan.lead), Check(end, once), Check(late), Check(late, once, ever=True)]
    return _scenario(name, plan, phases, checks, _released(plan, to))


def _downstream_first(plan: Plan, upstream: Indicator, downstream: Indicator) -> Scenario:
    """The later stage burns a little before the earlier one, within the time by which it waits longer."""
    hold = plan.made.settings.hold.page
    ahead = (minutes(hold[upstream.stage.name]) + minutes(hold[downstream.stage.name])) // 2
    beside = {downstream.name: plan.beside(upstream, downstream)}
    steady = {downstream.name: 10.0}
    phases = [
        plan.phase(plan.lead)._replace(counted=steady),
        plan.phase(ahead, **beside)._replace(counted=steady),
        plan.phase(plan.page, **beside, **{upstream.name: plan.heavy})._replace(counted=steady),
    ]
    check = Check(_length(phases), (_page(upstream),), ever=True)
    return _scenario("later stage burns first", plan, phases, [check], _released(plan, upstream))


def _slow(plan: Plan, to: Indicator) -> Iterator[Scenario]:
    """Too little for a page; in the scope `all` the later stages are as bad."""
    slow = plan.slow(to)
    if slow is not None:
        bad, length = slow
        phases = [plan.phase(plan.lead), plan.phase(length, **{to.name: bad})]
        yield _scenario("slow recall failure", plan, phases, [Check(_length(phases), (_ticket(to),), ever=True)])


def _long(plan: Plan, to: Indicator) -> Iterator[Scenario]:
    """A page that nobody answers is no ticket as well, neither while it lasts nor after it."""
    within = plan.made.settings.releases.required.get(to.stage.name)
    after = min(minutes(rate.short) for rate in plan.made.settings.burn_rates.ticket)
    phases = [plan.phase(plan.lead), plan.phase(plan.ticket, **{to.name: plan.heavy}), plan.phase(after)]
    if within is None or minutes(within) > _length(phases):  # a release is forgotten before the page's time is over
        check = Check(_length(phases), (_page(to),), ever=True)
        yield _scenario("long recall failure", plan, phases, [check], _released(plan, to, plan.lead))


def _after_release(plan: Plan, to: Indicator) -> Iterator[Scenario]:
    """The stage pages after a release of one of its components; without one there is a ticket."""
    what = to.stage.name
    drop = {to.name: plan.heavy}
    yield _paged(f"{what} drop after a release", plan, to, drop)
    length = plan.until_ticket(to, plan.heavy)
    if length is None:
        return
    phases = [plan.phase(plan.lead), plan.phase(length, **drop)]
    ticket = Check(_length(phases), (_ticket(to),), ever=True)
    yield _scenario(f"{what} drop without a release", plan, phases, [ticket])
    within = minutes(plan.made.settings.releases.required[what])
    others = {
        "long after a release": _released(plan, to, -within),
        "before a release that is announced": _released(plan, to, _length(phases) + 10 * within),
        "after a release of another component": _released(plan, to, plan.lead, component="another"),
        "after a release of another service": _released(plan, to, plan.lead, service="another"),
    }
    for when, releases in others.items():
        yield _scenario(f"{what} drop {when}", plan, phases, [ticket], releases)


def _released(plan: Plan, to: Indicator, minute: int | None = None, **labels: str) -> list[Series]:
    """A release of the stage at a minute, which may lie ahead; by default where the stage needs one, when it does."""
    within = plan.made.settings.releases.required.get(to.stage.name)
    if within is None:
        return []
    latest = plan.lead + plan.page - minutes(within) // 2
    at = max(plan.lead, latest) if minute is None else minute
    named = {"service": SERVICE, "component": to.stage.components[0], "version": "v2"} | labels
    series = selector(plan.made.series("release_timestamp"), named)
    return [{"series": series, "values": gauge([(_DAY, at * 60.0)])}]


def _two_segments(plan: Plan, one: Indicator, other: Indicator) -> Scenario:
    """Two faults in two segments page two owners."""
    first, second = plan.fault({one.name: plan.heavy}), plan.fault({other.name: plan.heavy})
    expected = (_page(one), _page(other, SECOND))
    series = [
        *judged(plan.made, first, FIRST),
        *judged(plan.made, second, SECOND),
        *requests(plan.made, first, FIRST),
        *_released(plan, one),
        *_released(plan, other),
    ]
    end = _length(first)
    checks = (Check(plan.lead + plan.page, expected), Check(end), Check(end, expected, ever=True))
    return Scenario("two faults in two segments", tuple(series), checks)


def _two_faults(plan: Plan, one: Indicator, other: Indicator) -> Scenario:
    """Two faults in one segment: the later stage speaks when the earlier one is mended."""
    longest = max(minutes(rate.short) for rate in plan.made.settings.burn_rates.page)
    phases = [
        plan.phase(plan.lead),
        plan.phase(plan.page, **{one.name: plan.heavy, other.name: plan.beside(one, other)}),
        plan.phase(longest + plan.page, **{other.name: plan.heavy}),
    ]
    checks = [Check(plan.lead + plan.page, (_page(one),)), Check(_length(phases), (_page(other),))]
    releases = [*_released(plan, one), *_released(plan, other, plan.lead + plan.page)]
    return _scenario("two faults in one segment", plan, phases, checks, releases)


def _two_references(plan: Plan, to: Indicator) -> Scenario:
    """Oracle and proxy both burn, and page once."""
    phases = plan.fault({to.name: plan.heavy})
    more = [*judged(plan.made, phases, FIRST, reference="oracle"), *_released(plan, to)]
    return _scenario("oracle and proxy burn", plan, phases, [Check(plan.lead + plan.page, (_page(to),), True)], more)


def _masked_reference(plan: Plan, to: Indicator) -> Scenario:
    """What burns by the oracle is not diluted by what many more requests say by proxy."""
    phases = plan.fault({to.name: plan.heavy})
    many = [phase._replace(bad=plan.healthy, traffic=100.0) for phase in phases]
    more = judged(plan.made, phases, FIRST, reference="oracle")
    series = (*judged(plan.made, many, FIRST), *more, *requests(plan.made, many, FIRST), *_released(plan, to))
    check = Check(plan.lead + plan.page, (_page(to),))
    return Scenario("oracle burns beside much healthy proxy", series, (check,))


def _never_good(plan: Plan, to: Indicator) -> Scenario:
    """A good counter that was never made is no silence."""
    phases = [Phase(plan.page, {**plan.healthy, to.name: 1.0})]
    series = (
        *judged(plan.made, phases, FIRST, never_good=[to.name]),
        *requests(plan.made, phases, FIRST),
        *_released(plan, to, 0),
    )
    return Scenario("no request was ever good", series, (Check(_length(phases), (_page(to),)),))


def _flagged(plan: Plan, to: Indicator) -> Scenario:
    """Flagged requests are bad by their nature."""
    phases = [plan.phase(plan.lead + plan.page)]
    bad = [plan.phase(plan.lead + plan.page, **{to.name: plan.heavy})._replace(traffic=100.0)]
    more = judged(plan.made, bad, FIRST, stratum="flagged")
    return _scenario("flagged requests are bad", plan, phases, [Check(_length(phases), ever=True)], more)


def _few_bad(plan: Plan, to: Indicator) -> Scenario:
    """A few requests, some of them bad by chance: the ratio is high, the bound is not."""
    rates = plan.made.settings.burn_rates
    total = 2 * ceil(min(rate.minimum for rate in rates.page))
    needed = min(rate.factor for rate in rates.page) * to.budget
    bad = max(one for one in range(total) if wilson(one, total, rates.z)[0] < needed)
    burst = Phase(3, {to.name: bad / total}, total / 3)
    quiet = Phase(plan.page, {}, 0.0)
    phases = [quiet, burst, quiet]
    series = (*judged(plan.made, phases, FIRST), *requests(plan.made, phases, FIRST))
    return Scenario("few requests, bad by chance", series, (Check(_length(phases), ever=True),))


def _low_traffic(plan: Plan, to: Indicator) -> Iterator[Scenario]:
    """So few requests that none of a page's windows holds enough of them: all bad, they are worth a ticket."""
    rates = plan.made.settings.burn_rates
    traffic = min(rate.minimum / minutes(rate.short) for rate in rates.page) / 2
    enough = [rate.minimum / traffic for rate in rates.ticket if traffic * minutes(rate.short) > rate.minimum]
    if not enough:  # a policy whose tickets need as much traffic as its pages
        return
    length = ceil(min(enough)) + plan.ticket
    phases = [Phase(length, {**plan.healthy, to.name: 1.0}, traffic)]
    series = (*judged(plan.made, phases, FIRST), *requests(plan.made, phases, FIRST))
    yield Scenario("low traffic, all bad", series, (Check(length, (_ticket(to),), ever=True),))
