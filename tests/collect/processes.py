"""A pipeline over several processes: `python processes.py METHOD STORE SPANS`; prints the ids of its requests.

METHOD: `spawn`, `fork` or `forkserver`, a pool of processes that search and write; or `queue`, a consumer that is sent
its questions. Every process writes its spans to the file SPANS.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import ragtrace

Hit = dict[str, Any]


class FileExporter(SpanExporter):
    """One line per span."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append."""
        with open(self._path, "a") as file:
            for span in spans:
                parent = None if span.parent is None else span.parent.span_id
                line = {"name": span.name, "trace": span.context.trace_id, "id": span.context.span_id, "parent": parent}
                file.write(json.dumps(line) + "\n")
        return SpanExportResult.SUCCESS


def start(store: str, spans: str) -> None:
    """Record in this process."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileExporter(spans)))
    ragtrace.configure(service="assistant", store=store, tracer_provider=provider)


@ragtrace.retrieve
def search(query: str, source: str) -> list[Hit]:
    """A retriever."""
    return [{"id": f"{source}{place}", "text": f"passage {place} of source {source}"} for place in range(3)]


@ragtrace.rerank
def reorder(query: str, hits: list[Hit]) -> list[Hit]:
    """A reranker."""
    return hits[::-1]


@ragtrace.pack
def build(hits: list[Hit]) -> list[Hit]:
    """A packer."""
    return hits[:2]


@ragtrace.generate
def write(prompt: str) -> str:
    """A generator."""
    return f"answer to {prompt}"


def search_there(query: str, source: str, carrier: dict[str, str]) -> list[Hit]:
    """In a pool."""
    with ragtrace.extract(carrier):
        return search(query, source)


def write_there(prompt: str, carrier: dict[str, str]) -> str:
    """In a pool."""
    with ragtrace.extract(carrier):
        return write(prompt)


@ragtrace.request(request_id="name")
def ask(question: str, name: str, pool: ProcessPoolExecutor) -> str:
    """A request over several processes."""
    carrier = ragtrace.inject()
    found = [pool.submit(search_there, question, source, carrier) for source in "ab"]
    build(reorder(question, [hit for each in found for hit in each.result()]))
    return pool.submit(write_there, question, carrier).result()


def consume(store: str, spans: str, inbox: Any, outbox: Any) -> None:
    """In a process of its own, until None comes."""
    start(store, spans)
    for question, carrier in iter(inbox.get, None):
        with ragtrace.extract(carrier):
            outbox.put(write(question))


@ragtrace.request(request_id="name")
def send(question: str, name: str, inbox: Any, outbox: Any) -> str:
    """A request that a consumer answers."""
    build(reorder(question, search(question, "a") + search(question, "b")))
    inbox.put((question, ragtrace.inject()))
    return str(outbox.get())


def main() -> None:
    """Ask three times."""
    method, store, spans = sys.argv[1:]
    start(store, spans)
    if method == "queue":
        context = multiprocessing.get_context("spawn")
        inbox, outbox = context.Queue(), context.Queue()
        consumer = context.Process(target=consume, args=(store, spans, inbox, outbox))
        consumer.start()
        answers = [send(f"q{number}", f"r{number}", inbox, outbox) for number in range(3)]
        inbox.put(None)
        consumer.join()
    else:
        begin = None if method == "fork" else functools.partial(start, store, spans)  # a forked child has inherited it
        with ProcessPoolExecutor(2, multiprocessing.get_context(method), begin) as pool:
            answers = [ask(f"q{number}", f"r{number}", pool) for number in range(3)]
    assert answers == [f"answer to q{number}" for number in range(3)]
    print(ragtrace.shutdown(timeout=60))


if __name__ == "__main__":
    main()
