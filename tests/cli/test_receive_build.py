"""`ragtrace build`: what applications have handed over becomes records."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ragtrace
from ragtrace.store import Store

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def hand_over(url: str, request_id: str, spool: Path | None = None) -> None:
    """One request of an application."""
    ragtrace.configure(service="svc", store=url, build="worker", spool=spool)
    with ragtrace.request(query="q", request_id=request_id):
        pass
    assert ragtrace.shutdown(60)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store that nobody has made yet."""
    return f"sqlite:///{tmp_path / 'ragtrace.db'}"


def test_once(cli: Cli, url: str, tmp_path: Path) -> None:
    """All that waits is stored, for people and programs; doctor says before that it waits, and what to run."""
    hand_over(url, "r0")
    line = next(line for line in cli("doctor", "--store", url).stdout.splitlines() if "entries wait" in line)
    assert "1 entries wait in" in line
    assert "ragtrace build --follow" in cli("doctor", "--store", url).stdout
    assert cli("build", "--store", url).stdout.startswith("1 stored in sqlite:///")
    hand_over(url, "r1", tmp_path / "spool")
    found = cli("build", "--store", url, "--spool", str(tmp_path / "spool"), "--json")
    assert json.loads(found.stdout) == {"stored": 1, "waiting_bytes": 0}
    assert json.loads(cli("build", "--store", url, "--json").stdout) == {"stored": 0, "waiting_bytes": 0}
    with Store.open(url) as store:
        assert store.get_records(["r0", "r1"]).keys() == {"r0", "r1"}


def test_where_no_spool_is(cli: Cli, url: str, tmp_path: Path) -> None:
    """A mistyped store is told from one with nothing new, and nothing is made."""
    found = cli("build", "--store", url)
    assert "nothing has been handed over yet" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_the_store_does_not_take_waits(cli: Cli, tmp_path: Path) -> None:
    """The exit code and the words say so."""
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    hand_over(url, "r0")
    (tmp_path / "ragtrace.db").write_bytes(b"this is no database" * 100)
    found = cli("build", "--store", url)
    assert found.returncode == 1
    assert "0 stored in" in found.stdout
    assert "the store takes nothing" in found.stdout


def test_follow(url: str) -> None:
    """It stores what comes later, and ends by SIGTERM."""
    command = [sys.executable, "-m", "ragtrace", "build", "--store", url, "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        hand_over(url, "r0")
        until = time.monotonic() + 60
        while not _is_stored(url, "r0") and time.monotonic() < until:
            time.sleep(0.1)
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert said.startswith("1 stored in")


def _is_stored(url: str, request_id: str) -> bool:
    if not Path(url.removeprefix("sqlite:///")).exists():
        return False
    with Store.open(url) as store:
        return store.get_record(request_id) is not None
