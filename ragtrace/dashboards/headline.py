"""The answer in a sentence: which stage is failing, in which segments, since which release, and what is not judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from ragtrace.dashboards.model import Panel
from ragtrace.dashboards.panels import APPLIES, HARDLY_JUDGED
from ragtrace.dashboards.prometheus import Prometheus, Series, Span
from ragtrace.dashboards.promql import RELEASES, gained
from ragtrace.registry import StageInfo
from ragtrace.registry.instruments import ATTRIBUTES, SLI_GOOD_REQUESTS, SLI_REQUESTS, STAGES
from ragtrace.wilson import wilson

__all__ = ["Count", "Finding", "findings", "least_bad_share", "releases"]

_ANY_PANEL: Final = Panel(title="", kind="stat", description="")
_FEWEST: Final = 10
_RECENT: Final = 8  # the last of so many parts of the span tells what is so now
_TOGETHER: Final = 2.0  # scrapes within which no counter tells two releases apart
_REFERENCES: Final = {name: place for place, name in enumerate(ATTRIBUTES["reference"])}


class _Judged(NamedTuple):
    """What is counted by itself: a stage of a service, as one judge saw it with one kind of reference."""

    service: str
    stage: str
    reference: str
    judge: str


@dataclass(frozen=True)
class Count:
    """In how many requests a stage was judged, and in how many of them it was sound."""

    requests: float = 0.0
    good: float = 0.0

    def __add__(self, other: Count) -> Count:
        return Count(self.requests + other.requests, self.good + other.good)


_Counts: TypeAlias = Mapping[_Judged, Mapping[str, Count]]


class Finding(NamedTuple):
    """One sentence; `good` is None where nothing could be judged."""

    text: str
    good: bool | None


def least_bad_share(count: Count) -> float:
    """Lower bound of the share of bad requests: a few bad ones among few say little."""
    bad = min(count.requests, max(0.0, count.requests - count.good))
    return wilson(bad, count.requests)[0]


def releases(server: Prometheus, span: Span) -> list[Series]:
    """Releases within the span, oldest first, also while the exporter is away; their values are times in
    milliseconds."""
    found = server.query(span.filled(RELEASES, _ANY_PANEL), span.end)
    return sorted((one for one in found if one.last <= span.end * 1000), key=lambda one: one.last)


def findings(server: Prometheus, span: Span, rollouts: Iterable[Series]) -> list[Finding]:
    """A sentence for each stage of each service that fails, first stage first, then of each that did, or one that says
    that none does; then one for each service of which next to nothing can be judged.

    Each judge and each kind of reference is looked at by itself.
    """
    counts, unjudged = _counts(server, span), _hardly_judged(server, span)
    releases = sorted(rollouts, key=lambda one: one.last)
    services = sorted({key.service for key in counts} | unjudged.keys())
    failing = [
        _finding(server, span, stage, key, segments, _sentence(stage, key, counts, segments, services), releases)
        for stage in STAGES
        for key in sorted(counts, key=lambda key: (_REFERENCES.get(key.reference, 0), key))
        if key.stage == stage.name and (segments := _failing(stage, counts[key]))
    ]
    failing.sort(key=lambda each: each.good is None)
    said = failing or ([_unbroken(counts, services, bool(unjudged))] if counts else [])
    said += [_not_judged(service, services, stages) for service, stages in sorted(unjudged.items())]
    return said or [Finding("No request was scored in this time.", None)]


def _finding(
    server: Prometheus,
    span: Span,
    stage: StageInfo,
    key: _Judged,
    segments: list[str],
    text: str,
    releases: list[Series],
) -> Finding:
    """A stage that fails, with its release; one that is well again by now, or whose judge has ended, is said to have
    failed."""
    since = _since(server, span, stage, key, segments, releases)
    recent = span._replace(start=span.end - (span.end - span.start) / _RECENT)
    latest = _counts(server, recent)
    now = _sum(latest.get(key, {}), segments)
    then = f"{text.replace(' is failing', ' was failing', 1)} {since}"
    if now.requests < _FEWEST:
        others = (judged for other, judged in latest.items() if other[:3] == key[:3] and other != key)
        if any(_sum(judged, judged).requests >= _FEWEST for judged in others):
            return Finding(f"{then} Another judge has taken its place since.", None)
    if now.requests < _FEWEST or now.requests - now.good > (1 - stage.target) * now.requests:
        return Finding(f"{text} {since}", False)
    again = datetime.fromtimestamp(recent.start, UTC)
    well = f"in {now.good / now.requests:.0%} of {now.requests:.0f} requests."
    return Finding(f"{then} Since {again:%d %b %H:%M} UTC it meets its target again, {well}", None)


def _unbroken(counts: _Counts, services: list[str], has_unjudged: bool) -> Finding:
    """What to say where nothing fails; a service with few requests is not called good."""
    most = dict.fromkeys(services, 0.0)
    for key, judged in counts.items():
        most[key.service] = max(most[key.service], _sum(judged, judged).requests)
    few = [_shown(service) for service in services if most[service] < _FEWEST]
    if len(few) == len(services):
        return Finding(f"Fewer than {_FEWEST} requests were judged in this time: too few to tell.", None)
    stages = "Every stage that can be judged" if has_unjudged else "Every stage"
    where = "in every segment" if len(services) == 1 else "in every segment of every service"
    if not few:
        return Finding(f"{stages} meets its target, {where}.", True)
    unknown = f"Too few requests were judged to tell of {_listed(few)}"
    return Finding(f"{stages} meets its target, {where} that can be judged. {unknown}.", True)


def _not_judged(service: str, services: list[str], stages: Mapping[str, str]) -> Finding:
    """A service of which next to nothing can be judged, and why."""
    whose = f" of {_shown(service)}" if len(services) > 1 else ""
    reasons = ", ".join(f"{stage} ({why})" for stage, why in stages.items())
    return Finding(
        f"Next to nothing can be judged{whose}: {reasons}. `ragtrace doctor` says what would change it.", None
    )


def _hardly_judged(server: Prometheus, span: Span) -> dict[str, dict[str, str]]:
    """By service and stage, first stage first, the most frequent reason of what is hardly ever judged."""
    counts, hardly = _reasons(server, span), defaultdict[str, dict[str, str]](dict)
    order = {stage.name: stage.order for stage in STAGES}
    for service, stage in sorted(counts, key=lambda key: (key[0], order.get(key[1], 0))):
        reasons = counts[service, stage]
        every = sum(reasons.values())
        if every >= _FEWEST and reasons.get("", 0.0) < HARDLY_JUDGED * every:
            why = max(reasons, key=lambda words: reasons[words])
            hardly[service][stage] = f"{why} in {reasons[why] / every:.0%} of {every:.0f} requests"
    return hardly


def _reasons(server: Prometheus, span: Span) -> dict[tuple[str, str], dict[str, float]]:
    """By service and stage, how many requests have each state and reason, and how many are judged (""). Of several
    judges the one with most requests tells."""
    by = ("service", "stage", "judge", "state", "reason")
    counts: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for one in server.query(span.filled(gained(APPLIES, *by, scope="all"), _ANY_PANEL), span.end):
        service, stage, judge, state, reason = map(one.label, by)
        words = f"{state}: {reason}".replace("_", " ") if state else ""
        counts[service, stage][judge][words] = one.last
    return {key: max(judges.values(), key=lambda reasons: sum(reasons.values())) for key, judges in counts.items()}


def _counts(server: Prometheus, span: Span) -> _Counts:
    """What was judged, then by segment; only requests in which no earlier stage is broken or suspected."""
    counts: dict[_Judged, dict[str, Count]] = defaultdict(dict)
    for instrument in (SLI_REQUESTS, SLI_GOOD_REQUESTS):
        expr = gained(instrument, *_Judged._fields, "segment", scope="conditional")
        for one in server.query(span.filled(expr, _ANY_PANEL), span.end):
            by_segment, segment = counts[_Judged(*map(one.label, _Judged._fields))], one.label("segment")
            counted = Count(requests=one.last) if instrument is SLI_REQUESTS else Count(good=one.last)
            by_segment[segment] = by_segment.get(segment, Count()) + counted
    return {
        key: judged
        for key, by_segment in counts.items()
        if (judged := {segment: count for segment, count in by_segment.items() if count.requests >= 1})
    }


def _failing(stage: StageInfo, by_segment: Mapping[str, Count]) -> list[str]:
    """The segments that fail; all of them where only their sum does."""
    budget = 1 - stage.target
    alone = sorted(segment for segment, count in by_segment.items() if _fails(count, budget))
    return alone or (sorted(by_segment) if _fails(_sum(by_segment, by_segment), budget) else [])


def _fails(count: Count, budget: float) -> bool:
    return count.requests >= _FEWEST and least_bad_share(count) > budget


def _sum(by_segment: Mapping[str, Count], segments: Iterable[str]) -> Count:
    return sum((by_segment.get(segment, Count()) for segment in segments), start=Count())


def _sentence(stage: StageInfo, key: _Judged, counts: _Counts, segments: list[str], services: list[str]) -> str:
    """What fails where; the service, the reference and the judge are named where there are several."""
    by_segment = counts[key]
    total = _sum(by_segment, segments)
    everywhere = len(segments) == len(by_segment)
    names = _listed([_shown(each) for each in segments])
    where = "everywhere" if everywhere else f"in {len(segments)} of {len(by_segment)} segments ({names})"
    whose = "" if everywhere else "their "
    service = f" of {_shown(key.service)}" if len(services) > 1 else ""
    judges = {other.judge for other in counts if other[:3] == key[:3]}
    judge = f" by judge {key.judge}" if len(judges) > 1 else ""
    return (
        f"{stage.name.capitalize()}{service} is failing {where}{judge}: it is sound in "
        f"{total.good / total.requests:.0%} of {whose}{total.requests:.0f} requests that can be judged "
        f"(target {stage.target:.0%})."
    )


def _shown(label: str) -> str:
    """A label's value within a sentence."""
    return label or "the one without a name"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")


