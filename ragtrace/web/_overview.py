"""The overview of one service: each stage's share of broken requests with its interval and budget, how it went over
time beside the releases, what broke where since which release, segments that differ, and what cannot be judged.

It rests on the first requests of each slice of the window: as much work in a store of any size. Shares are weighted to
be those of the traffic, and each slice counts by its own requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from ragtrace.analyze.diagnosis import is_rollout
from ragtrace.analyze.services import remedy
from ragtrace.formats import joined
from ragtrace.html_page import Html
from ragtrace.registry.instruments import STAGES
from ragtrace.registry.wording import VERDICTS, cause_words, reason_words
from ragtrace.store import DiagnosisSummary, Listing, Release, Store
from ragtrace.store.tables import STAGE_NAMES
from ragtrace.triage import break_end, promise
from ragtrace.types import Stage
from ragtrace.web._access import Viewer
from ragtrace.web._drawings import share_bar, state_bar, trend_line, trend_picture
from ragtrace.web._request_list import query_part
from ragtrace.web._tallies import (
    STATE_WORDS,
    ExpenseLine,
    Share,
    Tallies,
    Tally,
    expense_lines,
    share_among,
    tallied,
    tallied_slices,
    united,
    weight_of,
)

__all__ = ["Overview", "ServiceLine", "overview", "service_lines"]

_GROUPS: Final = 20  # of broken requests
_SEGMENTS: Final = 40  # that are listed
_DRAWN: Final = 24  # releases that are drawn
COUNTED: Final = 10_000
"""How far the requests of a window are counted: a page is as quick in a store of millions."""
_SLICES: Final = 36
_EACH: Final = 24  # requests of a slice that are looked at
_FEW_SLICES, _FEW_EACH = 12, 12  # of a service among others
_LEAST: Final = 8  # requests of a segment from which on it is compared
_WORST: Final = 3  # segments that a group names
_TELLING: Final = 5  # requests of a group below which nothing is said of its end
_SECOND: Final = 1_000_000_000
WINDOWS: Final[dict[str, int]] = {"1h": 3_600, "24h": 86_400, "7d": 7 * 86_400, "all": 0}


@dataclass(frozen=True, slots=True)
class End:
    """That a break is over, for certain: since when (nanoseconds), and how many of the requests judged since then are
    broken by it."""

    since: int
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class StageLine:
    """One stage in the window. broken: among the requests in which it is judged and no earlier stage is broken or
    suspected, as alerts and triage count; None where none is. states: their shares of all requests. spent: of the error
    budget that the objective leaves, 1 being all of it. verdict: where the share lies beside the objective, and
    `recovered` where it is over in the window and the break has ended."""

    name: Stage
    owner: str
    broken: Share | None
    states: tuple[tuple[str, str, float], ...]
    bar: Html
    interval_bar: Html | None
    spent: float
    target: float
    verdict: str
    ended: End | None
    link: str
    unjudged: float
    why_unjudged: str
    helpful: str | None


@dataclass(frozen=True, slots=True)
class Break:
    """Requests that broke first at one stage since one release: how many, when, where, and one to look at, of the worst
    segment. share: of all requests looked at from the first to the last of them. ended: None where nothing proves an
    end; judged_since: how many judged requests came behind the last one."""

    stage: Stage
    owner: str
    verdict: str
    rollout: str | None
    release: int | None
    cause: str | None
    share: Share
    first_at: int
    last_at: int
    ended: End | None
    judged_since: int
    segments: tuple[tuple[str, Share], ...]
    example: str
    example_segment: str
    link: str

    @property
    def course(self) -> str:
        """Whether it is `over` or `goes on`; `few` or `unclear` where too few requests, of it or since, tell."""
        if self.ended is not None:
            return "over"
        if self.share.count < _TELLING:
            return "few"
        return "goes on" if self.judged_since < _LEAST else "unclear"


@dataclass(frozen=True, slots=True)
class SegmentLine:
    """One segment: by stage the share of broken requests, and whether it differs from the others."""

    segment: str
    requests: int
    cells: tuple[tuple[Stage, Share | None, str], ...]  # "more", "less" or "" beside the others
    link: str


@dataclass(frozen=True, slots=True)
class ReleaseMark:
    """A version that came within the window, with its number on the time axis. stages: those that began to break with
    it."""

    number: int
    at: int
    version: str
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """All of it. looked_at: requests; stored: how many there are, counted as far as `COUNTED`; since, until:
    nanoseconds; more_releases: how many came beside those that are drawn."""

    service: str
    window: str
    since: int
    until: int
    looked_at: int
    stored: int
    conclusion: tuple[str, ...]
    stages: tuple[StageLine, ...]
    breaks: tuple[Break, ...]
    segments: tuple[SegmentLine, ...]
    releases: tuple[ReleaseMark, ...]
    more_releases: int
    trend: Html | None
    expenses: tuple[ExpenseLine, ...]
    calibration: str | None
    least: int = _LEAST  # requests of a segment that is compared


@dataclass(frozen=True, slots=True)
class ServiceCell:
    """One stage of a service among others; without states where it does not apply. broken, verdict, spent: as of a
    `StageLine`."""

    stage: Stage
    broken: Share | None
    verdict: str = ""
    spent: float = 0.0
    states: tuple[tuple[str, str, float], ...] = ()
    bar: Html | None = None
    trend: Html | None = None


@dataclass(frozen=True, slots=True)
class ServiceLine:
    """A service among others: when its last request began, how many requests were looked at, and its stages."""

    service: str
    last_at: int
    requests: int
    cells: tuple[ServiceCell, ...]
    link: str


def service_lines(store: Store, services: Sequence[str], tenant: str | None) -> list[ServiceLine]:
    """A line for each service, by what a few of its last day's requests say."""
    lines = []
    for service in services:
        around = store.time_bounds(service, tenant)
        if around is None:
            continue
        edges = _edges(*around, WINDOWS["24h"], _FEW_SLICES)
        found = store.slices(Listing(service=service, tenant_id=tenant), edges, _FEW_EACH)
        by_slice = tallied_slices(found)
        whole = united(by_slice)
        cells = tuple(_service_cell(place, whole[place], by_slice) for place in range(len(STAGE_NAMES)))
        link = f"/?{query_part({'service': service})}"
        lines.append(ServiceLine(service, around[1], sum(map(len, found)), cells, link))
    return lines


