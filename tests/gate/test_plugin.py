"""The gate in a suite of pytest: marker, fixture, options, reports; and what it costs suites that do not use it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace.errors import ConfigurationError
from ragtrace.gate import runs
from ragtrace.store import Store
from tests.gate import reported

pytest_plugins = ["pytester"]

HEAVY = {"numpy", "scipy", "sqlalchemy", "alembic", "rich", "yaml", "typer"}
MARKED = """
import pytest

@pytest.mark.ragtrace_gate(baseline="version:model=gpt-x", candidate="version:model=gpt-y", policy="gate.yaml")
def test_release():
    print("the test's own code ran")
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the gate was asked; it answers with the report whose maker `verdict` names."""
    calls: list[dict[str, Any]] = []

    def run(baseline: str, candidate: str, **given: Any) -> object:
        calls.append({"baseline": baseline, "candidate": candidate, **given})
        if candidate == "nonsense":
            raise ConfigurationError("--candidate 'nonsense' is not usable; give version:COMPONENT=VERSION")
        name = {"version:model=gpt-x": "passed", "open": "undecided"}.get(candidate, "blocked")
        return getattr(reported, name)()

    monkeypatch.setattr(runs, "run", run)
    return calls


def _suite(pytester: pytest.Pytester, code: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_gate=code)
    return pytester.runpytest_inprocess("--strict-markers", "-p", "no:cacheprovider", *options)


def test_a_marked_test_is_held_to_the_gate(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """Blocked: it fails with the report, before its own code runs."""
    result = _suite(pytester, MARKED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Blocked: generation got worse in segment claims-de: the share of requests*"])
    result.stdout.no_fnmatch_line("*own code ran*")
    assert asked == [
        {
            "baseline": "version:model=gpt-x",
            "candidate": "version:model=gpt-y",
            "policy": pytester.path / "gate.yaml",
            "store": None,
            "service": None,
        }
    ]


def test_a_gate_that_passes(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """The test's own code runs, and the end of the run says what was found."""
    result = _suite(pytester, MARKED.replace("gpt-y", "gpt-x"), "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*own code ran*", "*release gate*", "test_gate.py::test_release: Passed: no metric*"])
    assert len(asked) == 1


