"""A broken stage, segment by segment: where it is broken, and where it is back within its objective."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from ragtrace.triage.checks import ENOUGH, Stretch, baseline, check, recovery, stretch
from ragtrace.triage.evidence import ORDER, Evidence, budget, tally
from ragtrace.triage.report import SegmentLine, SegmentState, Tally
from ragtrace.triage.wording import counted, plain
from ragtrace.types import Stage

__all__ = ["broken_by_themselves", "by_segment"]

_SEGMENTS: Final = 12
_SURE: Final = 3.0  # standard deviations: of hundreds of stages of segments, chance breaks none
_NAMED: Final = 3


def by_segment(evidence: Evidence, stage: Stage) -> tuple[tuple[SegmentLine, ...], int]:
    """The segments with most bad requests in the window, and how many others there are."""
    told = evidence.at(stage)
    since = evidence.window.since
    bad = Counter(each.row.segment for each in told if each.bad[stage] and each.row.started_at >= since)
    segments = sorted({each.row.segment for each in told}, key=lambda name: (-bad[name], name))
    over = recovery(stretch(evidence, stage), stage).state == "recovered"
    lines = tuple(_line(evidence.of_segment(name), name, stage, over=over) for name in segments[:_SEGMENTS])
    return lines, max(0, len(segments) - _SEGMENTS)


def _line(evidence: Evidence, segment: str, stage: Stage, *, over: bool) -> SegmentLine:
    risen = stretch(evidence, stage)
    now, before = tally(evidence.now(stage), stage), tally(baseline(evidence, stage, risen), stage)
    state, since = _state(risen, stage, now, over=over)
    return SegmentLine(segment=segment, state=state, now=now, before=before, recovered_since=since)


def _state(risen: Stretch | None, stage: Stage, now: Tally, *, over: bool) -> tuple[SegmentState, str | None]:
    """over: whether all segments together have recovered. A few good requests at the end of one segment say nothing by
    themselves."""
    allowed = budget(stage)
    if now.known < ENOUGH:
        return "no_data", None
    if now.low <= allowed and (risen is None or tally(risen.during, stage).low <= allowed):
        return ("unclear" if now.share is not None and now.share > allowed else "good"), None
    found = recovery(risen, stage)
    if found.state == "recovered":
        return "recovered", found.since
    return ("better" if over and found.state == "unclear" else "broken"), None


def broken_by_themselves(evidence: Evidence, before: Stage | None) -> str:
    """The segments that are broken though all together are not, in words: a rare one moves no share of the traffic.
    before: the stage that is broken over all; only what breaks earlier is told then."""
    stages = ORDER[: ORDER.index(before)] if before else ORDER
    names = sorted({each.row.segment for each in evidence.requests})
    parts = ((name, evidence.of_segment(name)) for name in names)
    found = [(name, stage, part) for name, part in parts if (stage := _broken(part, stages))]
    told = [f"{plain(name)} at {stage}, {counted(tally(part.now(stage), stage))}" for name, stage, part in found]
    more = f", and {len(told) - _NAMED} more" if told[_NAMED:] else ""
    return "; ".join(told[:_NAMED]) + more


def _broken(evidence: Evidence, stages: Sequence[Stage]) -> Stage | None:
    for stage in stages:
        now = evidence.now(stage)
        if len(now) >= ENOUGH and tally(now, stage, _SURE).low > budget(stage):
            return stage if check(evidence, stage).state == "broken" else None
    return None
