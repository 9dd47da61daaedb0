"""Model-agnostic explanations: leave one part of a text out, respond again, and see how much the response changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.attribution.similarity import SIMILARITIES
from ragtrace.attribution.spans import Span, Unit, WeightedSpan, split, without
from ragtrace.errors import AttributionError
from ragtrace.numeric import real_array

__all__ = ["LeftOut", "distances", "leave_one_out", "score_drops"]

_ROUNDING: Final = 1e-6
"""Similarities that differ by no more are equal: vectors in float32 do not tell them apart."""

Respond: TypeAlias = Callable[[list[str]], Sequence[Any]]
"""Takes texts, returns one response for each: an answer, a vector, a ranking of ids."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """parts: in text order, weights in [0, 1]. similarities: `(n,)`, of each changed response with the original one."""

    parts: tuple[WeightedSpan, ...]
    similarities: NDArray[np.float64]
    n_evaluations: int


def leave_one_out(
    text: str,
    respond: Respond,
    *,
    unit: Unit = "word",
    spans: Sequence[Span] | None = None,
    similarity: str | Callable[[Any, Any], float] = "levenshtein",
) -> LeftOut:
    """Weights 1 - minmax(similarity) of the parts of `text`, for models of which nothing but the response is known.

    text: a query, or a prompt. respond: called once, with the text and then with each changed text. unit: words or
    sentences; spans: parts of your own (such as the documents in a prompt) instead. similarity: of two responses,
    `cosine` for vectors, `levenshtein`, `jaro-winkler` or `ngram-jaccard` for texts and rankings, or a function.

    A part is left out by its offsets, so that its other occurrences stay. Equal similarities, and those that differ by
    rounding alone (1e-6), give zero weights.

    Raises: AttributionError for parts outside of the text, an unknown similarity, or one that is not finite.
    Source: RAG-Ex (Sudhi et al.).
    """
    parts = _parts(text, unit, spans)
    compare = _comparison(similarity)
    responses = _asked(respond, [text, *(without(text, part.start, part.end) for part in parts)])
    found = [compare(responses[0], response) for response in responses[1:]]
    similarities = real_array(found, "similarities", AttributionError)
    if not np.isfinite(similarities).all():
        part = parts[int(np.argmin(np.isfinite(similarities)))]
        raise AttributionError(f"the similarity without {part.text!r} is not finite; check what the model responds")
    return LeftOut(_weighted(parts, distances(similarities)), similarities, len(responses))


def score_drops(
    text: str,
    score: Callable[[list[str]], ArrayLike],
    *,
    unit: Unit = "word",
    spans: Sequence[Span] | None = None,
) -> tuple[WeightedSpan, ...]:
    """What the score of `text` loses with each of its parts: s(text) - s(text without the part); may be negative.

    score: called once, with the text and then with each changed text; returns `(n,)`. Raises: as `leave_one_out`.
    """
    parts = _parts(text, unit, spans)
    texts = [text, *(without(text, part.start, part.end) for part in parts)]
    scores = real_array(score(texts), "scores", AttributionError)
    if scores.shape != (len(texts),) or not np.isfinite(scores).all():
        raise AttributionError(f"{len(texts)} texts got scores of shape {scores.shape}; give a finite one for each")
    return _weighted(parts, scores[0] - scores[1:])


def distances(similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 - minmax(similarities), in [0, 1]; zeros where they are all equal but for rounding.

    Raises: AttributionError for one that is not finite.
    """
    if not np.isfinite(similarities).all():
        raise AttributionError("the similarity of two responses is not finite; check what the model responds")
    spread = float(np.ptp(similarities)) if len(similarities) else 0.0
    if spread <= _ROUNDING * max(1.0, float(np.abs(similarities).max(initial=0.0))):
        return np.zeros_like(similarities)
    return np.asarray(1 - (similarities - similarities.min()) / spread)


def _parts(text: str, unit: Unit, spans: Sequence[Span] | None) -> list[Span]:
    parts = split(text, unit) if spans is None else list(spans)
    for part in parts:
        if not 0 <= part.start < part.end <= len(text):
            raise AttributionError(f"part {part.start}:{part.end} is not within the text of {len(text)} characters")
    return parts


def _comparison(similarity: str | Callable[[Any, Any], float]) -> Callable[[Any, Any], float]:
    if callable(similarity):
        return similarity
    if similarity not in SIMILARITIES:
        raise AttributionError(f"no similarity {similarity!r}; give one of {', '.join(SIMILARITIES)}, or a function")
    return SIMILARITIES[similarity]


def _asked(respond: Respond, texts: list[str]) -> list[Any]:
    responses = list(respond(texts))
    if len(responses) != len(texts):
        raise AttributionError(f"{len(texts)} texts got {len(responses)} responses; return one for each, in order")
    return responses


def _weighted(parts: Sequence[Span], weights: NDArray[np.float64]) -> tuple[WeightedSpan, ...]:
    return tuple(
        WeightedSpan(part.start, part.end, part.text, float(weight))
        for part, weight in zip(parts, weights, strict=True)
    )
