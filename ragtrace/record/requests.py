"""One request while it runs: what is known of it so far, what its stages hand on to each other, told by the identity of
the host's objects, and the draft at its end, which the background reads to build the record.

Session and tenant travel in OpenTelemetry baggage on request only: an instrumented client sends it to every service.
What is not asked for travels nowhere: the context holds the request under a private key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import chain
from operator import attrgetter, is_
from time import perf_counter_ns, time_ns
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeGuard

from opentelemetry import baggage
from opentelemetry.context import Context, create_key, get_current
from opentelemetry.trace import format_trace_id, get_current_span

from ragtrace.record._recorder import Recorder, is_sampled, new_request_id
from ragtrace.record._recording import Recording, describe_error
from ragtrace.record._spans import Attributes
from ragtrace.record.coercion import (
    Chunk,
    Known,
    Unreadable,
    read_facets,
    read_grades,
    read_prompt,
    read_sampled_ranking,
)
from ragtrace.record.coercion.chunks import read_chunk
from ragtrace.record.coercion.values import label, plain, size, within
from ragtrace.record.guard import Identity, behind, guarded, identity
from ragtrace.types import (
    Addendum,
    Candidate,
    Facet,
    HostGrades,
    Item,
    Query,
    RequestRecord,
    RetrieveRun,
    SampledRanking,
    StageRun,
)

__all__ = [
    "KEY",
    "JoinedRecording",
    "LeavingStage",
    "Part",
    "RequestDraft",
    "RequestRecording",
    "StageInput",
    "current_recording",
    "is_joined",
    "put_baggage",
    "read_flags",
]

KEY: Final = create_key("ragtrace-request")
ERROR_FLAG: Final = "error"
HOST_FLAG: Final = "host"  # `flag=True` gives no other name
UNFINISHED_FLAG: Final = "unfinished"
_RAISED: Final = 32  # exceptions of stages that are remembered
_FACET: Final = 200  # bytes of one without its texts, roughly
_GRADE: Final = 100
_BY_END: Final = attrgetter("ended_at")
_BASE: Final = 2000  # bytes of a request without what its stages took, roughly
_EMPTY: Final = Context()
_NONE: Final[tuple[int, dict[int, tuple[_Source, int]]]] = (0, {})
_ENTRIES: Final = {"session_id": "session.id", "tenant_id": "tenant.id"}


class RequestRecording(Recording):
    """A request from its start to its end. Runs stand in the order in which they ended."""

    operation = "request"
    context: Context

    query: str | None = None
    rewritten: str | None = None
    query_class: str | None = None
    segment: str | None = None
    facets: tuple[Facet, ...] = ()
    tenant_id: str | None = None
    session_id: str | None = None
    prompt: str | None = None
    latest: LeavingStage | None = None  # the stage whose chunks the next one goes on with
    head_sampled = True
    head_probability = 1.0
    is_decided = False
    is_durable = False  # on disk when the host's call returns, flagged or not
    weight = 0  # bytes of what was set
    is_expired = False
    _trace_id: str | None = None  # of a span, or a context, that it has let go
    _raised: Mapping[Identity, str] = MappingProxyType({})
    _known: tuple[int, Known] | None = None  # of how many retrievers, and what they returned

    def __init__(self, recorder: Recorder, name: str, request_id: str | None = None) -> None:
        self.recorder = recorder
        self.name = name
        self.clock = perf_counter_ns()
        self.started_at = time_ns()
        self.tracer = recorder.tracing.tracer()
        self.context = get_current()
        if self.tracer is not None:
            self.start_span(self.tracer, f"request {name}", self.context)
        self.context = Context({**self.context, KEY: self})
        self._request_id = request_id
        self.versions = dict(recorder.config.versions)
        self.cites = recorder.config.cites
        self.sampled_ranking: SampledRanking | None = None
        self.graded: HostGrades | None = None
        self.attributes: dict[str, Any] = {}
        self.flags: dict[str, None] = {}
        self.parts: list[Part] = []
        self.lineage: _Lineage = _Lineage()
        self._number = recorder.open.add(self)
        if recorder.config.baggage:
            _take_baggage(self)

    @property
    def request_id(self) -> str:
        """The host's id for it, else one of ours."""
        if self._request_id is None:
            # set once, also by two threads that ask for it at the same time
            self._request_id = vars(self).setdefault("_drawn_id", new_request_id(self.started_at))
        return self._request_id

    @property
    def known_id(self) -> str | None:
        """Its id when anybody was told it."""
        return self._request_id

    @property
    def trace_id(self) -> str | None:
        """The trace of its span, else of the host's."""
        if self._trace_id is not None:
            return self._trace_id
        if self.span is None and len(self.context) <= 1:  # nothing but the request stands there
            return None
        span = (self.span or get_current_span(self.context)).get_span_context()
        return format_trace_id(span.trace_id) if span.is_valid else None

    def update(self, values: Mapping[str, Any]) -> None:
        """Set what is given and not None; a value of a wrong type is counted and left out."""
        for name, value in values.items():
            if value is not None:
                try:
                    if name == "query" and type(value) is str:
                        self.query = value
                    elif type(value) is str:
                        self._set(name, value)
                    else:
                        self.read_some(partial(self._set, name), value)
                except Unreadable as error:
                    self.recorder.guard.count(f"coerce.{name}", error.kind, str(error))
                except BaseException as error:
                    self.recorder.guard.caught(f"coerce.{name}", error)

    def _set(self, name: str, value: Any) -> None:
        if name in ("query", "rewritten"):
            found = read_prompt(value)
            if found is None:
                raise Unreadable(value)
            setattr(self, name, found)
        elif name == "facets":
            self.facets = read_facets(value)
            self.weight += sum([_FACET + len(facet.value) + sum(map(len, facet.aliases)) for facet in self.facets])
        elif name in ("versions", "attributes"):
            if not isinstance(value, Mapping):
                raise Unreadable(value)
            taken = {str(key): plain(item) for key, item in within(value.items())}
            if name == "versions":
                taken = {key: str(version) for key, version in taken.items() if version is not None}
            getattr(self, name).update(taken)
            self.weight += size(taken)
        elif name == "cites":
            if not isinstance(value, bool):
                raise Unreadable(value)
            self.cites = value
        elif name == "sampled_ranking":
            self.sampled_ranking = read_sampled_ranking(value)
        elif name == "graded":
            self._grade(read_grades(value))
        elif name == "flag":
            self.flags.update(dict.fromkeys(read_flags(value)))
        else:
            setattr(self, name, said := label(value))
            self.weight += len(said)

    def _grade(self, said: HostGrades) -> None:
        """Grades of one evaluator call add to those before; of a chunk that is graded twice the last counts."""
        before = self.graded or HostGrades()
        known = {each.chunk_id: each for each in (*before.grades, *said.grades)}
        self.graded = HostGrades(grades=tuple(known.values()), action=said.action or before.action)
        self.weight += sum([_GRADE + len(each.chunk_id) for each in said.grades])

    def note_query(self, query: str) -> None:
        """The query that a retriever was given: the request's own when it has none yet, else its first rewrite."""
        if self.query is None:
            self.query = query
        elif self.rewritten is None and query != self.query:
            self.rewritten = query

    def note_stage_error(self, error: BaseException, stage: str) -> None:
        """Remember the innermost stage that an exception came from."""
        latest = list(self._raised.items())[1 - _RAISED :]
        self._raised = {**dict(latest), identity(error): self._raised.get(identity(error), stage)}

    def note_error(self, error: BaseException) -> None:
        """A request that ends with an exception is flagged."""
        stages = (self._raised.get(identity(each)) for each in behind(error))
        super().note_error(error)
        self.error = describe_error(error, next(filter(None, stages), None))
        self.flags[ERROR_FLAG] = None

    def add(self, part: Part) -> None:
        """Take a part that has ended; one that ends after its request, in a thread or task, follows by itself."""
        if not self.ended:
            self.parts.append(part)
            return
        with guarded("record.late", self.recorder.guard):
            self.latest = None
            self.recorder.sink.submit(_LateDraft(self, part))

    @property
    def runs(self) -> list[StageRun]:
        """The runs that have ended so far; reads what was taken."""
        return [run for part in self.parts if (run := part.read()) is not None]

    def candidates(self) -> Iterable[Candidate]:
        """All that retrievers have returned so far; reads what was taken."""
        return (candidate for run in self.runs if isinstance(run, RetrieveRun) for candidate in run.candidates)

    def known(self, earlier: int) -> Known:
        """What retrievers among the first `earlier` parts returned; reads them. Stages that know the same share it."""
        found = [run for part in self.parts[:earlier] if isinstance(run := part.read(), RetrieveRun)]
        count, known = self._known or (0, None)
        if known is None or count != len(found):
            known = Known(chain.from_iterable(run.candidates for run in found))
            self._known = len(found), known
        return known

    def let_go(self) -> None:
        """Once all stages are read: let go of what was known, and of the context."""
        self._known = None
        self.leave_context()

    def leave_context(self) -> None:
        """Let go of the context, which holds the request itself and its span, so that no garbage collection has to find
        the circle. Code of the host's may still run in the context of an expired one."""
        if not self.is_expired and self.context is not _EMPTY:
            self._trace_id = self.trace_id
            self.context = _EMPTY

    def forget_span(self) -> None:
        """Its trace is needed, too."""
        self._trace_id = self.trace_id
        super().forget_span()

    def take_at_once(self, value: Any) -> bool:
        """What a request returns is the host's own; the answer comes from its generate stage."""
        return True

    def take(self, value: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        """Hand over what the stages left; nothing of it stays with a context that outlives the request."""
        if self.recorder.open.leave(self._number):
            self._hand_over()

    def expire(self) -> None:
        """Close a request that does not end: it is recorded with what it has so far."""
        if self.recorder.open.leave(self._number):
            self.is_expired = True
            self.flags[UNFINISHED_FLAG] = None
            self.ended_at = self.now()
            self.ended = True
            self._hand_over()

    def abandon(self) -> None:
        """End without a record."""
        self.recorder.open.leave(self._number)
        super().abandon()

    def _hand_over(self) -> None:
        draft = RequestDraft(self, self.parts)
        self.lineage, self.latest = _NO_LINEAGE, None
        try:
            self.leave_context()
            self.decide()
            self.recorder.sink.submit(draft, durable=self.is_durable or bool(self.flags))
        except BaseException:
            draft.discard()
            raise

    def decide(self) -> None:
        """Take the head decision, once: at the end, since the host may name the segment at any time before, or when
        another process has to know it."""
        sampler = self.recorder.sampler
        if sampler is None or self.is_decided:
            return
        self.is_decided = True
        self.head_probability = sampler.probability(self.segment_label)
        self.head_sampled = is_sampled(self.trace_id or self.request_id, self.head_probability)

    @property
    def segment_label(self) -> str:
        """The segment as it stands in the record."""
        return self.segment or self.query_class or "default"

    def described(self) -> Attributes:
        """What the request is, and whether it is kept."""
        return self.recorder.descriptions.request(self, self.span)

    def outlined(self) -> Attributes:
        """The same without what was asked and answered."""
        return self.recorder.descriptions.request(self, self.span, outlined=True)

    def result(self, stages: tuple[StageRun, ...]) -> Item | None:
        """What is handed over at the end, when the request is kept."""
        return self.record(stages)

    def addendum(self, stages: tuple[StageRun, ...], flags: Iterable[str] = ()) -> Addendum:
        """What is to be added to the record later."""
        return Addendum(
            request_id=self.request_id,
            service=self.service,
            addendum_id=new_request_id(),
            created_at=time_ns(),
            flags=tuple(flags),
            stages=stages,
        )

    @property
    def service(self) -> str:
        """The application that the request belongs to."""
        return self.recorder.config.service

    def record(self, stages: tuple[StageRun, ...]) -> RequestRecord:
        """The record with these runs."""
        config = self.recorder.config
        query = Query(
            original=self.query or "", rewritten=self.rewritten, query_class=self.query_class, facets=self.facets
        )
        return RequestRecord(
            request_id=self.request_id,
            service=config.service,
            segment=self.segment_label,
            trace_id=self.trace_id,
            span_id=self.span_id,
            tenant_id=self.tenant_id,
            session_id=self.session_id,
            status="ok" if self.error is None else "error",
            error=self.error,
            started_at=self.started_at,
            ended_at=self.ended_at,
            query=query,
            versions=self.versions.copy(),
            cites=self.cites,
            sampled_ranking=self.sampled_ranking,
            graded=self.graded,
            stages=stages,
            flags=tuple(self.flags),
            head_sampled=self.head_sampled,
            head_probability=self.head_probability,
            attributes=self.attributes.copy(),
        )


class JoinedRecording(Recording):
    """A request inside a request: a span of its own, and its settings added to the one record of the outer request."""

    operation = "request"
    weight = 0

    def __init__(self, recorder: Recorder, name: str, outer: RequestRecording) -> None:
        super().__init__(recorder, name)
        self.started_at = outer.started_at + self.clock - outer.clock
        self.outer = outer
        if outer.tracer is not None:
            self.start_span(outer.tracer, f"request {name}", get_current())

    def take_at_once(self, value: Any) -> bool:
        """What a request returns is the host's own."""
        return True

    def take(self, value: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        """Only the outer request is handed over."""
        if self.span is not None:
            self.outer.add(self)

    def read(self) -> None:
        """It leaves no run."""

    def described(self) -> Attributes:
        """The request that it is a part of."""
        outer = self.outer
        return self.recorder.descriptions.part(outer.request_id, outer.session_id, self.span)

    def outlined(self) -> Attributes:
        """The same."""
        return self.described()


def current_recording(recorder: Recorder) -> RequestRecording | None:
    """The request that runs in this context; None outside of one."""
    found = get_current().get(KEY)
    return found if is_joined(found, recorder) else None


def is_joined(request: object, recorder: Recorder) -> TypeGuard[RequestRecording]:
    """Whether what is recorded now belongs to this request: it runs, also when `configure` was called since it began;
    but a forked child's is its parent's."""
    if request is None or not isinstance(request, RequestRecording) or request.ended:
        return False
    return request.recorder is recorder or not request.recorder.is_abandoned


def read_flags(value: Any) -> list[str]:
    """Names of flags: one, or several."""
    if isinstance(value, str | Enum) or value is True:
        return [HOST_FLAG if value is True else label(value)]
    return [label(flag) for flag in value] if isinstance(value, list | tuple | set | frozenset) else []


class Part(Protocol):
    """A stage, or a request inside the request, that has ended."""

    @property
    def weight(self) -> int:
        """Roughly how many bytes it holds."""

    def read(self) -> StageRun | None:
        """Its run in the record."""

    def end_span(self, *, outlined: bool = False) -> None:
        """End its span, `outlined` without reading."""


class _Draft:
    """What ended in a request and waits for the background: whose it is, and whether it is kept."""

    __slots__ = ("_request", "is_read", "weight")

    def __init__(self, request: RequestRecording, weight: int) -> None:
        self._request = request
        self.is_read = False
        self.weight = _BASE + weight

    @property
    def is_kept(self) -> bool:
        """Whether the request is in the sample or flagged."""
        return self._request.head_sampled or bool(self._request.flags)

    @property
    def is_outlined(self) -> bool:
        """Whether its spans say only what it is."""
        return not (self.is_kept or self._request.recorder.config.span_unsampled)

    @property
    def has_spans(self) -> bool:
        """Whether spans have to be ended."""
        return self._request.tracer is not None

    @property
    def known_id(self) -> str | None:
        """The request's id; None while nobody has asked for it, so that nobody can name it either."""
        return self._request.known_id


class RequestDraft(_Draft):
    """A request that has ended: its stages' values as they were taken, which the background reads."""

    __slots__ = ("_has_ended", "parts")

    def __init__(self, request: RequestRecording, parts: list[Part]) -> None:
        self._has_ended = False  # its spans
        texts = len(request.query or "") + len(request.rewritten or "")
        super().__init__(request, texts + request.weight + sum([part.weight for part in parts]))
        self.parts = parts

    @property
    def request(self) -> RequestRecording:
        """The request that has ended."""
        return self._request

    def build(self, flags: Iterable[str] = ()) -> Item | None:
        """The record with further flags. Ends the spans, children first."""
        request = self._request
        request.flags.update(dict.fromkeys(flags))
        try:
            runs = [run for part in self.parts if (run := part.read()) is not None]
            runs.sort(key=_BY_END)  # threads may have added theirs in another order
            return request.result(tuple(runs))
        finally:
            self.discard()

    def end_spans(self) -> None:
        """End the spans, children first; what was taken stays."""
        self._has_ended = True
        if self.has_spans:
            outlined = self.is_outlined
            for part in self.parts:
                part.end_span(outlined=outlined)
            self._request.end_span(outlined=outlined)
        self._request.leave_context()

    def discard(self) -> None:
        """End the spans, and let go of what was taken."""
        self.is_read = True
        if not self._has_ended:
            self.end_spans()
        self._request.let_go()
        self.parts.clear()


class _LateDraft(_Draft):
    """A stage that ended after its request, in a thread or task: it follows as an addendum to the record."""

    __slots__ = ("_part",)

    def __init__(self, request: RequestRecording, part: Part) -> None:
        super().__init__(request, part.weight)
        self._part = part

    def build(self, flags: Iterable[str] = ()) -> Addendum | None:
        """The addendum, with further flags. Ends the span."""
        try:
            run = self._part.read()
            return None if run is None else self._request.addendum((run,), flags)
        finally:
            self.discard()

    def end_spans(self) -> None:
        """End the span; what was taken stays."""
        self._part.end_span(outlined=self.is_outlined)

    def discard(self) -> None:
        """End the span."""
        self.is_read = True
        self.end_spans()


class LeavingStage(Protocol):
    """A stage that left chunks for the next one."""

    def left(self) -> list[str]:
        """Their ids, each once."""


class _Source(Protocol):
    """A stage that handed items on."""

    def identified(self) -> dict[int, str]:
        """The chunk ids of its items by their place, from 0."""


class StageInput:
    """What a stage was given: what the stage before it left, all that one stage handed on, or items of several stages
    and of the host's own."""

    __slots__ = ("_left", "_parts", "_whole")

    def __init__(
        self,
        left: LeavingStage | None = None,
        whole: _Source | None = None,
        parts: Sequence[tuple[_Source, int] | Chunk] = (),
    ) -> None:
        self._left = left
        self._whole = whole
        self._parts = parts

    def sources(self) -> tuple[LeavingStage | None, _Source | None, Sequence[tuple[_Source, int] | Chunk]]:
        """Where it comes from: one of the three."""
        return self._left, self._whole, self._parts

    def ids(self, known: Known) -> list[str]:
        """Its chunk ids, in order."""
        if self._left is not None:
            return self._left.left()
        if self._whole is not None:
            return list(self._whole.identified().values())
        found = []
        for part in self._parts:
            chunk_id = known.identify(part) if isinstance(part, Chunk) else part[0].identified().get(part[1])
            if chunk_id is not None:
                found.append(chunk_id)
        return found


class _Lineage:
    """The host's items as long as the request runs; none of them is held longer."""

    __slots__ = ("_outputs", "_places")

    def __init__(self) -> None:
        self._outputs: list[tuple[Sequence[Any], _Source]] = []
        self._places: tuple[int, dict[int, tuple[_Source, int]]] = _NONE  # how many outputs it covers

    def remember(self, items: Sequence[Any], source: _Source) -> None:
        """Keep what a stage returned."""
        self._outputs.append((items if type(items) is tuple else [*items], source))

    def recognize_whole(self, items: Any) -> StageInput | None:
        """What one stage returned, handed on as it was; None for all else. So it is most of the time."""
        if isinstance(items, list | tuple) and items:
            for known, source in reversed(self._outputs):
                if len(known) == len(items) and all(map(is_, known, items)):
                    return StageInput(None, source)
        return None

    def recognize(self, items: Iterable[Any]) -> StageInput:
        """Where a stage's inputs come from; an item that no stage returned is read. Raises: Unreadable."""
        listed = items if isinstance(items, list | tuple) else list(within(items))
        if (found := self.recognize_whole(listed)) is not None:
            return found
        outputs = self._outputs
        count, places = self._places
        if count != len(outputs):  # other threads may add to them
            taken = outputs.copy()
            places = {id(item): (source, place) for known, source in taken for place, item in enumerate(known)}
            self._places = len(taken), places
        return StageInput(parts=[places.get(id(item)) or read_chunk(item) for item in within(listed)])


class _NoLineage(_Lineage):
    """That of a request that has ended: a stage that is still running knows nothing of others."""

    def remember(self, items: Sequence[Any], source: _Source) -> None:
        """Nobody goes on with it."""


_NO_LINEAGE: Final = _NoLineage()


def _take_baggage(request: RequestRecording) -> None:
    """Set what the incoming baggage says; what the host gives itself replaces it."""
    for name in request.recorder.config.baggage:
        found = baggage.get_baggage(_ENTRIES[name], request.context)
        if isinstance(found, str) and found:
            setattr(request, name, found)


def put_baggage(request: RequestRecording) -> None:
    """Add what is known at the request's start to the baggage of the context in which it runs."""
    for name in request.recorder.config.baggage:
        known = getattr(request, name)
        if known is not None:
            request.context = baggage.set_baggage(_ENTRIES[name], known, request.context)
