"""Attribution by perturbation: leave one part of a text out, respond again, and see how much the response changes; and
the faithfulness of any attribution (AIPC): remove what it calls relevant first, or last, and watch the value fall.

Responses are compared by similarities, in [0, 1] for texts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtrace.attribution.game import Game
from ragtrace.attribution.spans import Span, Unit, WeightedSpan, split, without
from ragtrace.errors import AttributionError
from ragtrace.numeric import check_seed, real_array

__all__ = [
    "SIMILARITIES",
    "Curves",
    "Estimate",
    "LeftOut",
    "aipc",
    "aipc_difference",
    "area_between",
    "cosine",
    "distances",
    "jaro_winkler",
    "leave_one_out",
    "levenshtein",
    "ngram_jaccard",
    "perturbation_curves",
    "score_drops",
]

_SPREAD: Final = 1e-6
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
    if spread <= _SPREAD * max(1.0, float(np.abs(similarities).max(initial=0.0))):
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


def cosine(a: ArrayLike, b: ArrayLike) -> float:
    """The cosine of two vectors, in [-1, 1]; 0 where one of them is zero."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    return min(1.0, max(-1.0, float(x @ y) / norms)) if norms else 0.0


def levenshtein(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """1 - edit distance / length of the longer one; 1 for two empty ones. Takes texts, and rankings of ids."""
    if not len(a) and not len(b):
        return 1.0
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return 1 - row[-1] / max(len(a), len(b))


def jaro_winkler(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """Jaro's similarity with Winkler's bonus of 0.1 per item (at most 4) of the common prefix; 1 for two empty ones."""
    jaro = _jaro(a, b)
    prefix = 0
    for x, y in zip(a[:4], b[:4], strict=False):
        if x != y:
            break
        prefix += 1
    return jaro + 0.1 * prefix * (1 - jaro)


def ngram_jaccard(a: Sequence[Hashable], b: Sequence[Hashable], n: int = 3) -> float:
    """Shared n-grams of items (of characters for texts) among all; a shorter sequence is one n-gram by itself."""
    grams = [{tuple(each[i : i + n]) for i in range(max(1, len(each) - n + 1))} for each in (a, b)]
    return len(grams[0] & grams[1]) / len(grams[0] | grams[1])


def _jaro(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    if not len(a) or not len(b):
        return float(len(a) == len(b))
    reach = max(0, max(len(a), len(b)) // 2 - 1)
    taken = [False] * len(b)
    matched_a: list[Hashable] = []
    for i, x in enumerate(a):
        for j in range(max(0, i - reach), min(len(b), i + reach + 1)):
            if not taken[j] and b[j] == x:
                taken[j] = True
                matched_a.append(x)
                break
    if not matched_a:
        return 0.0
    matched_b = [y for y, used in zip(b, taken, strict=True) if used]
    transposed = sum(x != y for x, y in zip(matched_a, matched_b, strict=True)) / 2
    m = len(matched_a)
    return (m / len(a) + m / len(b) + (m - transposed) / m) / 3


SIMILARITIES: Final[dict[str, Callable[[Any, Any], float]]] = {
    "cosine": cosine,
    "levenshtein": levenshtein,
    "jaro-winkler": jaro_winkler,
    "ngram-jaccard": ngram_jaccard,
}


Floats = NDArray[np.float64]
_CONFIDENCE: Final = 0.95
_RESAMPLES: Final = 1000
_ROUNDING: Final = 1e-6  # of the largest value: curves in float32 that differ by no more do not differ


@dataclass(frozen=True, slots=True)
class Curves:
    """The value after removing 0, 1, ..., k players: `(k + 1,)` each, most and least relevant first."""

    morf: Floats
    lerf: Floats

    def normalized(self) -> Curves:
        """Both min-max normalized together, in [0, 1]; zeros where they vary by rounding alone (1e-6).

        Raises: AttributionError for curves of different lengths, or values that are not finite.
        """
        morf, lerf = (real_array(curve, "a curve", AttributionError) for curve in (self.morf, self.lerf))
        if morf.ndim != 1 or morf.shape != lerf.shape or len(morf) < 2:
            raise AttributionError(
                f"curves of shapes {morf.shape} and {lerf.shape}; give two of one length, at least 2"
            )
        both = np.concatenate([morf, lerf])
        if not np.isfinite(both).all():
            raise AttributionError("a curve holds a value that is not finite; check what the game returned")
        spread = float(np.ptp(both))
        if spread <= _ROUNDING * float(np.abs(both).max()):
            return Curves(np.zeros(len(morf)), np.zeros(len(morf)))
        return Curves((morf - both.min()) / spread, (lerf - both.min()) / spread)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over samples with its 95 % bootstrap interval, NaN for one sample alone. per_sample: `(n,)`."""

    mean: float
    low: float
    high: float
    per_sample: Floats


def perturbation_curves(game: Game, attribution: ArrayLike, *, steps: int | None = None) -> Curves:
    """MoRF and LeRF of one sample: players leave by descending and by ascending `attribution` `(k,)`.

    game: `(n, k)` coalitions to `(n, m)` values, which are summed over the m tokens. Equal attributions leave in the
    same order in both curves, so that an attribution without information has no area between them. steps: of more than
    so many players several leave at once, in so many steps that are as equal as can be; the curves are `(steps + 1,)`.

    Raises: AttributionError for attributions or values that are not finite, or no player at all.
    """
    scores = real_array(attribution, "attribution", AttributionError)
    if scores.ndim != 1 or scores.size == 0 or not np.isfinite(scores).all():
        raise AttributionError(f"attribution of shape {scores.shape}; give one finite number for each of k players")
    k = len(scores)
    removed = np.arange(k + 1) if steps is None or k <= steps else np.rint(np.linspace(0, k, steps + 1)).astype(int)
    orders = [np.argsort(-scores, kind="stable"), np.argsort(scores, kind="stable")]
    coalitions = np.concatenate([np.argsort(order)[None, :] >= removed[:, None] for order in orders])
    distinct, back = np.unique(coalitions, axis=0, return_inverse=True)
    values = real_array(game(distinct), "what the game returns", AttributionError)
    if values.ndim != 2 or len(values) != len(distinct) or not np.isfinite(values).all():
        raise AttributionError(f"the game returned {values.shape} for {len(distinct)} coalitions; give finite (n, m)")
    curve = values.sum(axis=1)[back.reshape(-1)]
    return Curves(curve[: len(removed)], curve[len(removed) :])


def area_between(curves: Curves) -> float:
    """The area between LeRF and MoRF over the share of players removed, in [-1, 1]; higher is more faithful.

    Both are min-max normalized together; constant curves, and those that vary by rounding alone (1e-6), have no area.

    Raises: AttributionError for curves of different lengths, or values that are not finite.
    """
    between = curves.normalized()
    gap = between.lerf - between.morf
    return float((gap[1:] + gap[:-1]).mean() / 2)


def aipc(samples: Sequence[Curves], *, seed: int = 0) -> Estimate:
    """Area inside the perturbation curves: the mean of `area_between` with its 95 % bootstrap interval.

    Raises: AttributionError without a sample, ConfigurationError for a seed. Source: RAG-E, appendix D.
    """
    return _bootstrapped(np.array([area_between(curves) for curves in samples]), seed)


def aipc_difference(first: Sequence[Curves], second: Sequence[Curves], *, seed: int = 0) -> Estimate:
    """Mean of first - second over the same samples, with the interval of a paired bootstrap.

    An interval above 0 says that the first is more faithful. Raises: AttributionError unless both have the same number.
    """
    if len(first) != len(second):
        raise AttributionError(f"{len(first)} and {len(second)} samples; give the same samples for both, in order")
    return _bootstrapped(
        np.array([area_between(a) - area_between(b) for a, b in zip(first, second, strict=True)]), seed
    )


def _bootstrapped(values: Floats, seed: int) -> Estimate:
    check_seed(seed)
    if not len(values):
        raise AttributionError("no samples; give the curves of at least one")
    if len(values) == 1:  # all its resamples are alike, which would say that it is sure
        return Estimate(float(values[0]), float("nan"), float("nan"), values)
    chosen = np.random.default_rng(seed).integers(len(values), size=(_RESAMPLES, len(values)))
    low, high = np.quantile(values[chosen].mean(axis=1), [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return Estimate(float(values.mean()), float(low), float(high), values)
