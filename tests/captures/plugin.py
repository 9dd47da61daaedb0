"""Collects what passing tests that are marked `captures` show, and writes it down for the capture matrix."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest

from tests.captures.matrix import Cell, as_data, cells_of, merged, render

__all__ = ["MARK", "PAGE", "PASSED", "CapturePlugin"]

TESTS: Final = Path(__file__).parents[1]
FRAMEWORKS: Final = TESTS / "frameworks"
PASSED: Final = FRAMEWORKS / "recorded" / "passed"
PAGE: Final = TESTS.parent / "docs" / "reference" / "capture.md"
MARK: Final = "mark.captures("

pytest.register_assert_rewrite("tests.captures.pipelines", "tests.frameworks.instrumented")  # they assert for tests


class CapturePlugin:
    """What this run's marked tests show.

    Cells of `tests/frameworks` are those that `make frameworks` wrote down, each framework in an environment of its
    own; all others are of this run.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.claimed: dict[str, frozenset[Cell]] = {}
        self.outcomes: dict[str, str] = {}
        self.modules: set[Any] = set()
        self.left_out = False
        self.files: set[Path] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note what is claimed; tests that look at the outcome come last."""
        for item in items:
            if cells := _claimed(item):
                self.claimed[item.nodeid] = cells
                self.files.add(item.path)
                self.modules.add(getattr(item, "module", None))
        items.sort(key=lambda item: "capture_plugin" in getattr(item, "fixturenames", ()))

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """A run without some of the marked tests says nothing about the whole."""
        self.left_out = self.left_out or any(item.get_closest_marker("captures") for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Passed is what passed from its set-up to its tear-down."""
        if report.nodeid in self.claimed and self.outcomes.get(report.nodeid, "passed") == "passed":
            self.outcomes[report.nodeid] = report.outcome

    def passed(self) -> frozenset[Cell]:
        """Cells of which every test of this run passed, without those of the frameworks."""
        mine = {name: cells for name, cells in self.claimed.items() if not _is_framework(name)}
        return self._shown(mine)

    def _shown(self, claimed: dict[str, frozenset[Cell]]) -> frozenset[Cell]:
        failed = {cell for name, cells in claimed.items() if self.outcomes.get(name) != "passed" for cell in cells}
        return frozenset(cell for cells in claimed.values() for cell in cells) - failed

    def incomplete(self) -> str | None:
        """Why this run does not show the whole matrix; None when it does."""
        if hasattr(self.config, "workerinput"):
            return "the tests are spread over several processes"
        if self.left_out or any("::" in argument for argument in self.config.args):
            return "not all tests were selected"
        marked = {path for path in TESTS.rglob("test_*.py") if MARK in path.read_text(encoding="utf-8")}
        missing = {path for path in marked - self.files if FRAMEWORKS not in path.parents}
        if missing:
            return f"{len(missing)} test files with captures were not run"
        skipped = sorted(
            name for name, outcome in self.outcomes.items() if outcome == "skipped" and not _is_framework(name)
        )
        return f"{skipped[0]} was skipped" if skipped else None

    def page(self) -> str:
        """The page as this run and the frameworks' runs have it."""
        recorded = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(PASSED.glob("*.json"))]
        versions = {name: number for each in recorded for name, number in each["recorded_with"].items()}
        return render(merged(each["cells"] for each in recorded) | self.passed(), versions)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write what was asked for, when all tests passed."""
        environment = self.config.getoption("--record", default=None)
        if session.testsfailed or exitstatus:
            return
        if environment:
            self._record(environment)
        if self.config.getoption("--write-captures"):
            reason = self.incomplete()
            if reason:
                raise pytest.UsageError(f"docs/reference/capture.md is not written: {reason}")
            PAGE.write_text(self.page(), encoding="utf-8")

    def _record(self, environment: str) -> None:
        names = sorted({name for module in self.modules for name in getattr(module, "DISTRIBUTIONS", ())})
        content = {
            "cells": as_data(self._shown(self.claimed)),
            "recorded_with": {name: version(name) for name in names},
        }
        PASSED.mkdir(exist_ok=True)
        path = PASSED / f"{environment}.json"
        path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _is_framework(name: str) -> bool:
    return name.startswith("tests/frameworks/")


def _claimed(item: pytest.Item) -> frozenset[Cell]:
    """A test that has a parameter `mode` claims that mode."""
    parameters = getattr(item, "callspec", None)
    given = {"mode": parameters.params["mode"]} if parameters and "mode" in parameters.params else {}
    try:
        marks = [cells_of(mark.args, **{**given, **mark.kwargs}) for mark in item.iter_markers("captures")]
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None
    return frozenset().union(*marks)
