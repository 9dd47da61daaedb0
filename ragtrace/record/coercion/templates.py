"""The template of a prompt: `{chunk:ID}` where packed chunks stand, whose texts are then just what stands there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ragtrace.prompts import escaped, parsed, placeholder
from ragtrace.record.coercion._passages import Passage, Wording, locate
from ragtrace.types import GenerateRun, PackedChunk, PackRun, StageRun, replace

__all__ = ["as_given", "cut_out", "make_template", "templated"]

_BETWEEN: Final = "\n\0\n"  # what no chunk is searched across


class _ChunkPlace(NamedTuple):
    start: int
    end: int
    chunk: int  # its place in the packing


def templated(runs: Sequence[StageRun], questions: Sequence[str | None] = ()) -> tuple[StageRun, ...]:
    """The runs with a template in place of each prompt, made of the chunks that were packed last before it.

    The first prompt with chunks says how they were given. A prompt that has placeholders is a template already.
    """
    found = list(runs)
    latest: int | None = None
    settled: set[int] = set()
    for place, run in enumerate(runs):
        if isinstance(run, PackRun) and run.is_known:
            latest = place
        if not isinstance(run, GenerateRun) or latest is None or not run.generation.prompt_template:
            continue
        packing = found[latest].packing  # type: ignore[union-attr]
        template, chunks = make_template(run.generation.prompt_template, packing.chunks, latest in settled, questions)
        if template != run.generation.prompt_template:
            settled.add(latest)
            found[place] = replace(run, generation=replace(run.generation, prompt_template=template))
            found[latest] = replace(found[latest], packing=replace(packing, chunks=chunks))
    return tuple(found)


def make_template(
    template: str, chunks: Sequence[PackedChunk], settled: bool = False, questions: Sequence[str | None] = ()
) -> tuple[str, tuple[PackedChunk, ...]]:
    """A template of an escaped prompt, and the chunks as they stand in it: `rebuild(*made)` is the prompt.

    Args:
        template: the prompt, escaped; one that has placeholders stays as it is.
        settled: the chunks' texts are what was given; one that stands there otherwise remains in the template.
        questions: what the prompt asks.
    """
    texts, names = parsed(template)
    if names:
        return template, tuple(chunks)
    prompt = texts[0]
    places, given = _placed(prompt, chunks, settled, questions)
    return _filled(prompt, places, given), tuple(given)


def as_given(prompt: str, chunks: Sequence[PackedChunk], questions: Sequence[str | None] = ()) -> list[PackedChunk]:
    """The chunks with the text that stands in the prompt, and what of them is missing there; others as they are."""
    return _placed(prompt, chunks, False, questions)[1]


def cut_out(template: str, chunks: Sequence[PackedChunk]) -> str:
    """A template without any text of these chunks, however it stands there."""
    texts, names = parsed(template)
    prompt = _BETWEEN.join(texts)
    wordings = [Wording(chunk.text or "") for chunk in chunks]
    places = [_ChunkPlace(found.start, found.end, found.order) for found in locate(Wording(prompt), wordings)]
    filled = _filled(prompt, places, chunks).split(_BETWEEN)
    return "".join(part for pair in zip(filled, [*names, ""], strict=True) for part in pair)


def _filled(prompt: str, places: Iterable[_ChunkPlace], chunks: Sequence[PackedChunk]) -> str:
    parts, at = [], 0
    for place in places:
        parts += [escaped(prompt[at : place.start]), placeholder(chunks[place.chunk].chunk_id)]
        at = place.end
    return "".join([*parts, escaped(prompt[at:])])


def _placed(
    prompt: str, chunks: Sequence[PackedChunk], settled: bool, questions: Sequence[str | None]
) -> tuple[list[_ChunkPlace], list[PackedChunk]]:
    """Where chunks stand in a prompt, and the chunks as they are given there, which `settled` ones are already.

    The k-th place of an id belongs to its k-th chunk, further ones to the last if they say the same.
    """
    if prompt in questions:  # no chunk stands in what is asked
        return [], list(chunks)
    sources = [place for place, chunk in enumerate(chunks) if chunk.text and chunk.chunk_id]
    wordings = [Wording(chunks[place].text or "") for place in sources]
    found = locate(Wording(prompt), wordings, questions) if sources else []
    slots: defaultdict[str, list[int]] = defaultdict(list)
    for place in sources:
        slots[chunks[place].chunk_id].append(place)
    given, places = list(chunks), []
    taken: defaultdict[str, int] = defaultdict(int)
    for passage in found:
        source = chunks[sources[passage.order]]
        text = prompt[passage.start : passage.end]
        count, free = taken[source.chunk_id], slots[source.chunk_id]
        slot = free[min(count, len(free) - 1)]
        if count < len(free) and not settled:
            given[slot] = _as_found(given[slot], source, passage, text)
        if given[slot].text == text:
            places.append(_ChunkPlace(passage.start, passage.end, slot))
            taken[source.chunk_id] += 1
    return places, given


def _as_found(slot: PackedChunk, source: PackedChunk, passage: Passage, text: str) -> PackedChunk:
    if source.text == text:
        return slot if slot is source else replace(source, position=slot.position)
    start, end = source.given_start, source.given_end
    if not source.truncated and (not passage.whole or passage.first or passage.last < len(source.text or "")):
        start, end = passage.first, passage.last
    return replace(
        source,
        position=slot.position,
        text=text,
        content_hash=None,
        truncated=source.truncated or not passage.whole,
        given_start=start,
        given_end=end,
    )
