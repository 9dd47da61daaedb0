"""One span per request and stage on the host's provider: names, parents, attributes, no content."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, StatusCode, format_trace_id

import ragtrace
from ragtrace.record._spans import set_attributes
from ragtrace.types import RetrieveRun


@ragtrace.request(query_class="kind")
def ask(question: str, kind: str = "dates") -> None:
    """All four stages."""
    with ragtrace.retrieve(query=question, top_k=2, source="wiki") as retrieval:
        retrieval.candidates([("a", "secret text of a", 0.9), ("b", "secret text of b", 0.8)])
    with ragtrace.rerank() as reranking:
        reranking.candidates([("b", 0.7)])
    with ragtrace.pack(budget=9) as packing:
        packing.packed([{"id": "b", "tokens": 4, "text": "secret"}])
    with ragtrace.generate(model="m1", prompt="secret prompt") as generation:
        generation.answer({"answer": "secret answer", "usage": {"input_tokens": 5, "output_tokens": 2}})


def test_names_and_parents(recorded: Any) -> None:
    """The stages are children of the request; ids in the record are those of the spans."""
    ask("secret question")
    spans = recorded.spans
    request = spans["request ask"]
    stages = [spans[name] for name in ("retrieval wiki", "rerank rerank", "pack pack", "chat m1")]
    assert {span.parent.span_id for span in stages} == {request.context.span_id}
    assert recorded.record.trace_id == format_trace_id(request.context.trace_id)
    assert recorded.run(RetrieveRun).span_id == f"{stages[0].context.span_id:016x}"
    assert recorded.record.started_at == request.start_time
    assert recorded.record.ended_at == request.end_time


def test_attributes(recorded: Any) -> None:
    """GenAI names where there are some, ragtrace's own else; ids and scores as JSON and as parallel arrays."""
    ask("secret question")
    spans = recorded.spans
    retrieval = spans["retrieval wiki"].attributes
    assert retrieval["gen_ai.operation.name"] == "retrieval"
    assert retrieval["gen_ai.retrieval.top_k"] == 2
    assert retrieval["gen_ai.data_source.id"] == "wiki"
    documents = json.loads(retrieval["gen_ai.retrieval.documents"])
    assert documents == [{"id": "a", "score": 0.9}, {"id": "b", "score": 0.8}]
    assert retrieval["ragtrace.retrieval.document.ids"] == ("a", "b")
    assert retrieval["ragtrace.retrieval.document.scores"] == (0.9, 0.8)
    reranking = spans["rerank rerank"].attributes
    assert reranking["ragtrace.rerank.document.ids"] == ("b",)
    assert reranking["ragtrace.rerank.document.ranks_before"] == (2,)
    assert reranking["ragtrace.rerank.dropped.ids"] == ("a",)
    packing = spans["pack pack"].attributes
    assert (packing["ragtrace.pack.document.ids"], packing["ragtrace.pack.tokens"]) == (("b",), (4,))
    assert packing["ragtrace.pack.budget_tokens"] == 9
    chat = spans["chat m1"].attributes
    assert (chat["gen_ai.operation.name"], chat["gen_ai.request.model"]) == ("chat", "m1")
    assert (chat["gen_ai.usage.input_tokens"], chat["gen_ai.usage.output_tokens"]) == (5, 2)
    request = spans["request ask"].attributes
    assert request["ragtrace.request.id"] == recorded.record.request_id
    assert (request["ragtrace.segment"], request["ragtrace.head_sampled"]) == ("dates", True)


def test_no_content_on_spans(recorded: Any) -> None:
    """Neither query nor chunk, prompt or answer text leaves through a span."""
    ask("secret question")
    assert "secret" not in "".join(span.to_json() for span in recorded.exporter.get_finished_spans())


