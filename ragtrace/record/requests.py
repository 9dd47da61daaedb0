"""One request while it runs: what is known of it so far, the handle that the host gets, and the record at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter_ns, time_ns
from typing import Any, Final

from opentelemetry.context import Context, create_key, get_current, set_value
from opentelemetry.trace import format_trace_id, get_current_span

from ragtrace.record.coercion import Unreadable, read_facets, read_prompt
from ragtrace.record.coercion.values import plain
from ragtrace.record.drafts import Part, RequestDraft
from ragtrace.record.lineage import Left, Lineage
from ragtrace.record.recorder import Recorder, active
from ragtrace.record.recording import Recording, describe_error
from ragtrace.record.sampling import is_sampled, new_request_id
from ragtrace.record.spans import Attributes, describe_request
from ragtrace.types import Candidate, Facet, Query, RequestRecord, RetrieveRun, StageRun

__all__ = ["KEY", "Request", "RequestRecording", "current_recording", "current_request"]

KEY: Final = create_key("ragtrace-request")
ERROR_FLAG: Final = "error"
HOST_FLAG: Final = "host"  # `flag=True` gives no other name


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
    latest: Left | None = None  # the stage whose chunks the next one goes on with
    is_read = False
    _raised: tuple[int, str] | None = None

    def __init__(self, recorder: Recorder, name: str, request_id: str | None = None) -> None:
        self.recorder = recorder
        self.name = name
        self.clock = perf_counter_ns()
        self.started_at = time_ns()
        self.tracer = recorder.tracing.tracer()
        context = get_current()
        if self.tracer is not None:
            self.start_span(self.tracer, f"request {name}", context)
            context = self.context
        self.context = set_value(KEY, self, context)
        self._request_id = request_id
        rate = recorder.config.sample_rate
        self.head_sampled = rate >= 1.0 or is_sampled(self.trace_id or self.request_id, rate)
        self.versions = dict(recorder.config.versions)
        self.attributes: dict[str, Any] = {}
        self.flags: dict[str, None] = {}
        self.parts: list[Part] = []
        self.lineage = Lineage()

    @property
    def request_id(self) -> str:
        """The host's id for it, else one of ours."""
        if self._request_id is None:
            self._request_id = new_request_id(self.started_at)
        return self._request_id

    @property
    def trace_id(self) -> str | None:
        """The trace of its span, else of the host's."""
        span = (self.span or get_current_span(self.context)).get_span_context()
        return format_trace_id(span.trace_id) if span.is_valid else None

    def update(self, values: Mapping[str, Any]) -> None:
        """Set what is given and not None; a value of a wrong type is counted and left out."""
        for name, value in values.items():
            if value is not None:
                try:
                    self._set(name, value)
                except Unreadable as error:
                    self.recorder.guard.count(f"coerce.{name}", error.kind, str(error))
                except Exception as error:
                    self.recorder.guard.caught(f"coerce.{name}", error)

    def _set(self, name: str, value: Any) -> None:
        if name in ("query", "rewritten"):
            found = read_prompt(value)
            if found is None:
                raise Unreadable(value)
            setattr(self, name, found)
        elif name == "facets":
            self.facets = read_facets(value)
        elif name in ("versions", "attributes"):
            if not isinstance(value, Mapping):
                raise Unreadable(value)
            taken = {str(key): plain(item) for key, item in value.items()}
            getattr(self, name).update(taken if name == "attributes" else {key: str(v) for key, v in taken.items()})
        elif name == "flag":
            self.flags.update(dict.fromkeys(_flags(value)))
        else:
            setattr(self, name, str(value))

    def note_query(self, query: str) -> None:
        """The query that a retriever was given: the request's own when it has none yet, else its first rewrite."""
        if self.query is None:
            self.query = query
        elif self.rewritten is None and query != self.query:
            self.rewritten = query

    def note_stage_error(self, error: BaseException, stage: str) -> None:
        """Remember the innermost stage that an exception came from."""
        if self._raised is None or self._raised[0] != id(error):
            self._raised = (id(error), stage)

    def note_error(self, error: BaseException) -> None:
        """A request that ends with an exception is flagged."""
        stage = self._raised[1] if self._raised is not None and self._raised[0] == id(error) else None
        super().note_error(error)
        self.error = describe_error(error, stage)
        self.flags[ERROR_FLAG] = None

    def add(self, part: Part) -> None:
        """Take a part that has ended; its span ends with the request's, or at once when that has been read."""
        self.parts.append(part)
        if self.is_read:
            part.end_span()

    @property
    def runs(self) -> list[StageRun]:
        """The runs that have ended so far; reads what was taken."""
        return [run for part in self.parts if (run := part.read()) is not None]

    def candidates(self) -> Iterable[Candidate]:
        """All that retrievers have returned so far; reads what was taken."""
        return (candidate for run in self.runs if isinstance(run, RetrieveRun) for candidate in run.candidates)

    def take(self, value: Any) -> None:
        """What a request returns is the host's own; the answer comes from its generate stage."""

    def close(self) -> None:
        """Hand over what the stages left; nothing of it stays with a context that outlives the request."""
        draft = RequestDraft(self, self.parts)
        self.lineage.forget()
        self.latest = None
        if not (self.head_sampled or self.flags or self.span is not None):
            draft.discard()
            return
        try:
            self.recorder.sink.submit(draft, durable=bool(self.flags))
        except BaseException:
            draft.discard()
            raise

    def described(self) -> Attributes:
        """What the request is, and whether it is kept."""
        return describe_request(self.record(()))

    def record(self, stages: tuple[StageRun, ...]) -> RequestRecord:
        """The record with these runs."""
        config = self.recorder.config
        query = Query(
            original=self.query or "", rewritten=self.rewritten, query_class=self.query_class, facets=self.facets
        )
        return RequestRecord(
            request_id=self.request_id,
            service=config.service,
            segment=self.segment or self.query_class or "default",
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
            stages=stages,
            flags=tuple(self.flags),
            head_sampled=self.head_sampled,
            head_probability=config.sample_rate,
            attributes=self.attributes.copy(),
        )


