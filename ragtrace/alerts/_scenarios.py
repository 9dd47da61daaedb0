"""The scenarios that the stages' alerts must pass, with numbers that follow from the policy.

Faults by stage and what may be mistaken for one, suspicion, judges that change, low traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from ragtrace.alerts._policy import AlertPolicy, Indicator
from ragtrace.alerts._recording_rules import selector
from ragtrace.alerts._traffic import (
    SERVICE,
    STEP,
    AlertScenario,
    Expectation,
    ExpectedAlert,
    Phase,
    Plan,
    Series,
    gauge,
    judged,
    minutes,
    raised,
    requests,
)
from ragtrace.sample_statistics import wilson

__all__ = ["FIRST", "indicator_scenarios", "low_traffic_scenarios", "rarely_asked", "silent", "suspicion_scenarios"]

FIRST: Final = "first"
SECOND: Final = "second"

_DAY: Final = 24 * 60
_OTHER_JUDGE: Final = "5eed0002"
_DECLINES: Final = {"generation": "refused"}  # why nothing is known of a stage in the scenarios of suspicion
_HOUR: Final = 60


def indicator_scenarios(made: AlertPolicy) -> Iterator[AlertScenario]:
    """Every scenario of the indicators: faults by stage, what may be mistaken for one, low traffic."""
    plan = Plan(made)
    retrieval, ranking, generation, citation = made.indicators
    leak = {one.name: plan.beside(retrieval, one) for one in (retrieval, ranking, generation)}
    yield _healthy(plan)
    yield _paged("recall failure", plan, retrieval, {retrieval.name: plan.heavy})
    yield _paged("recall failure that leaks downstream", plan, retrieval, leak)
    yield _paged("selection failure", plan, ranking, {ranking.name: plan.heavy})
    yield _paged("grounding failure", plan, generation, {generation.name: plan.heavy})
    yield _paged("citation failure", plan, citation, {citation.name: plan.heavy})
    yield _downstream_first(plan, retrieval, ranking)
    yield from _slow(plan, retrieval)
    yield from _long(plan, retrieval)
    for indicator in made.indicators:
        if indicator.name in made.settings.releases.required:
            yield from _after_release(plan, indicator)
    yield _two_segments(plan, retrieval, generation)
    yield _two_faults(plan, retrieval, generation)
    yield _two_references(plan, retrieval)
    yield _masked(plan, retrieval, "oracle burns beside much healthy proxy", reference="oracle")
    yield _masked(plan, retrieval, "one judge burns beside another that sees much", judge=_OTHER_JUDGE)
    yield _judge_changes(plan, retrieval)
    yield _never_good(plan, retrieval)
    yield _flagged(plan, retrieval)
    yield _few_bad(plan, retrieval)
    yield _handful(plan, retrieval)


def _alert(indicator: Indicator, kind: str, segment: str = FIRST) -> ExpectedAlert:
    return ExpectedAlert(
        f"Ragtrace{indicator.name.title()}{kind}", indicator.name, {"service": SERVICE, "segment": segment}
    )


def _page(indicator: Indicator, segment: str = FIRST) -> ExpectedAlert:
    return _alert(indicator, "Page", segment)


def _ticket(indicator: Indicator, segment: str = FIRST) -> ExpectedAlert:
    return _alert(indicator, "Ticket", segment)


def _scenario(
    name: str, plan: Plan, phases: Sequence[Phase], checks: Iterable[Expectation], more: Iterable[Series] = ()
) -> AlertScenario:
    """A scenario of one segment, beside a second one that is healthy."""
    series = [
        *judged(plan.made, phases, FIRST),
        *judged(plan.made, [plan.phase(_length(phases))], SECOND),
        *requests(plan.made, phases, FIRST),
        *more,
    ]
    return AlertScenario(name, tuple(series), tuple(checks))


def _length(phases: Sequence[Phase]) -> int:
    return sum(phase.minutes for phase in phases)


def _healthy(plan: Plan) -> AlertScenario:
    phases = [plan.phase(plan.lead + plan.ticket)]
    return _scenario("healthy", plan, phases, [Expectation(_length(phases), ever=True)])


def _paged(name: str, plan: Plan, to: Indicator, bad: Mapping[str, float]) -> AlertScenario:
    """The fault pages one owner while it lasts, and nobody before, after, or beside."""
    phases = plan.fault(bad)
    end = plan.lead + plan.page
    late = _length(phases)
    once = (_page(to),)
    checks = [Expectation(plan.lead), Expectation(end, once), Expectation(late), Expectation(late, once, ever=True)]
    return _scenario(name, plan, phases, checks, _released(plan, to))


def _downstream_first(plan: Plan, upstream: Indicator, downstream: Indicator) -> AlertScenario:
    """The later stage burns a little before the earlier one, within the time by which it waits longer."""
    hold = plan.made.settings.hold.page
    ahead = (minutes(hold[upstream.name]) + minutes(hold[downstream.name])) // 2
    beside = {downstream.name: plan.beside(upstream, downstream)}
    steady = {downstream.name: 10.0}
    phases = [
        plan.phase(plan.lead)._replace(counted=steady),
        plan.phase(ahead, **beside)._replace(counted=steady),
        plan.phase(plan.page, **beside, **{upstream.name: plan.heavy})._replace(counted=steady),
    ]
    check = Expectation(_length(phases), (_page(upstream),), ever=True)
    return _scenario("later stage burns first", plan, phases, [check], _released(plan, upstream))


def _slow(plan: Plan, to: Indicator) -> Iterator[AlertScenario]:
    """Too little for a page; in the scope `all` the later stages are as bad."""
    slow = plan.slow(to)
    if slow is not None:
        bad, length = slow
        phases = [plan.phase(plan.lead), plan.phase(length, **{to.name: bad})]
        yield _scenario("slow recall failure", plan, phases, [Expectation(_length(phases), (_ticket(to),), ever=True)])


def _long(plan: Plan, to: Indicator) -> Iterator[AlertScenario]:
    """A page that nobody answers is no ticket as well, neither while it lasts nor after it."""
    within = plan.made.settings.releases.required.get(to.name)
    after = min(minutes(rate.short) for rate in plan.made.settings.burn_rates.ticket)
    phases = [plan.phase(plan.lead), plan.phase(plan.ticket, **{to.name: plan.heavy}), plan.phase(after)]
    if within is None or minutes(within) > _length(phases):  # a release is forgotten before the page's time is over
        check = Expectation(_length(phases), (_page(to),), ever=True)
        yield _scenario("long recall failure", plan, phases, [check], _released(plan, to, plan.lead))


def _after_release(plan: Plan, to: Indicator) -> Iterator[AlertScenario]:
    """The stage pages after a release of one of its components; without one there is a ticket."""
    what = to.name
    drop = {to.name: plan.heavy}
    yield _paged(f"{what} drop after a release", plan, to, drop)
    length = plan.until_ticket(to, plan.heavy)
    if length is None:
        return
    phases = [plan.phase(plan.lead), plan.phase(length, **drop)]
    ticket = Expectation(_length(phases), (_ticket(to),), ever=True)
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
    within = plan.made.settings.releases.required.get(to.name)
    if within is None:
        return []
    latest = plan.lead + plan.page - minutes(within) // 2
    at = max(plan.lead, latest) if minute is None else minute
    named = {"service": SERVICE, "component": to.stage.components[0], "version": "v2"} | labels
    series = selector(plan.made.series("release_timestamp"), named)
    return [{"series": series, "values": gauge([(_DAY, at * 60.0)])}]


def _two_segments(plan: Plan, one: Indicator, other: Indicator) -> AlertScenario:
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
    checks = (Expectation(plan.lead + plan.page, expected), Expectation(end), Expectation(end, expected, ever=True))
    return AlertScenario("two faults in two segments", tuple(series), checks)


def _two_faults(plan: Plan, one: Indicator, other: Indicator) -> AlertScenario:
    """Two faults in one segment: the later stage speaks when the earlier one is mended."""
    longest = max(minutes(rate.short) for rate in plan.made.settings.burn_rates.page)
    phases = [
        plan.phase(plan.lead),
        plan.phase(plan.page, **{one.name: plan.heavy, other.name: plan.beside(one, other)}),
        plan.phase(longest + plan.page, **{other.name: plan.heavy}),
    ]
    checks = [Expectation(plan.lead + plan.page, (_page(one),)), Expectation(_length(phases), (_page(other),))]
    releases = [*_released(plan, one), *_released(plan, other, plan.lead + plan.page)]
    return _scenario("two faults in one segment", plan, phases, checks, releases)


def _two_references(plan: Plan, to: Indicator) -> AlertScenario:
    """Oracle and proxy both burn, and page once."""
    phases = plan.fault({to.name: plan.heavy})
    more = [*judged(plan.made, phases, FIRST, reference="oracle"), *_released(plan, to)]
    return _scenario(
        "oracle and proxy burn", plan, phases, [Expectation(plan.lead + plan.page, (_page(to),), True)], more
    )


def _masked(plan: Plan, to: Indicator, name: str, **apart: str) -> AlertScenario:
    """What burns by the oracle, or by one judge, is not diluted by what many more requests say by another."""
    phases = plan.fault({to.name: plan.heavy})
    many = [phase._replace(bad=plan.healthy, traffic=100.0) for phase in phases]
    more = judged(plan.made, phases, FIRST, **apart)  # type: ignore[arg-type]  # a reference or a judge
    series = (*judged(plan.made, many, FIRST), *more, *requests(plan.made, many, FIRST), *_released(plan, to))
    return AlertScenario(name, series, (Expectation(plan.lead + plan.page, (_page(to),)),))


def _judge_changes(plan: Plan, to: Indicator) -> AlertScenario:
    """While a page burns another judge takes over: the page neither ends nor comes twice."""
    before = [plan.phase(plan.lead), plan.phase(plan.page, **{to.name: plan.heavy})]
    after = [plan.phase(plan.page, **{to.name: plan.heavy})]
    changed, end = _length(before), _length([*before, *after])
    series = (
        *judged(plan.made, [*before, silent(_length(after))], FIRST),
        *judged(plan.made, [silent(changed), *after], FIRST, judge=_OTHER_JUDGE),
        *requests(plan.made, [*before, *after], FIRST),
        *_released(plan, to),
    )
    once = (_page(to),)
    checks = [Expectation(minute, once) for minute in range(changed, end, 2)]
    return AlertScenario("the judge changes while a page burns", series, (*checks, Expectation(end, once, ever=True)))


def silent(length: int) -> Phase:
    """No requests."""
    return Phase(length, traffic=0.0)


def _never_good(plan: Plan, to: Indicator) -> AlertScenario:
    """A good counter that was never made is no silence."""
    phases = [Phase(plan.page, {**plan.healthy, to.name: 1.0})]
    series = (
        *judged(plan.made, phases, FIRST, never_good=[to.name]),
        *requests(plan.made, phases, FIRST),
        *_released(plan, to, 0),
    )
    return AlertScenario("no request was ever good", series, (Expectation(_length(phases), (_page(to),)),))


def _flagged(plan: Plan, to: Indicator) -> AlertScenario:
    """Flagged requests are bad by their nature."""
    phases = [plan.phase(plan.lead + plan.page)]
    bad = [plan.phase(plan.lead + plan.page, **{to.name: plan.heavy})._replace(traffic=100.0)]
    more = judged(plan.made, bad, FIRST, stratum="flagged")
    return _scenario("flagged requests are bad", plan, phases, [Expectation(_length(phases), ever=True)], more)


def _few_bad(plan: Plan, to: Indicator) -> AlertScenario:
    """A few requests, some of them bad by chance: the ratio is high, the bound is not."""
    rates = plan.made.settings.burn_rates
    total = ceil(max(rate.least_long for rate in rates.page))
    needed = min(rate.factor for rate in rates.page) * to.budget
    bad = max(one for one in range(total) if wilson(one, total, rates.z)[0] < needed)
    return _burst("few requests, bad by chance", plan, to, total, bad)


def _handful(plan: Plan, to: Indicator) -> AlertScenario:
    """Somebody asks what nobody can answer, again and again."""
    total = ceil(min(rate.least_long for rate in plan.made.settings.burn_rates.page)) - 1
    return _burst("a handful of requests, all bad", plan, to, total, total)


def _burst(name: str, plan: Plan, to: Indicator, total: int, bad: int) -> AlertScenario:
    """So many requests within three minutes, and no others; nothing fires."""
    quiet = Phase(plan.page, {}, 0.0)
    phases = [quiet, Phase(3, {to.name: bad / total}, total / 3), quiet]
    series = (*judged(plan.made, phases, FIRST), *requests(plan.made, phases, FIRST))
    return AlertScenario(name, series, (Expectation(_length(phases), ever=True),))


def low_traffic_scenarios(made: AlertPolicy) -> Iterator[AlertScenario]:
    """So few requests that none of a page's windows holds enough of them: all bad, they are worth a ticket."""
    plan, retrieval, rates = Plan(made), made.indicators[0], made.settings.burn_rates
    traffic = min(rate.minimum / minutes(rate.short) for rate in rates.page) / 2
    enough = [rate.least_long / traffic for rate in rates.ticket if traffic * minutes(rate.short) >= rate.minimum]
    if not enough:  # a policy whose tickets need as much traffic as its pages
        return
    length = STEP * ceil((min(enough) + plan.ticket) / STEP)
    phases = [Phase(length, {**plan.healthy, retrieval.name: 1.0}, traffic)]
    check = Expectation(length, (_ticket(retrieval),), ever=True)
    yield _over_hours("low traffic, all bad", plan, phases, [check])


