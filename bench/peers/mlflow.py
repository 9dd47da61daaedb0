"""mlflow: its `trace` decorator on the four stages, over a tracking store in a local file."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.subjects import Hits, Subject, Work
from bench.subjects.work import QUESTION

mlflow: Final[Any] = import_module("mlflow")


def subject(work: Work, folder: Path) -> Subject:
    """The decorated pipeline; inputs and outputs are captured, as by default."""
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.set_experiment("bench")
    search = mlflow.trace(work.search, span_type="RETRIEVER")
    rerank, pack, generate = map(mlflow.trace, (work.rerank, work.pack, work.generate))

    def request(question: str, hits: Hits) -> str:
        pack(rerank(question, search(question, hits)))
        return str(generate(question))

    traced = mlflow.trace(request)

    def kept() -> int:
        trace: Any = mlflow.get_trace(mlflow.get_last_active_trace_id())
        found = [span for span in trace.data.spans if span.name == "search"] if trace is not None else []
        return len(found[0].outputs) if found else 0

    return Subject("mlflow", lambda hits: traced(QUESTION, hits), kept, flush=mlflow.flush_trace_async_logging)
