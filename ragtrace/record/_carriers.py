"""Carries a running request to another process, a thread or the consumer of a queue.

A carrier is a small mapping of text that fits into HTTP and message headers: W3C `traceparent` (and `tracestate`), and
`ragtrace`, which names the request and its head decision. Tenant, session and content never travel in it.

Thread pools need none. `ThreadPoolExecutor` does not pass the context on to its threads, and so neither does
`loop.run_in_executor`. While `follow_thread_pools` is in use, `submit` attaches the OpenTelemetry context of a running
request around the work in the thread. Nothing is added to what is submitted outside of a request, and no other context
variable is touched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from math import nan
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, overload

from opentelemetry.context import Context, attach, detach, get_current, set_value
from opentelemetry.trace import Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ragtrace.plausible_values import LEAST_PROBABILITY, is_weighable
from ragtrace.record._recorder import Recorder, active
from ragtrace.record._recording import Opened, is_failure, within
from ragtrace.record._verbs import Request, current_request
from ragtrace.record.guard import guarded, let_through
from ragtrace.record.requests import ERROR_FLAG, KEY, RequestRecording, current_recording
from ragtrace.types import Item, StageRun

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["extract", "follow_thread_pools", "inject", "unfollow_thread_pools"]

M = TypeVar("M", bound=MutableMapping[str, str])

Headers: TypeAlias = Mapping[str, str | bytes] | Iterable[tuple[str | bytes, str | bytes]]

ENTRY: Final = "ragtrace"
_TRACE: Final = "traceparent"
_NAMES: Final = frozenset({ENTRY, _TRACE, "tracestate"})
_LENGTH: Final = 2048  # characters of one value; what is longer is none of ours
_W3C: Final = TraceContextTextMapPropagator()
_Submit = Callable[..., "Future[Any]"]
_ours: _Submit | None = None
_is_on = False


class CarriedRequest(NamedTuple):
    """What a carrier says of a request: who it is, and its head decision."""

    request_id: str
    service: str
    is_sampled: bool
    probability: float


@overload
def inject() -> dict[str, str]: ...
@overload
def inject(carrier: M) -> M: ...
def inject(carrier: Any = None) -> Any:
    """Write the request that runs here into a carrier (a new one, or yours), to be taken up by `extract` elsewhere.

        pool.submit(work, question, ragtrace.inject())  # a process pool
        queue.put((question, ragtrace.inject()))
        httpx.get(url, headers=ragtrace.inject())

    Outside of a request, and without a trace, nothing is written.
    """
    carrier = {} if carrier is None else carrier
    recorder = active()
    if recorder is not None:
        with guarded("carrier.inject", recorder.guard):
            _inject(recorder, carrier)
    return carrier


def _inject(recorder: Recorder, carrier: MutableMapping[str, str]) -> None:
    _W3C.inject(carrier)
    request = current_recording(recorder)
    if request is None:
        return
    request.decide()
    written = _write(
        CarriedRequest(request.request_id, request.service, request.head_sampled, request.head_probability)
    )
    if len(written) > _LENGTH:
        raise ValueError(f"the request's id and service take more than {_LENGTH} characters in a header")
    carrier[ENTRY] = written


def _write(entry: CarriedRequest) -> str:
    from urllib.parse import quote

    name, service = (quote(text, safe="", errors="replace") for text in (entry.request_id, entry.service))
    return f"id={name};service={service};sampled={int(entry.is_sampled)};probability={entry.probability}"


def _read(text: str) -> CarriedRequest:
    """Raises: ValueError when the text is none of ours; its message holds nothing of the text."""
    from urllib.parse import unquote

    parts = {name: value for name, _, value in (part.partition("=") for part in text.split(";"))}
    missing = [name for name in ("id", "service", "probability") if not parts.get(name)]
    if missing or parts.get("sampled") not in ("0", "1"):
        raise ValueError(f"the carrier's entry lacks {', '.join(missing) or 'sampled=0 or sampled=1'}")
    try:
        probability = float(parts["probability"])
    except ValueError:
        probability = nan
    if probability != 0.0 and not is_weighable(probability):
        raise ValueError(f"the probability in the carrier's entry is neither 0 nor from {LEAST_PROBABILITY} to 1")
    return CarriedRequest(unquote(parts["id"]), unquote(parts["service"]), parts["sampled"] == "1", probability)


class extract:
    """Take up what `inject` carried: stages in the block belong to the same request and trace.

        with ragtrace.extract(carrier):
            hits = search(question)

    Where that request runs in this process, they join it directly; elsewhere they are added to its record when the
    block ends. An exception in the block flags the request with `error`. A carrier with a `traceparent` only puts what
    is recorded in the block into that trace; what is broken in a carrier is counted and left out. Take carriers from
    senders that you trust: they name the request that is added to.

    Args:
        carrier: a mapping, or pairs of names and values, of text or bytes, as HTTP and message headers are.
    """

    def __init__(self, carrier: Headers) -> None:
        self._carrier = carrier
        self._open: Opened[tuple[RequestRecording | None, within]] = Opened()

    def __enter__(self) -> Request:
        recorder = active()
        entered: tuple[RequestRecording | None, within] = None, within(None)
        if recorder is not None:
            with guarded("carrier.extract", recorder.guard):
                entered = self._enter(recorder)
        self._open.push(entered)
        return current_request()

    def _enter(self, recorder: Recorder) -> tuple[RequestRecording | None, within]:
        headers = _headers(self._carrier, recorder)
        entry = _entry(headers, recorder)
        if entry is None and current_recording(recorder) is not None:
            return None, within(None)  # a request runs here, and stays in its own trace
        context = _context(headers, recorder)
        if entry is None:
            return None, _entered(context)
        here = recorder.open.find(entry.request_id)
        if isinstance(here, RequestRecording) and not (here.ended or isinstance(here, _CarriedRecording)):
            return here, _entered(set_value(KEY, here, context))
        around = _entered(context)
        try:
            carried = _CarriedRecording(recorder, entry)
        except BaseException:
            around.__exit__()
            raise
        carried.enter()
        return carried, around

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        request, around = self._open.pop()
        if isinstance(request, _CarriedRecording):
            if error is None:
                request.finish()
            else:
                request.fail(error)
        elif request is not None and error is not None and is_failure(error):
            Request(request).flag(ERROR_FLAG)
        around.__exit__()


def _entered(context: Context) -> within:
    block = within(context)
    block.__enter__()
    return block


class _CarriedRecording(RequestRecording):
    """The part of a request that runs here, while the request itself runs in another process."""

    def __init__(self, recorder: Recorder, entry: CarriedRequest) -> None:
        super().__init__(recorder, ENTRY, entry.request_id)
        self._service = entry.service
        self.is_decided = True
        self.head_sampled = entry.is_sampled
        self.head_probability = entry.probability

    def start_span(self, tracer: Tracer, name: str, context: Context) -> None:
        """It has none: its stages are children of the span that was carried."""
        self.context = context

    @property
    def service(self) -> str:
        """The application that the request belongs to."""
        return self._service

    def result(self, stages: tuple[StageRun, ...]) -> Item | None:
        """What is to be added to the request's record."""
        return self.addendum(stages, self.flags) if stages or self.flags else None


