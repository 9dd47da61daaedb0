"""Shapley values of a prompt's documents, or of its question's words, for the tokens of the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragtrace.analyze.explaining.engines import ClosedEngine, GeneratorEngine
from ragtrace.analyze.explaining.prompts import SubsetPrompts, Unexplained
from ragtrace.attribution import ShapleyValues, shapley_values
from ragtrace.attribution.game import MAX_PLAYERS, Coalitions, Values
from ragtrace.engines.model_agnostic import SimilarityGame, leave_documents_out
from ragtrace.explanations import GeneratorAttribution
from ragtrace.types import replace

__all__ = ["explain_documents", "explain_words", "leave_out_documents"]


@dataclass(slots=True)
class _Scoring:
    """A game over prompts, which remembers the prompt by which the answer was cut into tokens."""

    engine: GeneratorEngine
    answer: str
    prompt_of: Callable[[Sequence[bool]], str]
    on_progress: Callable[[int], None] | None
    first: str | None = None
    done: int = 0

    def __call__(self, coalitions: Coalitions) -> Values:
        prompts = [self.prompt_of([bool(each) for each in row]) for row in coalitions]
        if self.first is None:
            self.first = prompts[0]
        values = self.engine.score(prompts, self.answer)
        self.done += len(prompts)
        if self.on_progress is not None:
            self.on_progress(self.done)
        return np.asarray(values, dtype=np.float64)

    def places(self, tokens: int, full: str) -> tuple[tuple[int, int], ...]:
        """Where the scored tokens stand; none where the model cannot say."""
        places = self.engine.answer_places(self.first if self.first is not None else full, self.answer)
        return tuple((int(start), int(end)) for start, end in places) if len(places) == tokens else ()


def explain_documents(
    prompts: SubsetPrompts,
    engine: GeneratorEngine,
    *,
    ranking: Sequence[str],
    budget: int | None = None,
    seed: int = 0,
    settle: float | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> GeneratorAttribution:
    """Shapley values of the documents. ranking: their order of retrieval, by which `settle` judges; see
    `shapley_values`.

    Raises: Unexplained for no document or more than 30, ModelError and AttributionError of the model.
    """
    documents = prompts.documents
    _check("documents", len(documents))

    def prompt_of(kept: Sequence[bool]) -> str:
        return prompts.of_documents({each for each, stays in zip(documents, kept, strict=True) if stays})

    game = _Scoring(engine, prompts.answer, prompt_of, on_progress)
    order = [documents.index(each) for each in ranking]
    found = shapley_values(game, len(documents), budget=budget, seed=seed, settle=settle, ranking=order)
    places = game.places(found.values.shape[1], prompts.of_documents(documents))
    return _stored("documents", found, engine, places, seed, chunk_ids=documents)


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
    on_progress: Callable[[int], None] | None = None,
) -> GeneratorAttribution:
    """Shapley values of the question's words, with the documents fixed. Raises: as `explain_documents`."""
    if not prompts.has_question:
        raise Unexplained("the question does not stand in the prompt as it was asked")
    _check("words in the question", len(prompts.words))
    game = _Scoring(engine, prompts.answer, prompts.of_words, on_progress)
    found = shapley_values(game, len(prompts.words), budget=budget, seed=seed)
    places = game.places(found.values.shape[1], prompts.of_documents(prompts.documents))
    spans = tuple((word.start, word.end) for word in prompts.words)
    return _stored("words", found, engine, places, seed, query_spans=spans)


def _check(players: str, number: int) -> None:
    if number == 0:
        raise Unexplained(f"there are no {players}")
    if number > MAX_PLAYERS:
        raise Unexplained(f"{number} {players}; at most {MAX_PLAYERS} can be attributed to")


def _stored(
    players: Literal["documents", "words"],
    found: ShapleyValues,
    engine: GeneratorEngine,
    places: tuple[tuple[int, int], ...],
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
        answer_spans=places,
        values=tuple(tuple(row) for row in found.values.tolist()),
        shares=tuple(found.scores.tolist()),
        share_errors=tuple(errors.tolist()) if known else (None,) * len(found.values),
        share_covariance=tuple(tuple(row) for row in covariance),
        empty=float(found.empty.mean()),
        full=float(found.full.mean()),
        method=found.method,
        exact=found.exact,
        evaluations=found.n_evaluations,
        seed=seed,
        engine=engine.kind,
        model=engine.name,
        revision=engine.revision,
    )
