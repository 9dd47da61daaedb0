"""ragtrace records a RAG request's evidence path, measures each stage of it, and names the first stage that broke.

    import ragtrace

    ragtrace.configure(service="assistant")

    @ragtrace.retrieve
    def search(query: str) -> list[Hit]: ...

Before `configure()`, and with `enabled=False`, everything decorated runs as if it were not.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ragtrace.config import CaptureContent, load
from ragtrace.record import (
    Recorder,
    Request,
    active,
    current_request,
    finish,
    generate,
    install,
    new_request_id,
    pack,
    request,
    rerank,
    retrieve,
    scrub,
)
from ragtrace.types import Feedback

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from ragtrace.collect import Writer

__all__ = [
    "Request",
    "configure",
    "current_request",
    "feedback",
    "flush",
    "generate",
    "instrument",
    "pack",
    "request",
    "rerank",
    "retrieve",
    "shutdown",
    "uninstrument",
]

_DEADLINE: Final = 5.0  # seconds


def configure(
    *,
    service: str | None = None,
    store: str | None = None,
    sample_rate: float | None = None,
    capture_content: CaptureContent | None = None,
    versions: Mapping[str, str] | None = None,
    spool: str | os.PathLike[str] | None = None,
    queue_bytes: int | None = None,
    spool_bytes: int | None = None,
    raise_errors: bool | None = None,
    enabled: bool | None = None,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Start to record, with these settings, else those of the environment, else the defaults (see `ragtrace.config`).

    A second call replaces the first one after flushing it. Without a `tracer_provider`, spans go to OpenTelemetry's
    global one, if the application has set one. The database is opened in the background: trouble with it is logged,
    and records wait in the spool until it is mended.

    Raises: ConfigurationError for a value that cannot be used.
    """
    config = load(
        service=service,
        store=store,
        sample_rate=sample_rate,
        capture_content=capture_content,
        versions=versions,
        spool=spool,
        queue_bytes=queue_bytes,
        spool_bytes=spool_bytes,
        raise_errors=raise_errors,
        enabled=enabled,
    )
    shutdown()
    if not config.enabled:
        return
    from ragtrace.collect import BackgroundSink, Spool, default_folder

    sink = BackgroundSink(
        lambda: _open_store(config.store),
        Spool.open(default_folder(config.store, config.spool), config.store),
        service=config.service,
        finish=lambda item: finish(item, config.capture_content),
        scrub=scrub,
        queue_bytes=config.queue_bytes,
        spool_bytes=config.spool_bytes,
    )
    install(Recorder(config, sink, tracer_provider))


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
    return True if former is None else former.sink.close(timeout)


def feedback(
    request_id: str,
    *,
    score: float | None = None,
    label: str | None = None,
    source: str = "user",
    comment: str | None = None,
) -> None:
    """Attach a judgement to a request, at once or days later, from any process that writes to the same store.

    It is on disk when this returns.
    """
    recorder = active()
    if recorder is None:
        logging.getLogger("ragtrace").warning("feedback for %s is lost: call ragtrace.configure() first", request_id)
        return
    try:
        item = Feedback(
            request_id=str(request_id),
            score=None if score is None else float(score),
            label=label,
            source=source,
            comment=comment,
            created_at=time.time_ns(),
            feedback_id=new_request_id(),
        )
        recorder.sink.submit(item, durable=True)
    except Exception as error:
        recorder.guard.caught("feedback", error)


def instrument(framework: str) -> None:
    """Record what a framework does, with no decorator: its candidates, rerankings, prompts and answers.

        ragtrace.instrument("langchain")

    Allowed are `langchain`, `llama_index`, `haystack`, `sentence_transformers` and `openai`. Call it before the
    application imports functions out of the framework. It may come before or after `configure()`.

    Raises: ConfigurationError for another name or a version that is not supported; MissingExtraError when the
        framework or `opentelemetry-instrumentation` is not installed.
    """
    from ragtrace.record import instrumentation

    instrumentation.instrument(framework)


def uninstrument(framework: str) -> None:
    """Stop what `instrument(framework)` began. Raises: as `instrument`."""
    from ragtrace.record import instrumentation

    instrumentation.uninstrument(framework)


def _open_store(url: str) -> Writer:
    from ragtrace.store import Store

    return Store.open(url)
