"""What to do next, by what the gate decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ragtrace.gate.model import Cell, GateReport, VersionChange
from ragtrace.gate.reports import figures
from ragtrace.gate.reports.layout import is_missing, minimum, place
from ragtrace.gate.reports.sentences import asked
from ragtrace.triage.wording import plain

__all__ = ["next_steps"]

_NAMED: Final = 3


def next_steps(report: GateReport) -> tuple[str, ...]:
    """What to do now, one sentence each."""
    return tuple(dict.fromkeys(_steps(report)))


def _steps(report: GateReport) -> Iterator[str]:
    if report.decision == "block":
        yield from _mend(report)
    missing = [cell for cell in report.cells if is_missing(cell)]
    for cell in missing[:_NAMED]:
        least, name = minimum(cell, report), figures.metric_name(cell.metric)
        if min(cell.n) >= least:
            yield f"Ask questions of more sessions or documents in segment {place(cell)}."
        elif min(cell.n):
            yield f"Ask at least {least:,} questions of segment {place(cell)}; {min(cell.n):,} could be judged."
        else:
            yield f"See why no request of segment {place(cell)} tells of {name}, or take the metric out of the policy."
    open_ = [cell for cell in report.cells if cell.outcome == "inconclusive" and cell.segment is None]
    if open_ and report.decision != "block":
        yield from _enlarge(open_, report)
    if report.decision == "pass":
        unsure = dict.fromkeys(
            place(cell) for cell in report.cells if cell.segment and cell.outcome in ("inconclusive", "not_enough_data")
        )
        if unsure:
            names = ", ".join(list(unsure)[:_NAMED]) + (" ..." if len(unsure) > _NAMED else "")
            yield f"The candidate may go out. Ask more questions of {names} to judge them as well."
        else:
            yield "The candidate may go out."


def _mend(report: GateReport) -> Iterator[str]:
    found = next((each for each in report.breaks if each.stage == report.first_broken), None)
    if found is None:
        if any(cell.blocks for cell in report.cells):
            yield "Mend what failed, or widen its margin in the policy where the loss is worth it."
        return
    if found.requests:
        yield f"{found.owner}: look at what became worse, request {plain(found.requests[0][1])} first."
    if found.suspects:
        back = " or ".join(_back(each) for each in found.suspects[:_NAMED])
        yield f"Put {back}, or mend what changed; then run the gate again."
    else:
        yield "Look for a change without a version: data, configuration, a provider; then run the gate again."
    if any(each.stage != found.stage and each.follows is None for each in report.breaks):
        yield f"Mend {found.stage} first: what comes after it may be its consequence."


def _back(suspect: VersionChange) -> str:
    to = f" to {figures.label(suspect.baseline)}" if suspect.baseline is not None else ""
    return f"{figures.label(suspect.component)} back{to}"


def _enlarge(open_: Sequence[Cell], report: GateReport) -> Iterator[str]:
    known = [cell for cell in open_ if cell.needed is not None]
    if known:
        lead = max(known, key=lambda cell: cell.needed or 0)
        yield f"Ask about {lead.needed:,} {asked(report)} ({min(lead.n):,} now), then run the gate again."
    coarse = [cell for cell in open_ if cell.detectable is not None and cell.detectable > cell.margin]
    for cell in coarse[:_NAMED]:
        size = figures.amount(cell, cell.detectable or 0.0)
        yield f"Or accept a margin of {size} for {figures.metric_name(cell.metric)}: smaller losses cannot be seen now."
