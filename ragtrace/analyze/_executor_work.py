"""The work of workers: settings that can be sent to another process, doing it there, how far it is, its GPUs, and the
supervisor of several.

A worker that cannot begin ends the whole: its model or its store would fail the next one as well. One that fails later,
or whose process is gone, is replaced, after a pause that doubles, up to RESTARTS times within a minute. What it had
leased is freed at once; should it live on somewhere, cut off, the fence refuses its results.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from ragtrace.analyze import worker
from ragtrace.analyze._exposures import counted_key
from ragtrace.analyze.explainer import Depths
from ragtrace.analyze.worker import OnResult, WorkerSettings, WorkSummary
from ragtrace.engines.model_names import load_judges
from ragtrace.engines.model_server import Budget
from ragtrace.engines.models import gpu_count, torch_threads
from ragtrace.engines.text_pairs import Role
from ragtrace.engines.tokens import counting
from ragtrace.errors import ConfigurationError, RagtraceError, StoreError, WorkerError
from ragtrace.object_loading import load_object
from ragtrace.probe import load_probe
from ragtrace.store import Store

if TYPE_CHECKING:
    from ragtrace.analyze._verification import AnswerVerifier
    from ragtrace.analyze.analysis import QuestionTypes
    from ragtrace.analyze.explainer import Explainer
    from ragtrace.coverage import ReadEntities

__all__ = [
    "RESTARTS",
    "VISIBLE",
    "OnProgress",
    "OpenResults",
    "Start",
    "State",
    "Stop",
    "Tell",
    "Work",
    "Worker",
    "do",
    "gpus_for_each",
    "gpus_of",
    "report",
    "sendable",
    "visible_gpus",
    "watch",
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


RESTARTS: Final = 5  # of one worker, within a minute
_MINUTE: Final = 60.0
_LOOK: Final = 0.1


class Worker(Protocol):
    """One worker that runs beside the caller."""

    def state(self) -> State:
        """Its state now; never waits."""

    def stop(self) -> None:
        """Ask it to commit what is at hand and to end."""

    def kill(self) -> None:
        """End it at once, if it can be ended, and give back what it took."""


Start: TypeAlias = Callable[[int, Work, str], Worker]
"""Starts the worker of this number, for this work, as this owner of leases."""


def watch(
    start: Start,
    work: Work,
    workers: int,
    *,
    replaces: bool = True,
    on_progress: OnProgress | None = None,
    stop: Stop | None = None,
) -> WorkSummary:
    """Have so many workers do the work, and return what all of them did. replaces: whether one that fails is replaced.

    Raises: WorkerError, or the worker's own error, when one cannot start or fails for good. The others commit what they
    have at hand first.
    """
    crew = _Crew(start, work, workers, replaces)
    try:
        crew.run(on_progress, stop)
    finally:
        crew.kill()
    return crew.summary


class _Place:
    """A worker and those that took its place: what they did, and how often it had to be filled anew."""

    def __init__(self, number: int, limit: int | None) -> None:
        self.number = number
        self.limit = limit
        self.worker: Worker | None = None
        self.owner = ""
        self.state = State()
        self.before = WorkSummary()
        self.has_begun = False  # one of them did
        self.starts_at: float | None = 0.0
        self.ends: deque[float] = deque(maxlen=RESTARTS + 1)

    @property
    def summary(self) -> WorkSummary:
        return _sum(self.before, self.state.summary)

    @property
    def left(self) -> int | None:
        """How many jobs it may still do; None without a limit."""
        return None if self.limit is None else self.limit - self.summary.done - self.summary.failed

    @property
    def is_free(self) -> bool:
        """Whether nobody works here, and nobody is about to."""
        return self.worker is None and self.starts_at is None

    def pause(self, now: float) -> float | None:
        """How long to wait before the next one starts; None when too many have ended."""
        self.ends.append(now)
        lately = sum(now - at < _MINUTE for at in self.ends)
        return None if lately > RESTARTS else 0.0 if lately == 1 else 2.0 ** (lately - 2)


class _Crew:
    def __init__(self, start: Start, work: Work, workers: int, replaces: bool) -> None:
        self._start = start
        self._work = work
        self._replaces = replaces
        self._name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._started = 0
        self._stopping = False
        self._gone: list[str] = []  # owners that ended without finishing their jobs
        self._places = [_Place(number, limit) for number, limit in enumerate(_shares(work.settings.limit, workers))]

    @property
    def summary(self) -> WorkSummary:
        return _sum(*(place.summary for place in self._places))

    def run(self, on_progress: OnProgress | None, stop: Stop | None) -> None:
        """Until all have ended."""
        told = WorkSummary()
        try:
            while not all(place.is_free for place in self._places) or self._resumes():
                if stop is not None and stop():
                    self._stop()
                for place in self._places:
                    self._look(place)
                if on_progress is not None and self.summary != told:
                    told = self.summary
                    on_progress(told)
                time.sleep(_LOOK)
        except Exception:
            self._wind_up()
            raise

    def kill(self) -> None:
        """End those that are left."""
        for place in self._places:
            if place.worker is not None:
                place.worker.kill()
                place.worker = None
                self._gone.append(place.owner)
        self._release()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            for place in self._places:
                place.starts_at = None
                if place.worker is not None:
                    place.worker.stop()

    def _look(self, place: _Place) -> None:
        if place.starts_at is not None and time.monotonic() >= place.starts_at:
            self._fill(place)
        if place.worker is None:
            return
        place.state = place.worker.state()
        place.has_begun |= place.state.has_begun
        if not place.state.is_over:
            return
        place.worker.kill()
        place.worker = None
        if place.state.error is not None:
            self._gone.append(place.owner)
            if not self._stopping:
                self._replace(place, place.state.error)

    def _fill(self, place: _Place) -> None:
        place.before, place.state, place.starts_at = place.summary, State(), None
        self._started += 1
        place.owner = f"{self._name}.{self._started}"
        settings = replace(self._work.settings, limit=place.left)
        place.worker = self._start(place.number, replace(self._work, settings=settings), place.owner)

    def _replace(self, place: _Place, error: Exception) -> None:
        if not (self._replaces and (place.has_begun or place.state.is_gone)):
            raise error
        self._release()
        pause = place.pause(time.monotonic())
        if pause is None:
            raise WorkerError(
                f"worker {place.number} ended more than {RESTARTS} times within a minute: {error}"
            ) from error
        _log.warning("worker %d of the analyzer is replaced: %s", place.number, error)
        if place.left != 0:
            place.starts_at = time.monotonic() + pause

    def _resumes(self) -> bool:
        """Whether jobs came free, when all had ended, that the last transaction of a worker that is gone still held."""
        if self._stopping or not self._gone or not self._release():
            return False
        place = next((each for each in self._places if each.left != 0), None)
        if place is not None:
            place.starts_at = 0.0
        return place is not None

    def _release(self) -> int:
        """Free what the workers that are gone had leased."""
        if not self._gone:
            return 0
        try:
            with Store.open(self._work.store) as store:
                return sum(store.release_jobs(owner) for owner in self._gone)
        except StoreError as error:
            _log.warning("jobs of workers that ended are free when their leases run out: %s", error)
            return 0

    def _wind_up(self) -> None:
        """Let those that work commit what they have at hand."""
        self._stopping = True
        for place in self._places:
            place.starts_at = None
            if place.worker is not None and place.state.has_begun:
                place.worker.stop()
        while busy := [place for place in self._places if place.worker is not None and place.state.has_begun]:
            for place in busy:
                self._look(place)
            time.sleep(_LOOK)


def _shares(limit: int | None, workers: int) -> list[int | None]:
    """How many jobs each may do."""
    if limit is None:
        return [None] * workers
    share, more = divmod(limit, workers)
    return [share + (number < more) for number in range(min(limit, workers))]


def _sum(*parts: WorkSummary) -> WorkSummary:
    return WorkSummary(
        done=sum(each.done for each in parts),
        failed=sum(each.failed for each in parts),
        lost=sum(each.lost for each in parts),
    )
