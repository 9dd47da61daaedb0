"""OTLP over gRPC: the same as over HTTP, in gRPC's own words.

Source: https://opentelemetry.io/docs/specs/otlp/#otlpgrpc; UNAVAILABLE with RetryInfo asks a sender to come back.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragtrace.errors import ConfigurationError, MissingExtraError, RecordError, StoreError
from ragtrace.receive.otlp import split
from ragtrace.receive.server.access import Access
from ragtrace.receive.server.bodies import LATER, Refused, unavailable
from ragtrace.receive.server.intake import Intake
from ragtrace.store import SpanPart

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

__all__ = ["start"]

_RETRY: Final = "google.rpc.retryinfo-bin"


async def start(
    intake: Intake, access: Access, address: str, *, largest: int, certificate: Path | None, key: Path | None
) -> Any:
    """A server that takes spans on `HOST:PORT`, and the port.

    Raises: ConfigurationError, MissingExtraError, OSError.
    """
    try:
        import grpc
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
    except ImportError:
        raise MissingExtraError("grpcio", "serve") from None
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", largest), ("grpc.so_reuseport", 0)])
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    add(_Traces(intake, access), server)
    try:
        if certificate is not None and key is not None:
            pair = (key.read_bytes(), certificate.read_bytes())
            port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        else:
            port = server.add_insecure_port(address)
    except RuntimeError:
        raise ConfigurationError(f"cannot listen on {address} for gRPC; give another --grpc-port") from None
    await server.start()
    return server, port


class _Traces:
    """OTLP's service of traces."""

    def __init__(self, intake: Intake, access: Access) -> None:
        self._intake, self._access = intake, access

    async def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:
        """Take spans; the answer comes when they are committed."""
        from grpc import StatusCode

        sent = dict(context.invocation_metadata() or ())
        tenant = self._access.tenant(sent.get("authorization"))
        if tenant is None:
            await context.abort(StatusCode.UNAUTHENTICATED, "no token of a tenant; send `authorization: Bearer TOKEN`")
        try:
            found = await asyncio.to_thread(split, request)
        except RecordError as error:
            await context.abort(StatusCode.INVALID_ARGUMENT, str(error))
            raise
        parts = [SpanPart(tenant or "", each.trace_id, each.body, each.ended) for each in found.parts]
        try:
            if parts:
                await asyncio.wrap_future(self._intake.submit(parts))
        except Refused as refused:
            await _come_back(context, refused)
        except StoreError as error:
            await _come_back(context, unavailable(error))
        return found.answer


async def _come_back(context: Any, refused: Refused) -> None:
    from google.protobuf.duration_pb2 import Duration
    from google.rpc.error_details_pb2 import RetryInfo
    from grpc import StatusCode

    told = RetryInfo(retry_delay=Duration(seconds=refused.retry_after or LATER)).SerializeToString()
    await context.abort(StatusCode.UNAVAILABLE, refused.reason, trailing_metadata=((_RETRY, told),))
