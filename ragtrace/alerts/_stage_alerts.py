"""The alerts of the stages' owners: what burns its budget, what is suspected more than usual, and what drifts.

Of the stages of a segment the earliest broken one speaks, and it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from ragtrace.alerts._annotations import ALL_SEGMENTS, labeled_owner, of_burn, of_instrument, of_suspicion
from ragtrace.alerts._policy import AlertPolicy, Indicator
from ragtrace.alerts._recording_rules import (
    PAGE_BURNING,
    TICKET_BURNING,
    Pattern,
    Rule,
    burning,
    either,
    increase,
    provider,
    risen,
    selector,
    silences,
    states,
)
from ragtrace.alerts.settings import BurnRate, Duration, Growth, ShareGap, SourceLateness

__all__ = ["drift_alerts", "indicator_alerts", "suspicion_alerts"]

_BY_SOURCE: Final = "service, source"
_BY_PROVIDER: Final = "service, provider"
_OTHERS: Final = "other"  # the providers past a service's places, in one series


def indicator_alerts(made: AlertPolicy) -> Iterator[Rule]:
    """The page and the ticket of each stage, in the order in which a break is looked for."""
    for indicator in made.indicators:
        yield _page(made, indicator)
        yield _burn_ticket(made, indicator)


def _page(made: AlertPolicy, indicator: Indicator) -> Rule:
    pairs = made.settings.burn_rates.page
    expr = either(*(_gated(indicator, pair) for pair in pairs))
    released = _released(made, indicator)
    return {
        "alert": f"Ragtrace{indicator.name.title()}Page",
        "expr": f"(\n{expr}\n)\n{released}" if released else expr,
        "for": str(made.settings.hold.page[indicator.name]),
        "keep_firing_for": str(made.settings.hold.keep_firing),
        "labels": _labels(made, indicator.name, "page"),
        "annotations": of_burn(made, indicator, "page", pairs),
    }


def _burn_ticket(made: AlertPolicy, indicator: Indicator) -> Rule:
    """A ticket is not for what its own page tells."""
    pairs = made.settings.burn_rates.ticket
    released = _released(made, indicator)
    parts = []
    for pair in pairs:
        own = _burned(PAGE_BURNING, (indicator.name,), pair.short)
        own = f"({own} {released})" if released else own
        parts.append(f"({_gated(indicator, pair)}\nunless on (service, segment) {own})")
    return {
        "alert": f"Ragtrace{indicator.name.title()}Ticket",
        "expr": either(*parts),
        "for": str(made.settings.hold.ticket),
        "labels": _labels(made, indicator.name, "ticket"),
        "annotations": of_burn(made, indicator, "ticket", pairs),
    }


def _labels(made: AlertPolicy, stage: str, severity: str) -> dict[str, str]:
    return {"severity": severity, "stage": stage, "owner": labeled_owner(made, stage)}


def _gated(indicator: Indicator, pair: BurnRate) -> str:
    burns = selector(burning(pair), stage=indicator.name)
    if not indicator.upstream:
        return burns
    return f"{burns}\nunless on (service, segment) {selector(PAGE_BURNING, stage=_any(indicator.upstream))}"


def _any(stages: tuple[str, ...]) -> str:
    return stages[0] if len(stages) == 1 else Pattern("|".join(stages))


def _burned(series: str, stages: tuple[str, ...], over: Duration) -> str:
    """What burned at some time of a window that still holds its requests."""
    return f"max_over_time({selector(series, stage=_any(stages))}[{over}])"


def _released(made: AlertPolicy, indicator: Indicator) -> str:
    """The condition of a stage that pages only after a release: one of its components, not long ago."""
    within = made.settings.releases.required.get(indicator.name)
    if within is None:
        return ""
    components = Pattern("|".join(indicator.stage.components))
    released = selector(made.series("release_timestamp"), component=components)
    return f"and on (service) (max by (service) ({released} <= time()) > time() - {within.seconds:g})"


def suspicion_alerts(made: AlertPolicy) -> Iterator[Rule]:
    """The ticket of each stage for a rise of doubt that began there.

    A stage keeps still while it burns or an earlier one does, and while a rise that began at an earlier one lasts.
    """
    for indicator in made.indicators:
        parts = []
        for comparison in made.settings.growth.suspected.windows:
            window = comparison.window
            burned = (*indicator.upstream, indicator.name)
            lines = [selector(risen(window), stage=indicator.name)]
            lines += [
                f"unless on (service, segment) {_burned(series, burned, window)}"
                for series in (PAGE_BURNING, TICKET_BURNING)
            ]
            if indicator.upstream:
                lines.append(f"unless on (service, segment) {_burned(risen(), indicator.upstream, window)}")
            lines += silences(made, partial(selector, states(window)))
            parts.append("(" + "\n".join(lines) + ")")
        yield {
            "alert": f"Ragtrace{indicator.name.title()}SuspectedTicket",
            "expr": either(*parts),
            "for": str(made.settings.hold.ticket),
            "labels": _labels(made, indicator.name, "ticket"),
            "annotations": of_suspicion(made, indicator),
        }


def drift_alerts(made: AlertPolicy) -> Iterator[Rule]:
    """The tickets of growth and of sources."""
    yield _incorrect(made)
    yield _confidently_wrong(made)
    yield _correction_disagrees(made)
    yield _rank_shift(made)
    yield _starved(made)
    yield _candidate_age(made)
    yield _delay(made)
    yield _freshness(made)
    yield _reports(made)
    yield _volume(made)


def _incorrect(made: AlertPolicy) -> Rule:
    """The share of requests that are graded INCORRECT has risen; silent while retrieval burns."""
    growth, name = made.settings.growth.graded_incorrect, made.series("retrieval_actions")

    def counts(window: Duration, past: str = "") -> tuple[str, str]:
        every, bad = (
            increase(name, window, past, by="service, segment", labels={"stratum": "random"} | action)
            for action in ({}, {"action": "INCORRECT"})
        )
        return f"({bad} or 0 * {every})", every

    now, before = counts(growth.window), counts(growth.baseline, f" offset {growth.window}")

    def known(labels: dict[str, str]) -> str:
        return increase(name, growth.window, by="service, segment", labels=labels)

    burned = [
        f"unless on (service, segment) {_burned(series, ('retrieval',), growth.window)}"
        for series in (PAGE_BURNING, TICKET_BURNING)
    ]
    return _ticket(
        made,
        "RetrievalIncorrect",
        "retrieval_actions",
        expr="\n".join([_exceeds(now, before, growth), *burned, *silences(made, known)]),
        summary="retrieval: more is graded INCORRECT in {{ $labels.segment }} of {{ $labels.service }}",
        description=f"Over the last {growth.window.name} what was retrieved was graded INCORRECT in "
        "{{ $value | humanizePercentage }} of the requests: clearly more than in the "
        f"{growth.baseline.name} before.",
        labels=("service", "segment"),
    )


def _exceeds(one: tuple[str, str], other: tuple[str, str], apart: ShareGap) -> str:
    """The first share, where it is above the second by the gap and by z standard errors. one, other: of each share its
    count and of how many."""
    (count, every), (others, of) = one, other
    share, usual = f"({count} / {every})", f"({others} / {of})"
    pooled = f"(({count} + {others}) / ({every} + {of}))"
    error = f"sqrt({pooled} * (1 - {pooled}) * (1 / {every} + 1 / {of}))"
    lines = [
        share,
        f"and {share} - {usual} > {apart.gap:g}",
        f"and {share} - {usual} > {apart.z:g} * {error}",
        f"and {every} >= {apart.minimum:g}",
        f"and {of} >= {apart.minimum:g}",
    ]
    return "\n".join(lines)


def _confidently_wrong(made: AlertPolicy) -> Rule:
    """Types of questions whose retrieval is mostly graded CORRECT, and whose answers are then wrong more often than
    those of the other types."""
    limits, name = made.settings.growth.confidently_wrong, made.series("graded_answers")
    trusted = {"action": "CORRECT"}

    def counted(labels: dict[str, str], by: str = "service, question_type") -> str:
        return increase(name, limits.window, by=by, labels=labels)

    own = counted(trusted)
    wrong = f"({counted(trusted | {'result': 'bad'})} or 0 * {own})"
    others, other_wrong = (
        f"(-1 * ({part} - on (service) group_left () {whole}))"
        for part, whole in (
            (own, counted(trusted, "service")),
            (wrong, f"({counted(trusted | {'result': 'bad'}, 'service')} or 0 * {counted(trusted, 'service')})"),
        )
    )
    mostly = f"and {own} > 0.5 * {counted({})}"
    rule = _ticket(
        made,
        "ConfidentlyWrong",
        "graded_answers",
        expr="\n".join([_exceeds((wrong, own), (other_wrong, others), limits), mostly]),
        summary="retrieval: questions of the type {{ $labels.question_type }} of {{ $labels.service }} are confidently "
        "wrong",
        description=f"Over the last {limits.window.name} their retrieval was mostly graded CORRECT, and of these "
        "answers {{ $value | humanizePercentage }} were wrong: clearly more than of the other questions graded so.",
        labels=("service",),
    )
    return {**rule, "labels": {**rule["labels"], "segment": ALL_SEGMENTS}}  # a type of questions is no segment


def _correction_disagrees(made: AlertPolicy) -> Rule:
    """The host's corrective step often takes another action than the grades say: surely in more than `gap`."""
    limits, name = made.settings.growth.correction_disagrees, made.series("host_actions")
    every, bad = (
        increase(name, limits.window, by="service, segment", labels={"stratum": "random"} | result)
        for result in ({}, {"result": "bad"})
    )
    share, error = f"({bad} / {every})", f"sqrt({limits.gap * (1 - limits.gap):g} / {every})"

    def known(labels: dict[str, str]) -> str:
        return increase(name, limits.window, by="service, segment", labels=labels)

    lines = [share, f"and {share} - {limits.gap:g} >= {limits.z:g} * {error}", f"and {every} >= {limits.minimum:g}"]
    return _ticket(
        made,
        "CorrectionDisagrees",
        "host_actions",
        expr="\n".join([*lines, *silences(made, known)]),
        summary="retrieval: the corrective step of {{ $labels.service }} does not do what the grades say in "
        "{{ $labels.segment }}",
        description=f"Over the last {limits.window.name} the application took another action than the grades say in "
        "{{ $value | humanizePercentage }} of the requests in which it says what it did.",
        labels=("service", "segment"),
    )


