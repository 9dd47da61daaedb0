"""The check of one stage: whether it is broken, suspected or sound in a window, and in which segments.

A stage is judged over the requests in which no earlier one is broken or suspected. Broken is counted among the requests
that are judged sound or broken; what is suspected or not known stands beside it, and is compared with what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragtrace.analyze.judgeability import remedy
from ragtrace.registry.wording import STATES
from ragtrace.triage.evidence import ENOUGH, ORDER, OWNERS, Evidence, Judged, budget, reasons_of, tally, weighed
from ragtrace.triage.report import (
    Check,
    CheckState,
    Onset,
    ReasonCount,
    Recovery,
    SegmentLine,
    SegmentState,
    Tally,
    Unjudged,
    UnjudgedState,
)
from ragtrace.triage.statistics import Episode, find_episode, has_risen, share_of
from ragtrace.triage.wording import clock, counted, percent, plain, written
from ragtrace.types import Stage, StageState

__all__ = [
    "TITLES",
    "Stretch",
    "baseline",
    "broken_by_themselves",
    "by_segment",
    "check",
    "not_checked",
    "recovery",
    "rise_text",
    "stretch",
]

TITLES: Final[dict[Stage, str]] = {
    "retrieval": "Do the candidates hold what was asked?",
    "ranking": "Did the evidence reach the prompt?",
    "generation": "Does the prompt support the answer?",
    "citation": "Are the claims cited, by what supports them?",
}
NOT_APPLICABLE: Final = "does not apply: these answers are not judged by citations"
_NOTHING: Final = Tally(count=0, of=0, share=None, low=0.0, high=1.0)
_SEGMENTS: Final = 12
_SURE: Final = 3.0  # standard deviations: of hundreds of stages of segments, chance breaks none
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Stretch:
    """When a stage was in one state more often than around that time: its requests before, during and after."""

    state: StageState
    before: tuple[Judged, ...]
    during: tuple[Judged, ...]
    after: tuple[Judged, ...]
    earliest: int
    latest: int
    ended_at: int | None

    def onset(self, stage: Stage) -> Onset:
        """The beginning, with the shares on both sides."""
        return Onset(
            earliest=written(self.earliest),
            latest=written(self.latest),
            since=_share(self.during, stage, self.state),
            before=_share(self.before, stage, self.state),
        )


def stretch(evidence: Evidence, stage: Stage, state: StageState = "broken") -> Stretch | None:
    """The stretch that reaches into the window; None where the share did not change, or changed back before.

    state: broken, of the requests that are judged; suspected or not known, of all that reach the stage.
    """
    requests = evidence.at(stage) if state == "broken" else evidence.in_scope(stage)
    episode = find_episode(
        [request.states[stage] == state for request in requests], [request.weight for request in requests]
    )
    if episode is None or requests[episode.end - 1].row.started_at < evidence.window.since:
        return None
    return _stretch(requests, episode, evidence.window.before, state)


def _stretch(requests: Sequence[Judged], episode: Episode, beginning: int, state: StageState) -> Stretch:
    return Stretch(
        state=state,
        before=tuple(requests[: episode.start]),
        during=tuple(requests[episode.start : episode.end]),
        after=tuple(requests[episode.end :]),
        earliest=requests[episode.earliest - 1].row.started_at if episode.earliest else beginning,
        latest=requests[episode.latest].row.started_at,
        ended_at=requests[episode.end].row.started_at if episode.end < len(requests) else None,
    )


def _share(requests: Sequence[Judged], stage: Stage, state: StageState) -> Tally:
    return share_of(weighed(requests, lambda request: request.states[stage] == state))


def baseline(evidence: Evidence, stage: Stage, risen: Stretch | None) -> Sequence[Judged]:
    """What the window is compared with: the requests before the break where its beginning is seen, else the time before
    the window."""
    return risen.before if risen and risen.before else evidence.before(stage)


def check(evidence: Evidence, stage: Stage) -> Check:
    """Judge one stage in the window.

    Broken: the lower bound of the broken share is above the budget, in the window or in the stretch of it in which the
    share rose; or the share is above the budget and clearly above what it was before. Recovered: broken, until the
    share fell again for certain. Suspected: none of these, and suspected in clearly more requests than before.
    """
    allowed, risen = budget(stage), stretch(evidence, stage)
    earlier = baseline(evidence, stage, risen)
    now, before = tally(evidence.now(stage), stage), tally(earlier, stage)
    during = tally(risen.during, stage) if risen else None
    state = _state(now, before, during, allowed)
    over = recovery(risen, stage) if state == "broken" else None
    if over and over.state == "recovered":
        state = "recovered"
    unjudged = (_unjudged(evidence, stage, "suspected"), _unjudged(evidence, stage, "not_known"))
    finding = over.finding if over and state == "recovered" else _finding(state, now, before, allowed, risen, during)
    reaching = len(evidence.since(evidence.in_scope(stage)))
    if state == "no_data" and reaching >= ENOUGH:
        state, finding = "unjudged", _hardly(now, reaching, unjudged, stage)
    if unjudged[0].has_risen and state not in ("broken", "recovered"):
        state, finding = "suspected", f"no break is proven, but more is suspected than before; {finding}"
    return Check(
        stage=stage,
        title=TITLES[stage],
        state=state,
        owner=OWNERS[stage],
        budget=allowed,
        finding=finding,
        now=now,
        before=before,
        unjudged=tuple(each for each in unjudged if each.now.count or each.before.count),
        values=tuple(each for each in evidence.values(stage, earlier) if each.now_count or each.before_count),
    )


def _unjudged(evidence: Evidence, stage: Stage, state: UnjudgedState) -> Unjudged:
    """The share of the suspected or of the not known, since it rose where that is seen, and before."""
    requests, risen = evidence.in_scope(stage), stretch(evidence, stage, state)
    now, before = evidence.since(requests), evidence.until(requests)
    if risen and risen.before and len(risen.after) < ENOUGH:  # it goes on, as far as anybody knows
        now, before = [*risen.during, *risen.after], list(risen.before)

    def is_so(request: Judged) -> bool:
        return request.states[stage] == state

    now_weighed, before_weighed = weighed(now, is_so), weighed(before, is_so)
    return Unjudged(
        state=state,
        now=share_of(now_weighed),
        before=share_of(before_weighed),
        has_risen=has_risen(now_weighed, before_weighed),
        reasons=_risen_reasons(now, before, stage, state),
    )


def _risen_reasons(
    now: Sequence[Judged], before: Sequence[Judged], stage: Stage, state: UnjudgedState
) -> tuple[ReasonCount, ...]:
    """The most frequent reasons, those first that grew most: a usual one explains no rise."""
    usual = Counter(each.row.reasons.get(stage) or "undecided" for each in before if each.states[stage] == state)
    found = reasons_of((each.row for each in now), stage, state)
    scale = len(now) / len(before) if before else 0.0
    return tuple(sorted(found, key=lambda each: usual[each.reason] * scale - each.count))


def rise_text(unjudged: Unjudged) -> str:
    """`suspected: rises from 6 % to 21 %: words that do not match the question`."""
    why = f": {unjudged.reasons[0].words}" if unjudged.reasons else ""
    change = f"rises from {percent(unjudged.before.share)} to {percent(unjudged.now.share)}"
    return f"{STATES[unjudged.state]}: {change}{why}"


def _hardly(now: Tally, reaching: int, unjudged: Sequence[Unjudged], stage: Stage) -> str:
    """In how few of the requests that reach it a stage is judged, and what would help."""
    told = f"judged in {now.of:,} of the {reaching:,} requests that reach it, {ENOUGH} are needed"
    most = max(unjudged, key=lambda each: each.now.count)
    helpful = remedy(stage, most.reasons[0].reason) if most.reasons else None
    return f"{told}; to judge more: {helpful}" if helpful else told


def recovery(risen: Stretch | None, stage: Stage) -> Recovery:
    """Recovered: the share fell again, the requests since then are within the budget, and they are clearly better than
    those of the break."""
    if risen is None or risen.ended_at is None:
        return Recovery(state="not_recovered", finding="not recovered yet: nothing shows that the share fell again")
    during, after = tally(risen.during, stage), tally(risen.after, stage)
    since, allowed = written(risen.ended_at), budget(stage)
    told = f"since {clock(since)} {counted(after)}, the objective allows {percent(allowed)}"
    told += f"; during the break {counted(during)}"
    if after.of >= ENOUGH and after.low > allowed:
        return Recovery(state="not_recovered", finding=f"better, but still broken: {told}", since=since, after=after)
    if after.of < ENOUGH or after.share is None or after.share > allowed or after.high >= during.low:
        return Recovery(state="unclear", finding=f"not enough data to tell: {told}", since=since, after=after)
    return Recovery(state="recovered", finding=f"back within the objective: {told}", since=since, after=after)


def not_checked(stage: Stage, broken: Stage | None) -> Check:
    """A stage behind the first broken one; None: one that does not apply."""
    return Check(
        stage=stage,
        title=TITLES[stage],
        state="not_checked",
        owner=OWNERS[stage],
        budget=budget(stage),
        finding=f"not checked, since {broken} is broken before it" if broken else NOT_APPLICABLE,
        now=_NOTHING,
        before=_NOTHING,
    )


def _state(now: Tally, before: Tally, during: Tally | None, allowed: float) -> CheckState:
    if now.of < ENOUGH or now.share is None:
        return "no_data"
    if now.low > allowed or (during and during.of >= ENOUGH and during.low > allowed):
        return "broken"
    worse = before.of >= ENOUGH and now.low > before.high
    if now.share > allowed:
        return "broken" if worse else "unclear"
    return "worse" if worse else "good"


def _finding(
    state: CheckState, now: Tally, before: Tally, allowed: float, risen: Stretch | None, during: Tally | None
) -> str:
    told = f"{counted(now)}, the objective allows {percent(allowed)}"
    if state == "no_data":
        return f"not enough data: {now.of} requests reach this stage and are judged, {ENOUGH} are needed"
    if state == "unclear":
        return f"not enough data to tell: {told}, but so few requests may be chance (at least {percent(now.low)})"
    if state == "worse":
        return f"worse than before, but within the objective: {told}; before {counted(before)}"
    if state == "good":
        return f"within the objective: {told}"
    if risen and during and now.low <= allowed:
        return (
            f"broken since {clock(written(risen.latest))}: {counted(during)}, the objective allows {percent(allowed)}"
        )
    compared = f"; before {counted(before)}" if before.of else "; there is nothing before to compare with"
    return f"{told}, surely at least {percent(now.low)}{compared}"


# segment by segment


def by_segment(evidence: Evidence, stage: Stage) -> tuple[tuple[SegmentLine, ...], int]:
    """The segments with most broken requests in the window, and how many others there are."""
    judged = evidence.at(stage)
    broken = Counter(request.row.segment for request in evidence.now(stage) if request.is_broken(stage))
    segments = sorted({request.row.segment for request in judged}, key=lambda name: (-broken[name], name))
    over = recovery(stretch(evidence, stage), stage).state == "recovered"
    lines = tuple(_line(evidence.of_segment(name), name, stage, over=over) for name in segments[:_SEGMENTS])
    return lines, max(0, len(segments) - _SEGMENTS)


def _line(evidence: Evidence, segment: str, stage: Stage, *, over: bool) -> SegmentLine:
    risen = stretch(evidence, stage)
    now, before = tally(evidence.now(stage), stage), tally(baseline(evidence, stage, risen), stage)
    state, since = _segment_state(risen, stage, now, over=over)
    return SegmentLine(segment=segment, state=state, now=now, before=before, recovered_since=since)


def _segment_state(risen: Stretch | None, stage: Stage, now: Tally, *, over: bool) -> tuple[SegmentState, str | None]:
    """over: whether all segments together have recovered. A few good requests at the end of one segment say nothing by
    themselves."""
    allowed = budget(stage)
    if now.of < ENOUGH:
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
    names = sorted({request.row.segment for request in evidence.requests})
    parts = ((name, evidence.of_segment(name)) for name in names)
    found = [(name, stage, part) for name, part in parts if (stage := _first_broken(part, stages))]
    told = [f"{plain(name)} at {stage}, {counted(tally(part.now(stage), stage))}" for name, stage, part in found]
    more = f", and {len(told) - _NAMED} more" if told[_NAMED:] else ""
    return "; ".join(told[:_NAMED]) + more


def _first_broken(evidence: Evidence, stages: Sequence[Stage]) -> Stage | None:
    for stage in stages:
        now = evidence.now(stage)
        if len(now) >= ENOUGH and tally(now, stage, _SURE).low > budget(stage):
            return stage if check(evidence, stage).state == "broken" else None
    return None
