"""`ragtrace.instrument("openai")` against a server on the loopback that speaks the API, streams included."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording

reason = "openai is not installed (pip install 'ragtrace[openai,otel]')"
openai = pytest.importorskip("openai", reason=reason)
pytest.importorskip("opentelemetry.instrumentation", reason=reason)

from tests.frameworks.openai_api import ANSWER, QUESTION, TEXTS, serving  # noqa: E402  # after the skip

DISTRIBUTIONS = ("openai", "opentelemetry-instrumentation")
PROMPT = f"Context:\n{TEXTS[0]}\n{TEXTS[1]}\n\nQuestion: {QUESTION}"
MESSAGES = [{"role": "system", "content": "Answer from the context."}, {"role": "user", "content": PROMPT}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of the server."""
    with serving() as found:
        yield found


@pytest.fixture
def client(url: str) -> Any:
    """A client of the server."""
    return openai.OpenAI(base_url=url, api_key="-", max_retries=0)


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """OpenAI's client is instrumented; nothing stays attached to the test's own context."""
    ragtrace.instrument("openai")
    before = get_current()
    yield
    assert get_current() == before
    ragtrace.uninstrument("openai")


@pytest.fixture
def records() -> Iterator[Records]:
    """A recorder in use."""
    with recording() as found:
        yield found


def check(records: Records) -> None:
    """Prompt and answer stand in the record."""
    assert records.stages() == ["generate"]
    generation = records.generation()
    assert (generation.answer, generation.model) == (ANSWER, "m")
    assert generation.prompt_template == f"Answer from the context.\n\n{PROMPT}"
    usage = generation.usage
    assert usage is not None
    assert (generation.finish_reason, usage.input_tokens, usage.output_tokens) == ("stop", 40, 3)


def test_an_application_is_one_record(records: Records, client: Any) -> None:
    """A search of a vector store, a prompt and a chat completion in the host's request: no stage is decorated."""
    with ragtrace.request(query=QUESTION):
        page = client.vector_stores.search("vs", query=QUESTION, max_num_results=2)
        context = "\n".join(each.content[0].text for each in page.data)
        prompt = f"Context:\n{context}\n\nQuestion: {QUESTION}"
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
    assert records.stages() == ["retrieve", "pack", "generate"]
    candidates = records.one.candidates
    assert [(each.text, each.score, each.doc_id, each.source) for each in candidates] == [
        (TEXTS[0], 0.9, "file-1", "handbook.pdf"),
        (TEXTS[1], 0.4, "file-1", "handbook.pdf"),
    ]
    assert records.packed() == [each.chunk_id for each in candidates]
    assert records.generation().answer == ANSWER
    blocks = "\n".join(f"{{chunk:{each.chunk_id}}}" for each in candidates)
    assert records.generation().prompt_template == f"Context:\n{blocks}\n\nQuestion: {QUESTION}"


def test_a_chat_completion(records: Records, client: Any) -> None:
    """Prompt, answer, model, usage and finish reason."""
    client.chat.completions.create(model="m", messages=MESSAGES)
    check(records)


def test_an_async_chat_completion(records: Records, url: str) -> None:
    """The same with the async client."""

    async def ask() -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="-") as client:
            await client.chat.completions.create(model="m", messages=MESSAGES)

    asyncio.run(ask())
    check(records)


def test_an_async_search(records: Records, url: str) -> None:
    """The first page of an async search."""

    async def search() -> int:
        async with openai.AsyncOpenAI(base_url=url, api_key="-") as client:
            page = await client.vector_stores.search("vs", query=QUESTION)
            return len(page.data)

    assert asyncio.run(search()) == 2
    assert records.one.query.original == QUESTION
    assert [score for _, score in records.retrieved()] == [0.9, 0.4]


def test_a_streamed_chat_completion(records: Records, client: Any) -> None:
    """The parts are joined; the stream stays what it was, and nothing is attached between its parts."""
    before = get_current()
    with client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as stream:
        assert isinstance(stream, openai.Stream)
        assert stream.response.status_code == 200
        for _ in stream:
            assert get_current() == before
    check(records)


def test_an_async_streamed_chat_completion(records: Records, url: str) -> None:
    """The same with the async client."""

    async def ask() -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="-") as client:
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            async for _ in stream:
                assert isinstance(stream, openai.AsyncStream)

    asyncio.run(ask())
    check(records)


def test_a_stream_left_early_keeps_what_passed(records: Records, client: Any) -> None:
    """Dropping the stream ends the generation."""
    for _ in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
        break
    gc.collect()
    assert records.generation().answer == "Twenty"


def test_the_stream_helper(records: Records, client: Any) -> None:
    """`chat.completions.stream` accumulates by itself."""
    with client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
        assert stream.get_final_completion().choices[0].message.content == ANSWER
    check(records)


def test_a_raw_response(records: Records, client: Any) -> None:
    """The host still reads it."""
    raw = client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
    assert raw.parse().choices[0].message.content == ANSWER
    check(records)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_response(records: Records, client: Any, streamed: bool) -> None:
    """The responses API, whole and in parts."""
    given = {"model": "m", "instructions": "Answer from the context.", "input": PROMPT}
    if streamed:
        assert len(list(client.responses.create(**given, stream=True))) == 3
    else:
        client.responses.create(**given)
    generation = records.generation()
    assert (generation.answer, generation.finish_reason) == (ANSWER, "completed")
    assert generation.prompt_template == f"Answer from the context.\n\n{PROMPT}"
    assert generation.usage is not None
    assert (generation.usage.input_tokens, generation.usage.output_tokens) == (40, 3)


def test_a_file_search_is_a_retrieval(records: Records, client: Any) -> None:
    """What the service retrieved itself, in one record that opened by itself."""
    tools = [{"type": "file_search", "vector_store_ids": ["vs"]}]
    include = ["file_search_call.results"]
    client.responses.create(model="m", input=QUESTION, tools=tools, include=include)
    assert (records.one.query.original, records.one.query.rewritten) == (QUESTION, "days of leave")
    assert records.stages() == ["retrieve", "generate"]
    assert [(each.text, each.score) for each in records.one.candidates] == [(TEXTS[0], 0.9), (TEXTS[1], 0.4)]
    assert records.generation().answer == ANSWER


def test_a_refused_call_is_an_error(records: Records, client: Any) -> None:
    """The host gets its exception; the record says where it came from."""
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="broken", messages=MESSAGES)
    error = records.one.error
    assert error is not None
    assert (error.type, error.stage, records.one.flags) == ("openai.BadRequestError", "generate", ("error",))


def test_suppressed_and_uninstrumented_calls_are_not_recorded(records: Records, client: Any) -> None:
    """OpenTelemetry's suppress_instrumentation, and uninstrument()."""
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    with suppress_instrumentation():
        client.chat.completions.create(model="m", messages=MESSAGES)
    ragtrace.uninstrument("openai")
    client.chat.completions.create(model="m", messages=MESSAGES)
    assert records.items == []
    assert not hasattr(type(client.chat.completions).create, "_self_wrapper")


def test_what_an_integration_asks_is_its_own_affair(records: Records, client: Any) -> None:
    """LangChain, LlamaIndex and Haystack record the calls that their integrations make."""
    scope = {"__name__": "langchain_openai.chat_models", "client": client, "messages": MESSAGES}
    exec("client.chat.completions.create(model='m', messages=messages)", scope)
    assert records.items == []
