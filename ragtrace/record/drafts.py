"""A request that has ended, before it is read: the background builds its record and ends its spans."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from ragtrace.types import Addendum, Item, StageRun

if TYPE_CHECKING:
    from ragtrace.record.requests import RequestRecording

__all__ = ["LateDraft", "Part", "RequestDraft"]

_BY_END: Final = attrgetter("ended_at")
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


class _Draft:
    """What ended in a request and waits for the background: whose it is, and whether it is kept."""

    __slots__ = ("_request", "is_read", "weight")

    def __init__(self, request: RequestRecording, weight: int) -> None:
        self._request = request
        self.is_read = False
        self.weight = _BASE + weight

    @property
    def is_kept(self) -> bool:
        """Whether the request is in the sample or flagged."""
        return self._request.head_sampled or bool(self._request.flags)

    @property
    def has_spans(self) -> bool:
        """Whether spans have to be ended."""
        return self._request.tracer is not None

    @property
    def known_id(self) -> str | None:
        """The request's id; None while nobody has asked for it, so that nobody can name it either."""
        return self._request.known_id


class RequestDraft(_Draft):
    """A request that has ended: its stages' values as they were taken, which the background reads."""

    __slots__ = ("_parts",)

    def __init__(self, request: RequestRecording, parts: list[Part]) -> None:
        texts = len(request.query or "") + len(request.rewritten or "")
        super().__init__(request, texts + request.weight + sum([part.weight for part in parts]))
        self._parts = parts

    def build(self, flags: Iterable[str] = ()) -> Item | None:
        """The record with further flags. Ends the spans, children first."""
        request = self._request
        request.flags.update(dict.fromkeys(flags))
        try:
            runs = [run for part in self._parts if (run := part.read()) is not None]
            runs.sort(key=_BY_END)  # threads may have added theirs in another order
            return request.result(tuple(runs))
        finally:
            self.discard()

    def discard(self) -> None:
        """End the spans, and let go of what was taken."""
        self.is_read = True
        for part in self._parts:
            part.end_span()
        self._request.end_span()
        self._parts.clear()


class LateDraft(_Draft):
    """A stage that ended after its request, in a thread or task: it follows as an addendum to the record."""

    __slots__ = ("_part",)

    def __init__(self, request: RequestRecording, part: Part) -> None:
        super().__init__(request, part.weight)
        self._part = part

    def build(self, flags: Iterable[str] = ()) -> Addendum | None:
        """The addendum, with further flags. Ends the span."""
        try:
            run = self._part.read()
            return None if run is None else self._request.addendum((run,), flags)
        finally:
            self.discard()

    def discard(self) -> None:
        """End the span."""
        self.is_read = True
        self._part.end_span()
