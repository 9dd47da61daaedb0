"""The verbs `request`, `retrieve`, `rerank`, `pack`, `generate`: each a decorator and a context manager, whose `with`
block gives the host a handle: the running request, or of a stage what takes its result. Behind each verb stands an
instrument: which inputs it looks for, what it records, which handle it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, overload

from ragtrace.record._decorators import Slot, StageDecorator
from ragtrace.record._recorder import Recorder, active
from ragtrace.record._recording import Recording
from ragtrace.record.guard import guarded
from ragtrace.record.requests import JoinedRecording, RequestRecording, current_recording, put_baggage, read_flags
from ragtrace.record.stages import GenerateRecording, PackRecording, RerankRecording, RetrieveRecording, StageRecording
from ragtrace.types import Facet, SampledRanking

__all__ = [
    "GenerateInstrument",
    "GenerationHandle",
    "PackInstrument",
    "PackingHandle",
    "Request",
    "RerankInstrument",
    "RerankingHandle",
    "RetrievalHandle",
    "RetrieveInstrument",
    "current_request",
    "generate",
    "pack",
    "request",
    "rerank",
    "retrieve",
]


class Request:
    """A running request, as the host sees it.

    Where nothing is recorded (ragtrace is not configured, or no request runs) `recording` is False, `request_id` is
    empty and all methods do nothing, so that no host needs to ask first.
    """

    __slots__ = ("_recording", "request_id", "trace_id")

    def __init__(self, recording: RequestRecording | None = None) -> None:
        self._recording = recording
        self.request_id: str = recording.request_id if recording is not None else ""
        self.trace_id: str | None = recording.trace_id if recording is not None else None

    @property
    def recording(self) -> bool:
        """Whether what is set now still reaches the record."""
        return self._recording is not None and not self._recording.ended

    def set(
        self,
        *,
        query: str | None = None,
        rewritten: str | None = None,
        query_class: str | None = None,
        segment: str | None = None,
        facets: Iterable[Facet | Mapping[str, Any]] | None = None,
        tenant_id: str | None = None,
        session_id: str | None = None,
        versions: Mapping[str, str] | None = None,
        cites: bool | None = None,
        sampled_ranking: SampledRanking | Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Add what becomes known during the request; `versions` and `attributes` merge, all else replaces.

        cites: whether the request's answer is meant to cite its sources; by default that is learned from what the
        application's answers do.
        sampled_ranking: where the order of the candidates was drawn at random: the `alpha` and `log_probability` of
        its first `places`, as `ragtrace.exposure` gives them.
        """
        values = {
            "query": query, "rewritten": rewritten, "query_class": query_class, "segment": segment, "facets": facets,
            "tenant_id": tenant_id, "session_id": session_id, "versions": versions, "cites": cites,
            "sampled_ranking": sampled_ranking, "attributes": attributes,
        }  # fmt: skip
        self._update("request.set", values)

    def flag(self, name: str) -> None:
        """Keep this request whatever the sample rate, and say why: `flag("empty_answer")`; also after its end."""
        recording = self._recording
        if recording is None:
            return
        if not recording.ended:
            self._update("request.flag", {"flag": name})
        if not recording.ended:
            return
        with guarded("request.flag", recording.recorder.guard):
            recording.recorder.sink.flag(recording.request_id, tuple(read_flags(name)))

    def grade(self, grades: Mapping[str, Any] | None = None, *, action: str | None = None) -> None:
        """What the host's own evaluator says of what was retrieved, as corrective retrieval does.

        grades: by chunk id, each from −1 (irrelevant) to 1, or a yes or no; several calls add up. action: what was done
        then: CORRECT (gone on with it), AMBIGUOUS (searched as well) or INCORRECT (searched instead).
        """
        self._update("request.grade", {"graded": {"grades": grades, "action": action}})

    def _update(self, where: str, values: Mapping[str, Any]) -> None:
        recording = self._recording
        if recording is None:
            return
        guard = recording.recorder.guard
        if recording.ended:
            guard.count(where, "ended", "the request has ended; set before it returns")
            return
        with guarded(where, guard):
            recording.update(values)


_NOT_RECORDED: Final = Request()


def current_request() -> Request:
    """The request that runs here: `ragtrace.current_request().flag("fallback")`. Never None."""
    recorder = active()
    recording = current_recording(recorder) if recorder is not None else None
    return Request(recording) if recording is not None else _NOT_RECORDED


class _Handle:
    """Passes a result to its recording; without one it does nothing."""

    __slots__ = ("_recording",)

    def __init__(self, recording: Recording | None = None) -> None:
        self._recording = recording

    def _accept(self, value: Any) -> None:
        if self._recording is not None:
            self._recording.accept(value)


class _GradedHandle(_Handle):
    """A call that returns candidates, which the host may grade."""

    __slots__ = ()

    def grade(self, grades: Mapping[str, Any] | None = None, *, action: str | None = None) -> None:
        """As `current_request().grade`."""
        if isinstance(self._recording, StageRecording):
            Request(self._recording.request).grade(grades, action=action)


