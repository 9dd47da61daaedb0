"""One explanation: why a request's documents were retrieved, what its answer used, and how well both agree."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from ragtrace.analyze._generator_attribution import (
    ClosedEngine,
    Engine,
    GeneratorEngine,
    LeavingOut,
    Stopping,
    attention_of_documents,
    compare_methods,
    explain_documents,
    explain_words,
    item_utilities,
    leave_out_documents,
)
from ragtrace.analyze._retriever_attribution import EmbeddingEngine, RetrieverEngine, explain_retrieval
from ragtrace.analyze.alignment import align, ranking_of
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained
from ragtrace.analyze.scores import Measure
from ragtrace.attribution import Method
from ragtrace.config import SETTINGS
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.model_names import is_silent
from ragtrace.engines.tokens import Baseline
from ragtrace.errors import AttributionError
from ragtrace.explanations import Alignment, Explanation, GeneratorAttribution
from ragtrace.types import RequestRecord, replace

__all__ = [
    "ASKED",
    "DOCUMENTS",
    "NO_MODEL",
    "PARTS",
    "SIMILARITY",
    "ClosedEngine",
    "EmbeddingEngine",
    "GeneratorEngine",
    "OnProgress",
    "Part",
    "RetrieverEngine",
    "compare_attention",
    "compare_methods",
    "explain_record",
    "seed_of",
]

NO_MODEL: Final = "no model was given"
"""Why a part is missing for which a worker was given no model."""
_PERSISTENCE: Final = 0.9
"""The p of the WARG that is counted; an explanation holds those of all p."""


Part: TypeAlias = Literal["generator", "query", "retriever", "utility"]
OnProgress: TypeAlias = Callable[[Part, int], None]
"""Takes a part and how far it is: coalitions that were scored; of the retriever, sides (of two)."""

ASKED: Final[tuple[Part, ...]] = ("generator", "query", "retriever")
"""What is explained of a request unless told otherwise."""
PARTS: Final[tuple[Part, ...]] = (*ASKED, "utility")
DOCUMENTS: Final[int] = SETTINGS["explain_documents"].default
"""Documents whose retrieval is explained, unless told otherwise."""
SIMILARITY: Final[str] = SETTINGS["explain_similarity"].default
"""By which answers of a closed model are compared, unless told otherwise."""
_AUTO: Final = Method()
_DESIGNS: Final = 4  # which coalitions are scored is found out by seed, for seconds where documents are many


def seed_of(record: RequestRecord) -> int:
    """The seed of a request's estimates, by its id."""
    return int.from_bytes(hashlib.blake2b(record.request_id.encode(), digest_size=2).digest(), "big") % _DESIGNS


def explain_record(
    record: RequestRecord,
    *,
    generator: GeneratorEngine | ClosedEngine | None = None,
    retriever: RetrieverEngine | EmbeddingEngine | None = None,
    method: Method = _AUTO,
    compared: Sequence[Method] = (),
    similarity: str = SIMILARITY,
    sentences: bool = False,
    budget: int | None = None,
    seed: int | None = None,
    parts: Collection[Part] = ASKED,
    reference_answer: str = "",
    settle: float | None = None,
    target_standard_error: float | None = None,
    documents: int = DOCUMENTS,
    baseline: Baseline = "unk",
    renumbered: bool = True,
    known: Explanation | None = None,
    on_progress: OnProgress | None = None,
) -> Explanation:
    """Explain one record as far as models are given; `skipped` says by part what is missing, and why.

    Args:
        record: with its texts.
        generator: scores the answer for subsets of the prompt's documents, and of the question's words. A model that
            tells nothing but its answers, as many a server's chat, gives weights by leaving each document out, and none
            to words.
        retriever: gives the token gradients of retrieval scores; one that gives vectors alone gets weights of words by
            leaving each out.
        method: which estimator gives the shares, and its settings; of words, "exact" is taken for "auto".
        compared: further methods that read the subsets of documents that were scored.
        similarity: by which answers are compared of a model that tells nothing else; `cosine` needs a retriever that
            makes vectors. sentences: whether such a model answers again without each sentence of its prompt as well.
        budget: the most coalitions of each Shapley estimate; see `shapley_values`.
        seed: of the estimates; by default `seed_of(record)`.
        parts: which ones are wanted: generator, query, retriever, utility.
        reference_answer: what the answer should have been, where that is known; see `item_utilities`.
        settle: ends the generator's part early once its ranking is settled so surely; see `shapley_values`. Of up to
            six documents the values are always exact.
        target_standard_error: ends an estimate early once no share has a larger error, in nats.
        documents: how many documents' retrieval is explained: the prompt's by rank, then other candidates.
        baseline: what tokens are compared with in the retriever's part.
        renumbered: whether the documents of a subset count from 1 (as the paper has it) or keep their numbers.
        known: an earlier explanation of the record: where the same model made it, its scores are not computed again.
        on_progress: called while it goes on.

    Raises: ModelError and AttributionError where a model cannot do it: a text longer than its context, values that are
    no numbers, no token for the baseline; ConfigurationError for a budget that the method cannot use. It would fail
    again.
    """
    wanted = [part for part in PARTS if part in parts]
    stopping = Stopping(settle, target_standard_error)
    run = _Run(
        record=record,
        parts=wanted,
        method=method,
        compared=compared,
        leaving_out=LeavingOut(similarity, retriever if isinstance(retriever, EmbeddingEngine) else None, sentences),
        budget=budget,
        seed=seed_of(record) if seed is None else seed,
        stopping=stopping,
        known=known or Explanation(),
        on_progress=on_progress,
    )
    if generator is not None and {"generator", "query", "utility"} & set(wanted):
        with run.metered(generator):
            run.explain_answer(generator, renumbered, reference_answer)
    if retriever is not None and "retriever" in wanted:
        with run.metered(retriever), run.noted("retriever"):
            run.explain_retrieval(retriever, documents, baseline)
    given: dict[Part, Engine | None] = {each: retriever if each == "retriever" else generator for each in PARTS}
    run.skipped |= {part: NO_MODEL for part in wanted if given[part] is None}
    return replace(run.found, skipped=run.skipped, seconds=run.seconds, gpu_seconds=run.gpu_seconds, device=run.device)


