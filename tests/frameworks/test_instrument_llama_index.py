"""`ragtrace.instrument("llama_index")` on small real applications: query and chat engines without a decorator."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording

reason = "llama-index-core is not installed (pip install 'ragtrace[llama-index,otel]')"
pytest.importorskip("llama_index.core", reason=reason)
pytest.importorskip("opentelemetry.instrumentation", reason=reason)

from llama_index.core import MockEmbedding, VectorStoreIndex  # noqa: E402  # after the skip
from llama_index.core.chat_engine import ContextChatEngine  # noqa: E402
from llama_index.core.llms import (  # noqa: E402
    CompletionResponse,
    CompletionResponseGen,
    CustomLLM,
    LLMMetadata,
    MockLLM,
)
from llama_index.core.llms.callbacks import llm_completion_callback  # noqa: E402
from llama_index.core.postprocessor.types import BaseNodePostprocessor  # noqa: E402
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever  # noqa: E402
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # noqa: E402

TEXTS = {
    "leave": "Employees may take twenty days of leave in a calendar year.",
    "notice": "The notice period is three months to the end of a quarter.",
    "bonus": "A bonus is paid in March when the targets have been met.",
    "travel": "Travel in the second class is paid for all journeys by train.",
}
QUESTION = "How many days of leave are there?"


class Model(CustomLLM):
    """A model that always says the same, in two parts."""

    @property
    def metadata(self) -> LLMMetadata:
        """Its name."""
        return LLMMetadata(model_name="parrot")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """At once."""
        return CompletionResponse(text="Twenty days.")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """In parts."""

        def parts() -> CompletionResponseGen:
            yield CompletionResponse(text="Twenty", delta="Twenty")
            yield CompletionResponse(text="Twenty days.", delta=" days.")

        return parts()


class Later(Model):
    """The same, async."""

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """In parts."""

        async def parts() -> Any:
            yield CompletionResponse(text="Twenty", delta="Twenty")
            yield CompletionResponse(text="Twenty days.", delta=" days.")

        return parts()


class Broken(MockLLM):
    """A model that is away."""

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Never answers."""
        raise TimeoutError("the model is away")


class Shortest(BaseNodePostprocessor):
    """Keeps the two shortest nodes."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        ranked = sorted(nodes, key=lambda each: len(each.node.get_content()))[:2]
        return [NodeWithScore(node=each.node, score=1 / rank) for rank, each in enumerate(ranked, 1)]


class Handbook(BaseRetriever):
    """A retriever of one's own: all chunks, with falling scores."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = [TextNode(id_=key, text=text) for key, text in TEXTS.items()]
        return [NodeWithScore(node=node, score=1 - rank / 10) for rank, node in enumerate(nodes)]


SHORTEST = sorted(TEXTS, key=lambda key: len(TEXTS[key]))[:2]


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """LlamaIndex is instrumented; nothing stays open, or attached to the test's own context."""
    from ragtrace.record.instrumentation.llama_index import LlamaIndexInstrumentor

    ragtrace.instrument("llama_index")
    before = get_current()
    yield
    assert get_current() == before
    spans = LlamaIndexInstrumentor().spans
    assert (len(spans.runs), len(spans.generations), len(spans.histories), spans.answers) == (0, 0, 0, {})
    ragtrace.uninstrument("llama_index")


@pytest.fixture
def records() -> Iterator[Records]:
    """A recorder in use."""
    with recording() as found:
        yield found


def make() -> VectorStoreIndex:
    """Four nodes with ids."""
    nodes = [TextNode(id_=key, text=text) for key, text in TEXTS.items()]
    return VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=8))


def engine_of(**settings: Any) -> Any:
    """A query engine as LlamaIndex's tutorials write it."""
    settings = {"llm": Model(), "node_postprocessors": [Shortest()], "similarity_top_k": 4, **settings}
    return make().as_query_engine(**settings)


def check(records: Records, stages: tuple[str, ...] = ("retrieve", "rerank", "pack", "generate")) -> None:
    """Candidates, moves, prompt and answer stand in one record."""
    assert records.one.query.original == QUESTION
    assert records.stages() == list(stages)
    ids = [chunk_id for chunk_id, _ in records.retrieved()]
    assert sorted(ids) == sorted(TEXTS)
    assert all(isinstance(score, float) for _, score in records.retrieved())
    kept = [(key, ids.index(key) + 1, rank) for rank, key in enumerate(SHORTEST, 1)]
    assert records.moves() == kept + [(key, ids.index(key) + 1, None) for key in ids if key not in SHORTEST]
    assert [move.score for move in records.one.moves[:2]] == [1.0, 0.5]
    assert records.packed() == SHORTEST
    assert records.generation().answer == "Twenty days."
    assert records.generation().model == "parrot"
    assert all(f"{{chunk:{key}}}" in (records.generation().prompt_template or "") for key in SHORTEST)


