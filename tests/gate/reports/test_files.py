"""The report for programs: Markdown for summaries, JSON by its schema, JUnit XML for the page of a CI."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as XML

import msgspec
import pytest
from jsonschema import Draft202012Validator

from ragtrace.gate.reports import render
from ragtrace.gate.types import GateReport, Policy
from ragtrace.registry.instruments import STAGES
from tests.gate import reported
from tests.gate.reported import RULES, cell, empty, failed, grid, report, unclear

ROOT = Path(__file__).resolve().parents[3]
REPORTS = [reported.blocked, reported.undecided, reported.missing, reported.passed]


@pytest.mark.parametrize("made", REPORTS)
def test_json_fits_its_schema(made: object) -> None:
    """And comes back as it was."""
    found = made()  # type: ignore[operator]
    text = render(found, "json")
    schema = json.loads((ROOT / "docs/reference/gate.schema.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(json.loads(text))
    assert msgspec.json.decode(text, type=GateReport) == found
    assert list(json.loads(text))[:2] == ["decision", "headline"]
    assert json.loads(text)["headline"].startswith(("Blocked: ", "Undecided: ", "Passed: "))


def test_markdown_leads_with_the_verdict() -> None:
    """Then what to do; the first broken stage is the first row."""
    lines = render(reported.blocked(), "markdown").splitlines()
    assert lines[0].startswith("# ❌ Release gate")
    assert lines[2].startswith("**Blocked: generation got worse in segment claims-de")
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[1].startswith("| generation | passed | 1 FAILED: claims-de")
    assert "- suspect: **model gpt-x → gpt-y**" in lines
    assert "- look at `ragtrace show candidate-5`, before: `baseline-5`" in lines


def test_markdown_escapes_names() -> None:
    """A segment is no HTML, no link and no cell of its own."""
    evil = "<img src=x> | [a](http://b) `c`"
    text = render(report("block", [cell(), failed("answer_coverage", evil)]), "markdown")
    assert re.search(r"(?<!\\)[<>\]]", text) is None
    assert r"\| \[a\](http\://b) \`c\`" in text
    widths = {line.replace(r"\|", "").count("|") for line in text.splitlines() if line.startswith("| generation")}
    assert widths == {4, 11}


def _parsed(found: GateReport) -> XML.Element:
    return XML.fromstring(render(found, "junit").encode())


@pytest.mark.parametrize("made", REPORTS)
def test_junit_counts_its_cases(made: object) -> None:
    """One case for each cell; every suite's numbers are those of its cases, and a gate that did not pass shows it."""
    found = made()  # type: ignore[operator]
    root = _parsed(found)
    assert root.tag == "testsuites"
    assert root.attrib["name"].startswith(
        ("ragtrace gate: Blocked: ", "ragtrace gate: Undecided: ", "ragtrace gate: Passed")
    )
    for parent in (root, *root.iter("testsuite")):
        cases = list(parent.iter("testcase"))
        assert int(parent.attrib["tests"]) == len(cases)
        for attribute, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(parent.attrib[attribute]) == sum(case.find(kind) is not None for case in cases)
    assert len(list(root.iter("testcase"))) == len(found.cells)
    bad = int(root.attrib["failures"]) + int(root.attrib["errors"])
    assert (bad > 0) == (found.decision != "pass")


def test_junit_names_what_failed() -> None:
    """Stage as class, metric and segment as name, the figures as message; names are unique."""
    root = _parsed(reported.blocked())
    failures = {case.attrib["name"]: case.find("failure") for case in root.iter("testcase") if len(case)}
    found = failures["answer coverage: segment claims-de"]
    assert found is not None
    assert found.attrib["message"] == (
        "segment claims-de: answer coverage fell by 12 points (90 % interval 8 to 16), margin 2"
    )
    assert "n 40" in (found.text or "")
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)
    first = root.find("testsuite")
    assert first is not None
    assert first.attrib["name"] == "ragtrace gate: generation"


@pytest.mark.parametrize(
    ("cells", "decision", "kind"),
    [
        ([failed()], "block", "failure"),
        ([failed(action="warn"), cell("citation_coverage")], "pass", "skipped"),
        ([unclear()], "undecided", "error"),
        ([unclear("answer_coverage", "limits"), cell()], "pass", "skipped"),
        ([empty("answer_coverage", None)], "undecided", "error"),
        ([empty(required=True)], "block", "failure"),
        ([empty(), cell()], "pass", "skipped"),
    ],
)
def test_junit_by_outcome(cells: list[object], decision: str, kind: str) -> None:
    """What blocks is a failure, what leaves it undecided an error, what is only open is skipped."""
    root = _parsed(report(decision, cells))  # type: ignore[arg-type]
    (told,) = [child for case in root.iter("testcase") for child in case]
    assert told.tag == kind
    assert told.attrib["message"]


def test_junit_never_looks_green_when_the_gate_is_not() -> None:
    """Where no cell alone shows it, the verdict is a case."""
    found = report("undecided", [empty()], policy=Policy(rules=RULES))
    (case,) = [case for case in _parsed(found).iter("testcase") if case.find("error") is not None]
    assert case.attrib["name"] == "verdict"


def test_junit_survives_names() -> None:
    """Characters that XML forbids are replaced, others escaped."""
    evil = 'a\x00\x0b"<&>\ud800\ufffe]]>'
    root = _parsed(report("block", [cell(), failed("answer_coverage", evil)]))
    (name,) = [case.attrib["name"] for case in root.iter("testcase") if len(case)]
    assert name.startswith('answer coverage: segment a"<&>')


def test_order_of_stages_is_the_path() -> None:
    """Failed stages first, then the others in the order of the path, cost last."""
    suites = [suite.attrib["name"].removeprefix("ragtrace gate: ") for suite in _parsed(reported.blocked())]
    assert suites == ["generation", *(stage.name for stage in STAGES if stage.name != "generation"), "request"]
    assert next(iter(_parsed(report("pass", grid())))).attrib["name"] == "ragtrace gate: retrieval"


def test_what_only_warns_is_not_required() -> None:
    """A required segment without data of a metric that only warns: the gate passes, and so does every report."""
    cells = [cell(), empty(required=True), empty("latency", required=True, action="warn")]
    missing, warned = render(report("block", cells[:2]), "junit"), render(report("pass", [cells[0], cells[2]]), "junit")
    assert XML.fromstring(missing.encode()).get("failures") == "1"
    assert XML.fromstring(warned.encode()).get("failures") == "0"
    assert "latency" not in report("pass", [cells[0], cells[2]]).next_steps[0]
