"""The demo's question answering pipeline, decorated the way a user of ragtrace would decorate one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import ragtrace
from ragtrace.demo._generation import PROMPT_HASH, Context, DemoAnswer, Generator, Packer
from ragtrace.demo._retrieval import Hit, Reranker, Retriever, Rewriter
from ragtrace.types import Facet

__all__ = ["AnsweredQuestion", "Components", "PolicyAssistant"]

TOP_K = 50


@dataclass(frozen=True, slots=True)
class Components:
    """The replaceable parts of the pipeline, each with its version."""

    rewriter: Rewriter
    retriever: Retriever
    reranker: Reranker
    packer: Packer
    generator: Generator

    @property
    def versions(self) -> dict[str, str]:
        """What is running, by component."""
        return {
            "rewriter": self.rewriter.version,
            "retriever": self.retriever.version,
            "embedding": self.retriever.encoder.name,
            "index": self.retriever.index.version,
            "reranker": self.reranker.version,
            "packer": self.packer.version,
            "model": self.generator.version,
            "prompt_hash": PROMPT_HASH,
        }

    def changed(self, **parts: object) -> Components:
        """The same pipeline with some parts replaced."""
        return replace(self, **parts)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """What one question went through, for the demo's own bookkeeping."""

    request_id: str
    hits: list[Hit]
    context: Context
    answer: DemoAnswer


class PolicyAssistant:
    """Answers questions about policy wordings: rewrite, retrieve, rerank, pack, generate."""

    def __init__(self, components: Components) -> None:
        self.components = components

    @ragtrace.request(query="question", query_class="query_class", facets="facets")
    def ask(self, question: str, *, query_class: str | None = None, facets: Sequence[Facet] = ()) -> AnsweredQuestion:
        """Answer one question."""
        request = ragtrace.current_request()
        request.set(versions=self.components.versions)
        hits = self.retrieve(self.components.rewriter.rewrite(question))
        context = self.pack(self.rerank(question, hits))
        return AnsweredQuestion(request.request_id, hits, context, self.generate(question, context))

    @ragtrace.retrieve(query="query", top_k="top_k")
    def retrieve(self, query: str, top_k: int = TOP_K) -> list[Hit]:
        """The candidates."""
        return self.components.retriever.search(query, top_k)

    @ragtrace.rerank(candidates="hits")
    def rerank(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        """The candidates in a better order."""
        return self.components.reranker.rerank(question, hits)

    @ragtrace.pack
    def pack(self, hits: Sequence[Hit]) -> Context:
        """What fits into the prompt."""
        return self.components.packer.pack(hits)

    @ragtrace.generate
    def generate(self, question: str, context: Context) -> DemoAnswer:
        """The answer."""
        return self.components.generator.generate(question, context)