def _headers(carrier: Any, recorder: Recorder) -> dict[str, str]:
    """What a carrier holds of ours, whatever else it is."""
    found: dict[str, str] = {}
    try:
        for name, value in carrier.items() if isinstance(carrier, Mapping) else carrier:
            key = _text(name).lower()
            if key in _NAMES:
                found[key] = _text(value)
                if len(found[key]) > _LENGTH:
                    _broken(recorder, "ValueError", f"{key} has {len(found[key])} characters, more than {_LENGTH}")
                    return {}
    except BaseException as error:  # also one of the host's own, whose message may be its content
        let_through(error)
        _broken(recorder, type(error).__name__, "the carrier is no mapping and no pairs of text or bytes")
        return {}
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes):
        raise TypeError(f"a carrier holds text, not {type(value).__name__}")
    return value if isinstance(value, str) else value.decode("latin-1")


def _entry(headers: Mapping[str, str], recorder: Recorder) -> CarriedRequest | None:
    if ENTRY not in headers:
        return None
    try:
        return _read(headers[ENTRY])
    except ValueError as error:
        _broken(recorder, "ValueError", str(error))
        return None


def _context(headers: Mapping[str, str], recorder: Recorder) -> Context:
    """The current context, with the span that was carried."""
    here = get_current()
    if _TRACE not in headers:
        return here
    context = _W3C.extract(headers, here)
    if not get_current_span(context).get_span_context().is_remote:
        _broken(recorder, "ValueError", f"a {_TRACE} of {len(headers[_TRACE])} characters cannot be read")
    return context


def _broken(recorder: Recorder, kind: str, message: str) -> None:
    """Count it. Whatever the capture policy says, the message says nothing of what the carrier held."""
    recorder.guard.count("carrier.extract", kind, message)


def follow_thread_pools() -> None:
    """Let the work that a request hands to a thread pool stay in that request; a second call changes nothing."""
    from concurrent.futures import ThreadPoolExecutor

    global _ours, _is_on
    _is_on = True
    submit = ThreadPoolExecutor.submit
    if _ours is None or not _is_among(_ours, submit):
        _ours = _following(submit)
        ThreadPoolExecutor.submit = _ours  # type: ignore[method-assign]


def unfollow_thread_pools() -> None:
    """Stop it. Where somebody else has wrapped `submit` since, ours stays below and does nothing."""
    global _ours, _is_on
    _is_on = False
    if _ours is None:
        return
    from concurrent.futures import ThreadPoolExecutor

    if ThreadPoolExecutor.submit is _ours:
        ThreadPoolExecutor.submit = _ours.__wrapped__  # type: ignore[attr-defined,method-assign]
        _ours = None


def _is_among(ours: _Submit, submit: Any) -> bool:
    """Whether `submit` is ours, or one that calls ours."""
    while submit is not None and submit is not ours:
        submit = getattr(submit, "__wrapped__", None)
    return submit is ours


def _following(given: _Submit) -> _Submit:
    @functools.wraps(given)
    def submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        recorder = active() if _is_on else None
        if recorder is None or current_recording(recorder) is None:
            return given(self, fn, *args, **kwargs)
        return given(self, _within, get_current(), fn, *args, **kwargs)

    return submit


def _within(context: Context, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    token = attach(context)
    try:
        return fn(*args, **kwargs)
    finally:
        detach(token)
