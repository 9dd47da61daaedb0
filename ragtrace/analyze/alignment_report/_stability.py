"""Stability of a generator's ranking, first document and WARG as the estimate's budget grows (RAG-E, Fig. 5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.alignment import rank_by_score, spearman, warg
from ragtrace.analyze._generator_attribution import GeneratorEngine
from ragtrace.analyze.alignment import ranking_of
from ragtrace.analyze.alignment_report._rates import WeightedMean, estimated
from ragtrace.analyze.alignment_report._rescoring import Skipped
from ragtrace.analyze.attribution import seed_of
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained
from ragtrace.attribution import CoalitionLog, shapley_values
from ragtrace.attribution.game import Coalitions, Values
from ragtrace.engines.causal_lm import CheckedScoring
from ragtrace.explanations import RESOLUTION
from ragtrace.plausible_values import sampling_weight
from ragtrace.types import RequestRecord

__all__ = ["METHODS", "Settling", "StabilityCurve", "StabilityPoint", "curves", "settling_of"]

METHODS: Final = ("gp", "pmcshap")
"""The default estimator, and that of the paper."""
PERSISTENCE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Settling:
    """One request's estimate at one budget, against its reference.

    ranking: Spearman's correlation with the reference ranking. first: whether the same document comes first, or one
    that ties with it in the reference.
    warg_error: |WARG - WARG of the reference| at p = 0.9.
    """

    request_id: str
    k: int
    method: str
    budget: int
    exact_reference: bool
    weight: float
    ranking: float
    first: bool
    warg_error: float


@dataclass(frozen=True, slots=True)
class StabilityPoint:
    """All requests of a curve at one budget (distinct prompts that were scored)."""

    budget: int
    ranking: WeightedMean
    first: WeightedMean
    warg_error: WeightedMean


@dataclass(frozen=True, slots=True)
class StabilityCurve:
    """An estimator over requests with k documents. exact_reference: it is compared with exact values; otherwise with
    its own estimate at the largest budget, which flatters it."""

    model: str
    method: str
    k: int
    exact_reference: bool
    requests: int
    points: tuple[StabilityPoint, ...]


def settling_of(
    records: Sequence[RequestRecord],
    generator: GeneratorEngine,
    *,
    most: int,
    skipped: Skipped,
    methods: Sequence[str] = METHODS,
    on_progress: Callable[[], None] | None = None,
) -> list[Settling]:
    """Estimates with 2k, 4k, 8k ... prompts, up to `most`, of all records; exact values where 2^k is at most `most`.

    Raises: ServerError, ScoringStopped.
    """
    found: list[Settling] = []
    for record in records:
        with skipped.noted(record.request_id):
            found += _of_record(record, generator, most, methods)
        if on_progress is not None:
            on_progress()
    return found


def _of_record(record: RequestRecord, generator: GeneratorEngine, most: int, methods: Sequence[str]) -> list[Settling]:
    prompts = SubsetPrompts.of(record)
    ranking = ranking_of(record, prompts.documents)
    k = len(prompts.documents)
    if ranking is None:
        raise Unexplained("the documents' ranking is not known")
    if k < 2:
        raise Unexplained("a single document has only one order")
    is_exact = 1 << k <= most
    budgets = [k << step for step in range(1, most.bit_length()) if k << step < min(1 << k, most + 1)]
    if not budgets:
        raise Unexplained(f"{k} documents leave no budget between {2 * k} prompts and the reference")

    scoring = CheckedScoring(generator, like=prompts.of_documents(prompts.documents))

    def game(coalitions: Coalitions) -> Values:
        kept = [{each for each, stays in zip(prompts.documents, row, strict=True) if stays} for row in coalitions]
        return np.asarray(scoring.score([prompts.of_documents(each) for each in kept], prompts.answer))

    log = CoalitionLog(k)
    if is_exact:  # all at once: what the prompts share is read once
        log = shapley_values(game, k, method="exact", continue_from=log).log
    order = [prompts.documents.index(each) for each in ranking]
    found = []
    for method in methods:
        seed = seed_of(record)
        largest = (1 << k) if is_exact else budgets[-1]
        reference = shapley_values(game, k, method=method, budget=largest, seed=seed, continue_from=log)
        log = reference.log
        for budget in budgets if is_exact else budgets[:-1]:
            estimate = shapley_values(game, k, method=method, budget=budget, seed=seed, continue_from=log)
            log = estimate.log
            found.append(_settling(record, method, budget, is_exact, estimate.scores[order], reference.scores[order]))
    return found


def _settling(
    record: RequestRecord,
    method: str,
    budget: int,
    is_exact: bool,
    scores: NDArray[np.float64],
    reference: NDArray[np.float64],
) -> Settling:
    """scores, reference: `(k,)` in the retriever's order, whose ranking is thus 0, 1, ..., k - 1."""
    k = len(scores)
    places = range(k)
    now, final = (rank_by_score(places, each, tolerance=RESOLUTION).documents for each in (scores, reference))
    return Settling(
        request_id=record.request_id,
        k=k,
        method=method,
        budget=budget,
        exact_reference=is_exact,
        weight=sampling_weight(record.head_probability),
        ranking=spearman(now, final) or 0.0,
        first=bool(reference[int(np.argmax(scores))] >= reference.max() - RESOLUTION),
        warg_error=abs(warg(places, now, PERSISTENCE) - warg(places, final, PERSISTENCE)),
    )


def curves(settlings: Sequence[Settling], model: str, *, seed: int = 0) -> list[StabilityCurve]:
    """A curve for each method and number of documents: only equal k are put together."""
    by: defaultdict[tuple[int, str, bool], defaultdict[int, list[Settling]]] = defaultdict(lambda: defaultdict(list))
    for each in settlings:
        by[each.k, each.method, each.exact_reference][each.budget].append(each)
    return [
        StabilityCurve(
            model=model,
            method=method,
            k=k,
            exact_reference=is_exact,
            requests=max(map(len, by_budget.values())),
            points=tuple(_point(budget, by_budget[budget], seed) for budget in sorted(by_budget)),
        )
        for (k, method, is_exact), by_budget in sorted(by.items())
    ]


def _point(budget: int, members: Sequence[Settling], seed: int) -> StabilityPoint:
    weights = [settling.weight for settling in members]

    def over(values: Sequence[float]) -> WeightedMean:
        estimate = estimated(values, weights, seed)
        assert estimate is not None  # there are members
        return estimate

    return StabilityPoint(
        budget=budget,
        ranking=over([settling.ranking for settling in members]),
        first=over([float(settling.first) for settling in members]),
        warg_error=over([settling.warg_error for settling in members]),
    )
