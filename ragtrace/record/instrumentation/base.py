"""What the instrumentors of all frameworks stand on: the interface of `opentelemetry-instrument`, patches that can be
undone, and runs: requests and stages that begin in one call of a framework and end in another, joined by its run ids.
"""

from __future__ import annotations

import inspect
import logging
import sys
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from importlib import import_module
from types import FrameType
from typing import Any, ClassVar, Final

import wrapt
from opentelemetry.context import Context, attach, create_key, get_current, get_value, set_value
from opentelemetry.instrumentation.dependencies import DependencyConflictError
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # see its first line
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from ragtrace.errors import RagtraceError
from ragtrace.record._recorder import Recorder, active
from ragtrace.record._recording import Recording, is_failure, within
from ragtrace.record._verbs import GenerateInstrument, PackInstrument, RerankInstrument, RetrieveInstrument
from ragtrace.record.coercion import Known, read_chunks, read_packing, read_prompt
from ragtrace.record.coercion.values import first, text
from ragtrace.record.guard import guarded
from ragtrace.record.requests import RequestRecording, current_recording
from ragtrace.types import PackRun, RerankRun, RetrieveRun

__all__ = [
    "Instrumentor",
    "Patches",
    "Run",
    "Runs",
    "begin_generation",
    "begin_retrieval",
    "begin_stage",
    "called_from",
    "close_request",
    "covered",
    "covering",
    "end_retrieval",
    "finish",
    "open_request",
    "read_question",
    "usable_recorder",
]

_NOTHING: Final = object()
_LOG: Final = logging.getLogger("ragtrace")


def usable_recorder() -> Recorder | None:
    """The recorder in use; None without one, and under OpenTelemetry's `suppress_instrumentation`."""
    recorder = active()
    return recorder if recorder is not None and is_instrumentation_enabled() else None


def called_from(depth: int, *packages: str, through: str = "wrapt") -> bool:
    """Whether the caller `depth` frames up belongs to one of these packages (by prefix); `through` is passed over."""
    frame: FrameType | None = sys._getframe(depth + 1)
    name = ""
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name.partition(".")[0] not in (through, "wrapt"):
            break
        frame = frame.f_back
    return name.startswith(packages)


class Patches:
    """Wrapped functions and methods, with what stood there before.

    Every wrapper looks at `is_on` first: one that cannot be taken out, because somebody wrapped it again, is inert.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """Put `wrapper(wrapped, instance, args, kwargs)` around `owner.name`; nothing when there is no such name."""
        original = vars(owner).get(name)
        if original is None or isinstance(original, wrapt.FunctionWrapper):
            return
        patched = wrapt.FunctionWrapper(original, wrapper, enabled=lambda: self.is_on)
        setattr(owner, name, patched)
        self._undo.append((owner, name, original, patched))

    def add(self, owner: Any, name: str, value: Any) -> None:
        """Put `value` where `owner` itself has nothing of this name."""
        setattr(owner, name, value)
        self._undo.append((owner, name, _NOTHING, vars(owner)[name]))

    def wrap_calls(self, owner: Any, name: str, sync: Callable[..., Any], later: Callable[..., Any]) -> None:
        """`wrap` with the wrapper that fits to a function or to a coroutine function."""
        original = inspect.unwrap(getattr(owner, name, None))  # type: ignore[arg-type]
        self.wrap(owner, name, later if inspect.iscoroutinefunction(original) else sync)

    def remove(self) -> None:
        """Put everything back that still stands where it was put."""
        self.is_on = False
        while self._undo:
            owner, name, original, patched = self._undo.pop()
            if vars(owner).get(name) is not patched:
                continue
            if original is _NOTHING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


class Instrumentor(BaseInstrumentor):  # type: ignore[misc]  # its methods are not annotated
    """One framework. Hooks are put in place when the host imports `module`, at once if it has."""

    module: ClassVar[str]
    _instruments: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        if not hasattr(self, "patches"):  # a singleton, whose __init__ runs at every call
            self.patches = Patches()

    def instrumentation_dependencies(self) -> Collection[str]:
        """The framework's versions that are supported."""
        return self._instruments

    def conflict(self) -> str | None:
        """What stands against it: a missing distribution, or a version that is not supported."""
        found = self._check_dependency_conflicts()
        return None if found is None else f"{found.required} is supported, {found.found or 'none'} is installed"

    def _instrument(self, *, configure: bool = True, **kwargs: Any) -> None:
        if configure:  # started by `opentelemetry-instrument`, which leaves the check and the settings to us
            conflict = self._check_dependency_conflicts()
            if conflict is not None:
                raise DependencyConflictError(conflict)
            _configure()
        self.patches.is_on = True
        wrapt.register_post_import_hook(self._arrived, self.module)

    def _uninstrument(self, **kwargs: Any) -> None:
        self.withdraw()
        self.patches.remove()

    def _arrived(self, module: Any) -> None:
        if not self.patches.is_on:
            return
        with guarded(f"instrument.{self.module}"):  # it may not be what it was; the host's import must not fail
            self.apply()

    @abstractmethod
    def apply(self) -> None:
        """Put hooks and patches in place; the framework is imported."""

    def withdraw(self) -> None:
        """Take the hooks back; patches are removed without it."""
        return


