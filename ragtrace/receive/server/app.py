"""The HTTP routes: OTLP traces, and what a load balancer asks.

200 only after the commit; what can be sent again later gets 503 with Retry-After, what cannot gets 4xx with the reason.
Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from ragtrace.errors import MissingExtraError, RecordError, StoreError
from ragtrace.receive.otlp import Split, parse_json, parse_protobuf, split
from ragtrace.receive.server.access import Access
from ragtrace.receive.server.bodies import LATER, Refused, inflated, received, unavailable
from ragtrace.receive.server.intake import Intake
from ragtrace.store import SpanPart, Store

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["LARGEST", "LARGEST_INFLATED", "make_app"]

LARGEST: Final = 16 << 20
"""Bytes of a body as it is sent."""

LARGEST_INFLATED: Final = 64 << 20
"""Bytes of a body without its content encoding."""

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_BODIES: Final = 8  # of the largest size, that may be received at once
_SLOWEST: Final = 60.0  # seconds of a body
_LARGE: Final = 4 << 20  # bytes of a body of which one at a time is decoded: it may take much more as a message
_ONE_LARGE: Final = Lock()


def make_app(
    store: Store, intake: Intake, access: Access, *, largest: int = LARGEST, largest_inflated: int = LARGEST_INFLATED
) -> Starlette:
    """The application, for any ASGI server. Raises: MissingExtraError."""
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError:
        raise MissingExtraError("starlette", "serve") from None
    routes = _Routes(store, intake, access, largest, largest_inflated)
    return Starlette(
        routes=[
            Route("/v1/traces", routes.traces, methods=["POST"]),
            Route("/healthz", routes.health, methods=["GET"]),
            Route("/readyz", routes.ready, methods=["GET"]),
        ]
    )


class _Routes:
    """What is served."""

    def __init__(self, store: Store, intake: Intake, access: Access, largest: int, largest_inflated: int) -> None:
        self._store, self._intake, self._access = store, intake, access
        self._largest, self._largest_inflated = largest, largest_inflated
        self._held, self._most_held = 0, _BODIES * largest

    async def traces(self, request: Request) -> Response:
        """Takes spans."""
        from starlette.requests import ClientDisconnect
        from starlette.responses import Response

        try:
            answer, kind = await self._take(request)
        except Refused as refused:
            return _refused(refused)
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody
        except StoreError as error:
            return _refused(unavailable(error))
        return Response(answer, media_type=kind)

    async def _take(self, request: Request) -> tuple[bytes, str]:
        """The answer, and its type. Raises: Refused, StoreError."""
        tenant = self._access.tenant(request.headers.get("authorization"))
        if tenant is None:
            raise Refused(401, "no token of a tenant; send `Authorization: Bearer TOKEN`")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (_PROTOBUF, _JSON):
            raise Refused(415, f"content type {kind!r} is not read; send {_PROTOBUF} or {_JSON}")
        body = await self._received(request)
        encoding = request.headers.get("content-encoding", "").strip().lower()
        found = await asyncio.to_thread(_split, body, encoding, kind, self._largest_inflated)
        parts = [SpanPart(tenant, each.trace_id, each.body, each.ended) for each in found.parts]
        if parts:
            await asyncio.wrap_future(self._intake.submit(parts))
        return _answer(found, kind), kind

    async def _received(self, request: Request) -> bytes:
        """The body. What is being received is bounded over all requests, and so is the time of each."""
        held = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal held
            async for part in request.stream():
                held += len(part)
                self._held += len(part)
                if self._held > self._most_held:
                    raise Refused(503, f"{self._held:,} bytes are being received; come back later", LATER)
                yield part

        try:
            async with asyncio.timeout(_SLOWEST):
                return await received(counted(), self._largest)
        except TimeoutError:
            raise Refused(408, f"the body did not come within {_SLOWEST:.0f} seconds") from None
        finally:
            self._held -= held

    async def health(self, request: Request) -> Response:
        """Whether the process lives."""
        from starlette.responses import PlainTextResponse

        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Whether it takes requests now: the store answers, and there is room."""
        from starlette.responses import JSONResponse

        load = self._intake.load
        try:
            waiting, _ = await asyncio.to_thread(self._store.traces_waiting)
        except StoreError as error:
            return JSONResponse({"ready": False, "reason": type(error).__name__}, 503)
        state = {"ready": load < 1, "traces_waiting": waiting, "load": round(load, 3)}
        return JSONResponse(state, 200 if load < 1 else 503)


def _refused(refused: Refused) -> Response:
    from starlette.responses import JSONResponse

    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"message": refused.reason}, refused.status, headers=headers)


def _split(body: bytes, encoding: str, kind: str, most: int) -> Split:
    whole = inflated(body, encoding, most)
    try:
        with _ONE_LARGE if len(whole) > _LARGE else nullcontext():
            return _decoded(whole, kind)
    except RecordError as error:
        raise Refused(400, str(error)) from None


def _decoded(whole: bytes, kind: str) -> Split:
    if kind == _JSON:
        return split(*parse_json(whole))
    return split(parse_protobuf(whole), body=whole)


def _answer(found: Split, kind: str) -> bytes:
    """ExportTraceServiceResponse: empty, or how many spans were rejected and why."""
    answer = found.answer
    if kind == _PROTOBUF:
        return bytes(answer.SerializeToString())
    partial: dict[str, Any] = {}
    if found.rejected:
        told = answer.partial_success
        partial = {"partialSuccess": {"rejectedSpans": str(told.rejected_spans), "errorMessage": told.error_message}}
    return json.dumps(partial).encode()
