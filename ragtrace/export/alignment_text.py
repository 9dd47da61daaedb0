"""An alignment report as tables of text, each with what it speaks of and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragtrace.analyze.alignment_report import (
    AlignmentReport,
    Basis,
    Curve,
    Estimate,
    Group,
    Measured,
    Overlap,
    Row,
    Share,
)

__all__ = ["Section", "named", "names_of", "sample_of", "sections"]

_NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Section:
    """A table under a title, with remarks."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


def sections(report: AlignmentReport) -> list[Section]:
    """The report from its failure rates to its parts of speech; a part without data says why."""
    found = [_failures(report), _sweep(report)] if report.rates else [_no_rates(report.basis)]
    if report.stability_basis is not None:
        found.append(_stability(report.stability, report.stability_basis))
    found.append(_overlap(report.overlap, report.words_basis))
    if report.pipeline is not None:
        found.append(_pos(report.pos, report.pipeline, report.words_basis))
    return found


def sample_of(basis: Basis) -> str:
    """The requests that a number speaks of."""
    noun = "request" if basis.requests == 1 else "requests"
    how = "scored now" if basis.source == "rescored" else "stored explanations"
    if basis.stratum == "random":
        return f"{basis.requests} {noun} drawn at random, weighted by inverse probability ({how})"
    return f"{basis.requests} {noun} that flags had explained, which speak for no others ({how})"


def names_of(group: Group) -> str:
    """What answered, and by which model its use of documents was measured, where that is another one."""
    return group.model if group.model == group.attributed_by else f"{group.model} (by {group.attributed_by})"


def named(group: Group) -> str:
    """A group in one line."""
    segment = f" · {group.segment}" if group.segment is not None else ""
    return f"{names_of(group)} · {group.condition}{segment} · k {_ks(group)}"


def _ks(group: Group) -> str:
    return str(group.k) if group.k is not None else f"{group.ks[0]}-{group.ks[-1]} mixed"


def _group_cells(row: Row) -> tuple[str, ...]:
    group = row.group
    return (names_of(group), group.condition, group.segment or "all", _ks(group), str(row.requests))


def _no_rates(basis: Basis) -> Section:
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
    return Section("Failure rates and WARG", notes=(f"{first}; {remedy}", *_skipped(basis)))


def _skipped(basis: Basis) -> list[str]:
    return [f"{count} without: {reason}" for reason, count in basis.skipped.items()]


def _remarks(basis: Basis) -> list[str]:
    notes = [f"{sample_of(basis)}; 95 % bootstrap intervals over requests"]
    if basis.left_out:
        notes.append(f"{basis.left_out} explained requests of the other stratum are left out")
    return notes + _skipped(basis)


def _failures(report: AlignmentReport) -> Section:
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
    return Section("Failure rates", columns, rows, tuple(notes))


def _has_no_duplicates(rates: Sequence[Row]) -> bool:
    """Whether deduplication left every k as it was."""
    sizes: dict[str, list[tuple[Group, int]]] = {"original": [], "deduplicated": []}
    for row in rates:
        if row.group.condition in sizes:
            sizes[row.group.condition].append((replace(row.group, condition=""), row.requests))
    return bool(sizes["deduplicated"]) and sizes["deduplicated"] == sizes["original"]


def _rate(measured: Measured, requests: int) -> tuple[str, str]:
    if measured.estimate is None:
        return "undefined", _NOTHING
    of = f" of {measured.estimate.requests}" if measured.estimate.requests < requests else ""
    return f"{_percent(measured.estimate)}{of}", f"{100 * (measured.chance or 0):.0f} %"


def _percent(estimate: Estimate) -> str:
    ends = (
        ""
        if estimate.low is None or estimate.high is None
        else f" [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"
    )
    return f"{100 * estimate.mean:.0f} %{ends}"


def _sweep(report: AlignmentReport) -> Section:
    columns = ("model", "condition", "segment", "k", "requests", "p", "WARG", "floor", "chance", "adjusted")
    rows: list[tuple[str, ...]] = []
    for row in report.rates:
        for place, each in enumerate(row.sweep):
            head = _group_cells(row) if not place else ("",) * 5
            if each.warg.estimate is None or each.adjusted.estimate is None:
                rows.append((*head, f"{each.p:g}", "undefined", _NOTHING, _NOTHING, "undefined"))
                continue
            levels = (_number(each.warg.floor), _number(each.warg.chance))
            rows.append((*head, f"{each.p:g}", _shown(each.warg.estimate), *levels, _shown(each.adjusted.estimate)))
    notes = [
        "floor: equal rankings; chance: a random order; adjusted: 0 at the floor, 1 at chance, the only one that "
        "compares between different k or p"
    ]
    if any(row.group.k is None for row in report.rates):
        notes.append("mixed: several numbers of documents together, beside the floor and chance of that mixture")
    return Section("WARG", columns, tuple(rows), tuple(notes))


def _shown(estimate: Estimate) -> str:
    ends = (
        "" if estimate.low is None or estimate.high is None else f" [{_number(estimate.low)}, {_number(estimate.high)}]"
    )
    return f"{_number(estimate.mean)}{ends}"


def _number(value: float | None) -> str:
    """With three digits; what differs by the rounding of a mean alone is shown alike."""
    return _NOTHING if value is None else f"{round(value, 9):.3f}"


def _stability(found: Sequence[Curve], basis: Basis) -> Section:
    title = "Stability of the estimates as their budget grows"
    if not found:
        return Section(title, notes=("no request could be scored with several budgets", *_skipped(basis)))
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
    return Section(title, columns, tuple(rows), tuple(notes))


def _overlap(found: Sequence[Overlap], basis: Basis) -> Section:
    title = "Query words among the strongest half of the words of retrieved documents"
    if not found:
        hint = "no retrieval was explained; --retriever MODEL explains that of some requests now"
        return Section(title, notes=(hint, *_skipped(basis)))
    columns = ("retriever", "condition", "requests", "documents", "in the query", "at random", "of the query found")
    rows = tuple(
        (
            each.model,
            each.condition,
            str(each.requests),
            str(each.documents),
            _percent(each.overlap),
            f"{100 * each.at_random.mean:.0f} %",
            _percent(each.found),
        )
        for each in found
    )
    return Section(title, columns, rows, tuple(_remarks(basis)))


def _pos(found: Sequence[Share], pipeline: str, basis: Basis) -> Section:
    title = f"Attribution mass of the strongest 30 % of words by part of speech ({pipeline})"
    if not found:
        return Section(title, notes=("no retrieval was explained", *_skipped(basis)))
    columns = ("retriever", "condition", "side", "tag", "share of mass", "of all words")
    rows = tuple(
        (each.model, each.condition, each.side, each.tag, _percent(each.mass), f"{100 * each.of_words.mean:.0f} %")
        for each in found
    )
    return Section(title, columns, rows, tuple(_remarks(basis)))
