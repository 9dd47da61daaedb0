"""Expenses of a request's stages: wall time, tokens by who counted them, and cost by the host's prices.

Counts that the provider or the host reported win over those of the model's tokenizer, these over an estimate of a
token for each four characters. No price is built in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from ragtrace.prompts import rebuild
from ragtrace.types import (
    GenerateRun,
    PackRun,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageExpense,
    StageRun,
    TokenSource,
)

__all__ = ["CHARACTERS", "STAGES_OF_RUNS", "CountTokens", "Prices", "stage_expenses"]

CHARACTERS: Final = 4
"""Characters of a token in an estimate: about right for English prose, too few for code and other scripts."""
Prices: TypeAlias = Mapping[str, Mapping[str, float]]
"""By model, of a million tokens of `input` and `output`, and of a `call`."""
CountTokens: TypeAlias = Callable[[str], Callable[[str], int] | None]
"""What counts the tokens of a text for a model of this name; None where its tokenizer is not at hand."""
STAGES_OF_RUNS: Final[dict[type[StageRun], str]] = {
    RetrieveRun: "retrieve",
    RerankRun: "rerank",
    PackRun: "pack",
    GenerateRun: "generate",
}
_COMPONENTS: Final = {"retrieve": ("embedding", "retriever"), "rerank": ("reranker",), "generate": ("model",)}
_SURE: Final[tuple[TokenSource, ...]] = ("reported", "tokenizer", "estimate")
_MILLION: Final = 1e6
_LONGEST: Final = 200_000  # characters that a tokenizer is given; longer texts are estimated

_Count: TypeAlias = tuple[int, TokenSource] | None


def stage_expenses(
    record: RequestRecord, prices: Prices | None = None, tokenizers: CountTokens | None = None
) -> tuple[StageExpense, ...]:
    """The expenses of the stages that ran, each of all its runs, in the order of the path."""
    found = []
    for kind, stage in STAGES_OF_RUNS.items():
        runs = [run for run in record.stages if type(run) is kind]
        if runs:
            found.append(_expense(record, stage, runs, prices or {}, tokenizers))
    return tuple(found)


def _expense(
    record: RequestRecord, stage: str, runs: list[StageRun], prices: Prices, tokenizers: CountTokens | None
) -> StageExpense:
    models = [_model(record, stage, run) for run in runs]
    counts = [
        _tokens(record, run, tokenizers(model) if model and tokenizers else None)
        for run, model in zip(runs, models, strict=True)
    ]
    costs = [_cost(prices.get(model or ""), stage, *count) for model, count in zip(models, counts, strict=True)]
    given, made = _sum(count[0] for count in counts), _sum(count[1] for count in counts)
    sources = [count[1] for count in (given, made) if count is not None]
    return StageExpense(
        stage=stage,  # type: ignore[arg-type]  # of `STAGES_OF_RUNS`
        duration_ns=sum(run.duration_ns for run in runs),
        model=models[-1],
        input_tokens=given[0] if given else None,
        output_tokens=made[0] if made else None,
        counted=max(sources, key=_SURE.index) if sources else None,
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def _model(record: RequestRecord, stage: str, run: StageRun) -> str | None:
    """What the run names, else the version of the component that the stage asks; of packing the last generator, whose
    tokens it counts."""
    if isinstance(run, GenerateRun):
        return run.generation.model or record.versions.get("model")
    if stage == "pack":
        named = [run.generation.model for run in record.stages if isinstance(run, GenerateRun) and run.generation.model]
        return named[-1] if named else record.versions.get("model")
    return next((record.versions[name] for name in _COMPONENTS[stage] if name in record.versions), None)


def _tokens(record: RequestRecord, run: StageRun, reads: Callable[[str], int] | None) -> tuple[_Count, _Count]:
    """What a run's model read and wrote."""
    question = record.query.rewritten or record.query.original
    if isinstance(run, RetrieveRun):
        is_embedded = "embedding" in record.versions  # words alone read no tokens
        return (_count([run.query or question or None], reads) if is_embedded else None), None
    if isinstance(run, RerankRun):
        texts = {candidate.chunk_id: candidate.text for candidate in record.candidates}
        known = [texts.get(move.chunk_id) for move in run.moves if move.rank_before is not None]
        return _count([f"{question} {text}" if text else None for text in known], reads), None
    if isinstance(run, PackRun):
        parts = run.packing.chunks
        if parts and all(chunk.tokens is not None for chunk in parts):
            return None, (sum(chunk.tokens or 0 for chunk in parts), "reported")
        return None, _count([chunk.text for chunk in parts], reads)
    usage, made = run.generation.usage, run.generation
    given = usage.input_tokens if usage else None
    written = usage.output_tokens if usage else None
    return (
        _count([_prompt(record, made.prompt_template)], reads) if given is None else (given, "reported"),
        _count([made.answer], reads) if written is None else (written, "reported"),
    )


def _prompt(record: RequestRecord, template: str | None) -> str | None:
    try:
        return rebuild(template, record.packing.chunks if record.packing else ()) if template is not None else None
    except ValueError:  # a text that was not kept
        return None


def _count(texts: list[str | None], reads: Callable[[str], int] | None) -> _Count:
    """The tokens of texts; None where one was not kept."""
    kept = [text for text in texts if text is not None]
    if not kept or len(kept) < len(texts):
        return None
    if reads is not None and sum(map(len, kept)) <= _LONGEST:
        return sum(map(reads, kept)), "tokenizer"
    return sum(-(-len(text) // CHARACTERS) for text in kept), "estimate"


def _sum(counts: Iterable[_Count]) -> _Count:
    """Of all runs, by the least sure way; None where one is not known: a part would be taken for the whole."""
    known = list(counts)
    if not known or any(count is None for count in known):
        return None
    sure = [count for count in known if count is not None]
    return sum(number for number, _ in sure), max((source for _, source in sure), key=_SURE.index)


def _cost(price: Mapping[str, float] | None, stage: str, given: _Count, made: _Count) -> float | None:
    """Of a run by the price of its model; None without one, or where tokens with a price are not known."""
    if price is None or stage == "pack":
        return None
    priced = {"input": given} | ({"output": made} if stage == "generate" else {})
    cost = price.get("call", 0.0)
    for part, count in priced.items():
        if price.get(part) and count is None:
            return None
        cost += (count[0] if count else 0) * price.get(part, 0.0) / _MILLION
    return cost
