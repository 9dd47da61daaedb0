"""Fuzzing of a real receiver: broken HTTP and HTTP/2, bombs and slow senders at both ports, while others send well.

It lives, its memory is bounded, what it stores is what it acknowledged, and it serves as before. `make fuzz` goes on
for longer: RAGTRACE_FUZZ_SECONDS. A failure names its seed, for RAGTRACE_FUZZ_SEED.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.receive._otlp import parse_json, parse_protobuf, split
from ragtrace.store import SpanPart, Store
from tests.live.body_fuzzing import MOST, ROUND, Report, hold, round_of, rounds_of, spans_in
from tests.live.otlp_bodies import PROTOBUF, TRACES, Body, body_of, model_of
from tests.live.otlp_protobuf import protobuf_of
from tests.live.receiver import EXPORT, Served
from tests.live.test_serving import trace

pytest.importorskip("uvicorn")
grpc = pytest.importorskip("grpc")

SECONDS = float(os.environ.get("RAGTRACE_FUZZ_SECONDS", "6"))
SEED = int(os.environ.get("RAGTRACE_FUZZ_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
BODIES = int(os.environ.get("RAGTRACE_FUZZ_BODIES", "1000"))
FIRST = int(os.environ.get("RAGTRACE_FUZZ_FIRST", "0"))
WORKERS = int(os.environ.get("RAGTRACE_FUZZ_WORKERS", "2"))
ATTACKERS = 4
UVICORN = "LocalProtocolError: can't handle event type Response when role=SERVER and state=MUST_CLOSE"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """One that everybody may send to."""
    if not Path("/proc/self/status").exists():
        pytest.skip("memory of another process is read from /proc")
    running = Served(tmp_path)
    yield running
    running.process.terminate()
    running.process.wait(30)


def head(draw: random.Random, length: object, *more: str) -> bytes:
    """The beginning of a request."""
    path = draw.choice(["/v1/traces", "/v1/logs", "/v1/traces?x=%ff", "/metrics", "/" + "a" * 9_000])
    kind = draw.choice(["application/x-protobuf", "application/json", "text/plain", "application/json; charset=x"])
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Type: {kind}", f"Content-Length: {length}", *more]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"


def noise(draw: random.Random) -> bytes:
    """Bytes, up to 60 kB."""
    return draw.randbytes(draw.choice([0, 1, 9, 300, 60_000]))


def damaged(draw: random.Random) -> bytes:
    """A message with some bytes changed, or cut off."""
    body = bytearray(gzip.decompress(trace(draw.randrange(1, 2**40))))
    for _ in range(draw.randrange(6)):
        body[draw.randrange(len(body))] = draw.randrange(256)
    body = body[: draw.randrange(len(body))] if draw.random() < 0.5 else body
    return bytes(body.replace(b"OpenInference", b"\xff" * 13))


def bomb(draw: random.Random) -> bytes:
    """Some kilobytes that inflate to many megabytes, or to a message that would."""
    swollen = draw.choice([b"\x00", b"\x0a\x00", b"[]", b'{"a":', b"\x12\x00"]) * draw.choice(
        [1 << 20, 3 << 20, 8 << 20]
    )
    return gzip.compress(swollen, 1)


def broken_http(draw: random.Random) -> bytes:
    """Wrong heads, lengths, chunks and bodies."""
    body = draw.choice([noise, damaged])(draw)
    chunked = "Transfer-Encoding: chunked"
    made: list[Callable[[], bytes]] = [
        lambda: noise(draw),
        lambda: b"POST /v1/traces\r\n\r\n" + body,
        lambda: b"GET " + noise(draw)[:300] + b" HTTP/9.9\r\n\r\n",
        lambda: head(draw, len(body)) + body,
        lambda: head(draw, len(body) + 7) + body,
        lambda: head(draw, -1) + body,
        lambda: head(draw, "9" * 30) + body,
        lambda: head(draw, len(body), chunked) + body,
        lambda: head(draw, "0\r\nX: y", chunked) + b"ffffffffffff\r\n" + body,
        lambda: head(draw, len(body), "Content-Encoding: gzip") + body,
        lambda: head(draw, len(body), "X: " + "y" * 70_000) + body,
        lambda: head(draw, len(body), f"Authorization: Bearer {body[:99]!r}") + body,
    ]
    return draw.choice(made)()


def bombed_http(draw: random.Random) -> bytes:
    """A bomb, or a large body of nothing."""
    if draw.random() < 0.5:
        return head(draw, 20 << 20) + bytes(20 << 20)
    body = bomb(draw)
    return head(draw, len(body), "Content-Encoding: gzip") + body


def frame(kind: int, flags: int, stream: int, payload: bytes, size: int | None = None) -> bytes:
    """A frame of HTTP/2; its length may be wrong."""
    length = (len(payload) if size is None else size) & 0xFFFFFF
    return struct.pack(">I", length)[1:] + bytes([kind & 255, flags & 255]) + struct.pack(">I", stream) + payload


def call(draw: random.Random) -> bytes:
    """The headers of an export, as literals that need no table."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": draw.choice([EXPORT, EXPORT.replace("trace", "logs"), "/x"]),
        ":authority": "x",
        "te": "trailers",
        "content-type": "application/grpc",
        "grpc-encoding": draw.choice(["gzip", "identity", "deflate", "x"]),
        "grpc-timeout": draw.choice(["1S", "99999999H", "x"]),
    }
    packed = b"".join(b"\x00" + text(name) + text(value) for name, value in fields.items())
    return frame(1, 4, 1, packed)


