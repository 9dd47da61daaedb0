"""One process at a time replays a name into a store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay.alone import alone
from ragtrace.store import Store
from tests.cli.conftest import environment
from tests.gate.replay.conftest import Run

HOLDER = """
import sys
from ragtrace.gate.replay.alone import alone
from ragtrace.store import Store
with Store.open(sys.argv[1]) as store, alone(store, "a"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """A store that is there already."""
    url = f"sqlite:///{tmp_path / 'replays.db'}"
    Store.open(url).close()
    return url


def test_a_second_replay_of_a_name_is_refused_while_the_first_one_runs(run: Run, store_url: str) -> None:
    """Another name goes on beside it; so does the same one as soon as the first has been killed."""
    command = [sys.executable, "-c", HOLDER, store_url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigurationError, match=r"run 'a' is being replayed into store .* by another process"):
            run("plain")
        assert run("plain", name="b").answered == 1
        os.kill(holder.pid, signal.SIGKILL)
    assert run("plain").answered == 1


def test_another_machine_is_kept_out_by_the_store(store_url: str) -> None:
    """It has no lock in common with this one; what it left behind runs out."""
    with Store.open(store_url) as store:
        assert store.acquire("replay a", "elsewhere 1 2", 600.0)
        with pytest.raises(ConfigurationError, match=r"lets go after 60 s"), alone(store, "a"):
            pass
        store.release("replay a", "elsewhere 1 2")
        with alone(store, "a"):
            assert not store.acquire("replay a", "elsewhere 1 2", 600.0)
        assert store.acquire("replay a", "elsewhere 1 2", 600.0)
