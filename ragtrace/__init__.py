"""ragtrace records a RAG request's evidence path, measures each stage of it, and names the first stage that broke.

    import ragtrace

    ragtrace.configure(service="assistant")

    @ragtrace.retrieve
    def search(query: str) -> list[Hit]: ...

Before `configure()`, and with `enabled=False`, everything decorated runs as if it were not.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from ragtrace.config import load
from ragtrace.privacy import CaptureContent, Vocabulary
from ragtrace.record import (
    ContentPolicy,
    Recorder,
    Request,
    active,
    close_overdue,
    current_request,
    extract,
    feedback,
    flag,
    follow_thread_pools,
    generate,
    held_settings,
    inject,
    install,
    pack,
    request,
    rerank,
    retrieve,
    scrub,
    source_report,
    take_request,
    unfollow_thread_pools,
)

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from ragtrace.collect import Screen, Screening, Writer
    from ragtrace.config import Config
    from ragtrace.probe import Probe
    from ragtrace.types import RequestRecord

__all__ = [
    "Request",
    "configure",
    "current_request",
    "extract",
    "feedback",
    "flag",
    "flush",
    "generate",
    "inject",
    "instrument",
    "pack",
    "request",
    "rerank",
    "retrieve",
    "shutdown",
    "source_report",
    "uninstrument",
]

_DEADLINE: Final = 5.0  # seconds
_SCORING: Final = 0.05  # share of a processor core that compares scores with `low_score` where nothing is analyzed


def configure(
    *,
    service: str | None = None,
    store: str | None = None,
    sample_rate: float | None = None,
    sample_floor: int | None = None,
    screen: float | None = None,
    low_score: float | None = None,
    recent_bytes: int | None = None,
    recent_seconds: float | None = None,
    request_ttl: float | None = None,
    clock_skew: float | None = None,
    capture_content: CaptureContent | None = None,
    redact: Iterable[str] | None = None,
    redact_patterns: Mapping[str, str] | None = None,
    redactor: Callable[[str], str] | None = None,
    span_vocabularies: Iterable[Vocabulary] | None = None,
    span_content: bool | None = None,
    span_unsampled: bool | None = None,
    baggage: Iterable[str] | None = None,
    versions: Mapping[str, str] | None = None,
    cites: bool | None = None,
    probe: Probe | str | None = None,
    prices: Mapping[str, Mapping[str, float]] | None = None,
    spool: str | os.PathLike[str] | None = None,
    queue_bytes: int | None = None,
    spool_bytes: int | None = None,
    build: Literal["host", "worker"] | None = None,
    read_items: int | None = None,
    read_seconds: float | None = None,
    follow_threads: bool | None = None,
    raise_errors: bool | None = None,
    enabled: bool | None = None,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Start to record, with these settings, else those of the environment, else the defaults (see `ragtrace.config`).

    A second call replaces the first one after flushing it. Without a `tracer_provider`, spans go to OpenTelemetry's
    global one, if the application has set one. The database is opened in the background: trouble with it is logged,
    and records wait in the spool until it is mended.

    Raises: ConfigurationError for a value that cannot be used; MissingExtraError for `screen` above 0 without the
        analyzer's packages (`pip install 'ragtrace[analyze]'`).
    """
    given = dict(locals())  # at once: a debugger that looks at the frame may add names while one goes over them
    del given["tracer_provider"]
    config = load(**{**given, **held_settings()})
    if config.enabled and config.screen:
        from ragtrace.installation import require_analyzer

        require_analyzer()
    shutdown()
    if not config.enabled:
        return
    from ragtrace.collect import (
        BackgroundSink,
        HandOver,
        Periodic,
        RecentRequests,
        Spool,
        UnsampledRequests,
        default_folder,
    )

    policy = ContentPolicy(config)
    own = Spool.open(default_folder(config.store, config.spool), config.store)
    hands_over = config.build == "worker"
    spool_bytes = config.spool_bytes // 2 if hands_over else config.spool_bytes  # the other half is what is handed over
    sink = BackgroundSink(
        (lambda: HandOver(own.folder, spool_bytes)) if hands_over else lambda: _open_store(config.store),
        own,
        service=config.service,
        finish=policy.finish,
        scrub=scrub,
        queue_bytes=config.queue_bytes,
        spool_bytes=spool_bytes,
        read=take_request if hands_over else lambda draft: draft.build(),
        unsampled=UnsampledRequests(
            RecentRequests(config.recent_bytes, config.recent_seconds),
            _screening(config),
            config.service,
        ),
        periodic=Periodic(close_overdue, _between_sweeps(config.request_ttl)),
    )
    install(Recorder(config, sink, tracer_provider, policy))
    if config.follow_threads:
        follow_thread_pools()


def flush(timeout: float = _DEADLINE) -> bool:
    """Wait until all that was recorded is stored; False when it is not within `timeout` seconds."""
    recorder = active()
    return True if recorder is None else recorder.sink.flush(timeout)


@atexit.register
def shutdown(timeout: float = _DEADLINE) -> bool:
    """Flush and stop recording; False when something remains in the spool, for the next start to store.

    It runs by itself when the interpreter ends.
    """
    former = install(None)
    unfollow_thread_pools()
    return True if former is None else former.sink.close(timeout)


def instrument(framework: str) -> None:
    """Record what a framework does, with no decorator: its candidates, rerankings, prompts and answers.

        ragtrace.instrument("langchain")

    framework: `langchain`, `openai` and others, which docs/how-to/instrumentation.md lists. Call it before the
    application imports functions out of the framework. It may come before or after `configure()`.

    Raises: ConfigurationError for another name, with all that are known, or a version that is not supported;
        MissingExtraError when the framework or `opentelemetry-instrumentation` is not installed.
    """
    from ragtrace.record import instrumentation

    instrumentation.instrument(framework)


def uninstrument(framework: str) -> None:
    """Stop what `instrument(framework)` began. Raises: as `instrument`."""
    from ragtrace.record import instrumentation

    instrumentation.uninstrument(framework)


def _open_store(url: str) -> Writer:
    from ragtrace.collect import RecordWriter
    from ragtrace.store import Store

    return RecordWriter(Store.open(url))  # a process that handed over to a worker may have left requests


def _screening(config: Config) -> Screening | None:
    """What looks at requests outside the sample: the analyzer if it was asked for, else the threshold of scores."""
    from ragtrace.collect import Screening

    if config.screen:
        return Screening(lambda: _open_screen(config.low_score), config.screen, config.service)
    if config.low_score is not None:
        return Screening(lambda: lambda record: _score_flags(record, config.low_score), _SCORING, config.service)
    return None


def _open_screen(low_score: float | None) -> Screen:
    from ragtrace.analyze import screen

    return lambda record: screen(record, low_score)


def _score_flags(record: RequestRecord, low_score: float | None) -> tuple[str, ...]:
    return ("low_retrieval_score",) if record.scores_below(low_score) else ()


def _between_sweeps(ttl: float) -> float:
    """Seconds between two looks at the open requests."""
    return min(60.0, max(0.1, ttl / 4)) if ttl else 60.0
