"""The work of a worker: settings that can be sent to another process, doing it there, how far it is, and its GPUs."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ragtrace.analyze import worker
from ragtrace.analyze._exposures import counted_key
from ragtrace.analyze.explainer import Depths
from ragtrace.analyze.worker import OnResult, WorkerSettings, WorkSummary
from ragtrace.engines.classifier_outputs import Role
from ragtrace.engines.judge_budget import Budget
from ragtrace.engines.model_names import load_judges
from ragtrace.engines.models import gpu_count, torch_threads
from ragtrace.engines.tokens import counting
from ragtrace.errors import ConfigurationError, RagtraceError, WorkerError
from ragtrace.object_loading import load_object
from ragtrace.probe import load_probe
from ragtrace.store import Store

if TYPE_CHECKING:
    from ragtrace.analyze._verification import AnswerVerifier
    from ragtrace.analyze.analysis import QuestionTypes
    from ragtrace.analyze.explainer import Explainer
    from ragtrace.coverage import ReadEntities

__all__ = [
    "VISIBLE",
    "OnProgress",
    "OpenResults",
    "State",
    "Stop",
    "Tell",
    "Work",
    "do",
    "gpus_for_each",
    "gpus_of",
    "report",
    "sendable",
    "visible_gpus",
]

OnProgress: TypeAlias = Callable[[WorkSummary], None]
OpenResults: TypeAlias = Callable[[], AbstractContextManager[OnResult]]
Stop: TypeAlias = Callable[[], bool]

_ELSEWHERE = ("http://", "https://", "chat:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What each worker gets. Models go by name: each worker loads its own.

    store: the URL. settings: without models. probe: `module:attribute` of what asks the index. question_types: that of
    what tells types of questions. explaining: further arguments of the `Explainer`. judges: by role, `entails` in place
    of verifier; judge_calibrations: files of theirs. judge_tokens: that those behind servers may spend in an hour.
    results: opens what takes each committed result, a function of a module. torch_threads: of each worker's models on
    the CPU; None leaves them alone. environment: variables that the worker's process gets before it loads anything.
    """

    store: str = field(repr=False)  # it may hold a password
    settings: WorkerSettings = field(default_factory=WorkerSettings)
    generator: str | None = field(default=None, repr=False)  # so may the address of a server
    retriever: str | None = field(default=None, repr=False)
    verifier: str | None = None
    embeddings: str | None = None
    judges: Mapping[Role, str] = field(default_factory=dict, repr=False)
    judge_calibrations: Mapping[Role, str] = field(default_factory=dict)
    judge_tokens: float | None = None
    entities: str | None = None
    probe: str | None = None
    question_types: str | None = None
    explaining: Mapping[str, Any] = field(default_factory=dict)
    results: OpenResults | None = None
    torch_threads: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def has_local_models(self) -> bool:
        """Whether torch computes in the workers themselves."""
        named = (self.generator, self.retriever, self.verifier, self.embeddings, *self.judges.values())
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
        judges = load_judges(
            work.judges,
            budget=Budget(tokens_per_hour=work.judge_tokens),
            calibrations=work.judge_calibrations,
        )
        settings = replace(
            work.settings,
            tokenizers=counting,
            owner=owner,
            explainer=_explainer(work),
            verifier=judges.entails or _verifier(work.verifier),
            relevance=judges.relevant,
            answers=judges.answers,
            embeddings=_embeddings(work.embeddings),
            entities=_reader(work.entities),
            probe=None if work.probe is None else load_probe(work.probe),
            question_types=None if work.question_types is None else _question_types(work.question_types),
        )
        with Store.open(work.store) as store:
            if on_start is not None:
                on_start()
            return worker.run(store, settings, on_progress=on_progress, on_result=on_result, stop=stop)


def _explainer(work: Work) -> Explainer | None:
    """What explains requests, where models are given."""
    if not (work.generator or work.retriever):
        return None
    from ragtrace.analyze.explainer import Explainer
    from ragtrace.engines.model_names import load_generator, load_retriever

    return Explainer(
        generator=load_generator(work.generator) if work.generator else None,
        retriever=load_retriever(work.retriever) if work.retriever else None,
        depths=Depths.parse() if work.settings.depths is None else work.settings.depths,
        provider=counted_key(work.settings.provider),
        **work.explaining,
    )


