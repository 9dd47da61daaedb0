"""The last step of a record, in the background: hashes of its texts, the prompt's template, the capture policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from ragtrace.config import CaptureContent
from ragtrace.types import (
    Candidate,
    ErrorInfo,
    GenerateRun,
    Item,
    PackedChunk,
    PackRun,
    RequestRecord,
    RetrieveRun,
    StageRun,
    content_hash,
    replace,
    to_builtins,
)

__all__ = ["finish", "scrub"]

_REMEMBERED: Final = 2000  # characters; the hashes of longer texts are not kept
_TEMPLATE_MIN: Final = 16  # a shorter chunk text could be found anywhere in a prompt


@lru_cache(maxsize=4096)
def _known_hash(text: str) -> str:
    """The same chunks are retrieved again and again."""
    return content_hash(text)


def _hash(text: str) -> str:
    return _known_hash(text) if len(text) <= _REMEMBERED else content_hash(text)


def finish(item: Item, capture: CaptureContent) -> Item:
    """`item` as it may be written: with hashes, and without the texts that `capture` keeps out."""
    if not isinstance(item, RequestRecord):
        return item
    keep, hashed = capture == "full", capture != "off"
    packed = [chunk for run in item.stages if isinstance(run, PackRun) for chunk in run.packing.chunks]
    record = replace(item, stages=tuple(_run(run, packed, keep, hashed) for run in item.stages))
    if keep:
        return record
    query = replace(record.query, original="", rewritten=None, facets=())
    return replace(record, query=query, error=_silent(record.error), attributes={})


def _run(run: StageRun, packed: list[PackedChunk], keep: bool, hashed: bool) -> StageRun:
    run = run if keep else replace(run, error=_silent(run.error))
    if isinstance(run, RetrieveRun):
        candidates = tuple(_chunk(candidate, keep, hashed) for candidate in run.candidates)
        return replace(run, candidates=candidates, query=run.query if keep else None)
    if isinstance(run, PackRun):
        chunks = tuple(_chunk(chunk, keep, hashed) for chunk in run.packing.chunks)
        return replace(run, packing=replace(run.packing, chunks=chunks))
    return _generate(run, packed, keep, hashed) if isinstance(run, GenerateRun) else run


def _chunk(chunk: Any, keep: bool, hashed: bool) -> Any:
    """A candidate or packed chunk."""
    if chunk.text is not None:
        found = (chunk.content_hash or _hash(chunk.text)) if hashed else None
        if keep:
            return replace(chunk, content_hash=found)
        chunk = replace(chunk, content_hash=found, text=None)
    return chunk if keep or not isinstance(chunk, Candidate) else replace(chunk, metadata={})


def _generate(run: GenerateRun, packed: list[PackedChunk], keep: bool, hashed: bool) -> GenerateRun:
    generation = run.generation
    digest = generation.answer_hash if hashed else None
    if hashed and generation.answer is not None:
        digest = content_hash(generation.answer)
    template = _template(generation.prompt_template, packed) if keep else None
    answer = generation.answer if keep else None
    return replace(run, generation=replace(generation, answer=answer, answer_hash=digest, prompt_template=template))


def _template(prompt: str | None, packed: list[PackedChunk]) -> str | None:
    """The prompt with `{chunk:ID}` where packed chunks stand; longer chunks first, one may hold another."""
    if prompt is None:
        return None
    for chunk in sorted(packed, key=lambda chunk: -len(chunk.text or "")):
        if chunk.text is not None and len(chunk.text) >= _TEMPLATE_MIN:
            prompt = prompt.replace(chunk.text, f"{{chunk:{chunk.chunk_id}}}", 1)
    return prompt


def _silent(error: ErrorInfo | None) -> ErrorInfo | None:
    """An exception's message may quote content."""
    return None if error is None else replace(error, message="")


def scrub(item: Item) -> Item:
    """`item` with what UTF-8 cannot hold (lone surrogates of broken JSON) replaced by question marks."""
    return msgspec.convert(_scrubbed(to_builtins(item)), type(item))


_CLEAN: Final[dict[type, Callable[[Any], Any]]] = {
    str: lambda value: value.encode("utf-8", "replace").decode(),
    dict: lambda value: {_scrubbed(key): _scrubbed(item) for key, item in value.items()},
    list: lambda value: [_scrubbed(item) for item in value],
    tuple: lambda value: [_scrubbed(item) for item in value],
}


def _scrubbed(value: Any) -> Any:
    clean = _CLEAN.get(type(value))
    return value if clean is None else clean(value)
