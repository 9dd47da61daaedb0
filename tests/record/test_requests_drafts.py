"""What ends in the background: spans reach the host's exporter whatever it does, and nothing is held on to."""

from __future__ import annotations

import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ragtrace
from ragtrace.record import Draft, active
from ragtrace.record.requests import current_recording
from ragtrace.store import Store
from ragtrace.types import RetrieveRun

HITS = [{"id": f"c{number}", "text": f"the text of chunk {number}", "score": 1 - number / 10} for number in range(5)]


class Exported:
    """A host's provider with a batch processor."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(BatchSpanProcessor(self.exporter))

    @property
    def names(self) -> list[str]:
        """The names of the exported spans, in their order."""
        return [span.name for span in self.exporter.get_finished_spans()]


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    """A host's provider in use with a real sink."""
    monkeypatch.setenv("RAGTRACE_STORE", f"sqlite:///{tmp_path / 'ragtrace.db'}")
    found = Exported()
    ragtrace.configure(tracer_provider=found.provider)
    yield found
    ragtrace.shutdown()


@ragtrace.request
def ask(question: str) -> None:
    """Two stages."""
    found = ragtrace.retrieve(lambda query: HITS)(question)
    ragtrace.rerank(lambda hits: hits[::-1])(found)


@pytest.mark.parametrize("step", ["force_flush", "shutdown"])
def test_the_hosts_own_flush_and_shutdown_get_all_spans(exported: Exported, step: str) -> None:
    """They wait for what the background still has to end; children first, times as they were."""
    ask("q")
    getattr(exported.provider, step)()
    assert exported.names[0].startswith("retrieval")
    assert exported.names[2] == "request ask"
    first, second, request = exported.exporter.get_finished_spans()
    assert request.start_time <= first.start_time <= first.end_time <= second.start_time  # type: ignore[operator]
    assert second.end_time <= request.end_time  # type: ignore[operator]
    assert {first.parent.span_id, second.parent.span_id} == {request.context.span_id}  # type: ignore[union-attr]


