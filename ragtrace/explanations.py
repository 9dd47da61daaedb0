"""The explanation of one request, as it is stored: which documents the answer used, and why they were
retrieved.

Frozen msgspec structs like those of `ragtrace.types`. Offsets are half-open character ranges into the text they belong
to; documents stand in prompt order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

__all__ = [
    "RESOLUTION",
    "Alignment",
    "CoalitionScores",
    "Explanation",
    "GeneratorAttribution",
    "ItemUtilities",
    "MethodShares",
    "Precision",
    "PromptPart",
    "RetrieverAttribution",
    "TermUse",
    "TokenWeights",
    "Use",
    "term_uses",
]

Offsets: TypeAlias = tuple[int, int]
Use: TypeAlias = Literal["both", "retriever", "generator", "neither"]

RESOLUTION: Final = 1e-4
"""Nats by which shares must differ to have an order: log-probabilities of a model in float32 are no finer."""
_MASS: Final = 0.5
_WORD: Final = re.compile(r"\w+")


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of every part."""


class TokenWeights(_Part, frozen=True, kw_only=True):
    """One weight per token of a text: `spans[i]` is where the token stands, `weights[i]` what it contributes."""

    spans: tuple[Offsets, ...] = ()
    weights: tuple[float, ...] = ()


class Precision(_Part, frozen=True, kw_only=True):
    """How a model of reduced precision compares with itself in float32, on a sample of the prompts.

    `difference`: the largest between log-probabilities of a token, in nats; None where they were not compared, and
    `skipped` says why. `repeated`: it was too large, so that all values are those of float32.
    """

    dtype: str = ""  # bfloat16, float16
    prompts: int = 0  # of the sample
    difference: float | None = None
    repeated: bool = False
    skipped: str | None = None


class CoalitionScores(_Part, frozen=True, kw_only=True):
    """The subsets of players that were scored, by which a larger budget goes on.

    `coalitions[i]` is a subset as a number: bit j stands for player j. `values` are float32 numbers, low byte first, of
    each subset in turn: one for each token of the answer. `prompt` is a digest of the full prompt and the answer.
    """

    prompt: str = ""
    coalitions: tuple[int, ...] = ()
    values: bytes = b""


class MethodShares(_Part, frozen=True, kw_only=True):
    """What another method makes of the subsets that were scored: shares and errors, parallel to the documents.

    `skipped`: why it makes nothing of them.
    """

    method: str = ""  # the one that was asked for; its settings, defaults included, beside it
    settings: dict[str, bool | int | float | str] = {}
    evaluations: int = 0  # subsets that it rests on
    exact: bool = False
    shares: tuple[float, ...] = ()
    share_errors: tuple[float | None, ...] = ()
    skipped: str | None = None


class PromptPart(_Part, frozen=True, kw_only=True):
    """A sentence of the prompt, and how much the answer changes without it: 0 the least of all, 1 the most.

    `start`, `end`: where it stands in the full prompt. Source: RAG-Ex (Sudhi et al.).
    """

    kind: Literal["instruction", "question", "document"] = "document"
    chunk_id: str = ""  # of a document
    start: int = 0
    end: int = 0
    weight: float = 0.0


