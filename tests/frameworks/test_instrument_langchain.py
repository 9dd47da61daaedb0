"""`ragtrace.instrument("langchain")` on small real applications: chains, graphs and agents without a decorator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording

reason = "langchain-core is not installed (pip install 'ragtrace[langchain,otel]')"
documents = pytest.importorskip("langchain_core.documents", reason=reason)
pytest.importorskip("opentelemetry.instrumentation", reason=reason)

from langchain_core.documents import Document  # noqa: E402  # after the skip
from langchain_core.embeddings import DeterministicFakeEmbedding  # noqa: E402
from langchain_core.language_models import FakeListChatModel, FakeListLLM  # noqa: E402
from langchain_core.output_parsers import StrOutputParser  # noqa: E402
from langchain_core.prompts import ChatPromptTemplate  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402
from langchain_core.runnables import RunnableLambda, RunnablePassthrough  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402

TEXTS = {
    "leave": "Employees may take twenty days of leave in a calendar year.",
    "notice": "The notice period is three months to the end of a quarter.",
    "bonus": "A bonus is paid in March when the targets have been met.",
    "travel": "Travel in the second class is paid for all journeys by train.",
}
QUESTION = "How many days of leave are there?"
PROMPT = ChatPromptTemplate.from_template("Answer from the context:\n{context}\n\nQuestion: {question}")


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """LangChain is instrumented; nothing stays attached to the test's own context."""
    ragtrace.instrument("langchain")
    before = get_current()
    yield
    assert get_current() == before
    ragtrace.uninstrument("langchain")


@pytest.fixture
def records() -> Iterator[Records]:
    """A recorder in use."""
    with recording() as found:
        yield found


@pytest.fixture
def store() -> InMemoryVectorStore:
    """Four documents with ids."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
    store.add_documents([Document(id=key, page_content=text) for key, text in TEXTS.items()])
    return store


def joined(found: Sequence[Document]) -> str:
    """The packed context."""
    return "\n\n".join(document.page_content for document in found)


def chain_of(retriever: Any, model: Any = None) -> Any:
    """A chain as LangChain's tutorials write it."""
    model = model or FakeListChatModel(responses=["Twenty days."])
    return {"context": retriever | joined, "question": RunnablePassthrough()} | PROMPT | model | StrOutputParser()


def check(records: Records, store: InMemoryVectorStore) -> None:
    """Candidates, prompt and answer stand in one record."""
    expected = store.similarity_search_with_score(QUESTION, k=3)
    records.items.pop()  # that search, which is a request of its own
    assert records.one.query.original == QUESTION
    assert records.stages() == ["retrieve", "pack", "generate"]
    assert records.retrieved() == [(document.id, score) for document, score in expected]
    assert records.packed() == [document.id for document, _ in expected]
    generation = records.generation()
    assert generation.answer == "Twenty days."
    template = "\n\n".join(f"{{chunk:{document.id}}}" for document, _ in expected)
    assert generation.prompt_template == f"Answer from the context:\n{template}\n\nQuestion: {QUESTION}"


def test_a_chain_is_one_record(records: Records, store: InMemoryVectorStore) -> None:
    """Candidates with ids and scores, the prompt's chunks and the answer, in one request that opened by itself."""
    assert chain_of(store.as_retriever(search_kwargs={"k": 3})).invoke(QUESTION) == "Twenty days."
    check(records, store)


def test_an_async_chain_is_one_record(records: Records, store: InMemoryVectorStore) -> None:
    """The same with ainvoke."""
    chain = chain_of(store.as_retriever(search_kwargs={"k": 3}))

    async def ask() -> None:
        before = get_current()
        await chain.ainvoke(QUESTION)
        assert get_current() == before

    asyncio.run(ask())
    check(records, store)


def test_a_streamed_chain_is_one_record(records: Records, store: InMemoryVectorStore) -> None:
    """The question is known at the end of the stream, and nothing is attached between the parts."""
    before = get_current()
    for part in chain_of(store.as_retriever(search_kwargs={"k": 3})).stream(QUESTION):
        assert isinstance(part, str)
        assert get_current() == before
    check(records, store)


def test_an_async_streamed_chain_is_one_record(records: Records, store: InMemoryVectorStore) -> None:
    """The same with astream."""
    chain = chain_of(store.as_retriever(search_kwargs={"k": 3}))

    async def read() -> str:
        return "".join([part async for part in chain.astream(QUESTION)])

    assert asyncio.run(read()) == "Twenty days."
    check(records, store)


def test_a_stream_left_early_ends_its_request(records: Records, store: InMemoryVectorStore) -> None:
    """What had happened until then is recorded."""
    parts = chain_of(store.as_retriever(search_kwargs={"k": 3})).stream(QUESTION)
    next(parts)
    parts.close()
    assert records.one.status == "ok"
    assert len(records.retrieved()) == 3


