"""The preview: every dashboard read from a live Prometheus, in one HTML file that needs nothing else.

Its headline is the answer in a sentence: which stage is failing, in which segments, since which release, and what is
not judged. A panel shows its values, or the reason why there are none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from ragtrace.dashboards._panels import APPLIES, COLORS, HARDLY_JUDGED, Dashboard, Panel, Target
from ragtrace.dashboards.contents import DASHBOARDS
from ragtrace.dashboards.prometheus import Exemplar, PreviewScope, Prometheus, Series
from ragtrace.dashboards.promql import ANY, RELEASES, TRACE_URL, gained
from ragtrace.html_page import asset, embedded, standalone, tag
from ragtrace.registry import StageInfo
from ragtrace.registry.instruments import ATTRIBUTES, SLI_GOOD_REQUESTS, SLI_REQUESTS, STAGES
from ragtrace.wilson import wilson

__all__ = ["Count", "findings", "least_bad_share", "legend", "page", "preview", "read", "releases"]

_ANY_PANEL: Final = Panel(title="", kind="stat", description="")
_FEWEST: Final = 10
_RECENT: Final = 8  # the last of so many parts of the span tells what is so now
_TOGETHER: Final = 2.0  # scrapes within which no counter tells two releases apart
_REFERENCES: Final = {name: place for place, name in enumerate(ATTRIBUTES["reference"])}
_MOST_SERIES: Final = 16
_MOST_TRACES: Final = 4
_FIELD: Final = re.compile(r"\{\{(\w+)\}\}")
_ORDER: Final = {stage.name: stage.order for stage in STAGES}
_COMMANDS: Final = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_LIKE_METRIC: Final = re.compile(r"\bragtrace_\w+")
_Shown: TypeAlias = dict[str, Any]
_NO_SCRIPT: Final = "The panels are drawn by the script of this page; it loads nothing."
_PACKAGE: Final = "ragtrace.dashboards"


def preview(
    server: Prometheus, span: PreviewScope, *, trace_url: str = TRACE_URL, dashboards: Iterable[Dashboard] = DASHBOARDS
) -> str:
    """The whole file.

    trace_url: where a trace is shown; its id is appended, or put where `{trace_id}` stands.
    Raises: PrometheusError when the server does not answer.
    """
    rollouts = releases(server, span)
    return page(
        {
            "start": span.start,
            "end": span.end,
            "colors": COLORS,
            "trace_url": trace_url if "{trace_id}" in trace_url else f"{trace_url}{{trace_id}}",
            "about": _about(server, span),
            "findings": [each._asdict() for each in findings(server, span, rollouts)],
            "releases": [_release(each) for each in rollouts],
            "dashboards": read(server, dashboards, span),
        }
    )


def page(data: dict[str, Any]) -> str:
    """The file that shows `data`, which `preview` reads from a server."""
    return standalone(
        "ragtrace dashboards",
        asset(_PACKAGE, "uplot", "uPlot.min.css") + asset(_PACKAGE, "preview.css"),
        tag("noscript", _NO_SCRIPT),
        embedded("data", data),
        scripts=(asset(_PACKAGE, "uplot", "uPlot.iife.min.js"), asset(_PACKAGE, "preview.js")),
    )


def _about(server: Prometheus, span: PreviewScope) -> str:
    start, end = (datetime.fromtimestamp(at, UTC) for at in (span.start, span.end))
    patterns = {"service": span.service, "segment": span.segment, "stratum": span.stratum}
    chosen = " · ".join(f"{name}: {'all' if pattern == ANY else pattern}" for name, pattern in patterns.items())
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC · {chosen} · from {server.url}"


def _release(each: Series) -> dict[str, Any]:
    return {"at": each.last / 1000, "name": f"{each.label('component')} {each.label('version')}"}


def read(server: Prometheus, dashboards: Iterable[Dashboard], span: PreviewScope) -> list[_Shown]:
    """The dashboards as plain data, each panel with its values.

    Raises: PrometheusError when the server does not answer.
    """
    names = server.names()
    return [
        {
            "uid": dashboard.uid,
            "title": dashboard.title.removeprefix("ragtrace: "),
            "description": dashboard.description,
            "sections": [
                {"title": section.title, "panels": [_panel(server, panel, span, names) for panel in section.panels]}
                for section in dashboard.sections
                if place == 0 or any(panel.kind != "text" for panel in section.panels)  # the same words on each
            ],
        }
        for place, dashboard in enumerate(dashboards)
    ]


def _panel(server: Prometheus, panel: Panel, span: PreviewScope, names: frozenset[str]) -> _Shown:
    shown: _Shown = msgspec.to_builtins(panel)
    for unused in ("targets", "key", "links", "least_step", "text", "largest_first"):
        del shown[unused]
    if panel.kind == "text":
        commands = _COMMANDS.search(span.filled(panel.text, panel))
        return {**shown, "commands": commands[1] if commands else "", "empty": None}
    read_values = {"stat": _stat, "table": _table, "heatmap": _heatmap}.get(panel.kind, _lines)
    values = read_values(server, panel, span)
    return {**shown, **values, "empty": None if any(values.values()) else _why_empty(panel, span, names)}


def legend(target: Target, labels: dict[str, str]) -> str:
    """The name of a series: the target's legend, its labels filled in."""
    return _FIELD.sub(lambda field: labels.get(field[1], ""), target.legend)


