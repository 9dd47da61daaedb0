"""No tenant takes the receiver from the others: shares of what is under way, and turns by the time each has had."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtrace.receive import _ingest as ingest
from ragtrace.receive._bodies import Refused
from ragtrace.receive._ingest import Places, ProcessorBudgets, TenantScheduler
from ragtrace.receive._limits import ReceiverLimits, TenantQuota
from ragtrace.store import SpanPart
from tests.receive.server.test_routes import ALPHA, BETA, JSON, SMALL, Receiver
from tests.receive.test_otlp import SPAN, batch


class Clock:
    """Time that a test makes go by."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


class Work:
    """What tenants have decoded: each piece is noted when it begins, and ends when it is let."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, name: str) -> Callable[[], str]:
        """A piece of work."""

        def work() -> str:
            self.order.append(name)
            self.begun.release()
            assert self.go.wait(20)
            return name

        return work


def wait_until(is_so: Callable[[], bool]) -> None:
    """It comes to be so."""
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_turns() -> None:
    """Nine bodies of one tenant wait, then one of another: it is next, not tenth."""
    work = Work()
    turns = TenantScheduler("test", TenantQuota(1, 1), ProcessorBudgets(ReceiverLimits()))
    first = [turns.submit("alpha", work("alpha")) for _ in range(9)]
    assert work.begun.acquire(timeout=20)
    other = turns.submit("beta", work("beta"))
    work.go.set()

    assert other.result(20) == "beta"
    assert [each.result(20) for each in first] == ["alpha"] * 9
    assert work.order == ["alpha", "beta"] + ["alpha"] * 8


def test_who_had_most_is_last() -> None:
    """Of those who wait, the one whose bodies took least of the processor's time is next."""
    accounts, work = ProcessorBudgets(ReceiverLimits(), Clock()), Work()
    turns = TenantScheduler("test", TenantQuota(1, 1), accounts)
    accounts.pay("alpha", 5.0)
    accounts.pay("beta", 2.0)
    running = [turns.submit("", work("first"))]
    assert work.begun.acquire(timeout=20)
    running += [turns.submit(tenant, work(tenant)) for tenant in ("alpha", "beta", "gamma")]
    work.go.set()
    for each in running:
        each.result(20)

    assert work.order == ["first", "gamma", "beta", "alpha"]


def test_threads_of_a_tenant() -> None:
    """While a tenant's bodies take as many threads as it may have, another one's are decoded beside them."""
    slow, quick = Work(), Work()
    quick.go.set()
    turns = TenantScheduler("test", TenantQuota(3, 2), ProcessorBudgets(ReceiverLimits()))
    taken = [turns.submit("alpha", slow("alpha")) for _ in range(9)]
    assert [turns.submit("beta", quick("beta")).result(20) for _ in range(3)] == ["beta"] * 3
    begun = len(slow.order)
    slow.go.set()

    assert begun <= 2
    assert [each.result(20) for each in taken] == ["alpha"] * 9


def test_without_tenants_all_threads_are_used() -> None:
    """Without tokens all senders are one."""
    work = Work()
    turns = TenantScheduler("test", TenantQuota(3, 1), ProcessorBudgets(ReceiverLimits()))
    running = [turns.submit("", work("all")) for _ in range(3)]
    assert all(work.begun.acquire(timeout=20) for _ in running)
    work.go.set()
    assert [each.result(20) for each in running] == ["all"] * 3


def test_what_nobody_waits_for() -> None:
    """A body whose sender has gone is not decoded, and leaves no trace; a failure reaches who waits for it."""
    work = Work()
    turns = TenantScheduler("test", TenantQuota(1, 1), ProcessorBudgets(ReceiverLimits()))
    first = turns.submit("alpha", work("alpha"))
    assert work.begun.acquire(timeout=20)
    gone: Future[Any] = turns.submit("beta", work("beta"))
    assert gone.cancel()
    assert turns._waiting == {}
    bad: Future[Any] = turns.submit("gamma", lambda: 1 // 0)
    work.go.set()

    assert first.result(20) == "alpha"
    assert isinstance(bad.exception(20), ZeroDivisionError)
    assert turns.submit("delta", work("delta")).result(20) == "delta"
    assert work.order == ["alpha", "delta"]


def test_rate() -> None:
    """A tenant whose bodies take more than its rate is refused while another one's wait, until it has time again."""
    clock = Clock()
    accounts = ProcessorBudgets(ReceiverLimits(rate=0.5, burst=10.0), clock)
    accounts.pay("alpha", 13.0)
    accounts.check("alpha")  # nobody else wants anything
    accounts.waits("alpha")
    accounts.check("alpha")
    accounts.waits("beta")
    with pytest.raises(Refused) as refused:
        accounts.check("alpha")
    accounts.check("beta")
    clock.now += 6.0

    assert (refused.value.status, refused.value.retry_after) == (503, 6)
    accounts.check("alpha")
    accounts.pay("alpha", 1.0)
    clock.now += 1.0
    with pytest.raises(Refused):
        accounts.check("alpha")
    clock.now += 4.0  # since when nobody waits
    accounts.pay("alpha", 5.0)
    accounts.check("alpha")


def test_an_account_has_bounds() -> None:
    """Time that was not used does not add up for ever, nor does what was taken too much."""
    clock = Clock()
    accounts = ProcessorBudgets(ReceiverLimits(rate=0.5, burst=10.0), clock)
    accounts.pay("alpha", 1_000.0)
    assert accounts.left("alpha") == -10.0
    clock.now += 1_000.0
    assert accounts.left("alpha") == 10.0
    assert accounts.left("beta") == 10.0


def test_places() -> None:
    """All of them, and of these a tenant's own; what is given back is there again."""
    places = Places(TenantQuota(3, 2), "things wait")
    places.take("alpha", 2)
    with pytest.raises(Refused, match="2 things wait already for this tenant alone"):
        places.take("alpha")
    with places.one("beta"), pytest.raises(Refused, match="3 things wait already; come back"):
        places.take("gamma")
    places.take("gamma")
    places.give_back("alpha", 2)
    places.take("gamma")
    places.take("")
    with pytest.raises(Refused):
        places.take("")


def post(receiver: Receiver, token: str, body: bytes, **headers: str) -> int:
    """The status of a tenant's request."""
    return receiver.send(body, content_type=JSON, authorization=f"Bearer {token}", **headers)[0]


def test_slow_connections(tmp_path: Path) -> None:
    """However many slow connections a tenant has, the others' requests are taken."""
    receiver = Receiver(tmp_path, tokens=True, limits=replace(SMALL, requests=TenantQuota(6, 3)))
    host, port = receiver.url.removeprefix("http://").split(":")
    head = (
        f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ALPHA}\r\nContent-Type: {JSON}\r\n"
        "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
    )
    answers = []
    with ExitStack() as slow:
        for _ in range(8):
            connection = slow.enter_context(socket.create_connection((host, int(port)), timeout=20))
            connection.sendall(head.encode())
            answers.append(connection.recv(12))
        other = post(receiver, BETA, batch(SPAN))
        own = post(receiver, ALPHA, batch(SPAN))
    wait_until(lambda: post(receiver, ALPHA, batch(SPAN)) == 200)
    receiver.close()

    assert answers == [b"HTTP/1.1 100"] * 3 + [b"HTTP/1.1 503"] * 5
    assert (other, own) == (200, 503)


