"""Faithfulness of attributions over requests: what they call relevant is removed first, or last (RAG-E, appendix D).

Of an answer documents leave the prompt and its log-probability falls; of a retrieval tokens are replaced by the
baseline's and the score falls. Each method is judged on the same requests, by the area inside its two curves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze._generator_attribution import GeneratorEngine, PromptGame, attention_of_documents
from ragtrace.analyze._retriever_attribution import (
    EmbeddingEngine,
    Gradients,
    RetrieverEngine,
    Side,
    retrieved_documents,
)
from ragtrace.analyze.alignment import ranking_of
from ragtrace.analyze.alignment_report import Skipped, WeightedMean, estimated
from ragtrace.analyze.attribution import seed_of
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained, query_number, retrieval_queries
from ragtrace.attribution import (
    CoalitionLog,
    Curves,
    Method,
    area_between,
    default_budget,
    integrated_gradients_of_many,
    perturbation_curves,
)
from ragtrace.attribution.game import MAX_PLAYERS, Coalitions, Values, all_coalitions
from ragtrace.attribution.integrated_gradients import gradient, gradient_times_input
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.tokens import Baseline
from ragtrace.errors import ConfigurationError
from ragtrace.plausible_values import sampling_weight
from ragtrace.types import RequestRecord

__all__ = ["METHODS", "Faithfulness", "MethodFaithfulness", "Removed", "faithfulness"]

Floats: TypeAlias = NDArray[np.float64]
Removed: TypeAlias = Literal["documents", "query tokens", "document tokens"]
"""What is removed: documents of a prompt, or tokens of a retrieval's two sides."""
OnProgress: TypeAlias = Callable[[int, int], None]

METHODS: Final = tuple(
    map(Method.parse, ("gp", "pmcshap", "kernelshap:paired=true", "kernelshap", "mcshap", "permutation"))
)
"""The estimators of the documents' shares that are compared, unless told otherwise."""
LEAVE_ONE_OUT: Final = "leave_one_out"
_EXACT: Final = "exact"
_SIDES: Final[dict[Side, Removed]] = {"query": "query tokens", "document": "document tokens"}
_STEPS: Final = 20  # in which the tokens of a text leave
_GRID: Final = np.linspace(0, 1, 11)
_AT_ONCE: Final = 64  # points that a retriever is asked for in one call


@dataclass(frozen=True, slots=True)
class MethodFaithfulness:
    """One method over requests. `aipc`: the area between LeRF and MoRF, in [-1, 1], higher is more faithful, 0 is what
    a random order has; `morf`, `lerf`: the mean of both curves, in [0, 1], after 0, 10, ..., 100 % were removed.
    `difference`: `aipc` minus that of the first method, over the requests that both have; None for the first itself.
    """

    removed: Removed
    method: str
    aipc: WeightedMean
    morf: tuple[float, ...]
    lerf: tuple[float, ...]
    difference: WeightedMean | None


@dataclass(frozen=True, slots=True)
class Faithfulness:
    """All methods over the same requests; 95 % bootstrap intervals over requests. `skipped`: reasons with how many
    requests they keep out, by what is removed. `generator`, `retriever`: the models."""

    methods: tuple[MethodFaithfulness, ...]
    requests: int
    skipped: Mapping[str, Mapping[str, int]]
    generator: str | None = None
    retriever: str | None = None
    seed: int = 0


