"""The frame around all verbs: help, errors, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace import cli as cli_package
from ragtrace.collect import Spool, default_folder
from ragtrace.collect.spool import encode_entry
from ragtrace.types import Feedback

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

VERBS = ("demo", "analyze", "export", "show", "explain", "align", "drift", "db", "doctor")


def test_public_names_exist() -> None:
    """`__all__` names what the package has."""
    assert [name for name in cli_package.__all__ if not hasattr(cli_package, name)] == []


def test_help_lists_every_verb(cli: Cli) -> None:
    """`ragtrace --help` names all verbs."""
    done = cli("--help")

    assert done.returncode == 0
    assert [verb for verb in VERBS if verb not in done.stdout] == []


def test_help_has_the_verbs_in_groups(cli: Cli) -> None:
    """Each verb stands in one of five boxes, by what somebody wants to do; none is left in a heap."""
    said = cli("--help").stdout
    boxes = [line.strip("╭─╮ ").partition(":")[0] for line in said.splitlines() if line.startswith("╭")]
    assert boxes == ["Options", "Record", "Judge", "Look", "Release", "Operate"]


@pytest.mark.parametrize("verb", [*VERBS, "align report", "db upgrade"])
def test_every_verb_has_help(cli: Cli, verb: str) -> None:
    """Each verb explains itself."""
    done = cli(*verb.split(), "--help")

    assert done.returncode == 0, done.stderr
    assert "Usage: ragtrace" in done.stdout


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("demo", "may be repeated.  [default: all]"),
        ("analyze", "ragtrace[spacy]"),
        ("align report", "ragtrace[spacy]"),
        ("jobs list", "[default: all but done]"),
        ("demo", "the port of the pages"),
        ("show", "suspected, not_known."),
        ("analyze", "low_coverage=generator+query"),
        ("analyze", "Grades go from -1 (surely not relevant) to 1"),
    ],
)
def test_help_says(cli: Cli, verb: str, said: str) -> None:
    """Defaults and extras of packages, which are no markup; the values of an option, and an example."""
    done = cli(*verb.split(), "--help", COLUMNS="400")
    assert said in done.stdout


def test_help_loads_nothing_heavy() -> None:
    """The command line is up before SQLAlchemy, torch, NumPy or Prometheus are imported."""
    program = "import sys, ragtrace.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    heavy = {"torch", "transformers", "sqlalchemy", "alembic", "numpy", "prometheus_client", "yaml", "sentencex"}
    assert "ragtrace.cli" in loaded
    assert heavy & set(loaded) == set()


def test_what_waits_for_a_store_is_said(cli: Cli, tmp_path: Path) -> None:
    """A process that ended before its store could be made has left its records in the spool."""
    url = f"sqlite:///{tmp_path}/made-later.db"
    spool = Spool.open(default_folder(url), url)
    spool.durable.append(encode_entry(Feedback(request_id="r1", score=1.0)))
    spool.close()
    said = cli("show", "--store", url).stderr
    assert f"does not exist or is empty, and 1 of its records wait in {default_folder(url)}" in said


@pytest.mark.parametrize(
    "verb", ["analyze", "export --once", "export", "show 01", "explain 01", "align report", "drift"]
)
def test_reading_verbs_never_make_a_database(cli: Cli, tmp_path: Path, verb: str) -> None:
    """On a store that is not there, a verb that reads ends with one line, exit code 2, and leaves no file behind."""
    done = cli(*verb.split(), "--store", "sqlite:///absent.db")

    assert done.returncode == 2
    assert done.stderr.startswith("ragtrace: store sqlite:///absent.db does not exist or is empty; ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_bad_store_url_is_one_line(cli: Cli) -> None:
    """A URL of no known database is refused with the URLs that are allowed."""
    done = cli("analyze", "--store", "mysql://localhost/x")

    assert done.returncode == 2
    assert done.stderr.startswith("ragtrace: ")
    assert "sqlite:///" in done.stderr
    assert done.stderr.count("\n") == 1


def test_debug_shows_the_traceback(cli: Cli) -> None:
    """RAGTRACE_DEBUG=1 lets the error through, for whoever has to find its cause."""
    done = cli("analyze", "--store", "mysql://localhost/x", RAGTRACE_DEBUG="1")

    assert "Traceback" in done.stderr
    assert "ConfigurationError" in done.stderr


def test_a_fault_of_ragtrace_is_no_verdict(tmp_path: Path) -> None:
    """An exception of ours ends with 70, since 1 says "blocked"; its traceback is there to be reported."""
    program = (
        "import sys, ragtrace.gate.runs as runs; from ragtrace.cli import main\n"
        "runs.run = lambda *_, **__: 1 / 0\n"
        "sys.argv = ['ragtrace', 'gate', 'run', '--baseline', 'a.jsonl', '--candidate', 'b.jsonl']\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "ZeroDivisionError" in done.stderr
    assert done.stderr.endswith("fault of ragtrace; please report it\n")


def test_passwords_are_never_printed(cli: Cli) -> None:
    """An unreachable server is reported without the password of its URL."""
    url = "postgresql://user:s3cret@127.0.0.1:1/ragtrace"
    for done in (cli("analyze", "--store", url), cli("doctor", "--json", "--store", url)):
        assert done.returncode == 2
        assert "s3cret" not in done.stdout + done.stderr
        assert "127.0.0.1" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["analyze", "--limit", "0"], ["export", "--format", "xml"], ["grade", "request"]]
)
def test_wrong_usage_ends_with_2(cli: Cli, arguments: list[str]) -> None:
    """An unknown verb, a value out of range, an unknown format and a missing argument are usage errors."""
    done = cli(*arguments)

    assert done.returncode == 2
    assert "Usage: ragtrace" in done.stderr
    assert "Traceback" not in done.stderr
