"""The receiver under pressure and with a store that fails: nothing is acknowledged that is not stored."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtrace.errors import StoreUnavailable
from ragtrace.receive import _ingest as ingest
from ragtrace.receive._limits import TenantQuota
from ragtrace.store import SpanPart
from tests.receive.server.test_routes import JSON, SMALL, Receiver
from tests.receive.test_otlp import SPAN, batch


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """One that everybody may send to."""
    running = Receiver(tmp_path)
    yield running
    running.close()


def test_store_that_fails(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans that were not committed are not acknowledged: the sender is asked to come back."""

    def fails(*_: Any, **__: Any) -> int:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(receiver.store, "add_spans", fails)
    monkeypatch.setattr(receiver.store, "traces_waiting", fails)
    status, body, headers = receiver.send(batch(SPAN), content_type=JSON)

    assert status == 503
    assert int(headers["retry-after"]) > 0
    assert "disk" not in body.decode()
    assert receiver.send(None, "/readyz")[0] == 503
    monkeypatch.undo()
    assert receiver.send(batch(SPAN), content_type=JSON)[0] == 200


def test_back_pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would wait beyond the room is refused for now; all that was acknowledged is stored."""
    receiver = Receiver(tmp_path, room=1)
    gate = threading.Event()
    write = receiver.store.add_spans
    monkeypatch.setattr(receiver.store, "add_spans", lambda *a, **k: (gate.wait(10), write(*a, **k))[1])
    statuses: list[int] = []

    def send(number: int) -> None:
        found = receiver.send(batch(SPAN | {"traceId": f"{number:032x}"}), content_type=JSON)
        statuses.append(found[0])

    senders = [threading.Thread(target=send, args=(number,)) for number in range(1, 7)]
    for sender in senders:
        sender.start()
    deadline = time.monotonic() + 10
    while len(statuses) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    gate.set()
    for sender in senders:
        sender.join()
    stored = receiver.stored
    receiver.close()

    assert set(statuses) == {200, 503}
    assert stored == statuses.count(200)


def test_an_outage_is_met_once(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that waits is given back at once: tried one by one, each request would wait for the store's own timeout."""
    gate, calls = threading.Event(), list[int]()

    def fails(parts: Sequence[SpanPart], **_: Any) -> int:
        gate.wait(10)
        calls.append(len(parts))
        raise StoreUnavailable("the server is down")

    monkeypatch.setattr(receiver.store, "add_spans", fails)
    parts = [SpanPart("", f"{number:032x}", b"x", True) for number in range(6)]
    futures = [receiver.intake.submit([each]) for each in parts]
    gate.set()

    assert all(isinstance(each.exception(10), StoreUnavailable) for each in futures)
    assert len(calls) <= 2
    assert sum(calls) == 6
    assert receiver.intake.load == 0


