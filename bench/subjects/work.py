"""The work of one fake request, and what is measured around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, TypeAlias

__all__ = ["ANSWER", "QUESTION", "Hits", "Subject", "Work"]

Hits: TypeAlias = list[dict[str, Any]]

TEXTS, LENGTH, RERANKED, PACKED = 1000, 600, 12, 8  # chunks in the host's index, characters of one; kept by stage
QUESTION: Final = "When does the policy end that was signed in Spain in 2024?"
ANSWER: Final = ("It ends with the year in which it was signed, unless it was renewed in writing. " * 10)[:800]


class Work:
    """The host's stages, and an index of texts from which each request has other hits."""

    def __init__(self, candidates: int, questions: int = 26) -> None:
        """`questions`: how many requests have hits of their own before all come again."""
        self.candidates = candidates
        self._texts = [f"chunk {number}: " + f"{number} words of a policy, " * 40 for number in range(TEXTS)]
        self._texts = [text[:LENGTH] for text in self._texts]
        self._starts = cycle([(TEXTS - candidates) * number // questions for number in range(questions)])

    def hits(self) -> Hits:
        """What the index finds: new objects, as a client library makes them, over the index's own texts."""
        start = next(self._starts)
        return [
            {"id": f"chunk-{at}", "text": self._texts[at], "score": 1 / (at - start + 1)}
            for at in range(start, start + self.candidates)
        ]

    @staticmethod
    def search(query: str, hits: Hits) -> Hits:
        """A retriever."""
        return hits

    @staticmethod
    def rerank(query: str, hits: Hits) -> Hits:
        """A reranker."""
        return hits[:RERANKED]

    @staticmethod
    def pack(hits: Hits) -> Hits:
        """A packer."""
        return hits[:PACKED]

    @staticmethod
    def generate(prompt: str) -> str:
        """A generator."""
        return ANSWER


@dataclass
class Subject:
    """One way of recording.

    `run` is one request; `begin` puts the tool in use before a block; `flush` waits for its background; `kept` says
    how many candidates of the last request arrived with their ids.
    """

    name: str
    run: Callable[[Hits], object]
    kept: Callable[[], int] = lambda: 0
    begin: Callable[[], object] = lambda: None
    flush: Callable[[], object] = lambda: None
    close: Callable[[], object] = lambda: None
