"""Packing: which chunks enter the prompt, in which order, within a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ragtrace.demo.retrieval import Hit

if TYPE_CHECKING:
    from ragtrace.engines.encoder import Encoder

__all__ = ["BudgetPacker", "Context", "DroppedHit", "PackedHit", "Packer"]

BUDGET: Final = 640
LIMIT: Final = 8
SMALLEST_CUT: Final = 40  # a chunk is not cut shorter than this many tokens, but left out


@dataclass(frozen=True, slots=True)
class PackedHit:
    """One chunk as it stands in the prompt."""

    chunk_id: str
    text: str
    tokens: int
    tokens_full: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class DroppedHit:
    """One chunk that was left out, and why."""

    chunk_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """The evidence of one prompt."""

    chunks: list[PackedHit]
    dropped: list[DroppedHit]
    budget_tokens: int


class Packer(Protocol):
    """Chooses what enters the prompt."""

    version: str

    def pack(self, hits: Sequence[Hit]) -> Context:
        """Fill the budget from `hits`, best first."""
        ...


class BudgetPacker:
    """Takes chunks in rank order until the token budget or the limit is reached.

    A chunk whose body is already in the prompt is a duplicate; one that no longer fits is cut behind its last whole
    sentence, or dropped where too little of it would remain.
    """

    def __init__(
        self, encoder: Encoder, *, budget: int = BUDGET, limit: int = LIMIT, version: str = "budget-2.0"
    ) -> None:
        self.version = version
        self._encoder = encoder
        self._budget = budget
        self._limit = limit
        self._counts: dict[str, int] = {}

    def pack(self, hits: Sequence[Hit]) -> Context:
        """Fill the budget from `hits`, best first."""
        context = Context([], [], self._budget)
        bodies: set[str] = set()
        left = self._budget
        for hit in hits:
            body = hit.text.partition("\n")[2]
            packed = None if body in bodies or len(context.chunks) == self._limit else self._fit(hit, left)
            if packed is None:
                context.dropped.append(DroppedHit(hit.chunk_id, self._reason(body in bodies, context)))
                continue
            bodies.add(body)
            left -= packed.tokens
            context.chunks.append(packed)
        return context

    def _fit(self, hit: Hit, left: int) -> PackedHit | None:
        tokens = self._count(hit.text)
        if tokens <= left:
            return PackedHit(hit.chunk_id, hit.text, tokens, tokens)
        if left < SMALLEST_CUT:
            return None
        text = _whole_sentences(self._encoder.truncate(hit.text, left))
        cut = self._count(text)
        return PackedHit(hit.chunk_id, text, cut, tokens, truncated=True) if cut >= SMALLEST_CUT else None

    def _reason(self, duplicate: bool, context: Context) -> str:
        if duplicate:
            return "duplicate"
        return "limit" if len(context.chunks) == self._limit else "budget"

    def _count(self, text: str) -> int:
        if text not in self._counts:
            self._counts[text] = self._encoder.count_tokens(text)
        return self._counts[text]


def _whole_sentences(text: str) -> str:
    return text[: text.rfind(". ") + 1] or text[: text.rfind(".") + 1]