@dataclass(slots=True)
class _Run:
    """One explanation in the making: what was found, why something is missing, and what it cost."""

    record: RequestRecord
    parts: Sequence[Part]
    method: Method
    compared: Sequence[Method]
    leaving_out: LeavingOut
    budget: int | None
    seed: int
    stopping: Stopping
    known: Explanation
    on_progress: OnProgress | None
    found: Explanation = field(default_factory=Explanation)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    device: str = "cpu"

    @contextmanager
    def metered(self, engine: Engine) -> Iterator[None]:
        """Count what an engine takes, also where it fails."""
        started = time.perf_counter()
        if engine.device != "cpu":
            self.device = engine.device
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            self.seconds += spent
            if engine.device.startswith("cuda"):
                self.gpu_seconds += spent

    @contextmanager
    def noted(self, *names: str) -> Iterator[None]:
        """Note why these parts cannot be explained."""
        try:
            yield
        except Unexplained as reason:
            self.skipped |= dict.fromkeys(names, str(reason))

    def explain_answer(
        self, engine: GeneratorEngine | ClosedEngine, renumbered: bool, reference_answer: str = ""
    ) -> None:
        """What the generator made of the documents, of the question's words, and would make of each document alone."""
        with self.noted(*(part for part in self.parts if part != "retriever")):
            prompts = SubsetPrompts.of(self.record, renumbered=renumbered)
            if "generator" in self.parts:
                with self.noted("generator"):
                    self._explain_documents(prompts, engine)
            if "query" in self.parts:
                with self.noted("query"):
                    self._explain_words(prompts, engine)
            if "utility" in self.parts:
                with self.noted("utility"):
                    found = item_utilities(
                        self.record, prompts, engine, reference=reference_answer, on_progress=self._progress("utility")
                    )
                    self.found = replace(self.found, utility=found)

    def _explain_words(self, prompts: SubsetPrompts, engine: GeneratorEngine | ClosedEngine) -> None:
        if not isinstance(engine, GeneratorEngine) or is_silent(engine):
            raise Unexplained("the model gives no log-probabilities")
        words = explain_words(
            prompts,
            engine,
            method=self.method,
            budget=self.budget,
            seed=self.seed,
            target_standard_error=self.stopping.target_standard_error,
            known=self.known.query,
            on_progress=self._progress("query"),
        )
        self.found = replace(self.found, query=words)

    def _explain_documents(self, prompts: SubsetPrompts, engine: GeneratorEngine | ClosedEngine) -> None:
        ranking = ranking_of(self.record, prompts.documents)
        shares = self._shares(prompts, engine, ranking or prompts.documents)
        self.found = replace(self.found, generator=shares)
        with self.noted("alignment"):
            self.found = replace(self.found, alignment=align(ranking, shares))

    def _shares(
        self, prompts: SubsetPrompts, engine: GeneratorEngine | ClosedEngine, ranking: Sequence[str]
    ) -> GeneratorAttribution:
        if isinstance(engine, ClosedEngine) and is_silent(engine):
            return leave_out_documents(prompts, engine, self.leaving_out)
        if isinstance(engine, GeneratorEngine):
            return explain_documents(
                prompts,
                engine,
                ranking=ranking,
                method=self.method,
                compared=self.compared,
                budget=self.budget,
                seed=self.seed,
                stopping=self.stopping,
                known=self.known.generator,
                on_progress=self._progress("generator"),
            )
        return leave_out_documents(prompts, engine, self.leaving_out)

    def explain_retrieval(self, engine: RetrieverEngine | EmbeddingEngine, most: int, baseline: Baseline) -> None:
        """Why documents were retrieved: those of the prompt by rank, then other candidates."""
        chunks = self.record.packing.chunks if self.record.packing is not None else ()
        packed = tuple(dict.fromkeys(chunk.chunk_id for chunk in chunks))
        found = explain_retrieval(
            self.record,
            engine,
            ranking=ranking_of(self.record, packed) or packed,
            most=most,
            baseline=baseline,
            on_progress=self._progress("retriever"),
        )
        self.found = replace(self.found, retriever=found)

    def _progress(self, part: Part) -> Callable[[int], None] | None:
        on_progress = self.on_progress
        return None if on_progress is None else lambda done: on_progress(part, done)