def text(value: str) -> bytes:
    """A string of HPACK."""
    size, rest = (len(value), b"") if len(value) < 127 else (127, bytes([len(value) - 127]))
    return bytes([size]) + rest + value.encode()


def broken_http2(draw: random.Random) -> bytes:
    """Frames of any kind, calls whose messages have wrong lengths, bombs, and noise."""
    body = draw.choice([noise, damaged])(draw)[:16_000]
    packed = bomb(draw)[:16_000] if draw.random() < 0.1 else gzip.compress(body)
    message = draw.choice(
        [
            b"\x00" + struct.pack(">I", len(body)) + body,
            b"\x00" + struct.pack(">I", draw.choice([0, 7, 2**31, 2**32 - 1])) + body,
            b"\x01" + struct.pack(">I", len(packed)) + packed,
            b"\x07" + struct.pack(">I", len(body)) + body,
            body,
        ]
    )[:16_384]
    flags, stream = draw.choice([0, 1, 4, 5, 255]), draw.choice([0, 1, 2, 3, 2**31 - 1])
    frames = [frame(draw.randrange(12), flags, stream, noise(draw)[:16_384]) for _ in range(draw.randrange(4))] + [
        frame(0, flags, stream, body[:50], draw.randrange(2**24))
    ]
    good = frame(4, 0, 0, b"") + call(draw) + frame(0, 1, 1, message)
    return PREFACE + draw.choice([good, frame(4, 0, 0, b"") + b"".join(frames), good + b"".join(frames), noise(draw)])


class Attack:
    """Senders that send what they should not."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.stop = threading.Event()
        self.statuses: Counter[str] = Counter()
        self.slow: list[socket.socket] = []

    def run(self, place: int) -> None:
        """One connection after the other."""
        draw = random.Random(SEED + place)
        kinds: list[tuple[Callable[[random.Random], bytes], int]] = [
            *[(broken_http, self.served.port)] * 10,
            *[(broken_http2, self.served.rpc_port)] * 10,
            (broken_http2, self.served.port),
            (broken_http, self.served.rpc_port),
            (bombed_http, self.served.port),
        ]
        while not self.stop.is_set():
            make, port = draw.choice(kinds)
            with suppress(OSError):
                self._send(draw, make(draw), port)

    def _send(self, draw: random.Random, sent: bytes, port: int) -> None:
        sender = socket.create_connection(("127.0.0.1", port), timeout=draw.choice([0.05, 0.5]))
        if draw.random() < 0.05 and len(self.slow) < 100:  # stays, and never comes to an end
            self.slow.append(sender)
            sender.sendall(sent[: len(sent) // 2])
            return
        with sender:
            sender.sendall(sent)
            answer = sender.recv(1_000)
            if answer.startswith(b"HTTP/1.1 "):
                self.statuses[answer[9:12].decode("latin-1")] += 1

    def end(self) -> None:
        """Close what stayed."""
        for each in self.slow:
            each.close()


def test_fuzz(served: Served) -> None:
    """Whatever comes, those who send well are served, and their traces are what is stored of them."""
    assert served.post(1) == 200
    assert served.export(2)
    began = served.peak
    attack = Attack(served)
    attackers = [threading.Thread(target=attack.run, args=(place,)) for place in range(ATTACKERS)]
    for each in attackers:
        each.start()
    acknowledged, answers, number = {1, 2}, Counter[str](), 2
    ended = time.monotonic() + SECONDS
    while time.monotonic() < ended:
        number += 1
        taken = served.post(number) == 200 if number % 2 else served.export(number)
        answers["taken" if taken else "refused"] += 1
        acknowledged |= {number} if taken else set()
    attack.stop.set()
    for each in attackers:
        each.join()
    attack.end()
    grown = served.peak - began
    where = f"seed {SEED}"
    print(f"{where}: {dict(attack.statuses)} to attackers, {dict(answers)} beside; {grown >> 20} MB more at the peak")
    assert served.process.poll() is None, where
    assert served.post(number + 1) == 200, where
    assert served.export(number + 2), where
    assert grown < MOST, where
    assert answers["taken"] > 0, where
    judge(served, acknowledged | {number + 1, number + 2}, attack.statuses, where)


def judge(served: Served, acknowledged: set[int], statuses: Counter[str], where: str) -> None:
    """Hold the store and the log against what was answered."""
    ids = [f"{each:032x}" for each in sorted(acknowledged)]
    log = served.log.read_text("utf-8", "replace")
    assert statuses["500"] <= log.count("failed\nTraceback"), f"{where}\n{log}"
    # a body that breaks off is answered by uvicorn itself, which then meets our answer
    assert log.count("Exception in ASGI application") == log.count(UVICORN), f"{where}\n{log}"
    with Store.open(served.url) as store:
        deadline = time.monotonic() + 60
        while store.get_records(ids).keys() != set(ids) and time.monotonic() < deadline:
            time.sleep(0.2)
        records = store.get_records(ids)
    assert records.keys() == set(ids), where
    assert all(len(record.candidates) == 3 and record.packing is not None for record in records.values()), where


def test_that_a_message_is_whole() -> None:
    """What is sent beside the attack is a message that is read: else nothing above could fail."""
    message = ExportTraceServiceRequest.FromString(gzip.decompress(trace(5)))
    assert len(message.resource_spans[0].scope_spans[0].spans) == 3


def test_that_a_loss_is_seen(tmp_path: Path) -> None:
    """A span that was acknowledged and is not stored is told, and so is one that is stored of a refused body."""
    body = Body(5, "as sent", False, "traces", "/v1/traces", PROTOBUF, "", protobuf_of(model_of(1, 5, TRACES[0])[0]))
    keys = spans_in(body).keys
    parts = split(parse_protobuf(body.payload), body=body.payload).parts
    whole, lost, refused = Report(), Report(), Report()
    whole.taken, lost.taken = [(5, keys, 0)], [(5, [*keys, bytes(24)], 0)]
    for report in (whole, lost, refused):
        url = f"sqlite:///{tmp_path}/{id(report)}.db"
        with Store.open(url) as store:
            store.add_spans([SpanPart("", part.trace_id, part.body, part.ended) for part in parts])
        hold(url, report, pages=1)

    assert (whole.faults, whole.stored["spans"], whole.stored["requests"]) == ([], len(keys), 1)
    assert [fault.split(" acknowledged")[0] for fault in lost.faults] == ["body 5: 1 spans were"]
    assert "no body with it was taken" in refused.faults[0]


def test_that_bodies_are_what_was_sent() -> None:
    """What is written as protobuf is what OTLP's JSON says, and a body follows from its seed and number."""
    for spans in TRACES:
        whole, _ = model_of(1, 5, spans)
        expected, rejected = parse_json(json.dumps(whole))
        written = ExportTraceServiceRequest.FromString(protobuf_of(whole))
        for message in (written, expected):
            for scope in (scope for resource in message.resource_spans for scope in resource.scope_spans):
                for span in scope.spans:
                    del span.links[:]  # nothing reads them, and ours hold no more than ids
        assert (written, rejected) == (expected, [])
    assert [body_of(7, number) for number in range(200)] == [body_of(7, number) for number in range(200)]


