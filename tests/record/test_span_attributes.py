"""GenAI and OpenInference attributes on real spans: what identifies a span is never lost, content only on request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import ragtrace
from ragtrace.types import RetrieveRun

BOTH = ("gen_ai", "openinference")
MAIL = "ann@example.com"


@ragtrace.request(session_id="session")
def ask(question: str, session: str = "s-1", count: int = 3) -> None:
    """All four stages."""
    hits = [
        {"id": f"c{n}", "text": f"secret text {n} by {MAIL}", "score": 1 / (n + 1), "page": n} for n in range(count)
    ]
    with ragtrace.retrieve(query=question, top_k=count, source="wiki") as retrieval:
        retrieval.candidates(hits)
    with ragtrace.rerank(versions={"reranker": "cross-1"}) as reranking:
        reranking.candidates([{"id": hit["id"], "score": 0.5} for hit in reversed(hits)][: count // 2 + 1])
    with ragtrace.pack() as packing:
        packing.packed([hits[1]])
    with ragtrace.generate(model="m1", prompt=f"secret prompt\n{hits[1]['text']}\n{question}") as generation:
        generation.answer({"answer": f"secret answer, {MAIL}", "usage": {"input_tokens": 5, "output_tokens": 2}})


def attributes(recorded: Any) -> dict[str, Mapping[str, Any]]:
    """The attributes of the ended spans, by the first word of their names."""
    return {name.split()[0]: span.attributes for name, span in recorded.spans.items()}


def text_of(recorded: Any) -> str:
    """All that was exported."""
    return "".join(span.to_json() for span in recorded.exporter.get_finished_spans())


def limited(recorded: Any, limit: int | None) -> None:
    """Spans of this provider take so many attributes."""
    limits = SpanLimits(max_span_attributes=SpanLimits.UNSET if limit is None else limit)
    recorded.provider = TracerProvider(span_limits=limits)
    recorded.provider.add_span_processor(SimpleSpanProcessor(recorded.exporter))
    ragtrace.record._recorder.active().tracing.given = recorded.provider  # type: ignore[union-attr]


def test_openinference_kinds_and_documents(configure: Any) -> None:
    """All stages have their kind, ids and scores by OpenInference's names beside the GenAI ones; no content."""
    recorded = configure(span_vocabularies=BOTH)
    ask(f"secret question of {MAIL}")
    found = attributes(recorded)
    assert {name: each["openinference.span.kind"] for name, each in found.items()} == {
        "request": "CHAIN", "retrieval": "RETRIEVER", "rerank": "RERANKER", "pack": "CHAIN", "chat": "LLM",
    }  # fmt: skip
    assert {each["session.id"] for each in found.values()} == {"s-1"}
    assert found["retrieval"]["retrieval.documents.0.document.id"] == "c0"
    assert found["retrieval"]["retrieval.documents.1.document.score"] == 0.5
    assert found["retrieval"]["gen_ai.operation.name"] == "retrieval"
    rerank = found["rerank"]
    assert [rerank[f"reranker.input_documents.{n}.document.id"] for n in range(3)] == ["c0", "c1", "c2"]
    assert [rerank[f"reranker.output_documents.{n}.document.id"] for n in range(2)] == ["c2", "c1"]
    assert (rerank["reranker.model_name"], rerank["reranker.top_k"]) == ("cross-1", 2)
    chat = found["chat"]
    assert (chat["llm.model_name"], chat["llm.token_count.total"]) == ("m1", 7)
    assert (chat["llm.token_count.prompt"], chat["llm.token_count.completion"]) == (5, 2)
    assert "secret" not in text_of(recorded)
    assert not any("left_out" in name for each in found.values() for name in each)


def test_gen_ai_only_by_default(configure: Any) -> None:
    """OpenInference's names come on request."""
    recorded = configure()
    ask("q")
    assert "openinference" not in text_of(recorded)
    assert "retrieval.documents.0" not in text_of(recorded)


