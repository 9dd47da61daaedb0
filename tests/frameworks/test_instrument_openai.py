"""`ragtrace.instrument("openai")` against a server on the loopback that speaks the API, streams included."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording

reason = "openai is not installed (pip install 'ragtrace[openai,otel]')"
openai = pytest.importorskip("openai", reason=reason)
pytest.importorskip("opentelemetry.instrumentation", reason=reason)

TEXTS = [
    "Employees may take twenty days of leave in a calendar year.",
    "The notice period is three months to the end of a quarter.",
]
QUESTION = "How many days of leave are there?"
ANSWER = "Twenty days."
PROMPT = f"Context:\n{TEXTS[0]}\n{TEXTS[1]}\n\nQuestion: {QUESTION}"
MESSAGES = [{"role": "system", "content": "Answer from the context."}, {"role": "user", "content": PROMPT}]
USAGE = {"prompt_tokens": 40, "completion_tokens": 3, "total_tokens": 43}
RESULTS = [
    {"file_id": "file-1", "filename": "handbook.pdf", "score": 0.9, "text": TEXTS[0], "attributes": {}},
    {"file_id": "file-1", "filename": "handbook.pdf", "score": 0.4, "text": TEXTS[1], "attributes": {}},
]


def completion() -> dict[str, Any]:
    """A chat completion."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice], "usage": USAGE}


def chunks() -> list[dict[str, Any]]:
    """The same in parts."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
    deltas = [{"role": "assistant", "content": "Twenty"}, {"content": " days."}]
    parts = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [*parts, end, {**head, "choices": [], "usage": USAGE}]


def response(searched: bool) -> dict[str, Any]:
    """A response, after a search of files if there was one."""
    content = {"type": "output_text", "text": ANSWER, "annotations": []}
    output: list[dict[str, Any]] = [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [content]}
    ]
    if searched:
        search = {"type": "file_search_call", "id": "f", "status": "completed", "queries": ["days of leave"]}
        output.insert(0, {**search, "results": RESULTS})
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 40, "output_tokens": 3, "total_tokens": 43, **details}
    about = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {
        **{"id": "r", "object": "response", "created_at": 1, "model": "m-1", "status": "completed"},
        **about,
        **{"output": output, "usage": usage},
    }


def events() -> list[dict[str, Any]]:
    """A response in parts."""
    place = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
    deltas = [
        {"type": "response.output_text.delta", "delta": text, "sequence_number": number, **place}
        for number, text in enumerate(("Twenty", " days."), 1)
    ]
    return [*deltas, {"type": "response.completed", "sequence_number": 3, "response": response(False)}]


class Api(BaseHTTPRequestHandler):
    """What the client talks to."""

    def do_POST(self) -> None:
        """Chat completions, responses and vector stores."""
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if given.get("model") == "broken":
            self._send(400, "application/json", json.dumps({"error": {"message": "no such model"}}))
        elif self.path.endswith("/search"):
            data = [
                {**{key: each[key] for key in ("file_id", "filename", "score", "attributes")}}
                | {"content": [{"type": "text", "text": each["text"]}]}
                for each in RESULTS
            ]
            page = {"object": "vector_store.search_results.page", "data": data, "has_more": False, "next_page": None}
            self._send(200, "application/json", json.dumps(page))
        elif given.get("stream"):
            parts = events() if self.path.endswith("/responses") else chunks()
            heads = [f"event: {part['type']}\n" if "type" in part else "" for part in parts]
            lines = [f"{head}data: {json.dumps(part)}\n\n" for head, part in zip(heads, parts, strict=True)]
            self._send(200, "text/event-stream", "".join(lines) + "data: [DONE]\n\n")
        else:
            found = response("tools" in given) if self.path.endswith("/responses") else completion()
            self._send(200, "application/json", json.dumps(found))

    def _send(self, status: int, kind: str, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: Any) -> None:
        """Silent."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


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
