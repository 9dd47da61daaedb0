"""What a limit took away, what was hidden and what was never captured is not known, and no one's failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtrace.analyze import analyze_record
from ragtrace.receive._otlp import read_json
from ragtrace.receive._spans import ReceivedSpan, SpanEvent, SpanGeneration
from ragtrace.receive.dialects import read_span
from ragtrace.receive.imports import read_export
from ragtrace.types import RequestRecord, RerankRun, RetrieveRun
from tests.receive.spans import assembled, model, retriever, span

QUESTION = "Which tariff applied in March 2024 for Berlin?"
ANSWER = "In March 2024 the tariff for Berlin was 5 euro per day."
EVIDENCE = "In March 2024 the tariff that applied for Berlin was 5 euro per day."
TEXTS = [EVIDENCE, *(f"Document {place} speaks of the weather in town {place}." for place in range(1, 50))]
DOCUMENTS = [{"id": f"chunk-{place}", "page_content": text, "metadata": {}} for place, text in enumerate(TEXTS)]
HIDDEN = "__REDACTED__"


def request(found: ReceivedSpan) -> RequestRecord:
    """A chain that was given this retrieval, and whose model was given the evidence and answered from it."""
    chain = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    prompt = f"{EVIDENCE}\n{TEXTS[3]}\n{QUESTION}"
    return assembled([span(1, ended_at=9_000, attributes=chain), found, model(3, 1, prompt, ANSWER)])


def searched(given: dict[str, Any], **other: Any) -> ReceivedSpan:
    """A retrieval's span below the chain."""
    return span(2, 1, attributes=given, **other)


GENAI = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": QUESTION}
LANGFUSE = {"langfuse.observation.type": "retriever", "langfuse.observation.input": json.dumps(QUESTION)}
TRACELOOP = {"traceloop.span.kind": "task", "gen_ai.operation.name": "vector_db_retrieve"}
OPENINFERENCE = {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION}
TRULENS = {"ai.observability.span_type": "retrieval", "ai.observability.retrieval.query_text": QUESTION}
RESULT = "ai.observability.retrieval.retrieved_contexts"
CUT = json.dumps(DOCUMENTS)[:2_000]
EMPTY = {
    "GenAI": GENAI | {"gen_ai.retrieval.documents": "[]"},
    "Langfuse": LANGFUSE | {"langfuse.observation.output": '{"documents": []}'},
    "Traceloop": TRACELOOP | {"traceloop.entity.output": '{"documents": []}'},
    "OpenInference": OPENINFERENCE | {"output.value": "[]", "output.mime_type": "application/json"},
    "TruLens": TRULENS | {RESULT: []},
}
UNKNOWN = {
    "GenAI, not captured": GENAI,
    "GenAI, cut": GENAI | {"gen_ai.retrieval.documents": CUT},
    "GenAI, one text cut": GENAI | {"gen_ai.retrieval.documents": [json.dumps(DOCUMENTS[1]), CUT[1:40]]},
    "GenAI, of no shape": GENAI | {"gen_ai.retrieval.documents": "[1, 2]"},
    "Langfuse, not captured": LANGFUSE,
    "Langfuse, cut": LANGFUSE | {"langfuse.observation.output": CUT},
    "Langfuse, a retriever before 3.3, cut": {
        "langfuse.observation.type": "span",
        "langfuse.observation.input": QUESTION,
        "langfuse.observation.output": CUT,
    },
    "Traceloop, not captured": TRACELOOP,
    "Traceloop, cut": TRACELOOP | {"traceloop.entity.output": f'{{"documents": {CUT}'},
    "OpenInference, not captured": OPENINFERENCE,
    "OpenInference, hidden": OPENINFERENCE | {"input.value": HIDDEN, "output.value": HIDDEN},
    "OpenInference, cut": OPENINFERENCE | {"output.value": CUT},
    "TruLens, not captured": TRULENS,
}


def _retrieval(record: RequestRecord) -> tuple[str, str | None]:
    """The state of retrieval, and why."""
    (found,) = [found for found in analyze_record(record).diagnosis.stages if found.stage == "retrieval"]
    return found.state, found.reason