def test_gen_ai_can_be_left_out(configure: Any) -> None:
    """What was not asked for is not there; our own names are."""
    recorded = configure(span_vocabularies=("openinference",))
    ask("q")
    found = attributes(recorded)
    assert not any(name.startswith("gen_ai.") for each in found.values() for name in each)
    assert found["retrieval"]["ragtrace.retrieval.document.ids"] == ("c0", "c1", "c2")


@pytest.mark.parametrize("limit", [32, 64, 128, None])
@pytest.mark.parametrize("content", [False, True])
def test_fifty_candidates_lose_no_identity(configure: Any, limit: int | None, content: bool) -> None:
    """Whole documents are left out, the worst ones, and counted, so that the SDK drops nothing."""
    recorded = configure(span_vocabularies=BOTH, span_content=content)
    limited(recorded, limit)
    ask("q", count=50)
    found = attributes(recorded)
    assert all(span.dropped_attributes == 0 for span in recorded.exporter.get_finished_spans())
    for name, operation in (("retrieval", "retrieval"), ("rerank", "rerank"), ("chat", "chat")):
        assert found[name]["gen_ai.operation.name"] == operation
        assert {"openinference.span.kind", "session.id"} < found[name].keys()
    retrieval = found["retrieval"]
    kept = [name for name in retrieval if name.endswith("document.id")]
    assert kept[-1] == "retrieval.documents.0.document.id"
    assert len(kept) + retrieval.get("ragtrace.documents_left_out", 0) == 50
    assert len([name for name in retrieval if name.endswith("document.score")]) == len(kept)
    assert len(retrieval["ragtrace.retrieval.document.ids"]) == 50
    assert len(retrieval) <= (limit or 1000)
    if limit is None:
        assert len(kept) == 50


def test_attributes_of_the_host_are_not_pushed_out(configure: Any) -> None:
    """What the host has set on the span itself takes its room too."""
    recorded = configure(span_vocabularies=BOTH)
    with ragtrace.retrieve(query="q") as retrieval:
        from opentelemetry.trace import get_current_span

        get_current_span().set_attributes({f"host.{n}": n for n in range(40)})
        retrieval.candidates([(f"c{n}", "text", 0.5) for n in range(60)])
    (span,) = [span for name, span in recorded.spans.items() if name.startswith("retrieval")]
    assert span.dropped_attributes == 0
    assert sum(name.startswith("host.") for name in span.attributes) == 40
    assert span.attributes["ragtrace.documents_left_out"] > 0


def test_a_request_span_with_many_versions(configure: Any) -> None:
    """Where the span's own attributes exceed the limit, what identifies the request is set last and stays."""
    recorded = configure(span_vocabularies=BOTH, versions={f"part{n}": "v" for n in range(40)})
    limited(recorded, 16)
    ask("q")
    request = attributes(recorded)["request"]
    assert {"ragtrace.request.id", "session.id", "openinference.span.kind"} < request.keys()


def test_content_on_request(configure: Any) -> None:
    """Query, documents, messages and values, by both vocabularies."""
    recorded = configure(span_vocabularies=BOTH, span_content=True)
    ask("secret question")
    found = attributes(recorded)
    retrieval, rerank, chat, request = (found[name] for name in ("retrieval", "rerank", "chat", "request"))
    assert retrieval["gen_ai.retrieval.query.text"] == retrieval["input.value"] == "secret question"
    assert retrieval["retrieval.documents.1.document.content"] == f"secret text 1 by {MAIL}"
    assert json.loads(retrieval["retrieval.documents.1.document.metadata"]) == {"page": 1}
    assert rerank["reranker.query"] == "secret question"
    assert rerank["reranker.output_documents.0.document.content"] == f"secret text 2 by {MAIL}"
    assert json.loads(found["pack"]["output.value"]) == [{"id": "c1", "content": f"secret text 1 by {MAIL}"}]
    prompt = f"secret prompt\nsecret text 1 by {MAIL}\nsecret question"
    assert chat["llm.input_messages.0.message.content"] == chat["input.value"] == prompt
    assert chat["llm.input_messages.0.message.role"] == "user"
    assert json.loads(chat["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": prompt}]}
    ]
    (output,) = json.loads(chat["gen_ai.output.messages"])
    assert output["parts"][0]["content"] == chat["llm.output_messages.0.message.content"]
    assert (output["role"], output["finish_reason"]) == ("assistant", "unknown")
    assert (request["input.value"], request["output.value"]) == ("secret question", f"secret answer, {MAIL}")


