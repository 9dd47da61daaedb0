"""Sameness of two requests that asked the same question: what they found, put into the prompt, answered and cited.

Where nothing that a stage works with or gives has changed, the candidate is known not to be worse there, whether the
stage can be judged or not. Finding more and showing more is no loss either: a deeper candidate is the same in retrieval
where it found all that the baseline found, and in ranking where all of that prompt stands in its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage import find_citations, first_number, united
from ragtrace.types import Candidate, PackedChunk, Packing, RequestRecord, Stage, content_hash

__all__ = ["MOST", "Trace", "text_key", "trace_of", "unchanged"]

MOST: Final = 2_000
"""Requests of a side up to which their records are read and compared: of more, a few alike tell nothing new."""

_Text = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """What one request did. found, prompt: its chunks by their text, however they are called, the prompt's in order,
    of all that models of the request were given. citations: those that the host reported and those in the answer, with
    what they name. None: not recorded."""

    found: frozenset[_Text] | None = None
    prompt: tuple[_Text, ...] | None = None
    answer: str | None = None
    citations: tuple[object, ...] = field(default=())


def trace_of(record: RequestRecord) -> Trace:
    """Of a record; of one that ended with an error nothing is known to be the same."""
    if record.status == "error":
        return Trace()
    packing, generation = united(record).packing, record.generation
    found = [_text(candidate) for candidate in record.candidates]
    prompt = [_text(chunk) for chunk in packing.chunks] if packing is not None else []
    answer = None if generation is None else generation.answer_hash or generation.answer
    return Trace(
        found=frozenset(text for text in found if text) if record.is_retrieved and all(found) else None,
        prompt=tuple(text for text in prompt if text) if packing is not None and all(prompt) else None,
        answer=answer,
        citations=tuple(_citations(record, packing)) if packing is not None else (),
    )


def _citations(record: RequestRecord, packing: Packing) -> Iterator[object]:
    """Each mark with the text that it names, or the name itself where the prompt holds none of that name. Of an answer
    whose text is not stored, the number of the prompt's first chunk stands for the marks in it."""
    generation = record.generation
    if generation is None:
        return
    named = {chunk.chunk_id: _text(chunk) for chunk in packing.chunks}
    first, marks = first_number(generation.prompt_template), generation.citations
    if generation.answer is None:
        yield first
    else:
        marks += find_citations(generation.answer, packing.chunks, record.candidates, first=first)
    for mark in marks:
        yield mark.marker, mark.start, mark.end, named.get(mark.chunk_id or "", mark.chunk_id)


def text_key(chunk: Candidate | PackedChunk) -> str | None:
    """What stands for a chunk's text, whether it is stored or its hash alone; None where neither is."""
    return chunk.content_hash or (None if chunk.text is None else content_hash(chunk.text))


def _text(chunk: Candidate | PackedChunk) -> _Text | None:
    """The chunk's text or its hash, with the part of it that was given; None where it was not recorded."""
    text = text_key(chunk)
    if text is None:
        return None
    if isinstance(chunk, PackedChunk):
        return text, chunk.truncated, chunk.given_start, chunk.given_end
    return (text,)


def unchanged(
    baseline: Sequence[Trace], candidate: Sequence[Trace], pairs: NDArray[np.int64]
) -> Mapping[Stage, NDArray[np.bool_]]:
    """By stage, in which pairs the candidate is known not to be worse."""
    same = [_same(baseline[one], candidate[two]) for one, two in pairs.tolist()]
    stages: tuple[Stage, ...] = ("retrieval", "ranking", "generation", "citation")
    marks = np.array(same, dtype=np.bool_).reshape(-1, len(stages))
    return {stage: marks[:, place] for place, stage in enumerate(stages)}


def _same(before: Trace, after: Trace) -> tuple[bool, bool, bool, bool]:
    found = before.found is not None and after.found is not None and before.found <= after.found
    if before.prompt is None or after.prompt is None:
        return found, False, False, False
    shown = set(before.prompt) <= set(after.prompt)
    told = before.answer is not None and before.answer == after.answer
    cited = before.prompt == after.prompt and before.citations == after.citations
    return found, shown, shown and told, told and cited