def _rank_shift(made: AlertPolicy) -> Rule:
    growth = made.settings.growth.rank_shift
    shift = made.instrument("rank_shift")
    means = _grown(shift.name, growth, "service, segment, reference", {"stratum": "random"})
    ranking = next(stage for stage in made.registry.stages if stage.name == shift.stage)
    earlier = tuple(one.name for one in made.indicators if one.stage.order < ranking.order)

    def known(labels: dict[str, str]) -> str:
        return increase(f"{shift.name}_count", growth.window, by="service, segment", labels=labels)

    quiet = f"unless on (service, segment) {_burned(PAGE_BURNING, earlier, growth.window)}"
    expr = [f"max by (service, segment) (\n{means}\n)", quiet]
    return _ticket(
        made,
        "RankShift",
        "rank_shift",
        expr="\n".join([*expr, *silences(made, known)]),
        summary="ranking: reranking moves the evidence further in {{ $labels.segment }} of {{ $labels.service }}",
        description=f"Over the last {growth.window.name} reranking moved the evidence by {{{{ $value | humanize }}}} "
        f"ranks on average: more than {growth.factor:g} times as far as in the {growth.baseline.name} before.",
        labels=("service", "segment"),
    )


def _starved(made: AlertPolicy) -> Rule:
    """A provider that lost places which its documents deserve, and with them its part in answers, after a release.

    That a provider is used less while it keeps its places is not the ranking's doing. While ranking or an earlier stage
    burns, that speaks.
    """
    fall = made.settings.exposure
    used, usual = provider("used", "now"), provider("used", "usual")
    n, usual_n = (f"({provider('requests', when)} >= {fall.minimum:g})" for when in ("now", "usual"))
    deserved = f"{provider('deserved', 'now')} {{}} {1 - fall.slack:g} * {provider('deserved', 'usual')}"
    ranking = next(one for one in made.indicators if one.name == "ranking")
    stages = (*ranking.upstream, ranking.name)
    components = [one for stage in made.indicators if stage.name in stages for one in stage.stage.components]
    released = selector(made.series("release_timestamp"), component=Pattern("|".join(components)))
    lines = [
        f"({used} < {1 - fall.fall:g} * {usual})",
        f"and ({usual} - {used} > {fall.z:g} * sqrt({usual} * (1 - {usual}) * (1 / {n} + 1 / {usual_n})))",
        f"and ({provider('shown', 'now')} < {1 - fall.fall:g} * {provider('shown', 'usual')})",
        f"and on ({_BY_PROVIDER}) ({deserved.format('>=')})",
        f"unless on ({_BY_PROVIDER}) ({deserved.format('<')})",
        f"unless on ({_BY_PROVIDER}) {selector(used, provider=_OTHERS)}",
        f"and on (service) (max by (service) ({released} <= time()) "
        f"> time() - {made.settings.releases.suspected.seconds:g})",
        *(f"unless on (service) {_burned(series, stages, fall.window)}" for series in (PAGE_BURNING, TICKET_BURNING)),
    ]
    return _ticket(
        made,
        "ProviderStarved",
        "provider_attributed_exposure",
        expr="\n".join(lines),
        summary="ranking: documents of {{ $labels.provider }} reach answers of {{ $labels.service }} no more",
        description=f"Over the last {fall.window.name} {{{{ $value | humanizePercentage }}}} of what answers use is "
        f"its, by claims: at least {fall.fall:.0%} less than in the {fall.baseline.name} before, and so is its share "
        "of the places in prompts. What its documents deserve has not fallen.",
        labels=("service", "provider"),
    )


