"""The whole path of a small LlamaIndex application, in every mode, after `ragtrace.instrument("llama_index")`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording

DISTRIBUTIONS = ("llama-index-core", "opentelemetry-instrumentation")
REASON = "llama-index-core is not installed: make frameworks"
pytest.importorskip("llama_index.core", reason=REASON)
pytest.importorskip("opentelemetry.instrumentation", reason=REASON)

from llama_index.core import MockEmbedding, VectorStoreIndex  # noqa: E402  # after the skip
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response, StreamingResponse  # noqa: E402
from llama_index.core.chat_engine import ContextChatEngine  # noqa: E402
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata  # noqa: E402
from llama_index.core.llms.callbacks import llm_completion_callback  # noqa: E402
from llama_index.core.postprocessor.types import BaseNodePostprocessor  # noqa: E402
from llama_index.core.query_engine import CustomQueryEngine  # noqa: E402
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode  # noqa: E402

TEXTS = {
    "lost": "Travel is paid.",
    "whole": "Employees may take twenty days of leave in a calendar year, and carry five of them over to the next one.",
    "cut": "The notice period is three months to the end of a quarter, longer after ten years of service.",
    "dropped": "A bonus is paid in March when the targets have been met for a whole year.",
}
QUESTION = "How many days of leave are there?"
MODES = ["sync", "async", "stream", "async stream"]
RAW = {"usage": {"prompt_tokens": 7, "completion_tokens": 2}, "model": "parrot", "finish_reason": "stop"}


class Model(CustomLLM):
    """A model that always says the same, at once or in parts; or that is away."""

    away: bool = False

    @property
    def metadata(self) -> LLMMetadata:
        """Its name."""
        return LLMMetadata(model_name="parrot")

    def _check(self) -> None:
        if self.away:
            raise TimeoutError("the model is away")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """At once."""
        self._check()
        return CompletionResponse(text="Twenty days.", raw=RAW)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """In parts."""
        self._check()

        def parts() -> Any:
            yield CompletionResponse(text="Twenty", delta="Twenty", raw={})
            yield CompletionResponse(text="Twenty days.", delta=" days.", raw=RAW)

        return parts()

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """In parts, async."""
        self._check()

        async def parts() -> Any:
            yield CompletionResponse(text="Twenty", delta="Twenty", raw={})
            yield CompletionResponse(text="Twenty days.", delta=" days.", raw=RAW)

        return parts()


class Longest(BaseNodePostprocessor):
    """Keeps the three longest nodes."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
        return sorted(nodes, key=lambda each: -len(each.text))[:3]


class Handbook(CustomQueryEngine):
    """An application that packs its prompt by itself: one node whole, one cut, the rest left out."""

    retriever: Any
    postprocessor: Any
    llm: Any
    streaming: bool = False

    def prompt(self, nodes: list[NodeWithScore]) -> str:
        """The packed prompt."""
        ranked = self.postprocessor.postprocess_nodes(nodes)
        return f"Context:\n{ranked[0].text}\n\n{ranked[1].text[:60]}\n\nQuestion: {QUESTION}"

    def custom_query(self, query_str: str) -> Any:
        """Sync."""
        prompt = self.prompt(self.retriever.retrieve(query_str))
        if self.streaming:
            return StreamingResponse(part.delta for part in self.llm.stream_complete(prompt))
        return Response(self.llm.complete(prompt).text)

    async def acustom_query(self, query_str: str) -> Any:
        """Async."""
        prompt = self.prompt(await self.retriever.aretrieve(query_str))
        if self.streaming:
            return AsyncStreamingResponse(part.delta async for part in await self.llm.astream_complete(prompt))
        return Response((await self.llm.acomplete(prompt)).text)


@pytest.fixture
def records() -> Iterator[Records]:
    """LlamaIndex is instrumented, a recorder in use; nothing stays open, or attached to the test's own context."""
    from ragtrace.record.instrumentation.llama_index import LlamaIndexInstrumentor

    ragtrace.instrument("llama_index")
    before = get_current()
    with recording() as found:
        yield found
    assert get_current() == before
    spans = LlamaIndexInstrumentor().spans
    assert (len(spans.runs), len(spans.generations), len(spans.histories), spans.answers) == (0, 0, 0, {})
    ragtrace.uninstrument("llama_index")