def _configure() -> None:
    """Settings from the environment, unless the host has configured ragtrace."""
    if active() is not None:
        return
    try:
        import_module("ragtrace").configure()  # upwards, late and by name: only for `opentelemetry-instrument`
    except RagtraceError as error:
        _LOG.error("nothing is recorded: %s", error)


_PROMPT: Final = "prompt"  # the name of packings that were found in a prompt, when nobody recorded a packer
_COVERED: Final = create_key("ragtrace-covered")
_STAGES: Final = {
    kind.operation: kind for kind in (RetrieveInstrument, RerankInstrument, PackInstrument, GenerateInstrument)
}
_LIMIT: Final = 4096  # runs that are open at once; a stream that nobody reads to its end must not stay for ever
_KEYS: Final = (
    *("query", "question", "user_query", "search_query", "query_str", "q", "input", "messages", "message"),
    *("str_or_query_bundle", "prompt", "text"),
)
_USER: Final = ("user", "human")
_ROLES: Final = (*_USER, "system", "developer", "assistant", "ai", "tool")
_DEPTH: Final = 4


def covering(context: Context | None = None) -> Context:
    """A context in which a framework's own stage is being recorded: what libraries do below it is part of it."""
    return set_value(_COVERED, True, context)


def covered() -> bool:
    """Whether an outer framework records what happens here."""
    return bool(get_value(_COVERED))


def open_request(name: str, question: Any = None) -> RequestRecording | None:
    """A request of its own, not yet current; None when nothing is recorded."""
    recorder = usable_recorder()
    if recorder is None:
        return None
    request = RequestRecording(recorder, name)
    found = read_question(question)
    if found:
        request.update({"query": found})
    return request


def close_request(request: RequestRecording, error: BaseException | None = None) -> None:
    """End a request that was opened here. One without any stage (an indexing pipeline) leaves no record."""
    if error is not None and is_failure(error):
        request.fail(error)
    elif request.runs or request.flags:
        request.finish()
    else:
        request.abandon()


def begin_stage(
    operation: str, name: str, inputs: Mapping[str, Any], request: RequestRecording | None = None
) -> Recording | None:
    """A stage of `request`, else of the current request, else of a request of its own; not yet current."""
    recorder = request.recorder if request is not None else usable_recorder()
    if recorder is None:
        return None
    given = {key: value for key, value in inputs.items() if value is not None}
    outside = request is not None and current_recording(recorder) is not request
    with within(request.context if request is not None and outside else None):
        recording: Recording = _STAGES[operation](given, name=name, versions=None).record(recorder, name, given)
        return recording


def begin_generation(
    name: str, model: str | None, prompt: str | None, request: RequestRecording | None = None
) -> Recording | None:
    """A generation, after the packing that its prompt shows."""
    recorder = usable_recorder()
    request = request or (current_recording(recorder) if recorder is not None else None)
    if request is not None and prompt:
        with guarded("packing.generate"):
            _record_packing(prompt, request)
    return begin_stage("generate", name, {"model": model, "prompt": prompt}, request)


def _record_packing(prompt: str, request: RequestRecording) -> None:
    """Which candidates stand in the prompt, unless a packer was recorded since the last retrieval or reranking."""
    for run in reversed(request.runs):
        if isinstance(run, RetrieveRun | RerankRun):
            break
        if isinstance(run, PackRun) and run.name != _PROMPT:
            return
    questions = (request.query, request.rewritten)
    found = read_packing(prompt, Known(request.candidates()), (), None, questions).packing.chunks
    if not found:  # a prompt that rewrites the question or plans a search holds no evidence
        return
    recording = begin_stage("pack", _PROMPT, {}, request)
    if recording is not None:
        recording.end({"chunks": list(found), "prompt": prompt})


class Run:
    """One run of a framework (a chain, a retriever call, an LLM call) in its request."""

    __slots__ = ("former", "inner", "mark", "owner", "parent", "request", "stage")

    def __init__(self, request: RequestRecording, owner: bool, parent: Run | None) -> None:
        self.request = request
        self.owner = owner
        self.parent = parent
        self.stage: Recording | None = None
        self.inner = False  # another retriever ran inside of this one
        self.mark = len(request.runs)  # how many stages had ended before
        self.former: tuple[Context, Context] | None = None  # the context before `enter`, and its own

    def enter(self, context: Context) -> None:
        """Make `context` current; only where the end of this run comes from the same call of the framework."""
        self.former = (get_current(), context)
        attach(context)

    def leave(self) -> None:
        """Make current what was before `enter`, where that still is."""
        if self.former is not None:
            before, own = self.former
            self.former = None
            if get_current() is own:
                attach(before)  # not detach(token): a token is bound to one context, and ends may come in a copy


