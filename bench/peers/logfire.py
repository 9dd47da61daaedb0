"""logfire: its `instrument` decorator on the four stages, without sending."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from opentelemetry.sdk.trace.export import BatchSpanProcessor

from bench.subjects import Exported, Hits, Subject, Work
from bench.subjects.work import QUESTION

TOOL: Final[Any] = import_module("logfire")


def subject(work: Work, folder: Path) -> Subject:
    """The decorated pipeline, with arguments and return values."""
    exported = Exported()
    instance: Any = TOOL.configure(
        local=True,
        send_to_logfire=False,
        console=False,
        inspect_arguments=False,
        additional_span_processors=[BatchSpanProcessor(exported.another(), max_queue_size=100_000)],
    )
    wrap = instance.instrument(extract_args=True, record_return=True)
    search, rerank, pack, generate = map(wrap, (work.search, work.rerank, work.pack, work.generate))

    def request(question: str, hits: Hits) -> str:
        pack(rerank(question, search(question, hits)))
        return str(generate(question))

    instrumented = wrap(request)

    def flush() -> None:
        instance.force_flush()
        exported.forget()

    def kept() -> int:
        returned = [value for name, value in exported.last.items() if name.startswith("return of") and "search" in name]
        return str(returned[:1]).count("'id'" if isinstance(next(iter(returned), None), dict) else '"id"')

    return Subject("logfire", lambda hits: instrumented(QUESTION, hits), kept, flush=flush)