def test_bodies(tmp_path: Path) -> None:
    """Of bodies as no sender should make them, each is answered as documented, and what was acknowledged is stored."""
    if not Path("/proc/self/status").exists():
        pytest.skip("memory of another process is read from /proc")
    is_short = BODIES <= ROUND
    report = round_of(SEED, FIRST, FIRST + BODIES, tmp_path / "round") if is_short else in_rounds(tmp_path)
    print(table(report))
    answered = report.statuses.total()
    assert not report.faults, "\n".join([f"{len(report.faults)} faults, seed {SEED}", *report.faults[:50]])
    assert answered == BODIES
    assert sum(count for (_, status), count in report.statuses.items() if status in ("200", "OK")) > answered / 2
    assert report.stored["requests"] > 0


def in_rounds(folder: Path) -> Report:
    """All bodies, by several processes; says how far it is."""
    whole, began = Report(), time.monotonic()
    print(f"\nseed {SEED}, bodies {FIRST:,} to {FIRST + BODIES:,}")
    try:
        for last, report in rounds_of(SEED, FIRST, FIRST + BODIES, folder, WORKERS):
            whole += report
            sent, seconds = whole.statuses.total(), time.monotonic() - began
            print(f"{sent:,} bodies, {sent / seconds:.0f} a second; the round to {last:,} is done", flush=True)
            print(*(f"  {fault}\n" for fault in report.faults), sep="", end="", flush=True)
    except KeyboardInterrupt:  # what was seen until then is worth something
        print(table(whole), flush=True)
        raise
    return whole


def table(report: Report) -> str:
    """Answers by what was done to the bodies."""
    statuses = sorted({status for _, status in report.statuses})
    rows = [f"{'':14}" + "".join(f"{each[:9]:>10}" for each in statuses)]
    for kind in sorted({kind for kind, _ in report.statuses}):
        rows.append(f"{kind:14}" + "".join(f"{report.statuses[kind, each] or '':>10}" for each in statuses))
    rows.append(
        f"{'in all':14}" + "".join(f"{sum(report.statuses[k, each] for k in kinds(report)):>10}" for each in statuses)
    )
    slowest, number = report.slowest
    rows.append(f"slowest answer: {slowest:.1f} s, to body {number}; asked to come back: {report.retried}")
    rows.append(f"memory: {report.grown >> 20} MB more at the most; stored: {dict(report.stored)}")
    return "\n".join(rows)


def kinds(report: Report) -> set[str]:
    """What was done to bodies."""
    return {kind for kind, _ in report.statuses}
