"""The demo's scenarios as functions that take a question, for `ragtrace replay`: `ragtrace.demo.pipelines:NAME`.

Each answers like the demo's application in that state: after a bad release, or, as `healthy`, before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

import ragtrace
from ragtrace.demo._assistant import TOP_K, Components, PolicyAssistant
from ragtrace.demo._corpus import DocumentSection, Question, load_corpus, load_questions
from ragtrace.demo._faults import find_scenario
from ragtrace.demo._retrieval import Hit, kept_embeddings
from ragtrace.demo.runner import SERVICE, build_components, tracer_provider

__all__ = [
    "answer_from",
    "ask",
    "assistant",
    "candidates",
    "components",
    "grounding",
    "healthy",
    "recall",
    "selection",
    "write_questions",
]

_ID: Final = "q{:03}"


def healthy(question: str) -> str:
    """The application as it should be."""
    return ask(question, _whole("healthy"))


def recall(question: str) -> str:
    """With an index that was rebuilt without a source, and a rewriter that drops dates."""
    return ask(question, _whole("recall"))


def selection(question: str) -> str:
    """With a reranker that sinks exceptions, and a packer that prefers summaries."""
    return ask(question, _whole("selection"))


def grounding(question: str) -> str:
    """With a generator that alters figures, dates and negations."""
    return ask(question, _whole("grounding"))


def candidates(question: str) -> list[Hit]:
    """What the healthy application finds and reranks, for `ragtrace exposure experiment`; nothing is recorded."""
    known = _components()
    return known.reranker.rerank(question, known.retriever.search(known.rewriter.rewrite(question), TOP_K))


def answer_from(question: str, hits: Sequence[Hit]) -> str:
    """What the healthy application answers from these hits, in this order; nothing is recorded."""
    known = _components()
    return known.generator.generate(question, known.packer.pack(hits)).answer


def components(chunks: Sequence[DocumentSection]) -> Components:
    """The healthy pipeline over `chunks`, whose embeddings are kept on disk. Raises: ModelError, MissingExtraError."""
    return build_components(chunks, embed=kept_embeddings)


def assistant(scenario: str, healthy: Components) -> PolicyAssistant:
    """The application in one scenario; its requests are recorded from now on.

    Raises: ConfigurationError for an unknown scenario.
    """
    found = find_scenario(scenario)
    ragtrace.configure(service=SERVICE, build="host", capture_content="full", tracer_provider=tracer_provider())
    return PolicyAssistant(found.inject(healthy))


def ask(question: str, application: PolicyAssistant) -> str:
    """The answer. Of a question of the demo the application knows the class and the facets, as in the demo."""
    known = _known().get(question)
    if known is None:
        return application.ask(question).answer.answer
    return application.ask(question, query_class=known.query_class, facets=known.facets).answer.answer


def write_questions(file: Path, questions: Iterable[Question] | None = None) -> int:
    """Write the demo's questions with their classes and their oracle evidence as JSON lines. Returns how many.

    Raises: OSError.
    """
    asked = load_questions() if questions is None else tuple(questions)
    file.write_bytes(b"".join(msgspec.json.encode(_plain(_ID.format(n), each)) + b"\n" for n, each in enumerate(asked)))
    return len(asked)


def _plain(name: str, question: Question) -> dict[str, Any]:
    return {
        "id": name,
        "question": question.text,
        "segment": question.query_class,
        "gold": question.chunk_ids,
        "answer": question.answer,
        "facets": question.facets,
    }


@cache
def _components() -> Components:
    return components(load_corpus().chunks)


@cache
def _whole(scenario: str) -> PolicyAssistant:
    return assistant(scenario, _components())


@cache
def _known() -> dict[str, Question]:
    return {question.text: question for question in load_questions()}
