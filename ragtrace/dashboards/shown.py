"""What a preview shows of each panel: its values from a live Prometheus, or the reason why there are none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from ragtrace.dashboards.model import Dashboard, Panel, Target
from ragtrace.dashboards.prometheus import Exemplar, Prometheus, Series
from ragtrace.dashboards.span import Span
from ragtrace.dashboards.variables import ANY
from ragtrace.registry.instruments import INSTRUMENTS

__all__ = ["legend", "read"]

_MOST_SERIES: Final = 16
_MOST_TRACES: Final = 4
_FIELD: Final = re.compile(r"\{\{(\w+)\}\}")
_COMMANDS: Final = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_NAMES: Final = {instrument.name: instrument for instrument in INSTRUMENTS.values()}
_LIKE_METRIC: Final = re.compile(r"\bragtrace_\w+")

Shown = dict[str, Any]


def read(server: Prometheus, dashboards: Iterable[Dashboard], span: Span) -> list[Shown]:
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


def _panel(server: Prometheus, panel: Panel, span: Span, names: frozenset[str]) -> Shown:
    shown: Shown = msgspec.to_builtins(panel)
    for unused in ("targets", "key", "links", "least_step", "text", "newest_first"):
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


def _instant(server: Prometheus, panel: Panel, target: Target, span: Span) -> list[Series]:
    return server.query(span.filled(target.expr, panel), span.end)


def _range(server: Prometheus, panel: Panel, target: Target, span: Span) -> list[Series]:
    return server.query_range(span.filled(target.expr, panel), span.start, span.end, span.step(panel))


def _stat(server: Prometheus, panel: Panel, span: Span) -> Shown:
    found = [(target, one) for target in panel.targets for one in _instant(server, panel, target, span)]
    return {"stats": [{"name": legend(target, one.labels), "value": one.last} for target, one in found]}


def _table(server: Prometheus, panel: Panel, span: Span) -> Shown:
    rows: dict[tuple[str, ...], list[float | None]] = {}
    for place, target in enumerate(panel.targets):
        for one in _instant(server, panel, target, span):
            key = tuple(map(one.label, panel.key))
            rows.setdefault(key, [None] * len(panel.targets))[place] = one.last
    if not rows:
        return {}
    order = (lambda row: -(row[1][0] or 0)) if panel.newest_first else (lambda row: row[0])
    columns = [{"name": one.legend, "unit": one.unit or panel.unit, "plain": bool(one.unit)} for one in panel.targets]
    ordered = sorted(rows.items(), key=order)
    return {
        "key": list(panel.key),
        "columns": columns,
        "rows": [{"key": list(key), "values": values} for key, values in ordered],
    }


def _lines(server: Prometheus, panel: Panel, span: Span) -> Shown:
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


def _traces(server: Prometheus, panel: Panel, span: Span) -> list[Shown]:
    found: dict[str, Exemplar] = {}
    for target in panel.targets:
        if target.exemplar and len(found) < _MOST_TRACES:
            for one in server.exemplars(span.filled(target.expr, panel), span.start, span.end):
                found.setdefault(one.trace_id, one)
    return [
        {"id": one.trace_id, "at": one.at, "about": one.labels.get("segment") or one.labels.get("service") or ""}
        for one in list(found.values())[:_MOST_TRACES]
    ]


def _heatmap(server: Prometheus, panel: Panel, span: Span) -> Shown:
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


def _why_empty(panel: Panel, span: Span, names: frozenset[str]) -> str:
    asked = {name for target in panel.targets for name in _LIKE_METRIC.findall(target.expr)}
    missing = sorted(name for name in asked if name not in names)
    if missing:
        return f"This Prometheus has no series {', '.join(missing)}. {panel.empty}"
    if not asked:
        return panel.empty
    return f"No value {_chosen(span)}. {panel.empty}"


def _chosen(span: Span) -> str:
    patterns = {"service": span.service, "segment": span.segment, "stratum": span.stratum}
    chosen = [f"{name} {pattern}" for name, pattern in patterns.items() if pattern != ANY]
    start, end = (datetime.fromtimestamp(at, UTC) for at in (span.start, span.end))
    return f"for {', '.join(chosen)} from {start:%d %b %H:%M} to {end:%d %b %H:%M} UTC"