def _instant(server: Prometheus, panel: Panel, target: Target, span: PreviewScope) -> list[Series]:
    return server.query(span.filled(target.expr, panel), span.end)


def _range(server: Prometheus, panel: Panel, target: Target, span: PreviewScope) -> list[Series]:
    return server.query_range(span.filled(target.expr, panel), span.start, span.end, span.step(panel))


def _stat(server: Prometheus, panel: Panel, span: PreviewScope) -> _Shown:
    found = [(target, one) for target in panel.targets for one in _instant(server, panel, target, span)]
    return {"stats": [{"name": legend(target, one.labels), "value": one.last} for target, one in found]}


def _table(server: Prometheus, panel: Panel, span: PreviewScope) -> _Shown:
    rows: dict[tuple[str, ...], list[float | None]] = {}
    for place, target in enumerate(panel.targets):
        for one in _instant(server, panel, target, span):
            key = tuple(map(one.label, panel.key))
            rows.setdefault(key, [None] * len(panel.targets))[place] = one.last
    if not rows:
        return {}
    order = (lambda row: -(row[1][0] or 0)) if panel.largest_first else (lambda row: _in_order(panel.key, row[0]))
    columns = [{"name": one.legend, "unit": one.unit or panel.unit, "plain": bool(one.unit)} for one in panel.targets]
    ordered = sorted(rows.items(), key=order)
    return {
        "key": list(panel.key),
        "columns": columns,
        "rows": [{"key": list(key), "values": values} for key, values in ordered],
    }


def _in_order(names: Sequence[str], key: Sequence[str]) -> list[tuple[int, str]]:
    """What rows are sorted by: stages in the order of the path, all else by name."""
    return [(_ORDER.get(value, 0) if name == "stage" else 0, value) for name, value in zip(names, key, strict=True)]


def _lines(server: Prometheus, panel: Panel, span: PreviewScope) -> _Shown:
    found = [
        (legend(target, one.labels), one) for target in panel.targets for one in _range(server, panel, target, span)
    ]
    if not found:
        return {}
    times = sorted({at for _, one in found for at in one.points})
    series = [{"name": name, "values": [one.points.get(at) for at in times]} for name, one in found[:_MOST_SERIES]]
    return {
        "times": times,
        "series": series,
        "more": max(0, len(found) - _MOST_SERIES),
        "traces": _traces(server, panel, span),
    }


def _traces(server: Prometheus, panel: Panel, span: PreviewScope) -> list[_Shown]:
    found: dict[str, Exemplar] = {}
    for target in panel.targets:
        if target.exemplar and len(found) < _MOST_TRACES:
            for one in server.exemplars(span.filled(target.expr, panel), span.start, span.end):
                found.setdefault(one.trace_id, one)
    return [
        {"id": one.trace_id, "at": one.at, "about": one.labels.get("segment") or one.labels.get("service") or ""}
        for one in list(found.values())[:_MOST_TRACES]
    ]


def _heatmap(server: Prometheus, panel: Panel, span: PreviewScope) -> _Shown:
    (target,) = panel.targets
    buckets = {float(one.labels["le"]): one.points for one in _range(server, panel, target, span)}
    bounds = sorted(buckets)
    times = sorted({at for points in buckets.values() for at in points})
    cells = []
    for at in times:
        counts = [buckets[bound].get(at, 0.0) for bound in bounds]
        cells.append([max(0.0, here - below) for here, below in zip(counts, [0.0, *counts], strict=False)])
    if not any(map(sum, cells)):
        return {}
    return {"times": times, "bounds": [_finite(bound) for bound in bounds], "cells": cells}


def _finite(bound: float) -> float | None:
    return None if bound == float("inf") else bound


def _why_empty(panel: Panel, span: PreviewScope, names: frozenset[str]) -> str:
    asked = {name for target in panel.targets for name in _LIKE_METRIC.findall(target.expr)}
    missing = sorted(name for name in asked if name not in names)
    if missing:
        return f"This Prometheus has no series {', '.join(missing)}. {panel.empty}"
    if not asked:
        return panel.empty
    return f"No value {_chosen(span)}. {panel.empty}"


def _chosen(span: PreviewScope) -> str:
    patterns = {"service": span.service, "segment": span.segment, "stratum": span.stratum}
    chosen = [f"{name} {pattern}" for name, pattern in patterns.items() if pattern != ANY]
    start, end = (datetime.fromtimestamp(at, UTC) for at in (span.start, span.end))
    return f"for {', '.join(chosen)} from {start:%d %b %H:%M} to {end:%d %b %H:%M} UTC"


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


class _Finding(NamedTuple):
    """One sentence; `good` is None where nothing could be judged."""

    text: str
    good: bool | None


def least_bad_share(count: Count) -> float:
    """Lower bound of the share of bad requests: a few bad ones among few say little."""
    bad = min(count.requests, max(0.0, count.requests - count.good))
    return wilson(bad, count.requests)[0]


