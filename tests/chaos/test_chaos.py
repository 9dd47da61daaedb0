"""Chaos: hosts that are killed, fork, raise, time out and flood answer as if nothing were recorded, and every flagged
request that ragtrace accepted is in the store, also where another file takes the store's place.

`make chaos` runs it for longer: RAGTRACE_CHAOS_SECONDS. A failure names its seed, for RAGTRACE_CHAOS_SEED.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace.store import Store
from tests.chaos.pipeline import Pipeline, kind_of, request_id_of

MODES = ("kill", "flood", "fork", "full", "faulty", "kill", "replaced")
SECONDS = float(os.environ.get("RAGTRACE_CHAOS_SECONDS", "0"))  # 0: every mode once
SEED = int(os.environ.get("RAGTRACE_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
STAGES = {"plain": 4, "flagged": 4, "raises": 1, "streams": 4, "batch": 6, "gathered": 5, "cancelled": 5}
DEADLINE = 90  # seconds, for what would otherwise hang

pytestmark = [pytest.mark.alone, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")]


@dataclass
class Host:
    """One host process: what it was told to do, and all that it said until it ended."""

    mode: str
    service: str
    size: int
    store: str
    answers: dict[int, str] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)
    around: set[str] = field(default_factory=set)
    confirmed: list[int] = field(default_factory=list)  # how many requests each flush has said to be stored
    missing: list[str] = field(default_factory=list)  # those of them that the store did not hold then
    disturbed: int = 0
    stored: bool | None = None
    ended: int = 0
    errors: str = ""

    def hear(self, line: dict[str, Any]) -> None:
        """Take one of its lines."""
        if "number" in line:
            assert line["number"] not in self.answers
            self.answers[line["number"]] = line["answer"]
            if line["accepted"]:
                self.accepted.add(request_id_of(line["number"]))
        elif "around" in line:
            self.around.add(line["around"])
        elif "confirmed" in line:
            self.confirmed.append(line["confirmed"])
            self.missing += line["missing"]
        elif "due" in line:  # of those that were accepted, what went to an earlier file is gone with it
            self.accepted = set(line["due"])
        self.disturbed += "disturbed" in line
        self.stored = line.get("stored", self.stored)


def settings_of(mode: str, number: int, store: str, seed: int) -> dict[str, Any]:
    """What a host is told; a flood brings more than its queue takes, at once. A store that is replaced is its alone."""
    flood = mode == "flood"
    folder = Path(store.removeprefix("sqlite:///")).parent / f"{mode}-{number}"
    if mode == "replaced":
        folder.mkdir()
    return {
        "store": f"sqlite:///{folder}/ragtrace.db" if mode == "replaced" else store,
        "service": f"{mode}-{number}",
        "seed": seed,
        "start": (number + 1) * 1_000_000,
        "mode": mode,
        "pace": {"flood": 0, "replaced": 0.05}.get(mode, 0.01),
        "size": 3000 if flood else 0,
        "limit": 400 if flood else 5000,
        "queue_bytes": 50_000 if flood else 2**24,
    }


def run_host(mode: str, number: int, store: str, seed: int, folder: Path) -> Host:
    """Start a host, let it work, end it or kill it, and give what it said."""
    settings = settings_of(mode, number, store, seed)
    host, errors = (
        Host(mode, settings["service"], settings["size"], settings["store"]),
        folder / f"{mode}-{number}.stderr",
    )
    with errors.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("host.py")), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            env={**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])},
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    rescue = threading.Timer(DEADLINE, os.killpg, (process.pid, signal.SIGKILL))
    enough = random.Random(seed).randrange(30, 300)
    rescue.start()
    for line in process.stdout:
        host.hear(json.loads(line))
        if not process.stdin.closed and len(host.answers) >= enough and host.disturbed >= 3:
            process.stdin.close()
            if mode == "kill":
                process.kill()
    host.ended = process.wait()
    rescue.cancel()
    host.errors = errors.read_text()
    return host


def rounds(seed: int) -> Iterator[tuple[str, int, int]]:
    """Mode, number and seed of each host: every mode once, then by chance until the time is over."""
    chance, until = random.Random(seed), time.monotonic() + SECONDS
    for number in itertools.count():
        if number >= len(MODES) and time.monotonic() >= until:
            return
        yield MODES[number] if number < len(MODES) else chance.choice(MODES), number, chance.randrange(2**32)


def disturb(path: Path, stop: threading.Event, chance: random.Random) -> None:
    """Lock the database against everybody else, again and again."""
    while not stop.wait(chance.uniform(0.1, 1.0)):
        if path.exists():
            with sqlite3.connect(path, timeout=10, isolation_level=None) as connection:
                try:
                    connection.execute("BEGIN EXCLUSIVE")
                    stop.wait(chance.uniform(0.05, 0.5))
                    connection.execute("ROLLBACK")
                except sqlite3.OperationalError:
                    pass  # a host was faster
            connection.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store of all hosts."""
    return f"sqlite:///{tmp_path_factory.mktemp('chaos') / 'ragtrace.db'}"


