"""Reads what a packer returned: the chunks that reached the prompt, in its order, and those that did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from ragtrace.record.coercion.chunks import Chunk, read_chunk
from ragtrace.record.coercion.items import items_of
from ragtrace.record.coercion.snapshots import Columns, Frozen, freeze
from ragtrace.record.coercion.values import Unreadable, first, names, text, whole
from ragtrace.types import Candidate, DroppedChunk, PackedChunk, Packing

__all__ = ["Known", "Packed", "Taken", "placed", "read_packing", "take_packing"]

_CHUNKS: Final = ("chunks", "packed", "selected", "kept", "context")
_DROPPED: Final = ("dropped", "removed", "skipped")
_PROMPTS: Final = ("prompt", "prompt_text", "text")
_BUDGETS: Final = ("budget_tokens", "budget", "max_tokens")
_TOKENS: Final = ("tokens", "n_tokens", "token_count")
_TOKENS_FULL: Final = ("tokens_full", "full_tokens")
_FLAGS: Final = ("truncated", "is_truncated")
_FURTHER: Final = (*_TOKENS, *_TOKENS_FULL, *_FLAGS)
_FURTHER_NAMES: Final = frozenset(_FURTHER)
_SHORTEST: Final = 16  # a shorter text says too little to be recognized in a prompt or as a cut one


class Known:
    """The candidates that a request has seen, by id and by text: what later stages hand on is recognized by them."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._candidates = candidates

    @cached_property
    def by_id(self) -> dict[str, Candidate]:
        """Each candidate once, if possible one with a text."""
        found: dict[str, Candidate] = {}
        for candidate in self._candidates:
            seen = found.get(candidate.chunk_id)
            if seen is None or (seen.text is None and candidate.text is not None):
                found[candidate.chunk_id] = candidate
        return found

    @cached_property
    def _by_text(self) -> dict[str, Candidate]:
        return {known.text: known for known in self.by_id.values() if known.text}

    def identify(self, chunk: Chunk) -> str:
        """The chunk's own id, else that of the candidate with the same (or a longer, cut) text, else a hash."""
        if chunk.chunk_id is not None:
            return chunk.chunk_id
        found = self.find(chunk.text) if chunk.text else None
        return found.chunk_id if found is not None else chunk.identity

    def find(self, body: str) -> Candidate | None:
        """The candidate whose text this is, or of whose text it is the beginning."""
        exact = self._by_text.get(body)
        if exact is not None:
            return exact
        start = _start(body)
        if len(start) < _SHORTEST:
            return None
        return next((known for full, known in self._by_text.items() if full.startswith(start)), None)


class Packed(NamedTuple):
    """A packing, the prompt if the packer returned one, and the type names of the items that could not be read."""

    packing: Packing
    prompt: str | None
    unread: list[str]


class _Item(NamedTuple):
    """What one packed item says about itself."""

    chunk: Chunk
    tokens: int | None = None
    tokens_full: int | None = None
    truncated: bool | None = None


class Taken(NamedTuple):
    """What a packer returned, taken at once: its chunks (None: they are to be found in the prompt) and the rest."""

    chunks: Columns | Frozen | list[_Item] | None
    unread: list[str]
    dropped: list[tuple[Chunk, str]]
    prompt: str | None
    stated: int | None


def read_packing(value: Any, known: Known, inputs: Iterable[str], budget: int | None) -> Packed:
    """What was packed out of `inputs` (chunk ids). Raises: Unreadable when no chunks and no prompt are found."""
    return placed(take_packing(value), known, inputs, budget)


def take_packing(value: Any) -> Taken:
    """A packer's value as it is now. Raises: Unreadable when no chunks and no prompt are found."""
    chunks, dropped, prompt, stated = _parts(value)
    unread: list[str] = []
    taken: Columns | Frozen | list[_Item] | None = None
    if chunks is not None:
        is_listed = type(chunks) is list or isinstance(chunks, list | tuple)
        taken = freeze(chunks, _FURTHER) if is_listed else None  # type: ignore[arg-type]
        taken = _items(chunks, unread) if taken is None else taken
    return Taken(taken, unread, [] if dropped is None else _dropped(dropped), prompt, stated)


def placed(taken: Taken, known: Known, inputs: Iterable[str], budget: int | None) -> Packed:
    """The packing of what was taken, among the candidates that are known."""
    unread = list(taken.unread)
    items = _thawed(taken.chunks, unread)
    packed = _in_prompt(taken.prompt or "", known) if items is None else _listed(items, known)
    there = {chunk.chunk_id for chunk in packed}
    named: dict[str, DroppedChunk] = {}
    for chunk, reason in taken.dropped:
        chunk_id = known.identify(chunk)
        if chunk_id not in there:
            named[chunk_id] = DroppedChunk(chunk_id=chunk_id, reason=reason)
    for chunk_id in inputs:
        if chunk_id not in there and chunk_id not in named:
            named[chunk_id] = DroppedChunk(chunk_id=chunk_id)
    packing = Packing(
        chunks=tuple(packed), dropped=tuple(named.values()), budget_tokens=taken.stated if budget is None else budget
    )
    return Packed(packing, taken.prompt, unread)