def test_undecided_is_no_pass(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """The report says what would decide it."""
    result = _suite(pytester, MARKED.replace("version:model=gpt-y", "open"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Undecided:*", "*Ask about 1,900 questions*"])
    assert asked


def test_the_fixture_judges_when_it_is_called(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """It takes selections, returns the report, and fails the test only where it must pass."""
    result = _suite(
        pytester,
        """
        def test_shown(ragtrace_gate):
            report = ragtrace_gate(baseline="a", candidate="b", store="sqlite:///x.db", must_pass=False)
            assert report.decision == "block"
            assert report.first_broken == "generation"

        def test_held(ragtrace_gate):
            ragtrace_gate(baseline="a", candidate="b")
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    assert [each["store"] for each in asked] == ["sqlite:///x.db", None]


def test_the_fixture_of_a_marked_test_judges_once(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """Without arguments it gives the marker's own report."""
    code = MARKED.replace("gpt-y", "gpt-x").replace("test_release()", "test_release(ragtrace_gate)")
    result = _suite(pytester, code + "    assert ragtrace_gate().decision == 'pass'\n")
    result.assert_outcomes(passed=1)
    assert len(asked) == 1


def test_options_fill_what_is_not_said(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """The command line names the sides of a bare marker; what the marker says goes first."""
    code = """
    import pytest

    @pytest.mark.ragtrace_gate
    def test_bare(): pass

    @pytest.mark.ragtrace_gate(candidate="version:model=gpt-x", service="own")
    def test_named(): pass
    """
    options = ("--ragtrace-baseline=a", "--ragtrace-candidate=b", "--ragtrace-service=s", "--ragtrace-policy=p.yaml")
    _suite(pytester, code, *options).assert_outcomes(failed=1, passed=1)
    assert [(each["baseline"], each["candidate"], each["service"], each["policy"]) for each in asked] == [
        ("a", "b", "s", "p.yaml"),
        ("a", "version:model=gpt-x", "own", "p.yaml"),
    ]


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("(baseline='a')", "no candidate is named: give candidate=... to ragtrace_gate, or --ragtrace-candidate"),
        (
            "(baseline='a', candidate='nonsense')",
            "the release gate cannot judge: --ragtrace-candidate 'nonsense' is not usable",
        ),
        ("(baseline='a', candidate='b', polcy='c')", "the marker ragtrace_gate takes baseline, *, not polcy"),
        ("('a', 'b')", "the marker ragtrace_gate takes baseline, *, not a value without a name"),
    ],
)
def test_mistakes_are_one_line(
    marker: str, message: str, pytester: pytest.Pytester, asked: list[dict[str, Any]]
) -> None:
    """The test fails with what is wrong and what to give, without a traceback."""
    code = f"import pytest\n\n@pytest.mark.ragtrace_gate{marker}\ndef test_it(): pass\n"
    result = _suite(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{message}*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*During handling*")


def test_reports_are_written(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """Every format, passed or not, in a folder that is made; pytest's own JUnit XML carries the verdict."""
    result = _suite(pytester, MARKED, "--ragtrace-reports=out/gate", "--junitxml=tests.xml")
    result.assert_outcomes(failed=1)
    names = {path.name for path in Path(pytester.path, "out/gate").iterdir()}
    assert names == {f"test_gate.py-test_release{suffix}" for suffix in (".html", ".json", ".md", ".xml")}
    own = Path(pytester.path, "tests.xml").read_text("utf-8")
    assert 'name="ragtrace_gate" value="Blocked: generation got worse' in own


def test_a_folder_that_cannot_be_written(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """It is named, with the reason."""
    pytester.makefile(".txt", taken="")
    result = _suite(pytester, MARKED, "--ragtrace-reports=taken.txt")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*--ragtrace-reports 'taken.txt' is not usable*"])


def test_suites_without_a_gate_are_left_alone(pytester: pytest.Pytester, asked: list[dict[str, Any]]) -> None:
    """Nothing is judged, and nothing is said."""
    result = _suite(pytester, "def test_it(): pass\n")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*release gate*")
    assert asked == []


def test_the_plugin_can_be_turned_off(pytester: pytest.Pytester) -> None:
    """By its name, as the documentation says."""
    pytester.makepyfile(test_gate=MARKED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:ragtrace", "-p", "no:cacheprovider", "--strict-markers", "--co"],
        cwd=pytester.path,
        capture_output=True,
        text=True,
    )
    assert "'ragtrace_gate' not found in `markers` configuration option" in done.stdout


def test_pytest_finds_the_plugin() -> None:
    """By its entry point; the marker is known without more."""
    (found,) = metadata.entry_points(group="pytest11", name="ragtrace")
    assert found.value == "ragtrace.gate.plugin"


def test_the_plugin_is_light() -> None:
    """Every run of pytest in the environment loads it: no arithmetic, no database, no tables."""
    code = "import sys, ragtrace.gate.plugin; print(*{name.partition('.')[0] for name in sys.modules})"
    root = str(Path(ragtrace.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert {"ragtrace", "pytest"} <= loaded
    assert loaded & HEAVY == set()


def test_the_environment_names_the_store(
    pytester: pytest.Pytester, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RAGTRACE_STORE counts as on the command line of ragtrace, and `--ragtrace-store` before it."""
    url = f"sqlite:///{pytester.path}/gate.db"
    Store.open(url).close()
    monkeypatch.setenv("RAGTRACE_STORE", url)
    _suite(pytester, MARKED)
    _suite(pytester, MARKED, "--ragtrace-store=sqlite:///other.db")
    assert [call["store"] for call in asked] == [url, "sqlite:///other.db"]


def test_errors_name_the_options_of_pytest(
    pytester: pytest.Pytester, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pytest does not take is no remedy."""
    _suite(pytester, MARKED.replace("version:model=gpt-y", "nonsense")).stdout.fnmatch_lines(
        ["*cannot judge: --ragtrace-candidate 'nonsense' is not usable*"]
    )
    monkeypatch.setenv("RAGTRACE_STORE", f"sqlite:///{pytester.path}/none.db")
    _suite(pytester, MARKED).stdout.fnmatch_lines(["*RAGTRACE_STORE*none.db'* is no store*give --ragtrace-store URL*"])
    assert len(asked) == 1