def index() -> VectorStoreIndex:
    """Four nodes with ids and metadata."""
    nodes = [TextNode(id_=key, text=text, metadata={"of": key}) for key, text in TEXTS.items()]
    for node in nodes:
        node.excluded_llm_metadata_keys = ["of"]
        assert node.get_content(MetadataMode.LLM) == node.text
    return VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=8))


def ask(engine: Any, mode: str) -> str:
    """The engine's answer."""

    async def later() -> str:
        response = await engine.aquery(QUESTION)
        if mode == "async":
            return str(response)
        return "".join([part async for part in response.response_gen])

    if mode.startswith("async"):
        return asyncio.run(later())
    response = engine.query(QUESTION)
    return str(response) if mode == "sync" else "".join(response.response_gen)


def handbook(mode: str, model: Model) -> Handbook:
    """The application."""
    retriever = index().as_retriever(similarity_top_k=4)
    return Handbook(retriever=retriever, postprocessor=Longest(), llm=model, streaming=mode.endswith("stream"))


@pytest.mark.captures("ids", "scores", "texts", "metadata", "moves", where="LlamaIndex")
@pytest.mark.captures("packed", "truncated", "dropped", "answer", "usage", where="LlamaIndex")
@pytest.mark.parametrize("mode", MODES)
def test_the_whole_path(records: Records, mode: str) -> None:
    """Candidates with ids, scores, texts and metadata, moves, the packed prompt and the answer."""
    assert ask(handbook(mode, Model()), mode) == "Twenty days."
    records.check_path(QUESTION, TEXTS, lambda key: {"of": key})
    records.check_generation()


@pytest.mark.captures("error", where="LlamaIndex")
@pytest.mark.parametrize("mode", MODES)
def test_a_model_that_is_away(records: Records, mode: str) -> None:
    """The host gets its exception; the record says where it came from."""
    with pytest.raises(TimeoutError, match="the model is away"):
        ask(handbook(mode, Model(away=True)), mode)
    records.check_error()


def check_engine(records: Records) -> None:
    """LlamaIndex's own engines put all that is left into the prompt, whole."""
    assert (records.one.query.original, records.stages()) == (QUESTION, ["retrieve", "rerank", "pack", "generate"])
    assert [(name, after) for name, _, after in records.moves()[:3]] == [("whole", 1), ("cut", 2), ("dropped", 3)]
    assert records.packed() == ["whole", "cut", "dropped"]
    records.check_generation()


@pytest.mark.parametrize("mode", MODES)
def test_a_query_engine(records: Records, mode: str) -> None:
    """As LlamaIndex's tutorials write it."""
    settings = {"llm": Model(), "node_postprocessors": [Longest()], "similarity_top_k": 4}
    assert ask(index().as_query_engine(streaming=mode.endswith("stream"), **settings), mode) == "Twenty days."
    check_engine(records)


@pytest.mark.parametrize("mode", MODES)
def test_a_chat_engine(records: Records, mode: str) -> None:
    """A turn of a chat; a streamed one is read by a thread or task of LlamaIndex's own."""
    retriever = index().as_retriever(similarity_top_k=4)
    engine = ContextChatEngine.from_defaults(retriever, llm=Model(), node_postprocessors=[Longest()])

    async def later() -> str:
        if mode == "async":
            return str(await engine.achat(QUESTION))
        response = await engine.astream_chat(QUESTION)
        return "".join([part async for part in response.async_response_gen()])

    if mode.startswith("async"):
        answer = asyncio.run(later())
    elif mode == "sync":
        answer = str(engine.chat(QUESTION))
    else:
        answer = "".join(engine.stream_chat(QUESTION).response_gen)
    assert answer == "Twenty days."
    assert records.arrived.wait(30)
    check_engine(records)