def compare_attention(record: RequestRecord, found: GeneratorAttribution, model: CausalLM) -> GeneratorAttribution:
    """The same with attention times gradient of its documents beside their shares.

    Raises: ModelError of the model, AttributionError when the record's documents are others.
    """
    prompts = SubsetPrompts.of(record)
    if prompts.documents != found.chunk_ids:
        raise AttributionError("the attribution is of other documents than the record's prompt has; compute it anew")
    return replace(found, attention=attention_of_documents(prompts, model))


def warg_adjusted(explanation: Explanation) -> Measure:
    """WARG between its floor and its chance; the scores of an alignment are missing where no generator was wanted."""
    return _warg(explanation, attrgetter("adjusted"))


def warg(explanation: Explanation) -> Measure:
    """WARG as published."""
    return _warg(explanation, attrgetter("warg"))


def warg_floor(explanation: Explanation) -> Measure:
    """WARG of two equal rankings of as many documents."""
    return _warg(explanation, attrgetter("floor"))


def warg_chance(explanation: Explanation) -> Measure:
    """Mean WARG over all orders of as many documents."""
    return _warg(explanation, attrgetter("chance"))


def wasted_retrieval(explanation: Explanation) -> Measure:
    """Whether the answer hardly used the document that was ranked first."""
    return _aligned(explanation, lambda found: found.wasted_retrieval)


def noise_distraction(explanation: Explanation) -> Measure:
    """Whether the answer rests on a document that was ranked low."""
    return _aligned(explanation, lambda found: found.noise_distraction)


def _warg(explanation: Explanation, series: Callable[[Alignment], Sequence[float]]) -> Measure:
    return _aligned(explanation, lambda found: series(found)[found.ps.index(_PERSISTENCE)])


def _aligned(explanation: Explanation, value: Callable[[Alignment], float | None]) -> Measure:
    if explanation.generator is None and explanation.skipped.get("generator") in (None, NO_MODEL):
        return None
    if explanation.alignment is None:
        return "not_explained"
    known = value(explanation.alignment)
    if known is None:
        return "documents_not_used" if explanation.alignment.unused else "few_documents"
    return known


def completeness_delta(explanation: Explanation) -> float | None:
    """max_d |Σβ - (s(x) - s(x0))|: the largest error of the token attributions; None without any.

    Source: RAG-E, §3.1.
    """
    deltas = [abs(each.completeness_delta or 0.0) for each in explanation.retriever]
    return max(deltas, default=None)


def attribution_evaluations(explanation: Explanation) -> float:
    """Prompts that the generator scored, and gradients of the retriever."""
    parts = (explanation.generator, explanation.query, explanation.utility)
    estimates = [each.evaluations for each in parts if each is not None]
    return sum(estimates) + sum(each.evaluations for each in explanation.retriever)


def attribution_duration(explanation: Explanation) -> float:
    """What the explanation took, in seconds."""
    return explanation.seconds
