"""Query rewriting: what of a question is given to the retriever."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Rewriter", "VerbatimRewriter"]


class Rewriter(Protocol):
    """Turns a question into a retrieval query."""

    version: str

    def rewrite(self, question: str) -> str:
        """The query for `question`."""
        ...


class VerbatimRewriter:
    """Gives the retriever the question as it was asked."""

    version = "verbatim-1.0"

    def rewrite(self, question: str) -> str:
        """The question itself."""
        return question
