"""An alignment report as tables of text, each with what it speaks of and what it does not, and as plots (SVG)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ragtrace.analyze.alignment_report import (
    AgainstChance,
    AlignmentReport,
    Basis,
    Group,
    GroupRates,
    MassShare,
    Overlap,
    PlaceShares,
    StabilityCurve,
    StabilityPoint as Budget,
    WeightedMean,
)
from ragtrace.export.charts import DotRow, Line, Point, ReferenceLine, dot_chart, line_chart

__all__ = ["ReportTable", "plots", "sections"]

_NOTHING = "-"
_CHANCE = "random order"
_FLOOR = "equal rankings"
_FEW: Final = 30
_INTERVALS = "Bars: 95 % bootstrap intervals over requests"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table under a title, with remarks."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


def sections(report: AlignmentReport) -> list[ReportTable]:
    """The report from its failure rates to its parts of speech; a part without data says why."""
    found = [_failures(report), _sweep(report), _places(report)] if report.rates else [_no_rates(report.basis)]
    if report.stability_basis is not None:
        found.append(_stability(report.stability, report.stability_basis))
    found.append(_overlap(report.overlap, report.words_basis))
    if report.pipeline is not None:
        found.append(_pos(report.pos, report.pipeline, report.words_basis))
    return found


def _sample_of(basis: Basis) -> str:
    """The requests that a number speaks of."""
    noun = "request" if basis.requests == 1 else "requests"
    how = "scored now" if basis.source == "rescored" else "stored explanations"
    if basis.stratum == "random":
        return f"{basis.requests} {noun} drawn at random, weighted by inverse probability ({how})"
    return f"{basis.requests} {noun} that flags had explained, which speak for no others ({how})"


def _names_of(group: Group) -> str:
    """What answered, and by which model its use of documents was measured, where that is another one."""
    return group.model if group.model == group.attributed_by else f"{group.model} (by {group.attributed_by})"


def _name_of(group: Group) -> str:
    """A group in one line."""
    segment = f" · {group.segment}" if group.segment is not None else ""
    return f"{_names_of(group)} · {group.condition}{segment} · k {_ks(group)}"


def _ks(group: Group) -> str:
    return str(group.k) if group.k is not None else f"{group.ks[0]}-{group.ks[-1]} mixed"


def _group_cells(row: GroupRates) -> tuple[str, ...]:
    group = row.group
    return (_names_of(group), group.condition, group.segment or "all", _ks(group), str(row.requests))


def _no_rates(basis: Basis) -> ReportTable:
    if basis.left_out:
        other = "by flags" if basis.stratum == "random" else "at random"
        hint = "--stratum flagged shows them" if basis.stratum == "random" else "--stratum random shows them"
        why = f"none of the explained requests were chosen {'at random' if basis.stratum == 'random' else 'by flags'}"
        first = f"{why}; {basis.left_out} were chosen {other} ({hint})"
    elif basis.source == "rescored":
        first = "no request of the random stratum could be scored"
    else:
        first = "no request has a stored explanation of what its answer used"
    remedy = (
        "ragtrace analyze --generator MODEL explains requests, ragtrace align report --generator MODEL scores some now"
    )
    return ReportTable("Failure rates and WARG", notes=(f"{first}; {remedy}", *_skipped(basis)))


def _skipped(basis: Basis) -> list[str]:
    return [f"{count} without: {reason}" for reason, count in basis.skipped.items()]


def _remarks(basis: Basis) -> list[str]:
    notes = [f"{_sample_of(basis)}; 95 % bootstrap intervals over requests"]
    if basis.left_out:
        notes.append(f"{basis.left_out} explained requests of the other stratum are left out")
    if basis.requests < _FEW:
        notes.append(_more(basis))
    return notes + _skipped(basis)


def _more(basis: Basis) -> str:
    """How there would be more requests."""
    few = f"fewer than {_FEW} requests: intervals are wide"
    if basis.source == "rescored":
        return f"{few}; a larger --limit scores more"
    if basis.stratum == "flagged":
        return f"{few}; ragtrace analyze --explain FLAG=generator,... explains more of what is flagged"
    others = "; --stratum flagged shows those that flags had explained" if basis.left_out else ""
    return f"{few}; ragtrace analyze --explain-rate explains a larger share of the sampled requests{others}"


def _places(report: AlignmentReport) -> ReportTable:
    columns = ("model", "condition", "k", "requests", *(f"place {place}" for place in _place_numbers(report.places)))
    rows = tuple(
        (
            _names_of(each.group),
            each.group.condition,
            _ks(each.group),
            str(each.places[0].requests),
            *map(_shown, each.places),
            *[_NOTHING] * (len(columns) - 4 - len(each.places)),
        )
        for each in report.places
    )
    note = "the mean share of the document in each place of the prompt, in nats per token (a server's chat: likeness)"
    compare = "--conditions original,shuffled tells whether the place or the document is used"
    return ReportTable("Share of the answer by place in the prompt", columns, rows, (note, compare))


def _place_numbers(places: Sequence[PlaceShares]) -> range:
    return range(1, 1 + max((len(each.places) for each in places), default=0))


def _failures(report: AlignmentReport) -> ReportTable:
    columns = (
        "model",
        "condition",
        "segment",
        "k",
        "requests",
        "wasted retrieval",
        "chance",
        "noise distraction",
        "chance",
    )
    rows = tuple(
        (*_group_cells(row), *_rate(row.wasted_retrieval, row.requests), *_rate(row.noise_distraction, row.requests))
        for row in report.rates
    )
    notes = _remarks(report.basis)
    if any(row.wasted_retrieval.estimate is None for row in report.rates):
        notes.append("undefined: with three documents or fewer none can be ranked low")
    flags = [each.estimate for row in report.rates for each in (row.wasted_retrieval, row.noise_distraction)]
    if any(each is not None and each.requests > 1 and each.low == each.high for each in flags):
        notes.append(
            "the interval of a rate of 0 % or 100 % has no width, which says too much: mind the number of requests"
        )
    if _has_no_duplicates(report.rates):
        notes.append("deduplicated is the same as original: no prompt holds two documents with the same text")
    return ReportTable("Failure rates", columns, rows, tuple(notes))


def _has_no_duplicates(rates: Sequence[GroupRates]) -> bool:
    """Whether deduplication left every k as it was."""
    sizes: dict[str, list[tuple[Group, int]]] = {"original": [], "deduplicated": []}
    for row in rates:
        if row.group.condition in sizes:
            sizes[row.group.condition].append((replace(row.group, condition=""), row.requests))
    return bool(sizes["deduplicated"]) and sizes["deduplicated"] == sizes["original"]


def _rate(measured: AgainstChance, requests: int) -> tuple[str, str]:
    if measured.estimate is None:
        return "undefined", _NOTHING
    of = f" of {measured.estimate.requests}" if measured.estimate.requests < requests else ""
    return f"{_percent(measured.estimate)}{of}", f"{100 * (measured.chance or 0):.0f} %"


def _percent(estimate: WeightedMean) -> str:
    ends = (
        ""
        if estimate.low is None or estimate.high is None
        else f" [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"
    )
    return f"{100 * estimate.mean:.0f} %{ends}"


def _sweep(report: AlignmentReport) -> ReportTable:
    columns = ("model", "condition", "segment", "k", "requests", "Spearman", "p", "WARG", "floor", "chance", "adjusted")
    rows: list[tuple[str, ...]] = []
    for row in report.rates:
        for place, each in enumerate(row.sweep):
            correlation = row.spearman.estimate
            head = (*_group_cells(row), _shown(correlation) if correlation else "undefined") if not place else ("",) * 6
            if each.warg.estimate is None or each.adjusted.estimate is None:
                rows.append((*head, f"{each.p:g}", "undefined", _NOTHING, _NOTHING, "undefined"))
                continue
            levels = (_number(each.warg.floor), _number(each.warg.chance))
            rows.append((*head, f"{each.p:g}", _shown(each.warg.estimate), *levels, _shown(each.adjusted.estimate)))
    notes = [
        "WARG: weighted attribution-relevance gap between the retriever's ranking and what the answer used",
        "floor: equal rankings; chance: a random order; adjusted: 0 at the floor, 1 at chance, the only one that "
        "compares between different k or p",
        "Spearman: correlation of the two rankings; 1 equal, 0 a random order",
    ]
    if any(row.group.k is None for row in report.rates):
        notes.append("mixed: several numbers of documents together, beside the floor and chance of that mixture")
    return ReportTable("WARG", columns, tuple(rows), tuple(notes))


def _shown(estimate: WeightedMean) -> str:
    ends = (
        "" if estimate.low is None or estimate.high is None else f" [{_number(estimate.low)}, {_number(estimate.high)}]"
    )
    return f"{_number(estimate.mean)}{ends}"


def _number(value: float | None) -> str:
    """With three digits; what differs by the rounding of a mean alone is shown alike."""
    return _NOTHING if value is None else f"{round(value, 9):.3f}"


def _stability(found: Sequence[StabilityCurve], basis: Basis) -> ReportTable:
    title = "Stability of the estimates as their budget grows"
    if not found:
        return ReportTable(title, notes=("no request could be scored with several budgets", *_skipped(basis)))
    columns = ("model", "estimator", "k", "requests", "prompts", "same first", "Spearman", "WARG off by (p 0.9)")
    rows: list[tuple[str, ...]] = []
    for curve in found:
        head = (curve.model, curve.method, str(curve.k), str(curve.requests))
        for place, each in enumerate(curve.points):
            cells = (str(each.budget), _percent(each.first), _shown(each.ranking), _shown(each.warg_error))
            rows.append((*(head if not place else ("",) * 4), *cells))
    notes = ["reference: exact values of all 2^k subsets", *_remarks(basis)]
    if not all(curve.exact_reference for curve in found):
        notes[0] += "; where those are too many, the same estimator at the largest budget, which flatters it"
    return ReportTable(title, columns, tuple(rows), tuple(notes))


def _overlap(overlaps: Sequence[Overlap], basis: Basis) -> ReportTable:
    title = "Query words among the strongest half of the words of retrieved documents"
    if not overlaps:
        hint = "no retrieval was explained; --retriever MODEL explains that of some requests now"
        return ReportTable(title, notes=(hint, *_skipped(basis)))
    columns = ("retriever", "condition", "requests", "documents", "in the query", "at random", "of the query found")
    rows = tuple(
        (
            overlap.model,
            overlap.condition,
            str(overlap.requests),
            str(overlap.documents),
            _percent(overlap.overlap),
            f"{100 * overlap.at_random.mean:.0f} %",
            _percent(overlap.found),
        )
        for overlap in overlaps
    )
    return ReportTable(title, columns, rows, tuple(_remarks(basis)))


def _pos(shares: Sequence[MassShare], pipeline: str, basis: Basis) -> ReportTable:
    title = f"Attribution mass of the strongest 30 % of words by part of speech ({pipeline})"
    if not shares:
        return ReportTable(title, notes=("no retrieval was explained", *_skipped(basis)))
    columns = ("retriever", "condition", "side", "tag", "share of mass", "of all words")
    rows = tuple(
        (
            share.model,
            share.condition,
            share.side,
            share.tag,
            _percent(share.mass),
            f"{100 * share.of_words.mean:.0f} %",
        )
        for share in shares
    )
    return ReportTable(title, columns, rows, tuple(_remarks(basis)))


def plots(report: AlignmentReport) -> dict[str, str]:
    """SVG by file name; what has no data has no plot."""
    return {
        **_failure_plots(report.rates, report.basis),
        **_sweep_plots(report.rates, report.basis),
        **_place_plots(report.places, report.basis),
        **_stability_plots(report.stability),
        **_overlap_plots(report),
        **_pos_plots(report),
    }


def _failure_plots(rows: Sequence[GroupRates], basis: Basis) -> dict[str, str]:
    if not rows:
        return {}
    shown = [
        DotRow(
            label=_name_of(row.group),
            dots=(_dot(row.wasted_retrieval.estimate, 100), _dot(row.noise_distraction.estimate, 100)),
            marks=(_plotted_percent(row.wasted_retrieval), _plotted_percent(row.noise_distraction)),
        )
        for row in rows
    ]
    chart = dot_chart(
        "Failure rates",
        (_sample_of(basis), _INTERVALS),
        x_label="requests with the failure (%)",
        names=("wasted retrieval", "noise distraction"),
        marks=_CHANCE,
        rows=shown,
        x_max=100,
    )
    return {"failure_rates.svg": chart}


def _plotted_percent(measured: AgainstChance) -> float | None:
    return None if measured.chance is None else 100 * measured.chance


def _dot(estimate: WeightedMean | None, scale: float = 1.0) -> Point | None:
    if estimate is None:
        return None
    ends = [None if end is None else end * scale for end in (estimate.low, estimate.high)]
    return Point(0, estimate.mean * scale, *ends)


def _sweep_plots(rows: Sequence[GroupRates], basis: Basis) -> dict[str, str]:
    """A plot for each model and number of documents: values compare at equal k only."""
    by: defaultdict[tuple[str, str, int], list[GroupRates]] = defaultdict(list)
    for row in rows:
        if row.group.segment is None and row.group.k is not None and row.sweep[0].warg.estimate is not None:
            by[row.group.model, row.group.attributed_by, row.group.k].append(row)
    return {
        f"warg_{_slug(model)}_{_slug(scorer)}_k{k}.svg"
        if scorer != model
        else f"warg_{_slug(model)}_k{k}.svg": _sweep_plot(members, basis)
        for (model, scorer, k), members in by.items()
    }


def _sweep_plot(rows: Sequence[GroupRates], basis: Basis) -> str:
    group, first = rows[0].group, rows[0].sweep
    ps = [point.p for point in first]
    series = [
        Line(
            f"{row.group.condition} (n = {row.requests})",
            tuple(_at(point.p, point.warg.estimate) for point in row.sweep if point.warg.estimate is not None),
        )
        for row in rows
    ]
    levels = [
        ReferenceLine(_CHANCE, tuple((point.p, point.warg.chance) for point in first if point.warg.chance is not None)),
        ReferenceLine(
            _FLOOR, tuple((point.p, point.warg.floor) for point in first if point.warg.floor is not None), "2 4"
        ),
    ]
    return line_chart(
        f"WARG of {_names_of(group)}, k = {group.k} documents",
        (_sample_of(basis), _INTERVALS),
        x_label="p (weight of deeper ranks)",
        y_label="WARG (1 - RBO)",
        series=series,
        levels=levels,
        x_ticks=[(p, f"{p:g}") for p in ps],
        y_range=(0.0, 1.0),
    )


def _place_plots(found: Sequence[PlaceShares], basis: Basis) -> dict[str, str]:
    """A plot for each model and number of documents, a line for each condition."""
    by: defaultdict[tuple[str, int], list[PlaceShares]] = defaultdict(list)
    for each in found:
        if len(each.places) > 1:
            by[_names_of(each.group), len(each.places)].append(each)
    return {
        f"places_{_slug(names)}_k{k}.svg": line_chart(
            f"Share of the answer by place: {names}, k = {k} documents",
            (_sample_of(basis), _INTERVALS),
            x_label="place in the prompt",
            y_label="mean share (nats per token)",
            series=[
                Line(
                    f"{each.group.condition} (n = {each.places[0].requests})",
                    tuple(_at(place, mean) for place, mean in enumerate(each.places, 1)),
                )
                for each in members
            ],
            x_ticks=[(place, str(place)) for place in range(1, k + 1)],
        )
        for (names, k), members in by.items()
    }


def _at(x: float, estimate: WeightedMean) -> Point:
    return Point(x, estimate.mean, estimate.low, estimate.high)


def _stability_plots(found: Sequence[StabilityCurve]) -> dict[str, str]:
    by: defaultdict[tuple[str, int, bool], list[StabilityCurve]] = defaultdict(list)
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
    members: Sequence[StabilityCurve],
    title: str,
    y_label: str,
    of: Callable[[Budget], WeightedMean],
    y_range: tuple[float, float] | None,
    chance: float | None,
) -> str:
    first = members[0]
    budgets = sorted({point.budget for curve in members for point in curve.points})
    reference = "exact values" if first.exact_reference else "the estimate at the largest budget"
    levels = [] if chance is None else [ReferenceLine(_CHANCE, ((budgets[0], chance), (budgets[-1], chance)))]
    return line_chart(
        f"{title} as the budget grows: {first.model}, k = {first.k} documents",
        (f"Against {reference}; n = {first.requests} requests drawn at random", _INTERVALS),
        x_label=f"budget (prompts scored; exact: {2**first.k})",
        y_label=y_label,
        series=[Line(each.method, tuple(_at(point.budget, of(point)) for point in each.points)) for each in members],
        levels=levels,
        x_ticks=[(budget, str(budget)) for budget in budgets],
        y_range=y_range,
        log_x=True,
    )


def _overlap_plots(report: AlignmentReport) -> dict[str, str]:
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
        (_sample_of(report.words_basis), _INTERVALS),
        x_label="share (%)",
        names=("of these words, in the query", "of the query's words, found there"),
        marks="half of the words at random",
        rows=rows,
        x_max=100,
    )
    return {"token_overlap.svg": chart}


def _pos_plots(report: AlignmentReport) -> dict[str, str]:
    by: defaultdict[tuple[str, str, str, bool], list[DotRow]] = defaultdict(list)
    for each in report.pos:
        row = DotRow(each.tag, (_dot(each.mass, 100),), (100 * each.of_words.mean,))
        by[each.model, each.condition, each.side, each.is_pair].append(row)
    return {
        f"pos_{_slug(model)}_{_slug(condition)}_{side}_{'pairs' if is_pair else 'tags'}.svg": dot_chart(
            f"Attribution by part of speech{' of neighbors' if is_pair else ''}: {model}, {side}, {condition}",
            (f"Strongest 30 % of words; {_sample_of(report.words_basis)}", _INTERVALS),
            x_label="share of attribution mass (%)",
            names=("share of attribution mass",),
            marks="share of all pairs" if is_pair else "share of all words",
            rows=rows,
        )
        for (model, condition, side, is_pair), rows in by.items()
    }


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.") or "model"
