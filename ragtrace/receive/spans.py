"""A span as it arrived, whatever it arrived in: plain Python values, nothing of a wire format."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ragtrace.config import SWITCH
from ragtrace.record import conventions as names

__all__ = ["Attributes", "ReceivedSpan", "SpanEvent", "Status"]

Attributes: TypeAlias = dict[str, Any]
Status: TypeAlias = Literal["unset", "ok", "error"]


class SpanEvent(msgspec.Struct, frozen=True, gc=False):
    """An event on a span; `at` in nanoseconds since the epoch."""

    name: str
    at: int
    attributes: Attributes


class ReceivedSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One span. Ids are lower-case hex, times are nanoseconds since the epoch.

    `dropped` and `dropped_events` count the attributes and the events that the sender's limits took away: what is
    missing then is not known to be absent.
    """

    trace_id: str
    span_id: str
    name: str
    parent_id: str | None = None
    started_at: int = 0
    ended_at: int = 0
    attributes: Attributes = {}
    events: tuple[SpanEvent, ...] = ()
    status: Status = "unset"
    message: str = ""
    scope: str = ""
    resource: Attributes = {}
    dropped: int = 0
    dropped_events: int = 0

    @property
    def service(self) -> str:
        """The service's name by OpenTelemetry's resource conventions."""
        return str(self.resource.get("service.name") or "unknown_service")

    @property
    def cites(self) -> bool | None:
        """Whether answers are meant to cite their sources, as the span or else its resource says; None where neither
        does."""
        said = self.attributes.get(names.CITES, self.resource.get(names.CITES))
        return SWITCH.get(str(said).strip().lower())
