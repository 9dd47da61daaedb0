"""The walk over a service, a segment or one request: stage by stage to the first confirmed break, which it explains.

What is in doubt ends no walk: it is said beside, with its stage, owner and release.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from ragtrace.analyze.diagnosis import suspected_rollout
from ragtrace.export.findings import NOT_JUDGED, is_outdated, verdict_words
from ragtrace.formats import (
    clock,
    joined,
    named_services,
    percent,
    plain,
    written_time,
)
from ragtrace.registry.instruments import STAGES
from ragtrace.registry.wording import FIXES, STATES, cause_words, reason_words, release_words
from ragtrace.store import Release, Store
from ragtrace.triage._checks import (
    TITLES,
    DoubtShare,
    Stretch,
    baseline,
    broken_by_themselves,
    by_segment,
    check,
    doubts,
    not_checked,
    recovery,
    rise_text,
    stretch,
)
from ragtrace.triage._evidence import (
    LIMIT,
    ORDER,
    OWNERS,
    Counted,
    JudgedRequest,
    JudgedSample,
    TrafficSample,
    Window,
    budget,
    draw,
    exemplar_requests,
    exemplars_of,
    hardly_judged,
    tally,
)
from ragtrace.triage._releases import (
    gate_note,
    graded_sentences,
    starved_providers,
    starved_sentence,
    suspect_words,
    suspected,
    suspects,
)
from ragtrace.triage._report import (
    CauseCount,
    Check,
    MetricChange,
    PageAnswers,
    Report,
    RequestFacts,
    RequestStage,
    Rise,
    Suspect,
    Tenants,
    Unjudged,
)
from ragtrace.triage._statistics import ENOUGH
from ragtrace.triage.labels import corrected_shares, promise
from ragtrace.triage.rendering import by_gold
from ragtrace.types import Analysis, Reference, RequestRecord, Stage, StageFinding, replace

__all__ = ["page_answers", "triage_request", "triage_segment"]

_WAITING: Final = 0.1  # of the requests: fewer without an analysis are the newest ones of any moment
_HOUR: Final = 3_600_000_000_000
_LONGEST: Final = 14 * 24 * _HOUR  # how far back a release of a request is looked for


class _Walk(NamedTuple):
    """The walk over the requests of one judge, with gold evidence or without. broken: the stage that is explained."""

    evidence: JudgedSample
    doubts: dict[Stage, DoubtShare]
    checks: tuple[Check, ...]
    broken: Stage | None


def triage_segment(
    store: Store,
    service: str,
    segment: str | None,
    window: Window,
    *,
    reference: Reference | None = None,
    now: int | None = None,
    limit: int | None = LIMIT,
) -> Report:
    """Walk the evidence of a segment (None: of the whole service) in the window.

    reference: only the requests with gold evidence (`oracle`), or those without (`proxy`, `none`); by default the more
    frequent ones, unless only the others show a break. now: the time of the report, nanoseconds. limit: how many
    requests are read at most, None for all of them.
    """
    with store.snapshot():
        return _segment_report(store, service, segment, window, reference, now, limit)


def _segment_report(
    store: Store,
    service: str,
    segment: str | None,
    window: Window,
    reference: Reference | None,
    now: int | None,
    limit: int | None,
) -> Report:
    sample = draw(store, service, segment, window, limit)
    walks = [_walk(evidence) for evidence in sample.by_judge(reference)]
    chosen = max(walks, key=_weight)  # of equals, the first
    others = [walk for walk in walks if walk is not chosen and len(walk.evidence.requests) >= ENOUGH]
    judgeable = sample.judgeable(store)
    rises = tuple(_rises(store, chosen))
    starved = starved_providers(store, service, segment, window, [chosen.broken] if chosen.broken else [])
    report = Report(
        subject="segment",
        service=service,
        segment=segment,
        made_at=written_time(time.time_ns() if now is None else now),
        conclusion="",
        range=chosen.evidence.range(),
        judgeable=judgeable,
        checks=chosen.checks,
        rises=rises,
        starved=starved,
        pages=page_answers(store, service),
        calibration=promise(store, service),
        corrected=corrected_shares(store, service, window.until),
    )
    found = _unbroken(store, report, chosen)
    if chosen.broken is not None:
        report = _explained(store, chosen.evidence, report, chosen.broken, limit)
        found = report.conclusion
    said = (
        hardly_judged(judgeable),
        found,
        *graded_sentences(store, chosen.evidence),
        *(_rise_sentence(rise) for rise in rises),
        starved_sentence(starved),
        _alone(chosen) if segment is None else "",
        _beside(chosen, others),
        _left_out(sample),
    )
    return replace(report, conclusion=_sentences(*said))


def _sentences(*said: str) -> str:
    """One behind the other; the first may begin with the name of a service."""
    first, *more = [f"{one.removesuffix('.')}." for one in said if one]
    return " ".join([first, *(f"{one[0].upper()}{one[1:]}" for one in more)])


def page_answers(store: Store, service: str | None = None) -> PageAnswers | None:
    """What on-call said of the pages of a service, or of all; None where it judged none."""
    counts = {"right": 0, "wrong_stage": 0, "false": 0}
    for row in store.count_page_judgments(service):
        if row.severity == "page":
            counts[row.judgment] += row.count
    judged = sum(counts.values())
    return PageAnswers(**counts, precision=counts["right"] / judged) if judged else None


def _weight(walk: _Walk) -> int:
    """A break goes before a recovery, that before a rise of doubt, and that before none."""
    states = {check.state for check in walk.checks}
    return next((3 - place for place, state in enumerate(("broken", "recovered", "doubted")) if state in states), 0)


def _walk(evidence: JudgedSample) -> _Walk:
    checks: list[Check] = []
    found = doubts(evidence)
    broken: Stage | None = None  # what has recovered does not end the walk: something behind it may be broken now
    for stage in ORDER:
        if broken is not None:
            checks.append(not_checked(stage, broken))
        elif evidence.requests and not any(stage in request.row.states for request in evidence.requests):
            checks.append(not_checked(stage, None))
        else:
            checks.append(check(evidence, stage, found[stage].unjudged))
            if checks[-1].state == "broken":
                broken = stage
    recovered = (one.stage for one in checks if one.state == "recovered")
    return _Walk(evidence, found, tuple(checks), broken or next(recovered, None))


def _rises(store: Store, walk: _Walk) -> Iterator[Rise]:
    """The stages that are in doubt or not known in more requests than before.

    That a broken stage is in doubt goes without saying; that less is known because answers decline is the doubt of
    generation.
    """
    for one in walk.checks:
        for unjudged in one.unjudged:
            is_told = (
                one.state in ("broken", "recovered")
                if unjudged.state == "doubted"
                else bool(unjudged.reasons) and unjudged.reasons[0].reason == "refused"
            )
            if unjudged.has_risen and not is_told:
                yield _rise(store, walk, one.stage, unjudged)


def _rise(store: Store, walk: _Walk, stage: Stage, unjudged: Unjudged) -> Rise:
    evidence = walk.evidence
    doubt, what = walk.doubts[stage], cast(Counted, unjudged.state)
    what, risen = (doubt.what, doubt.risen) if what == "doubted" else (what, stretch(evidence, stage, what))
    requests = risen.during if risen else evidence.since(evidence.among(stage, what))
    affected = [request for request in requests if request.shows(stage, what)]
    if unjudged.follows:
        release, note = None, f"it follows from {unjudged.follows}: look there"
    else:
        found = suspects(stage, risen, affected, store.releases(evidence.sample.service), evidence.window)
        release, note = suspected(stage, risen, found)
    return Rise(
        stage=stage,
        owner=OWNERS[stage],
        state=unjudged.state,
        finding=rise_text(unjudged),
        now=unjudged.now,
        before=unjudged.before,
        follows=unjudged.follows,
        unsure=unjudged.unsure,
        reasons=unjudged.reasons,
        onset=risen.onset(stage) if risen else None,
        suspected_release=release,
        release_note=note,
        exemplars=exemplars_of(affected, stage, what, unjudged.reasons),
    )


def _rise_sentence(rise: Rise) -> str:
    if rise.follows:
        change = f"from {percent(rise.before.share)} to {percent(rise.now.share)}"
        return f"that {rise.stage} is in doubt more often, too ({change}), follows from {rise.follows}"
    since = f", since {clock(rise.onset.latest)}" if rise.onset else ""
    cause = f"; suspect {release_words(rise.suspected_release)}" if rise.suspected_release else ""
    unsure = f"; whether it began at {joined(rise.unsure)} is not sure" if rise.unsure else ""
    return f"{rise.stage} ({rise.owner}) is not proven to be broken, but {rise.finding}{since}{cause}{unsure}"


def _alone(walk: _Walk) -> str:
    """The segments whose break the others hide; each has a walk of its own."""
    told = broken_by_themselves(walk.evidence, walk.broken)
    if not told:
        return ""
    which = f"Broken before {walk.broken}" if walk.broken else "Broken"
    return f"{which}, by themselves: {told}; walk them with ragtrace triage segment NAME"


def _beside(chosen: _Walk, others: Sequence[_Walk]) -> str:
    """What other judges, and the requests with gold or those without, show: they are counted by themselves."""
    if not others:
        return ""
    several = len({walk.evidence.judge for walk in (chosen, *others)}) > 1
    told = "; ".join(f"of the {_named(walk, several)}, {_verdict(walk)}" for walk in others)
    return f"That is what the {_named(chosen, several)} show; {told}"


def _named(walk: _Walk, several_judges: bool) -> str:
    judge = f" by judge {walk.evidence.judge}" if several_judges else ""
    return f"{len(walk.evidence.requests):,} requests {by_gold(walk.evidence.has_gold)}{judge}"


def _verdict(walk: _Walk) -> str:
    states = {check.stage: check.state for check in walk.checks}
    if walk.broken:
        return f"{walk.broken} {'is broken' if states[walk.broken] == 'broken' else 'has recovered'}"
    if "doubted" in states.values():
        return f"{joined([stage for stage, state in states.items() if state == 'doubted'])} is in doubt more often"
    return (
        "no break is confirmed" if {"unclear", "unjudged", "no_data"} & set(states.values()) else "no stage is broken"
    )


def _left_out(sample: TrafficSample) -> str:
    """The requests that no rule of today has judged."""
    if not sample.outdated or sample.outdated == len(sample.rows):
        return ""
    return f"{sample.outdated:,} of {len(sample.rows):,} requests are {NOT_JUDGED}, and do not count here"


def _explained(store: Store, evidence: JudgedSample, report: Report, stage: Stage, limit: int | None) -> Report:
    service, segment, window = report.service, report.segment, evidence.window
    risen = stretch(evidence, stage)
    requests = risen.during if risen else evidence.now(stage)
    broken = [request for request in requests if request.is_broken(stage)]
    found = suspects(stage, risen, broken, store.releases(service), window)
    release, note = suspected(stage, risen, found)
    lines, more = by_segment(evidence if segment is None else _of_service(store, evidence, limit), stage)
    return replace(
        report,
        conclusion=_conclusion(report, stage, risen, release),
        stage=stage,
        owner=OWNERS[stage],
        suspected_release=release,
        release_note=note,
        gate_note=gate_note(store, service, release),
        causes=_causes(request.row.cause for request in broken),
        onset=risen.onset(stage) if risen else None,
        suspects=found,
        recovery=recovery(risen, stage),
        segments=lines,
        more_segments=more,
        tenants=_tenants(store, requests, broken),
        exemplars=exemplar_requests(store, service, segment, window, stage, gold=evidence.has_gold, release=release),
    )


def _causes(causes: Iterable[str | None]) -> tuple[CauseCount, ...]:
    """The causes that are known, the most frequent first, with what to do about each."""
    counts = Counter(causes)
    known = ((cause, count) for cause, count in counts.most_common() if cause is not None)
    of = counts.total()
    return tuple(
        CauseCount(cause=cause, words=cause_words(cause), count=count, of=of, fix=FIXES.get(cause, ""))
        for cause, count in known
    )


def _of_service(store: Store, evidence: JudgedSample, limit: int | None) -> JudgedSample:
    """All segments of the service, as the same judge judged them, with gold evidence or without."""
    whole = draw(store, evidence.sample.service, None, evidence.window, limit).by_judge()
    alike = (each for each in whole if (each.has_gold, each.judge) == (evidence.has_gold, evidence.judge))
    return next(alike, evidence)


def _tenants(store: Store, requests: Sequence[JudgedRequest], broken: Sequence[JudgedRequest]) -> Tenants | None:
    """Whether one customer is hit or all are; None where requests name no tenant."""
    names = store.tenants(request.row.request_id for request in requests)
    tenants = {request_id: tenant for request_id, tenant in names.items() if tenant}
    if not tenants:
        return None
    hit = {tenants[request.row.request_id] for request in broken if request.row.request_id in tenants}
    return Tenants(known=len(set(tenants.values())), broken=len(hit))


def _conclusion(report: Report, stage: Stage, risen: Stretch | None, release: str | None) -> str:
    found = tally(risen.during, stage) if risen else next(one.now for one in report.checks if one.stage == stage)
    when = f" since {clock(written_time(risen.latest))}" if risen else ""
    nothing = "no release fits it" if risen else "no release can be named"
    cause = f"suspect {release_words(release)}" if release else nothing
    states = {check.stage: check.state for check in report.checks}
    of = f"{percent(found.share)} of the judged requests{when}"
    if states[stage] == "recovered":
        ended = f" until {clock(written_time(risen.ended_at))}" if risen and risen.ended_at else ""
        was = f"{stage} was the first broken stage, in {of}{ended}"
        return f"{_where(report)}: {was}; {cause}. It has recovered."
    unknown = [each for each in ORDER[: ORDER.index(stage)] if states[each] in ("unclear", "unjudged", "no_data")]
    before = f" Whether {joined(unknown)} broke before is not known." if unknown else ""
    return f"{_where(report)}: {stage} is the first broken stage, in {of}; {cause}.{before}"


def _where(report: Report) -> str:
    return plain(f"{report.service}, {report.segment or 'all segments'}")


def _unbroken(store: Store, report: Report, walk: _Walk) -> str:
    """What to say where no stage is confirmed to be broken."""
    sample, evidence = walk.evidence.sample, walk.evidence
    if not sample.stored:
        return _nothing(store, sample)
    if len(evidence.requests) < ENOUGH:
        return _too_few(evidence, report)
    waiting = sample.drawn - len(sample.rows)
    if waiting > _WAITING * sample.drawn:
        told = f"{waiting:,} of {sample.drawn:,} requests in the time looked at are not analyzed (ragtrace analyze)"
        return f"{_found(walk.checks)}; but {told}"
    return _found(walk.checks)


def _too_few(evidence: JudgedSample, report: Report) -> str:
    sample = evidence.sample
    if len(sample.rows) < min(sample.drawn, ENOUGH):
        of = f"{len(sample.rows)} of {sample.drawn} requests in the time looked at are analyzed"
        return f"not enough data: {of}; at least {ENOUGH} are needed (ragtrace analyze)"
    if sample.outdated >= ENOUGH:
        return f"no stage can be judged: {sample.outdated:,} of {len(sample.rows):,} requests are {NOT_JUDGED}"
    unneeded = report.range.no_retrieval if report.range else 0
    if unneeded == len(sample.rows):
        return f"no stage can be judged: {unneeded:,} of {len(sample.rows):,} requests needed no retrieval"
    told = f"{len(evidence.requests)} requests {by_gold(evidence.has_gold)} in the time looked at"
    told += f" ({unneeded:,} more needed no retrieval)" if unneeded else ""
    return f"not enough data: {told}; at least {ENOUGH} are needed: look further back with an earlier --since"


def _found(checks: Sequence[Check]) -> str:
    states = {check.stage: check.state for check in checks}
    unclear = [stage for stage, state in states.items() if state == "unclear"]
    unjudged = [stage for stage, state in states.items() if state == "unjudged"]
    few = [stage for stage, state in states.items() if state == "no_data"]
    worse = [stage for stage, state in states.items() if state == "worse"]
    told = []
    if unclear or unjudged or few or "doubted" in states.values():
        told.append("no break is confirmed")
        if unclear:
            told.append(f"not enough data to tell about {joined(unclear)}: so few broken requests may be chance")
        if unjudged:
            told.append(f"{joined(unjudged)} can hardly be judged")
        if few:
            told.append(f"too few requests tell of {joined(few)}")
    elif not worse:
        told.append("no stage is broken: all that apply are within their objectives")
    if worse:
        told.append(f"{joined(worse)} got worse than before, within the objective")
    return "; ".join(told)


def _nothing(store: Store, sample: TrafficSample) -> str:
    """Why there is no request: a slip in the name, flagged ones alone, or none at all."""
    service, segment, window = sample.service, sample.segment, sample.window
    where = f"service {service!r}" + (f", segment {segment!r}" if segment else "")
    told = f"not enough data: no request of the random stratum of {where} is stored in the time looked at"
    known = store.services()
    if service not in known:
        return f"{told}; the store has {named_services(known)}"
    if store.find_requests(service=service, segment=segment, since=window.before, until=window.until, limit=1):
        return f"{told}; there are flagged ones, which were kept for their flags and tell no share"
    return told


# one request


def triage_request(store: Store, record: RequestRecord, analysis: Analysis | None, *, now: int | None = None) -> Report:
    """Walk the evidence of one request; its segment within an hour of it, and before, is the comparison.

    analysis: the request's own; None where no worker has been there yet.
    """
    at = time.time_ns() if now is None else now
    report = Report(
        subject="request",
        service=record.service,
        segment=record.segment,
        made_at=written_time(at),
        conclusion=f"request {record.request_id} is not analyzed yet: ragtrace analyze",
    )
    if analysis is None:
        return report
    releases = store.releases(record.service)
    facts = _facts(record, analysis, releases)
    if is_outdated(analysis.diagnosis):
        return replace(report, request=facts, conclusion=f"{verdict_words(analysis.diagnosis)}.")
    sample = draw(store, record.service, record.segment, _around(record, facts, releases, at))
    judged = sample.by_judge(analysis.reference)
    evidence = next((each for each in judged if each.judge == analysis.diagnosis.judge), judged[0])
    report = replace(
        report,
        request=facts,
        conclusion=_of_request(analysis, facts),
        range=evidence.range(),
        checks=_request_checks(evidence, analysis) if facts.stages else (),
        stage=facts.stage,
        owner=facts.owner,
        suspected_release=facts.suspected_release,
        causes=_causes([facts.cause] if facts.stage else ()),
    )
    return report if facts.stage is None else _request_explained(store, report, evidence, facts, facts.stage, releases)


def _facts(record: RequestRecord, analysis: Analysis, releases: list[Release]) -> RequestFacts:
    found = analysis.diagnosis
    stage = next((each for each in STAGES if each.name == found.stage), None)
    release = suspected_rollout(stage, found.cause or "", record.versions, releases) if stage else None
    return RequestFacts(
        request_id=record.request_id,
        segment=record.segment,
        at=written_time(record.started_at),
        asked=plain(record.query.original),
        verdict=found.verdict,
        stage=found.stage,
        owner=found.owner,
        cause=found.cause,
        suspected_release=release,
        evidence=tuple(map(plain, found.evidence)),
        stages=tuple(map(_request_stage, found.stages)),
    )


def _request_stage(finding: StageFinding) -> RequestStage:
    is_judged = finding.state in ("sound", "broken")
    return RequestStage(
        stage=finding.stage,
        state=finding.state,
        reason=finding.reason,
        words="" if is_judged else reason_words(finding.reason, finding.stage),
        evidence=tuple(map(plain, finding.evidence)),
    )


def _of_request(analysis: Analysis, facts: RequestFacts) -> str:
    told = verdict_words(analysis.diagnosis)
    if facts.stage is None:
        return f"{told}."
    cause = f"; cause: {cause_words(facts.cause)}" if facts.cause else ""
    release = facts.suspected_release
    suspect = f"suspect {release_words(release)}" if release else "no release is to suspect"
    return f"{told}{cause}; {suspect}."


def _around(record: RequestRecord, facts: RequestFacts, releases: list[Release], now: int) -> Window:
    """The hours around the request, compared with the day before them, or before the suspected release."""
    since = record.started_at - _HOUR
    until = max(record.started_at + 1, min(now, record.started_at + _HOUR))
    came = [each.at for each in releases if f"{each.component}={each.version}" == facts.suspected_release]
    before = min([since, *came]) - 24 * _HOUR
    return Window(since, until, max(before, record.started_at - _LONGEST))


def _request_checks(evidence: JudgedSample, analysis: Analysis) -> tuple[Check, ...]:
    scores = {score.metric: score.value for score in analysis.scores}
    findings = {finding.stage: finding for finding in analysis.diagnosis.stages}
    broken = analysis.diagnosis.stage
    behind = ORDER[ORDER.index(broken) + 1 :] if broken else ()
    return tuple(
        not_checked(stage, broken)
        if stage in behind
        else _request_check(evidence, findings[stage], scores)
        if stage in findings
        else not_checked(stage, None)
        for stage in ORDER
    )


def _request_check(evidence: JudgedSample, finding: StageFinding, scores: dict[str, float | None]) -> Check:
    stage = finding.stage
    earlier = baseline(evidence, stage, stretch(evidence, stage))
    return Check(
        stage=stage,
        title=TITLES[stage],
        state=finding.state,
        owner=OWNERS[stage],
        budget=budget(stage),
        finding=_request_finding(finding),
        now=tally(evidence.now(stage), stage),
        before=tally(earlier, stage),
        values=tuple(_own_value(value, scores) for value in evidence.values(stage, earlier)),
    )


def _request_finding(finding: StageFinding) -> str:
    """The state with its reason in words, and the evidence that it rests on."""
    is_judged = finding.state in ("sound", "broken")
    why = "" if is_judged else f": {reason_words(finding.reason, finding.stage)}"
    return "; ".join([f"{STATES[finding.state]}{why}", *map(plain, finding.evidence)])


def _own_value(segment: MetricChange, scores: dict[str, float | None]) -> MetricChange:
    """The request's own value beside what the segment had before."""
    value = scores.get(segment.metric)
    return replace(segment, now=value, now_count=int(value is not None))