def releases(server: Prometheus, span: PreviewScope) -> list[Series]:
    """Releases within the span, oldest first, also while the exporter is away; their values are times in
    milliseconds."""
    found = server.query(span.filled(RELEASES, _ANY_PANEL), span.end)
    return sorted((one for one in found if one.last <= span.end * 1000), key=lambda one: one.last)


def findings(server: Prometheus, span: PreviewScope, rollouts: Iterable[Series]) -> list[_Finding]:
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
    return said or [_Finding("No request was scored in this time.", None)]


def _finding(
    server: Prometheus,
    span: PreviewScope,
    stage: StageInfo,
    key: _Judged,
    segments: list[str],
    text: str,
    releases: list[Series],
) -> _Finding:
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
            return _Finding(f"{then} Another judge has taken its place since.", None)
    if now.requests < _FEWEST or now.requests - now.good > (1 - stage.target) * now.requests:
        return _Finding(f"{text} {since}", False)
    again = datetime.fromtimestamp(recent.start, UTC)
    well = f"in {now.good / now.requests:.0%} of {now.requests:.0f} requests."
    return _Finding(f"{then} Since {again:%d %b %H:%M} UTC it meets its target again, {well}", None)


def _unbroken(counts: _Counts, services: list[str], has_unjudged: bool) -> _Finding:
    """What to say where nothing fails; a service with few requests is not called good."""
    most = dict.fromkeys(services, 0.0)
    for key, judged in counts.items():
        most[key.service] = max(most[key.service], _sum(judged, judged).requests)
    few = [_shown_value(service) for service in services if most[service] < _FEWEST]
    if len(few) == len(services):
        return _Finding(f"Fewer than {_FEWEST} requests were judged in this time: too few to tell.", None)
    stages = "Every stage that can be judged" if has_unjudged else "Every stage"
    where = "in every segment" if len(services) == 1 else "in every segment of every service"
    if not few:
        return _Finding(f"{stages} meets its target, {where}.", True)
    unknown = f"Too few requests were judged to tell of {_listed(few)}"
    return _Finding(f"{stages} meets its target, {where} that can be judged. {unknown}.", True)


def _not_judged(service: str, services: list[str], stages: Mapping[str, str]) -> _Finding:
    """A service of which next to nothing can be judged, and why."""
    whose = f" of {_shown_value(service)}" if len(services) > 1 else ""
    reasons = ", ".join(f"{stage} ({why})" for stage, why in stages.items())
    return _Finding(
        f"Next to nothing can be judged{whose}: {reasons}. `ragtrace doctor` says what would change it.", None
    )


def _hardly_judged(server: Prometheus, span: PreviewScope) -> dict[str, dict[str, str]]:
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


def _reasons(server: Prometheus, span: PreviewScope) -> dict[tuple[str, str], dict[str, float]]:
    """By service and stage, how many requests have each state and reason, and how many are judged (""). Of several
    judges the one with most requests tells."""
    by = ("service", "stage", "judge", "state", "reason")
    counts: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for one in server.query(span.filled(gained(APPLIES, *by, scope="all"), _ANY_PANEL), span.end):
        service, stage, judge, state, reason = map(one.label, by)
        words = f"{state}: {reason}".replace("_", " ") if state else ""
        counts[service, stage][judge][words] = one.last
    return {key: max(judges.values(), key=lambda reasons: sum(reasons.values())) for key, judges in counts.items()}


def _counts(server: Prometheus, span: PreviewScope) -> _Counts:
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
    names = _listed([_shown_value(each) for each in segments])
    where = "everywhere" if everywhere else f"in {len(segments)} of {len(by_segment)} segments ({names})"
    whose = "" if everywhere else "their "
    service = f" of {_shown_value(key.service)}" if len(services) > 1 else ""
    judges = {other.judge for other in counts if other[:3] == key[:3]}
    judge = f" by judge {key.judge}" if len(judges) > 1 else ""
    return (
        f"{stage.name.capitalize()}{service} is failing {where}{judge}: it is sound in "
        f"{total.good / total.requests:.0%} of {whose}{total.requests:.0f} requests that can be judged "
        f"(target {stage.target:.0%})."
    )


def _shown_value(label: str) -> str:
    """A label's value within a sentence."""
    return label or "the one without a name"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")


def _since(
    server: Prometheus, span: PreviewScope, stage: StageInfo, key: _Judged, segments: list[str], releases: list[Series]
) -> str:
    """The release of the service's components of the stage after which its share fell most."""
    own = [
        release
        for release in releases
        if release.label("service") == key.service
        and release.label("component") in stage.components
        and span.start < release.last / 1000 < span.end
    ]
    if not own:
        return "No release of its components is known in this time."
    falls: list[tuple[float, str]] = []
    for release in own:
        near = [other for other in own if abs(other.last - release.last) <= 1000 * _TOGETHER * span.scrape]
        together = {other.label("component"): other for other in near}.values()  # the newest version of each
        moment = release.last / 1000
        halves = (span._replace(end=moment), span._replace(start=moment))
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
