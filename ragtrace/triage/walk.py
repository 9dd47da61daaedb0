"""The walk over a segment or a whole service: check stage by stage, stop at the first confirmed break, explain that."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ragtrace.store import Store
from ragtrace.triage.checks import ENOUGH, Stretch, check, not_checked, recovery, stretch
from ragtrace.triage.evidence import LIMIT, ORDER, OWNERS, Evidence, Window, load, tally
from ragtrace.triage.gates import gate_note
from ragtrace.triage.releases import suspected, suspects
from ragtrace.triage.report import Check, Report
from ragtrace.triage.segments import by_segment
from ragtrace.triage.telling import telling
from ragtrace.triage.wording import clock, percent, written
from ragtrace.types import Reference, Stage, replace

__all__ = ["triage_segment"]


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

    reference: judge the requests with this reference only; the most frequent one by default. now: the time of the
    report, nanoseconds. limit: how many requests are read at most, None for all of them.
    """
    evidence = load(store, service, segment, window, reference=reference, limit=limit)
    checks, broken = _walk(evidence)
    made = written(time.time_ns() if now is None else now)
    report = Report(
        subject="segment",
        service=service,
        segment=segment,
        made_at=made,
        conclusion=_unbroken(checks, evidence),
        range=evidence.range(),
        checks=checks,
    )
    return report if broken is None else _explained(store, evidence, report, broken, limit)


def _walk(evidence: Evidence) -> tuple[tuple[Check, ...], Stage | None]:
    checks: list[Check] = []
    broken: Stage | None = None  # what has recovered does not end the walk: something behind it may be broken now
    for stage in ORDER:
        if broken is not None:
            checks.append(not_checked(stage, broken))
            continue
        checks.append(check(evidence, stage))
        if checks[-1].state == "broken":
            broken = stage
    recovered = (each.stage for each in checks if each.state == "recovered")
    return tuple(checks), broken or next(recovered, None)


def _explained(store: Store, evidence: Evidence, report: Report, stage: Stage, limit: int | None) -> Report:
    service, segment, window = report.service, report.segment, evidence.window
    risen = stretch(evidence, stage)
    told = risen.during if risen else evidence.now(stage)
    broken = [each for each in told if each.bad[stage]]
    found = suspects(stage, risen, broken, store.releases(service), window)
    release, note = suspected(stage, risen, found)
    whole = (
        evidence if segment is None else load(store, service, None, window, reference=evidence.reference, limit=limit)
    )
    lines, more = by_segment(whole, stage)
    return replace(
        report,
        conclusion=_conclusion(report, stage, risen, release),
        stage=stage,
        owner=OWNERS[stage],
        suspected_release=release,
        release_note=note,
        gate_note=gate_note(store, service, release),
        onset=risen.onset(stage) if risen else None,
        suspects=found,
        recovery=recovery(risen, stage),
        segments=lines,
        more_segments=more,
        telling=telling(store, service, segment, window, stage, reference=evidence.reference, release=release),
    )


def _conclusion(report: Report, stage: Stage, risen: Stretch | None, release: str | None) -> str:
    where = f"{report.service}, {report.segment or 'all segments'}"
    found = tally(risen.during, stage) if risen else next(each.now for each in report.checks if each.stage == stage)
    when = f" since {clock(written(risen.latest))}" if risen else ""
    cause = f"suspect {release}" if release else "no release fits it" if risen else "no release can be named"
    states = {each.stage: each.state for each in report.checks}
    if states[stage] == "recovered":
        ended = f" until {clock(written(risen.ended_at))}" if risen and risen.ended_at else ""
        was = f"{stage} was the first broken stage, {percent(found.share)} bad{when}{ended}"
        return f"{where}: {was}; {cause}. It has recovered."
    unclear = [each for each in ORDER[: ORDER.index(stage)] if states[each] in ("unclear", "no_data")]
    before = f" There is not enough data to tell about what comes before it: {', '.join(unclear)}." if unclear else ""
    return f"{where}: {stage} is the first broken stage, {percent(found.share)} bad{when}; {cause}.{before}"


def _unbroken(checks: Sequence[Check], evidence: Evidence) -> str:
    """What to say where no stage is confirmed to be broken."""
    if not evidence.stored:
        where = f"service {evidence.service!r}" + (f", segment {evidence.segment!r}" if evidence.segment else "")
        return f"not enough data: no request of the random stratum of {where} is stored in the time looked at"
    if len(evidence.requests) < ENOUGH:
        return (
            f"not enough data: {len(evidence.requests)} of {evidence.stored} requests in the time looked at are "
            f"analyzed; at least {ENOUGH} are needed (ragtrace analyze)"
        )
    states = {each.stage: each.state for each in checks}
    unknown = [stage for stage, state in states.items() if state in ("no_data", "unclear")]
    worse = [stage for stage, state in states.items() if state == "worse"]
    if unknown:
        return f"no break is confirmed, and there is not enough data to tell about {', '.join(unknown)}"
    if worse:
        return f"no stage is broken, but {', '.join(worse)} got worse than before"
    return "no stage is broken: all are within their objectives"