def test_bytes_on_their_way(tmp_path: Path) -> None:
    """A tenant's bodies that are being received leave room for the others'."""
    receiver = Receiver(tmp_path, tokens=True, limits=replace(SMALL, body=1_000, bodies=TenantQuota(3, 1)))
    host, port = receiver.url.removeprefix("http://").split(":")
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ALPHA}\r\nContent-Type: {JSON}\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as slow:
        slow.sendall(f"{head}Content-Length: 901\r\n\r\n".encode() + b" " * 900)
        wait_until(lambda: post(receiver, ALPHA, b"{}" + b" " * 300) == 503)
        other = post(receiver, BETA, b"{}" + b" " * 900)
    receiver.close()

    assert other == 200


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nine large bodies that a tenant sends at once some are refused; another one's is read after the first."""
    order: list[str] = []
    go, begun, read = threading.Event(), threading.Event(), ingest.IngestRequest._read

    def slow(one: ingest.IngestRequest, *given: Any) -> Any:
        order.append(one._tenant)
        begun.set()
        assert go.wait(20)
        return read(one, *given)

    monkeypatch.setattr(ingest.IngestRequest, "_read", slow)
    receiver = Receiver(tmp_path, tokens=True, limits=replace(SMALL, large=TenantQuota(8, 4), large_size=10_000))
    bomb = gzip.compress(b'{"resourceSpans":[%s]}' % b",".join([b"[]"] * 20_000))
    statuses: dict[str, list[int]] = {ALPHA: [], BETA: []}

    def send(token: str, body: bytes) -> None:
        statuses[token].append(post(receiver, token, body, content_encoding="gzip"))

    senders = [threading.Thread(target=send, args=(ALPHA, bomb)) for _ in range(9)]
    for each in senders:
        each.start()
    assert begun.wait(20)
    wait_until(lambda: len(statuses[ALPHA]) == 5)
    senders.append(threading.Thread(target=send, args=(BETA, gzip.compress(batch(SPAN) + b" " * 20_000))))
    senders[-1].start()
    wait_until(lambda: "beta" in receiver.ingestor._given[-1].large._waiting)
    small = post(receiver, ALPHA, batch(SPAN)), post(receiver, BETA, batch(SPAN))
    go.set()
    for each in senders:
        each.join()
    receiver.close()

    assert small == (200, 200)
    assert order == ["alpha", "beta", "alpha", "alpha", "alpha"]
    assert statuses == {ALPHA: [503] * 5 + [200] * 4, BETA: [200]}


def test_what_waits_to_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may fill half of the room, and what others bring is written in turn with it."""
    receiver = Receiver(tmp_path, room=1_000)
    go, begun, write, order = threading.Event(), threading.Event(), receiver.store.add_spans, list[str]()

    def slow(parts: Any, **named: Any) -> int:
        order.extend(each.tenant for each in parts)
        begun.set()
        assert go.wait(20)
        return write(parts, **named)

    monkeypatch.setattr(receiver.store, "add_spans", slow)

    def bring(tenant: str, size: int) -> Future[None]:
        return receiver.intake.submit([SpanPart(tenant, "1" * 32, b"x" * size, True)])

    brought = [bring("alpha", 100)]
    assert begun.wait(20)
    brought += [bring("alpha", 150), bring("alpha", 150)]
    with pytest.raises(Refused, match="400 bytes of this tenant"):
        bring("alpha", 150)
    is_full = receiver.intake.is_full
    brought += [bring("beta", 400), bring("gamma", 20)]
    go.set()
    for each in brought:
        each.result(20)
    receiver.close()

    assert not is_full
    assert order == ["alpha", "alpha", "beta", "gamma", "alpha"]
    assert receiver.intake.load == 0