def test_a_completion_model_is_a_generator_too(records: Records, store: InMemoryVectorStore) -> None:
    """Text completion models have callbacks of their own."""
    chain_of(store.as_retriever(search_kwargs={"k": 3}), FakeListLLM(responses=["Twenty days."])).invoke(QUESTION)
    assert records.stages() == ["retrieve", "pack", "generate"]
    assert records.generation().answer == "Twenty days."


def test_a_compressor_is_a_reranker(records: Records, store: InMemoryVectorStore) -> None:
    """Moves come from the compressor's documents, also of a class that is defined after instrument()."""
    from langchain_core.documents.compressor import BaseDocumentCompressor

    class Shortest(BaseDocumentCompressor):
        def compress_documents(
            self, documents: Sequence[Document], query: str, callbacks: Any = None
        ) -> Sequence[Document]:
            ranked = sorted(documents, key=lambda document: len(document.page_content))[:2]
            return [
                Document(id=each.id, page_content=each.page_content, metadata={"relevance_score": 1 / rank})
                for rank, each in enumerate(ranked, 1)
            ]

    retriever, compressor = store.as_retriever(search_kwargs={"k": 4}), Shortest()
    rerank = RunnableLambda(lambda question: compressor.compress_documents(retriever.invoke(question), question))
    chain_of(rerank).invoke(QUESTION)
    assert records.stages() == ["retrieve", "rerank", "pack", "generate"]
    shortest = sorted(TEXTS, key=lambda key: len(TEXTS[key]))
    before = [chunk_id for chunk_id, _ in records.retrieved()]
    kept = [(key, before.index(key) + 1, rank) for rank, key in enumerate(shortest[:2], 1)]
    lost = [(key, rank, None) for rank, key in enumerate(before, 1) if key not in shortest[:2]]
    assert records.moves() == kept + lost
    assert [move.score for move in records.one.moves[:2]] == [1.0, 0.5]
    assert records.packed() == shortest[:2]


def test_a_retriever_over_retrievers_reranks(records: Records, store: InMemoryVectorStore) -> None:
    """Merged results are a new order of what the inner retrievers found, not further candidates."""

    class Reversed(BaseRetriever):
        inner: list[Any]

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            found = [
                each
                for retriever in self.inner
                for each in retriever.invoke(query, config={"callbacks": run_manager.get_child()})
            ]
            return list({each.id: each for each in reversed(found)}.values())

    first, second = store.as_retriever(search_kwargs={"k": 2}), store.as_retriever(search_kwargs={"k": 3})
    chain_of(Reversed(inner=[first, second])).invoke(QUESTION)
    assert records.stages() == ["retrieve", "retrieve", "rerank", "pack", "generate"]
    ids = [chunk_id for chunk_id, _ in records.retrieved()]
    assert records.moves() == [(ids[4], 3, 1), (ids[3], 2, 2), (ids[2], 1, 3)]


def test_a_contextual_compression_retriever_reranks_once(records: Records, store: InMemoryVectorStore) -> None:
    """The compressor inside of it says the moves; the retriever around it adds nothing."""
    classic = pytest.importorskip("langchain_classic.retrievers", reason="langchain-classic is not installed")
    from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
    from langchain_core.cross_encoders import BaseCrossEncoder

    class ByLength(BaseCrossEncoder):
        def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
            return [float(len(text)) for _, text in text_pairs]

    retriever = classic.ContextualCompressionRetriever(
        base_compressor=CrossEncoderReranker(model=ByLength(), top_n=2),
        base_retriever=store.as_retriever(search_kwargs={"k": 4}),
    )
    chain_of(retriever).invoke(QUESTION)
    assert records.stages() == ["retrieve", "rerank", "pack", "generate"]
    longest = sorted(TEXTS, key=lambda key: -len(TEXTS[key]))[:2]
    assert [(key, after) for key, _, after in records.moves()[:2]] == [(longest[0], 1), (longest[1], 2)]
    assert [after for _, _, after in records.moves()] == [1, 2, None, None]


def test_a_search_without_a_retriever_is_a_retrieval(records: Records, store: InMemoryVectorStore) -> None:
    """Tools that ask the vector store themselves are seen, in the request of their chain."""
    search = RunnableLambda(lambda question: store.similarity_search(question, k=2))
    chain_of(search).invoke(QUESTION)
    assert records.stages() == ["retrieve", "pack", "generate"]
    assert all(isinstance(score, float) for _, score in records.retrieved())


