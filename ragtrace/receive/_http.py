"""OTLP over HTTP: the routes for traces and logs, what a load balancer asks, and the receiver's metrics.

200 only after the commit; what can be sent again later gets 503 with Retry-After, what cannot gets 4xx with the reason.
What is bounded by the routes is requests under way, never what a load balancer asks. Connections on which nothing
happens are closed: uvicorn waits for a request's head, and for a sender that does not read its answers, for ever.
Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ragtrace.errors import MissingExtraError, StoreError
from ragtrace.receive._bodies import (
    JSON,
    LATER,
    PROTOBUF,
    SIGNALS,
    DecodedBody,
    Refused,
    Signal,
    http_answer,
    received,
)
from ragtrace.receive._ingest import Ingestor, IngestRequest, Intake, Places, tenant_of
from ragtrace.receive._limits import ReceiverLimits, affordable
from ragtrace.receive._meter import CONTENT_TYPE_LATEST, BacklogProbe, Meter, StoreTimeout
from ragtrace.receive._tenants import Access
from ragtrace.store import Store

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["connections", "make_app"]

_ROUTES: Final = ", ".join(each.path for each in SIGNALS)


def make_app(store: Store, intake: Intake, ingestor: Ingestor, meter: Meter, scrapers: Access | None) -> Starlette:
    """The application, for any ASGI server. `scrapers`: who may read the metrics; None: nobody, there are none then.

    Raises: MissingExtraError.
    """
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
        from starlette.routing import Route
    except ImportError:
        raise MissingExtraError("starlette", "serve") from None
    bodies = _Bodies(ingestor)
    backlog = BacklogProbe(store)
    state = _State(backlog, intake)
    routes = [Route(each.path, bodies.route(each), methods=["POST"]) for each in SIGNALS]
    routes += [Route("/healthz", state.health, methods=["GET"]), Route("/readyz", state.ready, methods=["GET"])]
    if scrapers is not None:
        routes.append(Route("/metrics", _Metrics(meter, scrapers, backlog).show, methods=["GET"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _not_routed}, middleware=[Middleware(_OneLength)])
    app.router.redirect_slashes = False  # else `/v1/traces/` gets 307, to a host that the request itself names
    return app


class _OneLength:
    """Refuses a request that says its length in two ways, and closes its connection: what stands before the receiver
    may believe the other one, and take its rest for a request. Source: RFC 9112, 6.1.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it, or hand it on."""
        app = self._app
        if scope["type"] == "http":
            names = {name for name, _ in scope["headers"]}
            if {b"content-length", b"transfer-encoding"} <= names:
                refused = Refused(400, "the request has a Content-Length and a Transfer-Encoding; send one of them")
                app = http_answer(refused, JSON)
                app.headers["Connection"] = "close"
        await app(scope, receive, send)


class _Bodies:
    """Takes what is posted."""

    def __init__(self, ingestor: Ingestor) -> None:
        self._ingestor, self._limits = ingestor, ingestor.limits
        self._requests = Places(self._limits.requests, "requests are under way")
        self._bytes = Places(self._limits.bodies, "bytes are being read", self._limits.body)

    def route(self, signal: Signal) -> Callable[[Request], Awaitable[Response]]:
        """Takes a request of this signal."""

        async def take(request: Request) -> Response:
            from starlette.responses import Response

            kind = _kind(request)
            try:
                with self._ingestor.request("http", signal) as one:
                    taken = await self._take(request, kind, one)
                return Response(await asyncio.to_thread(taken.encoded, kind), media_type=kind)
            except Refused as refused:
                return http_answer(refused, kind)
            except asyncio.CancelledError:  # only when the server ends; it would say 500, after which spans are dropped
                return http_answer(Refused(503, "the receiver is shutting down", LATER), kind)

        return take

    async def _take(self, request: Request, kind: str, one: IngestRequest) -> DecodedBody:
        """What was taken. Raises: Refused, StoreError."""
        tenant = one.authorize(request.headers.getlist("authorization"))
        if kind not in (PROTOBUF, JSON):
            raise Refused(415, f"content type {kind!r} is not read; send {PROTOBUF} or {JSON}")
        encoding = request.headers.get("content-encoding", "").strip().lower()
        with self._requests.one(tenant):
            async with self._received(request, tenant) as body:
                taken = await one.read(body, kind, encoding)
            return await one.commit(taken)

    @asynccontextmanager
    async def _received(self, request: Request, tenant: str) -> AsyncIterator[bytes]:
        """The body, within the block. What is held is bounded over all requests, and so is the time until it came, and
        until something more of it did."""
        from starlette.requests import ClientDisconnect

        held, loop, limits = 0, asyncio.get_running_loop(), self._limits

        async def counted() -> AsyncIterator[bytes]:
            nonlocal held
            async for part in request.stream():
                pause.reschedule(loop.time() + limits.pause)
                self._bytes.take(tenant, len(part))
                held += len(part)
                yield part

        try:
            async with asyncio.timeout(limits.arrival), asyncio.timeout(limits.pause) as pause:
                body = await received(counted(), limits.body)
            yield body
        except TimeoutError:
            reason = (
                f"the body did not come within {limits.arrival:g} seconds, or nothing of it within {limits.pause:g}"
            )
            raise Refused(408, reason) from None
        except ClientDisconnect:
            raise Refused(400, "the sender went away") from None
        finally:
            self._bytes.give_back(tenant, held)


class _State:
    """What a load balancer asks, without a token."""

    def __init__(self, backlog: BacklogProbe, intake: Intake) -> None:
        self._backlog, self._intake = backlog, intake

    async def health(self, request: Request) -> Response:
        """Whether the process lives."""
        from starlette.responses import PlainTextResponse

        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Whether it takes requests now: the store answers, and there is room."""
        from starlette.responses import JSONResponse

        load = self._intake.load
        try:
            waits = await self._backlog.ask()
        except StoreTimeout as silence:
            return JSONResponse({"ready": False, "reason": str(silence)}, 503)
        except StoreError as error:
            return JSONResponse({"ready": False, "reason": type(error).__name__}, 503)
        state = {"ready": not self._intake.is_full, "traces_waiting": waits.traces, "load": round(load, 3)}
        return JSONResponse(state, 200 if state["ready"] else 503)