def _question_types(name: str) -> QuestionTypes:
    """The host's own classifier of questions. Raises: ConfigurationError where the name is of no function."""
    allowed = "module:function, which takes a question and returns its type"
    found: QuestionTypes = load_object(name, "question types", allowed)
    if not callable(found):
        raise ConfigurationError.of("question types", name, allowed)
    return found


def _verifier(model: str | None) -> AnswerVerifier | None:
    if model is None:
        return None
    from ragtrace.engines.verifier import EntailmentVerifier

    return EntailmentVerifier.load(model)


def _embeddings(model: str | None) -> AnswerVerifier | None:
    if model is None:
        return None
    from ragtrace.engines.verifier import EmbeddingVerifier

    return EmbeddingVerifier.load(model)


def _reader(pipeline: str | None) -> ReadEntities | None:
    if pipeline is None:
        return None
    from ragtrace.engines.spacy_pipelines import EntityReader

    return EntityReader.load(pipeline)


_log = logging.getLogger("ragtrace.analyze")


@dataclass(frozen=True, slots=True)
class State:
    """Whether a worker has begun to work, and whether it works no more.

    error: why it ended too soon. is_gone: its process ended and said nothing.
    """

    has_begun: bool = False
    is_over: bool = False
    is_gone: bool = False
    summary: WorkSummary = field(default_factory=WorkSummary)
    error: Exception | None = None


Tell: TypeAlias = Callable[[State], None]


def report(work: Work, owner: str, tell: Tell, stop: Stop) -> None:
    """Do the work and tell each state, the last one also where the work fails."""
    state = State()

    def note(summary: WorkSummary) -> None:
        nonlocal state
        state = State(has_begun=True, summary=replace(summary))
        tell(state)

    try:
        summary = do(work, owner=owner, on_start=lambda: note(WorkSummary()), on_progress=note, stop=stop)
        tell(State(has_begun=True, is_over=True, summary=summary))
    except Exception as error:  # it is raised where the workers are watched
        tell(replace(state, is_over=True, error=error))


def sendable(state: State) -> State:
    """The state with an error that another process can read; what nobody expected is logged here with its traceback."""
    error = state.error
    if error is None or isinstance(error, WorkerError):
        return state
    if isinstance(error, RagtraceError):
        return replace(state, error=WorkerError(str(error)))
    _log.error("a worker of the analyzer fails", exc_info=error)
    return replace(state, error=WorkerError(f"{type(error).__name__}: {error}"))


VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def visible_gpus() -> list[str]:
    """The names of the GPUs that torch sees, as CUDA_VISIBLE_DEVICES has them."""
    count = gpu_count()
    named = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return (named or [str(number) for number in range(count)])[:count]


def gpus_for_each(workers: int, gpus: int, wanted: float | None) -> float:
    """How many GPUs each worker gets: what is wanted, else one, or an equal part of one where there are fewer.

    Raises: ConfigurationError when so many workers cannot have what is wanted.
    """
    evenly = 0.0 if not gpus else 1 / math.ceil(workers / gpus)
    if wanted is None:
        return evenly
    if not 0 <= wanted < math.inf or (wanted > 1 and wanted != int(wanted)):
        raise ConfigurationError.of("gpus per worker", wanted, "0, a part of one GPU, or a whole number")
    room = gpus * int(1 / wanted + 1e-9) if 0 < wanted <= 1 else gpus // max(int(wanted), 1)
    if wanted and workers > room:
        most = max(evenly, float(gpus // workers))
        raise ConfigurationError.of("gpus per worker", wanted, f"at most {most:g}: GPUs {gpus}, workers {workers}")
    return wanted


def gpus_of(number: int, share: float, gpus: Sequence[str]) -> list[str]:
    """The GPUs of the worker of this number, from 0; several workers share one where each has a part of it."""
    if not share:
        return []
    if share <= 1:
        return [gpus[number // int(1 / share + 1e-9)]]
    return list(gpus[number * int(share) : (number + 1) * int(share)])