def _service_cell(place: int, tally: Tally, by_slice: Tallies) -> ServiceCell:
    stage, broken = STAGE_NAMES[place], tally.indicator()
    if not tally.of:
        return ServiceCell(stage, None)
    allowed = 1.0 - STAGES[place].target
    slices = (by_slice.get((number, place)) for number in range(_FEW_SLICES))
    indicators = [one.indicator() if one is not None else None for one in slices]
    shares = [one.value if one is not None else None for one in indicators]
    states = _states(tally)
    return ServiceCell(
        stage,
        broken,
        _verdict(broken, allowed),
        _spent(broken, allowed),
        states,
        state_bar([(state, share) for state, _, share in states]),
        trend_line(shares, allowed),
    )


def _states(tally: Tally) -> tuple[tuple[str, str, float], ...]:
    """The shares of the states."""
    return tuple((state, words, tally.weights[state] / tally.whole) for state, words in STATE_WORDS.items())


def _spent(broken: Share | None, allowed: float) -> float:
    return broken.value / allowed if broken is not None and allowed else 0.0


def _verdict(broken: Share | None, allowed: float) -> str:
    """Where the interval lies beside what the objective allows."""
    if broken is None:
        return "unjudged"
    return "over" if broken.low > allowed else "within" if broken.high <= allowed else "unclear"