class RetrievalHandle(_GradedHandle):
    """A retriever call in a `with` block."""

    def candidates(self, hits: Any) -> None:
        """What the retriever returned, best first."""
        self._accept(hits)


class RerankingHandle(_GradedHandle):
    """A reranker call in a `with` block."""

    def candidates(self, hits: Any) -> None:
        """What the reranker returned, best first."""
        self._accept(hits)


class PackingHandle(_Handle):
    """A packing in a `with` block."""

    def packed(self, chunks: Any) -> None:
        """The packed chunks in prompt order, or a mapping of `chunks`, `dropped`, `prompt`, or the prompt alone."""
        self._accept(chunks)


class GenerationHandle(_Handle):
    """A generator call in a `with` block."""

    def answer(self, answer: Any) -> None:
        """The answer, or the response that holds it."""
        self._accept(answer)


F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H")

Versions: TypeAlias = Mapping[str, str]
Facets: TypeAlias = Iterable[Facet | Mapping[str, Any]]
From: TypeAlias = Callable[..., Any]  # takes a value from the decorated function's arguments, or from its result

_QUERY: Final = Slot(
    ("query", "question", "q", "user_query", "search_query", "query_text", "text", "prompt", "message", "input"), (str,)
)
_CANDIDATES: Final = Slot(
    ("candidates", "documents", "docs", "hits", "results", "chunks", "nodes", "passages", "ranked", "items"),
    (list, tuple),
)
_LABEL: Final = Slot(is_label=True)


