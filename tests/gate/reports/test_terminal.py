"""The report on a terminal: short, aligned, and whole at 80 columns, with colors and without."""

from __future__ import annotations

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from ragtrace.errors import ConfigurationError
from ragtrace.gate.reports import render
from ragtrace.gate.reports.terminal import render_report as rendered, render_selfcheck as self_checked
from ragtrace.gate.types import GateReport, SelfCheck
from tests.gate import reported
from tests.gate.reported import cell, failed, grid, report, unclear


def _lines(found: GateReport, width: int = 130, *, every: bool = False) -> list[str]:
    return render(found, "text", width=width, every=every).splitlines()


@pytest.mark.parametrize("width", [80, 130])
def test_the_verdict_leads(width: int) -> None:
    """And nothing is wider than the terminal."""
    lines = _lines(reported.blocked(), width)
    assert lines[0].startswith("Blocked: generation got worse in segment claims-de")
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 130])
def test_the_first_broken_stage_is_on_top(width: int) -> None:
    """Stage by segment: failed segments are named, passing ones counted."""
    lines = _lines(reported.blocked(), width)
    first = next(place for place, line in enumerate(lines) if line.startswith("stage "))
    assert lines[first + 1].startswith("generation")
    assert "1 FAILED: claims-de" in lines[first + 1]
    assert any("ranking" in line and "1 too few: limits; 4 passed" in line for line in lines)


@pytest.mark.parametrize("width", [80, 130])
def test_figures_of_a_failed_cell(width: int) -> None:
    """Change, interval and margin stand on one line at any width."""
    (line,) = [line for line in _lines(reported.blocked(), width) if "FAILED" in line and "answer coverage" in line]
    assert "claims-de" in line
    assert line.split()[-5:][:4] == ["−16.0", "to", "−8.0", "2"] or line.split()[-4:] == ["−16.0", "to", "−8.0", "2"]


def test_no_figure_is_cut_off() -> None:
    """At 80 columns, beside the longest names and intervals, every margin is whole; what wraps is words."""
    long = msgspec.structs.replace(cell(), metric="joint_query_coverage")
    slow = unclear("latency", "exception", difference=0.0028, low=-0.0061, high=0.033, margin=0.0175)
    lines = _lines(report("undecided", [long, cell(), slow]), 80)
    (header,) = [line for line in lines if line.startswith("verdict")]
    assert header.endswith("margin")
    (shown,) = [line for line in lines if line.startswith("inconclusive exception")]
    assert shown.endswith("+0.0028 s −0.0061 to +0.033 0.018 s")


def test_what_is_there_to_read_is_short() -> None:
    """Passing segments take no line, unless all are asked for."""
    found = report("pass", grid())
    assert len(_lines(found)) < 35
    assert not any("limits" in line for line in _lines(found))
    assert sum("limits" in line for line in _lines(found, every=True)) == len(reported.RULES)


def test_what_only_points_to_a_break_takes_a_line_where_it_warns() -> None:
    """Otherwise it is among those that are counted, and no stage is inconclusive for it."""
    assert not any("suspected" in line for line in _lines(report("pass", grid())))
    opened = _lines(report("pass", grid(unclear("suspected_generation", action="warn"))))
    assert any(line.startswith("generation") and "passed" in line for line in opened)
    assert not any("suspected" in line for line in opened)
    warned = _lines(report("pass", grid(failed("suspected_generation", action="warn"))))
    assert any(line.split()[:4] == ["warning", "all", "requests", "suspected"] for line in warned)
    assert any(line.startswith("generation") and "warning" in line for line in warned)


def test_many_open_segments_are_counted() -> None:
    """Two hundred inconclusive cells are no two hundred lines; all failed ones up to a dozen are."""
    cells = [cell(), *(unclear("answer_coverage", f"s{place:03}") for place in range(200))]
    cells += [failed("answer_coverage", f"bad{place}") for place in range(10)]
    lines = _lines(report("block", cells))
    assert len(lines) < 60
    assert sum(line.startswith("  FAILED") for line in lines) == 10
    assert any("200 inconclusive (--all)" in line for line in lines)


def test_the_signature_and_the_way_on() -> None:
    """Who flipped, by which cause, what changed, which requests to look at, and what to do next."""
    text = "\n".join(_lines(reported.blocked()))
    for piece in (
        "grounding failure in claims-de",
        "26 questions were sound here and are broken",
        "unsupported claims 26",
        "model gpt-x → gpt-y",
        "ragtrace show candidate-5",
        "ragtrace show baseline-5",
        "Put model back to gpt-x, or mend what changed; then run the gate again.",
        "cannot be detected with 40 pairs",
    ):
        assert piece in text


