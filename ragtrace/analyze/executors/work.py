"""What a worker is to do, as plain values that can be sent to another process, and doing it there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ragtrace.analyze import worker
from ragtrace.analyze.depths import Depths
from ragtrace.analyze.index_probe import ProbeBudget
from ragtrace.analyze.worker import OnResult, WorkSummary
from ragtrace.engines.loading import torch_threads
from ragtrace.probe import load_probe
from ragtrace.store import Store

if TYPE_CHECKING:
    from ragtrace.analyze.explainer import Explainer
    from ragtrace.analyze.verifying import AnswerVerifier
    from ragtrace.coverage import ReadEntities

__all__ = ["OnProgress", "OpenResults", "Stop", "Work", "do"]

OnProgress: TypeAlias = Callable[[WorkSummary], None]
OpenResults: TypeAlias = Callable[[], AbstractContextManager[OnResult]]
Stop: TypeAlias = Callable[[], bool]

_ELSEWHERE = ("http://", "https://", "chat:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The settings of `worker.run`. Models go by name: each worker loads its own.

    store: the URL. probe: `module:attribute` of what
    asks the index. explaining: further arguments of the `Explainer`. results: opens what takes each committed result, a
    function of a module. torch_threads: of each worker's models on the CPU; None leaves them alone. environment:
    variables that the worker's process gets before it loads anything.
    """

    store: str
    follow: bool = False
    limit: int | None = None
    batch: int = 16
    lease_seconds: float = 60.0
    poll_seconds: float = 1.0
    low_score: float | None = None
    depths: Depths | None = None
    generator: str | None = None
    retriever: str | None = None
    verifier: str | None = None
    embeddings: str | None = None
    entities: str | None = None
    probe: str | None = None
    probe_budget: ProbeBudget | None = None
    explaining: Mapping[str, Any] = field(default_factory=dict)
    results: OpenResults | None = None
    torch_threads: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_local_models(self) -> bool:
        """Whether torch computes in the workers themselves."""
        named = (self.generator, self.retriever, self.verifier, self.embeddings)
        return any(name is not None and not name.startswith(_ELSEWHERE) for name in named)

    @property
    def beside_others(self) -> int | None:
        """The torch threads of one of several workers, unless OMP_NUM_THREADS says how many."""
        return 1 if self.has_local_models and "OMP_NUM_THREADS" not in os.environ else None


def do(
    work: Work,
    *,
    owner: str | None = None,
    on_start: Callable[[], None] | None = None,
    on_progress: OnProgress | None = None,
    stop: Stop | None = None,
) -> WorkSummary:
    """Load the models, open the store, then work. on_start is called in between.

    Raises: what loading a model and opening the store raise, and `worker.run`.
    """
    os.environ.update(work.environment)
    with (
        torch_threads(work.torch_threads),
        work.results() if work.results is not None else nullcontext() as on_result,
    ):
        explainer = _explainer(work)
        verifier, embeddings, entities = _verifier(work.verifier), _embeddings(work.embeddings), _reader(work.entities)
        probe = None if work.probe is None else load_probe(work.probe)
        with Store.open(work.store) as store:
            if on_start is not None:
                on_start()
            return worker.run(
                store,
                owner=owner,
                follow=work.follow,
                batch=work.batch,
                lease_seconds=work.lease_seconds,
                poll_seconds=work.poll_seconds,
                limit=work.limit,
                low_score=work.low_score,
                depths=work.depths,
                explainer=explainer,
                verifier=verifier,
                embeddings=embeddings,
                entities=entities,
                probe=probe,
                probe_budget=work.probe_budget,
                on_progress=on_progress,
                on_result=on_result,
                stop=stop,
            )


def _explainer(work: Work) -> Explainer | None:
    """What explains requests, where models are given."""
    if not (work.generator or work.retriever):
        return None
    from ragtrace.analyze.explainer import Explainer
    from ragtrace.engines.choosing import load_generator, load_retriever

    return Explainer(
        generator=load_generator(work.generator) if work.generator else None,
        retriever=load_retriever(work.retriever) if work.retriever else None,
        depths=Depths.parse() if work.depths is None else work.depths,
        **work.explaining,
    )


def _verifier(model: str | None) -> AnswerVerifier | None:
    if model is None:
        return None
    from ragtrace.engines.verifier import EntailmentVerifier

    return EntailmentVerifier.load(model)


def _embeddings(model: str | None) -> AnswerVerifier | None:
    if model is None:
        return None
    from ragtrace.engines.claim_embeddings import EmbeddingVerifier

    return EmbeddingVerifier.load(model)


def _reader(pipeline: str | None) -> ReadEntities | None:
    if pipeline is None:
        return None
    from ragtrace.engines.spacy_pipelines import EntityReader

    return EntityReader.load(pipeline)
