"""The demo's four scenarios over the wordings of one product, as functions that `ragtrace replay` can be given."""

from __future__ import annotations

from functools import cache

from ragtrace.demo._assistant import Components, PolicyAssistant
from ragtrace.demo._corpus import DocumentSection, Question, load_corpus, load_questions
from ragtrace.demo.pipelines import ask, assistant, components

CODE = "home"


def part() -> tuple[tuple[Question, ...], tuple[DocumentSection, ...]]:
    """The product's questions and chunks."""
    chunks = tuple(chunk for chunk in load_corpus().chunks if chunk.document.code == CODE)
    kept = {chunk.chunk_id for chunk in chunks}
    return tuple(question for question in load_questions() if set(question.chunk_ids) <= kept), chunks


@cache
def parts() -> Components:
    """The healthy pipeline over the product's chunks."""
    return components(part()[1])


@cache
def _application(scenario: str) -> PolicyAssistant:
    return assistant(scenario, parts())


def healthy(question: str) -> str:
    """The application as it should be."""
    return ask(question, _application("healthy"))


def recall(question: str) -> str:
    """After a bad release of index and rewriter."""
    return ask(question, _application("recall"))


def selection(question: str) -> str:
    """After a bad release of reranker and packer."""
    return ask(question, _application("selection"))


def grounding(question: str) -> str:
    """After a bad release of the model."""
    return ask(question, _application("grounding"))
