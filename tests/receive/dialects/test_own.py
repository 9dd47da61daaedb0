"""ragtrace's own spans hold what its record holds: ids, ranks, scores; texts where the host puts them on spans."""

from __future__ import annotations

from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ragtrace
from ragtrace.plausible_values import settle
from ragtrace.receive._assembly import assemble
from ragtrace.receive._otlp import read_protobuf
from ragtrace.receive._spans import ReceivedSpan
from ragtrace.record import conventions as names
from ragtrace.store import Store
from ragtrace.types import PackRun, RequestRecord, RerankRun
from tests.receive.spans import assembled, span

CHUNKS = [
    {"id": f"c{place}", "text": f"Fact number {place} of the tariff.", "score": 1 - place / 10} for place in range(5)
]


def run(tmp_path: Path, *, content: bool, cites: bool | None = None) -> tuple[RequestRecord, RequestRecord]:
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

        with ragtrace.request(query="Which tariff?", segment="legal", session_id="s1", versions={"index": "i1"}) as it:
            it.set(cites=cites)
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


@pytest.mark.parametrize(("content", "cites"), [(False, False), (True, True), (True, None)])
def test_spans_tell_the_record(tmp_path: Path, content: bool, cites: bool | None) -> None:
    """Everything but texts is the same on both ways."""
    kept, told = run(tmp_path, content=content, cites=cites)

    assert kept.cites is cites
    same = ("request_id", "service", "segment", "session_id", "versions", "cites", "head_sampled", "head_probability")
    for field in same:
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


def own(number: int, parent: int | None, attributes: dict[str, Any], **given: Any) -> ReceivedSpan:
    """A span of ragtrace's."""
    return span(number, parent, scope=names.TRACER, attributes=attributes, **given)


STAGE = own(3, 2, {names.RETRIEVAL_IDS: ["a", "b"]})
REQUEST = own(2, 1, {names.REQUEST_ID: "r1"}, ended_at=9_000)


def test_the_request_is_the_senders_whatever_is_around_it() -> None:
    """Its times are its own span's, as in its record: by its id and its start the store knows that both are one."""
    record = assembled([span(1, name="POST /ask", ended_at=99_000), REQUEST, STAGE])

    assert (record.request_id, record.started_at, record.ended_at) == ("r1", 2_000, 9_000)
    assert record.record_revision < 0


def test_without_the_span_of_the_request() -> None:
    """There is no record yet: under the trace's id it would stay beside that under the request's own."""
    assert assemble([STAGE]) is None
    assert assembled([STAGE, REQUEST]).request_id == "r1"


def test_numbers_that_cannot_be() -> None:
    """They cost neither time nor the record."""
    reranked = own(
        4,
        2,
        {
            names.RERANK_IDS: ["b", "a"],
            names.RERANK_RANKS_BEFORE: [2**62, 2],
            names.RERANK_DROPPED_IDS: ["c"],
            names.RERANK_INPUT_COUNT: 2**62,
        },
    )
    record = assembled([own(2, None, {names.REQUEST_ID: "r1", names.REQUEST_HEAD_PROBABILITY: -5.0}), STAGE, reranked])

    assert settle(record, time_ns(), 300.0).head_probability == 1
    assert [move.chunk_id for move in record.moves] == ["b", "a", "c"]
