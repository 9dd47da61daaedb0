"""traceloop-sdk: its `workflow` and `task` decorators on the four stages, with an exporter that stays in memory."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.subjects import Exported, Hits, Subject, Work
from bench.subjects.work import QUESTION

TOOL: Final[Any] = import_module("traceloop.sdk")
DECORATORS: Final[Any] = import_module("traceloop.sdk.decorators")


def subject(work: Work, folder: Path) -> Subject:
    """The decorated pipeline; inputs and outputs are captured, as by default."""
    exported = Exported()
    TOOL.Traceloop.init(app_name="bench", exporter=exported.another(), disable_batch=False, telemetry_enabled=False)
    task = DECORATORS.task
    search, rerank = task(name="search")(work.search), task(name="rerank")(work.rerank)
    pack, generate = task(name="pack")(work.pack), task(name="generate")(work.generate)

    def request(question: str, hits: Hits) -> str:
        pack(rerank(question, search(question, hits)))
        return str(generate(question))

    decorated = DECORATORS.workflow(name="request")(request)

    def kept() -> int:
        return str(exported.last.get("traceloop.entity.output of search.task", "")).count('"id"')

    return Subject("traceloop", lambda hits: decorated(QUESTION, hits), kept, flush=exported.forget)
