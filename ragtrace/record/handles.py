"""What the host gets from `with ragtrace.retrieve(...) as run`: one method per stage, which takes its result."""

from __future__ import annotations

from typing import Any

from ragtrace.record.recording import Recording

__all__ = ["Generation", "Packing", "Reranking", "Retrieval"]


class _Handle:
    """Passes a result to its recording; without one it does nothing."""

    __slots__ = ("_recording",)

    def __init__(self, recording: Recording | None = None) -> None:
        self._recording = recording

    def _accept(self, value: Any) -> None:
        if self._recording is not None:
            self._recording.accept(value)


class Retrieval(_Handle):
    """A retriever call in a `with` block."""

    def candidates(self, hits: Any) -> None:
        """What the retriever returned, best first."""
        self._accept(hits)


class Reranking(_Handle):
    """A reranker call in a `with` block."""

    def candidates(self, hits: Any) -> None:
        """What the reranker returned, best first."""
        self._accept(hits)


class Packing(_Handle):
    """A packing in a `with` block."""

    def packed(self, chunks: Any) -> None:
        """The packed chunks in prompt order, or a mapping of `chunks`, `dropped`, `prompt`, or the prompt alone."""
        self._accept(chunks)


class Generation(_Handle):
    """A generator call in a `with` block."""

    def answer(self, answer: Any) -> None:
        """The answer, or the response that holds it."""
        self._accept(answer)
