"""Flags against a real SQLite store: raised by the screening, by feedback, by the host after the end, by the worker."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ragtrace
from ragtrace.analyze import worker
from ragtrace.analyze.worker import WorkerSettings
from ragtrace.export.exposition import exposition
from ragtrace.store import Store
from ragtrace.types import RequestRecord

OUTSIDE: dict[str, Any] = {"sample_rate": 0.0, "sample_floor": 0}
SURE, UNSURE = "We pay up to €5,000 for escape of water [1].", "I do not know."


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a new SQLite store; recording ends with the test."""
    monkeypatch.setenv("RAGTRACE_RAISE_ERRORS", "1")
    yield f"sqlite:///{tmp_path / 'ragtrace.db'}"
    ragtrace.shutdown()


@ragtrace.request
def ask(question: str, answer: str = SURE) -> ragtrace.Request:
    """A pipeline; its request, which ends with it."""
    ragtrace.retrieve(lambda query: [("a", "We pay up to €5,000 for escape of water.", 0.5)])(question)
    ragtrace.generate(lambda prompt: answer)("prompt")
    return ragtrace.current_request()


def stored(url: str) -> dict[str, RequestRecord]:
    """The records in the store, by id."""
    with Store.open(url) as opened:
        return opened.get_records([row.request_id for row in opened.find_requests(limit=1000)])


def test_an_abstention_outside_the_sample_is_found(store: str) -> None:
    """Screened in the background and kept in the flagged stratum; a healthy one is not."""
    ragtrace.configure(store=store, screen=1.0, **OUTSIDE)
    ask("water?")
    unsure = ask("water?", UNSURE)
    assert ragtrace.shutdown()
    (record,) = stored(store).values()
    assert (record.request_id, record.flags, record.head_sampled) == (unsure.request_id, ("abstention",), False)
    assert [candidate.chunk_id for candidate in record.candidates] == ["a"]
    with Store.open(store) as opened:
        assert opened.faults() == []


def test_a_low_score_outside_the_sample_is_found(store: str) -> None:
    """By the host's own threshold."""
    ragtrace.configure(store=store, screen=1.0, low_score=0.6, **OUTSIDE)
    ask("water?")
    assert ragtrace.shutdown()
    assert [record.flags for record in stored(store).values()] == [("low_retrieval_score",)]


@pytest.mark.parametrize("spans", [True, False])
@pytest.mark.parametrize("screen", [0.0, 1.0])
def test_a_flag_after_the_end_keeps_a_request(store: str, spans: bool, screen: float) -> None:
    """Before and after the background has seen it; its spans ended long before."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    ragtrace.configure(store=store, screen=screen, tracer_provider=provider if spans else None, **OUTSIDE)
    first, second, third = ask("one?"), ask("two?"), ask("three?")
    first.flag("at once")
    assert ragtrace.flush()
    assert len(exporter.get_finished_spans()) == (9 if spans else 0)
    second.flag("later")
    ragtrace.feedback(third.request_id, score=-1.0)
    ragtrace.flag(third.request_id, "again")
    assert ragtrace.shutdown()
    found = stored(store)
    assert found[first.request_id].flags == ("at once",)
    assert found[second.request_id].flags == ("later",)
    assert found[third.request_id].flags == ("thumbs_down", "again")
    assert [item.score for item in found[third.request_id].feedback] == [-1.0]
    assert {len(record.stages) for record in found.values()} == {2}
    assert [record.head_sampled for record in found.values()] == [False] * 3


def test_a_flag_leaves_a_stored_request_in_the_random_sample(store: str) -> None:
    """Raised in another run of the application."""
    ragtrace.configure(store=store)
    request = ask("water?")
    assert ragtrace.shutdown()
    ragtrace.configure(store=store, **OUTSIDE)
    ragtrace.flag(request.request_id, "complaint")
    assert ragtrace.shutdown()
    (record,) = stored(store).values()
    assert (record.flags, record.head_sampled, record.head_probability) == (("complaint",), True, 1.0)


def test_a_flag_of_a_request_that_was_never_kept_makes_none(store: str) -> None:
    """It stays aside."""
    ragtrace.configure(store=store, recent_bytes=0, screen=0.0, **OUTSIDE)
    ask("water?").flag("too late")
    assert ragtrace.shutdown()
    assert stored(store) == {}


def test_the_worker_adds_what_its_analysis_shows(store: str) -> None:
    """To the stored request, which stays in its stratum and is analyzed once."""
    ragtrace.configure(store=store, service="s")
    sure, unsure = ask("water?"), ask("water?", UNSURE)
    assert ragtrace.shutdown()
    assert worker.run(store, WorkerSettings(low_score=0.6)).done == 2
    found = stored(store)
    assert "abstention" in found[unsure.request_id].flags
    assert "low_retrieval_score" in found[sure.request_id].flags
    assert all(record.head_sampled for record in found.values())
    assert worker.run(store).done == 0


def test_a_request_that_never_ends_is_stored(store: str) -> None:
    """The background closes it by itself."""
    ragtrace.configure(store=store, request_ttl=0.05)
    with ragtrace.request(query="water?", request_id="endless"):
        for _ in range(600):
            ragtrace.flush()
            if stored(store):
                break
            time.sleep(0.05)
    assert ragtrace.shutdown()
    assert [(name, record.flags) for name, record in stored(store).items()] == [("endless", ("unfinished",))]


def test_many_threads_flag_at_once(store: str) -> None:
    """While the background screens: every request that was flagged is stored once, whole, with all of its flags."""
    ragtrace.configure(store=store, screen=1.0, **OUTSIDE)
    flagged: list[str] = []

    def serve(thread: int) -> None:
        for number in range(30):
            request = ask("water?", UNSURE if number % 2 else SURE)
            if number % 3 == 0:
                request.flag(f"late {thread}")
                request.flag("again")
                flagged.append(request.request_id)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ragtrace.shutdown(60)
    found = stored(store)
    assert set(flagged) <= set(found)
    assert all({"again"} < set(found[name].flags) for name in flagged)
    assert all(len(record.stages) == 2 for record in found.values())
    assert all(set(record.flags) == {"abstention"} for name, record in found.items() if name not in flagged)
    with Store.open(store) as opened:
        assert {fault.where for fault in opened.faults()} <= {"screen"}


PROGRAM = """
import sys, ragtrace
ragtrace.configure(service="svc", store=sys.argv[1], sample_rate=0.0, sample_floor=0, screen=0.0)
for number in range(40):
    with ragtrace.request(query="q", request_id=f"r{number}") as request:
        with ragtrace.retrieve(query="q") as run:
            run.candidates([("a", "the text of a chunk", 0.5)])
    if number % 4 == 0:
        ragtrace.flush()
    if number % 2:
        request.flag("late")
        print(f"r{number}", flush=True)