def _flags(value: Any) -> list[str]:
    """Names of flags: one, or several."""
    if isinstance(value, str) or value is True:
        return [value if isinstance(value, str) else HOST_FLAG]
    return [str(flag) for flag in value] if isinstance(value, list | tuple | set | frozenset) else []


def current_recording(recorder: Recorder) -> RequestRecording | None:
    """The request that runs in this context; None outside of one."""
    found = get_current().get(KEY)
    if isinstance(found, RequestRecording) and found.recorder is recorder and not found.ended:
        return found
    return None


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
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Add what becomes known during the request; `versions` and `attributes` merge, all else replaces."""
        values = {
            "query": query, "rewritten": rewritten, "query_class": query_class, "segment": segment, "facets": facets,
            "tenant_id": tenant_id, "session_id": session_id, "versions": versions, "attributes": attributes,
        }  # fmt: skip
        self._update("request.set", values)

    def flag(self, name: str) -> None:
        """Keep this request whatever the sample rate, and say why: `flag("empty_answer")`."""
        self._update("request.flag", {"flag": name})

    def _update(self, where: str, values: Mapping[str, Any]) -> None:
        recording = self._recording
        if recording is None:
            return
        guard = recording.recorder.guard
        if recording.ended:
            guard.count(where, "ended", "the request has ended; set and flag before it returns")
            return
        try:
            recording.update(values)
        except Exception as error:
            guard.caught(where, error)


_NOT_RECORDED: Final = Request()


def current_request() -> Request:
    """The request that runs here: `ragtrace.current_request().flag("fallback")`. Never None."""
    recorder = active()
    recording = current_recording(recorder) if recorder is not None else None
    return Request(recording) if recording is not None else _NOT_RECORDED