@overload
def request(function: F, /) -> F: ...
@overload
def request(
    *,
    query: str | From | None = None,
    query_class: str | From | None = None,
    segment: str | From | None = None,
    facets: str | Facets | From | None = None,
    tenant_id: str | From | None = None,
    session_id: str | From | None = None,
    request_id: str | From | None = None,
    flag: str | bool | From | None = None,
    cites: bool | str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> StageDecorator[Request]: ...
def request(
    function: Callable[..., Any] | None = None,
    /,
    *,
    query: str | From | None = None,
    query_class: str | From | None = None,
    segment: str | From | None = None,
    facets: str | Facets | From | None = None,
    tenant_id: str | From | None = None,
    session_id: str | From | None = None,
    request_id: str | From | None = None,
    flag: str | bool | From | None = None,
    cites: bool | str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a request: all stages that run inside of it stand in one record.

        @ragtrace.request(query="payload.question", segment="payload.product")
        def answer(payload): ...

        with ragtrace.request(query=text, query_class="policy_date") as request:
            request.flag("vip")

    As a decorator, arguments say where a value is: a parameter's name, a dotted path that begins with one, or a
    function of the arguments; `query_class`, `segment`, `tenant_id`, `session_id`, `request_id` and `flag` may also
    be the value itself, as `cites` is (whether the answer is meant to cite its sources; by default that is learned from
    what the application's answers do). In a `with` statement they are the values.
    """
    given = {
        "query": query,
        "query_class": query_class,
        "segment": segment,
        "facets": facets,
        "tenant_id": tenant_id,
        "session_id": session_id,
        "request_id": request_id,
        "flag": flag,
        "cites": cites,
    }
    return _made(_RequestInstrument(given, name=name, versions=versions), function)


@overload
def retrieve(function: F, /) -> F: ...
@overload
def retrieve(
    *,
    query: str | From | None = None,
    top_k: str | int | From | None = None,
    source: str | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> StageDecorator[RetrievalHandle]: ...
def retrieve(
    function: Callable[..., Any] | None = None,
    /,
    *,
    query: str | From | None = None,
    top_k: str | int | From | None = None,
    source: str | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a retriever call: its query and every candidate that it returns.

        @ragtrace.retrieve
        def search(query: str, top_k: int) -> list[Hit]: ...

        with ragtrace.retrieve(query=text, top_k=50) as run:
            run.candidates(index.search(text, 50))

    `returns` says where in the value the candidates are: a dotted path (`"hits"`) or a function of the value.
    """
    given = {"query": query, "top_k": top_k, "source": source}
    return _made(RetrieveInstrument(given, name=name, versions=versions, returns=returns), function)


@overload
def rerank(function: F, /) -> F: ...
@overload
def rerank(
    *,
    candidates: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> StageDecorator[RerankingHandle]: ...
def rerank(
    function: Callable[..., Any] | None = None,
    /,
    *,
    candidates: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a reranker call: each chunk's rank before and after. Without an input list, the last retriever's is it.

    @ragtrace.rerank
    def rerank(query: str, hits: list[Hit]) -> list[Hit]: ...
    """
    given = {"candidates": candidates}
    return _made(RerankInstrument(given, name=name, versions=versions, returns=returns), function)


@overload
def pack(function: F, /) -> F: ...
@overload
def pack(
    *,
    budget: str | int | From | None = None,
    candidates: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> StageDecorator[PackingHandle]: ...
def pack(
    function: Callable[..., Any] | None = None,
    /,
    *,
    budget: str | int | From | None = None,
    candidates: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a packing: which chunks reached the prompt, in which order, cut where, and which did not, and why.

        @ragtrace.pack(budget="max_tokens")
        def build_prompt(hits, max_tokens): ...

    The function may return chunks, a mapping or object with `chunks`, `dropped`, `budget_tokens` and `prompt`, or
    just the prompt: then the candidates whose text stands in it were packed.
    """
    given = {"budget": budget, "candidates": candidates}
    return _made(PackInstrument(given, name=name, versions=versions, returns=returns), function)


@overload
def generate(function: F, /) -> F: ...
@overload
def generate(
    *,
    model: str | From | None = None,
    prompt: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> StageDecorator[GenerationHandle]: ...
def generate(
    function: Callable[..., Any] | None = None,
    /,
    *,
    model: str | From | None = None,
    prompt: str | Iterable[Any] | From | None = None,
    returns: str | From | None = None,
    versions: Versions | None = None,
    name: str | None = None,
) -> Any:
    """Record a generator call: the answer, its citations, token usage and finish reason; a stream is joined.

    @ragtrace.generate(model="gpt-4o")
    def complete(prompt: str) -> str: ...
    """
    given = {"model": model, "prompt": prompt}
    return _made(GenerateInstrument(given, name=name, versions=versions, returns=returns), function)


def _made(instrument: StageDecorator[Any], function: Callable[..., Any] | None) -> Any:
    return instrument if function is None else instrument(function)


class _RequestInstrument(StageDecorator[Request]):
    """Records requests."""

    operation = "request"
    slots: ClassVar[Mapping[str, Slot]] = {
        "query": _QUERY,
        "query_class": _LABEL,
        "segment": _LABEL,
        "facets": Slot(),
        "tenant_id": _LABEL,
        "session_id": _LABEL,
        "request_id": _LABEL,
        "flag": _LABEL,
        "cites": Slot(),
    }

    def record(self, recorder: Recorder, name: str, inputs: Mapping[str, Any]) -> Recording:
        """A request; inside of another one, a part of that."""
        values, request_id = inputs, inputs.get("request_id")
        if request_id is not None or self.versions is not None:
            values = {**inputs, "versions": self.versions}
            values.pop("request_id", None)
        outer = current_recording(recorder)
        if outer is not None:
            known = {
                "query": outer.query,
                "segment": outer.segment,
                "query_class": outer.query_class,
                "cites": outer.cites,
            }
            outer.update({key: value for key, value in values.items() if known.get(key) is None})
            return JoinedRecording(recorder, name, outer)
        recording = RequestRecording(recorder, name, None if request_id is None else str(request_id) or None)
        recording.update(values)
        if recorder.config.baggage:
            put_baggage(recording)
        return recording

    def handle(self, recording: Recording | None) -> Request:
        """The request."""
        if isinstance(recording, JoinedRecording):
            return Request(recording.outer)
        return Request(recording if isinstance(recording, RequestRecording) else None)


class _StageInstrument(StageDecorator[H]):
    """Records runs of one stage."""

    recording: type[StageRecording]
    handle_type: Callable[[Recording | None], H]

    def record(self, recorder: Recorder, name: str, inputs: Mapping[str, Any]) -> Recording:
        """A run of the stage."""
        recording = self.recording(recorder, name, inputs, self.given)
        if self.versions is not None:
            recording.request.update({"versions": self.versions})
        return recording

    def handle(self, recording: Recording | None) -> H:
        """What takes the stage's result."""
        return self.handle_type(recording)


class RetrieveInstrument(_StageInstrument[RetrievalHandle]):
    """Records retriever calls."""

    operation = "retrieve"
    recording = RetrieveRecording
    handle_type = RetrievalHandle
    slots: ClassVar[Mapping[str, Slot]] = {
        "query": _QUERY,
        "top_k": Slot(("top_k", "k", "limit", "n_results", "num_results")),
        "source": _LABEL,
    }


class RerankInstrument(_StageInstrument[RerankingHandle]):
    """Records reranker calls."""

    operation = "rerank"
    recording = RerankRecording
    handle_type = RerankingHandle
    slots: ClassVar[Mapping[str, Slot]] = {"candidates": _CANDIDATES}


class PackInstrument(_StageInstrument[PackingHandle]):
    """Records packings."""

    operation = "pack"
    recording = PackRecording
    handle_type = PackingHandle
    slots: ClassVar[Mapping[str, Slot]] = {
        "candidates": _CANDIDATES,
        "budget": Slot(("budget", "budget_tokens", "token_budget", "max_tokens", "max_context_tokens")),
    }


class GenerateInstrument(_StageInstrument[GenerationHandle]):
    """Records generator calls."""

    operation = "generate"
    recording = GenerateRecording
    handle_type = GenerationHandle
    slots: ClassVar[Mapping[str, Slot]] = {
        "model": Slot(("model", "model_name"), is_label=True),
        "prompt": Slot(("prompt", "messages")),
    }
