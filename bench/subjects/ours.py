"""ragtrace in its ways: with spans, without OpenTelemetry's SDK, for requests outside the sample; each where the host
builds and stores the records, and where a worker does."""

from __future__ import annotations

import contextvars
import itertools
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from opentelemetry.trace import ProxyTracerProvider, TracerProvider

import ragtrace
from bench.subjects.opentelemetry import Exported
from bench.subjects.work import QUESTION, Hits, Subject, Work
from ragtrace.collect import Builder, default_folder
from ragtrace.record import install
from ragtrace.store import Store

__all__ = ["bytes_per_open_request", "record_only", "unsampled", "with_spans"]

Build: TypeAlias = Literal["host", "worker"]

_OPEN = 200  # requests that are open at once when their memory is measured


def with_spans(work: Work, folder: Path, build: Build = "host") -> Subject:
    """Spans, and records with full content in SQLite."""
    exported = Exported()
    return _subject("ragtrace", work, folder, exported.provider, exported, 1.0, build)


def record_only(work: Work, folder: Path, build: Build = "host") -> Subject:
    """Records alone, as in a host without OpenTelemetry's SDK."""
    return _subject("ragtrace record only", work, folder, ProxyTracerProvider(), None, 1.0, build)


def unsampled(work: Work, folder: Path, build: Build = "host") -> Subject:
    """Spans alone: the requests are outside the random sample, and only a late flag keeps one."""
    exported = Exported()
    return _subject("ragtrace not sampled", work, folder, exported.provider, exported, 0.0, build)


def _subject(
    name: str, work: Work, folder: Path, provider: TracerProvider, exported: Exported | None, rate: float, build: Build
) -> Subject:
    if build == "worker":
        name = f"{name}, worker"
    url = f"sqlite:///{folder / name.replace(' ', '-').replace(',', '')}.db"
    ragtrace.configure(
        service="bench",
        store=url,
        sample_rate=rate,
        sample_floor=0,  # a floor would keep some of those outside the sample
        build=build,
        capture_content="full",
        tracer_provider=provider,
    )
    recorder = install(None)

    def flush() -> None:
        if not ragtrace.flush(300):
            raise RuntimeError(f"{name}: what was recorded could not be stored")
        if exported is not None:
            exported.flush()

    def kept() -> int:
        install(recorder)
        if exported is not None and not rate:  # a complaint that comes late
            ragtrace.flag(str(exported.last["ragtrace.request.id"]), "late")
            flush()
        if build == "worker":  # what another process does, here behind the figures
            builder = Builder(lambda: Store.open(url), [default_folder(url)], (1.0, 1.0))
            while builder.step():
                pass
            builder.close()
        return _kept(url)

    def close() -> None:
        install(recorder)
        ragtrace.shutdown(60)

    return Subject(name, _pipeline(work), kept, lambda: install(recorder), flush, close)


def _pipeline(work: Work) -> Callable[[Hits], object]:
    search, rerank = ragtrace.retrieve(work.search), ragtrace.rerank(work.rerank)
    pack, generate = ragtrace.pack(work.pack), ragtrace.generate(work.generate)

    @ragtrace.request
    def run(question: str, hits: Hits) -> str:
        pack(rerank(question, search(question, hits)))
        return generate(question)

    return lambda hits: run(QUESTION, hits)


def _kept(url: str) -> int:
    with Store.open(url) as store:
        (newest,) = store.find_requests(limit=1)
        record = store.get_record(newest.request_id)
    return sum(bool(found.text) for found in record.candidates) if record is not None else 0


def bytes_per_open_request(subject: Subject, work: Work) -> int:
    """Bytes that a request holds after its last stage and before its end, the host's own objects apart."""
    subject.begin()
    hits = [work.hits() for _ in range(_OPEN + 1)]
    names = (f"open {number}" for number in itertools.count())
    stages = _pipeline(work)

    def start(found: Hits) -> object:
        opened = ragtrace.request(query=QUESTION, name=next(names))
        opened.__enter__()
        stages(found)  # joins the request that is open here
        return opened

    def started(found: Hits) -> tuple[contextvars.Context, object]:
        context = contextvars.copy_context()
        return context, context.run(start, found)

    warm = started(hits.pop())
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [started(found) for found in hits]
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    for context, opened in (warm, *kept):
        context.run(opened.__exit__, None, None, None)  # type: ignore[attr-defined]
    return held // _OPEN
