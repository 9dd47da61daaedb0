"""Sends generated bodies to a real receiver, and holds its answers, its store and its log against what was sent.

What an answer says of a body is checked by a reading of the body of our own: each span of a body that was answered by
200 is stored, or was counted as rejected; nothing is stored of a body that was refused.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import multiprocessing
import shutil
import socket
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import sqlalchemy as sa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ragtrace import config
from ragtrace.errors import CorruptStore
from ragtrace.receive._assembly import Assembler, assemble
from ragtrace.receive._otlp import read_protobuf
from ragtrace.record import conventions as names
from ragtrace.store import DueTrace, Store
from ragtrace.store.database import clean
from ragtrace.store.tables import feedback, trace
from tests.live.otlp_bodies import JSON, PROTOBUF, Body, body_of
from tests.live.receiver import Served

__all__ = ["MOST", "ROUND", "Report", "hold", "round_of", "rounds_of", "spans_in"]

ROUND: Final = 20_000
"""Bodies that are sent to one process and one store."""
MOST: Final = 900 << 20
"""Bytes of memory that a receiver may take, beside what it has at its start."""


_HANG: Final = 120.0  # seconds for an answer; a body has 10 of processor time, and waits for others on a busy machine
_CONNECTIONS: Final = 100
_BATCH: Final = 128  # bodies on their way at once; some follow another one on its connection before its answer
_TRIES: Final = 6  # for a body that is asked to come back
_STATUSES: Final = {"200", "400", "404", "413", "415", "503"}
_CODES: Final = {"OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
_LATER: Final = ("503", "UNAVAILABLE")
_TAKEN: Final = ("200", "OK")
_IDS: Final = 24  # bytes of a trace id and a span id
_PAGE: Final = 400  # traces that are read at once
_ANSWERS: Final[dict[str, Any]] = {"traces": ExportTraceServiceResponse, "logs": ExportLogsServiceResponse}


class Spans(NamedTuple):
    """What a body holds: its spans, and how many there are whose ids are none. A span is known by its trace id and its
    own; of protobuf, which is stored as it came, by what it says as well."""

    keys: list[bytes]
    invalid: int


@dataclass
class Report:
    """What became of bodies. taken: of each, its number, its spans, and how many of these were rejected for other
    reasons than their ids. judged: traces that were judged. open: spans of which no answer says whether they were
    taken. slowest: seconds until an answer, and the body's number. grown: bytes of memory that the receiver took
    meanwhile. stored: counts of what was found in the store."""

    statuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    taken: list[tuple[int, list[bytes], int]] = field(default_factory=list)
    judged: set[str] = field(default_factory=set)
    open: set[bytes] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    retried: int = 0
    grown: int = 0
    stored: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Report) -> Report:
        self.statuses += other.statuses
        self.faults += other.faults
        self.slowest = max(self.slowest, other.slowest)
        self.retried += other.retried
        self.grown = max(self.grown, other.grown)
        self.stored += other.stored
        return self


# ---- what a body holds, read without the receiver's own code


def spans_in(body: Body) -> Spans:
    """The spans of a body that was taken. Raises: ValueError and others where it is none."""
    plain = _plain(body)
    if _kind(body) == PROTOBUF:
        keys, invalid = [], 0
        for resource in ExportTraceServiceRequest.FromString(plain).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    if _is_span(span.trace_id, span.span_id, span.parent_span_id):
                        keys.append(_whole(span))
                    else:
                        invalid += 1
        return Spans(keys, invalid)
    walk = _Walk()
    for span, _ in walk.records(plain, "resourceSpans", "scopeSpans", "spans"):
        ids = [_hex(span.get(name)) for name in ("traceId", "spanId", "parentSpanId")]
        if _is_span(*ids):
            walk.keys.append(ids[0] + ids[1])
        else:
            walk.invalid += 1
    return Spans(walk.keys, walk.invalid)


def judged_in(body: Body) -> set[str]:
    """The traces that a body judges, none of whose records was rejected."""
    plain, found = _plain(body), set()
    if _kind(body) == PROTOBUF:
        for resource in ExportLogsServiceRequest.FromString(plain).resource_logs:
            for scope in resource.scope_logs:
                if scope.scope.name != names.TRACER:
                    found |= {r.trace_id.hex() for r in scope.log_records if r.event_name == names.EVALUATION_EVENT}
        return found
    for record, scope in _Walk().records(plain, "resourceLogs", "scopeLogs", "logRecords"):
        told = scope.get("scope")
        is_own = isinstance(told, dict) and told.get("name") == names.TRACER
        if record.get("eventName") == names.EVALUATION_EVENT and not is_own:
            found.add(_hex(record.get("traceId")).hex())
    return found


class _Walk:
    """Walks through OTLP's JSON, and counts what is none of it."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.invalid = 0

    def records(self, plain: bytes, *path: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The records, each with the scope that it stands in."""
        said = plain.decode()
        try:
            found = json.loads(said)
            documents = found if found and isinstance(found, list) else [found]
        except json.JSONDecodeError:
            documents = [json.loads(line) for line in said.split("\n") if line.strip()]
        for document in documents:
            for resource in self._listed(document, path[0]):
                for scope in self._listed(resource, path[1]):
                    for record in self._listed(scope, path[2]):
                        yield record, scope

    def _listed(self, given: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
        value = given.get(name)
        if value is not None and not isinstance(value, list):
            self.invalid += 1
            return
        for each in value or ():
            if isinstance(each, dict):
                yield each
            else:
                self.invalid += 1


def _whole(span: Any) -> bytes:
    """A span with what it says."""
    said = hashlib.blake2b(span.SerializeToString(), digest_size=8).digest()
    return bytes(span.trace_id + span.span_id + said)


def _is_span(trace_id: bytes, span_id: bytes, parent_id: bytes) -> bool:
    return len(trace_id) == 16 and any(trace_id) and len(span_id) == 8 and any(span_id) and len(parent_id) in (0, 8)


def _hex(value: Any) -> bytes:
    """An id; one that is none has a length that no id has."""
    try:
        return bytes.fromhex(value or "")
    except (TypeError, ValueError):
        return b"none"


def _plain(body: Body) -> bytes:
    packed = not body.is_grpc and body.encoding.strip().lower() == "gzip"
    return gzip.decompress(body.payload) if packed else body.payload


def _kind(body: Body) -> str:
    return PROTOBUF if body.is_grpc else body.content_type.partition(";")[0].strip().lower()


def _signal(body: Body) -> str:
    return body.signal if body.is_grpc else "logs" if "/v1/logs" in body.path else "traces"


# ---- sending


class _Answer(NamedTuple):
    status: str
    body: bytes
    seconds: float


class _Connection:
    """One that is kept alive; bodies follow each other on it, answers come in their order."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._answers: BinaryIO | None = None
        self._sent: list[Body] = []
        self._at = 0.0

    def send(self, bodies: Sequence[Body]) -> None:
        """Send all of them at once."""
        self._sent, self._at = list(bodies), time.monotonic()
        if self._sent:
            try:
                self._open().sendall(b"".join(map(_request, self._sent)))
            except OSError:
                self.close()

    def answers(self) -> Iterator[tuple[Body, _Answer | None]]:
        """What was answered to each; None where the connection ended before."""
        for body in self._sent:
            status, said = "", b""
            if self._answers is not None:
                try:
                    status, said, is_last = _read_answer(self._answers)
                except OSError:  # also when it takes too long
                    status, is_last = "", True
                if is_last or not status:
                    self.close()
            yield body, _Answer(status, said, time.monotonic() - self._at) if status else None
        self._sent = []

    def close(self) -> None:
        """The next send opens it again."""
        for each in (self._answers, self._socket):
            if each is not None:
                each.close()
        self._socket = self._answers = None

    def _open(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=_HANG)
            self._answers = self._socket.makefile("rb")
        return self._socket


def _request(body: Body) -> bytes:
    head = f"POST {body.path} HTTP/1.1\r\nHost: x\r\nContent-Type: {body.content_type}\r\n"
    if body.encoding:
        head += f"Content-Encoding: {body.encoding}\r\n"
    return f"{head}Content-Length: {len(body.payload)}\r\n\r\n".encode("latin-1") + body.payload


def _read_answer(answers: BinaryIO) -> tuple[str, bytes, bool]:
    """A status, a body, and whether the connection ends."""
    line = answers.readline()
    size, is_last = 0, False
    while (header := answers.readline()) not in (b"\r\n", b""):
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
        elif name.lower() == b"connection":
            is_last = value.strip().lower() == b"close"
    return line[9:12].decode("latin-1"), answers.read(size), is_last


class _Sender:
    """Sends bodies over HTTP and gRPC, and writes down what became of them."""

    def __init__(self, port: int, rpc_port: int, seed: int) -> None:
        import grpc

        self.report = Report()
        self._seed = seed
        self._connections = [_Connection(port) for _ in range(_CONNECTIONS)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{rpc_port}")
        self._packings = {"": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip}
        service = "opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
        self._exports = {
            signal: self._channel.unary_unary("/" + service.format(name, name.title()))
            for signal, name in (("traces", "trace"), ("logs", "logs"))
        }

    def run(self, numbers: Iterable[int]) -> Report:
        """Send the bodies of these numbers, in order."""
        waiting = iter(numbers)
        bodies = self._next(waiting)
        while bodies and len(self.report.faults) < 100:
            calls = self._send(bodies)
            following = self._next(waiting)  # the receiver works meanwhile
            later = self._receive(calls)
            for _ in range(_TRIES):
                if not later:
                    break
                later = self._again(later)
            for body in later:
                self._leave(body)
            bodies = following
        self.close()
        return self.report

    def close(self) -> None:
        """Close all connections."""
        for each in self._connections:
            each.close()
        self._channel.close()

    def _next(self, waiting: Iterator[int]) -> list[Body]:
        bodies: list[Body] = []
        for number in islice(waiting, _BATCH):
            try:
                bodies.append(body_of(self._seed, number))
            except Exception:  # our own fault, which should not end the round
                self.report.faults.append(f"body {number} cannot be made: {traceback.format_exc()}")
        return bodies

    def _send(self, bodies: Sequence[Body]) -> list[tuple[Body, Any, float]]:
        plain = [body for body in bodies if not body.is_grpc]
        for place, connection in enumerate(self._connections):
            connection.send(plain[place::_CONNECTIONS])
        return [(body, self._call(body), time.monotonic()) for body in bodies if body.is_grpc]

    def _call(self, body: Body) -> Any:
        export = self._exports[body.signal]
        return export.future(body.payload, timeout=_HANG, compression=self._packings[body.encoding])

    def _receive(self, calls: list[tuple[Body, Any, float]]) -> list[Body]:
        """Returns those that should be sent again."""
        later: list[Body] = []
        for connection in self._connections:
            for body, answer in connection.answers():
                later += [body] if answer is None or not self._take(body, answer) else []
        for body, call, at in calls:
            code = call.code().name
            said = call.result() if code == "OK" else b""
            if not self._take(body, _Answer(code, said, time.monotonic() - at), call.details() or ""):
                later.append(body)
        return later

    def _again(self, bodies: Sequence[Body]) -> list[Body]:
        """One by one, as a sender that was asked to come back."""
        self.report.retried += len(bodies)
        time.sleep(0.2)
        return [body for body in bodies if self._receive(self._send([body]))]

    def _leave(self, body: Body) -> None:
        """Nobody knows whether it was taken."""
        self.report.statuses[body.kind, "none"] += 1
        self._fault(body, f"was not answered in {_TRIES + 1} attempts")
        try:
            self.report.open.update(key[:_IDS] for key in spans_in(body).keys)
        except Exception:  # it is no body: nothing of it can be stored
            return

    def _take(self, body: Body, answer: _Answer, details: str = "") -> bool:
        """Whether that was its last answer."""
        report = self.report
        report.slowest = max(report.slowest, (answer.seconds, body.number))
        if answer.status in _LATER:
            return False
        report.statuses[body.kind, answer.status] += 1
        if answer.status not in (_CODES if body.is_grpc else _STATUSES):
            self._fault(body, f"was answered by {answer.status} {details} {answer.body[:200]!r}")
        elif answer.status in _TAKEN:
            self._hold(body, answer)
        elif not (details or answer.body):
            self._fault(body, f"was refused by {answer.status} without a reason")
        return True

    def _hold(self, body: Body, answer: _Answer) -> None:
        """Read what was taken."""
        signal = _signal(body)
        try:
            rejected = _rejected(answer.body, _kind(body), signal)
            if signal == "logs":
                self.report.judged |= judged_in(body) if not rejected else set()
                return
            keys, invalid = spans_in(body)
        except Exception as error:  # what we cannot read should have been refused
            self._fault(body, f"was taken, and is no body: {error!r:.300}")
            return
        if rejected < invalid or (rejected > invalid and _kind(body) == PROTOBUF):
            self._fault(body, f"has {invalid} spans without ids, and {rejected} were told to be rejected")
        self.report.taken.append((body.number, keys, rejected - invalid))

    def _fault(self, body: Body, what: str) -> None:
        self.report.faults.append(f"body {body.number} of seed {self._seed} ({body.kind}) {what}")


def _rejected(answer: bytes, kind: str, signal: str) -> int:
    """How many records an answer says were rejected."""
    if kind == JSON:
        told = json.loads(answer).get("partialSuccess", {})
        return int(told.get("rejectedSpans" if signal == "traces" else "rejectedLogRecords", 0))
    said = _ANSWERS[signal].FromString(answer).partial_success
    return int(said.rejected_spans if signal == "traces" else said.rejected_log_records)


# ---- what is stored


def round_of(seed: int, first: int, last: int, folder: Path) -> Report:
    """Send the bodies from `first` to before `last` to a receiver of their own, which assembles nothing, and hold what
    it stored against what it answered. Some of the traces are assembled here then.
    """
    folder.mkdir(parents=True)
    receiver = Served(folder, "--assemblers", "0", "--ttl", "3600")
    began = receiver.peak
    try:
        report = _Sender(receiver.port, receiver.rpc_port, seed).run(range(first, last))
        report.grown = receiver.peak - began
        if receiver.process.poll() is not None:
            report.faults.append(f"the receiver ended with {receiver.process.returncode}")
    finally:
        receiver.stop()
    log = receiver.log.read_text("utf-8", "replace")
    if "Traceback" in log:
        report.faults.append(f"the receiver's log has a traceback: {log[:5_000]}")
    if report.grown > MOST:
        report.faults.append(f"the receiver took {report.grown >> 20} MB")
    hold(receiver.url, report, pages=2 + (last - first) // 4_000)
    report.taken.clear()
    report.judged.clear()
    report.open.clear()
    return report


def rounds_of(seed: int, first: int, last: int, folder: Path, workers: int) -> Iterator[tuple[int, Report]]:
    """Rounds by several processes at once, each with its last body's number, as they end."""
    # spawned: gRPC's threads outlive no fork
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as processes:
        waiting = {}
        for at in range(first, last, ROUND):
            end = min(at + ROUND, last)
            waiting[processes.submit(_cleaned_round, seed, at, end, folder / str(at))] = end
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            processes.shutdown(cancel_futures=True)


def _cleaned_round(seed: int, first: int, last: int, folder: Path) -> Report:
    """A round whose store is kept only where something is wrong with it."""
    try:
        report = round_of(seed, first, last, folder)
    except Exception:
        report = Report(faults=[f"the round of {first} to {last} broke off: {traceback.format_exc()}"])
    if not report.faults:
        shutil.rmtree(folder)
    return report


def hold(url: str, report: Report, pages: int) -> None:
    """Hold a store against what senders were told, and assemble so many pages of its traces; adds to the faults."""
    with Store.open(url) as store:
        held = _Held(store, report)
        held.compare()
        held.assemble(pages)


class _Held:
    """What a store holds after a round."""

    def __init__(self, store: Store, report: Report) -> None:
        self._store, self._report = store, report

    def compare(self) -> None:
        """All that was acknowledged is stored, and nothing else is."""
        spans = {key for spans in self._spans(self._trace_ids()).values() for key in spans}
        ids = {key[:_IDS] for key in spans}
        stored = spans | ids
        allowed = set(self._report.open)
        for number, keys, rejected in self._report.taken:
            allowed.update(key[:_IDS] for key in keys)
            missing = [key for key in keys if key not in stored]
            if len(missing) > rejected:
                said = ", ".join(f"{key[:16].hex()}/{key[16:_IDS].hex()}" for key in missing[:3])
                self._report.faults.append(
                    f"body {number}: {len(missing)} spans were acknowledged and are lost: {said}"
                )
        for key in sorted(ids - allowed)[:10]:
            told = f"{key[:16].hex()}/{key[16:_IDS].hex()}"
            self._report.faults.append(f"span {told} is stored, and no body with it was taken")
        with self._store._database.read() as connection:
            judged = set(connection.scalars(sa.select(feedback.c.request_id)))
        for each in sorted(self._report.judged - judged)[:10]:
            self._report.faults.append(f"the judgment of trace {each} was acknowledged and is lost")
        self._report.stored.update(spans=len(spans), judged=len(judged), taken=len(self._report.taken))

    def assemble(self, pages: int) -> None:
        """Assemble some of the traces: none fails, each keeps its spans as they came, and each request is stored."""
        log = _Log()
        logger = logging.getLogger("ragtrace")
        logger.addHandler(log)
        try:
            assembler = Assembler(self._store, config.load(capture_content="full"))
            for _ in range(pages):
                before = self._spans(self._due())
                assembler.step(now=time.time() + 1e6)
                self._hold(before)
        finally:
            logger.removeHandler(log)
        self._report.faults += [f"the assembler said: {each}" for each in log.said]

    def _hold(self, before: dict[str, list[bytes]]) -> None:
        self._report.stored["assembled"] += len(before)
        after = self._spans(before)
        for trace_id, spans in before.items():
            if Counter(after.get(trace_id, [])) != Counter(spans):
                self._report.faults.append(f"trace {trace_id} has not the spans that it had before it was assembled")
        with self._store._database.read() as connection:
            rows = connection.execute(sa.select(trace.c.trace_id, trace.c.error).where(trace.c.error.is_not(None)))
            self._report.faults += [f"trace {row.trace_id} cannot be assembled: {row.error}" for row in rows]
        expected = {}
        for due, parts in self._store.spans_of([DueTrace("", each, 0, 0) for each in before]).items():
            assert not isinstance(parts, CorruptStore)
            record = assemble(span for part in parts for span in read_protobuf(part.body).spans)
            if record is not None:
                expected[clean(record.request_id)] = due[1], len(record.stages)
        stored = self._store.get_records(list(expected))
        self._report.stored["requests"] += len(stored)
        for request_id, (trace_id, stages) in expected.items():
            found = stored.get(request_id)
            if found is None or (found.trace_id == trace_id and len(found.stages) != stages):
                self._report.faults.append(f"trace {trace_id} was assembled, and its request is not stored")

    def _trace_ids(self) -> list[str]:
        with self._store._database.read() as connection:
            return list(connection.scalars(sa.select(trace.c.trace_id)))

    def _due(self) -> list[str]:
        """The traces that the assembler takes next."""
        with self._store._database.read() as connection:
            due = sa.select(trace.c.trace_id).where(trace.c.due_at.is_not(None))
            return list(connection.scalars(due.order_by(trace.c.due_at).limit(128)))

    def _spans(self, trace_ids: Iterable[str]) -> dict[str, list[bytes]]:
        """The spans of traces, each by its ids and by what it says."""
        found: defaultdict[str, list[bytes]] = defaultdict(list)
        wanted = list(trace_ids)
        for at in range(0, len(wanted), _PAGE):
            due = [DueTrace("", each, 0, 0) for each in wanted[at : at + _PAGE]]
            for (_, trace_id), parts in self._store.spans_of(due).items():
                if isinstance(parts, CorruptStore):
                    self._report.faults.append(f"trace {trace_id} cannot be read: {parts}")
                    continue
                for part in parts:
                    for resource in ExportTraceServiceRequest.FromString(part.body).resource_spans:
                        for scope in resource.scope_spans:
                            found[trace_id] += map(_whole, scope.spans)
        return found


class _Log(logging.Handler):
    """What is logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.addFilter(lambda record: "when the others had been forgotten" not in record.msg)  # one id for two requests
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage())
