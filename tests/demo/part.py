"""A part of the demo that is asked and embedded in seconds: one product's wordings of two countries."""

from __future__ import annotations

from typing import Final

from ragtrace.demo._corpus import DocumentSection, Question, load_corpus, load_questions

__all__ = ["part"]

_CODE: Final = "motor"
_SOURCES: Final = ("wordings-ie", "wordings-gb")


def part() -> tuple[list[Question], list[DocumentSection]]:
    """The questions about the product in these countries, and all of its chunks there."""
    chunks = [chunk for chunk in load_corpus().chunks if chunk.document.code == _CODE and chunk.source in _SOURCES]
    kept = {chunk.chunk_id for chunk in chunks}
    return [question for question in load_questions() if set(question.chunk_ids) <= kept], chunks