def _candidate_age(made: AlertPolicy) -> Rule:
    growth = made.settings.growth.candidate_age
    return _ticket(
        made,
        "CandidateAge",
        "candidate_age",
        expr=_grown(made.series("candidate_age"), growth, _BY_SOURCE, {}),
        summary="retrieval: what is found in {{ $labels.source }} of {{ $labels.service }} has become older",
        description=f"Over the last {growth.window.name} the best candidate of the source was "
        "{{ $value | humanizeDuration }} old on average: more than "
        f"{growth.factor:g} times as old as in the {growth.baseline.name} before.",
    )


def _grown(name: str, growth: Growth, by: str, labels: dict[str, str]) -> str:
    """The mean of a histogram where it exceeds its floor and its own past."""

    def mean(window: Duration, past: str = "") -> str:
        total, count = (increase(name + part, window, past, by=by, labels=labels) for part in ("_sum", "_count"))
        return f"(\n  {total}\n  / ({count} >= {growth.minimum:g})\n)"

    before = mean(growth.baseline, f" offset {growth.window}")
    return f"{mean(growth.window)}\n> {growth.factor:g} * {before}\n> {growth.floor:g}"


def _delay(made: AlertPolicy) -> Rule:
    """Against the usual of the last history, and of the one before it: a delay that lasts is soon part of the last."""
    sources, name = made.settings.sources, made.series("source_delay")
    drift = sources.delay

    def grown(past: Duration) -> str:
        usual = f"quantile_over_time(0.95, {name}[{sources.history}] offset {past})"
        return (
            f"max by ({_BY_SOURCE}) ({name})\n"
            f"> {drift.factor:g} * max by ({_BY_SOURCE}) ({usual})\n"
            f"> {drift.floor.seconds:g}"
        )

    limits = [
        f"max by ({_BY_SOURCE}) ({selector(name, limit.labels)}) > {limit.delay.seconds:g}"
        for limit in sources.limits
        if limit.delay is not None
    ]
    return _ticket(
        made,
        "SourceDelay",
        "source_delay",
        expr=either(grown(sources.hold), grown(sources.history), *limits),
        summary="retrieval: ingestion of {{ $labels.source }} of {{ $labels.service }} is late",
        description="A change takes {{ $value | humanizeDuration }} to become searchable: more than "
        f"{drift.factor:g} times what was usual in the last {sources.history.name}, or more than its limit.",
    )


