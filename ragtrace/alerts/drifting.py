"""Tickets for what drifts away from its own past: contradictions, rank shift, age of candidates, health of sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ragtrace.alerts.annotations import explained, labeled_owner
from ragtrace.alerts.burning import upstream_pages
from ragtrace.alerts.durations import Duration
from ragtrace.alerts.policy import Policy
from ragtrace.alerts.promql import bad_ratio, either, increase, requests, selector, wilson
from ragtrace.alerts.recording import Rule, silences
from ragtrace.alerts.settings import Drift, Growth

__all__ = ["drift_alerts"]

_BY_SOURCE: Final = "service, source"


def drift_alerts(made: Policy) -> Iterator[Rule]:
    """The tickets of growth and of sources."""
    yield _contradictions(made)
    yield _rank_shift(made)
    yield _candidate_age(made)
    yield _delay(made)
    yield _freshness(made)
    yield _reports(made)
    yield _volume(made)


def _contradictions(made: Policy) -> Rule:
    """The indicator's bound against its own past; where the indicator or an earlier one pages, that speaks."""
    growth = made.settings.growth.contradiction_rate
    indicator = next(one for one in made.indicators if one.instrument.id == "contradiction_rate")
    bound, past, now, before = (
        selector(name, metric=indicator.name)
        for name in (
            wilson(growth.window),
            bad_ratio(growth.baseline),
            requests(growth.window),
            requests(growth.baseline),
        )
    )
    expr = "\n".join(
        [
            "max by (service, segment, metric) (",
            f"  ({bound} > {growth.factor:g} * {past} offset {growth.window})",
            f"  and {bound} > {growth.floor:g}",
            f"  and {now} >= {growth.minimum:g}",
            f"  and {before} offset {growth.window} >= {growth.minimum:g}",
            ")",
            upstream_pages((*indicator.upstream, indicator.name), growth.window),
            *silences(made, lambda labels: selector(requests(growth.window), labels)),
        ]
    )
    return _ticket(
        made,
        "ContradictionGrowth",
        "contradiction_rate",
        expr=expr,
        summary="generation: contradictions have grown in {{ $labels.segment }} of {{ $labels.service }}",
        description="At least {{ $value | humanizePercentage }} of the answers are contradicted by their evidence "
        f"in the last {growth.window.name}: more than {growth.factor:g} times the share of the "
        f"{growth.baseline.name} before.",
        labels=("service", "segment"),
    )


def _rank_shift(made: Policy) -> Rule:
    growth = made.settings.growth.rank_shift
    shift = made.instrument("rank_shift")
    means = _grown(shift.name, growth, "service, segment, reference", {"stratum": "random"})
    ranking = next(stage for stage in made.registry.stages if stage.name == shift.stage)
    earlier = tuple(one.name for one in made.indicators if one.stage.order < ranking.order)

    def known(labels: dict[str, str]) -> str:
        return increase(f"{shift.name}_count", growth.window, by="service, segment", labels=labels)

    expr = [f"max by (service, segment) (\n{means}\n)", upstream_pages(earlier, growth.window)]
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


def _candidate_age(made: Policy) -> Rule:
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


def _delay(made: Policy) -> Rule:
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


def _freshness(made: Policy) -> Rule:
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


def _reports(made: Policy) -> Rule:
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


def _stopped(name: str, drift: Drift, history: Duration) -> str:
    """A time that moves no more: its age exceeds so many of the usual steps.

    The usual step is that of the history before the last one, or a long stop would become usual. What did not move
    then is not expected to move.
    """
    age = f"(time() - max by ({_BY_SOURCE}) ({name}))"
    steps = f"max by ({_BY_SOURCE}) (changes({name}[{history}] offset {history}))"
    return f"{age}\n> {drift.factor * history.seconds:g} / ({steps} > 0)\n> {drift.floor.seconds:g}"


def _volume(made: Policy) -> Rule:
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
    made: Policy,
    name: str,
    watched: str,
    *,
    expr: str,
    summary: str,
    description: str,
    labels: tuple[str, ...] = ("service", "source"),
) -> Rule:
    instrument = made.instrument(watched)
    told = {"severity": "ticket", "stage": instrument.stage or ""}
    alert = f"Ragtrace{name}Ticket"
    return {
        "alert": alert,
        "expr": expr,
        "for": str(made.settings.sources.hold),
        "labels": {**told, "owner": labeled_owner(made, told["stage"])},
        "annotations": explained(made, instrument, {"alertname": alert, **told}, summary, description, labels),
    }
