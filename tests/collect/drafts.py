"""Drafts of requests that were not recorded: what the sink may be given of them."""

from __future__ import annotations

from collections.abc import Iterable

from ragtrace.types import RequestRecord


class FakeDraft:
    """A request that has ended, outside the sample unless it is kept."""

    def __init__(
        self,
        request_id: str,
        *,
        known: bool = True,
        spans: bool = True,
        kept: bool = False,
        outlined: bool = True,
        weight: int = 1000,
    ) -> None:
        self.request_id = request_id
        self.known_id = request_id if known else None
        self.has_spans = spans
        self.is_outlined = outlined
        self.is_kept = kept
        self.is_read = False
        self.weight = weight
        self.built = self.discarded = self.ended = 0

    def build(self, flags: Iterable[str] = ()) -> RequestRecord:
        """The record, once; it needs an id."""
        self.known_id = self.request_id
        self.is_read = True
        self.built += 1
        assert (self.built, self.discarded) == (1, 0)
        return RequestRecord(request_id=self.request_id, service="svc", flags=tuple(flags), head_sampled=self.is_kept)

    def end_spans(self) -> None:
        """Count it; the id is drawn for the spans."""
        self.ended += 1
        if self.has_spans:
            self.known_id = self.request_id

    def discard(self) -> None:
        """Count it."""
        self.is_read = True
        self.discarded += 1
        assert (self.built, self.discarded) == (0, 1)
