"""Requests of spans and logs as no sender should make them: what is drawn for the tests that search for faults."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from ragtrace.record import conventions as names

ZEROS: Any = "0" * 16
NAMES = (
    "openinference.span.kind input.value output.value retrieval.documents.0.document.id retrieval.documents.0.document"
    " retrieval.documents.0.document.content retrieval.documents.99999999.document.score llm.input_messages.0.message"
    " llm.input_messages.0.message.content llm.output_messages.0.message.content reranker.input_documents.0.document.id"
    " reranker.output_documents.0.document.content traceloop.span.kind traceloop.entity.input traceloop.entity.output"
    " langfuse.observation.type langfuse.observation.input langfuse.trace.id ai.operationId ai.prompt gen_ai.system"
    " ai_observability.span_type ai.observability.record_root.input tenant.id session.id event.name service.name"
    f" {names.REQUEST_ID} {names.RETRIEVAL_IDS} {names.RETRIEVAL_SCORES} {names.RERANK_IDS} {names.RERANK_RANKS_BEFORE}"
    f" {names.RERANK_DROPPED_IDS} {names.PACK_IDS} {names.PACK_TOKENS} {names.PACK_DROPPED_IDS} {names.OPERATION_NAME}"
    f" {names.PACK_DROPPED_REASONS} {names.RETRIEVAL_DOCUMENTS} {names.INPUT_MESSAGES} {names.OUTPUT_MESSAGES}"
    f" {names.EVALUATION_NAME} {names.EVALUATION_VALUE} {names.EVALUATION_LABEL} {names.EVALUATION_EXPLANATION}"
    f" {names.FINISH_REASONS} {names.INPUT_TOKENS} {names.REQUEST_MODEL} {names.REQUEST_FLAGS} {names.VERSION}.model"
).split()
KINDS = ["RETRIEVER", "RERANKER", "LLM", "CHAIN", "retrieval", "chat", "embeddings", "workflow", "generation"]

texts = (
    st.sampled_from(
        [*KINDS, "", "\x00", "a\u2028b", "[", '{"role": "user"', "NaN", "1e999", "-0", names.EVALUATION_EVENT]
    )
    | st.text(max_size=12)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.sampled_from(KINDS),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "content", "role", "parts", "text", "type", "score"]), inner, max_size=3
            )
        ),
        max_leaves=6,
    ).map(json.dumps)
    | st.integers(1, 200_000).map("x".__mul__)
)
numbers = st.sampled_from([0, 1, -1, 2**31, 2**53, 2**63 - 1, -(2**63)]) | st.integers(-5, 5)
values = st.recursive(
    st.fixed_dictionaries({"stringValue": texts})
    | st.fixed_dictionaries({"intValue": numbers})
    | st.fixed_dictionaries({"doubleValue": st.sampled_from(["NaN", "Infinity", -0.0, 1e308, 0.5])})
    | st.fixed_dictionaries({"boolValue": st.booleans()})
    | st.fixed_dictionaries({"bytesValue": st.sampled_from(["", "/w=="])})
    | st.just({}),
    lambda inner: (
        st.builds(lambda each: {"arrayValue": {"values": each}}, st.lists(inner, max_size=4))
        | st.builds(
            lambda each: {"kvlistValue": {"values": [{"key": key, "value": value} for key, value in each.items()]}},
            st.dictionaries(st.text(max_size=3), inner, max_size=3),
        )
    ),
    max_leaves=8,
)
attributes = st.lists(
    st.builds(lambda key, value: {"key": key, "value": value}, st.sampled_from(NAMES) | st.text(max_size=5), values),
    max_size=8,
)
times = st.sampled_from([0, 1, 5, 1_700_000_000_000_000_000, 2**63 - 1, 2**63, 2**64 - 1]).map(str)
span_ids = st.sampled_from([f"{number:016x}" for number in range(1, 6)]) | st.sampled_from([ZEROS, "", "01"])
trace_ids = st.sampled_from([f"{number:032x}" for number in range(1, 4)] * 3 + ["0" * 32, "", "abcd"])
events = st.fixed_dictionaries(
    {
        "name": st.sampled_from([names.EVALUATION_EVENT, "exception", "gen_ai.choice", "gen_ai.user.message", ""]),
        "timeUnixNano": times,
        "attributes": attributes,
    }
)
spans = st.fixed_dictionaries(
    {
        "traceId": trace_ids,
        "spanId": span_ids,
        "parentSpanId": span_ids,  # missing ones, circles, itself
        "name": texts,
        "startTimeUnixNano": times,
        "endTimeUnixNano": times,
        "attributes": attributes,
        "events": st.lists(events, max_size=2),
        "status": st.fixed_dictionaries({"code": st.integers(0, 5)}),
        "droppedAttributesCount": st.integers(0, 3),
    }
)
records = st.fixed_dictionaries(
    {
        "traceId": trace_ids,
        "spanId": span_ids,
        "eventName": st.sampled_from([names.EVALUATION_EVENT] * 3 + ["", "other"]),
        "timeUnixNano": times,
        "attributes": attributes,
    }
)
scopes = st.sampled_from([{}, {"name": names.TRACER}, {"name": "openinference.instrumentation.langchain"}])
resources = st.builds(lambda given: {"attributes": given}, attributes)


def requests(signal: str) -> st.SearchStrategy[dict[str, Any]]:
    """Requests of `traces` or `logs`, as OTLP's JSON."""
    plural, single, held = {
        "traces": ("resourceSpans", "scopeSpans", ("spans", spans)),
        "logs": ("resourceLogs", "scopeLogs", ("logRecords", records)),
    }[signal]
    scoped = st.fixed_dictionaries({"scope": scopes, held[0]: st.lists(held[1], max_size=5)})
    resource = st.fixed_dictionaries({"resource": resources, single: st.lists(scoped, max_size=2)})
    return st.fixed_dictionaries({plural: st.lists(resource, min_size=1, max_size=2)})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["5b8efff798038103", "7", ZEROS]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                "resourceSpans scopeSpans spans resource scope attributes key value stringValue traceId spanId name"
                " events resourceLogs scopeLogs logRecords eventName kvlistValue arrayValue values".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)
"""JSON with OTLP's words in any place."""