def _parts(value: Any) -> tuple[Iterable[Any] | None, Any, str | None, int | None]:
    """Chunks, dropped chunks, prompt and budget."""
    if isinstance(value, str):
        return None, None, text(value), None
    if isinstance(value, tuple) and len(value) == 2 and sum(isinstance(part, str) for part in value) == 1:
        chunks, prompt = value if isinstance(value[1], str) else value[::-1]
        if isinstance(chunks, list | tuple):
            return chunks, None, text(prompt), None
    if isinstance(value, list | tuple):
        return value, None, None, None
    chunks, prompt = first(value, *_CHUNKS), text(first(value, *_PROMPTS))
    if not isinstance(chunks, list | tuple):
        chunks = None if prompt is not None else items_of(value)
    return chunks, first(value, *_DROPPED), prompt, whole(first(value, *_BUDGETS))


def _thawed(chunks: Columns | Frozen | list[_Item] | None, unread: list[str]) -> list[_Item] | None:
    if chunks is None or isinstance(chunks, list):
        return chunks
    if isinstance(chunks, Columns) and not _FURTHER_NAMES.isdisjoint(chunks.names):
        return _items(chunks.items(), unread)
    found = chunks.chunks()
    unread += found.unread
    return [_Item(chunk) for _, chunk in found.ranked]


def _items(chunks: Iterable[Any], unread: list[str]) -> list[_Item]:
    items: list[_Item] = []
    for item in chunks:
        try:
            chunk = read_chunk(item)
        except Unreadable as error:
            unread.append(error.kind)
            continue
        flag = None if isinstance(item, str) else first(item, *_FLAGS)
        items.append(_Item(chunk, *_tokens(item), None if flag is None else bool(flag)))
    return items


def _listed(items: Iterable[_Item], known: Known) -> list[PackedChunk]:
    return [_packed(item, known, position) for position, item in enumerate(items, 1)]


def _packed(item: _Item, known: Known, position: int) -> PackedChunk:
    chunk, tokens, tokens_full, flag = item
    chunk_id = known.identify(chunk)
    candidate = known.by_id.get(chunk_id)
    full = candidate.text if candidate is not None else None
    cut = chunk.text is not full and _is_start(chunk.text, full)
    truncated = flag if flag is not None else cut or _fewer(tokens, tokens_full)
    body = chunk.text if chunk.text is not None or truncated else full
    return PackedChunk(
        chunk_id=chunk_id, position=position, tokens=tokens, tokens_full=tokens_full, truncated=truncated, text=body
    )


def _tokens(item: Any) -> tuple[int | None, int | None]:
    if isinstance(item, str | tuple | list):
        return None, None
    tokens = whole(first(item, *_TOKENS))
    full = whole(first(item, *_TOKENS_FULL))
    return tokens, tokens if full is None else full


def _is_start(body: str | None, full: str | None) -> bool:
    return body is not None and full is not None and len(body) < len(full) and full.startswith(_start(body))


def _start(body: str) -> str:
    """A cut text without the ellipsis that marks the cut."""
    return body.rstrip(" .…")


def _fewer(tokens: int | None, full: int | None) -> bool:
    return tokens is not None and full is not None and tokens < full


def _dropped(value: Any) -> list[tuple[Chunk, str]]:
    """Dropped chunks of mappings and objects with a reason, of (chunk, reason), of bare chunks."""
    if isinstance(value, Mapping):
        value = list(value.items())
    found = []
    for item in value if isinstance(value, list | tuple | set) else ():
        reason = None
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str):
            item, reason = item
        elif not isinstance(item, str):
            reason = names(item, "reason", "why")
        found.append((read_chunk(item), reason or "unknown"))
    return found


def _in_prompt(prompt: str, known: Known) -> list[PackedChunk]:
    """The candidates whose whole text stands in the prompt, in prompt order."""
    places = []
    for candidate in known.by_id.values():
        at = prompt.find(candidate.text) if candidate.text and len(candidate.text) >= _SHORTEST else -1
        if at >= 0:
            places.append((at, candidate))
    places.sort(key=lambda place: place[0])
    return [
        PackedChunk(chunk_id=candidate.chunk_id, position=position, text=candidate.text)
        for position, (_, candidate) in enumerate(places, 1)
    ]
