"""The prompt of a request for any subset of its documents or of its question's words, and the queries of its retrieval.

A prompt comes from the record's own template; without one, from RAG-E's: instructions, numbered documents, question.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from ragtrace.attribution import Span
from ragtrace.attribution.spans import split
from ragtrace.prompts import escaped, parsed, placeholder, rebuild
from ragtrace.types import PackedChunk, RequestRecord, RetrieveRun, replace as replaced

__all__ = ["INSTRUCTIONS", "SubsetPrompts", "Unexplained", "query_number", "retrieval_queries"]

INSTRUCTIONS: Final = "Answer the question with the help of the documents below."


class Unexplained(Exception):
    """A record does not hold what an explanation needs; the message says what."""


@dataclass(frozen=True, slots=True)
class SubsetPrompts:
    """The prompts of one request.

    Attributes:
        documents: ids of the chunks that stand in the prompt, each once, in prompt order.
        words: of the question, without punctuation marks.
        answer: what was answered.
        chunks: the packed chunks that stand in the prompt.
    """

    documents: tuple[str, ...]
    words: tuple[Span, ...]
    answer: str
    question: str
    chunks: tuple[PackedChunk, ...]
    _template: str | None
    _renumbered: bool

    @classmethod
    def of(cls, record: RequestRecord, *, renumbered: bool = True) -> Self:
        """Read them from a record.

        renumbered: whether documents of a subset count from 1; in a template where its counters are recognized.

        Raises: Unexplained when the answer or a chunk's text was not kept, or nothing was answered.
        """
        generation, packing = record.generation, record.packing
        if generation is None:
            raise Unexplained("no generation was recorded")
        if generation.answer is None:
            raise Unexplained("the answer's text was not kept; capture_content='full' keeps it")
        if not generation.answer.strip():
            raise Unexplained("the answer is empty")
        chunks = packing.chunks if packing is not None else ()
        template = generation.prompt_template
        marks = set(parsed(template)[1]) if template is not None else set()
        shown = tuple(chunk for chunk in chunks if placeholder(chunk.chunk_id) in marks)
        missing = marks - {placeholder(chunk.chunk_id) for chunk in shown}
        if missing:
            raise Unexplained(f"the prompt's template has {min(missing)}, which was not packed")
        if not shown:  # a prompt in which no chunk was found tells nothing about subsets
            template, shown = None, chunks
        hidden = [chunk.chunk_id for chunk in shown if chunk.text is None]
        if hidden:
            raise Unexplained(f"the text of chunk {hidden[0]!r} was not kept; capture_content='full' keeps it")
        question = record.query.original
        if template is None and not question.strip():
            raise Unexplained("neither the prompt's template nor the question was kept")
        return cls(
            documents=tuple(dict.fromkeys(chunk.chunk_id for chunk in shown)),
            words=tuple(word for word in split(question, "word") if any(map(str.isalnum, word.text))),
            answer=generation.answer,
            question=question,
            chunks=shown,
            _template=template,
            _renumbered=renumbered,
        )

    @property
    def template(self) -> str:
        """The prompt with placeholders for its chunks: the record's own, else RAG-E's."""
        if self._template is not None:
            return self._template
        marks = [f"[{number}] {placeholder(chunk.chunk_id)}\n" for number, chunk in enumerate(self.chunks, 1)]
        return f"{INSTRUCTIONS}\n\n{''.join(marks)}{escaped(_asked(self.question))}"

    @property
    def has_question(self) -> bool:
        """Whether the question stands in the prompt as it was asked."""
        return bool(self.words) and (self._template is None or escaped(self.question) in self._template)

    def of_documents(self, kept: Collection[str]) -> str:
        """The prompt with these documents alone."""
        if self._template is not None:
            return rebuild(self._template, self.chunks, keep=kept, renumber=self._renumbered)
        return self._plain(kept, self.question)

    def of_one(self, chunk_id: str, text: str) -> str:
        """The prompt with one document alone, also one that was not packed: it stands in the place of the first."""
        if chunk_id in self.documents:
            return self.of_documents((chunk_id,))
        first = self.chunks[0].chunk_id
        chunks = tuple(replaced(each, text=text) if each.chunk_id == first else each for each in self.chunks)
        return replace(self, chunks=chunks).of_documents((first,))

    def of_words(self, kept: Sequence[bool]) -> str:
        """The prompt with all documents, and with these words of the question alone."""
        question = self._question(kept)
        if self._template is None:
            return self._plain(self.documents, question)
        head, _, tail = self._template.rpartition(escaped(self.question))
        return rebuild(head + escaped(question) + tail, self.chunks)

    def _question(self, kept: Sequence[bool]) -> str:
        """The question without some words, each with the space before it; what surrounds the whole question stays."""
        parts, end = [], 0
        for word, stays in zip(self.words, kept, strict=True):
            between = self.question[end : word.start]
            parts.append(between + self.question[word.start : word.end] if stays else between.rstrip())
            end = word.end
        asked = self.question.strip()
        before, _, after = self.question.partition(asked)
        return before + ("".join(parts) + self.question[end:]).strip() + after

    def _plain(self, kept: Collection[str], question: str) -> str:
        shown = [(number, chunk) for number, chunk in enumerate(self.chunks, 1) if chunk.chunk_id in kept]
        if self._renumbered:
            shown = [(number, chunk) for number, (_, chunk) in enumerate(shown, 1)]
        listed = "".join(f"[{number}] {chunk.text}\n" for number, chunk in shown)
        return f"{INSTRUCTIONS}\n\n{listed}{_asked(question)}"


def _asked(question: str) -> str:
    return f"\nQuestion: {question}\nAnswer:"


def retrieval_queries(record: RequestRecord) -> tuple[str, ...]:
    """The distinct queries of the retrieve runs, in their order; where none was recorded, the rewritten or the original
    one."""
    runs = (run.query for run in record.stages if isinstance(run, RetrieveRun))
    asked = dict.fromkeys(query for query in runs if query and query.strip())
    return tuple(asked) or (record.query.rewritten or record.query.original,)


def query_number(record: RequestRecord, chunk_id: str) -> int:
    """Which of these queries found a chunk at its best rank, the first of equals; 0 where that is not known."""
    found = [
        (candidate.rank, run.query)
        for run in record.stages
        if isinstance(run, RetrieveRun)
        for candidate in run.candidates
        if candidate.chunk_id == chunk_id
    ]
    query = min(found, key=lambda each: each[0])[1] if found else None
    queries = retrieval_queries(record)
    return queries.index(query) if query in queries else 0
