"""A request that starts inside of another one, and is a part of it."""

from __future__ import annotations

from typing import Any

from opentelemetry.context import get_current

from ragtrace.record.recorder import Recorder
from ragtrace.record.recording import Recording
from ragtrace.record.requests import RequestRecording
from ragtrace.record.spans import Attributes

__all__ = ["JoinedRecording"]


class JoinedRecording(Recording):
    """A request inside a request: a span of its own, and its settings added to the one record of the outer request."""

    operation = "request"
    weight = 0

    def __init__(self, recorder: Recorder, name: str, outer: RequestRecording) -> None:
        super().__init__(recorder, name)
        self.started_at = outer.started_at + self.clock - outer.clock
        self.outer = outer
        if outer.tracer is not None:
            self.start_span(outer.tracer, f"request {name}", get_current())

    def take(self, value: Any) -> None:
        """What a request returns is the host's own."""

    def close(self) -> None:
        """Only the outer request is handed over."""
        if self.span is not None:
            self.outer.add(self)

    def read(self) -> None:
        """It leaves no run."""

    def described(self) -> Attributes:
        """The request that it is a part of."""
        outer = self.outer
        return self.recorder.descriptions.part(outer.request_id, outer.session_id, self.span)