def _freshness(made: AlertPolicy) -> Rule:
    sources, name = made.settings.sources, made.series("source_newest_timestamp")
    limits = [
        f"(time() - max by ({_BY_SOURCE}) ({selector(name, limit.labels)})) > {limit.freshness.seconds:g}"
        for limit in sources.limits
        if limit.freshness is not None
    ]
    return _ticket(
        made,
        "SourceFreshness",
        "source_newest_timestamp",
        expr=either(_stopped(name, sources.freshness, sources.history), *limits),
        summary="retrieval: {{ $labels.source }} of {{ $labels.service }} gets no new documents",
        description="Its newest document is {{ $value | humanizeDuration }} old: more than "
        f"{sources.freshness.factor:g} times the usual time between two of them, or more than its limit.",
    )


def _reports(made: AlertPolicy) -> Rule:
    sources = made.settings.sources
    return _ticket(
        made,
        "SourceReport",
        "source_report_timestamp",
        expr=_stopped(made.series("source_report_timestamp"), sources.report, sources.history),
        summary="retrieval: ingestion of {{ $labels.source }} of {{ $labels.service }} reports nothing",
        description="Its last report is {{ $value | humanizeDuration }} old: more than "
        f"{sources.report.factor:g} times the usual time between two of them.",
    )


