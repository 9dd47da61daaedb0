"""langfuse: its `observe` decorator on the four stages, with an exporter that stays in memory."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.subjects import Exported, Hits, Subject, Work
from bench.subjects.work import QUESTION

TOOL: Final[Any] = import_module("langfuse")


def subject(work: Work, folder: Path) -> Subject:
    """The decorated pipeline; inputs and outputs are captured, as by default."""
    exported = Exported()
    client: Any = TOOL.Langfuse(
        public_key="pk-bench",
        secret_key="sk-bench",
        base_url="http://127.0.0.1:9",
        tracer_provider=exported.provider,
        span_exporter=exported.another(),
    )
    search, rerank, pack, generate = map(TOOL.observe, (work.search, work.rerank, work.pack, work.generate))

    def request(question: str, hits: Hits) -> str:
        pack(rerank(question, search(question, hits)))
        return str(generate(question))

    observed = TOOL.observe(request)

    def kept() -> int:
        return str(exported.last.get("langfuse.observation.output of search", "")).count('"id"')

    return Subject("langfuse", lambda hits: observed(QUESTION, hits), kept, flush=exported.flush, close=client.shutdown)