class _Metrics:
    """What Prometheus scrapes."""

    def __init__(self, meter: Meter, scrapers: Access, backlog: BacklogProbe) -> None:
        self._meter, self._scrapers, self._backlog = meter, scrapers, backlog

    async def show(self, request: Request) -> Response:
        """The exposition; without what waits, where the store does not say it."""
        from starlette.responses import Response

        try:
            tenant_of(self._scrapers, request.headers.getlist("authorization"), "--metrics-tokens")
        except Refused as refused:
            return http_answer(refused, JSON)
        try:
            waits = await self._backlog.ask()
        except (StoreTimeout, StoreError):
            waits = None
        text = await asyncio.to_thread(self._meter.exposition, waits)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _not_routed(request: Request, error: Exception) -> Response:
    """No such route, or no such method of it."""
    status = getattr(error, "status_code", 500)
    reason = f"there is no {request.method} {request.url.path} here; what is taken is sent to {_ROUTES} by POST"
    answer = http_answer(Refused(status, reason), _kind(request))
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


_YOUNG: Final = 1.0  # seconds in which what a connection has sent may not have been read yet


def connections(limits: ReceiverLimits) -> Any:
    """What uvicorn's setting `http` takes, for one server."""
    return partial(_Connection, _Idle(affordable(limits.idle)), limits.head)


class _Idle:
    """The connections of a server that wait for a request. Beyond `most` the one that has waited longest is closed, so
    that there is always one for who asks whether the receiver lives.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._longest_first: dict[_Connection, float] = {}  # since when, by a clock
        self._later: asyncio.TimerHandle | None = None

    def add(self, connection: _Connection) -> None:
        """It waits from now on."""
        self.discard(connection)
        self._longest_first[connection] = time.monotonic()
        self._trim(connection.loop)

    def discard(self, connection: _Connection) -> None:
        """It waits no longer."""
        self._longest_first.pop(connection, None)

    def _trim(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those that are young give way later; without it none would while no descriptor is left for a new one."""
        while len(self._longest_first) > self._most:
            longest, since = next(iter(self._longest_first.items()))
            if (young := since + _YOUNG - time.monotonic()) > 0:
                if self._later is None:
                    self._later = loop.call_later(young, self._trim_later, loop)
                return
            longest.end_idle()

    def _trim_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._later = None
        self._trim(loop)


class _Connection(H11Protocol):
    """patience: seconds in which a request's head must have come, from the beginning of its connection or from the
    answer before, and in which a sender must read on."""

    def __init__(self, idle: _Idle, patience: float, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle, self._patience = idle, patience
        self._head: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._idle.discard(self)
        for timer in (self._head, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the sender to read the answer where the connection is to be closed."""
        super().on_response_complete()
        self._wait()

    def pause_writing(self) -> None:
        """Give its sender a while to read."""
        super().pause_writing()
        self._reading = self.loop.call_later(self._patience, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def end_idle(self) -> None:
        """Close it, unless a request is under way."""
        self._idle.discard(self)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.abort()

    def _wait(self) -> None:
        if self._head is not None:
            self._head.cancel()
        self._head = self.loop.call_later(self._patience, self.end_idle)
        self._idle.add(self)
