"""Attribution for a closed model: leave documents or sentences out, generate again, and compare the answers. Source:
RAG-Ex (Sudhi et al.).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ragtrace.attribution.perturbation import SIMILARITIES, cosine, distances
from ragtrace.attribution.spans import Span, split, without
from ragtrace.errors import AttributionError
from ragtrace.explanations import GeneratorAttribution, PromptPart
from ragtrace.prompts import GivenChunk, parsed, placeholder, rebuild
from ragtrace.types import replace

if TYPE_CHECKING:
    from ragtrace.engines.causal_lm import Generated

__all__ = ["Encoding", "SimilarityGame", "leave_documents_out", "leave_sentences_out", "prompt_sentences", "standing"]

_HEADING: Final = 2  # words; text of so few between two chunks is a number or a heading, no sentence


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


class SimilarityGame:
    """`(n, k)` coalitions of documents to `(n, 1)`: how similar the answer given with them is to the one to explain.

    A `Game` for `shapley_values`, and what `leave_documents_out` asks.

    Args:
        model: generates the answers.
        template, chunks: of the record, as for `ragtrace.prompts.rebuild`; players are the chunk ids, in prompt order.
        answer: the one to explain; None: the model's own to the full prompt.
        similarity: of two texts, a name of `leave_one_out` or a function. encoder: compares by the cosine of its
            vectors instead.
        question: as it stands in the template, so that its sentences are told from the instruction's.

    Attributes:
        similarity: its name; `cosine` where an encoder compares, empty for a function.

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
        question: str = "",
        max_new_tokens: int = 96,
    ) -> None:
        self.model = model
        self.chunk_ids = tuple(dict.fromkeys(chunk.chunk_id for chunk in chunks))
        self.prompt = rebuild(template, chunks)
        self.answer = answer
        self._template = template
        self._chunks = list(chunks)
        self.similarity = "cosine" if encoder is not None else "" if callable(similarity) else similarity
        self._compare = None if encoder is not None else _comparison(similarity)
        self._encoder = encoder
        self._question = question
        self._max_new_tokens = max_new_tokens

    def __call__(self, coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The similarities. Raises: what the model raises."""
        prompts = [self._prompt(row) for row in coalitions]
        if self.answer is None:
            answers = self.answers([self.prompt, *prompts])
            self.answer = answers.pop(0)
        else:
            answers = self.answers(prompts)
        return self.similarities(self.answer, answers).reshape(-1, 1)

    def answers(self, prompts: Sequence[str]) -> list[str]:
        """The model's answers; a prompt that comes twice is asked once."""
        distinct = list(dict.fromkeys(prompts))
        generated = self.model.generate_many(distinct, max_new_tokens=self._max_new_tokens)
        texts = {prompt: each.text for prompt, each in zip(distinct, generated, strict=True)}
        return [texts[prompt] for prompt in prompts]

    def similarities(self, answer: str, others: Sequence[str]) -> NDArray[np.float64]:
        """`(n,)`: how similar each other answer is; an encoder reads each distinct one once."""
        if self._encoder is not None:
            distinct = list(dict.fromkeys([answer, *others]))
            vectors = dict(zip(distinct, self._encoder.encode(distinct), strict=True))
            found = [cosine(vectors[answer], vectors[other]) for other in others]
        elif self._compare is not None:
            found = [self._compare(answer, other) for other in others]
        return np.array(found, dtype=np.float64)

    def sentences(self) -> list[PromptPart]:
        """The sentences of the prompt, in its order, without weights."""
        return prompt_sentences(self._template, self._chunks, self._question)

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
        similarity=game.similarity,
        method="leave_one_out",
        evaluations=k + 1,
        engine="http",
        model=game.model.name,
    )


def leave_sentences_out(game: SimilarityGame) -> tuple[PromptPart, ...]:
    """The same for each sentence of instruction, question and documents, cut out where it stands, in prompt order.

    n answers are generated, and one more where there is none to explain: then the model's own to the full prompt is.

    Raises: AttributionError when a similarity is not finite.
    """
    parts = game.sentences()
    prompts = [without(game.prompt, part.start, part.end) for part in parts]
    if game.answer is None:
        game.answer, *answers = game.answers([game.prompt, *prompts])
    else:
        answers = game.answers(prompts)
    weights = distances(game.similarities(game.answer, answers))
    return tuple(replace(part, weight=float(weight)) for part, weight in zip(parts, weights, strict=True))


def prompt_sentences(template: str, chunks: Sequence[GivenChunk], question: str = "") -> list[PromptPart]:
    """The sentences of a full prompt by what they belong to, in its order; the question where it stands last.

    What numbers or heads a chunk in one or two words is no sentence.
    """
    texts, _ = parsed(template)
    places = [(start, start + len(text), chunk_id) for chunk_id, start, text in standing(template, chunks)]
    borders = [0, *(border for start, end, _ in places for border in (start, end))]
    prompt = rebuild(template, chunks)
    gaps = list(zip(borders[::2], [*borders[1::2], len(prompt)], strict=True))
    asked = _place_of(question, [(start, text) for (start, _), text in zip(gaps, texts, strict=True)])
    found = [
        PromptPart(chunk_id=chunk_id, start=start + span.start, end=start + span.end)
        for start, end, chunk_id in places
        for span in split(prompt[start:end], "sentence")
    ]
    for start, end in gaps:
        cuts = [start, end]
        if asked is not None and start <= asked < end:
            cuts = [start, asked, asked + len(question), end]
        for at, (first, last) in enumerate(pairwise(cuts)):
            kind: Literal["instruction", "question"] = "question" if at == 1 else "instruction"
            found += [
                PromptPart(kind=kind, start=first + span.start, end=first + span.end)
                for span in split(prompt[first:last], "sentence")
                if kind == "question" or len(_words(span.text)) > _HEADING
            ]
    return sorted(found, key=lambda part: part.start)


def _place_of(question: str, texts: Sequence[tuple[int, str]]) -> int | None:
    """Where the question stands last in what surrounds the chunks; None where it does not."""
    found = [start + text.rfind(question) for start, text in texts if question.strip() and question in text]
    return found[-1] if found else None


def _words(text: str) -> list[Span]:
    return [word for word in split(text, "word") if any(map(str.isalpha, word.text))]


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


def _comparison(similarity: str | Callable[[str, str], float]) -> Callable[[str, str], float]:
    if callable(similarity):
        return similarity
    found: Callable[[Any, Any], float] | None = SIMILARITIES.get(similarity)
    if found is None or found is cosine:
        known = [name for name in SIMILARITIES if SIMILARITIES[name] is not cosine]
        raise AttributionError(f"no similarity {similarity!r} of texts; give one of {', '.join(known)}, or an encoder")
    return found
