"""Recognition of what later stages hand on: by the candidates that a request has seen, and in a prompt, whose template
has `{chunk:ID}` where packed chunks stand; their texts are then just what stands there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, count
from typing import Final, NamedTuple

from ragtrace.prompts import escaped, parsed, placeholder
from ragtrace.record.coercion._passages import SHORTEST, Passage, Wording, locate
from ragtrace.record.coercion.chunks import APART
from ragtrace.record.coercion.values import Chunk, PlainChunks
from ragtrace.types import Candidate, GenerateRun, PackedChunk, PackRun, RankMove, StageRun, replace

__all__ = [
    "Excerpt",
    "Known",
    "KnownColumns",
    "as_given",
    "cut_out",
    "excerpt_of",
    "make_template",
    "plain_moves",
    "ranks_of",
    "read_moves",
    "templated",
]

_ENDS: Final = " \t\r\n.…[]"  # an ellipsis that marks a cut, and white space


class Excerpt(NamedTuple):
    """Which of a chunk's text was given, `full[start:end]`, and whether any of it is missing."""

    truncated: bool
    start: int
    end: int


class Known:
    """Candidates by id, by text and by what they say."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._candidates = candidates
        self._wordings: dict[str, Wording] = {}

    @cached_property
    def by_id(self) -> dict[str, Candidate]:
        """Each candidate once, if possible one with a text."""
        candidates = list(self._candidates)
        found = {candidate.chunk_id: candidate for candidate in candidates}
        if len(found) == len(candidates):
            return found
        found = {}
        for candidate in candidates:
            seen = found.get(candidate.chunk_id)
            if seen is None or (seen.text is None and candidate.text is not None):
                found[candidate.chunk_id] = candidate
        return found

    @cached_property
    def _by_text(self) -> dict[str, Candidate]:
        return {known.text: known for known in self.by_id.values() if known.text}

    def get(self, chunk_id: str) -> Candidate | None:
        """The candidate with this id."""
        return self.by_id.get(chunk_id)

    def text(self, chunk_id: str) -> str | None:
        """A candidate's full text."""
        candidate = self.by_id.get(chunk_id)
        return None if candidate is None else candidate.text

    def identify(self, chunk: Chunk) -> str:
        """The chunk's own id, else that of the candidate with the same (or a longer, cut) text, else a hash. Of an id
        that several candidates were given, that of the one with its text."""
        if chunk.chunk_id is not None:
            same = self._told_apart.get(chunk.chunk_id)
            return chunk.chunk_id if same is None or not chunk.text else _fitting(same, chunk.text, chunk.chunk_id)
        found = self.find(chunk.text) if chunk.text else None
        return found.chunk_id if found is not None else chunk.identity

    @property
    def tells_apart(self) -> bool:
        """Whether several candidates were given one id."""
        return bool(self._told_apart)

    @cached_property
    def _told_apart(self) -> dict[str, list[Candidate]]:
        """Candidates that were given one id, by this id."""
        found: dict[str, list[Candidate]] = {}
        for chunk_id in [chunk_id for chunk_id in self.by_id if APART in chunk_id]:
            given = chunk_id.rpartition(APART)[0]
            if given in self.by_id:
                found.setdefault(given, [self.by_id[given]]).append(self.by_id[chunk_id])
        return found

    def find(self, body: str) -> Candidate | None:
        """The candidate whose text this is, or of whose text it is the beginning, or else another part."""
        exact = self._by_text.get(body)
        if exact is not None:
            return exact
        core = body.strip(_ENDS)
        if len(core) < SHORTEST:
            return None
        cut = next((known for full, known in self._by_text.items() if full.startswith(core)), None)
        return cut or next((known for full, known in self._by_text.items() if core in full), None)

    def located(
        self, prompt: str, first: Iterable[str] = (), questions: Iterable[str | None] = ()
    ) -> list[tuple[Candidate, Excerpt, str]]:
        """The candidates that stand in a prompt, in its order, each with its part and the text as it stands there.

        Args:
            first: ids of the candidates that are expected there, best first: they are preferred where several fit
                equally well. Of others at least half must stand there. None are named: all are expected.
            questions: what the prompt asks, which is no part of a candidate that says the same.
        """
        texts = self._full_texts
        named = [chunk_id for chunk_id in dict.fromkeys(first) if chunk_id in texts]
        ids = list(dict.fromkeys((*named, *texts)))
        found = locate(Wording(prompt), [self._wording(chunk_id) for chunk_id in ids], questions, len(named) or None)
        return [
            (self.by_id[ids[each.order]], Excerpt(not each.whole, each.first, each.last), prompt[each.start : each.end])
            for each in found
        ]

    @cached_property
    def _full_texts(self) -> dict[str, str]:
        """By id, of those that have one."""
        return {chunk_id: known.text for chunk_id, known in self.by_id.items() if known.text}

    def _wording(self, chunk_id: str) -> Wording:
        if chunk_id not in self._wordings:
            self._wordings[chunk_id] = Wording(self._full_texts[chunk_id])
        return self._wordings[chunk_id]


