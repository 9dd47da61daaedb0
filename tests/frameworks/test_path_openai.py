"""The whole evidence path of a small application of OpenAI's client, in every mode, with no stage decorated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording
from tests.frameworks.openai_api import Api, serving

DISTRIBUTIONS = ("openai", "opentelemetry-instrumentation")
REASON = "openai is not installed (pip install 'ragtrace[openai,otel]')"
openai = pytest.importorskip("openai", reason=REASON)
pytest.importorskip("opentelemetry.instrumentation", reason=REASON)

MODES = ["sync", "async", "stream", "async stream"]
TEXTS = [
    "Employees may take twenty days of leave in a calendar year, and carry five of them over to the next one.",
    "The notice period is three months to the end of a quarter, longer after ten years of service.",
    "A bonus is paid in March when the targets have been met for a whole year.",
]
QUESTION = "How many days of leave are there?"
PROMPT = f"Context:\n{TEXTS[0]}\n\n{TEXTS[1][:60]}\n\nQuestion: {QUESTION}"


class Handbook(Api):
    """Three results."""

    results = [  # noqa: RUF012  # never changed
        {
            "file_id": f"f{place}",
            "filename": "a.pdf",
            "score": 0.9 - place / 5,
            "text": text,
            "attributes": {"n": place},
        }
        for place, text in enumerate(TEXTS)
    ]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of the server."""
    with serving(Handbook) as found:
        yield found


@pytest.fixture
def records() -> Iterator[Records]:
    """OpenAI's client is instrumented, a recorder in use; nothing stays attached to the test's own context."""
    ragtrace.instrument("openai")
    before = get_current()
    with recording() as found:
        yield found
    assert get_current() == before
    ragtrace.uninstrument("openai")


def ask(url: str, mode: str, model: str = "m") -> None:
    """Search, pack, generate: what the application opens is the request."""
    messages: Any = [{"role": "user", "content": PROMPT}]
    with ragtrace.request(query=QUESTION), openai.OpenAI(base_url=url, api_key="-", max_retries=0) as client:
        client.vector_stores.search("vs", query=QUESTION)
        made = client.chat.completions.create(model=model, messages=messages, stream=mode == "stream")
        if mode == "stream":
            assert len(list(made)) == 4


async def ask_later(url: str, mode: str, model: str = "m") -> None:
    """The same, async."""
    messages: Any = [{"role": "user", "content": PROMPT}]
    async with ragtrace.request(query=QUESTION), openai.AsyncOpenAI(base_url=url, api_key="-", max_retries=0) as client:
        await client.vector_stores.search("vs", query=QUESTION)
        made = await client.chat.completions.create(model=model, messages=messages, stream=mode == "async stream")
        if mode == "async stream":
            assert len([part async for part in made]) == 4


def run(url: str, mode: str, model: str = "m") -> None:
    """The application."""
    if mode.startswith("async"):
        asyncio.run(ask_later(url, mode, model))
    else:
        ask(url, mode, model)


@pytest.mark.captures("ids", "scores", "texts", "metadata", where="OpenAI")
@pytest.mark.captures("packed", "truncated", "dropped", "answer", "usage", where="OpenAI")
@pytest.mark.parametrize("mode", MODES)
def test_the_whole_path(records: Records, url: str, mode: str) -> None:
    """Candidates with ids (of their texts), scores, texts and attributes, the packed prompt and the answer."""
    run(url, mode)
    assert (records.one.query.original, records.stages()) == (QUESTION, ["retrieve", "pack", "generate"])
    found = records.one.candidates
    assert [(each.text, each.score, each.doc_id, each.source, each.metadata) for each in found] == [
        (each["text"], each["score"], each["file_id"], "a.pdf", each["attributes"]) for each in Handbook.results
    ]
    assert [each.chunk_id for each in found] == [each.content_hash for each in found]
    packing = records.packing()
    assert [(each.chunk_id, each.truncated) for each in packing.chunks] == [
        (found[0].chunk_id, False),
        (found[1].chunk_id, True),
    ]
    assert [each.chunk_id for each in packing.dropped] == [found[2].chunk_id]
    assert f"{{chunk:{found[0].chunk_id}}}" in (records.generation().prompt_template or "")
    records.check_generation("m", (40, 3))


@pytest.mark.captures("error", where="OpenAI")
@pytest.mark.parametrize("mode", MODES)
def test_a_refused_call(records: Records, url: str, mode: str) -> None:
    """The host gets its exception; the record says where it came from."""
    with pytest.raises(openai.BadRequestError):
        run(url, mode, "broken")
    error = records.one.error
    assert error is not None
    assert (error.type, error.stage, records.one.flags) == ("openai.BadRequestError", "generate", ("error",))
    assert len(records.one.candidates) == 3
