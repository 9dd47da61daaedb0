"""Attribution for a closed model: leave documents or sentences out, generate again, and compare the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution import Span, leave_one_out
from ragtrace.attribution.leave_one_out import SIMILARITIES, cosine, distances
from ragtrace.attribution.spans import split
from ragtrace.errors import AttributionError
from ragtrace.explanations import GeneratorAttribution
from ragtrace.prompts import GivenChunk, parsed, placeholder, rebuild

if TYPE_CHECKING:
    from ragtrace.engines.causal_lm import Generated

__all__ = ["SentenceWeight", "SimilarityGame", "leave_documents_out", "leave_sentences_out", "standing"]


class Generating(Protocol):
    """A model that answers many prompts, such as `HttpLM`."""

    @property
    def name(self) -> str:
        """The model's name."""

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> Sequence[Generated]:
        """One answer for each prompt."""


class Encoding(Protocol):
    """A text encoder, such as `Encoder`."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """`(n, dimension)`."""


@dataclass(frozen=True, slots=True)
class SentenceWeight:
    """`text[start:end]` of the chunk is the sentence; weight in [0, 1]."""

    chunk_id: str
    start: int
    end: int
    text: str
    weight: float


class SimilarityGame:
    """`(n, k)` coalitions of documents to `(n, 1)`: how similar the answer given with them is to the one to explain.

    A `Game` for `shapley_values`, and what `leave_documents_out` asks.

    Args:
        model: generates the answers.
        template, chunks: of the record, as for `ragtrace.prompts.rebuild`; players are the chunk ids, in prompt order.
        answer: the one to explain; None: the model's own to the full prompt.
        similarity: of two texts, a name of `leave_one_out` or a function. encoder: compares by the cosine of its
            vectors instead.

    Raises: AttributionError for an unknown similarity, ValueError for a template without its chunks' texts.
    """

    def __init__(
        self,
        model: Generating,
        template: str,
        chunks: Sequence[GivenChunk],
        *,
        answer: str | None = None,
        similarity: str | Callable[[str, str], float] = "ngram-jaccard",
        encoder: Encoding | None = None,
        max_new_tokens: int = 96,
    ) -> None:
        self.model = model
        self.chunk_ids = tuple(dict.fromkeys(chunk.chunk_id for chunk in chunks))
        self.prompt = rebuild(template, chunks)
        self.answer = answer
        self._template = template
        self._chunks = list(chunks)
        self._compare = _comparison(similarity, encoder)
        self._max_new_tokens = max_new_tokens

    def __call__(self, coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The similarities. Raises: what the model raises."""
        prompts = [self._prompt(row) for row in coalitions]
        if self.answer is None:
            answers = self.answers([self.prompt, *prompts])
            self.answer = answers.pop(0)
        else:
            answers = self.answers(prompts)
        return np.array([self._compare(self.answer, answer) for answer in answers], dtype=np.float64).reshape(-1, 1)

    def answers(self, prompts: Sequence[str]) -> list[str]:
        """The model's answers; a prompt that comes twice is asked once."""
        distinct = list(dict.fromkeys(prompts))
        generated = self.model.generate_many(distinct, max_new_tokens=self._max_new_tokens)
        texts = {prompt: each.text for prompt, each in zip(distinct, generated, strict=True)}
        return [texts[prompt] for prompt in prompts]

    def compare(self, first: str, second: str) -> float:
        """The similarity of two answers."""
        return self._compare(first, second)

    def sentences(self) -> list[tuple[str, int, Span]]:
        """Sentences of the chunks: chunk id, where the chunk begins in the prompt, and the span in the chunk."""
        return [
            (chunk_id, start, span)
            for chunk_id, start, text in standing(self._template, self._chunks)
            for span in split(text, "sentence")
        ]

    def _prompt(self, row: NDArray[np.bool_]) -> str:
        keep = {name for name, stays in zip(self.chunk_ids, row, strict=True) if stays}
        return rebuild(self._template, self._chunks, keep)


def leave_documents_out(game: SimilarityGame) -> GeneratorAttribution:
    """Weights 1 - minmax(similarity) of the documents, each left out once; equal similarities give zero weights.

    k + 1 answers are generated. Source: RAG-Ex (Sudhi et al.).
    """
    k = len(game.chunk_ids)
    similarities = game(np.concatenate([np.ones((1, k), dtype=np.bool_), ~np.eye(k, dtype=np.bool_)]))[:, 0]
    weights = tuple(float(weight) for weight in distances(similarities[1:]))
    return GeneratorAttribution(
        chunk_ids=game.chunk_ids,
        answer_spans=((0, len(game.answer or "")),),
        values=tuple((weight,) for weight in weights),
        shares=weights,
        share_errors=(None,) * k,
        full=float(similarities[0]),
        unit="similarity",
        method="leave_one_out",
        evaluations=k + 1,
        engine="http",
        model=game.model.name,
    )


def leave_sentences_out(game: SimilarityGame) -> tuple[SentenceWeight, ...]:
    """The same for each sentence of the documents, cut out of the prompt where it stands, in prompt order.

    Without an answer to explain, the model's own to the full prompt is explained.

    Raises: AttributionError when a similarity is not finite.
    """
    found = game.sentences()
    spans = [Span(start + span.start, start + span.end, span.text) for _, start, span in found]

    def similarity(own: str, changed: str) -> float:
        return game.compare(own if game.answer is None else game.answer, changed)

    left = leave_one_out(game.prompt, game.answers, spans=spans, similarity=similarity)
    return tuple(
        SentenceWeight(chunk_id, span.start, span.end, span.text, part.weight)
        for (chunk_id, _, span), part in zip(found, left.parts, strict=True)
    )


def standing(template: str, chunks: Sequence[GivenChunk]) -> list[tuple[str, int, str]]:
    """Id, beginning and text of each chunk in the full prompt, in the order of their placeholders."""
    by_mark: dict[str, list[GivenChunk]] = {}
    for chunk in chunks:
        by_mark.setdefault(placeholder(chunk.chunk_id), []).append(chunk)
    texts, marks = parsed(template)
    places, offset = [], 0
    for before, mark in zip(texts, marks, strict=False):
        offset += len(before)
        same = by_mark[mark]
        chunk = same.pop(0) if len(same) > 1 else same[0]
        text = chunk.text or ""
        places.append((chunk.chunk_id, offset, text))
        offset += len(text)
    return places


def _comparison(similarity: str | Callable[[str, str], float], encoder: Encoding | None) -> Callable[[str, str], float]:
    if encoder is not None:
        return lambda first, second: cosine(*encoder.encode([first, second]))
    if callable(similarity):
        return similarity
    found: Callable[[Any, Any], float] | None = SIMILARITIES.get(similarity)
    if found is None or found is cosine:
        known = [name for name in SIMILARITIES if SIMILARITIES[name] is not cosine]
        raise AttributionError(f"no similarity {similarity!r} of texts; give one of {', '.join(known)}, or an encoder")
    return found
