"""The traces: `bench/overhead.py`'s pipeline as OpenInference writes it, through OpenTelemetry's SDK and exporter.

A chain with a retriever of 50 candidates, a reranker that is given these and keeps 12, a packer of 8 and an answer. The
SDK's limit of 128 attributes is lifted: it would drop most candidates. A text stands in a trace as often as its stages
pass it on, and in no other trace.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, Tracer
from opentelemetry.util.types import AttributeValue

from bench.sending.prose import Prose
from bench.subjects.work import LENGTH, PACKED, RERANKED
from ragtrace.record import conventions as names

__all__ = ["CANDIDATES", "HEAD", "SPANS", "Load", "prepare"]

CANDIDATES: Final = 50
SPANS: Final = 5
HEAD: Final = struct.Struct(">II")
"""Before each prepared request: how many spans, how many bytes."""

_ANSWER: Final = 800  # characters
_SAMPLE: Final = 4_000  # characters of which the ratio is stated
Attributes = dict[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class Document:
    """A chunk that is found."""

    chunk_id: str
    text: str
    score: float
    metadata: str


@dataclass(frozen=True, slots=True)
class Load:
    """Prepared requests in a file. ratio: of 4 kB of the text to its Zstandard; seconds: of the SDK and of the
    exporter's encoder for a trace, which were spent before the clock started."""

    file: Path
    ids: Sequence[str]
    batch: int
    size: int
    ratio: float
    seconds: float

    @property
    def traces(self) -> int:
        """How many."""
        return len(self.ids)


def prepare(file: Path, traces: int, batch: int, seed: int = 1) -> Load:
    """Write the requests of so many traces, `batch` of them in each."""
    prose = Prose(seed)
    sample = prose.text(_SAMPLE).encode()
    exporter = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource.create({"service.name": "bench", "openinference.project.name": "default"}),
        span_limits=SpanLimits(max_span_attributes=SpanLimits.UNSET),
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("bench")
    ids: list[str] = []
    size, spent = 0, 0.0
    with file.open("wb") as out:
        for first in range(0, traces, batch):
            works = [_Request(prose, number) for number in range(first, min(first + batch, traces))]
            began = time.process_time()
            for work in works:
                work.run(tracer)
            spans = exporter.get_finished_spans()
            body = encode_spans(spans).SerializeToString()
            spent += time.process_time() - began
            exporter.clear()
            ids += _traces_of(spans)
            size += len(body)
            out.write(HEAD.pack(len(spans), len(body)) + body)
    provider.shutdown()
    ratio = len(sample) / len(zstandard.ZstdCompressor(level=3).compress(sample))
    return Load(file, ids, batch, size, ratio, spent / traces)


def _traces_of(spans: Sequence[ReadableSpan]) -> list[str]:
    return list(dict.fromkeys(f"{span.context.trace_id:032x}" for span in spans))


class _Request:
    """One request's texts, drawn before it runs."""

    def __init__(self, prose: Prose, number: int) -> None:
        self.question = prose.text(60) + "?"
        self.answer = prose.text(_ANSWER)
        self.found = [
            Document(
                f"chunk-{number * CANDIDATES + place}",
                prose.text(LENGTH),
                round(1 / (place + 1.5), 6),
                json.dumps({"source": f"wording-{number}.pdf", "page": place + 1}),
            )
            for place in range(CANDIDATES)
        ]
        self.prompt = prose.text(200) + "\n\n" + "\n\n".join(each.text for each in self.found[:PACKED])

    def run(self, tracer: Tracer) -> None:
        """Five spans."""
        with tracer.start_as_current_span("request") as root:
            _set(root, "CHAIN", {names.INPUT_VALUE: self.question, names.OUTPUT_VALUE: self.answer})
            with tracer.start_as_current_span("retrieve") as span:
                _set(span, "RETRIEVER", {names.INPUT_VALUE: self.question, **_listed(names.DOCUMENTS, self.found)})
            with tracer.start_as_current_span("rerank") as span:
                moved = _listed(names.RERANKER_INPUTS, self.found, bare=True)
                moved |= _listed(names.RERANKER_OUTPUTS, self.found[:RERANKED], bare=True)
                _set(span, "RERANKER", {names.RERANKER_QUERY: self.question, names.RERANKER_TOP_K: RERANKED, **moved})
            with tracer.start_as_current_span("pack") as span:
                _set(span, "CHAIN", {})
            with tracer.start_as_current_span("generate") as span:
                _set(span, "LLM", self._generated())

    def _generated(self) -> Attributes:
        return {
            names.LLM_MODEL: "m-7",
            f"{names.LLM_INPUT}.0.{names.MESSAGE_ROLE}": "system",
            f"{names.LLM_INPUT}.0.{names.MESSAGE_CONTENT}": self.prompt,
            f"{names.LLM_INPUT}.1.{names.MESSAGE_ROLE}": "user",
            f"{names.LLM_INPUT}.1.{names.MESSAGE_CONTENT}": self.question,
            f"{names.LLM_OUTPUT}.0.{names.MESSAGE_ROLE}": "assistant",
            f"{names.LLM_OUTPUT}.0.{names.MESSAGE_CONTENT}": self.answer,
            names.PROMPT_TOKENS: 1300,
            names.COMPLETION_TOKENS: 200,
            names.TOTAL_TOKENS: 1500,
        }


def _set(span: Span, kind: str, attributes: Attributes) -> None:
    span.set_attribute(names.SPAN_KIND, kind)
    for name, value in attributes.items():
        span.set_attribute(name, value)


def _listed(prefix: str, documents: Sequence[Document], *, bare: bool = False) -> Attributes:
    """A list, flattened; bare: without metadata, as most rerankers pass it on."""
    found: Attributes = {}
    for place, each in enumerate(documents):
        start = f"{prefix}.{place}."
        found[start + names.DOCUMENT_ID] = each.chunk_id
        found[start + names.DOCUMENT_CONTENT] = each.text
        found[start + names.DOCUMENT_SCORE] = each.score
        if not bare:
            found[start + names.DOCUMENT_METADATA] = each.metadata
    return found
