"""Files of spans as other tools export them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from ragtrace.errors import RecordError
from ragtrace.receive._assembly import assemble
from ragtrace.receive._spans import ReceivedSpan
from ragtrace.receive.imports import read_export
from ragtrace.types import RequestRecord
from tests.receive.test_otlp import SPAN, batch, message

SHARED = Path(__file__).parents[3] / "shared" / "data" / "traces"
needs_data = pytest.mark.skipif(not SHARED.exists(), reason="the real exports are not here")


def records(path: Path) -> list[RequestRecord]:
    """The records of a file's traces."""
    traces: defaultdict[str, list[ReceivedSpan]] = defaultdict(list)
    for each in read_export(path).spans:
        traces[each.trace_id].append(each)
    return [record for spans in traces.values() if (record := assemble(spans)) is not None]


def test_otlp_files(tmp_path: Path) -> None:
    """OTLP is recognized by its content."""
    for name, body in (("a.json", batch(SPAN)), ("b.bin", message()), ("c.jsonl", batch(SPAN) + b"\n" + batch(SPAN))):
        path = tmp_path / name
        path.write_bytes(body)
        assert read_export(path).spans[0].name == "search"


@needs_data
def test_vercel_spans_of_openinference() -> None:
    """Ten spans of the Vercel AI SDK; four are calls of a model."""
    found = records(SHARED / "openinference" / "all-spans.json")

    assert len(found) == 4
    assert {record.versions["model"] for record in found} == {"gpt-4o-mini-2024-07-18"}
    assert all(record.generation and record.generation.answer for record in found)


@needs_data
def test_trulens_table() -> None:
    """A LlamaIndex application as TruLens exports it: the outermost of three nested retrievals, the root's answer."""
    (record,) = records(SHARED / "trulens" / "test_otel_tru_llama__test_smoke.csv")

    assert record.service == "Simple RAG"
    assert record.query.original == "What is multi-headed attention?"
    assert len(record.candidates) == 3
    assert record.generation is not None
    assert (record.generation.answer or "").startswith("Context information is below.")


@needs_data
def test_trulens_events() -> None:
    """Single events, as JSON: together they are one request."""
    names = ("record_root_span", "retrieval_span", "generation_span")
    spans = [each for name in names for each in read_export(SHARED / "trulens" / f"{name}.json").spans]
    record = assemble(spans)

    assert record is not None
    assert record.query.original == "What is the best coffee?"
    assert len(record.candidates) == 4
    assert record.packing is not None
    assert [chunk.chunk_id for chunk in record.packing.chunks] == [each.chunk_id for each in record.candidates]
    assert record.generation is not None
    assert record.generation.usage is not None


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("empty.json", b" \n", "is empty"),
        ("other.json", json.dumps({"a": 1}).encode(), "holds no spans that are known"),
        ("broken.json", b"{", "is no JSON"),
        ("text.txt", b"hello", "is no OTLP protobuf"),
        ("table.csv", b"a,b\n", "has no rows"),
    ],
)
def test_other_files(tmp_path: Path, name: str, body: bytes, reason: str) -> None:
    """Other files are refused in one line that names them."""
    path = tmp_path / name
    path.write_bytes(body)

    with pytest.raises(RecordError, match=f"{name}.* {reason}"):
        read_export(path)


def test_js_span_without_ids(tmp_path: Path) -> None:
    """It is rejected alone."""
    path = tmp_path / "spans.json"
    good = {"spanContext": {"traceId": "a" * 32, "spanId": "b" * 16}, "name": "x", "startTime": [1, 2]}
    path.write_text(json.dumps([good, {"name": "y", "spanContext": {}}]), encoding="utf-8")
    received = read_export(path)

    assert [each.started_at for each in received.spans] == [1_000_000_002]
    assert received.rejected == ["span 'y': it has no ids"]
