"""Bodies of requests within bounds: the signals of OTLP that they hold, and how a sender is told that one was refused.

A refusal is a google.rpc.Status, which OTLP asks for over HTTP and over gRPC.
Source: https://opentelemetry.io/docs/specs/otlp/#failures.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ragtrace.receive._limits import DecodingBudget
from ragtrace.receive._logs import parse_logs_json, parse_logs_protobuf, read_logs
from ragtrace.receive._otlp import check_message, parse_json, parse_protobuf, split
from ragtrace.record.content import ContentPolicy
from ragtrace.store import SpanPart, TraceJudgment

if TYPE_CHECKING:
    from starlette.responses import Response

__all__ = [
    "JSON",
    "LATER",
    "PROTOBUF",
    "SIGNALS",
    "DecodedBody",
    "Item",
    "Refused",
    "Signal",
    "http_answer",
    "inflated",
    "received",
    "retry_info",
    "rpc_status",
    "unavailable",
]

LATER: Final = 5
"""Seconds after which a sender may come back, while the store does not answer."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_STEP: Final = 1 << 20
_SLICE: Final = 64 << 10  # bytes that are given to zlib at once: it copies those that follow a member


class Refused(Exception):
    """A request that is not accepted, with the status and the reason that its sender gets."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


def unavailable(error: Exception) -> Refused:
    """What a sender is told while the store does not answer; the reason may name hosts and stays here."""
    return Refused(503, f"the store does not take it now: {type(error).__name__}", LATER)


async def received(stream: AsyncIterable[bytes], most: int) -> bytes:
    """The whole body. Raises: Refused (413) as soon as it is longer than `most` bytes."""
    parts, size = [], 0
    async for part in stream:
        size += len(part)
        if size > most:
            raise Refused(413, f"the body is larger than {most:,} bytes; send smaller batches")
        parts.append(part)
    return b"".join(parts)


def inflated(body: bytes, encoding: str, most: int, members: int) -> bytes:
    """The body without its content encoding.

    Raises: Refused (413 when it grows beyond `most` bytes, 415, 400; also for a gzip of more than so many members).
    """
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Refused(415, f"content encoding {encoding!r} is not read; send gzip or none")
    parts, size = list[bytes](), 0
    try:
        for part in _parts(body, members):
            size += len(part)
            if size > most:
                raise Refused(413, f"the body is larger than {most:,} bytes when inflated; send smaller batches")
            parts.append(part)
    except zlib.error as error:
        raise Refused(400, f"the body is no gzip: {error}") from None
    return b"".join(parts)


def _parts(body: bytes, most: int) -> Iterator[bytes]:
    """What a gzip holds, which may have several members. Raises: Refused (400), zlib.error."""
    reader, members = zlib.decompressobj(_GZIP), 1
    for at in range(0, len(body), _SLICE):
        rest = body[at : at + _SLICE]
        while rest:
            if reader.eof:
                reader, members = zlib.decompressobj(_GZIP), members + 1
                if members > most:
                    raise Refused(400, f"the body's gzip has more than {most:,} members; compress it in one")
            yield reader.decompress(rest, _STEP)
            rest = reader.unused_data if reader.eof else reader.unconsumed_tail
    if not reader.eof:
        raise Refused(400, "the body's gzip breaks off; send it whole")


Item: TypeAlias = SpanPart | TraceJudgment

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """What a request holds for the store, how many of its records were accepted, rejected, and of no interest, and the
    answer of its service."""

    items: Sequence[Item]
    accepted: int
    rejected: int
    ignored: int
    answer: Any

    def encoded(self, kind: str) -> bytes:
        """The answer as the request's content type."""
        if kind == PROTOBUF:
            return bytes(self.answer.SerializeToString())
        from google.protobuf.json_format import MessageToDict

        return json.dumps(MessageToDict(self.answer)).encode()


@dataclass(frozen=True, slots=True)
class Signal:
    """A kind of telemetry, and its service over gRPC. `read` takes a body, its content type, the tenant, what may be
    kept of content, and what decoding may take; it raises RecordError where the body is none of this kind, TooLarge.
    """

    name: Literal["traces", "logs"]
    service: str
    read: Callable[[bytes, str, str, ContentPolicy, DecodingBudget], DecodedBody]

    @property
    def path(self) -> str:
        """Its route over HTTP."""
        return f"/v1/{self.name}"


def _traces(body: bytes, kind: str, tenant: str, policy: ContentPolicy, allowance: DecodingBudget) -> DecodedBody:
    if kind == JSON:
        split_body = split(*parse_json(body, allowance), allowance=allowance)
    else:
        check_message(body, "traces", allowance)
        split_body = split(parse_protobuf(body), body=body, allowance=allowance)
    parts = [SpanPart(tenant, part.trace_id, part.body, part.ended) for part in split_body.parts]
    return DecodedBody(
        parts, sum(part.spans for part in split_body.parts), len(split_body.rejected), 0, split_body.answer
    )


def _logs(body: bytes, kind: str, tenant: str, policy: ContentPolicy, allowance: DecodingBudget) -> DecodedBody:
    if kind == JSON:
        message, rejected = parse_logs_json(body, allowance)
    else:
        check_message(body, "logs", allowance)
        message, rejected = parse_logs_protobuf(body), []
    found = read_logs(message, tenant, policy, rejected)
    return DecodedBody(found.judgments, len(found.judgments), len(found.rejected), found.ignored, found.answer)


_COLLECTOR: Final = "opentelemetry.proto.collector"

SIGNALS: Final = (
    Signal("traces", f"{_COLLECTOR}.trace.v1.TraceService", _traces),
    Signal("logs", f"{_COLLECTOR}.logs.v1.LogsService", _logs),
)
"""All that are taken."""


_TOO_SLOW: Final = 408  # after which a sender over HTTP would not try again


def retry_info(refused: Refused) -> Any:
    """When to come back, as a google.rpc.RetryInfo; None where a sender should not."""
    from google.protobuf.duration_pb2 import Duration
    from google.rpc.error_details_pb2 import RetryInfo

    return None if refused.retry_after is None else RetryInfo(retry_delay=Duration(seconds=refused.retry_after))


def rpc_status(refused: Refused, code: int = 0) -> bytes:
    """The reason, and when to come back. code: that of gRPC; over HTTP there need be none."""
    from google.rpc.status_pb2 import Status

    status = Status(code=code, message=refused.reason.encode("utf-8", "replace").decode())
    if refused.retry_after is not None:
        status.details.add().Pack(retry_info(refused))
    return bytes(status.SerializeToString())


def http_answer(refused: Refused, kind: str) -> Response:
    """The answer in the content type of what was sent; in JSON where that is none that is read."""
    from starlette.responses import JSONResponse, Response

    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if refused.status == _TOO_SLOW:
        headers = {"Retry-After": str(LATER), "Connection": "close"}
        refused = Refused(503, refused.reason, LATER)
    if kind == PROTOBUF:
        return Response(rpc_status(refused), refused.status, headers, PROTOBUF)
    return JSONResponse({"message": refused.reason}, refused.status, headers)