def _since(
    server: Prometheus, span: Span, stage: StageInfo, key: _Judged, segments: list[str], releases: list[Series]
) -> str:
    """The release of the service's components of the stage after which its share fell most."""
    own = [
        each
        for each in releases
        if each.label("service") == key.service
        and each.label("component") in stage.components
        and span.start < each.last / 1000 < span.end
    ]
    if not own:
        return "No release of its components is known in this time."
    falls: list[tuple[float, str]] = []
    for release in own:
        near = [each for each in own if abs(each.last - release.last) <= 1000 * _TOGETHER * span.scrape]
        together = {each.label("component"): each for each in near}.values()  # the newest version of each
        at = release.last / 1000
        halves = (span._replace(end=at), span._replace(start=at))
        before, after = (_sum(_counts(server, half).get(key, {}), segments) for half in halves)
        if min(before.requests, after.requests) >= _FEWEST:
            shares = before.good / before.requests, after.good / after.requests
            falls.append((shares[1] - shares[0], _fall(release, together, *shares)))
    if not falls:
        return f"It cannot be told whether it fell after a release: fewer than {_FEWEST} requests before or after each."
    if min(falls)[0] >= 0:
        return "It did not fall after a release of its components in this time."
    return min(falls)[1]


def _fall(release: Series, together: Iterable[Series], before: float, after: float) -> str:
    at = datetime.fromtimestamp(release.last / 1000, UTC)
    names = " or ".join(f"{each.label('component')} {each.label('version')}" for each in together)
    return f"It fell from {before:.0%} to {after:.0%} with {names}, {at:%d %b %H:%M} UTC."
