"""A chain that knows nothing of ragtrace."""

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

TEXTS = {
    "leave": "Employees may take twenty days of leave in a calendar year.",
    "notice": "The notice period is three months to the end of a quarter.",
}
store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
store.add_documents([Document(id=key, page_content=text) for key, text in TEXTS.items()])
prompt = ChatPromptTemplate.from_template("Answer from the context:\n{context}\n\nQuestion: {question}")
context = store.as_retriever() | (lambda found: "\n\n".join(document.page_content for document in found))
model = FakeListChatModel(responses=["Twenty days."])
chain = {"context": context, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
print(chain.invoke("How many days of leave are there?"))
