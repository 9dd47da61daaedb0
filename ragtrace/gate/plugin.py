"""The release gate in a test suite: pytest loads this module in every run, so it imports nothing heavy.

`@pytest.mark.ragtrace_gate(baseline=..., candidate=..., policy=...)` lets a test pass only if the gate does; the
fixture `ragtrace_gate` runs it from within a test. What neither says comes from the options `--ragtrace-...`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from ragtrace.config import SETTINGS, variable

if TYPE_CHECKING:
    from ragtrace.gate.reports import Format
    from ragtrace.gate.types import GateReport, Policy

__all__ = ["Gate", "ragtrace_gate"]

_MARK: Final = "ragtrace_gate"
_SAID: Final = "ragtrace_gate"  # the name of the property in reports of tests
_OPTIONS: Final = {
    "baseline": ("SELECTION", "the requests that the gate compares with"),
    "candidate": ("SELECTION", "the requests that may go out or not"),
    "policy": ("FILE", "the policy; by default the defaults of ragtrace"),
    "store": ("URL", f"the database; by default {variable('store')}, else {SETTINGS['store'].default}"),
    "service": ("NAME", "the service, where the store knows several"),
    "reports": ("FOLDER", "write the report of each gate there, as HTML, Markdown, JSON and JUnit XML"),
}
_WRITTEN: Final[tuple[Format, ...]] = ("html", "markdown", "json", "junit")
_FLAGS: Final = re.compile(r"--(baseline|candidate|policy|store|service)\b")
_UNSAFE: Final = re.compile(r"[^\w.-]+")

_Arguments: TypeAlias = dict[str, Any]
_REPORT: Final = pytest.StashKey["GateReport"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("ragtrace", "release gate (ragtrace)")
    for name, (value, text) in _OPTIONS.items():
        group.addoption(f"--ragtrace-{name}", metavar=value, default=None, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker, so that --strict-markers knows it."""
    names = ", ".join(name for name in _OPTIONS if name != "reports")
    config.addinivalue_line("markers", f"{_MARK}({names}): the test passes only if the release gate does")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Hold a marked test to the gate before its own code runs."""
    if item.get_closest_marker(_MARK) is not None:
        _hold(_marked(item), item)


class Gate:
    """The gate of one test. What a call leaves out comes from the test's marker, then from the command line."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(
        self,
        *,
        baseline: str | None = None,
        candidate: str | None = None,
        policy: Policy | Path | str | None = None,
        store: str | None = None,
        service: str | None = None,
        must_pass: bool = True,
    ) -> GateReport:
        """Judge, and return the report. must_pass: fail the test, with the report as its message, unless it passed."""
        given = {"baseline": baseline, "candidate": candidate, "policy": policy, "store": store, "service": service}
        said = {name: value for name, value in given.items() if value is not None}
        report = _run_gate(self._item, said) if said else _marked(self._item)
        if must_pass:
            _hold(report, self._item)
        return report


@pytest.fixture(name="ragtrace_gate")
def ragtrace_gate(request: pytest.FixtureRequest) -> Gate:
    """Compares two selections of requests by a policy, and fails the test unless the candidate may go out."""
    return Gate(request.node)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line for each gate: tests that pass say nothing of their own."""
    lines = [
        f"{report.nodeid}: {text}"
        for name in ("passed", "failed")
        for report in terminalreporter.stats.get(name, ())
        for key, text in getattr(report, "user_properties", ())
        if key == _SAID
    ]
    if lines:
        terminalreporter.section("release gate")
        for line in dict.fromkeys(lines):
            terminalreporter.line(line)


def _marked(item: pytest.Item) -> GateReport:
    """What the test's own marker and the command line ask for, judged once."""
    if _REPORT not in item.stash:
        item.stash[_REPORT] = _run_gate(item, {})
    return item.stash[_REPORT]


def _run_gate(item: pytest.Item, options: _Arguments) -> GateReport:
    from ragtrace.errors import RagtraceError
    from ragtrace.installation import require_analyzer

    arguments, refused = _arguments(item, options), ""
    try:
        require_analyzer()
        from ragtrace.gate.runs import run

        arguments["store"] = arguments["store"] or _usual_store()
        arguments.pop("reports")
        report = run(arguments.pop("baseline"), arguments.pop("candidate"), **arguments)
        _write(report, item)
    except RagtraceError as error:
        refused = _FLAGS.sub(r"--ragtrace-\1", str(error))  # as pytest calls them
    if refused:  # not said while the error is handled: pytest would tell both
        pytest.fail(f"the release gate cannot judge: {refused}", pytrace=False)
    _record_verdict(report, item)
    return report


def _usual_store() -> str | None:
    """The store that the environment names; the default one where it is there. Raises: ConfigurationError, InputError
    for one that is named and is no store yet."""
    from ragtrace.config import load
    from ragtrace.errors import InputError
    from ragtrace.store import check

    url = load().store
    if check(url).current is not None:
        return url
    if os.environ.get(variable("store"), "").strip():
        raise InputError(f"{variable('store')} {url!r} is no store of ragtrace yet; name another, or give --store URL")
    return None


def _arguments(item: pytest.Item, options: _Arguments) -> _Arguments:
    """What the call says, else the marker, else the command line."""
    marker = item.get_closest_marker(_MARK)
    marked: _Arguments = dict(marker.kwargs) if marker is not None else {}
    strange = sorted(set(marked) - set(_OPTIONS) | ({"a value without a name"} if marker and marker.args else set()))
    if strange or "reports" in marked:
        names = ", ".join(name for name in _OPTIONS if name != "reports")
        pytest.fail(f"the marker {_MARK} takes {names}, not {', '.join(strange or ['reports'])}", pytrace=False)
    arguments = {name: item.config.getoption(f"--ragtrace-{name}") for name in _OPTIONS} | marked | options
    for name in ("baseline", "candidate"):
        if arguments[name] is None:
            pytest.fail(f"no {name} is named: give {name}=... to {_MARK}, or --ragtrace-{name}", pytrace=False)
    policy = (marked | options).get("policy")
    if isinstance(policy, str | Path):  # relative to the suite, wherever pytest was called
        arguments["policy"] = item.config.rootpath / policy
    return arguments


def _hold(report: GateReport, item: pytest.Item) -> None:
    if report.decision != "pass":
        from ragtrace.gate.reports import render

        width = max(80, item.config.get_terminal_writer().fullwidth)
        pytest.fail(render(report, "text", width=width), pytrace=False)


def _write(report: GateReport, item: pytest.Item) -> None:
    """Raises: ConfigurationError for a folder that cannot be written."""
    folder = item.config.getoption("--ragtrace-reports")
    if folder is None:
        return
    from ragtrace.errors import ConfigurationError
    from ragtrace.gate.reports import SUFFIXES, render

    name = _UNSAFE.sub("-", item.nodeid).strip("-.")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for format in _WRITTEN:
            Path(folder, name + SUFFIXES[format]).write_text(render(report, format), encoding="utf-8")
    except OSError as error:
        allowed = f"a folder that can be written ({error.strerror})"
        raise ConfigurationError.of("--ragtrace-reports", str(folder), allowed) from error


def _record_verdict(report: GateReport, item: pytest.Item) -> None:
    """Leave the verdict with the test's result, in JUnit XML of pytest as well."""
    from ragtrace.gate.reports.sentences import headline

    item.user_properties.append((_SAID, headline(report)))