def _stopped(name: str, drift: SourceLateness, history: Duration) -> str:
    """A time that moves no more: its age exceeds so many of the usual steps.

    The usual step is that of the history before the last one, or a long stop would become usual. What did not move
    then is not expected to move.
    """
    age = f"(time() - max by ({_BY_SOURCE}) ({name}))"
    steps = f"max by ({_BY_SOURCE}) (changes({name}[{history}] offset {history}))"
    return f"{age}\n> {drift.factor * history.seconds:g} / ({steps} > 0)\n> {drift.floor.seconds:g}"


def _volume(made: AlertPolicy) -> Rule:
    volume = made.settings.sources.volume
    documents = f"sum by ({_BY_SOURCE}) ({made.series('source_documents')})"
    most, least = (
        f"{extreme}_over_time({documents}[{volume.window}:{made.settings.sources.hold}])" for extreme in ("max", "min")
    )
    return _ticket(
        made,
        "SourceVolume",
        "source_documents",
        expr=either(f"{documents} < {1 - volume.fall:g} * {most}", f"{documents} > {1 + volume.rise:g} * {least}"),
        summary="retrieval: {{ $labels.source }} of {{ $labels.service }} has another number of documents",
        description=f'It has {{{{ $value | printf "%.0f" }}}} documents: {volume.fall:.0%} fewer or {volume.rise:.0%} '
        f"more than at another time of the last {volume.window.name}.",
    )


def _ticket(
    made: AlertPolicy,
    name: str,
    watched: str,
    *,
    expr: str,
    summary: str,
    description: str,
    labels: tuple[str, ...] = ("service", "source"),
) -> Rule:
    instrument = made.instrument(watched)
    return {
        "alert": f"Ragtrace{name}Ticket",
        "expr": expr,
        "for": str(made.settings.sources.hold),
        "labels": _labels(made, instrument.stage or "", "ticket"),
        "annotations": of_instrument(made, instrument, "ticket", summary, description, labels),
    }
