"""One request over several processes: all of its stages stand in one record, all of its spans in one trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import ragtrace
from ragtrace.store import Store

PROGRAM = Path(__file__).with_name("processes.py")


def run(program: str | Path, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A Python program with this ragtrace."""
    quiet = ("-W", "ignore::DeprecationWarning")  # newer Pythons warn of forks beside threads
    command = [sys.executable, *quiet, *(("-c", program) if isinstance(program, str) else (str(program),)), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver", "queue"])
def test_the_stages_of_all_processes_stand_in_one_record(method: str, tmp_path: Path) -> None:
    """In the order in which they ended, each once, with what they found; the spans in one trace below the request's."""
    store, spans = f"sqlite:///{tmp_path / 'ragtrace.db'}", tmp_path / "spans"
    done = run(PROGRAM, method, store, str(spans))
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    names = [f"r{number}" for number in range(3)]
    ragtrace.configure(
        store=store
    )  # a child of a busy machine may have had no time to store, and left it to this start
    assert ragtrace.shutdown(timeout=60)
    with Store.open(store) as opened:
        found = opened.get_records(names)
        assert sorted(found) == names
        assert opened.faults() == []
    for name, record in found.items():
        assert [run.name for run in record.stages] == ["search", "search", "reorder", "build", "write"]
        assert {candidate.chunk_id for candidate in record.candidates} == {"a0", "a1", "a2", "b0", "b1", "b2"}
        assert [(move.chunk_id, move.rank_before) for move in record.moves][:2] == [("b2", 6), ("b1", 5)]
        assert record.packing is not None
        assert [chunk.chunk_id for chunk in record.packing.chunks] == ["b2", "b1"]
        assert record.generation is not None
        assert record.generation.answer == f"answer to q{name[1:]}"
        assert {len(run.span_id or "") for run in record.stages} == {16}
    lines = [json.loads(line) for line in spans.read_text().splitlines()]
    roots = {line["id"]: line["trace"] for line in lines if line["parent"] is None}
    assert sorted(f"{trace:032x}" for trace in roots.values()) == sorted(str(each.trace_id) for each in found.values())
    assert Counter(line["trace"] for line in lines) == dict.fromkeys(roots.values(), 6)
    assert all(roots[line["parent"]] == line["trace"] for line in lines if line["parent"] is not None)


FORKING = """
import os, sys, ragtrace
ragtrace.configure(service="svc", store=sys.argv[1])
end = sys.argv[2]
with ragtrace.request(query="q", request_id="around", flag="keep"):
    with ragtrace.retrieve(query="q") as run:
        run.candidates(["a"])
    child = os.fork()
    if child == 0:
        assert not ragtrace.current_request().recording
    with ragtrace.retrieve(query="q") as run:
        run.candidates(["in the child" if child == 0 else "b"])
if child == 0:
    with ragtrace.request(query="q", request_id="child", flag="keep"):
        pass
    with ragtrace.request(query="q", request_id="child sample"):
        pass
    if end == "kill":
        os.kill(os.getpid(), 9)
    sys.exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_a_fork_in_a_request_leaves_it_to_the_parent(end: str, tmp_path: Path) -> None:
    """The child's stages are its own; what it accepted is stored however it ends, and nothing is doubled."""
    store = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    done = run(FORKING, store, end)
    assert (done.stderr, done.returncode) == ("", 0)
    ragtrace.configure(store=store)
    assert ragtrace.shutdown(timeout=60)
    with Store.open(store) as opened:
        found = opened.get_records(["around", "child", "child sample"])
        assert [candidate.chunk_id for candidate in found["around"].candidates] == ["a", "b"]
        assert len(found["around"].stages) == 2
        assert ("child sample" in found) >= (end == "exit")
        assert "child" in found


HANGING = """
import sys, threading, ragtrace
from ragtrace.store import Store
if sys.argv[2] == "hangs":
    Store.write = lambda self, items: threading.Event().wait()
ragtrace.configure(service="svc", store=sys.argv[1])
for number in range(3):
    with ragtrace.request(query="q", request_id=f"r{number}", flag="keep" if number else None):
        pass
"""


def test_a_store_that_hangs_does_not_hold_the_end(tmp_path: Path) -> None:
    """The interpreter ends all the same, and the next start stores everything, samples too."""
    store = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    assert run(HANGING, store, "hangs").returncode == 0
    ragtrace.configure(store=store)
    assert ragtrace.shutdown(timeout=60)
    with Store.open(store) as opened:
        assert len(opened.get_records(["r0", "r1", "r2"])) == 3


IDLE = """
import multiprocessing, os, sys, ragtrace
from ragtrace.store import Store
ragtrace.configure(service="svc", store=sys.argv[1])
ragtrace.flush()
def refuse(*args): os._exit(3)
Store.open = refuse
child = multiprocessing.get_context("fork").Process(target=int)
child.start()
child.join()
sys.exit(child.exitcode)
"""


def test_a_child_that_records_nothing_opens_nothing(tmp_path: Path) -> None:
    """Its end costs no database."""
    done = run(IDLE, f"sqlite:///{tmp_path / 'ragtrace.db'}")
    assert (done.stderr, done.returncode) == ("", 0)


FORKED_IN_AN_IMPORT = """
import importlib.abc, os, signal, sys, threading
import ragtrace
from ragtrace.collect import _sink as sink

sink._FORK_WAIT = 0.0  # as an import that takes longer than that
begun, forks = threading.Event(), threading.Event()


class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "sqlalchemy.engine":
            begun.set()
            forks.wait(0.5)


sys.meta_path.insert(0, Slow())
ragtrace.configure(store="sqlite:///" + sys.argv[1])
begun.wait(60)
if os.fork() == 0:
    signal.alarm(20)
    import sqlalchemy.engine
    print("imported", flush=True)
    os._exit(0)
os.wait()
"""


def test_a_child_imports_what_the_parent_was_importing(tmp_path: Path) -> None:
    """A server that forks its workers right after `configure`, while the background opens the database."""
    done = run(FORKED_IN_AN_IMPORT, str(tmp_path / "ragtrace.db"))
    assert done.stdout == "imported\n", done.stderr


FORKED_IN_A_TRANSACTION = """
import os, sys, threading, time
from contextlib import contextmanager
import ragtrace
from ragtrace.collect import _sink as sink
from ragtrace.store.database import Database

sink._FORK_WAIT = 0.0  # as a transaction that takes longer than that
begun, write = threading.Event(), Database.write


@contextmanager
def slow(self):
    with write(self) as connection:
        begun.set()
        time.sleep(0.5)
        yield connection


Database.write = slow
ragtrace.configure(store="sqlite:///" + sys.argv[1])
begun.wait(60)
child = os.fork()
Database.write = write
if child == 0:
    with ragtrace.request(query="q", request_id="child"):
        pass
    print(ragtrace.shutdown(30), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_child_can_write_what_the_parent_was_writing(tmp_path: Path) -> None:
    """SQLite takes a lock that the parent held at the fork for the child's own, for as long as the child lives."""
    done = run(FORKED_IN_A_TRANSACTION, str(tmp_path / "ragtrace.db"))
    assert (done.stdout, done.stderr) == ("True\n", "")


FORKED_IN_A_FLUSH = """
import os, sys, threading, time
import ragtrace
from ragtrace.collect import _sink as sink, default_folder
from ragtrace.collect.spool import handed_folder, lock_segment, segment_paths

sink._FORK_WAIT = 0.0  # as a disk that takes longer than that
begun, forked, fsync = threading.Event(), threading.Event(), os.fsync


def slow(descriptor):
    begun.set()
    forked.wait(60)
    fsync(descriptor)


store = "sqlite:///" + sys.argv[1]
ragtrace.configure(store=store, build="worker")
os.fsync = slow
with ragtrace.request(query="q", request_id="parent"):
    pass
begun.wait(60)
lives, tells = os.pipe()
child = os.fork()
if child == 0:
    os.write(tells, b"!")
    time.sleep(60)  # it lives on
    os._exit(0)
os.read(lives, 1)  # else a busy machine may not have let it close anything yet
forked.set()
done = ragtrace.shutdown(30)
free = [path for path in segment_paths(handed_folder(default_folder(store))) if lock_segment(path)]
print(done, len(free), flush=True)
os.kill(child, 9)
os.waitpid(child, 0)
"""


def test_a_child_holds_no_file_that_the_parent_was_writing(tmp_path: Path) -> None:
    """What the parent has handed over can be built while the child lives."""
    done = run(FORKED_IN_A_FLUSH, str(tmp_path / "ragtrace.db"))
    assert (done.stdout, done.stderr) == ("True 1\n", "")
