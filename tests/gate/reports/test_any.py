"""Every renderer takes every report: whatever names, figures and gaps there are."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as XML

import pytest
from hypothesis import given, strategies as st

from ragtrace.gate.reports import SUFFIXES, Format, render
from ragtrace.gate.types import Cell, Decision, GateReport
from tests.gate.reported import RULES, cell, failed, report

_NUMBERS = st.none() | st.floats(-1e6, 1e6) | st.just(0.0)
_NAMES = st.none() | st.text(max_size=60) | st.sampled_from(["<b>", "a|b", "\x1b[31m", "\u202e", "🤖" * 30])
_DECISIONS: tuple[Decision, ...] = ("pass", "block", "undecided")
_METRICS = st.sampled_from([rule.metric for rule in RULES])


@st.composite
def _cells(draw: st.DrawFn) -> Cell:
    given_: dict[str, Any] = {
        name: draw(_NUMBERS)
        for name in ("baseline", "candidate", "difference", "low", "high", "p_harm", "p_adjusted", "p_inferior",
                     "detectable")
    }  # fmt: skip
    return cell(
        draw(_METRICS),
        draw(_NAMES),
        outcome=draw(st.sampled_from(["pass", "fail", "inconclusive", "not_enough_data"])),
        action=draw(st.sampled_from(["block", "warn"])),
        family=draw(st.sampled_from(["overall", "segments", "floors"])),
        margin=draw(st.sampled_from([0.0, 1e-9, 0.02, 1.0])),
        n=(draw(st.integers(0, 10**9)), draw(st.integers(0, 10**9))),
        needed=draw(st.none() | st.integers(0, 10**12)),
        required=draw(st.booleans()),
        reason=draw(st.text(max_size=40)),
        **given_,
    )


@st.composite
def _reports(draw: st.DrawFn) -> GateReport:
    decision = draw(st.sampled_from(_DECISIONS))
    warnings = tuple(draw(st.lists(st.text(max_size=30), max_size=2)))
    return report(decision, draw(st.lists(_cells(), max_size=12)), warnings=warnings)


@pytest.mark.parametrize("form", SUFFIXES)
@given(found=_reports())
def test_nothing_breaks_a_renderer(form: Format, found: GateReport) -> None:
    """There is a text, it is clean, and the verdict leads it."""
    text = render(found, form)
    assert {"pass": "Passed", "block": "Blocked", "undecided": "Undecided"}[found.decision] in text or form in (
        "json",
        "junit",
    )
    if form == "junit":
        XML.fromstring(text.encode())
    else:
        assert re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text) is None


def test_a_report_without_a_cell() -> None:
    """Nothing was judged, and it is said so."""
    for form in SUFFIXES:
        assert render(report("undecided", []), form)
    assert "nothing could be judged" in render(report("undecided", []), "text")


def test_names_that_are_alike_when_cut() -> None:
    """Two long segments stay two in JUnit XML."""
    cells = [failed("answer_coverage", "x" * 100 + end) for end in "ab"]
    root = XML.fromstring(render(report("block", cells), "junit").encode())
    assert len({case.attrib["name"] for case in root.iter("testcase")}) == 2