@pytest.mark.parametrize("given", UNKNOWN.values(), ids=UNKNOWN)
def test_documents_that_are_not_there(given: dict[str, Any]) -> None:
    """What was retrieved is not known then, and no stage is blamed for it."""
    record = request(searched(given))
    analysis = analyze_record(record)

    assert [run.incomplete for run in record.stages if isinstance(run, RetrieveRun)] == [True]
    assert (analysis.diagnosis.verdict, analysis.diagnosis.stage) == ("no_break_found", None)
    assert _retrieval(record) == ("not_known", "not_recorded")


@pytest.mark.parametrize("given", EMPTY.values(), ids=EMPTY)
def test_an_empty_list(given: dict[str, Any]) -> None:
    """It says that nothing was found: the retriever's failure, or nothing is there; so it is suspected, not blamed."""
    record = request(searched(given))

    assert [(run.candidates, run.incomplete) for run in record.stages if isinstance(run, RetrieveRun)] == [((), False)]
    assert _retrieval(record) == ("suspected", "low_match")


@pytest.mark.parametrize(
    "given", [GENAI, LANGFUSE, OPENINFERENCE, TRULENS], ids=["GenAI", "Langfuse", "OpenInference", "TruLens"]
)
def test_a_retriever_that_failed(given: dict[str, Any]) -> None:
    """It returned nothing; another one may have found what there is."""
    failed = searched(given, status="error", message="down")
    other = retriever(4, 1, TEXTS[:2])
    record = assembled([span(1, ended_at=9_000), failed, other])
    runs = [run for run in record.stages if isinstance(run, RetrieveRun)]

    assert [(run.error is not None, run.incomplete) for run in runs] == [(True, False), (False, False)]
    assert record.is_retrieved


def test_events_that_were_dropped() -> None:
    """A vector database's results are events, of which a limit takes the first; OTLP counts them apart."""
    events = [
        SpanEvent("db.query.result", 5, {"db.query.result.id": f"chunk-{place}", "db.query.result.document": text})
        for place, text in enumerate(TEXTS[20:], 20)
    ]
    given = searched({"db.system": "chroma"}, events=tuple(events), dropped_events=20)

    assert not request(given).is_retrieved
    written = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "droppedEventsCount": 3}
    (read,) = read_json(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [written]}]}]})).spans
    assert (read.dropped, read.dropped_events) == (0, 3)


def test_events_that_were_dropped_in_javascript(tmp_path: Path) -> None:
    """OpenTelemetry JS counts them apart as well."""
    path = tmp_path / "spans.json"
    written = {"spanContext": {"traceId": "a" * 32, "spanId": "b" * 16}, "name": "x", "droppedEventsCount": 3}
    path.write_text(json.dumps([written]), encoding="utf-8")

    assert [(each.dropped, each.dropped_events) for each in read_export(path).spans] == [(0, 3)]


def limited(whole: ReceivedSpan, most: int = 128) -> ReceivedSpan:
    """A span as the SDK's limit leaves it: the oldest attributes are dropped first, its kind among them."""
    given = dict(list(whole.attributes.items())[-most:])
    assert "openinference.span.kind" not in given
    return span(2, 1, attributes=given, dropped=len(whole.attributes) - len(given))


def test_a_retriever_that_lost_its_kind() -> None:
    """It is known by the names that are left; the ranks stay."""
    many = retriever(2, 1, TEXTS * 2)
    record = request(limited(many))
    (run,) = [run for run in record.stages if isinstance(run, RetrieveRun)]

    assert (run.incomplete, run.candidates[0].rank, run.candidates[-1].rank) == (True, 37, 100)
    assert _retrieval(record) == ("not_known", "not_recorded")