def suspicion_scenarios(made: AlertPolicy) -> Iterator[AlertScenario]:
    """What single requests cannot prove: shares that have risen, and what may be mistaken for a rise."""
    plan = Plan(made)
    retrieval, ranking, generation, _ = made.indicators
    yield _suspected("more requests are suspected", plan, [retrieval], _alert(retrieval, "SuspectedTicket"))
    both = [retrieval, ranking, generation]
    yield _suspected("several stages are suspected more", plan, both, _alert(retrieval, "SuspectedTicket"))
    yield _suspected("a later stage is suspected more", plan, [generation], _alert(generation, "SuspectedTicket"))
    yield _suspected("more answers are far from their questions", plan, [], _alert(generation, "SuspectedTicket"),
                     distant=[generation.name])  # fmt: skip
    yield _suspected("more answers are far from their questions where retrieval is suspected", plan, [retrieval],
                     _alert(retrieval, "SuspectedTicket"), distant=[generation.name])  # fmt: skip
    yield _suspected("more answers decline", plan, [], _alert(generation, "SuspectedTicket"), declines=True)
    yield _suspected_with_an_earlier_stage(plan, retrieval, generation)
    yield _suspected_and_unsure_where(plan, retrieval, generation, 0.9)
    yield _suspected_and_unsure_where(plan, retrieval, generation, 1.1)
    yield _suspected(
        "more answers decline where retrieval is suspected",
        plan,
        [retrieval],
        _alert(retrieval, "SuspectedTicket"),
        declines=True,
    )
    yield _suspected_beside_page(plan, retrieval, ranking)
    yield _always_suspected(plan, retrieval)
    yield _suspected_by_chance(plan, retrieval)
    yield _suspected_little_more(plan, retrieval)
    yield _suspected_from_the_first(plan, retrieval)
    yield _another_judge_suspects(plan, retrieval)


