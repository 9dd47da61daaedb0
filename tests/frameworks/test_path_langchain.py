"""The whole evidence path of a small LangChain application, in every mode, after `ragtrace.instrument("langchain")`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording

DISTRIBUTIONS = ("langchain-core", "langchain-classic", "opentelemetry-instrumentation")
REASON = "langchain-core and langchain-classic are not installed: make frameworks"
pytest.importorskip("langchain_classic.retrievers", reason=REASON)
pytest.importorskip("opentelemetry.instrumentation", reason=REASON)

from langchain_classic.retrievers import ContextualCompressionRetriever  # noqa: E402  # after the skip
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker  # noqa: E402
from langchain_core.cross_encoders import BaseCrossEncoder  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import DeterministicFakeEmbedding  # noqa: E402
from langchain_core.language_models import BaseChatModel  # noqa: E402
from langchain_core.messages import AIMessage, AIMessageChunk  # noqa: E402
from langchain_core.output_parsers import StrOutputParser  # noqa: E402
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult  # noqa: E402
from langchain_core.prompts import ChatPromptTemplate  # noqa: E402
from langchain_core.runnables import RunnablePassthrough  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402

TEXTS = {
    "lost": "Travel is paid.",
    "whole": "Employees may take twenty days of leave in a calendar year, and carry five of them over to the next one.",
    "cut": "The notice period is three months to the end of a quarter, longer after ten years of service.",
    "dropped": "A bonus is paid in March when the targets have been met for a whole year.",
}
QUESTION = "How many days of leave are there?"
PROMPT = ChatPromptTemplate.from_template("Answer from the context:\n{context}\n\nQuestion: {question}")
USAGE = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}


class ByLength(BaseCrossEncoder):
    """Long texts first."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Their lengths."""
        return [float(len(text)) for _, text in text_pairs]


class Model(BaseChatModel):
    """A chat model that always says the same, at once or in parts; or that is away."""

    away: bool = False

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        if self.away:
            raise TimeoutError("the model is away")
        about = {"finish_reason": "stop", "model_name": "parrot"}
        message = AIMessage("Twenty days.", usage_metadata=USAGE, response_metadata=about)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        if self.away:
            raise TimeoutError("the model is away")
        about = {"finish_reason": "stop", "model_name": "parrot"}
        yield ChatGenerationChunk(message=AIMessageChunk("Twenty"))
        yield ChatGenerationChunk(message=AIMessageChunk(" days."))
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=USAGE, response_metadata=about))


@pytest.fixture
def records() -> Iterator[Records]:
    """LangChain is instrumented, a recorder in use; nothing stays attached to the test's own context."""
    ragtrace.instrument("langchain")
    before = get_current()
    with recording() as found:
        yield found
    assert get_current() == before
    ragtrace.uninstrument("langchain")


def packed(found: Sequence[Document]) -> str:
    """The host's own packing: one chunk whole, one cut, the rest left out."""
    return f"{found[0].page_content}\n\n{found[1].page_content[:60]}"


def application(model: Model) -> Any:
    """A chain as LangChain's tutorials write it: search, rerank, pack, generate."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
    store.add_documents([Document(id=key, page_content=text, metadata={"of": key}) for key, text in TEXTS.items()])
    retriever = ContextualCompressionRetriever(
        base_compressor=CrossEncoderReranker(model=ByLength(), top_n=3),
        base_retriever=store.as_retriever(search_kwargs={"k": 4}),
    )
    return {"context": retriever | packed, "question": RunnablePassthrough()} | PROMPT | model | StrOutputParser()


def ask(mode: str, model: Model) -> str:
    """The application's answer."""
    chain = application(model)

    async def read() -> str:
        return "".join([part async for part in chain.astream(QUESTION)])

    if mode == "sync":
        return str(chain.invoke(QUESTION))
    if mode == "stream":
        return "".join(chain.stream(QUESTION))
    return str(asyncio.run(chain.ainvoke(QUESTION) if mode == "async" else read()))


@pytest.mark.captures("ids", "scores", "texts", "metadata", "moves", where="LangChain")
@pytest.mark.captures("packed", "truncated", "dropped", "answer", "usage", where="LangChain")
@pytest.mark.parametrize("mode", ["sync", "async", "stream", "async stream"])
def test_the_whole_path(records: Records, mode: str) -> None:
    """Candidates with ids, scores, texts and metadata, moves, the packed prompt and the answer."""
    assert ask(mode, Model()) == "Twenty days."
    records.check_path(QUESTION, TEXTS, lambda key: {"of": key})
    records.check_generation()


@pytest.mark.captures("error", where="LangChain")
@pytest.mark.parametrize("mode", ["sync", "async", "stream", "async stream"])
def test_a_model_that_is_away(records: Records, mode: str) -> None:
    """The host gets its exception; the record says where it came from."""
    with pytest.raises(TimeoutError, match="the model is away"):
        ask(mode, Model(away=True))
    records.check_error()