@pytest.fixture(scope="module")
def hosts(store: str, tmp_path_factory: pytest.TempPathFactory) -> list[Host]:
    """All hosts have ended, and a new process has stored what they left in the spool."""
    print(f"chaos: RAGTRACE_CHAOS_SEED={SEED}")
    folder, stop = tmp_path_factory.mktemp("errors"), threading.Event()
    path = Path(store.removeprefix("sqlite:///"))
    locker = threading.Thread(target=disturb, args=(path, stop, random.Random(SEED)))
    locker.start()
    ended: list[Host] = []
    left, turn = rounds(SEED), threading.Lock()

    def run_hosts() -> None:
        while True:
            with turn:
                following = next(left, None)
            if following is None:
                return
            mode, number, seed = following
            ended.append(run_host(mode, number, store, seed, folder))

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(run_hosts) for _ in range(2)]:
            future.result()
    stop.set()
    locker.join()
    ragtrace.configure(service="after", store=store)
    assert ragtrace.shutdown(timeout=DEADLINE)
    return ended


def test_every_answer_is_that_of_a_plain_run(hosts: list[Host]) -> None:
    """Whatever was done to the process, and whatever of ours failed."""
    for host in hosts:
        plain = Pipeline(size=host.size)
        assert len(host.answers) >= 30, f"{host.service} did too little to show anything (seed {SEED}): {host.errors}"
        assert host.answers == {number: plain.answer(number) for number in host.answers}, f"seed {SEED}"


def test_hosts_end_as_they_should(hosts: list[Host]) -> None:
    """Killed or by themselves, within the time, with no exception of ours on their standard error."""
    for host in hosts:
        assert host.ended == (-signal.SIGKILL if host.mode == "kill" else 0), f"{host.service}: {host.errors}"
        wanted = {"kill": (None,), "faulty": (True, False)}.get(host.mode, (True,))
        assert host.stored in wanted, f"{host.service} (seed {SEED}): {host.errors}"
        assert "Traceback" not in host.errors, host.errors


def test_the_hosts_were_really_disturbed(hosts: list[Host], store: str) -> None:
    """The disk was full, ragtrace's own parts raised, and processes forked."""
    with Store.open(store) as opened:
        met = {(fault.service.partition("-")[0], fault.kind) for fault in opened.faults()}
    assert {("full", "OSError"), ("faulty", "Fault"), ("flood", "full")} <= met
    assert any(host.around for host in hosts)


def test_what_a_flush_confirms_is_in_the_file_that_stands_there(hosts: list[Host]) -> None:
    """Whether a copy took the store's place while the host ran, or nothing did for a while."""
    replaced = [host for host in hosts if host.mode == "replaced"]
    print(f"chaos: {len(hosts)} hosts; stores replaced {sum(host.disturbed for host in replaced)} times")
    for host in replaced:
        assert host.missing == [], f"{host.service} (seed {SEED}): {host.errors}"
        assert host.disturbed >= 3
        assert sum(host.confirmed) > 0
        assert "was deleted while it was open" in host.errors


def test_every_accepted_flagged_request_is_stored_once(hosts: list[Host]) -> None:
    """With the stages that it had, none of them twice; also those around a fork and in forked children."""
    for host in hosts:
        with Store.open(host.store) as opened:
            found = opened.get_records([*host.accepted, *host.around])
            assert set(found) == host.accepted | host.around, f"{host.service} (seed {SEED}): {host.errors}"
            for record in found.values():
                assert record.flags, record
            assert all(len(found[name].stages) == 2 for name in host.around)


def test_no_stage_is_lost_or_doubled(hosts: list[Host]) -> None:
    """A request that is stored is stored whole."""
    for host in hosts:
        with Store.open(host.store) as opened:
            numbers = [number for number in host.answers if kind_of(number) != "overdue"]
            found = opened.get_records([request_id_of(number) for number in numbers])
            counts = {number: len(found[name].stages) for number in numbers if (name := request_id_of(number)) in found}
            assert counts == {number: STAGES[kind_of(number)] for number in counts}, f"{host.service} (seed {SEED})"


def test_dropped_samples_are_counted(hosts: list[Host], store: str) -> None:
    """In hosts that ended by themselves, one by one: requests, and stages that came after their request."""
    with Store.open(store) as opened:
        faults = opened.faults()
        for host in hosts:
            if host.mode not in ("flood", "full"):
                continue
            found = opened.get_records([request_id_of(number) for number in host.answers])
            late = [number for number in host.answers if kind_of(number) == "overdue"]
            bare = [number for number in late if (record := found.get(request_id_of(number))) and not record.stages]
            dropped = sum(
                fault.count
                for fault in faults
                if fault.service == host.service and fault.kind == "full" and fault.where.startswith("sink.")
            )
            assert dropped == len(host.answers) - len(found) + len(bare), f"{host.service} (seed {SEED})"
