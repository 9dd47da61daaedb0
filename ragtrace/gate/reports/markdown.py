"""The gate's report as Markdown: for the summary of a CI job, a pull request, a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from ragtrace.gate.reports import content
from ragtrace.gate.reports.content import RESULTS, Section, floor_of, hidden, place, result, sections
from ragtrace.gate.reports.questions import as_markdown, stage_questions
from ragtrace.gate.reports.sentences import (
    LABELED,
    cause,
    confidence,
    consequences,
    facts,
    flips,
    headline,
    labeled_changes,
    next_steps,
    remarks,
)
from ragtrace.gate.types import Break, Cell, GateReport
from ragtrace.triage.rendering import code, escaped, plain, show_command, table

__all__ = ["markdown"]

_MARKS = {"block": "❌", "undecided": "❔", "pass": "✅"}
_BREAKS = 5
_EXAMPLES = 3
_QUESTIONS = 3  # of a stage


def markdown(report: GateReport) -> str:
    """The whole report. Texts of the host are escaped: a segment cannot become a link, an image or HTML."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: GateReport) -> Iterator[str]:
    stages = sections(report)
    yield f"# {_MARKS[report.decision]} Release gate: {escaped(report.service or report.candidate.name)}"
    yield ""
    yield f"**{escaped(headline(report))}**"
    yield ""
    yield from (f"- {name}: {escaped(text)}" for name, text in facts(report))
    yield from ("", "## Next", "")
    yield from (f"1. {escaped(step)}" for step in next_steps(report))
    if found_remarks := remarks(report):
        yield from ("", "## Mind", "")
        yield from (f"- {escaped(remark)}" for remark in found_remarks)
    yield from ("", "## Stages", "")
    yield from table(("stage", "all requests", "segments"), (_stage(section) for section in stages))
    own = [break_ for break_ in report.breaks if break_.follows is None]
    for break_ in own[:_BREAKS]:
        yield from _break(break_)
    for line in consequences(report.breaks):
        yield from ("", f"{escaped(line)}.")
    for stage, questions in stage_questions(report).items():
        yield from ("", f"## Questions that got worse: {stage}", *as_markdown(questions[:_QUESTIONS]))
    if labeled := labeled_changes(report):
        yield from ("", f"## {LABELED}", "", *(f"- {escaped(line)}" for line in labeled))
    if rows := content.provider_rows(report):
        yield from ("", f"## {content.PROVIDERS}", "", *table(rows[0], rows[1:]))
    yield from ("", "## Metrics", "", *_metrics(stages, report))


def _stage(section: Section) -> tuple[str, str, str]:
    parts = []
    for name, names in section.segments().items():
        listed = f": {content.segment_names(names)}" if name != "passed" else ""
        parts.append(f"{len(names)} {RESULTS[name]}{listed}")
    if section.follows is not None:
        parts.append(f"follows from {section.follows}")
    return section.name, RESULTS[section.of_all], "; ".join(parts)


def _break(break_: Break) -> Iterator[str]:
    where = "all requests" if break_.segment is None else content.shown_name(break_.segment)
    yield from ("", f"## {break_.failure.replace('_', ' ').capitalize()} in {escaped(where)}", "")
    yield f"- {escaped(flips(break_))}"
    if break_.causes:
        yield f"- causes: {escaped(cause(break_))}"
    if break_.suspects:
        yield f"- suspect: **{escaped(', '.join(content.change(each) for each in break_.suspects))}**"
    yield f"- owner: {escaped(break_.owner)}"
    for before, after in break_.requests[:_EXAMPLES]:
        earlier = f", before: {code(plain(before))}" if before else ""
        yield f"- look at {code(show_command(after))}{earlier}"


def _metrics(stages: tuple[Section, ...], report: GateReport) -> Iterator[str]:
    head = ("stage", "verdict", "segment", "metric", "baseline", "candidate", "change",
            f"{confidence(report)} interval", "margin", "n")  # fmt: skip
    yield from table(
        head,
        ((section.name, *_row(cell, report)) for section in stages for cell in section.listed()),
    )
    rest = hidden(stages)
    yield ""
    yield "Change and margin in points where no unit is named." + (f" Not listed: {rest}." if rest else "")


def _row(cell: Cell, report: GateReport) -> Iterator[str]:
    yield RESULTS[result(cell)]
    yield place(cell)
    yield content.short_name(cell.metric)
    yield content.level(cell, cell.baseline)
    yield content.level(cell, cell.candidate)
    floor = floor_of(cell, report)
    yield content.signed(cell, cell.difference) if floor is None else "-"
    yield content.interval(cell) if floor is None else "-"
    limit = "floor" if cell.direction == "higher" else "limit"
    yield content.width(cell, cell.margin) if floor is None else f"{limit} {content.level(cell, floor)}"
    yield content.count(cell)
