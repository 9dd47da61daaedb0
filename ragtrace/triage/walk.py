"""The walk over a segment or a whole service: check stage by stage, stop at the first confirmed break, explain that."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from ragtrace.store import Store
from ragtrace.triage.checks import ENOUGH, Stretch, check, not_checked, recovery, stretch
from ragtrace.triage.evidence import LIMIT, ORDER, OWNERS, Evidence, Judged, Window, load, load_each, tally
from ragtrace.triage.gates import gate_note
from ragtrace.triage.releases import suspected, suspects
from ragtrace.triage.report import Check, Report, Tenants
from ragtrace.triage.segments import broken_by_themselves, by_segment
from ragtrace.triage.telling import telling
from ragtrace.triage.wording import clock, percent, plain, with_reference, written
from ragtrace.types import Reference, Stage, replace

__all__ = ["triage_segment"]

_NAMED: Final = 5
_WAITING: Final = 0.1  # of the requests: fewer without an analysis are the newest ones of any moment


class _Walk(NamedTuple):
    """The walk over the requests with one reference; broken: the stage that is to be explained."""

    evidence: Evidence
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

    reference: judge the requests with this reference only; by default those with the most frequent one, unless only
    others show a break. now: the time of the report, nanoseconds. limit: how many requests are read at most, None for
    all of them.
    """
    walks = [_Walk(each, *_walk(each)) for each in load_each(
        store, service, segment, window, reference=reference, limit=limit
    )]  # fmt: skip
    chosen = max(walks, key=_telling)  # of equals, the first
    evidence, checks, broken = chosen
    others = [each for each in walks if each is not chosen and len(each.evidence.requests) >= ENOUGH]
    beside = (_alone(chosen) if segment is None else "", _beside(chosen, others))
    made = written(time.time_ns() if now is None else now)
    report = Report(
        subject="segment",
        service=service,
        segment=segment,
        made_at=made,
        conclusion=_told(_unbroken(store, checks, evidence), *beside),
        range=evidence.range(),
        checks=checks,
    )
    if broken is None:
        return report
    explained = _explained(store, evidence, report, broken, limit)
    return replace(explained, conclusion=_told(explained.conclusion, *beside))


def _told(conclusion: str, *more: str) -> str:
    """The conclusion and the sentences behind it."""
    added = [each for each in more if each]
    return " ".join([f"{conclusion.removesuffix('.')}.", *added]) if added else conclusion


def _telling(walk: _Walk) -> int:
    """A break goes before a recovery, and that before none."""
    states = {each.state for each in walk.checks}
    return 2 if "broken" in states else 1 if "recovered" in states else 0


def _alone(walk: _Walk) -> str:
    """The segments whose break the others hide; each has a walk of its own."""
    told = broken_by_themselves(walk.evidence, walk.broken)
    if not told:
        return ""
    which = f"Broken before {walk.broken}" if walk.broken else "Broken"
    return f"{which}, by themselves: {told}; walk them with ragtrace triage segment NAME."


def _beside(chosen: _Walk, others: Sequence[_Walk]) -> str:
    """What the requests with other references show, which are judged by themselves."""
    if not others:
        return ""
    told = "; ".join(f"of the {_counted(each)}, {_verdict(each)}" for each in others)
    return f"That is what the {_counted(chosen)} show; {told}."


def _counted(walk: _Walk) -> str:
    return f"{len(walk.evidence.requests):,} requests {with_reference(walk.evidence.reference)}"


def _verdict(walk: _Walk) -> str:
    states = {each.stage: each.state for each in walk.checks}
    if walk.broken:
        return f"{walk.broken} {'is broken' if states[walk.broken] == 'broken' else 'has recovered'}"
    return "no break is confirmed" if {"unclear", "no_data"} & set(states.values()) else "no stage is broken"


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
        tenants=_tenants(store, told, broken),
        telling=telling(store, service, segment, window, stage, reference=evidence.reference, release=release),
    )


def _tenants(store: Store, told: Sequence[Judged], broken: Sequence[Judged]) -> Tenants | None:
    """Whether one customer is hit or all are; None where requests name no tenant."""
    found = {
        request: tenant for request, tenant in store.tenants(each.row.request_id for each in told).items() if tenant
    }
    if not found:
        return None
    hit = {found[each.row.request_id] for each in broken if each.row.request_id in found}
    return Tenants(known=len(set(found.values())), broken=len(hit))


def _conclusion(report: Report, stage: Stage, risen: Stretch | None, release: str | None) -> str:
    where = plain(f"{report.service}, {report.segment or 'all segments'}")
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


def _unbroken(store: Store, checks: Sequence[Check], evidence: Evidence) -> str:
    """What to say where no stage is confirmed to be broken."""
    if not evidence.stored:
        return _nothing(store, evidence)
    if len(evidence.requests) < ENOUGH:
        of = f"{evidence.read} of {evidence.drawn} requests in the time looked at are analyzed"
        if evidence.read < evidence.drawn:
            return f"not enough data: {of}; at least {ENOUGH} are needed (ragtrace analyze)"
        told = f"{len(evidence.requests)} requests {with_reference(evidence.reference)} in the time looked at"
        return f"not enough data: {told}; at least {ENOUGH} are needed: look further back with an earlier --since"
    waiting = evidence.drawn - evidence.read
    if waiting > _WAITING * evidence.drawn:
        told = f"{waiting:,} of {evidence.drawn:,} requests in the time looked at are not analyzed (ragtrace analyze)"
        return f"{_found(checks)}; but {told}"
    return _found(checks)


def _found(checks: Sequence[Check]) -> str:
    states = {each.stage: each.state for each in checks}
    unknown = [stage for stage, state in states.items() if state in ("no_data", "unclear")]
    worse = [stage for stage, state in states.items() if state == "worse"]
    if unknown:
        return f"no break is confirmed, and there is not enough data to tell about {', '.join(unknown)}"
    if worse:
        return f"no stage is broken, but {', '.join(worse)} got worse than before"
    return "no stage is broken: all are within their objectives"


def _nothing(store: Store, evidence: Evidence) -> str:
    """Why there is no request: a slip in the name, flagged ones alone, or none at all."""
    service, segment, window = evidence.service, evidence.segment, evidence.window
    where = f"service {service!r}" + (f", segment {segment!r}" if segment else "")
    told = f"not enough data: no request of the random stratum of {where} is stored in the time looked at"
    known = store.services()
    if service not in known:
        return (
            f"{told}; the store has {', '.join(map(repr, known[:_NAMED])) or 'none'}{' ...' if known[_NAMED:] else ''}"
        )
    if store.find_requests(service=service, segment=segment, since=window.before, until=window.until, limit=1):
        return f"{told}; there are flagged ones, which were kept for their flags and tell no share"
    return told
