"""ragtrace's own spans hold what its record holds: ids, ranks, scores; texts where the host puts them on spans."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ragtrace
from ragtrace.receive.assembly import assemble
from ragtrace.receive.otlp import read_protobuf
from ragtrace.store import Store
from ragtrace.types import PackRun, RequestRecord, RerankRun

CHUNKS = [
    {"id": f"c{place}", "text": f"Fact number {place} of the tariff.", "score": 1 - place / 10} for place in range(5)
]


def run(tmp_path: Path, *, content: bool) -> tuple[RequestRecord, RequestRecord]:
    """One request, as ragtrace's own channel stored it and as its spans tell it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    url = f"sqlite:///{tmp_path}/own.db"
    ragtrace.configure(
        service="assistant",
        store=url,
        enabled=True,
        tracer_provider=provider,
        span_content=content,
        span_vocabularies=("gen_ai", "openinference"),
    )
    try:

        @ragtrace.retrieve
        def search(query: str) -> list[dict[str, object]]:
            return CHUNKS

        @ragtrace.rerank
        def order(query: str, candidates: list[dict[str, object]]) -> list[dict[str, object]]:
            return candidates[::-1][:4]

        @ragtrace.pack
        def pack(candidates: list[dict[str, object]]) -> list[dict[str, object]]:
            return candidates[:2]

        @ragtrace.generate
        def answer(prompt: str) -> str:
            return "It is fact number 4."

        with ragtrace.request(query="Which tariff?", segment="legal", session_id="s1", versions={"index": "i1"}):
            packed = pack(order("Which tariff?", search("Which tariff?")))
            answer("Which tariff?\n\n" + "\n\n".join(str(each["text"]) for each in packed))
        ragtrace.flush()
    finally:
        ragtrace.shutdown()
    received = read_protobuf(encode_spans(exporter.get_finished_spans()).SerializeToString())
    told = assemble(received.spans)
    with Store.open(url) as store:
        kept = store.get_record(store.find_requests()[0].request_id)
    assert told is not None
    assert kept is not None
    return kept, told


@pytest.mark.parametrize("content", [False, True])
def test_spans_tell_the_record(tmp_path: Path, content: bool) -> None:
    """Everything but texts is the same on both ways."""
    kept, told = run(tmp_path, content=content)

    for field in ("request_id", "service", "segment", "session_id", "versions", "head_sampled", "head_probability"):
        assert getattr(told, field) == getattr(kept, field), field
    assert [(each.chunk_id, each.rank, each.score) for each in told.candidates] == [
        (each.chunk_id, each.rank, each.score) for each in kept.candidates
    ]
    assert told.moves == kept.moves
    assert kept.packing is not None
    assert told.packing is not None
    assert [each.chunk_id for each in told.packing.chunks] == [each.chunk_id for each in kept.packing.chunks]
    assert told.packing.dropped == kept.packing.dropped
    assert [type(run) for run in told.stages] == [type(run) for run in kept.stages]
    assert {RerankRun, PackRun} <= {type(run) for run in told.stages}


def test_content_on_spans(tmp_path: Path) -> None:
    """Question, texts and answer, where spans carry them."""
    kept, told = run(tmp_path, content=True)

    assert told.query.original == kept.query.original
    assert [each.text for each in told.candidates] == [each.text for each in kept.candidates]
    assert told.generation is not None
    assert kept.generation is not None
    assert told.generation.answer == kept.generation.answer


def test_the_own_record_goes_before(tmp_path: Path) -> None:
    """Spans of a request whose record is stored never replace it, whichever comes first."""
    kept, told = run(tmp_path, content=False)

    assert told.record_revision < kept.record_revision
