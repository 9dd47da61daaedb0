"""The checks, in the order of the evidence: each stage over the requests that nothing before it had broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragtrace.triage.evidence import OWNERS, Evidence, Judged, budget, tally
from ragtrace.triage.report import Check, CheckState, Onset, Recovery, Tally
from ragtrace.triage.statistics import Episode, find_episode
from ragtrace.triage.wording import clock, counted, percent, written
from ragtrace.types import Stage

__all__ = ["ENOUGH", "TITLES", "Stretch", "baseline", "check", "not_checked", "recovery", "stretch"]

ENOUGH: Final = 10  # requests below which nothing is said
_NOT_MEANT: Final = "does not apply: the application says that this answer is not meant to cite"
TITLES: Final[dict[Stage, str]] = {
    "retrieval": "Query coverage: do the candidates hold what was asked?",
    "ranking": "Evidence and rank shift: did the evidence reach the prompt?",
    "generation": "Answer coverage and contradictions: does the prompt support the answer?",
    "citation": "Citations: are the claims cited?",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """When a stage was worse than around that time: its requests before, during and after."""

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
            since=tally(self.during, stage),
            before=tally(self.before, stage),
        )


def stretch(evidence: Evidence, stage: Stage) -> Stretch | None:
    """The stretch that reaches into the window; None where the share did not change, or changed back before."""
    told = evidence.at(stage)
    found = find_episode([each.bad[stage] for each in told], [each.weight for each in told])
    if found is None or told[found.end - 1].row.started_at < evidence.window.since:
        return None
    return _stretch(told, found, evidence.window.before)


def _stretch(told: Sequence[Judged], found: Episode, beginning: int) -> Stretch:
    return Stretch(
        before=tuple(told[: found.start]),
        during=tuple(told[found.start : found.end]),
        after=tuple(told[found.end :]),
        earliest=told[found.earliest - 1].row.started_at if found.earliest else beginning,
        latest=told[found.latest].row.started_at,
        ended_at=told[found.end].row.started_at if found.end < len(told) else None,
    )


def baseline(evidence: Evidence, stage: Stage, risen: Stretch | None) -> Sequence[Judged]:
    """What the window is compared with: the requests before the break where its beginning is seen, else the time before
    the window."""
    return risen.before if risen and risen.before else evidence.before(stage)


def check(evidence: Evidence, stage: Stage) -> Check:
    """Judge one stage in the window.

    Broken: the lower bound of the bad share is above the budget, in the window or in the stretch of it in which the
    share rose; or the share is above the budget and clearly above what it was before. Recovered: broken, until the
    share fell again for certain.
    """
    allowed, risen = budget(stage), stretch(evidence, stage)
    earlier = baseline(evidence, stage, risen)
    now, before = tally(evidence.now(stage), stage), tally(earlier, stage)
    during = tally(risen.during, stage) if risen else None
    state = _state(now, before, during, allowed)
    over = recovery(risen, stage) if state == "broken" else None
    if over and over.state == "recovered":
        state = "recovered"
    return Check(
        stage=stage,
        title=TITLES[stage],
        state=state,
        owner=OWNERS[stage],
        budget=allowed,
        finding=over.finding if over and state == "recovered" else _finding(state, now, before, allowed, risen, during),
        now=now,
        before=before,
        values=tuple(each for each in evidence.values(stage, earlier) if each.now_count or each.before_count),
    )


def recovery(risen: Stretch | None, stage: Stage) -> Recovery:
    """Recovered: the share fell again, the requests since then are within the budget, and they are clearly better than
    those of the break."""
    if risen is None or risen.ended_at is None:
        return Recovery(state="not_recovered", finding="not recovered yet: nothing shows that the share fell again")
    during, after = tally(risen.during, stage), tally(risen.after, stage)
    since, allowed = written(risen.ended_at), budget(stage)
    told = f"since {clock(since)} {counted(after)}, the objective allows {percent(allowed)}"
    told += f"; during the break {counted(during)}"
    if after.known >= ENOUGH and after.low > allowed:
        return Recovery(state="not_recovered", finding=f"better, but still broken: {told}", since=since, after=after)
    if after.known < ENOUGH or after.share is None or after.share > allowed or after.high >= during.low:
        return Recovery(state="unclear", finding=f"not enough data to tell: {told}", since=since, after=after)
    return Recovery(state="recovered", finding=f"back within the objective: {told}", since=since, after=after)


def not_checked(stage: Stage, broken: Stage | None) -> Check:
    """A stage behind the first broken one; None: one that the request does not have."""
    nothing = Tally(bad=0, known=0, share=None, low=0.0, high=1.0)
    return Check(
        stage=stage,
        title=TITLES[stage],
        state="not_checked",
        owner=OWNERS[stage],
        budget=budget(stage),
        finding=f"not checked, since {broken} is broken before it" if broken else _NOT_MEANT,
        now=nothing,
        before=nothing,
    )


def _state(now: Tally, before: Tally, during: Tally | None, allowed: float) -> CheckState:
    if now.known < ENOUGH or now.share is None:
        return "no_data"
    if now.low > allowed or (during and during.known >= ENOUGH and during.low > allowed):
        return "broken"
    worse = before.known >= ENOUGH and now.low > before.high
    if now.share > allowed:
        return "broken" if worse else "unclear"
    return "worse" if worse else "good"


def _finding(
    state: CheckState, now: Tally, before: Tally, allowed: float, risen: Stretch | None, during: Tally | None
) -> str:
    told = f"{counted(now)}, the objective allows {percent(allowed)}"
    if state == "no_data":
        return f"not enough data: {now.known} requests tell of this stage, {ENOUGH} are needed"
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
    compared = f"; before {counted(before)}" if before.known else "; there is nothing before to compare with"
    return f"broken: {told}, surely at least {percent(now.low)}{compared}"
