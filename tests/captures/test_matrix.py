"""The capture matrix: docs/reference/capture.md is what passed, here and in the frameworks' own environments."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.captures.matrix import MODES, TABLES, Cell, as_data, cells_of, claims, merged, render
from tests.captures.plugin import MARK, PAGE, PASSED, CapturePlugin
from tests.frameworks.run import FRAMEWORKS, files_of

CELL = Cell("dict", "sync", "ids")


def all_cells() -> set[Cell]:
    """Every cell that can be."""
    return {
        cell
        for table in TABLES
        for cell in (Cell(where, mode, what) for where in table.rows for mode in MODES for what in table.whats)
        if not any(absent.covers(cell) for absent in table.absent)
    }


@pytest.mark.alone
def test_the_page_is_what_passed(capture_plugin: CapturePlugin) -> None:
    """It differs when a test that it rests on fails or is gone, when one is new, and when it was edited."""
    reason = capture_plugin.incomplete()
    if reason:
        pytest.skip(f"docs/reference/capture.md is compared in a run of all tests: {reason}")
    assert PAGE.read_text(encoding="utf-8") == capture_plugin.page(), "run `make capture`, and look at what it changes"


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_the_frameworks_passed_is_what_their_tests_claim(name: str) -> None:
    """Else the tests have changed since they ran: run `make frameworks`."""
    claimed = frozenset().union(*(claims(path) for path in files_of(name)))
    recorded = json.loads((PASSED / f"{name}.json").read_text(encoding="utf-8"))
    assert merged([recorded["cells"]]) == claimed
    assert recorded["recorded_with"]


def test_no_cell_is_empty() -> None:
    """What can be captured is tested: the page has no hole."""
    rows = [
        line.strip("|").split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")
    ]
    assert len(rows) > len(TABLES)
    assert [row for row in rows if not all(part.strip() for part in row[1:])] == []


def test_cells_of_a_marker() -> None:
    """Every mode unless it names some."""
    assert cells_of(["ids"], "dict") == {Cell("dict", mode, "ids") for mode in MODES}
    assert cells_of(["ids"], "dict", ("sync",)) == {CELL}


@pytest.mark.parametrize(
    ("whats", "where", "mode", "message"),
    [
        (["ids"], "a tuple", "sync", "no table has this row"),
        (["color"], "dict", "sync", "is not in the table 'Types'"),
        (["ids"], "dict", "later", "is not in the table 'Types'"),
        (["moves"], "OpenAI", "sync", "is said to be impossible"),
    ],
)
def test_a_marker_that_fits_no_cell_is_refused(whats: list[str], where: str, mode: str, message: str) -> None:
    """A misspelled claim would be lost, an impossible one is wrong in one place or the other."""
    with pytest.raises(ValueError, match=message):
        cells_of(whats, where, mode)


def test_claims_of_a_file(tmp_path: Path) -> None:
    """Markers of tests and of parameters, in any form that holds literals."""
    path = tmp_path / "test_example.py"
    path.write_text(
        f'@pytest.{MARK}"ids", where="dict", mode="sync")\n'
        f'@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.{MARK}*("scores",), where="dict"))])\n'
        "def test_example(n): ...\n"
    )
    assert claims(path) == {CELL, *(Cell("dict", mode, "scores") for mode in MODES)}


def test_data_and_back() -> None:
    """What is written down is read again."""
    cells = frozenset(all_cells())
    assert merged([json.loads(json.dumps(as_data(cells)))]) == cells


def row_of(page: str, where: str) -> list[str]:
    """The cells of a row, beyond its name."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {where} ")]
    return [part.strip() for part in line.strip("|").split("|")[1:]]


def test_rows_show_what_passed() -> None:
    """Marks, holes, and what cannot be with its reason; modes of which the same passed share a row."""
    full = render(frozenset(all_cells()), {"example": "1.0"})
    assert "Checked with example 1.0." in full
    assert row_of(full, "dict") == ["all", *["✓"] * 6]
    assert row_of(full, "OpenAI") == ["all", *["✓"] * 4, "–¹", *["✓"] * 6]
    assert "¹ the API has no reranker;" in full
    partly = render(frozenset(all_cells()) - {CELL}, {})
    assert row_of(partly, "dict") == ["sync", "", *["✓"] * 5]
    lines = partly.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("| dict "))
    assert [part.strip() for part in lines[place + 1].strip("|").split("|")] == [
        "",
        "async, stream, async stream",
        *["✓"] * 6,
    ]


def plugin(outcomes: dict[str, tuple[str, ...]], **options: Any) -> CapturePlugin:
    """A plugin that has seen these tests, which all claim one cell, and their reports."""
    config: Any = SimpleNamespace(args=["tests"], **options)
    found = CapturePlugin(config)
    found.claimed = {name: frozenset({CELL}) for name in outcomes}
    for name, reports in outcomes.items():
        for outcome in reports:
            report: Any = SimpleNamespace(nodeid=name, outcome=outcome)
            found.pytest_runtest_logreport(report)
    return found


@pytest.mark.parametrize(
    ("outcomes", "shown"),
    [
        ({"tests/a": ("passed", "passed", "passed")}, True),
        ({"tests/a": ("passed", "failed", "passed")}, False),
        ({"tests/a": ("passed", "passed", "failed")}, False),
        ({"tests/a": ("skipped", "passed")}, False),
        ({"tests/a": ("passed",), "tests/b": ("failed",)}, False),
        ({"tests/a": ()}, False),
        ({"tests/frameworks/a": ("passed",)}, False),
    ],
)
def test_a_cell_is_what_all_of_its_tests_passed(outcomes: dict[str, tuple[str, ...]], shown: bool) -> None:
    """From set-up to tear-down; those of the frameworks come from their own environments."""
    assert plugin(outcomes).passed() == ({CELL} if shown else set())


def test_a_partial_run_says_so() -> None:
    """With -k, with a node, with other files, in a worker, or with a skipped test, nothing is compared."""
    found = plugin({"tests/a": ("skipped",)})
    assert "files with captures were not run" in (found.incomplete() or "")
    found.files = set(Path(__file__).parents[1].rglob("test_*.py"))
    assert found.incomplete() == "tests/a was skipped"
    found.outcomes.clear()
    assert found.incomplete() is None
    marked: Any = SimpleNamespace(get_closest_marker=lambda name: object())
    found.pytest_deselected([marked])
    assert found.incomplete() == "not all tests were selected"
    assert plugin({}, workerinput={}).incomplete() == "the tests are spread over several processes"
