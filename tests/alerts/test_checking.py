"""Checks of rendered files, with and without Prometheus's own programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.alerts import check, render, run_tests, write
from ragtrace.errors import ConfigurationError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rendered files, on a machine without promtool and amtool."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    write(tmp_path, render())
    return tmp_path


def test_without_the_programs_names_are_checked(folder: Path) -> None:
    """And it is said that this was all, and what to install."""
    rules, routes = check(folder)
    assert (rules.good, rules.by) == (True, "ragtrace")
    assert "names of series only: promtool was not found; install it" in rules.said
    assert (routes.good, routes.by) == (True, "ragtrace")
    assert "names of receivers only: amtool was not found" in routes.said


def test_an_unknown_series_is_found_without_promtool(folder: Path) -> None:
    """The rule and the series are named."""
    path = folder / "alerts.yml"
    path.write_text(path.read_text().replace("ragtrace_queue_oldest_seconds", "ragtrace_queue_oldest"))
    rules, _ = check(folder)
    assert not rules.good
    assert "RagtraceQueueOld: ragtrace_queue_oldest is in no registry" in rules.said


def test_an_unknown_receiver_is_found_without_amtool(folder: Path) -> None:
    """The receiver is named."""
    path = folder / "alertmanager.yml"
    path.write_text(path.read_text().replace("- name: release-guard-page", "- name: somebody"))
    _, routes = check(folder)
    assert not routes.good
    assert "route to release-guard-page, which is no receiver" in routes.said


def test_scenarios_need_promtool(folder: Path) -> None:
    """Nothing else can run them, and the message says what to install."""
    with pytest.raises(ConfigurationError, match=r"promtool was not found; install it .*apt-get install prometheus"):
        run_tests(folder)