def test_a_query_engine_is_one_record(records: Records) -> None:
    """Candidates with ids and scores, moves, the prompt's chunks and the answer, in a request that opened by itself."""
    assert str(engine_of().query(QUESTION)) == "Twenty days."
    check(records)


def test_an_async_query_engine_is_one_record(records: Records) -> None:
    """The same with aquery."""

    async def ask() -> str:
        before = get_current()
        answer = str(await engine_of().aquery(QUESTION))
        assert get_current() == before
        return answer

    assert asyncio.run(ask()) == "Twenty days."
    check(records)


def test_a_streamed_answer_ends_its_request(records: Records) -> None:
    """The engine's call returns before the answer is there; the record waits for it."""
    response = engine_of(streaming=True).query(QUESTION)
    assert records.items == []
    assert "".join(response.response_gen) == "Twenty days."
    check(records)


def test_an_abandoned_stream_ends_its_request(records: Records) -> None:
    """What had come until then is the answer."""
    response = engine_of(streaming=True).query(QUESTION)
    next(response.response_gen)
    response.response_gen.close()
    assert records.generation().answer == "Twenty"
    assert records.one.status == "ok"


def test_a_chat_engine_is_one_record(records: Records) -> None:
    """A turn of a chat is a request."""
    retriever = make().as_retriever(similarity_top_k=4)
    engine = ContextChatEngine.from_defaults(retriever, llm=Model(), node_postprocessors=[Shortest()])
    assert str(engine.chat(QUESTION)) == "Twenty days."
    check(records)


def test_a_streamed_chat_is_one_record(records: Records) -> None:
    """The same, in parts."""
    retriever = make().as_retriever(similarity_top_k=4)
    engine = ContextChatEngine.from_defaults(retriever, llm=Model(), node_postprocessors=[Shortest()])
    assert "".join(engine.stream_chat(QUESTION).response_gen) == "Twenty days."
    assert records.arrived.wait(30)  # LlamaIndex reads the stream in a thread of its own
    check(records)


def test_a_retriever_of_ones_own_is_seen(records: Records) -> None:
    """Whatever derives from BaseRetriever; outside of an engine it is a request by itself."""
    Handbook().retrieve(QUESTION)
    assert records.one.query.original == QUESTION
    assert records.retrieved() == [("leave", 1.0), ("notice", 0.9), ("bonus", 0.8), ("travel", 0.7)]


def test_a_fusion_of_retrievers_reranks(records: Records) -> None:
    """Merged results are a new order of what the inner retrievers found, not further candidates."""
    fusion = QueryFusionRetriever(
        [Handbook(), Handbook()], llm=Model(), num_queries=1, similarity_top_k=4, use_async=False
    )
    fusion.retrieve(QUESTION)
    assert records.stages() == ["retrieve", "retrieve", "rerank"]
    assert [move[2] for move in records.moves()] == [1, 2, 3, 4]


def test_an_engine_joins_the_hosts_request(records: Records) -> None:
    """A request that the host opened stays the only one."""
    with ragtrace.request(query="the host's own"):
        engine_of().query(QUESTION)
    assert (records.one.query.original, records.one.query.rewritten) == ("the host's own", QUESTION)
    assert records.stages() == ["retrieve", "rerank", "pack", "generate"]


def test_a_failing_model_is_an_error(records: Records) -> None:
    """The host gets its exception; the record says where it came from."""
    with pytest.raises(TimeoutError, match="the model is away"):
        engine_of(llm=Broken()).query(QUESTION)
    record = records.one
    assert (record.status, record.flags) == ("error", ("error",))
    assert record.error is not None
    assert (record.error.type, record.error.stage) == ("TimeoutError", "generate")


def test_suppressed_and_uninstrumented_runs_are_not_recorded(records: Records) -> None:
    """OpenTelemetry's suppress_instrumentation, and uninstrument()."""
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    with suppress_instrumentation():
        engine_of().query(QUESTION)
    ragtrace.uninstrument("llama_index")
    engine_of().query(QUESTION)
    assert records.items == []


def test_indexing_leaves_no_record(records: Records) -> None:
    """Embedding and storing documents is no request."""
    make()
    assert records.items == []


def test_an_async_streamed_answer_ends_its_request(records: Records) -> None:
    """The same with aquery and an async stream."""

    async def ask() -> str:
        response = await engine_of(streaming=True, llm=Later()).aquery(QUESTION)
        return "".join([part async for part in response.response_gen])

    assert asyncio.run(ask()) == "Twenty days."
    check(records)


def test_an_unread_stream_ends_its_request(records: Records) -> None:
    """A response that nobody reads is recorded as far as it came."""
    response = engine_of(streaming=True).query(QUESTION)
    assert records.items == []
    del response
    gc.collect()
    assert records.stages() == ["retrieve", "rerank"]
