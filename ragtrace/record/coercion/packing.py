"""Reads what a packer returned: the chunks that reached the prompt, in its order, and those that did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ragtrace.record.adapters.tuples import lists_of_chunks, rows_in
from ragtrace.record.coercion.allowance import cut, within
from ragtrace.record.coercion.answers import is_chat, read_prompt
from ragtrace.record.coercion.chunks import Chunk, read_chunk
from ragtrace.record.coercion.dropping import UNKNOWN, left_out
from ragtrace.record.coercion.items import items_of
from ragtrace.record.coercion.known import Known, Part, part_of
from ragtrace.record.coercion.matching import SHORTEST
from ragtrace.record.coercion.snapshots import Columns, Frozen, freeze, freeze_known
from ragtrace.record.coercion.templates import as_given
from ragtrace.record.coercion.values import Unreadable, first, names, text, whole
from ragtrace.record.faults import let_through
from ragtrace.types import Candidate, PackedChunk, Packing

__all__ = ["Packed", "Taken", "merged", "placed", "read_packing", "take_packing"]

_CHUNKS: Final = ("chunks", "packed", "selected", "kept", "context")
_DROPPED: Final = ("dropped", "removed", "skipped")
_PROMPTS: Final = ("prompt", "prompt_text", "text", "messages")
_BUDGETS: Final = ("budget_tokens", "budget", "max_tokens")
_TOKENS: Final = ("tokens", "n_tokens", "token_count")
_TOKENS_FULL: Final = ("tokens_full", "full_tokens")
_FLAGS: Final = ("truncated", "is_truncated")
_FURTHER: Final = (*_TOKENS, *_TOKENS_FULL, *_FLAGS)
_FURTHER_NAMES: Final = frozenset(_FURTHER)


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


def read_packing(
    value: Any, known: Known, inputs: Iterable[str], budget: int | None, questions: Sequence[str | None] = ()
) -> Packed:
    """What was packed out of `inputs` (chunk ids). Raises: Unreadable when no chunks and no prompt are found."""
    return placed(take_packing(value), known, inputs, budget, questions)


def take_packing(value: Any) -> Taken:
    """A packer's value as it is now. Raises: Unreadable when no chunks and no prompt are found."""
    value = cut(value)
    if (columns := freeze_known(value, _FURTHER)) is not None:
        return Taken(columns, [], [], None, None)
    chunks, dropped, prompt, stated = _parts(value)
    unread: list[str] = []
    taken: Columns | Frozen | list[_Item] | None = None
    if chunks is not None:
        chunks = cut(chunks)
        is_listed = type(chunks) is list or isinstance(chunks, list | tuple)
        taken = freeze(chunks, _FURTHER) if is_listed else None
        taken = _items(chunks, unread) if taken is None else taken
    return Taken(taken, unread, [] if dropped is None else _dropped(dropped, unread), prompt, stated)


def merged(packings: Iterable[Taken], prompt: str | None) -> Taken:
    """What several values together hold, one after the other."""
    items: list[_Item] = []
    unread: list[str] = []
    dropped: list[tuple[Chunk, str]] = []
    stated: int | None = None
    for taken in packings:
        items += _thawed(taken.chunks, unread) or ()
        unread += taken.unread
        dropped += taken.dropped
        prompt = prompt or taken.prompt
        stated = taken.stated if stated is None else stated
    return Taken(items, unread, dropped, prompt, stated)


def placed(
    taken: Taken, known: Known, inputs: Iterable[str], budget: int | None, questions: Sequence[str | None] = ()
) -> Packed:
    """The packing of what was taken, among the candidates that are known; `questions` are what a prompt asks."""
    unread = list(taken.unread)
    items = _thawed(taken.chunks, unread)
    inputs = list(inputs)
    packed = _in_prompt(taken.prompt or "", known, inputs, questions) if items is None else _listed(items, known)
    if items is not None and taken.prompt is not None:
        packed = as_given(taken.prompt, packed, questions)
    stated = {known.identify(chunk): reason for chunk, reason in taken.dropped}
    budget = taken.stated if budget is None else budget
    readable = None if items is not None and not unread else _readable(inputs, known, bool(unread))
    dropped = left_out(inputs, packed, stated, known, budget=budget, readable=readable)
    return Packed(Packing(chunks=tuple(packed), dropped=dropped, budget_tokens=budget), taken.prompt, unread)


def _readable(inputs: Iterable[str], known: Known, unread: bool) -> dict[str, bool]:
    """Whether each input would have been recognized; none where something that was packed could not be read."""
    return {name: not unread and len(known.text(name) or "") >= SHORTEST for name in inputs}


