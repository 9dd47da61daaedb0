"""A request that has ended, before it is read: the background builds its record and ends its spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ragtrace.types import RequestRecord, StageRun

if TYPE_CHECKING:
    from ragtrace.record.requests import RequestRecording

__all__ = ["Part", "RequestDraft"]

_BASE: Final = 2000  # bytes of a request without what its stages took, roughly


class Part(Protocol):
    """A stage, or a request inside the request, that has ended."""

    @property
    def weight(self) -> int:
        """Roughly how many bytes it holds."""

    def read(self) -> StageRun | None:
        """Its run in the record."""

    def end_span(self) -> None:
        """End its span."""


class RequestDraft:
    """A request that has ended: its stages' values as they were taken, which the background reads."""

    __slots__ = ("_parts", "_request", "weight")

    def __init__(self, request: RequestRecording, parts: list[Part]) -> None:
        self._request = request
        self._parts = parts
        self.weight = _BASE + sum([part.weight for part in parts])

    def build(self) -> RequestRecord | None:
        """The record; None for one that is neither in the sample nor flagged. Ends the spans, children first."""
        request = self._request
        is_kept = request.head_sampled or bool(request.flags)
        try:
            runs = [part.read() for part in self._parts] if is_kept else []
            return request.record(tuple([run for run in runs if run is not None])) if is_kept else None
        finally:
            self.discard()

    def discard(self) -> None:
        """End the spans, and let go of what was taken."""
        self._request.is_read = True
        for part in self._parts:
            part.end_span()
        self._parts.clear()
        self._request.end_span()