def test_a_reranker_that_lost_its_kind() -> None:
    """What it does not name is not known to have been dropped."""
    given: dict[str, Any] = {"openinference.span.kind": "RERANKER"}
    for prefix, texts in (("reranker.input_documents", TEXTS), ("reranker.output_documents", TEXTS[:20])):
        for place, text in enumerate(texts):
            given[f"{prefix}.{place}.document.id"] = f"chunk-{place}"
            given[f"{prefix}.{place}.document.content"] = text
    reranked = limited(searched(given), 40)
    record = assembled([span(1, ended_at=9_000), retriever(4, 1, TEXTS, started_at=1_500), reranked])
    (run,) = [run for run in record.stages if isinstance(run, RerankRun)]

    assert [move.rank_after for move in run.moves] == list(range(1, 21))


def messages(prefix: str, count: int) -> dict[str, Any]:
    """A prompt of so many messages, flattened; the first one holds the evidence."""
    suffix = "message." if prefix.startswith("llm") else ""
    return {
        f"{prefix}.{place}.{suffix}{name}": value
        for place in range(count)
        for name, value in (("role", "user"), ("content", TEXTS[place % len(TEXTS)]))
    }


PROMPTS = {
    "OpenInference": {"openinference.span.kind": "LLM"}
    | messages("llm.input_messages", 80)
    | {"llm.output_messages.0.message.content": ANSWER},
    "Traceloop": {"llm.request.type": "chat", "gen_ai.system": "OpenAI"}
    | messages("gen_ai.prompt", 80)
    | {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": ANSWER},
}


@pytest.mark.parametrize("given", PROMPTS.values(), ids=PROMPTS)
def test_a_prompt_that_was_cut(given: dict[str, Any]) -> None:
    """The call of the model is known by what is left, and that its prompt is not whole."""
    whole, cut = read_span(searched(given)).step, read_span(limited_call(given)).step

    assert isinstance(whole, SpanGeneration)
    assert isinstance(cut, SpanGeneration)
    assert (whole.incomplete, cut.incomplete) == (False, True)
    assert cut.answer == whole.answer == ANSWER


def limited_call(given: dict[str, Any]) -> ReceivedSpan:
    """A call of a model as the SDK's limit leaves it."""
    return searched(dict(list(given.items())[-128:]), dropped=len(given) - 128)


def test_missing_messages() -> None:
    """Where the count of what was dropped was lost on the way, missing places tell."""
    whole = model(3, 1, EVIDENCE, ANSWER).attributes
    moved = {name.replace("input_messages.0", "input_messages.1"): value for name, value in whole.items()}
    steps = [read_span(span(3, 1, attributes=each)).step for each in (whole, moved)]

    assert [isinstance(step, SpanGeneration) and step.incomplete for step in steps] == [False, True]


@pytest.mark.parametrize("dropped", [0, 9])
def test_messages_in_events_that_were_dropped(dropped: int) -> None:
    """GenAI's messages before 1.37 are events; a span that has them as attributes loses none with its events."""
    events = (SpanEvent("gen_ai.user.message", 1, {"content": EVIDENCE}),)
    old = span(3, 1, attributes={"gen_ai.system": "x"}, events=events, dropped_events=dropped)
    asked = {"gen_ai.input.messages": [{"role": "user", "content": EVIDENCE}]}
    new = span(3, 1, attributes={"gen_ai.system": "x"} | asked, events=events, dropped_events=dropped)
    steps = [read_span(each).step for each in (old, new)]

    assert [isinstance(step, SpanGeneration) and step.incomplete for step in steps] == [bool(dropped), False]


def test_hidden_values_are_none() -> None:
    """OpenInference's placeholder is no question, no answer, no prompt and no document's text."""
    hidden = {"input.value": HIDDEN, "output.value": HIDDEN}
    chain = span(1, ended_at=9_000, attributes={"openinference.span.kind": "CHAIN"} | hidden)
    record = assembled([chain, retriever(2, 1, [HIDDEN, HIDDEN]), model(3, 1, HIDDEN, HIDDEN)])

    assert record.query.original == "What is the tariff?"  # the retriever's
    assert [(each.chunk_id, each.text) for each in record.candidates] == [("chunk-0", None), ("chunk-1", None)]
    assert record.generation is not None
    assert (record.generation.answer, record.generation.prompt_template) == (None, None)
