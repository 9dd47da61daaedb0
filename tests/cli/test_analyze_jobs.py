"""`ragtrace jobs`: the queue for the hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtrace.cli import app
from ragtrace.store import Store
from ragtrace.types import RequestRecord


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a dead job and a pending one."""
    found = f"sqlite:///{tmp_path}/jobs.db"
    with Store.open(found) as store:
        store.write([RequestRecord(request_id="r1", service="assistant", flags=("feedback",))])
        (job,) = store.claim("worker")
        store.fail(job, "no model", for_good=True)
        store.write([RequestRecord(request_id="r2", service="assistant")])
    return found


def run(*arguments: str) -> tuple[str, BaseException | None]:
    """What was printed, and what was raised."""
    result = CliRunner().invoke(app, ["jobs", *arguments])
    return result.output, result.exception


def test_list(url: str) -> None:
    """Newest first; a flagged request's job is marked; the reason of the last failure."""
    output, _ = run("list", "--store", url)
    found = json.loads(run("list", "--state", "dead", "--json", "--store", url)[0])

    assert output.index("r2") < output.index("r1")
    assert "dead *" in output
    assert "no model" in output
    assert [(row["request_id"], row["error"]) for row in found] == [("r1", "no model")]
    assert run("list", "--service", "nobody", "--store", url)[0] == "no such jobs\n"


def test_retry_and_drop(url: str) -> None:
    """By number or all; what is in another state is counted as such."""
    assert run("retry", "1", "2", "--store", url)[0] == "1 enqueued again; 1 is in another state or not there\n"
    assert run("retry", "8", "9", "--store", url)[0] == "0 enqueued again; 2 are in another state or not there\n"
    assert run("drop", "--all", "--state", "pending", "--store", url)[0] == "2 dropped\n"
    assert run("list", "--store", url)[0] == "no such jobs\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["retry"], "name the jobs (ragtrace jobs retry 12 13) or give --all"),
        (["drop", "1", "--all"], "one of the two"),
        (["drop", "--all", "--state", "leased"], "a worker has leased jobs in hand"),
        (["list", "--state", "lost"], "pending, leased, done, dead"),
        (["list", "--kind", "coverge"], "--kind 'coverge' is not usable; give coverage or attribution"),
        (["retry", "--all", "--kind", "coverge"], "give coverage or attribution"),
        (["drop", "--all", "--kind", "coverge"], "give coverage or attribution"),
    ],
)
def test_bad_input(url: str, arguments: list[str], reason: str) -> None:
    """One line with the remedy."""
    assert reason in str(run(*arguments, "--store", url)[1])