def overview(store: Store, service: str, window: str, viewer: Viewer) -> Overview | None:
    """The overview of a service; None where it has no request. window: one of `WINDOWS`. Releases are of the whole
    service: where it is shared with other tenants, their versions would be told."""
    tenant = viewer.tenant
    with store.snapshot():
        around = store.time_bounds(service, tenant)
        if around is None:
            return None
        edges = _edges(*around, WINDOWS[window], _SLICES)
        slices = store.slices(Listing(service=service, tenant_id=tenant), edges, _EACH)
        within = Listing(service=service, tenant_id=tenant, since=edges[0], until=edges[-1])
        stored = store.count_requests(within, COUNTED)
        came = _releases(store.releases(service) if viewer.owns(service) else (), edges[0], edges[-1])
        calibration = promise(store, service) if viewer.owns(service) else None
    every = [one for each in slices for one in each]
    known = [one for one in every if any(one.states)]
    by_slice = tallied_slices(slices)
    whole = united(by_slice)
    marks = _marks(came, {one.suspected_rollout for one in known if one.stage is not None})
    link = _linker(service, edges[0], edges[-1])
    breaks = tuple(_breaks(known, marks, link))
    stages = tuple(_stage_lines(known, whole, link))
    return Overview(
        service=service,
        window=window,
        since=edges[0],
        until=edges[-1],
        looked_at=len(every),
        stored=stored,
        conclusion=_conclusion(stages, breaks, len(known)),
        stages=stages,
        breaks=breaks,
        segments=tuple(_segments(tallied((one.segment, one) for one in every), whole, link)),
        releases=tuple(_told(marks, breaks)),
        more_releases=len(came) - len(marks),
        trend=_trend(by_slice, edges, marks, stages, link) if known else None,
        expenses=tuple(expense_lines(every)),
        calibration=calibration,
    )


_Link = Callable[..., str]


def _linker(service: str, since: int, until: int) -> _Link:
    """Makes links to the list of requests within the window."""

    def link(**more: object) -> str:
        return f"/requests?{query_part({'service': service, 'since': since, 'until': until} | more)}"

    return link


