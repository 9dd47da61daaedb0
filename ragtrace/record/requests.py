"""One request while it runs: what is known of it so far, the handle that the host gets, and the record at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from opentelemetry.context import create_key, get_value, set_value
from opentelemetry.trace import format_trace_id, get_current_span

from ragtrace.record import conventions
from ragtrace.record.coercion import Unreadable, read_facets, read_prompt
from ragtrace.record.coercion.values import plain
from ragtrace.record.recorder import Recorder, active
from ragtrace.record.recording import Recording, describe_error
from ragtrace.record.sampling import is_sampled, new_request_id
from ragtrace.record.spans import Attributes, describe_request
from ragtrace.types import Candidate, Facet, Query, RequestRecord, RetrieveRun, StageRun

__all__ = ["JoinedRecording", "Request", "RequestRecording", "current_recording", "current_request"]

_KEY: Final = create_key("ragtrace-request")
ERROR_FLAG: Final = "error"
HOST_FLAG: Final = "host"  # `flag=True` gives no other name


class RequestRecording(Recording):
    """A request from its start to its record. Runs stand in the order in which they ended."""

    operation = "request"
    __slots__ = (
        "_raised", "attributes", "facets", "flags", "head_sampled", "latest", "prompt", "query", "query_class",
        "request_id", "rewritten", "runs", "seen", "segment", "session_id", "tenant_id", "trace_id", "versions",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, name: str, request_id: str | None = None) -> None:
        super().__init__(recorder, name, f"request {name}")
        self.context = set_value(_KEY, self, self.context)
        span = (self.span or get_current_span()).get_span_context()
        self.trace_id = format_trace_id(span.trace_id) if span.is_valid else None
        self.request_id = request_id or new_request_id()
        self.head_sampled = is_sampled(self.trace_id or self.request_id, recorder.config.sample_rate)
        self.query: str | None = None
        self.rewritten: str | None = None
        self.query_class: str | None = None
        self.segment: str | None = None
        self.facets: tuple[Facet, ...] = ()
        self.tenant_id: str | None = None
        self.session_id: str | None = None
        self.versions = dict(recorder.config.versions)
        self.attributes: dict[str, Any] = {}
        self.flags: dict[str, None] = {}
        self.runs: list[StageRun] = []
        self.latest: list[str] = []  # chunk ids as the last retriever or reranker left them
        self.seen: dict[int, tuple[object, str]] = {}  # the host's items by identity, with their chunk ids
        self.prompt: str | None = None
        self._raised: tuple[int, str] | None = None

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
        if name == "facets":
            self.facets = read_facets(value)
        elif name in ("versions", "attributes"):
            if not isinstance(value, Mapping):
                raise Unreadable(value)
            taken = {str(key): plain(item) for key, item in value.items()}
            getattr(self, name).update(taken if name == "attributes" else {key: str(v) for key, v in taken.items()})
        elif name in ("query", "rewritten"):
            found = read_prompt(value)
            if found is None:
                raise Unreadable(value)
            setattr(self, name, found)
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

    def candidates(self) -> Iterable[Candidate]:
        """All that retrievers have returned so far."""
        return (candidate for run in self.runs if isinstance(run, RetrieveRun) for candidate in run.candidates)

    def take(self, value: Any) -> None:
        """What a request returns is the host's own; the answer comes from its generate stage."""

    def close(self) -> Attributes:
        """Submit the record when the request is kept."""
        record = self._record()
        self.seen.clear()
        self.runs.clear()  # a context that outlives the request (a task it started) holds on to nothing of it
        if record.head_sampled or record.flags:
            self.recorder.sink.submit(record, durable=bool(record.flags))
        return describe_request(record) if self.span is not None and self.span.is_recording() else {}

    def _record(self) -> RequestRecord:
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
            stages=tuple(self.runs),
            flags=tuple(self.flags),
            head_sampled=self.head_sampled,
            head_probability=config.sample_rate,
            attributes=self.attributes.copy(),
        )


class JoinedRecording(Recording):
    """A request inside a request: a span of its own, and its settings added to the one record of the outer request."""

    operation = "request"
    __slots__ = ("outer",)

    def __init__(self, recorder: Recorder, name: str, outer: RequestRecording) -> None:
        super().__init__(recorder, name, f"request {name}")
        self.outer = outer

    def take(self, value: Any) -> None:
        """What a request returns is the host's own."""

    def close(self) -> Attributes:
        """Only the outer request is handed over."""
        return {conventions.REQUEST_ID: self.outer.request_id}


def _flags(value: Any) -> list[str]:
    """Names of flags: one, or several."""
    if isinstance(value, str) or value is True:
        return [value if isinstance(value, str) else HOST_FLAG]
    return [str(flag) for flag in value] if isinstance(value, list | tuple | set | frozenset) else []


def current_recording(recorder: Recorder) -> RequestRecording | None:
    """The request that runs in this context; None outside of one."""
    found = get_value(_KEY)
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