def _parts(value: Any) -> tuple[Iterable[Any] | None, Any, str | None, int | None]:
    """Chunks, dropped chunks, prompt and budget."""
    if isinstance(value, str):
        return None, None, text(value), None
    if type(value) is tuple:
        prompts = [part for part in value if isinstance(part, str)]
        lists = [part for part in value if isinstance(part, list | tuple)]
        if len(prompts) == len(lists) == 1:
            return lists[0], None, text(prompts[0]), None
        if len(lists_of_chunks(value)) > 1 and rows_in(value) is None:  # which of them was packed?
            if not prompts:
                raise Unreadable(value)
            return None, None, text(prompts[0]), None
    if isinstance(value, list | tuple):
        return (None, None, read_prompt(value), None) if is_chat(value) else (items_of(value), None, None, None)
    chunks, prompt = first(value, *_CHUNKS), read_prompt(first(value, *_PROMPTS))
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
    for item in within(chunks):
        try:
            chunk = read_chunk(item)
            flag = None if isinstance(item, str) else first(item, *_FLAGS)
            items.append(_Item(chunk, *_tokens(item), None if flag is None else bool(flag)))
        except BaseException as error:  # one that raises when it is looked at is no reason to lose the others
            let_through(error)
            unread.append(type(item).__name__)
    return items


def _listed(items: Iterable[_Item], known: Known) -> list[PackedChunk]:
    return [_packed(item, known, position) for position, item in enumerate(items, 1)]


def _packed(item: _Item, known: Known, position: int) -> PackedChunk:
    chunk, tokens, tokens_full, flag = item
    chunk_id = known.identify(chunk)
    candidate = known.by_id.get(chunk_id)
    if candidate is None and chunk.chunk_id is None and chunk.text:
        candidate = _best(known.located(chunk.text))
        chunk_id = chunk_id if candidate is None else candidate.chunk_id
    full = candidate.text if candidate is not None else None
    is_same = chunk.text is full or chunk.text is None or full is None
    part = None if is_same else part_of(chunk.text or "", full or "")
    cut = part is not None and part.truncated
    truncated = flag if flag is not None else cut or _fewer(tokens, tokens_full)
    body = chunk.text if chunk.text is not None or truncated else full
    return PackedChunk(
        chunk_id=chunk_id,
        position=position,
        tokens=tokens,
        tokens_full=tokens_full,
        truncated=truncated,
        text=body,
        given_start=part.start if part is not None and cut else None,
        given_end=part.end if part is not None and cut else None,
    )


def _best(found: list[tuple[Candidate, Part, str]]) -> Candidate | None:
    """Of the candidates that stand in an item's text, the one that takes most of it."""
    return max(found, key=lambda each: len(each[2]))[0] if found else None


def _tokens(item: Any) -> tuple[int | None, int | None]:
    if isinstance(item, str | tuple | list):
        return None, None
    tokens = whole(first(item, *_TOKENS))
    full = whole(first(item, *_TOKENS_FULL))
    return tokens, tokens if full is None else full


def _fewer(tokens: int | None, full: int | None) -> bool:
    return tokens is not None and full is not None and tokens < full


def _dropped(value: Any, unread: list[str]) -> list[tuple[Chunk, str]]:
    """Dropped chunks of mappings and objects with a reason, of (chunk, reason), of bare chunks."""
    if isinstance(value, Mapping):
        value = list(within(value.items()))
    found = []
    for item in within(value) if isinstance(value, list | tuple | set) else ():
        try:
            found.append(_dropped_chunk(item))
        except BaseException as error:
            let_through(error)
            unread.append(type(item).__name__)
    return found


def _dropped_chunk(item: Any) -> tuple[Chunk, str]:
    reason = None
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str):
        item, reason = item
    elif not isinstance(item, str):
        reason = names(item, "reason", "why")
    return read_chunk(item), reason or UNKNOWN


def _in_prompt(prompt: str, known: Known, inputs: Iterable[str], questions: Sequence[str | None]) -> list[PackedChunk]:
    """The candidates that stand in the prompt, whole or in part, in prompt order."""
    return [
        PackedChunk(
            chunk_id=candidate.chunk_id,
            position=position,
            truncated=part.truncated,
            text=text,
            given_start=part.start if _is_part(part, candidate) else None,
            given_end=part.end if _is_part(part, candidate) else None,
        )
        for position, (candidate, part, text) in enumerate(known.located(prompt, inputs, questions), 1)
    ]


def _is_part(part: Part, candidate: Candidate) -> bool:
    full = candidate.text or ""
    return part.truncated or bool(full[: part.start].strip() or full[part.end :].strip())
