"""Session and tenant in OpenTelemetry baggage, on request only: an instrumented client sends it to every service.

What is not asked for travels nowhere: the context holds the request under a private key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry import baggage

if TYPE_CHECKING:
    from ragtrace.record.requests import RequestRecording

__all__ = ["ENTRIES", "put_baggage", "take_baggage"]

ENTRIES: Final = {"session_id": "session.id", "tenant_id": "tenant.id"}


def take_baggage(request: RequestRecording) -> None:
    """Set what the incoming baggage says; what the host gives itself replaces it."""
    for name in request.recorder.config.baggage:
        found = baggage.get_baggage(ENTRIES[name], request.context)
        if isinstance(found, str) and found:
            setattr(request, name, found)


def put_baggage(request: RequestRecording) -> None:
    """Add what is known at the request's start to the baggage of the context in which it runs."""
    for name in request.recorder.config.baggage:
        known = getattr(request, name)
        if known is not None:
            request.context = baggage.set_baggage(ENTRIES[name], known, request.context)