def test_content_after_redaction(configure: Any) -> None:
    """No address leaves through any attribute."""
    recorded = configure(span_vocabularies=BOTH, span_content=True, capture_content="redacted")
    ask(f"secret question of {MAIL}")
    assert MAIL not in text_of(recorded)
    chat = attributes(recorded)["chat"]
    assert chat["input.value"] == "secret prompt\nsecret text 1 by [EMAIL]\nsecret question of [EMAIL]"


@pytest.mark.parametrize("capture", ["off", "hash"])
def test_no_content_where_none_is_kept(configure: Any, capture: str) -> None:
    """Spans say no more than the record."""
    recorded = configure(span_vocabularies=BOTH, span_content=True, capture_content=capture)
    ask("secret question")
    assert "secret" not in text_of(recorded)


def test_a_prompt_on_a_span_without_texts_of_chunks(configure: Any) -> None:
    """Placeholders stand where the chunks stood."""
    recorded = configure(span_vocabularies=BOTH, span_content=True, capture_content={"chunks": "off"})
    ask("secret question")
    assert attributes(recorded)["chat"]["input.value"] == "secret prompt\n{chunk:c1}\nsecret question"
    assert "secret text" not in text_of(recorded)


def test_a_prompt_whose_chunks_were_packed_elsewhere(configure: Any) -> None:
    """Where texts of chunks are not kept, a prompt in which they cannot be found is not on the span either."""
    recorded = configure(span_vocabularies=BOTH, span_content=True, capture_content={"chunks": "off"})
    ask("q")
    carrier = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
    with ragtrace.extract(carrier), ragtrace.generate(model="m2", prompt="secret text elsewhere") as generation:
        generation.answer("answer")
    (span,) = [span for name, span in recorded.spans.items() if name == "chat m2"]
    assert "input.value" not in span.attributes
    assert span.attributes["output.value"] == "answer"


@pytest.mark.parametrize(("capture", "message"), [("redacted", "no index for [EMAIL]"), ("off", None), ("hash", None)])
def test_exceptions_follow_the_policy(configure: Any, capture: str, message: str | None) -> None:
    """The event names the exception; its message is redacted or not there, and no traceback quotes it."""
    recorded = configure(capture_content={"error": capture})
    with pytest.raises(ValueError, match="no index"), ragtrace.retrieve(query="q"):
        raise ValueError(f"no index for {MAIL}")
    for span in recorded.exporter.get_finished_spans():
        (event,) = span.events
        assert event.name == "exception"
        assert event.attributes["exception.type"] == "ValueError"
        assert event.attributes.get("exception.message") == message
        assert span.start_time <= event.timestamp <= span.end_time
    assert MAIL not in text_of(recorded)


def test_our_own_faults_quote_no_content(configure: Any) -> None:
    """The message of an exception of ours follows the policy for errors."""
    recorded = configure(capture_content={"error": "redacted"}, raise_errors=False)
    recorder = ragtrace.record._recorder.active()
    assert recorder is not None
    recorder.guard.caught("here", ValueError(f"cannot read {MAIL}"))
    (fault,) = recorded.items
    assert fault.message == "cannot read [EMAIL]"


def test_a_failing_redactor_is_counted(configure: Any) -> None:
    """The span has no content, the record its ids, and the fault its place and kind."""

    def broken(text: str) -> str:
        raise KeyError(text)

    recorded = configure(
        span_vocabularies=BOTH, span_content=True, capture_content={"chunks": "redacted"}, redactor=broken
    )
    ask("question")
    assert set(recorded.faults) == {("redact", "KeyError")}
    assert len(recorded.run(RetrieveRun).candidates) == 3
    assert not any(name.endswith("document.content") for name in attributes(recorded)["retrieval"])
