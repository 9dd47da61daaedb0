"""`ragtrace.instrument("haystack")` on small real applications: pipelines and agents without a decorator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording

reason = "haystack-ai is not installed (pip install 'ragtrace[haystack,otel]')"
pytest.importorskip("haystack", reason=reason)
pytest.importorskip("opentelemetry.instrumentation", reason=reason)

from haystack import Document, Pipeline, component, tracing  # noqa: E402  # after the skip
from haystack.components.builders import ChatPromptBuilder, PromptBuilder  # noqa: E402
from haystack.components.joiners import DocumentJoiner  # noqa: E402
from haystack.components.rankers import LostInTheMiddleRanker  # noqa: E402
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever  # noqa: E402
from haystack.components.writers import DocumentWriter  # noqa: E402
from haystack.core.errors import PipelineRuntimeError  # noqa: E402
from haystack.dataclasses import ChatMessage  # noqa: E402
from haystack.document_stores.in_memory import InMemoryDocumentStore  # noqa: E402

TEXTS = {
    "leave": "Employees may take twenty days of leave in a calendar year.",
    "notice": "The notice period is three months to the end of a quarter.",
    "bonus": "A bonus is paid in March when the targets have been met.",
    "travel": "Travel in the second class is paid for all journeys by train.",
}
QUESTION = "How many days of leave are there in a year?"
TEMPLATE = "Context:\n{% for each in documents %}{{ each.content }}\n{% endfor %}\nQuestion: {{ question }}"


@component
class Shortest:
    """Keeps the two shortest documents."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Ranks."""
        ranked = sorted(documents, key=lambda each: len(each.content or ""))[:2]
        return {
            "documents": [
                Document(id=each.id, content=each.content, score=1 / rank) for rank, each in enumerate(ranked, 1)
            ]
        }


@component
class Model:
    """A text generator."""

    @component.output_types(replies=list[str], meta=list[dict[str, Any]])
    def run(self, prompt: str) -> dict[str, Any]:
        """Answers."""
        meta = {"model": "parrot", "finish_reason": "stop", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
        return {"replies": ["Twenty days."], "meta": [meta]}


@component
class ChatModel:
    """A chat generator."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None) -> dict[str, Any]:
        """Answers."""
        return {"replies": [ChatMessage.from_assistant("Twenty days.", meta={"model": "parrot"})]}


@component
class Broken:
    """A generator that is away."""

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        """Never answers."""
        raise TimeoutError("the model is away")


SHORTEST = sorted(TEXTS, key=lambda key: len(TEXTS[key]))[:2]


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """Haystack is instrumented; nothing stays attached to the test's own context."""
    ragtrace.instrument("haystack")
    before = get_current()
    yield
    assert get_current() == before
    ragtrace.uninstrument("haystack")


@pytest.fixture
def records() -> Iterator[Records]:
    """A recorder in use."""
    with recording() as found:
        yield found


@pytest.fixture
def store() -> InMemoryDocumentStore:
    """Four documents with ids."""
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=key, content=text) for key, text in TEXTS.items()])
    return store


def pipeline_of(store: InMemoryDocumentStore, model: Any = None) -> Pipeline:
    """A pipeline as Haystack's tutorials write it."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=4))
    pipeline.add_component("ranker", Shortest())
    pipeline.add_component("prompt_builder", PromptBuilder(TEMPLATE, required_variables=["documents", "question"]))
    pipeline.add_component("llm", model or Model())
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "prompt_builder.documents")
    pipeline.connect("prompt_builder.prompt", "llm.prompt")
    return pipeline


INPUTS = {"retriever": {"query": QUESTION}, "prompt_builder": {"question": QUESTION}}


def check(records: Records, store: InMemoryDocumentStore) -> None:
    """Candidates, moves, prompt and answer stand in one record."""
    assert records.one.query.original == QUESTION
    assert records.stages() == ["retrieve", "rerank", "pack", "generate"]
    expected = [(each.id, each.score) for each in store.bm25_retrieval(QUESTION, top_k=4)]
    assert records.retrieved() == expected
    ids = [chunk_id for chunk_id, _ in expected]
    kept = [(key, ids.index(key) + 1, rank) for rank, key in enumerate(SHORTEST, 1)]
    assert records.moves() == kept + [(key, ids.index(key) + 1, None) for key in ids if key not in SHORTEST]
    assert [move.score for move in records.one.moves[:2]] == [1.0, 0.5]
    assert records.packed() == SHORTEST
    generation = records.generation()
    assert (generation.answer, generation.model) == ("Twenty days.", "parrot")
    template = "\n".join(f"{{chunk:{key}}}" for key in SHORTEST)
    assert generation.prompt_template == f"Context:\n{template}\n\nQuestion: {QUESTION}"


def test_a_pipeline_is_one_record(records: Records, store: InMemoryDocumentStore) -> None:
    """Candidates with ids and scores, moves, the prompt's chunks and the answer, in a request that opened by itself."""
    assert pipeline_of(store).run(INPUTS)["llm"]["replies"] == ["Twenty days."]
    check(records, store)
    usage = records.generation().usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, records.generation().finish_reason) == (7, 2, "stop")


def test_an_async_pipeline_is_one_record(records: Records, store: InMemoryDocumentStore) -> None:
    """The same with run_async."""
    asyncio.run(pipeline_of(store).run_async(INPUTS))
    check(records, store)


