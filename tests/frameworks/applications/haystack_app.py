"""A pipeline that knows nothing of ragtrace."""

from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

TEXTS = {
    "leave": "Employees may take twenty days of leave in a calendar year.",
    "notice": "The notice period is three months to the end of a quarter.",
}
QUESTION = "How many days of leave are there?"
TEMPLATE = "Context:\n{% for each in documents %}{{ each.content }}\n{% endfor %}\nQuestion: {{ question }}"


@component
class Model:
    """A generator that always says the same."""

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        """Answers."""
        return {"replies": ["Twenty days."]}


store = InMemoryDocumentStore()
store.write_documents([Document(id=key, content=text) for key, text in TEXTS.items()])
pipeline = Pipeline()
pipeline.add_component("retriever", InMemoryBM25Retriever(store))
pipeline.add_component("prompt_builder", PromptBuilder(TEMPLATE, required_variables=["documents", "question"]))
pipeline.add_component("llm", Model())
pipeline.connect("retriever.documents", "prompt_builder.documents")
pipeline.connect("prompt_builder.prompt", "llm.prompt")
made = pipeline.run({"retriever": {"query": QUESTION}, "prompt_builder": {"question": QUESTION}})
print(made["llm"]["replies"][0])