class Runs:
    """The open runs of one framework by its ids. Bounded: the oldest is closed when there are too many."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._open: OrderedDict[Hashable, Run] = OrderedDict()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._open)

    def find(self, key: Hashable) -> Run | None:
        """The open run with this id."""
        return self._open.get(key)

    def all(self) -> list[Run]:
        """The open runs, oldest first."""
        return list(self._open.values())

    def begin(self, key: Hashable, parent: Hashable, name: str, question: Any = None) -> Run | None:
        """A run in its parent's request, else in the current one, else in a request of its own."""
        recorder = usable_recorder()
        if recorder is None:
            return None
        above = self._open.get(parent)
        request = above.request if above is not None else current_recording(recorder)
        owner = request is None or request.ended
        if owner:
            request = open_request(name, question)
        elif request is not None and request.query is None and (found := read_question(question)):
            request.update({"query": found})
        return None if request is None else self.keep(key, Run(request, owner, above))

    def keep(self, key: Hashable, run: Run) -> Run:
        """Have `run` open under this id."""
        self._open[key] = run
        while len(self._open) > self._limit:
            try:
                _, oldest = self._open.popitem(last=False)
            except KeyError:  # another thread was first
                break
            finish(oldest)
        return run

    def pop(self, key: Hashable) -> Run | None:
        """The run with this id, no longer open."""
        return self._open.pop(key, None)


def begin_retrieval(run: Run, name: str, inputs: Mapping[str, Any]) -> None:
    """Begin the retrieval that `run` is."""
    above = run.parent
    while above is not None:
        above.inner = True
        above = above.parent
    run.stage = begin_stage("retrieve", name, inputs, run.request)


def end_retrieval(run: Run, hits: Any) -> None:
    """End the retrieval that `run` is.

    A retriever over other retrievers that returns nothing but what these found (merging, compressing) gives it another
    order: that is a reranking, unless one was recorded inside of it.
    """
    stage, request = run.stage, run.request
    if stage is None:
        return
    if not run.inner or not _all_known(hits, request):
        stage.end(hits)
        return
    if not any(isinstance(each, RerankRun) for each in request.runs[run.mark :]):
        reranking = begin_stage("rerank", stage.name, {}, request)
        if reranking is not None:
            reranking.end(hits)
    run.stage = None
    stage.ended = True  # no retrieval of its own: its span ends without a run
    if stage.span is not None:
        stage.span.end()


def _all_known(hits: Any, request: RequestRecording) -> bool:
    known = list(request.candidates())
    ids, texts = {each.chunk_id for each in known}, {each.text for each in known if each.text is not None}
    return all(chunk.chunk_id in ids or chunk.text in texts for _, chunk in read_chunks(hits).ranked)


def finish(run: Run, error: BaseException | None = None) -> None:
    """End a run without a value: its stage, and its request when the run opened it."""
    run.leave()
    if run.stage is not None and not run.stage.ended:
        if error is None or not is_failure(error):
            run.stage.finish()
        else:
            run.stage.fail(error)
    if run.owner:
        close_request(run.request, error)


def read_question(value: Any, depth: int = _DEPTH) -> str | None:
    """The question; None when there is none to be found. The last message of a user wins."""
    found = text(value)
    if found is not None or value is None or not depth:
        return found or None
    if isinstance(value, Mapping):
        return _in_mapping(value, depth)
    if isinstance(value, tuple) and len(value) == 2 and value[0] in _ROLES:
        return read_question(value[1], depth - 1) if value[0] in _USER else None
    if isinstance(value, list | tuple):
        return _in_messages(value, depth)
    return _said(value) or text(first(value, "query_str")) or None


def _in_mapping(value: Mapping[Any, Any], depth: int) -> str | None:
    if "content" in value:
        return _said(value)
    for key in _KEYS:
        found = read_question(value[key], depth - 1) if value.get(key) else None
        if found:
            return found
    inner = (read_question(item, depth - 1) for item in value.values() if isinstance(item, Mapping))
    return next((found for found in inner if found), None)


def _in_messages(messages: list[Any] | tuple[Any, ...], depth: int) -> str | None:
    for message in reversed(messages):
        inner = isinstance(message, list | tuple | str)  # ("user", "…"), batches, plain texts
        found = read_question(message, depth - 1) if inner else _said(message)
        if found:
            return found
    return None


def _said(message: Any) -> str | None:
    """What a user's message says."""
    role = first(message, "role", "type")
    role = getattr(role, "value", role)
    return read_prompt([message]) if role in _USER else None