def test_exceptions_are_on_the_spans(recorded: Any) -> None:
    """Stage and request spans have the error status and the exception event."""

    @ragtrace.retrieve
    def broken(query: str) -> None:
        raise ValueError("no index")

    with pytest.raises(ValueError, match="no index"):
        broken("q")
    for span in recorded.exporter.get_finished_spans():
        assert span.status.status_code is StatusCode.ERROR
        assert [event.name for event in span.events] == ["exception"]


def test_spans_are_children_of_the_hosts_span(recorded: Any) -> None:
    """The host's own trace goes through, and its own spans inside a stage are the stage's children."""
    tracer = recorded.provider.get_tracer("host")
    sql = tracer.start_as_current_span("sql")
    with tracer.start_as_current_span("http") as http, ragtrace.retrieve(query="q"), sql:
        pass
    spans = recorded.spans
    assert spans["request retrieve"].parent.span_id == http.get_span_context().span_id
    assert spans["sql"].parent.span_id == spans["retrieval retrieve"].context.span_id


def test_a_host_without_a_tracer_provider_gets_records(configure: Any) -> None:
    """No OpenTelemetry SDK: the record is whole, without a trace id."""
    recorded = configure(spans=False)
    ask("q")
    assert recorded.record.trace_id is None
    assert recorded.record.span_id is None
    assert len(recorded.record.stages) == 4
    assert recorded.spans == {}


ARRAYS: dict[str, dict[str, Any]] = {
    "texts": {"a": ["x", "y"], "b": ("z",)},
    "numbers": {"a": [0.5, 1.0], "b": [1, 2], "c": [True, False], "d": 1, "e": 0.5, "f": True},
    "empty": {"a": [], "b": ()},
    "of several kinds": {"a": ["x", 1]},
    "with nothing": {"a": None, "b": [None, "x"]},
    "nested": {"a": [["x"], ["y"]], "b": {"c": 1}},
    "not ours": {"a": [Fraction(1, 2)], "b": Fraction(1, 2)},
    "a subclass": {"a": [str.__new__(type("Text", (str,), {}), "x")]},
    "many": {f"a{number}": [number] for number in range(8)},
}


@pytest.mark.parametrize("before", [{}, {"z": 1}, {"a": 1, "z": 2}])
@pytest.mark.parametrize("limits", [{}, {"max_span_attributes": 6}, {"max_span_attribute_length": 1}])
@pytest.mark.parametrize("name", sorted(ARRAYS))
def test_attributes_are_set_as_the_sdk_sets_them(name: str, limits: dict[str, int], before: dict[str, int]) -> None:
    """Values, their types, their order, and how many were dropped."""
    tracer = TracerProvider(span_limits=SpanLimits(**limits)).get_tracer("test")
    ours, sdks = (tracer.start_span("span", attributes=before) for _ in range(2))
    set_attributes(ours, ARRAYS[name])
    sdks.set_attributes(ARRAYS[name])
    assert isinstance(ours, ReadableSpan)
    assert isinstance(sdks, ReadableSpan)
    assert list((ours.attributes or {}).items()) == list((sdks.attributes or {}).items())
    assert list(map(type, (ours.attributes or {}).values())) == list(map(type, (sdks.attributes or {}).values()))
    assert ours.dropped_attributes == sdks.dropped_attributes


@pytest.mark.parametrize("name", ["texts", "numbers", "empty", "many"])
def test_the_sdk_looks_at_no_element_of_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would find nothing to change; also where a span processor has set some before."""
    span = TracerProvider().get_tracer("test").start_span("span", attributes={"z": 1})
    monkeypatch.setattr(type(span), "set_attributes", lambda self, attributes: pytest.fail("it looks"))
    set_attributes(span, ARRAYS[name])


def test_a_span_of_another_kind_sets_its_own_attributes() -> None:
    """One that nobody records takes none; one of another SDK gets what it would."""
    given: list[Any] = []

    class Other(NonRecordingSpan):
        def set_attributes(self, attributes: Any) -> None:
            given.append(attributes)

    set_attributes(Other(INVALID_SPAN_CONTEXT), {"a": ["x"]})
    assert given == [{"a": ["x"]}]