def test_a_store_that_hangs_withholds_no_span(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's own flush gets them all, whatever becomes of the records."""
    assert ragtrace.flush(60)
    entered, go_on = threading.Event(), threading.Event()

    def hang(store: Store, items: Any) -> None:
        entered.set()
        go_on.wait(30)

    monkeypatch.setattr(Store, "write", hang)
    ask("first")
    assert entered.wait(30)
    ask("second")
    assert exported.provider.force_flush()
    assert exported.names.count("request ask") == 2
    go_on.set()


@pytest.mark.parametrize("whole", [False, True])
def test_a_request_outside_the_sample_has_its_spans(tmp_path: Path, whole: bool) -> None:
    """They say what it is, ids and scores where that is asked for; a late flag still keeps all that was recorded."""
    found, url = Exported(), f"sqlite:///{tmp_path / 'x.db'}"
    ragtrace.configure(store=url, sample_rate=0.0, sample_floor=0, span_unsampled=whole,
                       tracer_provider=found.provider)  # fmt: skip
    ask("q")
    assert ragtrace.flush(60)
    found.provider.force_flush()
    retrieval, _, request = [span.attributes for span in found.exporter.get_finished_spans()]
    ids = retrieval.get("ragtrace.retrieval.document.ids")  # type: ignore[union-attr]
    assert ids == (("c0", "c1", "c2", "c3", "c4") if whole else None)
    assert retrieval["gen_ai.operation.name"] == "retrieval"  # type: ignore[index]
    assert request["ragtrace.head_sampled"] is False  # type: ignore[index]
    ragtrace.flag(request["ragtrace.request.id"], "late")  # type: ignore[index,arg-type]
    assert ragtrace.shutdown(60)
    with Store.open(url) as store:
        (kept,) = store.get_records([request["ragtrace.request.id"]]).values()  # type: ignore[index,list-item]
    assert [candidate.chunk_id for candidate in kept.candidates] == ["c0", "c1", "c2", "c3", "c4"]
    assert kept.flags == ("late",)
    spans = found.exporter.get_finished_spans()[:2]
    assert [run.span_id for run in kept.stages] == [f"{span.context.span_id:016x}" for span in spans]


def test_a_dropped_request_still_ends_its_spans(tmp_path: Path) -> None:
    """The queue has no room: the record is lost and counted, the trace is whole."""
    found = Exported()
    ragtrace.configure(store=f"sqlite:///{tmp_path / 'x.db'}", queue_bytes=1, tracer_provider=found.provider)
    ask("q")
    found.provider.force_flush()
    assert len(found.names) == 3
    ragtrace.shutdown()


def test_the_interpreters_end_loses_no_span(tmp_path: Path) -> None:
    """Whichever of provider and ragtrace was made first."""
    program = (
        "import ragtrace\n"
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter\n"
        "ragtrace.configure()\n"
        "provider = TracerProvider()\n"
        "exporter = ConsoleSpanExporter(formatter=lambda span: span.name + '\\n')\n"
        "provider.add_span_processor(BatchSpanProcessor(exporter))\n"
        "trace.set_tracer_provider(provider)\n"
        "with ragtrace.request(query='q', name='last'): pass\n"
    )
    environment = {
        **os.environ,
        "RAGTRACE_STORE": f"sqlite:///{tmp_path / 'x.db'}",
        "PYTHONPATH": str(Path(ragtrace.__file__).parents[1]),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "request last\n"


def test_a_context_that_outlives_its_request_holds_nothing(recorded: Any) -> None:
    """Neither the host's items nor what was taken of them."""

    class Item:
        id, text = "a", "a text with words"

    item = Item()
    alive = weakref.ref(item)
    with ragtrace.request(query="q"):
        kept = context.get_current()
        ragtrace.retrieve(lambda query, items: items)("q", [item])
    del item
    gc.collect()
    assert alive() is None
    assert kept is not None


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_request_that_was_read_leaves_no_circle(tmp_path: Path, rate: float) -> None:
    """It is let go of when nobody needs it any longer, not when the garbage collector runs: kept or forgotten."""
    ragtrace.configure(store=f"sqlite:///{tmp_path / 'x.db'}", sample_rate=rate, sample_floor=0,
                       tracer_provider=Exported().provider)  # fmt: skip
    ask("q")
    assert ragtrace.flush(60)
    gc.collect()
    gc.disable()
    try:
        with ragtrace.request(query="q"):
            alive = weakref.ref(current_recording(active()))  # type: ignore[arg-type]
            ragtrace.retrieve(lambda query: HITS)("q")
        assert alive() is not None
        assert ragtrace.shutdown(60)
        assert alive() is None
    finally:
        gc.enable()


def test_a_stage_that_outlives_its_request_ends_its_span(recorded: Any) -> None:
    """The record is gone by then; the span is not."""

    def run() -> None:
        with ragtrace.request(query="q"):
            late = ragtrace.retrieve(query="late", name="late")
            late.__enter__()
        late.__exit__(None, None, None)

    contextvars.copy_context().run(run)
    assert recorded.spans["retrieval late"].end_time is not None


def test_what_a_host_changes_before_the_record_is_read_changes_nothing(
    configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects and their metadata are taken when the stage returns."""
    recorded = configure()
    drafts: list[Draft] = []
    monkeypatch.setattr(recorded, "submit", lambda item, durable=False: drafts.append(item))
    hits: list[dict[str, Any]] = [{"id": "a", "text": "first text", "score": 0.5, "metadata": {"tags": ["x"]}}]
    ragtrace.retrieve(lambda query: hits)("q")
    hits[0]["metadata"]["tags"].append("y")
    hits[0].update(id="b", text="changed", score=0.0)
    hits.clear()
    record = drafts[0].build()
    (run,) = record.stages  # type: ignore[union-attr]
    assert isinstance(run, RetrieveRun)
    (found,) = run.candidates
    assert (found.chunk_id, found.text, found.score, found.metadata) == ("a", "first text", 0.5, {"tags": ["x"]})