def _rise(plan: Plan) -> tuple[int, int, float]:
    """Minutes of a baseline for the shortest window, minutes until a rise is a ticket, and a share that has risen."""
    window = minutes(plan.shortest.window)
    before, after = 4 * window, window + minutes(plan.made.settings.hold.ticket) + 3 * STEP
    share = (1 + plan.least_risen(plan.shortest, before - window, plan.traffic)) / 2
    return STEP * ceil(before / STEP), STEP * ceil(after / STEP), share


def _over_hours(
    name: str, plan: Plan, phases: Sequence[Phase], checks: Iterable[Expectation] = (), more: Iterable[Series] = ()
) -> AlertScenario:
    """One segment over hours; without checks nothing fires. Answers of which nothing is known decline."""
    series = (
        *judged(plan.made, phases, FIRST, reasons=_DECLINES, interval=STEP),
        *requests(plan.made, phases, FIRST, interval=STEP),
        *more,
    )
    return AlertScenario(name, series, tuple(checks) or (Expectation(_length(phases), ever=True),), interval=STEP)


def _suspected(
    name: str,
    plan: Plan,
    stages: Sequence[Indicator],
    expected: ExpectedAlert,
    *,
    declines: bool = False,
    distant: Sequence[str] = (),
) -> AlertScenario:
    """The share rises, and its ticket comes once, for one owner. distant: the stages whose answers are far from their
    questions as often as what rises, and before as often as what is usual."""
    before, after, share = _rise(plan)
    risen = plan.usual | {stage.name: share for stage in stages}
    declining = dict.fromkeys(_DECLINES, share / 2) if declines else {}
    phases = [
        plan.phase(before)._replace(suspected=plan.usual, distant={one: plan.usual[one] for one in distant}),
        plan.phase(after)._replace(suspected=risen, not_known=declining, distant=dict.fromkeys(distant, share)),
    ]
    healthy = plan.phase(before + after)._replace(suspected=plan.usual)
    checks = [
        Expectation(before),
        Expectation(before + after, (expected,)),
        Expectation(before + after, (expected,), ever=True),
    ]
    return _over_hours(name, plan, phases, checks, judged(plan.made, [healthy], SECOND, interval=STEP))


