"""Which terms of a question the retriever used, which the answer, and which both: Figure 1 of RAG-E.

A term is used where it adds at least a quarter of what the strongest term of the same side adds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragtrace.analyze.prompts import retrieval_queries
from ragtrace.explanations import RESOLUTION, Explanation, Offsets
from ragtrace.types import RequestRecord

__all__ = ["USED_BY", "QuestionTerm", "UsedBy", "question_terms"]

UsedBy: TypeAlias = Literal["both", "retriever", "generator", "neither"]
USED_BY: Final[Mapping[UsedBy, str]] = {
    "both": "both used it",
    "retriever": "only the retriever used it",
    "generator": "only the answer used it",
    "neither": "neither used it",
}
_LEAST: Final = 0.25  # of the strongest term of the same side
_TERM: Final = re.compile(r"\w+(?:[-'’.]\w+)*")


@dataclass(frozen=True, slots=True)
class QuestionTerm:
    """`question[start:end]`. retriever, generator: what it adds there, as a part of what the strongest term adds, at
    most 1."""

    start: int
    end: int
    text: str
    retriever: float
    generator: float
    used_by: UsedBy


def question_terms(record: RequestRecord, found: Explanation) -> tuple[QuestionTerm, ...]:
    """All terms of the question in their order; nothing where one of both sides is not explained.

    The retriever's side is the mean over the documents of the prompt (over all explained ones, where none of those is)
    of each term's Integrated Gradients; where the retriever was asked in other words, of the same term there. The
    answer's side is the term's Shapley value.
    """
    question, query = record.query.original, found.query
    if query is None or not question or not found.retriever:
        return ()
    spans = [term.span() for term in _TERM.finditer(question)]
    retriever = _part_of_largest(_retriever_weights(record, found, spans))
    generator = _part_of_largest([_within(span, query.query_spans, query.shares) for span in spans], RESOLUTION)
    return tuple(
        QuestionTerm(start, end, question[start:end], first, second, _used_by(first, second))
        for (start, end), first, second in zip(spans, retriever, generator, strict=True)
    )


def _retriever_weights(record: RequestRecord, found: Explanation, spans: Sequence[Offsets]) -> list[float]:
    question, queries = record.query.original, retrieval_queries(record)
    packing = record.packing
    packed = {chunk.chunk_id for chunk in packing.chunks} if packing else set()
    reasons = [why for why in found.retriever if why.chunk_id in packed] or list(found.retriever)
    totals = [0.0] * len(spans)
    for why in reasons:
        asked = queries[why.query_number] if why.query_number < len(queries) else question
        places = _places(question, asked, spans)
        for number, place in enumerate(places):
            if place is not None:
                totals[number] += _within(place, why.query.spans, why.query.weights) / len(reasons)
    return totals


def _places(question: str, asked: str, spans: Sequence[Offsets]) -> list[Offsets | None]:
    """Where each term stands in what the retriever was asked; None where it does not."""
    if asked == question:
        return list(spans)
    known: dict[str, Offsets] = {}
    for term in _TERM.finditer(asked):
        known.setdefault(term[0].casefold(), term.span())
    return [known.get(question[start:end].casefold()) for start, end in spans]


def _within(span: Offsets, spans: Sequence[Offsets], weights: Sequence[float]) -> float:
    """The sum of the weights of the tokens that begin in a term; a token may begin with the space before it."""
    start, end = span
    pairs = zip(spans, weights, strict=False)
    return sum(weight for (first, last), weight in pairs if last > first and first < end and last > start)


def _part_of_largest(weights: Sequence[float], least: float = 0.0) -> list[float]:
    largest = max(weights, default=0.0)
    return [weight / largest if largest > least else 0.0 for weight in weights]


def _used_by(retriever: float, generator: float) -> UsedBy:
    is_first, is_second = retriever >= _LEAST, generator >= _LEAST
    if is_first and is_second:
        return "both"
    return "retriever" if is_first else "generator" if is_second else "neither"
