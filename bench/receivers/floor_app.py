"""The least that a receiver can do: decode OTLP, pack a trace into one row with each text once, and insert in batches.

It answers when the rows are committed, as ragtrace does. Nothing is read out of the spans, nothing can be found but by
the trace's id. Usage: python -m bench.receivers.floor_app DATABASE_URL PORT.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.receivers.databases import engine

__all__ = ["TABLE", "Row", "packed", "unpacked", "writer"]

_TEXT: Final = 32  # characters from which on a text stands once
_BATCH: Final = 256  # rows of a transaction
_PACK, _UNPACK = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
_LEVEL: Final = 1  # of Zstandard, the quickest
_COPY: Final = "COPY packed (trace_id, started_at, body) FROM STDIN (FORMAT BINARY)"
_ANSWER: Final = ExportTraceServiceResponse().SerializeToString()

TABLE: Final = sa.Table(
    "packed",
    sa.MetaData(),
    sa.Column("trace_id", sa.Text, primary_key=True),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)


class Row(NamedTuple):
    """A trace as it is stored."""

    trace_id: str
    started_at: int
    body: bytes


def packed(message: bytes) -> list[Row]:
    """The rows of a request."""
    request = ExportTraceServiceRequest.FromString(message)
    traces: dict[bytes, list[Any]] = {}
    texts: dict[bytes, dict[str, int]] = {}
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                known = texts.setdefault(span.trace_id, {})
                traces.setdefault(span.trace_id, []).append(_span(span, known))
    compress = zstandard.ZstdCompressor(level=_LEVEL).compress
    return [
        Row(trace_id.hex(), min(span[3] for span in spans), compress(_PACK([spans, list(texts[trace_id])])))
        for trace_id, spans in traces.items()
    ]


def _span(span: Any, texts: dict[str, int]) -> list[Any]:
    attributes = {}
    for each in span.attributes:
        value = getattr(each.value, each.value.WhichOneof("value"))
        if isinstance(value, str) and len(value) >= _TEXT:
            value = [texts.setdefault(value, len(texts))]
        attributes[each.key] = value
    times = (span.start_time_unix_nano, span.end_time_unix_nano)
    return [span.span_id, span.parent_span_id, span.name, *times, attributes]


def unpacked(row: Row) -> list[dict[str, Any]]:
    """The attributes of each of a row's spans."""
    spans, texts = _UNPACK(zstandard.decompress(row.body))
    return [
        {name: texts[value[0]] if isinstance(value, list) else value for name, value in span[5].items()}
        for span in spans
    ]


Write = Callable[[Sequence[Row]], object]


def writer(url: str) -> Write:
    """Inserts rows and commits: by SQLAlchemy Core into a SQLite file in WAL, by COPY into PostgreSQL."""
    if url.startswith("postgresql://"):
        return _copying(url)
    opened = engine(url)
    sa.event.listen(opened, "connect", _connected)
    TABLE.metadata.create_all(opened)

    def insert(rows: Sequence[Row]) -> None:
        with opened.begin() as connection:
            connection.execute(sa.insert(TABLE), [row._asdict() for row in rows])

    return insert


def _connected(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _copying(url: str) -> Write:
    import psycopg

    opened = engine(url)
    TABLE.metadata.create_all(opened)
    opened.dispose()
    connection = psycopg.connect(url)

    def copy(rows: Sequence[Row]) -> None:
        with connection.transaction(), connection.cursor() as cursor, cursor.copy(_COPY) as out:
            out.set_types(["text", "int8", "bytea"])
            for row in rows:
                out.write_row(row)

    return copy


class _Intake:
    """One thread that writes what waits, in one transaction."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: SimpleQueue[tuple[list[Row], Future[None]]] = SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def submit(self, rows: list[Row]) -> Future[None]:
        done: Future[None] = Future()
        self._waiting.put((rows, done))
        return done

    def _run(self) -> None:
        while True:
            batch = [self._waiting.get()]
            count = len(batch[0][0])
            while count < _BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
                count += len(batch[-1][0])
            try:
                self._write([row for rows, _ in batch for row in rows])
            except Exception as error:
                for _, done in batch:
                    done.set_exception(error)
            else:
                for _, done in batch:
                    done.set_result(None)


def make_app(write: Write) -> Starlette:
    """The same front as that of ragtrace: Starlette, and uvicorn under it."""
    intake = _Intake(write)

    async def traces(request: Request) -> Response:
        rows = await asyncio.to_thread(packed, await request.body())
        await asyncio.wrap_future(intake.submit(rows))
        return Response(_ANSWER, media_type="application/x-protobuf")

    return Starlette(routes=[Route("/v1/traces", traces, methods=["POST"])])


def main() -> None:
    """Serve until the process is told to end."""
    import uvicorn

    url, port = sys.argv[1:]
    uvicorn.run(make_app(writer(url)), host="127.0.0.1", port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