def test_partial_results_leave_nothing_attached(records: Records, store: InMemoryDocumentStore) -> None:
    """A pipeline that yields the components' outputs on its way is still one request."""

    async def read() -> None:
        before = get_current()
        async for _ in pipeline_of(store).run_async_generator(INPUTS):
            assert get_current() == before

    asyncio.run(read())
    check(records, store)


def test_a_chat_pipeline_is_one_record(records: Records, store: InMemoryDocumentStore) -> None:
    """Chat prompts are packings too."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=2))
    builder = ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)], required_variables=["documents", "question"])
    pipeline.add_component("prompt_builder", builder)
    pipeline.add_component("llm", ChatModel())
    pipeline.connect("retriever.documents", "prompt_builder.documents")
    pipeline.connect("prompt_builder.prompt", "llm.messages")
    pipeline.run(INPUTS)
    assert records.stages() == ["retrieve", "pack", "generate"]
    assert records.packed() == [chunk_id for chunk_id, _ in records.retrieved()]
    assert records.generation().answer == "Twenty days."


def test_joined_retrievers_are_reranked(records: Records, store: InMemoryDocumentStore) -> None:
    """Both retrievals are kept; the joiner gives them another order."""
    pipeline = Pipeline()
    pipeline.add_component("first", InMemoryBM25Retriever(store, top_k=2))
    pipeline.add_component("second", InMemoryBM25Retriever(store, top_k=4))
    pipeline.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion"))
    pipeline.add_component("ranker", LostInTheMiddleRanker())
    pipeline.connect("first.documents", "joiner.documents")
    pipeline.connect("second.documents", "joiner.documents")
    pipeline.connect("joiner.documents", "ranker.documents")
    pipeline.run({"first": {"query": QUESTION}, "second": {"query": QUESTION}})
    assert records.stages() == ["retrieve", "retrieve", "rerank", "rerank"]
    assert [after for _, _, after in records.moves()] == [1, 2, 3, 4]


def test_an_agents_model_calls_are_generations(records: Records) -> None:
    """An agent's run is the request; each of its model calls is a generation."""
    from haystack.components.agents import Agent

    agent = Agent(chat_generator=ChatModel())
    agent.run(messages=[ChatMessage.from_user(QUESTION)])
    assert records.stages() == ["generate"]
    assert records.one.query.original == QUESTION
    assert records.generation().answer == "Twenty days."


def test_an_indexing_pipeline_leaves_no_record(records: Records) -> None:
    """Writing documents is no request."""
    pipeline = Pipeline()
    pipeline.add_component("writer", DocumentWriter(InMemoryDocumentStore()))
    pipeline.run({"writer": {"documents": [Document(content="A text.")]}})
    assert records.items == []


def test_a_pipeline_joins_the_hosts_request(records: Records, store: InMemoryDocumentStore) -> None:
    """A request that the host opened stays the only one."""
    with ragtrace.request(query="the host's own"):
        pipeline_of(store).run(INPUTS)
    assert (records.one.query.original, records.one.query.rewritten) == ("the host's own", QUESTION)
    assert records.stages() == ["retrieve", "rerank", "pack", "generate"]


def test_a_failing_model_is_an_error(records: Records, store: InMemoryDocumentStore) -> None:
    """The host gets Haystack's exception; the record names the model's, and the stage."""
    with pytest.raises(PipelineRuntimeError, match="the model is away"):
        pipeline_of(store, Broken()).run(INPUTS)
    record = records.one
    assert (record.status, record.flags) == ("error", ("error",))
    assert record.error is not None
    assert (record.error.type, record.error.stage) == ("TimeoutError", "generate")


def test_the_hosts_tracer_stays(records: Records, store: InMemoryDocumentStore) -> None:
    """A tracer that was enabled before gets every span and tag, and its place back."""
    ragtrace.uninstrument("haystack")
    seen: list[str] = []

    class Span(tracing.Span):
        def set_tag(self, key: str, value: Any) -> None:
            seen.append(key)

    class Tracer(tracing.Tracer):
        @contextmanager
        def trace(self, operation_name: str, tags: Any = None, parent_span: Any = None) -> Iterator[Any]:
            assert parent_span is None or isinstance(parent_span, Span)
            seen.append(operation_name)
            yield Span()

        def current_span(self) -> Any:
            return None

    hosts = Tracer()
    tracing.enable_tracing(hosts)
    try:
        ragtrace.instrument("haystack")
        pipeline_of(store).run(INPUTS)
        assert seen.count("haystack.component.run") == 4
        assert "haystack.component.visits" in seen
        assert len(records.all) == 1
        ragtrace.uninstrument("haystack")
        assert tracing.tracer.actual_tracer is hosts
    finally:
        tracing.disable_tracing()


def test_suppressed_and_uninstrumented_runs_are_not_recorded(records: Records, store: InMemoryDocumentStore) -> None:
    """OpenTelemetry's suppress_instrumentation, and uninstrument()."""
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    with suppress_instrumentation():
        pipeline_of(store).run(INPUTS)
    ragtrace.uninstrument("haystack")
    pipeline_of(store).run(INPUTS)
    assert records.items == []
    assert not tracing.is_tracing_enabled()
