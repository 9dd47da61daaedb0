"""The whole evidence path of a small Haystack application, in every mode, after `ragtrace.instrument("haystack")`.

The model is Haystack's own client of OpenAI's API, which talks to a server on the loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording

DISTRIBUTIONS = ("haystack-ai", "opentelemetry-instrumentation")
REASON = "haystack-ai is not installed: make frameworks"
pytest.importorskip("haystack", reason=REASON)
pytest.importorskip("opentelemetry.instrumentation", reason=REASON)

from haystack import Document, Pipeline, component  # noqa: E402  # after the skip
from haystack.components.builders import ChatPromptBuilder  # noqa: E402
from haystack.components.generators.chat import OpenAIChatGenerator  # noqa: E402
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever  # noqa: E402
from haystack.core.errors import PipelineRuntimeError  # noqa: E402
from haystack.dataclasses import ChatMessage  # noqa: E402
from haystack.document_stores.in_memory import InMemoryDocumentStore  # noqa: E402
from haystack.utils import Secret  # noqa: E402

from tests.frameworks.openai_api import serving  # noqa: E402

TEXTS = {
    "lost": "Days of travel.",
    "whole": "Employees may take twenty days of leave in a calendar year, and carry five of them over to the next one.",
    "cut": "The notice period is three months to the end of a quarter, longer after ten years of service.",
    "dropped": "A bonus of 5 % is paid in March when the targets have been met for a whole year.",
}
QUESTION = "How many days of leave are there?"
MODES = ["sync", "async", "stream", "async stream"]
TEMPLATE = "{{ documents[0].content }}\n\n{{ documents[1].content[:60] }}\n\nQuestion: {{ question }}"
INPUTS = {"retriever": {"query": QUESTION}, "prompt_builder": {"question": QUESTION}}


@component
class Longest:
    """Keeps the three longest documents."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Ranks."""
        return {"documents": sorted(documents, key=lambda each: -len(each.content or ""))[:3]}


@component
class Away:
    """A model that is away."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        """Never answers."""
        raise TimeoutError("the model is away")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the model is."""
    with serving() as found:
        yield found


@pytest.fixture
def records() -> Iterator[Records]:
    """Haystack is instrumented, a recorder in use; nothing stays attached to the test's own context."""
    ragtrace.instrument("haystack")
    before = get_current()
    with recording() as found:
        yield found
    assert get_current() == before
    ragtrace.uninstrument("haystack")


def application(model: Any) -> Pipeline:
    """A pipeline as Haystack's tutorials write it."""
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=key, content=text, meta={"of": key}) for key, text in TEXTS.items()])
    builder = ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)], required_variables=["documents", "question"])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=4))
    pipeline.add_component("ranker", Longest())
    pipeline.add_component("prompt_builder", builder)
    pipeline.add_component("llm", model)
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "prompt_builder.documents")
    pipeline.connect("prompt_builder.prompt", "llm.messages")
    return pipeline


def ask(pipeline: Pipeline, mode: str, inputs: dict[str, Any]) -> str:
    """The pipeline's answer."""

    async def read() -> dict[str, Any]:
        found: dict[str, Any] = {}
        async for part in pipeline.run_async_generator(inputs):
            found = part
        return found

    if mode.startswith("async"):
        made = asyncio.run(pipeline.run_async(inputs) if mode == "async" else read())
    else:
        made = pipeline.run(inputs)
    return str(made["llm"]["replies"][0].text)


@pytest.mark.captures("ids", "scores", "texts", "metadata", "moves", where="Haystack")
@pytest.mark.captures("packed", "truncated", "dropped", "answer", "usage", where="Haystack")
@pytest.mark.parametrize("mode", MODES)
def test_the_whole_path(records: Records, url: str, mode: str) -> None:
    """Candidates with ids, scores, texts and metadata, moves, the packed prompt and the answer."""
    passed: list[str] = []

    def hear(part: Any) -> None:
        passed.append(part.content)

    async def hear_later(part: Any) -> None:
        passed.append(part.content)

    model = OpenAIChatGenerator(Secret.from_token("-"), model="parrot", api_base_url=url)
    callback = {"stream": hear, "async stream": hear_later}.get(mode)
    inputs = {**INPUTS, "llm": {"streaming_callback": callback}} if callback else INPUTS
    assert ask(application(model), mode, inputs) == "Twenty days."
    assert ("".join(passed) == "Twenty days.") == mode.endswith("stream")
    records.check_path(QUESTION, TEXTS, lambda key: {"of": key})
    records.check_generation("m-1", (40, 3))


@pytest.mark.captures("error", where="Haystack")
@pytest.mark.parametrize("mode", MODES)
def test_a_model_that_is_away(records: Records, mode: str) -> None:
    """The host gets Haystack's exception; the record has the model's."""
    with pytest.raises(PipelineRuntimeError, match="the model is away"):
        ask(application(Away()), mode, INPUTS)
    records.check_error()