def _edges(first: int, last: int, seconds: int, number: int) -> list[int]:
    """The bounds of equal slices that end behind the last request, and begin no earlier than the first one."""
    until = last + 1
    since = max(first, until - seconds * _SECOND) if seconds else first
    width = max(1, -(-(until - since) // number))
    return [min(until, since + place * width) for place in range(number)] + [until]


def _stage_lines(known: Sequence[DiagnosisSummary], whole: Sequence[Tally], link: _Link) -> Iterator[StageLine]:
    for place, info in enumerate(STAGES):
        stage, tally = STAGE_NAMES[place], whole[place]
        broken = tally.indicator()
        if not tally.of:
            continue
        shares = _states(tally)
        allowed = 1.0 - info.target
        reasons = Counter(reason for one in known if (reason := one.reasons[place]) is not None)
        reason = reasons.most_common(1)[0][0] if reasons else None
        verdict = _verdict(broken, allowed)
        ended = None
        if verdict == "over":
            judged = _judged(known, place)
            ended = _end(judged, [one.states[place] == "broken" for one in judged], allowed)
        yield StageLine(
            name=stage,
            owner=info.owner,
            broken=broken,
            states=shares,
            bar=state_bar([(state, share) for state, _, share in shares]),
            interval_bar=None if broken is None else share_bar(broken.value, broken.low, broken.high, allowed),
            spent=_spent(broken, allowed),
            target=info.target,
            verdict="recovered" if ended else verdict,
            ended=ended,
            link=link(stage=stage),
            unjudged=sum(share for state, _, share in shares if state in ("suspected", "not_known")),
            why_unjudged=reason_words(reason, stage) if reason else "",
            helpful=remedy(stage, reason) if reason else None,
        )


def _judged(known: Sequence[DiagnosisSummary], place: int) -> list[DiagnosisSummary]:
    """The requests in which a stage is sound or broken, and no earlier one broken or suspected."""
    return [
        one
        for one in known
        if one.states[place] in ("sound", "broken") and not {"broken", "suspected"}.intersection(one.states[:place])
    ]


def _end(judged: Sequence[DiagnosisSummary], is_bad: Sequence[bool], allowed: float) -> End | None:
    """Whether the break that stands out among requests, oldest first, is over."""
    weights = (weight_of(one.head_probability) for one in judged)
    found = break_end(list(zip(is_bad, weights, strict=True)), allowed)
    return None if found is None else End(judged[found[0]].started_at, found[1].count, found[1].of)


_Mark = tuple[int, int, str]  # number, moment, version


def _releases(known: Sequence[Release], since: int, until: int) -> list[tuple[int, str]]:
    """What came within the window and changed the service, as triage tells it: the first version of a component that
    was there from the beginning, or is inferred by and by, changed nothing."""
    came = (one for one in known if since < one.at < until and is_rollout(one, known))
    return sorted((one.at, f"{one.component}={one.version}") for one in came)


def _marks(came: Sequence[tuple[int, str]], suspected: Container[str | None]) -> list[_Mark]:
    """Each release with a number of its own, in their order; of many those that are suspected, then the newest."""
    chosen = sorted(came, key=lambda one: (one[1] not in suspected, -one[0]))[:_DRAWN]
    return [(number, at, version) for number, (at, version) in enumerate(sorted(chosen), 1)]


def _told(marks: Sequence[_Mark], breaks: Sequence[Break]) -> Iterator[ReleaseMark]:
    for number, at, version in marks:
        stages = dict.fromkeys(one.stage for one in breaks if one.release == number)
        yield ReleaseMark(number, at, version, tuple(stages))


def _breaks(known: Sequence[DiagnosisSummary], marks: Sequence[_Mark], link: _Link) -> Iterator[Break]:
    """The groups of broken requests, the largest first."""
    groups: dict[tuple[Stage, str | None], list[DiagnosisSummary]] = {}
    for one in known:
        if one.stage is not None:
            groups.setdefault((one.stage, one.suspected_rollout), []).append(one)
    for (stage, rollout), ones in sorted(groups.items(), key=lambda item: -len(item[1]))[:_GROUPS]:
        first, last = min(one.started_at for one in ones), max(one.started_at for one in ones)
        during = [one for one in known if first <= one.started_at <= last]
        ids = {one.request_id for one in ones}
        share = share_among(during, ids)
        causes = Counter(one.cause for one in ones if one.cause)
        place = STAGE_NAMES.index(stage)
        judged = _judged(known, place)
        if share is not None:
            segments = _worst_segments(during, ids)
            worst = segments[0][0] if segments else ones[len(ones) // 2].segment
            shown = [one for one in ones if one.segment == worst]
            yield Break(
                stage=stage,
                owner=STAGES[place].owner,
                verdict=VERDICTS.get(ones[0].verdict, ones[0].verdict),
                rollout=rollout,
                release=next((number for number, _, version in marks if rollout == version), None),
                cause=cause_words(causes.most_common(1)[0][0]) if causes and stage == "retrieval" else None,
                share=share,
                first_at=first,
                last_at=last,
                ended=_end(judged, [one.request_id in ids for one in judged], 1.0 - STAGES[place].target),
                judged_since=sum(one.started_at > last for one in judged),
                segments=segments,
                example=shown[len(shown) // 2].request_id,
                example_segment=worst,
                link=link(stage=stage, rollout=rollout, since=first, until=last + 1),
            )


def _worst_segments(during: Sequence[DiagnosisSummary], ids: Container[str]) -> tuple[tuple[str, Share], ...]:
    """The segments with the highest share of these requests among those with at least `_LEAST` requests."""
    of_segments: dict[str, list[DiagnosisSummary]] = {}
    for one in during:
        of_segments.setdefault(one.segment, []).append(one)
    shares = [
        (name, share)
        for name, ones in of_segments.items()
        if len(ones) >= _LEAST and (share := share_among(ones, ids)) is not None and share.count
    ]
    return tuple(sorted(shares, key=lambda item: (-item[1].value, item[0]))[:_WORST])


def _segments(by_segment: Tallies, whole: Sequence[Tally], link: _Link) -> Iterator[SegmentLine]:
    """Each segment beside all others, those first that differ most."""
    lines = []
    for segment in sorted({str(key) for key, _ in by_segment}):
        cells: list[tuple[Stage, Share | None, str]] = []
        excess, requests = 0.0, 0
        for place, stage in enumerate(STAGE_NAMES):
            own = by_segment.get((segment, place))
            if own is None:
                cells.append((stage, None, ""))
                continue
            share, rest = own.indicator(), Tally().unite(whole[place]).unite(own, -1).indicator()
            differs = ""
            if share is not None and rest is not None and share.of >= _LEAST:
                differs = "more" if share.low > rest.high else "less" if share.high < rest.low else ""
                excess = max(excess, share.value - rest.value if differs == "more" else 0.0)
            cells.append((stage, share, differs))
            requests = max(requests, own.of)
        lines.append((-excess, segment, SegmentLine(segment, requests, tuple(cells), link(segment=segment))))
    yield from (line for _, _, line in sorted(lines, key=lambda item: item[:2])[:_SEGMENTS])


def _trend(
    by_slice: Tallies,
    edges: Sequence[int],
    marks: Sequence[_Mark],
    stages: Sequence[StageLine],
    link: _Link,
) -> Html:
    span = max(1, edges[-1] - edges[0])
    rows = []
    for line in stages:
        bars: list[tuple[float | None, float | None, str]] = []
        place = STAGE_NAMES.index(line.name)
        for number, (since, until) in enumerate(pairwise(edges)):
            tally = by_slice.get((number, place))
            is_broken = tally is not None and tally.judged[4] > 0  # the list filters by the first broken stage
            where = link(since=since, until=until, **({"stage": line.name} if is_broken else {}))
            broken = tally.weights["broken"] / tally.whole if tally else None
            suspected = tally.weights["suspected"] / tally.whole if tally else None
            bars.append((broken, suspected, where))
        share = line.broken
        rows.append((line.name, "not judged" if share is None else f"{share.value:.1%} broken", bars))
    places = [((at - edges[0]) / span, str(number)) for number, at, _ in marks]
    is_long = span > 2 * 86_400 * _SECOND
    form = "%m-%d" if is_long else "%H:%M" if span > 600 * _SECOND else "%H:%M:%S"
    times: dict[str, float] = {}  # the first place of each label: in a short burst several would be alike
    for at in (0.02, 0.25, 0.5, 0.75, 0.98):
        times.setdefault(datetime.fromtimestamp((edges[0] + span * at) / 1e9, UTC).strftime(form), at)
    return trend_picture(rows, places, [(at, written) for written, at in times.items()])


def _conclusion(stages: Sequence[StageLine], breaks: Sequence[Break], judged: int) -> tuple[str, ...]:
    """The three questions in a line for each stage that breaks: which stage, where, since which release."""
    if not judged:
        return ("No request of this window is analyzed yet: run `ragtrace analyze`.",)
    over = [line for line in stages if line.verdict in ("over", "recovered")]
    over.sort(key=lambda line: (line.verdict == "recovered", -line.spent))  # what burns now comes first
    if not over:
        within = [line.name for line in stages if line.verdict == "within"]
        unclear = [line.name for line in stages if line.verdict == "unclear"]
        unjudged = [line.name for line in stages if line.verdict == "unjudged"]
        if len(within) == len(stages):
            return ("Every stage is within its objective.",)
        parts = (
            f"{joined(unclear)}: too few judged requests to say" if unclear else "",
            f"{joined(unjudged)}: none is judged" if unjudged else "",
            f"{joined(within)}: within the objective" if within else "",
        )
        said = "; ".join(filter(None, parts))
        return (f"No stage is certainly over its objective. {said[0].upper()}{said[1:]}.",)
    lines = []
    for line in over:
        own = next((one for one in breaks if one.stage == line.name), None)
        share = line.broken.value if line.broken is not None else 0.0
        often = f"{share:.0%} of judged requests"
        if own and own.rollout:
            came = f"{'after' if line.ended else 'since'} {own.rollout}"
            often = f"{own.share.value:.0%} of requests {came} ({share:.0%} of those judged in the window)"
        where = f", worst in {own.segments[0][0]}" if own and own.segments else ""
        since = f"; recovered since {_at(line.ended.since)}" if line.ended else ""
        lines.append(f"{line.name.capitalize()} {'broke' if line.ended else 'breaks'} in {often}{where}{since}.")
    return tuple(lines)


def _at(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%m-%d %H:%M:%S")
