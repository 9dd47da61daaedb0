"""The walk over one request: its own values, each beside its objective and what its segment had before."""

from __future__ import annotations

import time
from typing import Final

from ragtrace.analyze.diagnosis import Health, judge, stage_health, suspected_rollout
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from ragtrace.store import Release, Store
from ragtrace.triage.checks import TITLES, Stretch, baseline, not_checked, stretch
from ragtrace.triage.evidence import ORDER, OWNERS, SHOWN, Evidence, Judged, Window, budget, load, tally
from ragtrace.triage.gates import gate_note
from ragtrace.triage.releases import suspects
from ragtrace.triage.report import Check, CheckState, Report, RequestFacts, Suspect, Value
from ragtrace.triage.telling import telling
from ragtrace.triage.wording import clock, plain, written
from ragtrace.types import Analysis, RequestRecord, Stage, replace

__all__ = ["triage_request"]

_HOUR: Final = 3_600_000_000_000
_LONGEST: Final = 14 * 24 * _HOUR  # how far back a release is looked for
_STATES: Final[dict[Health, CheckState]] = {"good": "good", "bad": "broken", "unknown": "no_data"}


def triage_request(store: Store, record: RequestRecord, analysis: Analysis | None, *, now: int | None = None) -> Report:
    """Walk the evidence of one request; its segment within an hour of it, and before, is the comparison.

    analysis: the request's own; None where no worker has been there yet.
    """
    at = time.time_ns() if now is None else now
    report = Report(
        subject="request",
        service=record.service,
        segment=record.segment,
        made_at=written(at),
        conclusion=f"request {record.request_id} is not analyzed yet: ragtrace analyze",
    )
    if analysis is None:
        return report
    releases = store.releases(record.service)
    facts = _facts(record, analysis, releases)
    evidence = load(store, record.service, record.segment, _window(record, facts, releases, at),
                    reference=analysis.reference)  # fmt: skip
    report = replace(
        report,
        request=facts,
        range=evidence.range(),
        checks=_checks(evidence, analysis, facts.stage, cites=record.cites),
        stage=facts.stage,
        owner=facts.owner,
        suspected_release=facts.suspected_release,
        conclusion=_conclusion(facts),
    )
    return report if facts.stage is None else _explained(store, report, evidence, facts, facts.stage, releases)


def _facts(record: RequestRecord, analysis: Analysis, releases: list[Release]) -> RequestFacts:
    found = analysis.diagnosis
    stage = next((each for each in STAGES if each.name == found.stage), None)
    release = suspected_rollout(stage, found.cause or "", record.versions, releases) if stage else None
    return RequestFacts(
        request_id=record.request_id,
        segment=record.segment,
        at=written(record.started_at),
        asked=plain(record.query.original),
        verdict=found.verdict,
        stage=found.stage,
        owner=found.owner,
        cause=found.cause,
        suspected_release=release,
        evidence=tuple(map(plain, found.evidence)),
        missing=found.missing,
    )


def _window(record: RequestRecord, facts: RequestFacts, releases: list[Release], now: int) -> Window:
    """The hours around the request, compared with the day before them, or before the suspected release."""
    since = record.started_at - _HOUR
    until = max(record.started_at + 1, min(now, record.started_at + _HOUR))
    came = [each.at for each in releases if f"{each.component}={each.version}" == facts.suspected_release]
    before = min([since, *came]) - 24 * _HOUR
    return Window(since, until, max(before, record.started_at - _LONGEST))


def _checks(evidence: Evidence, analysis: Analysis, broken: Stage | None, *, cites: bool) -> tuple[Check, ...]:
    scores = {score.metric: score.value for score in analysis.scores}
    health = stage_health(scores, analysis.reference)
    behind = ORDER[ORDER.index(broken) + 1 :] if broken else ()
    return tuple(
        not_checked(stage, broken)
        if stage in behind
        else not_checked(stage, None)
        if stage == "citation" and not cites
        else _check(evidence, stage, scores, health[stage])
        for stage in ORDER
    )


def _check(evidence: Evidence, stage: Stage, scores: dict[str, float | None], health: Health) -> Check:
    earlier = baseline(evidence, stage, stretch(evidence, stage))
    values = tuple(_value(each, scores) for each in evidence.values(stage, earlier))
    missed = [each for each in SHOWN[stage] if judge(scores, each) == "bad"]
    undefined = [each for each in SHOWN[stage] if INSTRUMENTS[each].objective and scores.get(each) is None]
    return Check(
        stage=stage,
        title=TITLES[stage],
        state=_STATES[health],
        owner=OWNERS[stage],
        budget=budget(stage),
        finding={
            "good": "meets its objectives",
            "bad": f"misses the objective of {_names(missed)}",
            "unknown": f"cannot be told: {_names(undefined)} undefined",
        }[health],
        now=tally(evidence.now(stage), stage),
        before=tally(earlier, stage),
        values=values,
    )


def _value(segment: Value, scores: dict[str, float | None]) -> Value:
    """The request's own value beside what the segment had before."""
    value = scores.get(segment.metric)
    return replace(segment, now=value, now_count=int(value is not None))


def _names(metrics: list[str]) -> str:
    return ", ".join(metric.replace("_", " ") for metric in metrics)


def _conclusion(facts: RequestFacts) -> str:
    if facts.stage is None:
        if facts.verdict == "healthy":
            return "no stage of this request is broken"
        why = facts.evidence[0] if facts.evidence else f"{_names(list(facts.missing))} undefined"
        return f"no stage can be named: {why}"
    suspect = f"suspect {facts.suspected_release}" if facts.suspected_release else "no release is to suspect"
    return (
        f"{facts.stage} is the first broken stage of this request ({(facts.cause or '').replace('_', ' ')}); {suspect}."
    )


def _explained(
    store: Store, report: Report, evidence: Evidence, facts: RequestFacts, stage: Stage, releases: list[Release]
) -> Report:
    risen = stretch(evidence, stage)
    told: list[Judged] | tuple[Judged, ...] = risen.during if risen else evidence.now(stage)
    found = suspects(stage, risen, [each for each in told if each.bad[stage]], releases, evidence.window)
    return replace(
        report,
        release_note=_note(facts.suspected_release, found, risen),
        gate_note=gate_note(store, report.service, facts.suspected_release),
        onset=risen.onset(stage) if risen else None,
        suspects=found,
        telling=telling(
            store,
            report.service,
            report.segment,
            evidence.window,
            stage,
            reference=evidence.reference,
            release=facts.suspected_release,
            without=facts.request_id,
        ),
    )


def _note(release: str | None, found: tuple[Suspect, ...], risen: Stretch | None) -> str:
    """Whether the segment's requests bear out the release that the request's versions point at."""
    if release is None:
        return "no component of this stage had another version before: no rollout explains it"
    suspect = next((each for each in found if each.release == release), None)
    came = f"{release} came at {clock(suspect.at)}" if suspect else f"{release} is the newest version of this stage"
    if risen is None or suspect is None:
        return f"{came}; too few requests of the segment broke here to tell whether it began then"
    if suspect.fit == "fits":
        return f"{came}, when this began in the segment; {suspect.votes} of {suspect.of} broken requests point at it"
    began = clock(written(risen.latest))
    return f"{came}, but in the segment this began at {began}: the release does not fit, look for another change too"
