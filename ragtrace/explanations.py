"""The explanation of one request, as it is stored: which documents the answer used, and why they were
retrieved.

Frozen msgspec structs like those of `ragtrace.types`. Offsets are half-open character ranges into the text they belong
to; documents stand in prompt order.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

__all__ = [
    "RESOLUTION",
    "Alignment",
    "CoalitionScores",
    "Explanation",
    "GeneratorAttribution",
    "MethodShares",
    "Precision",
    "RetrieverAttribution",
    "TokenWeights",
]

Offsets: TypeAlias = tuple[int, int]

RESOLUTION: Final = 1e-4
"""Nats by which shares must differ to have an order: log-probabilities of a model in float32 are no finer."""


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


class GeneratorAttribution(_Part, frozen=True, kw_only=True):
    """Shapley values of the packed documents (or, with `players` = `words`, of the query's words) for the answer.

    `values[i][j]`: what player i contributes to the log-probability (or, `unit` = `similarity`, to the likeness) of
    answer token j; `drops[i][j]` is what that token loses when document i alone is left out, empty where this was not
    scored. `shares[i]` is its mean over tokens, `share_errors[i]` the standard error of that, None where the
    estimator gives none. `empty`, `full`: mean value without any player and with all.
    """

    players: Literal["documents", "words"] = "documents"
    chunk_ids: tuple[str, ...] = ()  # of documents
    query_spans: tuple[Offsets, ...] = ()  # of words
    answer_spans: tuple[Offsets, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    drops: tuple[tuple[float, ...], ...] = ()  # of documents
    shares: tuple[float, ...] = ()
    share_errors: tuple[float | None, ...] = ()
    share_covariance: tuple[tuple[float, ...], ...] = ()  # empty where the estimator gives none
    empty: float | None = None
    full: float | None = None
    unit: Literal["log_probability", "similarity"] = "log_probability"
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


class RetrieverAttribution(_Part, frozen=True, kw_only=True):
    """Integrated Gradients of one document's retrieval score, over the query's tokens and over its own.

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
    engine: str = ""  # encoder, cross_encoder
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


class Explanation(_Part, frozen=True, kw_only=True):
    """All that one attribution job found. `skipped` says by part why it is missing: generator, query, retriever."""

    generator: GeneratorAttribution | None = None
    query: GeneratorAttribution | None = None
    retriever: tuple[RetrieverAttribution, ...] = ()
    alignment: Alignment | None = None
    skipped: dict[str, str] = {}
    fingerprint: str = ""  # of the record, the models and the settings that gave it
    device: str = "cpu"
    seconds: float = 0.0
    gpu_seconds: float = 0.0
