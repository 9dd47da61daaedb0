"""The cost of an explanation, counted before any server is asked: answers, scored prompts, vectors, tokens."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import ceil
from typing import Final

from ragtrace.analyze._retriever_attribution import retrieved_documents, words_of
from ragtrace.analyze.attribution import DOCUMENTS, Part
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained, query_number, retrieval_queries
from ragtrace.attribution.game import MAX_PLAYERS
from ragtrace.attribution.shapley import default_budget
from ragtrace.engines.model_agnostic import prompt_sentences
from ragtrace.types import RequestRecord

__all__ = ["ExplanationCost", "explanation_cost"]

_CHARACTERS: Final = 4  # of a token, as a guess


@dataclass(frozen=True, slots=True)
class ExplanationCost:
    """What is asked for at most.

    Attributes:
        answers: that a model gives of which nothing else is known.
        prompts: that a server scores behind the stored answer.
        vectors: texts that a server of embeddings reads.
        tokens: of all that is sent, a guess by the characters.
    """

    answers: int = 0
    prompts: int = 0
    vectors: int = 0
    tokens: int = 0

    def __str__(self) -> str:
        parts = [
            f"{count:,} {name}"
            for count, name in ((self.answers, "answers"), (self.prompts, "scored prompts"), (self.vectors, "vectors"))
            if count
        ]
        return f"{' and '.join(parts)}, about {self.tokens:,} tokens to read" if parts else "nothing"


def explanation_cost(
    record: RequestRecord,
    *,
    closed: bool = False,
    scored: bool = False,
    embedded: bool = False,
    parts: Collection[Part] = ("generator", "retriever"),
    sentences: bool = False,
    similarity: str = "",
    budget: int | None = None,
    documents: int = DOCUMENTS,
) -> ExplanationCost:
    """Count what `explain_record` would ask for, reading nothing but the record.

    closed: a generator gives answers alone. scored: it is behind a server that gives log-probabilities. embedded: the
    retriever is behind a server. budget, sentences, similarity, documents: as for `explain_record`. What cannot be
    explained costs nothing; estimates that end early, and prompts that are alike, cost less.
    """
    answers = prompts = characters = 0
    if (closed or scored) and {"generator", "query", "utility"} & set(parts):
        answers, prompts, characters = _of_answer(record, closed, parts, sentences, budget)
    compared = answers + 2 * (1 + sentences) if embedded and similarity == "cosine" and answers else 0
    vectors, read = _embedded(record, documents) if embedded and "retriever" in parts else (0, 0)
    return ExplanationCost(answers, prompts, vectors + compared, ceil((characters + read) / _CHARACTERS))


def _of_answer(
    record: RequestRecord, closed: bool, parts: Collection[Part], sentences: bool, budget: int | None
) -> tuple[int, int, int]:
    """Answers, scored prompts, and their characters."""
    try:
        found = SubsetPrompts.of(record)
    except Unexplained:
        return 0, 0, 0
    full, k = len(found.of_documents(found.documents)), len(found.documents)
    if closed:
        asked = k + 1 if k and "generator" in parts else 0
        if asked and sentences:
            asked += len(prompt_sentences(found.template, found.chunks, found.question))
        return asked, 0, asked * full
    alone = len(record.candidates) + 1 if "utility" in parts and record.candidates else 0
    players = [k] if "generator" in parts and k <= MAX_PLAYERS else []
    players += [min(len(found.words), MAX_PLAYERS)] if "query" in parts and found.has_question else []
    budgets = [min(default_budget(each) if budget is None else budget, 1 << each) for each in players if each]
    prompts = sum(budgets) + alone
    return 0, prompts, prompts * (full + len(found.answer))


def _embedded(record: RequestRecord, documents: int) -> tuple[int, int]:
    """The distinct texts whose vectors are asked for, and their characters; none of them is made."""
    queries = retrieval_queries(record)
    chunks = record.packing.chunks if record.packing is not None else ()
    kept = retrieved_documents(record, tuple(dict.fromkeys(chunk.chunk_id for chunk in chunks)))[:documents]
    asked = [queries[query_number(record, chunk_id)] for chunk_id, _ in kept]
    vectors = characters = 0
    for text in dict.fromkeys([*asked, *(text for _, text in kept)]):
        words = [word.text for word in words_of(text)]
        vectors += 1 + len(words)
        characters += len(text) * (1 + len(words)) - sum(map(len, words))
    return vectors, characters
