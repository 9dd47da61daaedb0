"""How a sender is told that it was refused: as a google.rpc.Status, which OTLP asks for over HTTP and over gRPC.

Source: https://opentelemetry.io/docs/specs/otlp/#failures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ragtrace.receive.server.bodies import LATER, Refused
from ragtrace.receive.server.signals import PROTOBUF

if TYPE_CHECKING:
    from starlette.responses import Response

__all__ = ["http_answer", "retry_info", "rpc_status"]

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