def test_commands_name_the_store_that_was_given() -> None:
    """They run as they stand."""
    out = StringIO()
    Console(file=out, width=130).print(rendered(reported.blocked(), store="sqlite:///gate.db"))
    assert "ragtrace show candidate-5 --store sqlite:///gate.db" in out.getvalue()


def test_colors_say_nothing_alone() -> None:
    """With colors the same text, and the verdict in red."""
    plain, colored = StringIO(), StringIO()
    Console(file=plain, width=100, markup=False, highlight=False).print(rendered(reported.blocked()))
    console = Console(
        file=colored, width=100, markup=False, highlight=False, force_terminal=True, color_system="standard"
    )
    console.print(rendered(reported.blocked()))
    assert "\x1b" not in plain.getvalue()
    assert "\x1b[1;31mBlocked" in colored.getvalue()


def test_hostile_names() -> None:
    """Control characters, line breaks, markup of rich and very long names leave the table as it is."""
    evil = "[bold red]x\x1b[2J\nsecond line" + "y" * 300
    lines = _lines(report("block", [cell(), failed("answer_coverage", evil)]), 80)
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "[bold red]x" in text
    assert "second line" in text
    assert max(map(len, lines)) <= 80
    assert len(lines) < 60


def test_an_unknown_format_is_refused() -> None:
    """The formats that there are stand in the message."""
    with pytest.raises(ConfigurationError, match="html, json, junit, markdown, text"):
        render(reported.passed(), "pdf")  # type: ignore[arg-type]


def test_a_consequence_names_its_origin() -> None:
    """The later stage is in the table, and neither its owner nor its signature is put forward."""
    cells = grid(failed("answer_coverage"), failed("citation_coverage"))
    found = report("block", cells)
    (own, later) = found.breaks
    assert later.follows == "generation"
    text = "\n".join(_lines(found))
    assert "citation follows from generation in all requests: citation coverage got worse" in text
    assert later.owner not in text
    assert own.owner in text


def test_a_self_check() -> None:
    """The rate against what is promised, in one sentence; the weakest metrics first."""
    found = SelfCheck(
        runs=1000, requests=500, alpha=0.05, false_block_rate=0.031, low=0.02, high=0.044, pass_rate=0.4,
        inconclusive_rate=0.569, power=0.4, powers={"answer_coverage": 0.93, "broken_ranking": 0.4}, wanted_power=0.8,
        seed=0, warnings=("few",),
    )  # fmt: skip
    out = StringIO()
    Console(file=out, width=120).print(self_checked(found))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("3.1 % of 1,000 random splits of the baseline were blocked; at most 5 % is promised")
    first = next(place for place, line in enumerate(lines) if line.startswith("metric"))
    assert lines[first + 1].split() == ["broken", "ranking", "40", "%", "below", "80", "%"]
    assert lines[first + 2].split() == ["answer", "coverage", "93", "%", "enough"]


def test_a_self_check_that_fails() -> None:
    """More false blocks than promised, for certain."""
    found = SelfCheck(runs=100, requests=500, alpha=0.05, false_block_rate=0.2, low=0.13, high=0.29, pass_rate=0.0,
                      inconclusive_rate=0.8, power=None, powers={}, wanted_power=0.8, seed=0)  # fmt: skip
    out = StringIO()
    Console(file=out, width=120).print(self_checked(found))
    assert "NOT KEPT" in out.getvalue()


def test_a_self_check_of_too_few_requests() -> None:
    """Where next to all splits are undecided, none was blocked and none could be: that is no promise kept."""
    found = SelfCheck(runs=100, requests=3, alpha=0.05, false_block_rate=0.0, low=0.0, high=0.04, pass_rate=0.0,
                      inconclusive_rate=1.0, power=None, powers={}, wanted_power=0.8, seed=0)  # fmt: skip
    out = StringIO()
    Console(file=out, width=120).print(self_checked(found))
    assert "at most 5 % is promised: not tested, since they are undecided." in out.getvalue()
    assert "kept" not in out.getvalue().lower()


def test_unpaired_sides_tell_shares() -> None:
    """Nothing flipped where nobody was asked twice, and there is no partner to look at."""
    found = report("block", [failed("answer_coverage", "claims-de")], comparison=reported.comparison(paired=False))
    lines = _lines(found)
    assert any(
        line.split() == "share 65 % of the judged requests are broken here, before 0 %".split() for line in lines
    )
    assert not any(line.strip().startswith(("flipped", "before")) for line in lines)