sys.stdin.read()
"""


def test_a_killed_process_loses_no_late_flag(tmp_path: Path) -> None:
    """Once `flag` has returned, `kill -9` takes nothing of the request."""
    store = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    environment = {**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    command: list[Any] = [sys.executable, "-c", PROGRAM, store]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        accepted = [process.stdout.readline().strip() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
    ragtrace.configure(service="svc", store=store)
    assert ragtrace.shutdown(timeout=60)
    found = stored(store)
    assert sorted(found) == sorted(accepted)
    assert all(record.flags == ("late",) and len(record.candidates) == 1 for record in found.values())


def test_what_is_held_for_late_flags_keeps_no_object_of_the_host(store: str) -> None:
    """Ids, scores and texts only, as they were taken."""

    class Hit:
        id, text, score = "a", "a text", 0.5

    ragtrace.configure(store=store, screen=0.0, **OUTSIDE)
    hits = [Hit()]
    alive = weakref.ref(hits[0])
    with ragtrace.request(query="q") as request:
        ragtrace.retrieve(lambda query: hits)("q")
    assert ragtrace.flush()
    hits.clear()
    gc.collect()
    assert alive() is None
    request.flag("late")
    assert ragtrace.shutdown()
    (record,) = stored(store).values()
    assert [candidate.chunk_id for candidate in record.candidates] == ["a"]


def test_what_was_dropped_is_exported(store: str) -> None:
    """By place, with its number; flagged requests are not among it."""
    ragtrace.configure(store=store, queue_bytes=1)
    for _ in range(3):
        ask("water?")
    with ragtrace.request(query="q", flag="keep"):
        pass
    assert ragtrace.shutdown()
    assert [record.flags for record in stored(store).values()] == [("keep",)]
    with Store.open(store) as opened:
        lines = exposition(opened).decode().splitlines()
    assert 'ragtrace_dropped_total{reason="queue_full"} 3.0' in lines


def test_what_was_not_screened_is_counted(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With credit for one request only, the others are told as skipped."""
    monkeypatch.setattr("ragtrace.collect._screening._CREDIT", 1e-9)
    ragtrace.configure(store=store, screen=1e-9, **OUTSIDE)
    first, *_ = [ask("water?", UNSURE) for _ in range(20)]
    assert ragtrace.shutdown()
    assert list(stored(store)) == [first.request_id]
    with Store.open(store) as opened:
        (fault,) = opened.faults()
    assert (fault.where, fault.kind, fault.count) == ("screen", "budget", 19)