def faithfulness(
    records: Sequence[RequestRecord],
    *,
    generator: GeneratorEngine | None = None,
    retriever: RetrieverEngine | EmbeddingEngine | None = None,
    methods: Sequence[Method] = METHODS,
    budget: int | None = None,
    documents: int = 3,
    baseline: Baseline = "unk",
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Faithfulness:
    """Judge estimators, leaving one document out and attention (generator), Integrated Gradients, its gradients and
    leaving one token out (retriever).

    budget: prompts of each estimate; by default half of all subsets up to 6 documents, so that estimates differ from
    the exact values, and 8 k beyond. documents: whose retrieval is judged in each request, the best ranked ones; a
    request counts once, by their mean. seed: of the intervals.

    Raises: ConfigurationError without a model, or for a budget that a method cannot use, ServerError, ScoringStopped.
    """
    if generator is None and retriever is None:
        raise ConfigurationError(
            "faithfulness is judged by a model; give a generator (--generator MODEL), or a retriever"
        )
    if any(method.name in ("auto", _EXACT) for method in methods):
        raise ConfigurationError.of("method", "auto or exact", "estimators: gp, pmcshap, ...; exact is always compared")
    if retriever is not None and not isinstance(retriever, RetrieverEngine):
        raise ConfigurationError.of(
            "retriever", retriever.name, "a model that is loaded here; servers show no gradients"
        )
    found = _Found()
    skipped = {"answer": Skipped(), "retrieval": Skipped()}
    for done, record in enumerate(records, 1):
        if generator is not None:
            with skipped["answer"].noted(record.request_id):
                found.add(record, "documents", [_of_answer(record, generator, methods, budget)])
        if retriever is not None:
            with skipped["retrieval"].noted(record.request_id):
                for removed, samples in _of_retrieval(record, retriever, documents, baseline).items():
                    found.add(record, removed, samples)
        if on_progress is not None:
            on_progress(done, len(records))
    return Faithfulness(
        methods=tuple(found.judged(seed)),
        requests=len(records),
        skipped={side: dict(one.reasons) for side, one in skipped.items() if one.reasons},
        generator=generator.name if generator is not None else None,
        retriever=retriever.name if retriever is not None else None,
        seed=seed,
    )


@dataclass(slots=True)
class _Found:
    """Areas and curves by what is removed, method and request."""

    areas: defaultdict[Removed, defaultdict[str, dict[str, float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    curves: defaultdict[tuple[Removed, str], list[Floats]] = field(default_factory=lambda: defaultdict(list))
    weights: dict[str, float] = field(default_factory=dict)

    def add(self, record: RequestRecord, removed: Removed, samples: Sequence[Mapping[str, Curves]]) -> None:
        """The samples of one request, which counts once."""
        self.weights[record.request_id] = sampling_weight(record.head_probability)
        for method in samples[0]:
            curves = [sample[method] for sample in samples]
            self.areas[removed][method][record.request_id] = float(np.mean([area_between(each) for each in curves]))
            self.curves[removed, method].append(np.mean([_on_grid(each) for each in curves], axis=0))

    def judged(self, seed: int) -> list[MethodFaithfulness]:
        """All methods, in the order in which they were given."""
        found = []
        for removed in get_args(Removed):
            by_method = self.areas[removed]
            first = next(iter(by_method), "")
            for method, areas in by_method.items():
                shared = {each: areas[each] - by_method[first][each] for each in areas if each in by_method[first]}
                morf, lerf = self._mean_curves(removed, method, areas)
                found.append(
                    MethodFaithfulness(
                        removed=removed,
                        method=method,
                        aipc=self._mean(areas, seed),
                        morf=tuple(morf.tolist()),
                        lerf=tuple(lerf.tolist()),
                        difference=self._mean(shared, seed) if method != first and shared else None,
                    )
                )
        return found

    def _mean(self, values: Mapping[str, float], seed: int) -> WeightedMean:
        found = estimated(list(values.values()), [self.weights[each] for each in values], seed)
        assert found is not None  # there is a request
        return found

    def _mean_curves(self, removed: Removed, method: str, areas: Mapping[str, float]) -> Floats:
        weights = [self.weights[each] for each in areas]
        return np.asarray(np.average(self.curves[removed, method], axis=0, weights=weights))


def _on_grid(curves: Curves) -> Floats:
    """MoRF and LeRF, normalized, after 0, 10, ..., 100 % were removed: `(2, 11)`."""
    found = curves.normalized()
    places = np.linspace(0, 1, len(found.morf))
    return np.stack([np.interp(_GRID, places, curve) for curve in (found.morf, found.lerf)])


def _of_answer(
    record: RequestRecord, engine: GeneratorEngine, methods: Sequence[Method], budget: int | None
) -> dict[str, Curves]:
    """The curves of each method for the documents of one prompt."""
    prompts = SubsetPrompts.of(record)
    k = len(prompts.documents)
    if not 2 <= k <= MAX_PLAYERS:
        raise Unexplained(
            f"the prompt has {k} documents; an order needs 2 or more, and at most {MAX_PLAYERS} can be explained"
        )

    def prompt_of(kept: Sequence[bool]) -> str:
        return prompts.of_documents({each for each, stays in zip(prompts.documents, kept, strict=True) if stays})

    game = PromptGame(engine, prompts.answer, prompts.of_documents(prompts.documents), k, prompt_of)
    log = CoalitionLog(k)
    is_complete = 1 << k <= default_budget(k)
    if is_complete:
        log.evaluate(game, all_coalitions(k))
    shares = dict[str, Floats]()
    for method in methods:
        most = max((1 << k) // 2, k + 1) if is_complete and budget is None else budget
        estimate = method.values(game, k, budget=most, seed=seed_of(record), continue_from=log)
        log = estimate.log
        shares[str(method)] = estimate.scores
    shares[LEAVE_ONE_OUT] = _drops(log, game)
    if isinstance(engine, CausalLM):
        shares["attention"] = np.array(attention_of_documents(prompts, engine))
    if is_complete:
        shares[_EXACT] = Method(_EXACT).values(game, k, continue_from=log).scores

    def known(coalitions: Coalitions) -> Values:
        log.evaluate(game, coalitions)
        return log.values_of(coalitions)

    return {name: perturbation_curves(known, each) for name, each in shares.items()}


def _drops(log: CoalitionLog, game: PromptGame) -> Floats:
    """What the answer's mean log-probability loses without each document alone."""
    k = log.n_players
    coalitions = np.concatenate([np.ones((1, k), dtype=np.bool_), ~np.eye(k, dtype=np.bool_)])
    log.evaluate(game, coalitions)
    values = log.values_of(coalitions).mean(axis=1)
    return np.asarray(values[0] - values[1:])


def _of_retrieval(
    record: RequestRecord, engine: RetrieverEngine, most: int, baseline: Baseline
) -> dict[Removed, list[dict[str, Curves]]]:
    """The curves of each method, a sample for each of the best ranked documents."""
    chunks = record.packing.chunks if record.packing is not None else ()
    packed = tuple(dict.fromkeys(chunk.chunk_id for chunk in chunks))
    queries = retrieval_queries(record)
    if not queries[0].strip():
        raise Unexplained("the query's text was not kept; capture_content='full' keeps it")
    documents = retrieved_documents(record, ranking_of(record, packed) or packed)[:most]
    if not documents:
        raise Unexplained("no document with a text that was kept")
    found: dict[Removed, list[dict[str, Curves]]] = {}
    for side, removed in _SIDES.items():
        samples = [
            _of_side(
                engine.gradients(queries[query_number(record, chunk_id)], [text], of=side, baseline=baseline), side
            )
            for chunk_id, text in documents
        ]
        known = [sample for sample in samples if sample]
        if known:
            found[removed] = known
    if not found:
        raise Unexplained("query and documents have a single token each, so that nothing has an order")
    return found


def _of_side(gradients: Gradients, side: Side) -> dict[str, Curves]:
    """The curves of one pair's tokens by each method; none of a text with a single token."""
    own = np.array([token.part == side for token in gradients.tokens[0]])
    places = np.flatnonzero(own)
    if len(places) < 2:
        return {}
    inputs, start = gradients.inputs[0], gradients.baselines[0]

    def value_and_grad(points: Floats) -> tuple[Floats, Floats]:
        return gradients.value_and_grad(points, np.zeros(len(points), dtype=np.intp))

    def game(kept: Coalitions) -> Values:
        """The score with the baseline's vector in place of each token that is not kept."""
        shown = np.ones((len(kept), len(own)), dtype=np.bool_)
        shown[:, places] = kept
        values = [
            gradients.value(np.where(part[:, :, None], inputs, start), np.zeros(len(part), dtype=np.intp))
            for part in (shown[at : at + _AT_ONCE] for at in range(0, len(shown), _AT_ONCE))
        ]
        return np.concatenate(values).astype(np.float64)[:, None]

    (integrated,) = integrated_gradients_of_many(gradients.value_and_grad, [inputs], [start], value=gradients.value)
    full = np.ones((1, len(places)), dtype=np.bool_)
    values = game(np.concatenate([full, ~np.eye(len(places), dtype=np.bool_)]))[:, 0]
    weights = {
        "integrated_gradients": integrated.values[places],
        "gradient": gradient(value_and_grad, inputs)[places],
        "gradient_times_input": gradient_times_input(value_and_grad, inputs)[places],
        LEAVE_ONE_OUT: values[0] - values[1:],
    }
    return {name: perturbation_curves(game, each, steps=_STEPS) for name, each in weights.items()}
