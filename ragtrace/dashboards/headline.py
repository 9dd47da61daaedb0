"""The answer in a sentence: which stage is failing, in which segments, and since which release."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from ragtrace.dashboards.model import Panel
from ragtrace.dashboards.panels import SLIS, named, objective_of
from ragtrace.dashboards.prometheus import Prometheus, Series
from ragtrace.dashboards.promql import gained
from ragtrace.dashboards.span import Span
from ragtrace.dashboards.variables import RELEASES
from ragtrace.registry import Instrument
from ragtrace.registry.instruments import SLI_GOOD_REQUESTS, SLI_REQUESTS, STAGES
from ragtrace.wilson import wilson

__all__ = ["Count", "Finding", "findings", "least_bad_share", "releases"]

_Key: TypeAlias = tuple[str, str, str]  # service, indicator, reference
_Counts: TypeAlias = Mapping[_Key, Mapping[str, "Count"]]
_ANY_PANEL: Final = Panel(title="", kind="stat", description="")
_FEWEST: Final = 10
_RECENT: Final = 8  # the last of so many parts of the span tells what is so now
_TOGETHER: Final = 2.0  # scrapes within which no counter tells two releases apart
_COMPONENTS: Final = {stage.name: stage.components for stage in STAGES}


@dataclass(frozen=True)
class Count:
    """How many requests were judged, and how many of them were good."""

    requests: float = 0.0
    good: float = 0.0

    def __add__(self, other: Count) -> Count:
        return Count(self.requests + other.requests, self.good + other.good)


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
    """A sentence for each stage of each service that fails, first stage first, then of each that did; one that says so
    where none does."""
    counts = _counts(server, span)
    if not counts:
        return [Finding("No request was scored in this time.", None)]
    services = sorted({service for service, _, _ in counts})
    releases = sorted(rollouts, key=lambda one: one.last)
    failing = [
        _finding(server, span, one, key, segments, text, releases)
        for one in SLIS
        for reference in ("oracle", "proxy", "none")
        for service in services
        if (judged := counts.get(key := (service, _name(one), reference))) and (segments := _failing(one, judged))
        for text in [_sentence(one, judged, segments, _shown(service) if len(services) > 1 else "")]
    ]
    return sorted(failing, key=lambda each: each.good is None) or [_unbroken(counts, services)]


def _finding(
    server: Prometheus, span: Span, one: Instrument, key: _Key, segments: list[str], text: str, releases: list[Series]
) -> Finding:
    """A stage that fails, with its release; one that is well again by now is said to have failed."""
    since = _since(server, span, one, key, segments, releases)
    recent = span._replace(start=span.end - (span.end - span.start) / _RECENT)
    now = _sum(_counts(server, recent).get(key, {}), segments)
    if now.requests < _FEWEST or now.requests - now.good > (1 - objective_of(one).target) * now.requests:
        return Finding(f"{text} {since}", False)
    again = datetime.fromtimestamp(recent.start, UTC)
    well = f"in {now.good / now.requests:.0%} of {now.requests:.0f} requests."
    well = f"Since {again:%d %b %H:%M} UTC it meets its objective again, {well}"
    return Finding(f"{text.replace(' is failing ', ' was failing ', 1)} {since} {well}", None)


def _unbroken(counts: _Counts, services: list[str]) -> Finding:
    """What to say where nothing fails; a service with few requests is not called good."""
    most = dict.fromkeys(services, 0.0)
    for (service, _, _), judged in counts.items():
        most[service] = max(most[service], _sum(judged, judged).requests)
    few = [_shown(service) for service in services if most[service] < _FEWEST]
    if len(few) == len(services):
        return Finding(f"Fewer than {_FEWEST} requests were scored in this time: too few to judge.", None)
    where = "in every segment" if len(services) == 1 else "in every segment of every service"
    if not few:
        return Finding(f"Every stage meets its objective, {where}.", True)
    unknown = f"Too few requests were scored to judge {_listed(few)}"
    return Finding(f"Every stage meets its objective, {where} that can be judged. {unknown}.", True)


def _name(one: Instrument) -> str:
    return one.sli.name if one.sli else ""


def _counts(server: Prometheus, span: Span) -> _Counts:
    """Counts by service, indicator and reference, then by segment; only requests whose earlier stages were good."""
    counts: dict[_Key, dict[str, Count]] = defaultdict(dict)
    for instrument in (SLI_REQUESTS, SLI_GOOD_REQUESTS):
        expr = gained(instrument, "service", "metric", "reference", "segment", scope="conditional")
        for one in server.query(span.filled(expr, _ANY_PANEL), span.end):
            service, metric, reference, segment = map(one.label, ("service", "metric", "reference", "segment"))
            by_segment = counts[service, metric, reference]
            counted = Count(requests=one.last) if instrument is SLI_REQUESTS else Count(good=one.last)
            by_segment[segment] = by_segment.get(segment, Count()) + counted
    return {
        key: judged
        for key, by_segment in counts.items()
        if (judged := {segment: count for segment, count in by_segment.items() if count.requests >= 1})
    }


def _failing(one: Instrument, by_segment: Mapping[str, Count]) -> list[str]:
    """The segments that fail; all of them where only their sum does."""
    budget = 1 - objective_of(one).target
    alone = sorted(segment for segment, count in by_segment.items() if _fails(count, budget))
    return alone or (sorted(by_segment) if _fails(_sum(by_segment, by_segment), budget) else [])


def _fails(count: Count, budget: float) -> bool:
    return count.requests >= _FEWEST and least_bad_share(count) > budget


def _sum(by_segment: Mapping[str, Count], segments: Iterable[str]) -> Count:
    return sum((by_segment.get(segment, Count()) for segment in segments), start=Count())


def _sentence(one: Instrument, by_segment: Mapping[str, Count], segments: list[str], service: str) -> str:
    """What fails where; the service is named where there are several."""
    total = _sum(by_segment, segments)
    everywhere = len(segments) == len(by_segment)
    names = _listed([_shown(each) for each in segments])
    where = "everywhere" if everywhere else f"in {len(segments)} of {len(by_segment)} segments ({names})"
    whose = "" if everywhere else "their "
    return (
        f"{(one.stage or '').capitalize()}{service and f' of {service}'} is failing {where}: {named(one).lower()} "
        f"meets its objective in {total.good / total.requests:.0%} of {whose}{total.requests:.0f} requests "
        f"(target {objective_of(one).target:.0%})."
    )


def _shown(label: str) -> str:
    """A label's value within a sentence."""
    return label or "the one without a name"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")


def _since(
    server: Prometheus, span: Span, one: Instrument, key: _Key, segments: list[str], releases: list[Series]
) -> str:
    """The release of the service's components of the stage after which its share fell most."""
    own = [
        each
        for each in releases
        if each.label("service") == key[0]
        and each.label("component") in _COMPONENTS[one.stage or ""]
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