def _request_explained(
    store: Store, report: Report, evidence: JudgedSample, facts: RequestFacts, stage: Stage, releases: list[Release]
) -> Report:
    risen = stretch(evidence, stage)
    requests: Sequence[JudgedRequest] = risen.during if risen else evidence.now(stage)
    broken = [request for request in requests if request.is_broken(stage)]
    found = suspects(stage, risen, broken, releases, evidence.window)
    return replace(
        report,
        release_note=_release_note(facts.suspected_release, found, risen),
        gate_note=gate_note(store, report.service, facts.suspected_release),
        onset=risen.onset(stage) if risen else None,
        suspects=found,
        exemplars=exemplar_requests(
            store,
            report.service,
            report.segment,
            evidence.window,
            stage,
            gold=evidence.has_gold,
            release=facts.suspected_release,
            without=facts.request_id,
        ),
    )


def _release_note(release: str | None, found: tuple[Suspect, ...], risen: Stretch | None) -> str:
    """Whether the segment's requests bear out the release that the request's versions point at."""
    if release is None:
        return "no component of this stage had another version before, or is new: no rollout explains it"
    suspect = next((each for each in found if each.release == release), None)
    how = ", new to this service" if suspect and suspect.is_new else ""
    came = (
        f"{suspect_words(suspect)} came at {clock(suspect.at)}{how}"
        if suspect
        else f"{release_words(release)} is the newest version of this stage"
    )
    if risen is None or suspect is None:
        return f"{came}; too few requests of the segment broke here to tell whether it began then"
    if suspect.fit == "fits":
        return f"{came}, when this began in the segment; {suspect.votes} of {suspect.of} broken requests point at it"
    began = clock(written_time(risen.latest))
    return f"{came}, but in the segment this began at {began}: the release does not fit, look for another change too"
