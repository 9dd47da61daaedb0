"""The tiny pipelines whose spans are recorded: retrieve three documents, put them into a prompt, answer."""

from __future__ import annotations

from typing import Any

from capture import ANSWER, DOCUMENTS, QUESTION


def langchain_chain() -> Any:
    """A LangChain pipeline; call it with the question."""
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class TariffRetriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            return [Document(id=each, page_content=text, metadata={"score": score}) for each, text, score in DOCUMENTS]

    def joined(documents: list[Document]) -> str:
        return "\n\n".join(f"[{place}] {each.page_content}" for place, each in enumerate(documents, 1))

    prompt = ChatPromptTemplate.from_messages(
        [("system", "Answer from the documents.\n\n{context}"), ("human", "{question}")]
    )
    found = {"context": TariffRetriever() | joined, "question": RunnablePassthrough()}
    return found | prompt | FakeListChatModel(responses=[ANSWER]) | StrOutputParser()


def llama_index_engine() -> Any:
    """A LlamaIndex query engine with a reranker that turns the order around and drops the last."""
    from llama_index.core.llms import MockLLM
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import get_response_synthesizer
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    class TariffRetriever(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(id_=each, text=text), score=score) for each, text, score in DOCUMENTS]

    class Reranker(BaseNodePostprocessor):
        model: str = "tiny-reranker"
        top_n: int = 2

        def _postprocess_nodes(
            self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
        ) -> list[NodeWithScore]:
            order = sorted(nodes, key=lambda node: -len(node.node.get_content()))
            return [
                NodeWithScore(node=each.node, score=1.0 - place / 10) for place, each in enumerate(order[: self.top_n])
            ]

    return RetrieverQueryEngine(
        retriever=TariffRetriever(),
        response_synthesizer=get_response_synthesizer(llm=MockLLM(max_tokens=8)),
        node_postprocessors=[Reranker()],
    )


def ask_langchain() -> None:
    """Run the LangChain pipeline once."""
    assert langchain_chain().invoke(QUESTION) == ANSWER


def ask_llama_index() -> None:
    """Run the LlamaIndex pipeline once."""
    assert str(llama_index_engine().query(QUESTION))
