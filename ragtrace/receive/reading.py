"""What a dialect reads out of one span: a stage's inputs and outputs as plain values, and what is said of the request.

Values stay as they came (lists of mappings, texts, messages): ragtrace.record.coercion reads them, as it reads what a
decorated function returns.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import msgspec

from ragtrace.receive.spans import ReceivedSpan
from ragtrace.types import DroppedChunk, Feedback, TokenUsage

__all__ = ["NOTHING", "Dialect", "Generated", "Judgement", "Packed", "Reading", "Reranked", "Retrieved", "Step"]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what is read."""


class Retrieved(_Part, frozen=True, kw_only=True):
    """A retriever's call. `found` is what `read_chunks` takes, None where the span does not say it or it cannot be
    read; an empty list says that nothing was found. `incomplete`: candidates are missing that it may have returned.

    `ranks`: those of what is left, where they are known; else they are counted from 1.
    """

    query: str | None = None
    found: Any = None
    ranks: tuple[int, ...] | None = None
    top_k: int | None = None
    incomplete: bool = False


class Reranked(_Part, frozen=True, kw_only=True):
    """A reranker's call. `given` and `kept` are None where the span does not say what went in or came out;
    `given_ids` are the ids of what went in, where the span names them all."""

    given: Any = None
    given_ids: tuple[str, ...] = ()
    kept: Any = None
    incomplete: bool = False


class Packed(_Part, frozen=True, kw_only=True):
    """A packing that a span states; most dialects have none, and the prompt shows it."""

    chunks: Any = ()
    dropped: tuple[DroppedChunk, ...] = ()
    budget: int | None = None


class Generated(_Part, frozen=True, kw_only=True):
    """A call of a language model. `prompt` is a text or a list of messages; `incomplete`: the span's limits took parts
    of them away."""

    prompt: Any = None
    answer: str | None = None
    model: str | None = None
    usage: TokenUsage | None = None
    finish_reason: str | None = None
    incomplete: bool = False


Step: TypeAlias = Retrieved | Reranked | Packed | Generated


class Judgement(_Part, frozen=True, kw_only=True):
    """A judgement of the answer that a span or an event carries."""

    source: str
    score: float | None = None
    label: str | None = None
    comment: str | None = None
    at: int = 0

    def feedback(self, request_id: str, ended_at: int) -> Feedback:
        """The judgement of this request; `ended_at` is when it was made where it does not say so itself."""
        return Feedback(
            request_id=request_id,
            score=self.score,
            label=self.label,
            source=self.source,
            comment=self.comment,
            created_at=self.at or ended_at,
        )


class Reading(_Part, frozen=True, kw_only=True):
    """All that one span says. `question` and `answer` count for the request when the span is its root, or the nearest
    below it that says so. `request_id`: the sender's own id of the request, which also says that the span is its root.
    `is_second_hand`: a record of the same request comes, or has come, by a channel that tells more. `error`: what the
    sender says of a failure elsewhere than in the span's status.
    """

    step: Step | None = None
    question: str | None = None
    answer: str | None = None
    request_id: str | None = None
    is_second_hand: bool = False
    error: str | None = None
    service: str | None = None
    session_id: str | None = None
    tenant_id: str | None = None
    segment: str | None = None
    query_class: str | None = None
    flags: tuple[str, ...] = ()
    head_sampled: bool | None = None
    head_probability: float | None = None
    versions: dict[str, str] = {}
    judgements: tuple[Judgement, ...] = ()


NOTHING = Reading()


class Dialect(Protocol):
    """A vocabulary of span attributes."""

    @property
    def name(self) -> str:
        """How it is called in reports."""
        ...

    def recognizes(self, span: ReceivedSpan) -> bool:
        """Whether the span speaks it. Cheap: it is asked for every span."""
        ...

    def read(self, span: ReceivedSpan) -> Reading:
        """What the span says. Values of the wrong type are passed over, never an error."""
        ...
