"""What a report says in words: of its cells, of its breaks, of the comparison itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ragtrace.gate.breaks import version_changes
from ragtrace.gate.model import Break, Cell, GateReport, SideSummary
from ragtrace.gate.reports import figures
from ragtrace.gate.reports.layout import floor_of, place
from ragtrace.triage.wording import clock, percent, plain, written

__all__ = [
    "asked",
    "cause",
    "cell_sentence",
    "changed",
    "confidence",
    "consequences",
    "enumerated",
    "facts",
    "flips",
    "remarks",
]

_NAMED: Final = 3


def enumerated(names: Sequence[str]) -> str:
    """The first few of them."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def cell_sentence(cell: Cell, report: GateReport) -> str:
    """`answer coverage fell by 12 points (90 % interval 8 to 16), margin 2`."""
    name = figures.metric_name(cell.metric)
    floor = floor_of(cell, report)
    if floor is not None:
        side = "below the floor of" if cell.direction == "higher" else "above the limit of"
        if cell.outcome != "fail":
            side = "the floor is" if cell.direction == "higher" else "the limit is"
        sure = ""
        if cell.low is not None and cell.high is not None:
            sure = (
                f" ({confidence(report)} interval {figures.level(cell, cell.low)} to {figures.level(cell, cell.high)})"
            )
        return f"{name} is {figures.level(cell, cell.candidate)}{sure}, {side} {figures.level(cell, floor)}"
    if cell.difference is None:
        return f"{name} is not defined often enough to be compared"
    if cell.difference == 0:
        text = f"{name} is the same"
    else:
        text = f"{name} {figures.verb(cell.difference)} by {figures.amount(cell, abs(cell.difference))}"
    if cell.low is not None and cell.high is not None:
        text += f" ({confidence(report)} interval {figures.bounds(cell)})"
    text += f", margin {figures.width(cell, cell.margin)}"
    within = cell.outcome == "fail" and cell.p_inferior is not None and cell.p_inferior <= report.alpha
    return f"{text}, which is no excuse for a guardrail" if within else text


def confidence(report: GateReport) -> str:
    """Of the intervals of single cells."""
    return percent(1 - 2 * report.alpha)


def asked(report: GateReport) -> str:
    """What is counted: questions that both sides answered, or requests of each side."""
    return "questions" if report.paired else "requests of each side"


def flips(found: Break) -> str:
    """How many requests broke here that did not before, or the shares of both sides."""
    if found.flipped is not None:
        back = f"; {found.recovered:,} the other way round" if found.recovered else ""
        return f"{found.flipped:,} questions broke here first that had been good{back}"
    before, after = (percent(share) for share in found.broken)
    return f"{after} of the requests broke here first, before {before}"


def cause(found: Break) -> str:
    """The causes of a break, the commonest first."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in list(found.causes.items())[:_NAMED])


def consequences(breaks: Sequence[Break]) -> Iterator[str]:
    """One sentence for each stage that failed because an earlier one did."""
    for stage, earlier in dict.fromkeys((each.stage, each.follows) for each in breaks if each.follows is not None):
        found = [each for each in breaks if (each.stage, each.follows) == (stage, earlier)]
        names = ["all requests" if each.segment is None else figures.label(each.segment) for each in found]
        metrics = dict.fromkeys(figures.metric_name(metric) for each in found for metric in each.metrics)
        yield (
            f"{stage} follows from {earlier} in {enumerated(names)}: {enumerated(list(metrics))} got worse, "
            "and hardly any request broke there first"
        )


def changed(report: GateReport) -> str:
    """What is known to differ between the sides."""
    changes = version_changes(report.baseline, report.candidate)
    return ", ".join(figures.change(each) for each in changes) or "no recorded version"


def facts(report: GateReport) -> Iterator[tuple[str, str]]:
    """What was compared, and how."""
    yield "baseline", _side(report.baseline)
    yield "candidate", _side(report.candidate)
    yield "changed", changed(report)
    yield "compared", _compared(report)
    yield "false alarms", f"at most {percent(report.alpha)} of the candidates that are no worse are blocked"


def _side(side: SideSummary) -> str:
    text = f"{figures.label(side.name)}: {side.requests:,} requests"
    if side.since is not None and side.until is not None:
        text += f", {clock(written(side.since))} to {clock(written(side.until))}"
    return text


def _compared(report: GateReport) -> str:
    if not report.paired:
        return "as independent samples"
    return f"the same {report.pairs or 0:,} questions on both sides"


def remarks(report: GateReport) -> tuple[str, ...]:
    """What one must know of the comparison, and what passed although it is worse for certain."""
    worse = [
        cell
        for cell in report.cells
        if cell.outcome == "pass" and figures.harm(cell) > 0 and (cell.p_adjusted or 0.0) <= report.alpha
    ]
    told = [f"{place(cell)}: {cell_sentence(cell, report)}: worse for certain, within the margin" for cell in worse]
    more = (
        [f"{len(told) - _NAMED} more cells are worse for certain, within their margins"] if len(told) > _NAMED else []
    )
    return (*(plain(warning) for warning in report.warnings), *told[:_NAMED], *more)