class KnownColumns(Known):
    """The same of columns, whose ids tell all apart: few of them are looked at. The candidates have no hashes."""

    def __init__(self, columns: Iterable[PlainChunks]) -> None:
        self._columns = list(columns)
        super().__init__(chain.from_iterable(each.candidates(None, hashed=False) for each in self._columns))

    @cached_property
    def _texts(self) -> dict[str, str]:
        """By id; of several retrievers the first that returned it."""
        found: dict[str, str] = {}
        for each in reversed(self._columns):
            found.update(zip(each.ids, each.texts, strict=True))
        return found

    def get(self, chunk_id: str) -> Candidate | None:
        """It, made for who asks."""
        text = self._texts.get(chunk_id)
        return None if text is None else Candidate(chunk_id=chunk_id, rank=1, text=text)

    def text(self, chunk_id: str) -> str | None:
        """A candidate's full text."""
        return self._texts.get(chunk_id)

    @cached_property
    def _told_apart(self) -> dict[str, list[Candidate]]:
        return {}


def _fitting(same: Iterable[Candidate], body: str, given: str) -> str:
    """The id of the candidate with this text, or a part of it."""
    core = body.strip(_ENDS)
    exact = (each.chunk_id for each in same if each.text == body)
    return next(chain(exact, (each.chunk_id for each in same if core and core in (each.text or ""))), given)


def excerpt_of(body: str, full: str) -> Excerpt | None:
    """The part of `full` that a packed text gives; None where it says something else, such as a summary."""
    core, start = body.strip(_ENDS), 0
    if not core or core == full.strip(_ENDS):
        return Excerpt(False, 0, len(full)) if core else None
    if len(core) < len(full):
        start = 0 if full.startswith(core) else full.find(core) if len(core) >= SHORTEST else -1
        if start >= 0:
            return Excerpt(True, start, start + len(core))
    found = locate(Wording(body), [Wording(full)])
    if not found:
        return None
    whole = any(passage.whole for passage in found)
    return Excerpt(not whole, min(each.first for each in found), max(each.last for each in found))


def read_moves(
    ranked: Iterable[tuple[int, Chunk]], inputs: Sequence[str], known: Known
) -> tuple[list[str], tuple[RankMove, ...], tuple[RankMove, ...]]:
    """The ids of `ranked`, which came out of a reranker, the moves of each chunk of them, and those that fell out.

    inputs: ids of what went in, in order; known: the candidates by which a chunk without an id is recognized.
    """
    before = ranks_of(inputs)
    after: dict[str, RankMove] = {}
    ids = []
    for rank, chunk in ranked:
        chunk_id = _identity(chunk, inputs, known)
        ids.append(chunk_id)
        after.setdefault(chunk_id, RankMove(chunk_id, before.get(chunk_id), rank, chunk.score))
    return ids, tuple(after.values()), _lost(before, after)


def plain_moves(
    ranked: PlainChunks, inputs: Sequence[str], known: Known
) -> tuple[list[str], tuple[RankMove, ...], tuple[RankMove, ...]] | None:
    """The same of chunks by columns, whose ids are theirs; None where `read_moves` has to look at each."""
    if not ranked.are_distinct or known.tells_apart:
        return None
    ids, before = ranked.ids, ranks_of(inputs)
    kept = map(RankMove, ids, map(before.get, ids), count(1), ranked.scores)
    return list(ids), tuple(kept), _lost(before, set(ids))


def ranks_of(inputs: Sequence[str]) -> dict[str, int]:
    """The rank of each input; of one that went in twice the better one counts."""
    before = dict(zip(inputs, count(1)))
    if len(before) < len(inputs):
        before = {}
        for rank, chunk_id in enumerate(inputs, 1):
            before.setdefault(chunk_id, rank)
    return before


def _lost(before: Mapping[str, int], after: Collection[str]) -> tuple[RankMove, ...]:
    names = [name for name in before if name not in after]
    return tuple(map(RankMove, names, map(before.__getitem__, names)))


def _identity(chunk: Chunk, inputs: Sequence[str], known: Known) -> str:
    """A reranker may return positions among its inputs instead of chunks."""
    if chunk.index is not None and 0 <= chunk.index < len(inputs):
        return inputs[chunk.index]
    return known.identify(chunk)


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
