"""What to do next, by what the gate decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

from ragtrace.gate.model import Cell, GateReport, VersionChange
from ragtrace.gate.reports import figures
from ragtrace.gate.reports.layout import is_missing, minimum, place, stays_open
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
    open_ = [
        cell for cell in report.cells if (cell.outcome, cell.segment, cell.action) == ("inconclusive", None, "block")
    ]
    if report.decision != "block":
        yield from _enlarge(open_, report)
        few = [cell for cell in report.cells if cell.segment is None and cell.outcome == "not_enough_data"]
        yield from _ask_more([cell for cell in few if stays_open(cell, report.policy)], report)
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


def _ask_more(few: Sequence[Cell], report: GateReport) -> Iterator[str]:
    short = [cell for cell in few if 0 < min(cell.n) < minimum(cell, report)]
    if short:
        least = max(minimum(cell, report) for cell in short)
        fewest = min(min(cell.n) for cell in short)
        yield f"Ask at least {least:,} {asked(report)}; {fewest:,} could be judged."


def _enough(open_: Sequence[Cell]) -> int | None:
    """With how many requests all intervals would lie within their margins, if those to come are like those that are
    here; None where a loss shows already. An interval shrinks with the root of their number, and with the number itself
    where no request differs, so that the interval has one end at 0."""
    sizes = [_settled(cell) for cell in open_]
    known = [size for size in sizes if size is not None]
    return 10 * ceil(max(known) / 10) if known and len(known) == len(sizes) else None


def _settled(cell: Cell) -> float | None:
    low, high, loss = cell.low, cell.high, figures.harm(cell)
    if cell.difference is None or low is None or high is None or loss > 0 or not cell.margin > 0:
        return None
    end = -low if cell.direction == "higher" else high
    power = 1 if 0.0 in (low, high) else 2
    return min(cell.n) * max(1.0, (end - loss) / (cell.margin - loss)) ** power


def _enlarge(open_: Sequence[Cell], report: GateReport) -> Iterator[str]:
    known = [cell for cell in open_ if cell.needed is not None]
    if known:
        lead = max(known, key=lambda cell: cell.needed or 0)
        yield f"Ask about {lead.needed:,} {asked(report)} ({min(lead.n):,} now), then run the gate again."
        enough = _enough(open_)
        if enough is not None and enough < (lead.needed or 0):
            yield f"If all goes on as here, without a loss, about {enough:,} {asked(report)} are enough to pass."
    coarse = [cell for cell in open_ if cell.detectable is not None and cell.detectable > cell.margin]
    for cell in coarse[:_NAMED]:
        size = figures.amount(cell, cell.detectable or 0.0)
        yield f"Or accept a margin of {size} for {figures.metric_name(cell.metric)}: smaller losses cannot be seen now."
