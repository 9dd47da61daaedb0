"""`ragtrace probe` and `ragtrace analyze --probe`: an index of the user's own, found by name; what bad input gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace.store import Store
from ragtrace.types import Candidate, Gold, Query, RequestRecord, RetrieveRun

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

APPLICATION = """
from ragtrace.probe import CallableProbe

CHUNKS = {"fees": "The mooring fee of a keelboat is 640 euros a year.", "dogs": "Dogs are kept on a lead.",
          "keys": "A lost key costs 25 euros.", "vhf": "The club listens on channel 72."}

def hits(names, depth):
    return [{"id": name, "text": CHUNKS[name]} for name in names][:depth]

probe = CallableProbe(
    search=lambda query, depth: hits(["dogs", "keys", "vhf"], depth),
    exact=lambda query, depth: hits(["fees", "dogs", "keys", "vhf"], depth),
    contains=lambda chunk: chunk in CHUNKS,
)

def broken():
    raise RuntimeError("no index here")

class Fails:
    def probe(self, query, depth, exact):
        raise ConnectionError("no route to the index")
    def has(self, chunk):
        return None

fails = Fails()
"""
QUESTION = "What is the mooring fee of a keelboat a year?"
STORE = ("--store", "sqlite:///r.db")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with an application, and a store with one request that lacks its evidence."""
    (tmp_path / "application.py").write_text(APPLICATION)
    chunks = {"dogs": "Dogs are kept on a lead.", "keys": "A lost key costs 25 euros."}
    found = tuple(Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(chunks.items(), 1))
    record = RequestRecord(
        request_id="r1",
        service="club",
        query=Query(original=QUESTION),
        stages=(RetrieveRun(query=QUESTION, top_k=2, candidates=found),),
    )
    with Store.open(f"sqlite:///{tmp_path}/r.db") as store:
        store.write([record])
        store.put_gold([Gold(service="club", question=QUESTION, chunk_ids=("fees",))])
    return tmp_path


def test_a_request_is_asked_about(cli: Cli, here: Path) -> None:
    """The verdict, which chunk is missing and why, and what to do; nothing is stored, no text is printed."""
    done = cli("probe", "r1", "--probe", "application:probe", *STORE)
    assert done.returncode == 0, done.stderr
    assert "recall failure: retrieval broke" in done.stdout
    assert "fees was missed by the approximate search (rank 1 of an exact search)" in done.stdout
    assert "raise nprobe" in done.stdout
    assert "640 euros" not in done.stdout
    with Store.open(f"sqlite:///{here}/r.db") as store:
        assert store.counts()["index_probe"] == 0


def test_a_query_is_asked_about(cli: Cli, here: Path) -> None:
    """The ranks of what is found, and why a chunk is not."""
    asked = ("probe", "--query", QUESTION, "--depth", "2", "--probe", "application:probe")
    done = cli(*asked, "--chunk", "fees", "--chunk", "nothing")
    assert done.returncode == 0, done.stderr
    assert "fees was missed by the approximate search" in done.stdout
    assert "nothing is not in the index" in done.stdout
    told = json.loads(cli(*asked, "--chunk", "fees", "--json").stdout)
    assert [one["cause"] for one in told["chunks"]] == ["missed_by_search"]
    assert {one["chunk_id"]: one["exact_rank"] for one in told["found"]} == {"fees": 1, "dogs": 2, "keys": 3, "vhf": 4}


def test_analyze_asks_the_named_probe(cli: Cli, here: Path) -> None:
    """By option or by the environment; what it found is stored, and `show` tells it."""
    done = cli("analyze", *STORE, RAGTRACE_PROBE="application:probe")
    assert done.returncode == 0, done.stderr
    shown = cli("show", "r1", *STORE).stdout
    assert "missed by the approximate search" in shown
    assert "asked for 20 candidates in place of 2, also exactly" in " ".join(shown.split())
    told = json.loads(cli("show", "r1", "--json", *STORE).stdout)["analysis"]["probe"]
    assert (told["cause"], told["chunks"][0]["exact_rank"]) == ("missed_by_search", 1)
    assert "640 euros" not in json.dumps(told)


def test_processes_import_the_probe_themselves(cli: Cli, here: Path) -> None:
    """A worker in a process of its own has its own."""
    done = cli("analyze", "--executor", "processes", "--probe", "application:probe", *STORE)
    assert done.returncode == 0, done.stderr
    with Store.open(f"sqlite:///{here}/r.db") as store:
        assert store.counts()["index_probe"] == 1


def test_a_probe_that_fails_is_said_and_stops_nothing(cli: Cli, here: Path) -> None:
    """One line; the request is analyzed; `ragtrace probe` itself ends with the error."""
    done = cli("analyze", "--probe", "application:fails", *STORE)
    assert (done.returncode, done.stdout.strip()) == (0, "1 request analyzed")
    assert done.stderr.count("no route to the index") == 1
    tried = cli("probe", "r1", "--probe", "application:fails", *STORE)
    assert (tried.returncode, tried.stderr) == (2, "ragtrace: ConnectionError: no route to the index\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("probe",), "give a request id, or --query"),
        (("probe", "r1", "--query", "x"), "give a request id, or --query"),
        (("probe", "r1"), "no probe is given; give --probe MODULE:NAME or RAGTRACE_PROBE"),
        (("probe", "r1", "--probe", "application:nothing"), "has no 'nothing'"),
        (("probe", "r1", "--probe", "application:broken()"), "application:broken() failed: RuntimeError"),
        (("analyze", "--probe", "application:APPLICATION"), "has no 'APPLICATION'"),
    ],
)
def test_bad_input_gets_one_line(cli: Cli, here: Path, arguments: tuple[str, ...], message: str) -> None:
    """With the remedy."""
    done = cli(*arguments, *STORE)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
