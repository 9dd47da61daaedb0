"""Every dashboard read from a live Prometheus, in one HTML file that a browser examines: the tests look at each query
and each panel through it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from ragtrace.dashboards._panels import COLORS, Dashboard, Panel, Target
from ragtrace.dashboards._promql import ANY, RELEASES, TRACE_URL
from ragtrace.dashboards.contents import DASHBOARDS
from ragtrace.html_page import embedded, standalone, tag
from ragtrace.registry.instruments import ATTRIBUTES, STAGES
from tests.dashboards.prometheus_client import Exemplar, PreviewScope, Prometheus, Series

__all__ = ["preview", "read", "releases"]

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
            "releases": [_release(each) for each in rollouts],
            "dashboards": read(server, dashboards, span),
        }
    )


def page(data: dict[str, Any]) -> str:
    """The file that shows `data`, which `preview` reads from a server."""
    return standalone(
        "ragtrace dashboards",
        _asset("uplot", "uPlot.min.css") + _asset("preview.css"),
        tag("noscript", _NO_SCRIPT),
        embedded("data", data),
        scripts=(_asset("uplot", "uPlot.iife.min.js"), _asset("preview.js")),
    )


def _asset(*names: str) -> str:
    return Path(__file__).parent.joinpath("page", *names).read_text("utf-8")


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


def releases(server: Prometheus, span: PreviewScope) -> list[Series]:
    """Releases within the span, oldest first, also while the exporter is away; their values are times in
    milliseconds."""
    found = server.query(span.filled(RELEASES, _ANY_PANEL), span.end)
    return sorted((one for one in found if one.last <= span.end * 1000), key=lambda one: one.last)
