"""The gate's report where a CI job shows it: as Markdown, for its summary, a pull request or a ticket; and as JUnit
XML, as GitLab, Jenkins and others read it, one test case for each cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree as XML

from ragtrace.formats import code, escaped, plain, show_command, table
from ragtrace.gate.reports import content
from ragtrace.gate.reports.content import (
    RESULTS,
    Section,
    floor_of,
    hidden,
    is_missing,
    place,
    result,
    sections,
    stays_open,
)
from ragtrace.gate.reports.questions import as_markdown, stage_questions
from ragtrace.gate.reports.sentences import (
    LABELED,
    cause,
    cell_sentence,
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

__all__ = ["junit", "markdown"]

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


_LONGEST: Final = 200
_FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, section 2.2


def junit(report: GateReport) -> str:
    """A suite for each stage. Blocking cells are failures, those that leave it undecided errors, other open ones
    skipped."""
    root = XML.Element("testsuites", name=_clean(f"ragtrace gate: {headline(report)}"))
    at = datetime.fromtimestamp(report.created_at / 1e9, UTC).isoformat(timespec="seconds").removesuffix("+00:00")
    for section in sections(report):
        suite = XML.SubElement(root, "testsuite", name=f"ragtrace gate: {section.name}", timestamp=at)
        for cell in section.cells:
            _case(suite, section.name, cell, report)
        _set_counts(suite)
    _set_counts(root)
    if report.decision != "pass" and not any(int(root.get(kind, "0")) for kind in ("failures", "errors")):
        _verdict(root, report)
    XML.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + XML.tostring(root, encoding="unicode") + "\n"


def _case(suite: XML.Element, stage: str, cell: Cell, report: GateReport) -> None:
    name = content.metric_name(cell.metric).removeprefix("the ")
    kind = " (floor)" if cell.family == "floors" else ""
    where = _clean("all requests" if cell.segment is None else f"segment {plain(cell.segment)[:_LONGEST]}")
    case = XML.SubElement(
        suite, "testcase", classname=f"ragtrace.gate.{stage.replace(' ', '_')}", name=f"{name}{kind}: {where}", time="0"
    )
    outcome = _outcome(cell, report)
    if outcome is not None:
        break_ = next(
            (each for each in report.breaks if (each.stage, each.segment) == (cell.stage, cell.segment)), None
        )
        follows = f"; follows from {break_.follows}" if break_ is not None and break_.follows is not None else ""
        message = _clean(f"{where}: {cell_sentence(cell, report)}{follows}")
        element = XML.SubElement(case, outcome, message=message)
        if outcome != "skipped":
            element.set("type", cell.outcome)
        element.text = "\n".join(_details(cell))


def _outcome(cell: Cell, report: GateReport) -> str | None:
    if cell.outcome == "pass":
        return None
    if cell.blocks:
        return "failure"
    if is_missing(cell) and report.policy.on_missing == "block":
        return "failure"
    return "error" if report.decision == "undecided" and stays_open(cell, report.policy) else "skipped"


def _details(cell: Cell) -> Iterator[str]:
    yield _clean(cell.reason)
    yield f"baseline {content.level(cell, cell.baseline)}, candidate {content.level(cell, cell.candidate)}"
    yield f"n {content.count(cell)}"
    if cell.p_adjusted is not None:
        yield f"p of no harm {content.probability(cell.p_harm)}, adjusted {content.probability(cell.p_adjusted)}"


def _verdict(root: XML.Element, report: GateReport) -> None:
    """A case of its own, where no cell alone shows why the gate did not pass."""
    suite = XML.SubElement(root, "testsuite", name="ragtrace gate: verdict")
    case = XML.SubElement(suite, "testcase", classname="ragtrace.gate", name="verdict", time="0")
    kind = "failure" if report.decision == "block" else "error"
    XML.SubElement(case, kind, message=_clean(headline(report)), type=report.decision)
    _set_counts(suite)
    _set_counts(root)


def _set_counts(parent: XML.Element) -> None:
    cases = list(parent.iter("testcase"))
    parent.set("tests", str(len(cases)))
    for attribute, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        parent.set(attribute, str(sum(case.find(kind) is not None for case in cases)))
    parent.set("time", "0")


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
