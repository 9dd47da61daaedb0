"""Soak: receiver, workers and PostgreSQL are killed at random while senders send, and the store is deleted, restored or
made anew. Every acknowledged trace that the store did not take along is stored once then, and every job is done once
or dead.

`make soak` runs it for longer: RAGTRACE_SOAK_SECONDS. A failure names its seed, for RAGTRACE_SOAK_SEED.
"""

from __future__ import annotations

import gzip
import os
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.errors import StoreError
from ragtrace.store import Store

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

SHORT = 12.0
SECONDS = float(os.environ.get("RAGTRACE_SOAK_SECONDS", SHORT))
SEED = int(os.environ.get("RAGTRACE_SOAK_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
PAUSE = 2.5  # seconds between two kills, on average
SENDERS = 3
DEADLINE = 300 + SECONDS  # for all that is left to be stored and analyzed
PAGE = 500


def trace(number: int) -> bytes:
    """The spans of one request, in OpenInference's words."""
    texts = [f"Fact {number * 7 + place} of the tariff of Ireland is {place} percent." for place in range(3)]
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "soak"
    scope = resource.scope_spans.add()
    kinds: list[tuple[str, dict[str, str]]] = [
        ("CHAIN", {"input.value": f"What is fact {number}?", "output.value": "It is 1 percent."}),
        (
            "RETRIEVER",
            {f"retrieval.documents.{place}.document.content": text for place, text in enumerate(texts)},
        ),
        (
            "LLM",
            {
                "llm.input_messages.0.message.content": "\n\n".join(texts),
                "llm.output_messages.0.message.content": "It is 1 percent.",
            },
        ),
    ]
    for place, (kind, attributes) in enumerate(kinds, 1):
        span = scope.spans.add(name=kind, start_time_unix_nano=place, end_time_unix_nano=10 - place)
        span.trace_id, span.span_id = number.to_bytes(16, "big"), place.to_bytes(8, "big")
        span.parent_span_id = b"" if place == 1 else (1).to_bytes(8, "big")
        for key, value in (attributes | {"openinference.span.kind": kind}).items():
            span.attributes.add(key=key).value.string_value = value
    return gzip.compress(bytes(message.SerializeToString()))


class Soak:
    """The processes, and what the senders were told. server: PostgreSQL's; None: the store is a SQLite file."""

    def __init__(self, server: PostgresServer | None, url: str, folder: Path) -> None:
        self.server, self.url, self.folder = server, url, folder
        self.file = Path(url.removeprefix("sqlite:///"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.acknowledged: dict[int, tuple[float, float]] = {}  # when it was sent, and when that was said
        self.taken: list[tuple[float, float]] = []  # from when to when what a store took was taken along with it
        self.answers: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.states: Counter[int | None] = Counter()  # what `/readyz` said while there was no file
        self.stop = threading.Event()

    def start(self, name: str) -> None:
        """Start the receiver or a worker."""
        verbs = {"receiver": ["serve", "--port", str(self.port), "--grpc-port", "0", "--grace", "0.2"]}
        verb = verbs.get(name, ["analyze", "--follow"])
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "ragtrace", *verb, "--store", self.url], stdout=log, stderr=log
            )

    def kill(self, name: str) -> None:
        """Kill one of them without warning, and start it again."""
        self.kills[name] += 1
        if name == "postgresql":
            assert self.server is not None
            self.server.kill()
            self.server.start()
            return
        if name in ("new", "restored", "missed", "deleted"):
            self.replace(name)
            return
        self.processes[name].kill()
        self.processes[name].wait()
        self.start(name)

    def replace(self, way: str) -> None:
        """Another store takes the place of the one that is open: an empty one, or a copy that others have outrun."""
        copied = time.monotonic() if way in ("restored", "missed") else -inf
        if self.server is not None:
            database = self.url.rpartition("/")[2]
            self.server.run(f"DROP DATABASE {database} WITH (FORCE)")
            self.server.run(f"CREATE DATABASE {database}")
        else:
            self.wait_until_open()  # a process that starts while there is no file makes one at once
            copy = self.file.with_name("copy.db")
            with closing(sqlite3.connect(self.file, timeout=60)) as connection:
                connection.execute("VACUUM INTO ?", (str(copy),))
            self.file.unlink()
            for log in (
                "-wal",
                "-shm",
            ):  # as docs/reference/store.md says: a process that starts now would apply them to the copy
                Path(f"{self.file}{log}").unlink(missing_ok=True)
            if way != "restored":
                self.watch(ends=time.monotonic() + (1.0 if way == "missed" else 60.0))
            if way == "deleted":
                copy.unlink()
            else:
                copy.replace(self.file)
        self.taken.append((copied, time.monotonic()))
        self.wait_until_ready()

    def watch(self, ends: float) -> None:
        """What the receiver says of itself while no file is there, until one is or the time is over."""
        while time.monotonic() < ends and not self.file.exists():
            said = self.ready()
            if not self.file.exists():
                self.states[said] += 1

    def ready(self) -> int | None:
        """The status of `/readyz`; None: nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def wait_until_ready(self) -> None:
        """Until whatever was open has been let go, so that the next process finds no log of the old file."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            if self.ready() == 200:
                return
            time.sleep(0.1)
            self.revive()
        raise AssertionError(f"seed {SEED}: the receiver is not ready")

    def wait_until_open(self) -> None:
        """Until every process holds the file that stands there, the receiver's assemblers among them."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            self.revive()
            assemblers = list(_spawned(self.processes["receiver"].pid))
            openers = [*assemblers, *(process.pid for process in self.processes.values())]
            if assemblers and all(map(self._holds_file, openers)):
                return
            time.sleep(0.1)
        raise AssertionError(f"seed {SEED}: not every process has opened {self.file}")

    def _holds_file(self, process: int) -> bool:
        try:
            return any(os.path.samefile(each, self.file) for each in Path(f"/proc/{process}/fd").iterdir())
        except OSError:  # one of them was closed meanwhile, or the process has ended
            return False

    def revive(self) -> None:
        """Start again what ended by itself because the database was away."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                self.start(name)

    def send(self, place: int) -> None:
        """Send one trace after the other, each until it is acknowledged."""
        number = place
        while not self.stop.is_set():
            number += SENDERS
            body = trace(number)
            while number not in self.acknowledged:
                self._try(number, body)
                if self.stop.is_set():
                    return

    def _try(self, number: int, body: bytes) -> None:
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/traces", body, headers)
        sent = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=20):
                self.acknowledged[number] = sent, time.monotonic()
                self.answers["200"] += 1
        except urllib.error.HTTPError as error:
            self.answers[str(error.code)] += 1
            time.sleep(0.2)
        except OSError:  # the receiver is gone, with or without having committed
            self.answers["none"] += 1
            time.sleep(0.1)

    def ids(self) -> list[str]:
        """The ids of the acknowledged traces that no store has taken along."""
        return [
            f"{number:032x}"
            for number, (sent, said) in sorted(self.acknowledged.items())
            if not any(sent < until and said > since for since, until in self.taken)
        ]


def _spawned(process: int) -> Iterator[int]:
    """The processes of multiprocessing that a process has started; the one that tracks resources opens nothing."""
    with suppress(OSError):  # one of them has ended
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in children.read_text().split():
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield int(child)


def _soak(soak: Soak, started: Sequence[str], victims: Sequence[str], seconds: float) -> None:
    """Send and disturb, each victim at least once, the first one first and once; then judge."""
    draw = random.Random(SEED)
    for name in started:
        soak.start(name)
    senders = [threading.Thread(target=soak.send, args=(place,)) for place in range(SENDERS)]
    try:
        for sender in senders:
            sender.start()
        ended = time.monotonic() + seconds
        soak.wait_until_ready()
        soak.kill(victims[0])
        while time.monotonic() < ended or not set(victims) <= soak.kills.keys():
            time.sleep(draw.uniform(0.4, 1.6) * PAUSE)
            left = [name for name in victims if name not in soak.kills]
            soak.kill(draw.choice(left if left and time.monotonic() >= ended else victims[1:]))
            soak.revive()
        settle(soak)
    finally:
        soak.stop.set()
        for sender in senders:
            sender.join()
        for process in soak.processes.values():
            process.kill()
            process.wait()
    judge(soak, victims)


@pytest.mark.alone
def test_soak(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """Nothing acknowledged is lost or doubled, whatever dies, once the database was dropped and made anew."""
    url = postgres_server.new_database()
    Store.open(url).close()
    started = ["receiver", "worker-1", "worker-2"]
    _soak(Soak(postgres_server, url, tmp_path), started, ["new", "postgresql", *started], SECONDS)


@pytest.mark.alone
def test_soak_with_replaced_files(tmp_path: Path) -> None:
    """What is acknowledged after a file was deleted or restored is in the file that stands there then, with what the
    copy held; while there is none, the receiver is not ready and refuses."""
    url, is_long = f"sqlite:///{tmp_path}/ragtrace.db", SECONDS > SHORT
    Store.open(url).close()
    soak = Soak(None, url, tmp_path)
    victims = ["deleted", "restored", "missed", *["receiver", "worker-1"][: 2 * is_long]]
    _soak(soak, ["receiver", "worker-1"], victims, SECONDS if is_long else 0)
    assert soak.states[503] > 0, f"seed {SEED}"
    assert not soak.states[200], f"seed {SEED}"
    assert soak.answers["503"] > 0, f"seed {SEED}"


def settle(soak: Soak) -> None:
    """Let the senders come to an end, and wait until nothing is left to assemble or to analyze."""
    soak.stop.set()
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        soak.revive()
        time.sleep(0.5)
        try:
            with Store.open(soak.url) as store:
                depth = store.queue_depth()
                if not store.traces_waiting()[0] and not depth["pending"] + depth["leased"]:
                    return
        except StoreError:
            continue
    raise AssertionError(f"seed {SEED}: work is left after {DEADLINE} s: {depth}")


def pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids, as many as are read at once."""
    return (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))


def whole(store: Store, ids: Sequence[str]) -> Iterator[str]:
    """Those of the requests that are stored with all that their trace said."""
    for request_id, record in store.get_records(ids).items():
        if len(record.candidates) == 3 and record.packing is not None:
            yield request_id


def judge(soak: Soak, victims: Sequence[str]) -> None:
    """Print the tally, and hold it against what was acknowledged."""
    with Store.open(soak.url) as store:
        stored = {each for page in pages(soak.ids()) for each in whole(store, page)}
        jobs = store.jobs(limit=1_000_000)
        depth = store.queue_depth()
        counts = store.counts()
        totals = {total.name: total.value for total in store.totals() if total.name == "ragtrace_requests_total"}
    done = Counter(job.request_id for job in jobs if job.state == "done")
    print(
        f"seed {SEED}: {len(soak.acknowledged)} traces acknowledged, {len(soak.ids())} of them not taken along, "
        f"{counts['request']} requests stored; "
        f"answers {dict(soak.answers)}; kills {dict(soak.kills)}; jobs {depth}"
    )
    where = f"seed {SEED}"
    assert soak.ids(), where
    assert stored == set(soak.ids()), where
    assert counts["request"] == sum(totals.values()), where
    assert set(done.values()) <= {1}, where
    assert len(done) + depth["dead"] == counts["request"], where
    assert set(soak.kills) == set(victims), where