def test_one_part_that_cannot_be_written(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails alone; the requests that shared its transaction are committed, and no room is lost."""
    write, gate = receiver.store.add_spans, threading.Event()

    def picky(parts: Sequence[SpanPart], **given: Any) -> int:
        gate.wait(10)
        if any(each.body == b"bad" for each in parts):
            raise ValueError("no such part")
        return write(parts, **given)

    monkeypatch.setattr(receiver.store, "add_spans", picky)
    bodies = [b"good", b"fine", b"bad", b"better"]
    futures = [receiver.intake.submit([SpanPart("", "1" * 32, each, True)]) for each in bodies]
    futures[1].cancel()
    gate.set()

    assert [futures[place].exception(10) is None for place in (0, 2, 3)] == [True, False, True]
    assert receiver.stored == 3
    assert receiver.intake.load == 0


@pytest.mark.parametrize("bound", ["arrival", "pause"])
def test_slow_body(tmp_path: Path, bound: str) -> None:
    """A body that does not come to its end, or does not come on, is given up; a sender may try again after 503."""
    short: Any = {bound: 0.1}
    receiver = Receiver(tmp_path, limits=replace(SMALL, **short))
    host, port = receiver.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sender:
        head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 1000\r\n\r\n"
        sender.sendall(head.encode() + b"x")
        answer = b"".join(iter(lambda: sender.recv(1_000), b"")).lower()  # to the end: the connection is closed
    receiver.close()

    assert answer.startswith(b"http/1.1 503")
    assert b"retry-after: 5" in answer
    assert b"the body did not come" in answer


def test_bodies_on_their_way_are_bounded(tmp_path: Path) -> None:
    """However many connections send at once: beyond it a sender is asked to come back."""
    receiver = Receiver(tmp_path, limits=replace(SMALL, bodies=TenantQuota(0, 0)))
    status, _, headers = receiver.send(batch(SPAN), content_type=JSON)
    receiver.close()

    assert status == 503
    assert int(headers["retry-after"]) > 0


def test_requests_under_way_are_bounded(tmp_path: Path) -> None:
    """Beyond it a sender is asked to come back; who asks for the receiver's health is answered all the same."""
    receiver = Receiver(tmp_path, limits=replace(SMALL, requests=TenantQuota(0, 0)))
    status, body, headers = receiver.send(batch(SPAN), content_type=JSON)
    asked = [receiver.send(None, each)[0] for each in ("/healthz", "/readyz", "/metrics")]
    receiver.close()

    assert (status, int(headers["retry-after"]) > 0) == (503, True)
    assert "requests are under way" in body.decode()
    assert asked == [200] * 3


class Gate:
    """Large bodies are not read until it opens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.begun, read = threading.Event(), threading.Event(), ingest.IngestRequest._read

        def slow(*given: Any) -> Any:
            self.begun.set()
            self.open.wait(20)
            return read(*given)

        monkeypatch.setattr(ingest.IngestRequest, "_read", slow)


def send_large(receiver: Receiver, count: int) -> tuple[list[threading.Thread], list[int]]:
    """Begin to send so many; the statuses that came until now."""
    body, statuses = batch(SPAN) + b" " * 20_000, list[int]()
    threads = [
        threading.Thread(target=lambda: statuses.append(receiver.send(body, content_type=JSON)[0]))
        for _ in range(count)
    ]
    for each in threads:
        each.start()
    return threads, statuses


def test_large_bodies_stop_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait to be read, small ones are answered; of large ones no more than a number may wait."""
    receiver, gate = Receiver(tmp_path, limits=replace(SMALL, large_size=10_000)), Gate(monkeypatch)
    threads, statuses = send_large(receiver, SMALL.large.total + 2)
    for _ in range(2_000):
        if len(statuses) == 2:
            break
        time.sleep(0.01)
    refused = list(statuses)
    small = receiver.send(batch(SPAN), content_type=JSON)[0]
    gate.open.set()
    for each in threads:
        each.join()
    receiver.close()

    assert refused == [503, 503]
    assert small == 200
    assert sorted(statuses) == [200] * SMALL.large.total + [503, 503]


def test_a_body_is_held_until_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for its turn takes memory as well."""
    limits = replace(SMALL, body=30_000, bodies=TenantQuota(1, 1), large_size=10_000)
    receiver, gate = Receiver(tmp_path, limits=limits), Gate(monkeypatch)
    threads, statuses = send_large(receiver, 1)
    assert gate.begun.wait(20)
    refused = receiver.send(batch(SPAN) + b" " * 20_000, content_type=JSON)
    gate.open.set()
    threads[0].join()
    again = receiver.send(batch(SPAN) + b" " * 20_000, content_type=JSON)[0]
    receiver.close()

    assert refused[0] == 503
    assert "bytes are being read" in refused[1].decode()
    assert (statuses, again) == ([200], 200)


def test_not_ready_after_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for a small request is none for a large one: who was refused is a sign, until a while later."""
    receiver = Receiver(tmp_path, room=1_000)
    gate, begun, write = threading.Event(), threading.Event(), receiver.store.add_spans

    def slow(*given: Any, **named: Any) -> int:
        begun.set()
        gate.wait(10)
        return write(*given, **named)

    monkeypatch.setattr(receiver.store, "add_spans", slow)
    receiver.intake.submit([SpanPart("", "1" * 32, b"x", True)])
    assert begun.wait(10)
    waiting = receiver.intake.submit([SpanPart("", "1" * 32, b"x" * 990, True)])
    assert receiver.send(None, "/readyz")[0] == 200
    refused = receiver.send(batch(SPAN), content_type=JSON)[0]
    while_refusing = receiver.send(None, "/readyz")[0]
    gate.set()
    waiting.result(10)
    monkeypatch.setattr(receiver.intake, "_refused_at", time.monotonic() - 60)
    later = receiver.send(None, "/readyz")[0]
    receiver.close()

    assert (refused, while_refusing, later) == (503, 503, 200)


def test_cut_off_at_the_end(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that the server gives up when it ends may be sent again: after 500 its sender would drop it."""

    async def cancelled(*_: Any) -> Any:
        raise asyncio.CancelledError

    monkeypatch.setattr(ingest.IngestRequest, "commit", cancelled)
    status, _, headers = receiver.send(batch(SPAN), content_type=JSON)

    assert status == 503
    assert int(headers["retry-after"]) > 0


def test_a_store_file_that_is_gone_is_no_store(receiver: Receiver, tmp_path: Path) -> None:
    """Nothing is acknowledged and the receiver is not ready until a file stands in its place again."""
    file = Path(receiver.store._database.address.file)
    with receiver.store._database.driver() as connection:
        connection.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    file.unlink()

    assert receiver.send(None, "/readyz")[0] == 503
    status, body, _ = receiver.send(batch(SPAN), content_type=JSON)
    assert status == 503
    assert str(file) not in body.decode()
    assert not file.exists()

    (tmp_path / "copy.db").replace(file)
    assert receiver.send(None, "/readyz")[0] == 200
    assert receiver.send(batch(SPAN), content_type=JSON)[0] == 200
    assert receiver.stored == 1