def test_a_graph_is_one_record(records: Records, store: InMemoryVectorStore) -> None:
    """LangGraph's nodes run in the request of the graph, sync and async."""
    graphs = pytest.importorskip("langgraph.graph", reason="langgraph is not installed")
    model = FakeListChatModel(responses=["Twenty days."])

    def retrieve(state: dict[str, Any]) -> dict[str, Any]:
        return {"context": joined(store.similarity_search(state["question"], k=3))}

    def generate(state: dict[str, Any]) -> dict[str, Any]:
        ragtrace.current_request().set(attributes={"node": "generate"})
        return {"answer": model.invoke(PROMPT.invoke(state)).content}

    builder = graphs.StateGraph(_state())
    builder.add_node("retrieve", retrieve)
    builder.add_node("generate", generate)
    builder.add_edge(graphs.START, "retrieve")
    builder.add_edge("retrieve", "generate")
    graph = builder.compile()
    assert graph.invoke({"question": QUESTION})["answer"] == "Twenty days."
    assert records.one.attributes == {"node": "generate"}
    check(records, store)
    records.items.clear()
    assert asyncio.run(graph.ainvoke({"question": QUESTION}))["answer"] == "Twenty days."
    check(records, store)


def test_an_agent_is_one_record(records: Records, store: InMemoryVectorStore) -> None:
    """An agent that searches through a tool: two model calls, and the second one's prompt holds what was found."""
    agents = pytest.importorskip("langchain.agents", reason="langchain is not installed")
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    @tool
    def search(query: str) -> str:
        """Search the handbook."""
        return joined(store.similarity_search(query, k=2))

    call = {"name": "search", "args": {"query": "days of leave"}, "id": "1"}
    messages = iter([AIMessage(content="", tool_calls=[call]), AIMessage(content="Twenty days.")])
    agents.create_agent(Model(messages=messages), [search]).invoke({"messages": [("user", QUESTION)]})
    assert records.stages() == ["generate", "retrieve", "pack", "generate"]
    assert (records.one.query.original, records.one.query.rewritten) == (QUESTION, "days of leave")
    assert records.generation().answer == "Twenty days."
    assert len(records.packed()) == 2


def _state() -> Any:
    from typing import TypedDict

    class State(TypedDict):
        question: str
        context: str
        answer: str

    return State


def test_a_chain_joins_the_hosts_request(records: Records, store: InMemoryVectorStore) -> None:
    """A request that the host opened stays the only one."""
    with ragtrace.request(query="the host's own", segment="hr"):
        chain_of(store.as_retriever()).invoke(QUESTION)
    record = records.one
    assert (record.query.original, record.query.rewritten, record.segment) == ("the host's own", QUESTION, "hr")
    assert records.stages() == ["retrieve", "pack", "generate"]


def test_a_failing_model_is_an_error(records: Records, store: InMemoryVectorStore) -> None:
    """The host gets its exception; the record says where it came from."""

    class Broken(FakeListLLM):
        def _call(self, *args: Any, **kwargs: Any) -> str:
            raise TimeoutError("the model is away")

    with pytest.raises(TimeoutError, match="the model is away"):
        chain_of(store.as_retriever(), Broken(responses=["-"])).invoke(QUESTION)
    record = records.one
    assert (record.status, record.flags) == ("error", ("error",))
    assert record.error is not None
    assert (record.error.type, record.error.stage) == ("TimeoutError", "generate")


def test_batches_and_threads_keep_apart(records: Records, store: InMemoryVectorStore) -> None:
    """Each input of a batch is a request of its own."""
    chain = chain_of(store.as_retriever(), FakeListChatModel(responses=["Yes."]))
    chain.batch([f"Question number {number}?" for number in range(5)])
    assert sorted(record.query.original for record in records.all) == [f"Question number {n}?" for n in range(5)]
    assert all(len(record.stages) == 3 for record in records.all)


def test_suppressed_and_uninstrumented_runs_are_not_recorded(records: Records, store: InMemoryVectorStore) -> None:
    """OpenTelemetry's suppress_instrumentation, and uninstrument()."""
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    chain = chain_of(store.as_retriever())
    with suppress_instrumentation():
        chain.invoke(QUESTION)
    ragtrace.uninstrument("langchain")
    chain.invoke(QUESTION)
    assert records.items == []
    assert not hasattr(InMemoryVectorStore.similarity_search, "__wrapped__")
    assert "__init_subclass__" not in vars(InMemoryVectorStore.__mro__[1])
    ragtrace.instrument("langchain")
    chain.invoke(QUESTION)
    assert len(records.all) == 1


def test_nothing_stays_open(records: Records, store: InMemoryVectorStore) -> None:
    """After its end, nothing is kept of a run."""
    from ragtrace.record.instrumentation.langchain import LangChainInstrumentor

    chain_of(store.as_retriever()).invoke(QUESTION)
    assert len(LangChainInstrumentor().handler.runs) == 0
