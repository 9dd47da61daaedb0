"""Shapley values of a prompt's documents, or of its question's words, for the tokens of the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from ragtrace.analyze.explaining.engines import ClosedEngine, GeneratorEngine
from ragtrace.analyze.explaining.games import NEVER, PromptGame, Stopping
from ragtrace.analyze.explaining.prompts import SubsetPrompts, Unexplained
from ragtrace.attribution import ShapleyValues
from ragtrace.attribution.game import MAX_PLAYERS
from ragtrace.engines.model_agnostic import SimilarityGame, leave_documents_out
from ragtrace.explanations import GeneratorAttribution
from ragtrace.types import replace

__all__ = ["explain_documents", "explain_words", "leave_out_documents"]


def explain_documents(
    prompts: SubsetPrompts,
    engine: GeneratorEngine,
    *,
    ranking: Sequence[str],
    budget: int | None = None,
    seed: int = 0,
    stopping: Stopping = NEVER,
    known: GeneratorAttribution | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> GeneratorAttribution:
    """Shapley values of the documents. ranking: their order of retrieval, by which `stopping` judges. known: an earlier
    attribution, from which the same model goes on.

    Raises: Unexplained for no document or more than 30, ModelError and AttributionError of the model.
    """
    documents = prompts.documents
    _check("documents", len(documents))

    def prompt_of(kept: Sequence[bool]) -> str:
        return prompts.of_documents({each for each, stays in zip(documents, kept, strict=True) if stays})

    full = prompts.of_documents(documents)
    game = PromptGame(engine, prompts.answer, full, len(documents), prompt_of, on_progress, known)
    order = [documents.index(each) for each in ranking]
    found = game.solved(budget=budget, seed=seed, stopping=stopping, ranking=order)
    return replace(_stored("documents", found, game, seed, chunk_ids=documents), drops=_drops(found))


def leave_out_documents(prompts: SubsetPrompts, engine: ClosedEngine) -> GeneratorAttribution:
    """How much the answer changes without each document, for a model that tells nothing but its answers.

    Raises: Unexplained for no document, ModelError of the model.
    """
    _check("documents", len(prompts.documents))
    found = leave_documents_out(SimilarityGame(engine, prompts.template, prompts.chunks, answer=prompts.answer))
    return replace(found, engine=engine.kind, revision=engine.revision)


def explain_words(
    prompts: SubsetPrompts,
    engine: GeneratorEngine,
    *,
    budget: int | None = None,
    seed: int = 0,
    target_standard_error: float | None = None,
    known: GeneratorAttribution | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> GeneratorAttribution:
    """Shapley values of the question's words, with the documents fixed. Raises: as `explain_documents`."""
    if not prompts.has_question:
        raise Unexplained("the question does not stand in the prompt as it was asked")
    _check("words in the question", len(prompts.words))
    full = prompts.of_documents(prompts.documents)
    game = PromptGame(engine, prompts.answer, full, len(prompts.words), prompts.of_words, on_progress, known)
    stopping = Stopping(target_standard_error=target_standard_error)
    found = game.solved(budget=budget, seed=seed, stopping=stopping)
    spans = tuple((word.start, word.end) for word in prompts.words)
    return _stored("words", found, game, seed, query_spans=spans)


def _drops(found: ShapleyValues) -> tuple[tuple[float, ...], ...]:
    """What each token of the answer loses without each document; empty for a document whose subset was not scored."""
    kept, values = np.asarray(found.log.coalitions, dtype=bool), found.log.values
    whole = values[kept.all(axis=1)]
    rows = (values[~kept[:, player] & (kept.sum(axis=1) == kept.shape[1] - 1)] for player in range(kept.shape[1]))
    return tuple(tuple((whole[0] - row[0]).tolist()) if len(whole) and len(row) else () for row in rows)


def _check(players: str, number: int) -> None:
    if number == 0:
        raise Unexplained(f"there are no {players}")
    if number > MAX_PLAYERS:
        raise Unexplained(f"{number} {players}; at most {MAX_PLAYERS} can be attributed to")


def _stored(
    players: Literal["documents", "words"],
    found: ShapleyValues,
    game: PromptGame,
    seed: int,
    *,
    chunk_ids: tuple[str, ...] = (),
    query_spans: tuple[tuple[int, int], ...] = (),
) -> GeneratorAttribution:
    known = found.reason is None
    errors = np.sqrt(np.clip(np.diagonal(found.covariance), 0, None))
    covariance = found.covariance.tolist() if known else []
    return GeneratorAttribution(
        players=players,
        chunk_ids=chunk_ids,
        query_spans=query_spans,
        answer_spans=game.places(found.values.shape[1]),
        values=tuple(tuple(row) for row in found.values.tolist()),
        shares=tuple(found.scores.tolist()),
        share_errors=tuple(errors.tolist()) if known else (None,) * len(found.values),
        share_covariance=tuple(tuple(row) for row in covariance),
        empty=float(found.empty.mean()),
        full=float(found.full.mean()),
        method=found.method,
        exact=found.exact,
        stopped=found.stopped,
        evaluations=found.n_evaluations,
        seed=seed,
        engine=game.engine.kind,
        model=game.engine.name,
        revision=game.engine.revision,
        precision=game.precision,
        log=game.kept(found),
    )
