"""OTLP over gRPC: the same as over HTTP, in gRPC's own words.

A message is read only when its sender is known and there is room for it, and decoded beside the event loop.
Source: https://opentelemetry.io/docs/specs/otlp/#otlpgrpc; UNAVAILABLE with RetryInfo asks a sender to come back.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.receive._bodies import LATER, PROTOBUF, SIGNALS, Refused, Signal, retry_info, rpc_status
from ragtrace.receive._ingest import Ingestor, IngestRequest, Places
from ragtrace.receive._limits import affordable

__all__ = ["methods", "start"]

_STATUS: Final = "grpc-status-details-bin"
_RETRY: Final = "google.rpc.retryinfo-bin"  # where OpenTelemetry's exporter for Python looks for it
_SOON: Final = 1  # seconds


async def start(ingestor: Ingestor, address: str, *, certificate: Path | None, key: Path | None) -> Any:
    """A server that takes all signals on `HOST:PORT`, and the port.

    Raises: ConfigurationError, MissingExtraError, OSError.
    """
    try:
        import grpc
    except ImportError:
        raise MissingExtraError("grpcio", "serve") from None
    limits = ingestor.limits
    bounds = {
        "max_receive_message_length": min(limits.body, limits.inflated),
        "max_concurrent_streams": limits.streams,
        "server_handshake_timeout_ms": round(limits.handshake * 1_000),
        "max_connection_idle_ms": round(limits.silence * 1_000),
        "max_allowed_incoming_connections": affordable(limits.connections),
        "so_reuseport": 0,
    }
    server = grpc.aio.server(options=[(f"grpc.{name}", bound) for name, bound in bounds.items()])
    for path, take in methods(ingestor).items():
        service, name = path[1:].split("/")
        # as a stream: else the message is received, whoever sends it, before we are asked
        method = {name: grpc.stream_unary_rpc_method_handler(take)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, method),))
    try:
        if certificate is not None and key is not None:
            pair = (key.read_bytes(), certificate.read_bytes())
            port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        else:
            port = server.add_insecure_port(address)
    except RuntimeError:
        reason = "it is in use, or may not be used"
        raise ConfigurationError(f"cannot listen on {address} for gRPC: {reason}; give another --grpc-port") from None
    await server.start()
    return server, port


def methods(ingestor: Ingestor) -> dict[str, Callable[[Any, Any], Awaitable[bytes]]]:
    """All that can be called, by path."""
    calls = _Calls(ingestor)
    return {f"/{signal.service}/Export": calls.method(signal) for signal in SIGNALS}


class _Calls:
    """Takes what is exported."""

    def __init__(self, ingestor: Ingestor) -> None:
        self._ingestor, self._limits = ingestor, ingestor.limits
        self._calls = Places(self._limits.requests, "calls are under way")
        self._reading = asyncio.Semaphore(self._limits.bodies.total)
        self._of_tenant = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(self._limits.bodies.tenant))
        self._of_tenant[""] = self._reading  # without tokens all are one's

    def method(self, signal: Signal) -> Callable[[Any, Any], Awaitable[bytes]]:
        """`Export` of this signal: the answer comes when all is committed."""

        async def export(messages: Any, context: Any) -> bytes:
            try:
                with self._ingestor.request("grpc", signal) as one:
                    return await self._take(one, context)
            except Refused as refused:
                await _abort(context, refused)
                raise

        return export

    async def _take(self, one: IngestRequest, context: Any) -> bytes:
        """The answer. Raises: Refused, StoreError."""
        sent = [value for name, value in context.invocation_metadata() or () if name == "authorization"]
        tenant = one.authorize(sent)
        with self._calls.one(tenant):
            async with AsyncExitStack() as place:
                await place.enter_async_context(self._place(tenant))
                message = await _message(context, self._limits.pause)
                if len(message) > self._limits.large_size:
                    await place.aclose()  # it waits for others of its kind
                taken = await one.read(message, PROTOBUF)
            return (await one.commit(taken)).encoded(PROTOBUF)

    @asynccontextmanager
    async def _place(self, tenant: str) -> AsyncIterator[None]:
        """One of the tenant's places for messages. Raises: Refused (503) when none becomes free in time."""
        async with AsyncExitStack() as places:
            try:
                async with asyncio.timeout(LATER):
                    for each in dict.fromkeys((self._of_tenant[tenant], self._reading)):
                        await places.enter_async_context(each)
            except TimeoutError:
                raise Refused(503, "too many messages are being received; come back later", _SOON) from None
            yield


async def _message(context: Any, seconds: float) -> bytes:
    """The call's message. Raises: Refused."""
    try:
        async with asyncio.timeout(seconds):
            message = await context.read()
    except TimeoutError:
        raise Refused(408, f"the message did not come within {seconds:g} seconds") from None
    if not isinstance(message, bytes):
        raise Refused(400, "the call has no message, or one that cannot be read")
    return message


async def _abort(context: Any, refused: Refused) -> None:
    from grpc import StatusCode

    codes = {
        401: StatusCode.UNAUTHENTICATED,
        408: StatusCode.DEADLINE_EXCEEDED,
        413: StatusCode.RESOURCE_EXHAUSTED,  # without RetryInfo: the sender drops it
        500: StatusCode.INTERNAL,
        503: StatusCode.UNAVAILABLE,
    }
    code = codes.get(refused.status, StatusCode.INVALID_ARGUMENT)
    trailing: list[tuple[str, bytes]] = [(_STATUS, rpc_status(refused, code.value[0]))]
    if (told := retry_info(refused)) is not None:
        trailing.append((_RETRY, told.SerializeToString()))
    await context.abort(code, refused.reason, tuple(trailing))
