"""A pipeline that hands on prompts only: what was packed is found in them, and each prompt can be rebuilt."""

from __future__ import annotations

from typing import Any

import pytest

import ragtrace
from ragtrace.config import load
from ragtrace.prompts import rebuild
from ragtrace.record import ContentPolicy
from ragtrace.types import GenerateRun, PackRun, decode_record, encode_record

TEXTS = {
    "motor": "Motor cover pays for damage to the insured car, up to its value on the day before the accident.",
    "travel": "Travel cover pays the cost of a cancelled journey, up to EUR 3,000 for each insured person and year.",
    "pets": "Treatment of cats and dogs by a veterinary surgeon is paid at ninety per cent after three months.",
}
QUESTION = "What does {chunk:motor} mean?"


@ragtrace.retrieve
def search(query: str) -> list[dict[str, str]]:
    """Every chunk."""
    return [{"id": name, "text": text} for name, text in TEXTS.items()]


@ragtrace.pack
def as_text(hits: list[dict[str, str]]) -> str:
    """The second chunk whole, the first cut, in lines of their own."""
    return f"[1] {hits[1]['text'].replace(', ', ',' + chr(10))}\n\n[2] {hits[0]['text'][:60]}…"


@ragtrace.pack
def as_messages(hits: list[dict[str, str]]) -> list[dict[str, str]]:
    """The same as chat messages."""
    context = f"[1] {hits[1]['text'].replace(', ', ',' + chr(10))}\n\n[2] {hits[0]['text'][:60]}…"
    return [{"role": "system", "content": context}, {"role": "user", "content": QUESTION}]


@ragtrace.pack
def as_ids(hits: list[dict[str, str]]) -> list[str]:
    """Only the ids; the prompt is written elsewhere."""
    return ["travel", "motor"]


@ragtrace.generate
def complete(prompt: Any) -> str:
    """Some answer."""
    return "So."


def ask(packer: Any) -> str:
    """Answer the question; the text of the prompt."""
    with ragtrace.request(query=QUESTION):
        packed = packer(search(QUESTION))
        context = as_text.__wrapped__(search.__wrapped__(QUESTION))  # type: ignore[attr-defined]
        prompt: Any = packed if packer is as_messages else f"{context}\n\n{QUESTION}"
        complete(prompt)
    return f"{context}\n\n{QUESTION}"


@pytest.mark.parametrize("packer", [as_text, as_messages, as_ids])
def test_the_prompt_is_rebuilt_from_the_record(recorded: Any, packer: Any) -> None:
    """Whatever the packer returned: order, cuts, texts as they stood, and the template around them."""
    prompt = ask(packer)
    record = decode_record(encode_record(ContentPolicy(load()).finish(recorded.record)))  # type: ignore[arg-type]
    packing = next(run.packing for run in record.stages if isinstance(run, PackRun))
    template = next(run.generation.prompt_template for run in record.stages if isinstance(run, GenerateRun))
    first, second = packing.chunks
    assert (first.chunk_id, first.truncated, first.given_end) == ("travel", False, None)
    assert (second.chunk_id, second.truncated, second.given_start, second.given_end) == ("motor", True, 0, 60)
    assert [(chunk.chunk_id, chunk.why) for chunk in packing.dropped] == [
        ("pets", "probably budget")
    ] or packer is as_ids
    assert template == f"[1] {{chunk:travel}}\n\n[2] {{chunk:motor}}\n\n{QUESTION.replace('{', '{chunk:}')}"
    assert rebuild(template, packing.chunks) == prompt
    assert rebuild(template, packing.chunks, {"motor"}) == f"[2] {TEXTS['motor'][:60]}…\n\n{QUESTION}"
