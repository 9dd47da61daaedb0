"""A query engine that knows nothing of ragtrace."""

from typing import Any

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import TextNode

TEXTS = {
    "leave": "Employees may take twenty days of leave in a calendar year.",
    "notice": "The notice period is three months to the end of a quarter.",
}


class Model(CustomLLM):
    """A model that always says the same."""

    @property
    def metadata(self) -> LLMMetadata:
        """Its name."""
        return LLMMetadata(model_name="parrot")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """At once."""
        return CompletionResponse(text="Twenty days.")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        """In one part."""
        yield CompletionResponse(text="Twenty days.", delta="Twenty days.")


nodes = [TextNode(id_=key, text=text) for key, text in TEXTS.items()]
index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=8))
print(index.as_query_engine(llm=Model()).query("How many days of leave are there?"))
