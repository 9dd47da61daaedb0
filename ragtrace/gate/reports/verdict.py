"""The verdict in one sentence that a release manager understands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragtrace.gate.breaks import version_changes
from ragtrace.gate.model import Break, Cell, GateReport
from ragtrace.gate.reports import figures
from ragtrace.gate.reports.layout import harm_in_margins, is_missing, minimum, place, stays_open
from ragtrace.gate.reports.sentences import asked, cell_sentence, enumerated

__all__ = ["headline"]

_NAMED: Final = 3


def headline(report: GateReport) -> str:
    """The verdict in one sentence."""
    if report.decision == "block":
        return f"Blocked: {_blocked(report)}."
    if report.decision == "undecided":
        return f"Undecided: {_undecided(report)}."
    return f"Passed: {_passed(report)}."


def _blocked(report: GateReport) -> str:
    failed = [cell for cell in report.cells if cell.blocks and cell.stage == report.first_broken]
    failed = failed or [cell for cell in report.cells if cell.blocks]
    if not failed:
        return _missing(report) or "the policy was not met"
    stage = failed[0].stage
    of_all = [cell for cell in failed if cell.segment is None]
    lead = max(of_all or failed, key=_telling)
    parts = [cell_sentence(lead, report)]
    if stage is not None:
        worse = "got worse" if lead.family != "floors" else "is not good enough"
        parts = [f"{stage} {worse} {_where(lead, failed)}: {parts[0]}"]
    elif lead.segment is not None:
        parts = [f"{parts[0]} {_where(lead, failed)}"]
    found = next((each for each in report.breaks if each.stage == stage and each.segment == lead.segment), None)
    if found is not None:
        parts += [_suspected(found, report), f"owner {found.owner}"]
    return "; ".join(parts)


def _telling(cell: Cell) -> tuple[bool, float]:
    """A loss of quality says more to people than the share of requests that a stage broke."""
    return not cell.metric.startswith("broken_"), harm_in_margins(cell)


def _where(lead: Cell, failed: Sequence[Cell]) -> str:
    """`in segment claims-de and 2 more`, or over all requests and where it is worst."""
    others = sorted((cell for cell in failed if cell.segment is not None), key=harm_in_margins, reverse=True)
    segments = list(dict.fromkeys(place(cell) for cell in others))
    if lead.segment is None:
        return "over all requests" + (f", most in segment {segments[0]}" if segments else "")
    more = len(segments) - 1
    return f"in segment {place(lead)}" + (f" and in {more} more" if more else "")


def _suspected(found: Break, report: GateReport) -> str:
    if found.suspects:
        return "changed since the baseline: " + ", ".join(figures.change(each) for each in found.suspects[:_NAMED])
    if version_changes(report.baseline, report.candidate):
        return "no recorded version of this stage's components changed"
    return "no recorded version changed"


def _missing(report: GateReport) -> str:
    missing = [cell for cell in report.cells if is_missing(cell)]
    if not missing:
        return ""
    names = list(dict.fromkeys(place(cell) for cell in missing))
    fewest = min(missing, key=lambda cell: min(cell.n))
    what, least = figures.metric_name(fewest.metric), minimum(fewest, report)
    told = f"{min(fewest.n):,} of at least {least:,} {asked(report)} tell of {what}"
    if min(fewest.n) >= least:
        told = f"the {min(fewest.n):,} {asked(report)} that tell of {what} are of too few sessions or documents"
    required = f"the policy requires segment{'' if len(names) == 1 else 's'} {enumerated(names)}"
    return f"{required}, and there is too little data: {told}"


def _undecided(report: GateReport) -> str:
    open_ = [cell for cell in report.cells if stays_open(cell, report.policy)]
    unclear = [cell for cell in open_ if cell.outcome == "inconclusive"]
    if not open_:
        return _missing(report) or "nothing could be judged"
    if not unclear:
        names = list(dict.fromkeys(figures.metric_name(cell.metric) for cell in open_))
        fewest = min(open_, key=lambda cell: min(cell.n))
        if min(fewest.n) >= minimum(fewest, report):
            return f"the {asked(report)} that tell of {enumerated(names)} are of too few sessions or documents"
        return f"too few {asked(report)} tell of {enumerated(names)}: {min(fewest.n):,}"
    lead = max(unclear, key=lambda cell: (cell.segment is None, cell.needed or 0))
    where = "" if lead.segment is None else f" in segment {place(lead)}"
    more = len(unclear) - 1
    others = f", and so {'does one other' if more == 1 else f'do {more} others'}" if more else ""
    unproven = f"which proves neither harm nor its absence{others}"
    return f"{cell_sentence(lead, report)}{where}, {unproven}; {_more(lead, report)}"


def _passed(report: GateReport) -> str:
    worse = [cell for cell in report.cells if cell.outcome == "fail"]
    overall = [cell for cell in report.cells if cell.segment is None]
    open_ = [figures.metric_name(cell.metric) for cell in overall if cell.outcome not in ("pass", "fail")]
    if worse:
        lead = max(worse, key=lambda cell: (cell.segment is None, _telling(cell)))
        where = "" if lead.segment is None else f" in segment {place(lead)}"
        return f"nothing that blocks got worse, but {cell_sentence(lead, report)}{where}"
    if open_:
        return f"nothing got worse for certain; not proven over all requests: {enumerated(open_)}"
    return f"no metric got worse by more than its margin{_segments_proven(report)}"


def _segments_proven(report: GateReport) -> str:
    every = {cell.segment for cell in report.cells if cell.segment is not None}
    sure = len(every - {cell.segment for cell in report.cells if cell.outcome != "pass"})
    if not every:
        return ""
    if not sure:
        return f", over all requests; of the {len(every)} segments none has data enough to prove it"
    rest = (
        f"each of {sure} segments"
        if sure == len(every)
        else f"{sure} of {len(every)} segments; the others are not proven"
    )
    return f", over all requests and in {rest}"


def _more(cell: Cell, report: GateReport) -> str:
    if cell.margin == 0 and cell.family != "floors":
        return "its margin is a share of the baseline's mean, which is 0: give one without a percent sign"
    if cell.needed is None:
        return f"more than {min(cell.n):,} {asked(report)} are needed"
    return f"about {cell.needed:,} {asked(report)} would tell, there are {min(cell.n):,}"
