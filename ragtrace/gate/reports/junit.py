"""The gate's report as JUnit XML, as GitLab, Jenkins and others read it: one test case for each cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree as XML

from ragtrace.gate.reports import content
from ragtrace.gate.reports.content import is_missing, sections, stays_open
from ragtrace.gate.reports.sentences import cell_sentence, headline
from ragtrace.gate.types import Cell, GateReport
from ragtrace.triage.rendering import plain

__all__ = ["junit"]

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
