"""The plots of an alignment report, as SVG files by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence

from ragtrace.analyze.alignment_report import AlignmentReport, Basis, Curve, Estimate, Measured, Row
from ragtrace.analyze.alignment_report import Point as Budget
from ragtrace.export.alignment_text import named, names_of, sample_of
from ragtrace.export.charts import DotRow, Level, Point, Series, dot_chart, line_chart

__all__ = ["plots"]

_CHANCE = "random order"
_FLOOR = "equal rankings"
_INTERVALS = "Bars: 95 % bootstrap intervals over requests"


def plots(report: AlignmentReport) -> dict[str, str]:
    """SVG by file name; what has no data has no plot."""
    return {
        **_failures(report.rates, report.basis),
        **_sweeps(report.rates, report.basis),
        **_stability(report.stability),
        **_overlap(report),
        **_pos(report),
    }


def _failures(rows: Sequence[Row], basis: Basis) -> dict[str, str]:
    if not rows:
        return {}
    shown = [
        DotRow(
            label=named(row.group),
            dots=(_dot(row.wasted_retrieval.estimate, 100), _dot(row.noise_distraction.estimate, 100)),
            marks=(_percent(row.wasted_retrieval), _percent(row.noise_distraction)),
        )
        for row in rows
    ]
    chart = dot_chart(
        "Failure rates",
        (sample_of(basis), _INTERVALS),
        x_label="requests with the failure (%)",
        names=("wasted retrieval", "noise distraction"),
        marks=_CHANCE,
        rows=shown,
        x_max=100,
    )
    return {"failure_rates.svg": chart}


def _percent(measured: Measured) -> float | None:
    return None if measured.chance is None else 100 * measured.chance


def _dot(estimate: Estimate | None, scale: float = 1.0) -> Point | None:
    if estimate is None:
        return None
    ends = [None if end is None else end * scale for end in (estimate.low, estimate.high)]
    return Point(0, estimate.mean * scale, *ends)


def _sweeps(rows: Sequence[Row], basis: Basis) -> dict[str, str]:
    """A plot for each model and number of documents: values compare at equal k only."""
    by: defaultdict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row.group.segment is None and row.group.k is not None and row.sweep[0].warg.estimate is not None:
            by[row.group.model, row.group.attributed_by, row.group.k].append(row)
    return {
        f"warg_{_slug(model)}_{_slug(scorer)}_k{k}.svg" if scorer != model else f"warg_{_slug(model)}_k{k}.svg": _sweep(
            members, basis
        )
        for (model, scorer, k), members in by.items()
    }


def _sweep(rows: Sequence[Row], basis: Basis) -> str:
    group, first = rows[0].group, rows[0].sweep
    ps = [each.p for each in first]
    series = [
        Series(
            f"{row.group.condition} (n = {row.requests})",
            tuple(_at(each.p, each.warg.estimate) for each in row.sweep if each.warg.estimate is not None),
        )
        for row in rows
    ]
    levels = [
        Level(_CHANCE, tuple((each.p, each.warg.chance) for each in first if each.warg.chance is not None)),
        Level(_FLOOR, tuple((each.p, each.warg.floor) for each in first if each.warg.floor is not None), "2 4"),
    ]
    return line_chart(
        f"WARG of {names_of(group)}, k = {group.k} documents",
        (sample_of(basis), _INTERVALS),
        x_label="p (weight of deeper ranks)",
        y_label="WARG (1 - RBO)",
        series=series,
        levels=levels,
        x_ticks=[(p, f"{p:g}") for p in ps],
        y_range=(0.0, 1.0),
    )


def _at(x: float, estimate: Estimate) -> Point:
    return Point(x, estimate.mean, estimate.low, estimate.high)


def _stability(found: Sequence[Curve]) -> dict[str, str]:
    by: defaultdict[tuple[str, int, bool], list[Curve]] = defaultdict(list)
    for curve in (each for each in found if len(each.points) > 1):
        by[curve.model, curve.k, curve.exact_reference].append(curve)
    charts = {}
    for (model, k, is_exact), members in by.items():
        name = f"{_slug(model)}_k{k}" + ("" if is_exact else "_inexact")
        charts[f"stability_top1_{name}.svg"] = _settling(
            members, "Same first document", "share of requests", lambda point: point.first, (0.0, 1.0), 1 / k
        )
        charts[f"stability_ranking_{name}.svg"] = _settling(
            members, "Same ranking", "Spearman's correlation", lambda point: point.ranking, None, 0.0
        )
        charts[f"stability_warg_{name}.svg"] = _settling(
            members, "Error of WARG at p = 0.9", "|WARG - reference|", lambda point: point.warg_error, None, None
        )
    return charts


def _settling(
    members: Sequence[Curve],
    title: str,
    y_label: str,
    of: Callable[[Budget], Estimate],
    y_range: tuple[float, float] | None,
    chance: float | None,
) -> str:
    first = members[0]
    budgets = sorted({point.budget for curve in members for point in curve.points})
    reference = "exact values" if first.exact_reference else "the estimate at the largest budget"
    levels = [] if chance is None else [Level(_CHANCE, ((budgets[0], chance), (budgets[-1], chance)))]
    return line_chart(
        f"{title} as the budget grows: {first.model}, k = {first.k} documents",
        (f"Against {reference}; n = {first.requests} requests drawn at random", _INTERVALS),
        x_label=f"budget (prompts scored; exact: {2**first.k})",
        y_label=y_label,
        series=[Series(each.method, tuple(_at(point.budget, of(point)) for point in each.points)) for each in members],
        levels=levels,
        x_ticks=[(budget, str(budget)) for budget in budgets],
        y_range=y_range,
        log_x=True,
    )


def _overlap(report: AlignmentReport) -> dict[str, str]:
    if not report.overlap:
        return {}
    rows = [
        DotRow(
            label=f"{each.model} · {each.condition}",
            dots=(_dot(each.overlap, 100), _dot(each.found, 100)),
            marks=(100 * each.at_random.mean, None),
        )
        for each in report.overlap
    ]
    chart = dot_chart(
        "Query words among the strongest half of a document's words",
        (sample_of(report.words_basis), _INTERVALS),
        x_label="share (%)",
        names=("of these words, in the query", "of the query's words, found there"),
        marks="half of the words at random",
        rows=rows,
        x_max=100,
    )
    return {"token_overlap.svg": chart}


def _pos(report: AlignmentReport) -> dict[str, str]:
    by: defaultdict[tuple[str, str, str, bool], list[DotRow]] = defaultdict(list)
    for each in report.pos:
        row = DotRow(each.tag, (_dot(each.mass, 100),), (100 * each.of_words.mean,))
        by[each.model, each.condition, each.side, each.is_pair].append(row)
    return {
        f"pos_{_slug(model)}_{_slug(condition)}_{side}_{'pairs' if is_pair else 'tags'}.svg": dot_chart(
            f"Attribution by part of speech{' of neighbors' if is_pair else ''}: {model}, {side}, {condition}",
            (f"Strongest 30 % of words; {sample_of(report.words_basis)}", _INTERVALS),
            x_label="share of attribution mass (%)",
            names=("share of attribution mass",),
            marks="share of all pairs" if is_pair else "share of all words",
            rows=rows,
        )
        for (model, condition, side, is_pair), rows in by.items()
    }


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.") or "model"