class GeneratorAttribution(_Part, frozen=True, kw_only=True):
    """Shapley values of the packed documents (or, with `players` = `words`, of the query's words) for the answer.

    `values[i][j]`: what player i contributes to the log-probability (or, `unit` = `similarity`, to the likeness) of
    answer token j; `drops[i][j]` is what that token loses when document i alone is left out, empty where this was not
    scored. `shares[i]` is its mean over tokens, `share_errors[i]` the standard error of that, None where the
    estimator gives none. `empty`, `full`: mean value without any player and with all.
    """

    players: Literal["documents", "words"] = "documents"
    chunk_ids: tuple[str, ...] = ()  # of documents
    query_spans: tuple[
        Offsets, ...
    ] = ()  # of words; of phrases, where the question has more words than can be asked for
    query_words: tuple[Offsets, ...] = ()  # where `query_spans` are phrases: the words that they consist of
    answer_spans: tuple[Offsets, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    drops: tuple[tuple[float, ...], ...] = ()  # of documents
    shares: tuple[float, ...] = ()
    share_errors: tuple[float | None, ...] = ()
    share_covariance: tuple[tuple[float, ...], ...] = ()  # empty where the estimator gives none
    empty: float | None = None
    full: float | None = None
    unit: Literal["log_probability", "similarity"] = "log_probability"
    similarity: str = ""  # by which answers were compared, where that is the unit
    parts: tuple[PromptPart, ...] = ()  # sentences of the prompt of a closed model, in its order, where asked for
    method: str = ""
    settings: dict[str, bool | int | float | str] = {}  # of the method, defaults included; none of exact values
    exact: bool = False
    stopped: str | None = None  # what ended the run before its budget: settle, target_standard_error
    evaluations: int = 0
    seed: int = 0
    engine: str = ""  # causal_lm, http
    model: str = ""
    revision: str | None = None
    attention: tuple[float, ...] = ()  # attention times gradient of each document, where it was asked for to compare
    precision: Precision | None = None  # of a local model that is not in float32
    log: CoalitionScores | None = None
    compared: tuple[MethodShares, ...] = ()  # other methods on the same subsets, where they were asked for

    def word_shares(self) -> tuple[tuple[Offsets, ...], tuple[float, ...]]:
        """The question's words with their shares, to shade them: each word of a phrase has an equal part of its share,
        which was measured of the phrase as a whole."""
        if not self.query_words:
            return self.query_spans, self.shares
        spans, shares = list[Offsets](), list[float]()
        for (start, end), share in zip(self.query_spans, self.shares, strict=True):
            inside = [word for word in self.query_words if start <= word[0] and word[1] <= end]
            spans += inside
            shares += [share / len(inside)] * len(inside)
        return tuple(spans), tuple(shares)


class RetrieverAttribution(_Part, frozen=True, kw_only=True):
    """Integrated Gradients of one document's retrieval score, over the query's tokens and over its own; of a retriever
    that shows no gradients, weights of words from 0 to 1, each left out once (`rule` = `leave_one_out`).

    `query_number`: which of the request's distinct retrieval queries that was, from 0.
    """

    chunk_id: str
    score: float | None = None
    query_number: int = 0
    query: TokenWeights = TokenWeights()
    document: TokenWeights = TokenWeights()
    completeness_delta: float | None = None  # the larger of the two, signed
    evaluations: int = 0
    rule: str = ""
    baseline: str = ""
    engine: str = ""  # encoder, cross_encoder, embedding_server
    model: str = ""
    revision: str | None = None


class Alignment(_Part, frozen=True, kw_only=True):
    """How the generator's use of the documents agrees with their ranking, at each p of WARG.

    `ps`, `warg`, `floor`, `chance`, `normalized` and `adjusted` are parallel. Flags are None where they are undefined:
    with three documents or fewer, and where the answer uses none (`unused`: all documents together add next to
    nothing to it). Their probabilities come from the standard errors of the shares.
    """

    retriever: tuple[str, ...] = ()  # chunk ids, best first
    generator: tuple[str, ...] = ()
    ties: int = 0
    ps: tuple[float, ...] = ()
    warg: tuple[float, ...] = ()
    floor: tuple[float, ...] = ()
    chance: tuple[float, ...] = ()
    normalized: tuple[float, ...] = ()
    adjusted: tuple[float, ...] = ()
    spearman: float | None = None
    wasted_retrieval: bool | None = None
    wasted_probability: float | None = None
    noise_distraction: bool | None = None
    noise_probability: float | None = None
    unused: bool = False


class ItemUtilities(_Part, frozen=True, kw_only=True):
    """What each candidate is worth: the answer's worth with this document alone less that with none.

    `values[i]` is of `chunk_ids[i]`, the best rank first; `empty` is the worth with none. `measure`: `log_probability`,
    of the recorded answer, in nats a token; else how like the model's own answers are to a reference answer, in [0, 1].
    """

    chunk_ids: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    empty: float = 0.0
    measure: str = "log_probability"
    engine: str = ""
    model: str = ""
    revision: str | None = None
    evaluations: int = 0

    def useful(self) -> frozenset[str]:
        """The documents from which alone the answer is worth more than from none."""
        least = RESOLUTION if self.measure == "log_probability" else 0.0
        return frozenset(chunk for chunk, value in zip(self.chunk_ids, self.values, strict=True) if value > least)


class Explanation(_Part, frozen=True, kw_only=True):
    """All that one attribution job found. `skipped` says by part why it is missing: generator, query, retriever,
    utility."""

    generator: GeneratorAttribution | None = None
    query: GeneratorAttribution | None = None
    retriever: tuple[RetrieverAttribution, ...] = ()
    alignment: Alignment | None = None
    utility: ItemUtilities | None = None
    skipped: dict[str, str] = {}
    fingerprint: str = ""  # of the record, the models and the settings that gave it
    device: str = "cpu"
    seconds: float = 0.0
    gpu_seconds: float = 0.0

    @property
    def is_utility_alone(self) -> bool:
        """Whether it was asked for nothing but the worth of candidates: what the answer used may still be asked."""
        return not (self.generator or self.query or self.retriever) and set(self.skipped) <= {"utility"}


class TermUse(_Part, frozen=True, kw_only=True):
    """A term of the question, and who went by it.

    `place`: where it stands in the question; None for a word that only a retrieval query has. `retriever`: its part of
    what the query's words add to the score of a document, a mean over documents; `generator`: its part of what the
    question's words add to the answer, None where the generator never saw it. A negative part lowers the score, or the
    answer's probability.
    """

    text: str
    place: Offsets | None = None
    retriever: float = 0.0
    generator: float | None = None
    used_by: Use = "neither"


def term_uses(
    found: Explanation, question: str, queries: Sequence[str] = (), mass: float = _MASS
) -> tuple[TermUse, ...]:
    """By which terms of the question retriever and generator went: only one of them, both, or neither; in the order of
    the question, words that stand in a retrieval query alone behind them.

    A side uses the fewest terms, strongest first, that hold `mass` of all that terms add. queries: the texts that
    `RetrieverAttribution.query_number` counts, where they are not the question itself; their words are found in it by
    their spelling, without case. Nothing where one of the two sides was not explained.

    Source: RAG-E, figure 1.
    """
    if found.query is None or not found.query.shares or not found.retriever:
        return ()
    spans = found.query.query_spans
    sums, elsewhere = [0.0] * len(spans), dict[str, float]()
    for why in found.retriever:
        text = queries[why.query_number] if why.query_number < len(queries) else question
        words = [(word.start(), word.end()) for word in _WORD.finditer(text)] if text != question else list(spans)
        weights = _parts(_by_span(why.query, words))
        for place, weight in zip(_places(words, text, question, spans), weights, strict=True):
            if isinstance(place, int):
                sums[place] += weight / len(found.retriever)
            else:
                elsewhere[place] = elsewhere.get(place, 0.0) + weight / len(found.retriever)
    shares = _parts([share if abs(share) > RESOLUTION else 0.0 for share in found.query.shares])
    went_by = _strongest([*sums, *elsewhere.values()], mass)
    needed = _strongest(shares, mass)
    terms = [
        TermUse(text=question[start:end], place=(start, end), retriever=sums[at], generator=shares[at])
        for at, (start, end) in enumerate(spans)
    ]
    terms += [TermUse(text=word, retriever=weight) for word, weight in elsewhere.items()]
    return tuple(
        msgspec.structs.replace(term, used_by=_use(at in went_by, at in needed)) for at, term in enumerate(terms)
    )


def _by_span(tokens: TokenWeights, spans: Sequence[Offsets]) -> list[float]:
    """The weights of the tokens in each span; a token belongs to the first span that it touches."""
    sums = [0.0] * len(spans)
    for (start, end), weight in zip(tokens.spans, tokens.weights, strict=False):
        touched = next((at for at, span in enumerate(spans) if start < span[1] and end > span[0]), None)
        if touched is not None:
            sums[touched] += weight
    return sums


def _places(words: Sequence[Offsets], text: str, question: str, spans: Sequence[Offsets]) -> list[int | str]:
    """The span of the question in which each word of a query stands, each occurrence once while there are some; the
    word itself where none has it."""
    if text == question:
        return list(range(len(spans)))
    known: dict[str, list[int]] = {}
    for at, (start, end) in enumerate(spans):
        for word in _WORD.findall(question[start:end]):
            known.setdefault(word.casefold(), []).append(at)
    places: list[int | str] = []
    for start, end in words:
        among = known.get(text[start:end].casefold())
        places.append(text[start:end] if not among else among.pop(0) if len(among) > 1 else among[0])
    return places


def _parts(weights: Sequence[float]) -> list[float]:
    """The weights as parts of the sum of the positive ones; as they are where none is positive."""
    total = sum(weight for weight in weights if weight > 0)
    return [weight / total for weight in weights] if total > 0 else list(weights)


def _strongest(weights: Sequence[float], mass: float) -> set[int]:
    """The fewest that hold this share of the positive mass."""
    order = sorted((at for at, weight in enumerate(weights) if weight > 0), key=lambda at: -weights[at])
    total, held, chosen = sum(weights[at] for at in order), 0.0, set[int]()
    for at in order:
        if held >= mass * total * (1 - 1e-9):
            break
        chosen.add(at)
        held += weights[at]
    return chosen


def _use(by_retriever: bool, by_generator: bool) -> Use:
    if by_retriever and by_generator:
        return "both"
    return "retriever" if by_retriever else "generator" if by_generator else "neither"