def _suspected_with_an_earlier_stage(plan: Plan, upstream: Indicator, downstream: Indicator) -> AlertScenario:
    """A later stage rises clearly, an earlier one by too little to be clear, and by enough to be the cause."""
    before, after, _ = _rise(plan)
    least, usual = plan.shortest.effect, plan.usual[upstream.name]
    more = {upstream.name: raised(usual, 0.9 * least), downstream.name: min(0.9, 3 * (raised(usual, least) - usual))}
    calm = plan.phase(before)._replace(suspected=plan.usual, traffic=400.0)
    phases = [calm, calm._replace(minutes=after, suspected=plan.usual | more)]
    check = Expectation(before + after, (_alert(upstream, "SuspectedTicket"),), ever=True)
    return _over_hours("a later stage rises with an earlier one", plan, phases, [check])


def _suspected_and_unsure_where(plan: Plan, upstream: Indicator, downstream: Indicator, times: float) -> AlertScenario:
    """Nobody is told while it is not sure whose it is. times: how the earlier stage's rise compares with the least that
    makes it the cause; by itself it is no clear one."""
    before, after, share = _rise(plan)
    clear = plan.least_risen(plan.shortest, before - minutes(plan.shortest.window), plan.traffic)
    part = times * plan.made.settings.growth.suspected.part
    unclear = 0.8 * (clear - plan.usual[upstream.name])
    rise = min(share - plan.usual[downstream.name], unclear / part)
    more = {upstream.name: plan.usual[upstream.name] + part * rise, downstream.name: plan.usual[downstream.name] + rise}
    usual = plan.phase(before)._replace(suspected=plan.usual)
    phases = [usual, usual._replace(minutes=after, suspected=plan.usual | more)]
    return _over_hours(f"a rise that began at {upstream.name} or not: {times:g} of the least", plan, phases)


