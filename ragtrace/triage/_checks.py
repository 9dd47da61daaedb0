"""The check of one stage: whether it is broken, in doubt or sound in a window, and in which segments.

A stage is judged over the requests in which no earlier one is broken or suspected. Broken is counted among the requests
that are judged sound or broken; what is not known stands beside it, and so does what is in doubt, among all requests.
Both are compared with what they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace as dataclass_replace
from functools import cache
from typing import Final

from ragtrace.alerts.settings import Suspicion, read_settings
from ragtrace.analyze.services import remedy
from ragtrace.formats import clock, percent, plain, written_time
from ragtrace.triage._evidence import (
    ORDER,
    OWNERS,
    Counted,
    Doubtful,
    JudgedRequest,
    JudgedSample,
    budget,
    newest_of,
    reasons_of,
    tally,
    weighed,
)
from ragtrace.triage._report import (
    Check,
    CheckState,
    Onset,
    Recovery,
    SegmentLine,
    SegmentState,
    Tally,
    Unjudged,
)
from ragtrace.triage._statistics import (
    ENOUGH,
    Episode,
    chance_of_growth,
    find_episode,
    growth,
    has_ended,
    has_risen,
    share_of,
)
from ragtrace.triage.rendering import UNJUDGED, counted, list_command
from ragtrace.types import Stage, replace

__all__ = [
    "TITLES",
    "DoubtShare",
    "Stretch",
    "baseline",
    "broken_by_themselves",
    "by_segment",
    "chance_of_rise",
    "check",
    "doubts",
    "is_surely_over",
    "not_checked",
    "recovery",
    "rise_text",
    "segments_of",
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
_MILLISECOND: Final = 1_000_000  # nanoseconds; a written time has no more digits


@dataclass(frozen=True, slots=True)
class Stretch:
    """When something was so more often than around that time: the requests before, during and after."""

    what: Counted
    before: tuple[JudgedRequest, ...]
    during: tuple[JudgedRequest, ...]
    after: tuple[JudgedRequest, ...]
    earliest: int
    latest: int
    ended_at: int | None

    def onset(self, stage: Stage) -> Onset:
        """The beginning, with the shares on both sides."""
        return Onset(
            earliest=written_time(self.earliest),
            latest=written_time(self.latest),
            since=_share(self.during, stage, self.what),
            before=_share(self.before, stage, self.what),
        )


def stretch(evidence: JudgedSample, stage: Stage, what: Counted = "broken") -> Stretch | None:
    """The stretch that reaches into the window; None where the share did not change, or changed back before."""
    requests = evidence.among(stage, what)
    episode = find_episode(
        [request.shows(stage, what) for request in requests], [request.weight for request in requests]
    )
    if episode is None or requests[episode.end - 1].row.started_at < evidence.window.since:
        return None
    return _stretch(requests, episode, evidence.window.before, what)


def _stretch(requests: Sequence[JudgedRequest], episode: Episode, beginning: int, what: Counted) -> Stretch:
    return Stretch(
        what=what,
        before=tuple(requests[: episode.start]),
        during=tuple(requests[episode.start : episode.end]),
        after=tuple(requests[episode.end :]),
        earliest=requests[episode.earliest - 1].row.started_at if episode.earliest else beginning,
        latest=requests[episode.latest].row.started_at,
        ended_at=requests[episode.end].row.started_at if episode.end < len(requests) else None,
    )


def _share(requests: Sequence[JudgedRequest], stage: Stage, what: Counted) -> Tally:
    return share_of(weighed(requests, lambda request: request.shows(stage, what)))


def baseline(evidence: JudgedSample, stage: Stage, risen: Stretch | None) -> Sequence[JudgedRequest]:
    """What the window is compared with: the requests before the break where its beginning is seen, else the time before
    the window."""
    return risen.before if risen and risen.before else evidence.before(stage)


@dataclass(frozen=True, slots=True)
class DoubtShare:
    """In how many requests a stage is in doubt. risen: the stretch in which they are more: its own, or where its rise
    is too small to be clear by itself, that of the later stage that follows from it. what: which share it is."""

    unjudged: Unjudged
    risen: Stretch | None
    what: Doubtful = "doubted"


def check(evidence: JudgedSample, stage: Stage, doubt: Unjudged) -> Check:
    """Judge one stage in the window.

    Broken: the lower bound of the broken share is above the budget, in the window or in the stretch of it in which the
    share rose; or the share is above the budget and clearly above what it was before. Recovered: broken, until the
    share fell again for certain. Doubted: none of these, and in doubt in more requests than before.

    doubt: the stage's own of `doubts`.
    """
    allowed, risen = budget(stage), stretch(evidence, stage)
    earlier = baseline(evidence, stage, risen)
    now, before = tally(evidence.now(stage), stage), tally(earlier, stage)
    during = tally(risen.during, stage) if risen else None
    state = _state(now, before, during, allowed)
    over = recovery(risen, stage) if state == "broken" else None
    if over and over.state == "recovered":
        state = "recovered"
    unknown = _sides(evidence, stage, "not_known", stretch(evidence, stage, "not_known"))
    unjudged = (doubt, _unjudged(evidence, *unknown, stage, "not_known"))
    finding = over.finding if over and state == "recovered" else _finding(state, now, before, allowed, risen, during)
    reaching = evidence.since(evidence.in_scope(stage))
    if state == "no_data" and len(reaching) >= ENOUGH:
        state, finding = "unjudged", _hardly(now, reaching, stage)
    if doubt.has_risen and state not in ("broken", "recovered"):
        why = f", which follows from {doubt.follows}" if doubt.follows else ""
        state, finding = "doubted", f"no break is proven, but more is in doubt than before{why}; {finding}"
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


def doubts(evidence: JudgedSample) -> dict[Stage, DoubtShare]:
    """In how many requests each stage is in doubt, and where a rise of that began.

    A break of one stage makes later ones doubtful, and leaves earlier ones as they are. So a clear rise follows from
    the first stage that rose by more than a part of it, as it does for the alerts (`growth.suspected`). Where no more
    answers are in doubt and more are far from their questions, that is the rise of generation.
    """
    found: dict[Stage, DoubtShare] = {}
    for place, stage in enumerate(ORDER):
        what: Doubtful = "doubted"
        now, before, risen, own = _doubt(evidence, stage, what)
        if stage == "generation" and not own.has_risen:
            other = _doubt(evidence, stage, "distant")
            if other[-1].has_risen:
                what, (now, before, risen, own) = "distant", other
        if own.has_risen:
            began, unsure = _began(now, before, ORDER[:place], stage, what)
            own = replace(own, follows=began, unsure=unsure)
            if began and not found[began].unjudged.has_risen:
                cause = replace(_unjudged(evidence, now, before, began, "doubted"), has_risen=True, unsure=unsure)
                found[began] = DoubtShare(cause, dataclass_replace(risen, what="doubted") if risen else None)
        found[stage] = DoubtShare(own, risen, what)
    return found


def _doubt(
    evidence: JudgedSample, stage: Stage, what: Doubtful
) -> tuple[Sequence[JudgedRequest], Sequence[JudgedRequest], Stretch | None, Unjudged]:
    """The requests since a share rose, or of the window, those before, the stretch of the rise, and both shares."""
    risen = stretch(evidence, stage, what)
    now, before = _sides(evidence, stage, what, risen)
    return now, before, risen, _unjudged(evidence, now, before, stage, what)


def _began(
    now: Sequence[JudgedRequest],
    before: Sequence[JudgedRequest],
    earlier: Sequence[Stage],
    stage: Stage,
    what: Doubtful,
) -> tuple[Stage | None, tuple[Stage, ...]]:
    """The first earlier stage that surely rose with the stage, if any; and those before it that may have."""
    settings = _suspicion()
    limit = settings.part * _growth(now, before, stage, what)[0]
    unsure: list[Stage] = []
    for one in earlier:
        grown, error = _growth(now, before, one)
        if grown - settings.sure * error > limit:
            return one, tuple(unsure)
        if grown + settings.sure * error > limit:
            unsure.append(one)
    return None, tuple(unsure)


def _growth(
    now: Sequence[JudgedRequest], before: Sequence[JudgedRequest], stage: Stage, what: Doubtful = "doubted"
) -> tuple[float, float]:
    """How much more often than before a stage shows that, and the standard error of that."""
    return growth(*(weighed(requests, lambda each: each.shows(stage, what)) for requests in (now, before)))


@cache
def _suspicion() -> Suspicion:
    return read_settings().growth.suspected


def _sides(
    evidence: JudgedSample, stage: Stage, what: Counted, risen: Stretch | None
) -> tuple[Sequence[JudgedRequest], Sequence[JudgedRequest]]:
    """The requests since a share rose where that is seen, else those of the window; and those before."""
    requests = evidence.among(stage, what)
    if risen and risen.before and len(risen.after) < ENOUGH:  # it goes on, as far as anybody knows
        return (*risen.during, *risen.after), risen.before
    return evidence.since(requests), evidence.until(requests)


def _unjudged(
    evidence: JudgedSample,
    now: Sequence[JudgedRequest],
    before: Sequence[JudgedRequest],
    stage: Stage,
    what: Counted,
) -> Unjudged:
    """The share of the doubted or of the not known, now and before; the reasons that grew most first, since a usual one
    explains no rise. That answers are far from their questions is a doubt of many, and its only reason."""
    now_weighed, before_weighed = (weighed(each, lambda one: one.shows(stage, what)) for each in (now, before))
    now_reasons, usual = (
        Counter(one.reason(stage, what) for one in each if one.shows(stage, what)) for each in (now, before)
    )
    scale = len(now) / len(before) if before else 0.0
    found = reasons_of(now_reasons.elements(), stage)
    reasons = tuple(sorted(found, key=lambda each: usual[each.reason] * scale - each.count))
    sample, window = evidence.sample, evidence.window
    since = written_time(now[0].row.started_at if now else window.since)
    until = written_time(window.until + _MILLISECOND - 1)
    in_doubt = stage if what == "doubted" else what
    shows = what != "not_known" and now_reasons.total() > 0
    return Unjudged(
        state="not_known" if what == "not_known" else "doubted",
        now=share_of(now_weighed),
        before=share_of(before_weighed),
        has_risen=has_risen(now_weighed, before_weighed),
        broken=now_reasons[None],
        reasons=reasons,
        request_ids=tuple(row.request_id for row in newest_of(now, stage, what, reasons)),
        since=since,
        command=list_command(sample.service, sample.segment, in_doubt, since=since, until=until) if shows else "",
    )


def rise_text(unjudged: Unjudged) -> str:
    """`in doubt: rises from 6 % to 21 %: words that do not match the question`."""
    why = f": {unjudged.reasons[0].words}" if unjudged.reasons else ""
    change = f"rises from {percent(unjudged.before.share)} to {percent(unjudged.now.share)}"
    return f"{UNJUDGED[unjudged.state]}: {change}{why}"


def _hardly(now: Tally, reaching: Sequence[JudgedRequest], stage: Stage) -> str:
    """In how few of the requests that reach it a stage is judged, and what would help."""
    told = f"judged in {now.of:,} of the {len(reaching):,} requests that reach it, {ENOUGH} are needed"
    others = (one.row.reasons.get(stage) or "undecided" for one in reaching if not one.is_judged(stage))
    most = reasons_of(others, stage)
    helpful = remedy(stage, most[0].reason) if most else None
    return f"{told}; to judge more: {helpful}" if helpful else told


def recovery(risen: Stretch | None, stage: Stage) -> Recovery:
    """Recovered: the share fell again, the requests since then are within the budget, and they are clearly better than
    those of the break."""
    if risen is None or risen.ended_at is None:
        return Recovery(state="not_recovered", finding="not recovered yet: nothing shows that the share fell again")
    during, after = tally(risen.during, stage), tally(risen.after, stage)
    since, allowed = written_time(risen.ended_at), budget(stage)
    told = f"since {clock(since)} {counted(after)}, the objective allows {percent(allowed)}"
    told += f"; during the break {counted(during)}"
    if after.of >= ENOUGH and after.low > allowed:
        return Recovery(state="not_recovered", finding=f"better, but still broken: {told}", since=since, after=after)
    if not has_ended(during, after, allowed):
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
        since = clock(written_time(risen.latest))
        return f"broken since {since}: {counted(during)}, the objective allows {percent(allowed)}"
    compared = f"; before {counted(before)}" if before.of else "; there is nothing before to compare with"
    return f"{told}, surely at least {percent(now.low)}{compared}"


# segment by segment


def by_segment(evidence: JudgedSample, stage: Stage) -> tuple[tuple[SegmentLine, ...], int]:
    """The segments with most broken requests in the window, and how many others there are."""
    judged = evidence.at(stage)
    broken = Counter(request.row.segment for request in evidence.now(stage) if request.is_broken(stage))
    segments = sorted({request.row.segment for request in judged}, key=lambda name: (-broken[name], name))
    over = recovery(stretch(evidence, stage), stage).state == "recovered"
    lines = tuple(_line(evidence.of_segments(name), name, stage, over=over) for name in segments[:_SEGMENTS])
    return lines, max(0, len(segments) - _SEGMENTS)


def _line(evidence: JudgedSample, segment: str, stage: Stage, *, over: bool) -> SegmentLine:
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


def broken_by_themselves(evidence: JudgedSample, before: Stage | None) -> str:
    """The segments that are broken though all together are not, in words: a rare one moves no share of the traffic.
    before: the stage that is broken over all; only what breaks earlier is told then."""
    stages = ORDER[: ORDER.index(before)] if before else ORDER
    names = sorted({request.row.segment for request in evidence.requests})
    parts = ((name, evidence.of_segments(name)) for name in names)
    found = [(name, stage, part) for name, part in parts if (stage := _first_broken(part, stages))]
    told = [f"{plain(name)} at {stage}, {counted(tally(part.now(stage), stage))}" for name, stage, part in found]
    more = f", and {len(told) - _NAMED} more" if told[_NAMED:] else ""
    return "; ".join(told[:_NAMED]) + more


def segments_of(evidence: JudgedSample) -> Iterator[tuple[str, JudgedSample]]:
    """Each segment with its requests; those of segments that are too small to tell anything are one, `*other*`."""
    counts = Counter(request.row.segment for request in evidence.requests)
    for name in sorted(name for name, count in counts.items() if count >= ENOUGH):
        yield name, evidence.of_segments(name)
    small = [name for name, count in counts.items() if count < ENOUGH]
    if small:
        yield "*other*", evidence.of_segments(*small)


def is_surely_over(evidence: JudgedSample, stage: Stage) -> bool:
    """Whether a stage is over its objective in the window, so clearly that chance does it in none of hundreds."""
    now = evidence.now(stage)
    return len(now) >= ENOUGH and tally(now, stage, _SURE).low > budget(stage)


def chance_of_rise(doubt: Unjudged) -> float:
    """The chance that a share rises so much where nothing changed; 1 for one that did not clearly rise."""
    if not doubt.has_risen:
        return 1.0
    now, before = ([(at < one.count, 1.0) for at in range(one.of)] for one in (doubt.now, doubt.before))
    return chance_of_growth(now, before)


def _first_broken(evidence: JudgedSample, stages: Sequence[Stage]) -> Stage | None:
    for stage in stages:
        if is_surely_over(evidence, stage):
            return stage if check(evidence, stage, doubts(evidence)[stage].unjudged).state == "broken" else None
    return None
