"""`ragtrace doctor`."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from typer.testing import CliRunner, Result

from ragtrace.cli import app
from ragtrace.collect import Spool, default_folder
from ragtrace.collect.entries import encode
from ragtrace.store import Store
from ragtrace.types import Feedback

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

Doctor: TypeAlias = Callable[..., Result]


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Run `ragtrace doctor ARGUMENTS` in an empty folder, in this process: torch is loaded once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGTRACE_STORE", raising=False)
    return lambda *arguments, **variables: CliRunner().invoke(
        app, ["doctor", *arguments], env={"COLUMNS": "400", **variables}
    )


def test_reports_a_healthy_store(doctor: Doctor, store_url: str) -> None:
    """Rows, queue and schema of a readable store are reported, and the exit code is 0."""
    done = doctor("--store", store_url, "--json")

    assert done.exit_code == 0, done.stderr
    store = json.loads(done.stdout)["store"]
    assert store["revision"] == store["head"]
    assert store["rows"]["request"] == 2
    assert store["queue"]["pending"] == 2
    assert store["error"] is None


def test_says_what_waits_for_models(doctor: Doctor, cli: Cli, store_url: str) -> None:
    """Counted apart from the queue, with the command that explains; nothing is said where there is none."""
    assert "explanations" not in doctor("--store", store_url).stdout
    cli("analyze", "--store", store_url, "--explain-rate", "1")

    reported = json.loads(doctor("--store", store_url, "--json").stdout)["store"]
    assert (reported["queue"]["pending"], reported["explanations"]["pending"]) == (0, 2)
    assert "ragtrace analyze --generator MODEL" in doctor("--store", store_url).stdout


def test_says_what_explanations_took_today(doctor: Doctor, cli: Cli, store_url: str) -> None:
    """Beside what waits: a budget that is used up holds jobs back."""
    cli("analyze", "--store", store_url, "--explain-rate", "1")
    with Store.open(store_url) as store:
        store.spend({"cpu": 12.34})
    assert "dead 0, cpu seconds today 12.3" in doctor("--store", store_url).stdout


def test_names_what_could_not_be_coerced(doctor: Doctor, store_url: str) -> None:
    """A counted coercion miss is named with its place and its type."""
    table = doctor("--store", store_url).stdout
    (fault,) = json.loads(doctor("--store", store_url, "--json").stdout)["store"]["faults"]

    assert (fault["where"], fault["kind"]) == ("coerce.retrieve", "DataFrame")
    assert "fault coerce.retrieve" in table
    assert "DataFrame" in table


def test_counts_what_waits_in_the_spool(doctor: Doctor, store_url: str) -> None:
    """Entries that a dead process left in the spool are counted, with the folder that they are in."""
    spool = Spool.open(default_folder(store_url), store_url)
    for request_id in ("a", "b"):
        spool.durable.append(encode(Feedback(request_id=request_id, score=1.0)))
    spool.close()
    reported = json.loads(doctor("--store", store_url, "--json").stdout)["store"]["spool"]

    assert reported == {"folder": str(default_folder(store_url)), "entries": 2, "damaged": 0}
    assert "2 entries wait" in doctor("--store", store_url).stdout


def test_nothing_recorded_yet_is_no_error(doctor: Doctor, tmp_path: Path) -> None:
    """On a fresh machine the default store is not there: that is reported, nothing is made, the exit code is 0."""
    done = doctor("--json")

    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["store"]["revision"] is None
    assert list(tmp_path.iterdir()) == []


def test_store_that_was_asked_for_must_be_there(doctor: Doctor, tmp_path: Path) -> None:
    """A store that is named and does not exist ends with 2, is reported, and is not made."""
    for done in (
        doctor("--json", "--store", "sqlite:///absent.db"),
        doctor("--json", RAGTRACE_STORE="sqlite:///absent.db"),
    ):
        assert done.exit_code == 2
        assert "absent.db" in json.loads(done.stdout)["store"]["error"]
    assert list(tmp_path.iterdir()) == []


def test_corrupt_store_is_reported(doctor: Doctor, tmp_path: Path) -> None:
    """A file that is no database ends with 2; the rest of the report is still there."""
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    done = doctor("--json", "--store", "sqlite:///broken.db")

    assert done.exit_code == 2
    report = json.loads(done.stdout)
    assert "broken.db" in report["store"]["error"]
    assert report["python"] == platform.python_version()


def test_missing_store_is_named_in_the_table(doctor: Doctor) -> None:
    """Without `--json` the error stands in the table, and nothing is a traceback."""
    done = doctor("--store", "sqlite:///absent.db")

    assert done.exit_code == 2
    assert "absent.db" in done.stdout
    assert done.stderr == ""