def _suspected_beside_page(plan: Plan, upstream: Indicator, downstream: Indicator) -> AlertScenario:
    """An earlier stage pages while a later one, and it as well, are suspected more: the page says it."""
    before, after, share = _rise(plan)
    suspected = {upstream.name: (1 - plan.heavy) / 2, downstream.name: share}
    phases = [
        plan.phase(before)._replace(suspected=plan.usual),
        plan.phase(after, **{upstream.name: plan.heavy})._replace(suspected=plan.usual | suspected, traffic=20.0),
    ]
    check = Expectation(before + after, (_page(upstream),), ever=True)
    released = _released(plan, upstream, before)
    return _over_hours("suspicion beside an earlier stage's page", plan, phases, [check], released)


def _always_suspected(plan: Plan, to: Indicator) -> AlertScenario:
    before, after, share = _rise(plan)
    phases = [plan.phase(before + after)._replace(suspected={to.name: share})]
    return _over_hours("suspicion that was always large", plan, phases)


def _suspected_by_chance(plan: Plan, to: Indicator) -> AlertScenario:
    """Few requests: their share is far above the usual one, and that is no proof of a rise."""
    before, after, _ = _rise(plan)
    window, suspicion = minutes(plan.shortest.window), plan.made.settings.growth.suspected
    traffic = 1.2 * suspicion.minimum / window
    usual = Phase(before, plan.healthy, traffic, suspected={to.name: 0.2})
    chance = usual._replace(minutes=after, suspected={to.name: raised(0.2, 1.3 * plan.shortest.effect)})
    return _over_hours("few requests, suspected by chance", plan, [usual, chance])


def _suspected_little_more(plan: Plan, to: Indicator) -> AlertScenario:
    """Many requests: a small rise is certain, and no matter."""
    before, after, _ = _rise(plan)
    usual = plan.phase(before)._replace(traffic=1000.0, suspected=plan.usual)
    least = min(one.effect for one in plan.made.settings.growth.suspected.windows)
    risen = raised(plan.usual[to.name], 0.6 * least)
    more = usual._replace(minutes=after, suspected=plan.usual | {to.name: risen})
    return _over_hours("a small rise in many requests", plan, [usual, more])


def _suspected_from_the_first(plan: Plan, to: Indicator) -> AlertScenario:
    """What is usual cannot be known from a handful of requests."""
    before, after, share = _rise(plan)
    handful = plan.made.settings.growth.suspected.minimum / (2 * before)
    phases = [
        plan.phase(before)._replace(traffic=handful),
        plan.phase(after)._replace(suspected={to.name: share}),
    ]
    return _over_hours("suspicion before anything is usual", plan, phases)


def _another_judge_suspects(plan: Plan, to: Indicator) -> AlertScenario:
    """A new judge suspects more of the same requests: that is no change of quality."""
    before, after, share = _rise(plan)
    usual = plan.phase(before)._replace(suspected=plan.usual)
    more = plan.phase(2 * after)._replace(suspected=plan.usual | {to.name: share})
    series = (
        *judged(plan.made, [usual, silent(more.minutes)], FIRST, interval=STEP),
        *judged(plan.made, [silent(before), more], FIRST, judge=_OTHER_JUDGE, interval=STEP),
        *requests(plan.made, [usual, more], FIRST, interval=STEP),
    )
    check = Expectation(before + more.minutes, ever=True)
    return AlertScenario("another judge suspects more", series, (check,), interval=STEP)


def rarely_asked(made: AlertPolicy) -> AlertScenario:
    """A segment of twelve requests an hour: a rise that no short window can prove is a ticket after a day."""
    plan, traffic = Plan(made), 0.2
    window, baseline = minutes(plan.longest.window), minutes(plan.longest.baseline)
    retrieval = made.indicators[0]
    least = plan.least_risen(plan.longest, baseline - window, traffic)
    usual = Phase(window + baseline, plan.healthy, traffic, suspected=plan.usual)
    risen = usual._replace(minutes=window + _HOUR, suspected=plan.usual | {retrieval.name: 1.2 * least})
    phases = [usual, risen]
    checks = [
        Expectation(usual.minutes + 4 * _HOUR, ever=True),
        Expectation(_length(phases), (_alert(retrieval, "SuspectedTicket"),), ever=True),
    ]
    return _over_hours("few requests a day, more of them suspected", plan, phases, checks)
