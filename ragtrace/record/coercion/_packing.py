"""Packing: the chunks that reached the prompt, in its order, and those that did not, and why: by the host's word, else
by what the packing itself shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from ragtrace.record.coercion._answers import is_chat, read_prompt
from ragtrace.record.coercion._passages import SHORTEST, exact_passages
from ragtrace.record.coercion._snapshots import (
    ITEM,
    Frozen,
    SnapshotColumns,
    freeze,
    freeze_known,
    items_of_part,
    weight_of,
)
from ragtrace.record.coercion.chunks import items_of, lists_of_chunks, read_chunk, rows_in
from ragtrace.record.coercion.recognition import Excerpt, Known, as_given, excerpt_of
from ragtrace.record.coercion.values import Chunk, Unreadable, cut, first, names, text, whole, within
from ragtrace.record.guard import attempt
from ragtrace.types import Candidate, DroppedChunk, PackedChunk, Packing

__all__ = [
    "PackerResult",
    "StreamedPacking",
    "TakenPacking",
    "placed",
    "read_packing",
    "take_known_packing",
    "take_packing",
]

_CHUNKS: Final = ("chunks", "packed", "selected", "kept", "context")
_DROPPED: Final = ("dropped", "removed", "skipped")
_PROMPTS: Final = ("prompt", "prompt_text", "text", "messages")
_BUDGETS: Final = ("budget_tokens", "budget", "max_tokens")
_TOKENS: Final = ("tokens", "n_tokens", "token_count")
_TOKENS_FULL: Final = ("tokens_full", "full_tokens")
_FLAGS: Final = ("truncated", "is_truncated")
_FURTHER: Final = (*_TOKENS, *_TOKENS_FULL, *_FLAGS)
_FURTHER_NAMES: Final = frozenset(_FURTHER)
_UNKNOWN: Final = "unknown"
_DUPLICATE: Final = "duplicate"
_KEY: Final = 24  # characters of a text's beginning by which a possible duplicate is noticed


class PackerResult(NamedTuple):
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


class TakenPacking(NamedTuple):
    """What a packer returned, taken at once: its chunks (None: they are to be found in the prompt) and the rest."""

    chunks: SnapshotColumns | Frozen | list[_Item] | None
    unread: Sequence[str]
    dropped: Sequence[tuple[Chunk, str]]
    prompt: str | None
    stated: int | None

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but chunks of an id, a text and a score, all of which can be read."""
        chunks = self.chunks
        is_more = self.unread or self.dropped or self.prompt is not None
        return not is_more and isinstance(chunks, SnapshotColumns) and chunks.plain() is not None

    @staticmethod
    def of_items(read: Iterable[tuple[Chunk, int | None, int | None, bool | None]]) -> list[_Item]:
        """`chunks` of items that were read at once."""
        return [_Item(*each) for each in read]


class StreamedPacking:
    """What a packer streamed: its prompt in pieces, messages, or chunks."""

    def __init__(self) -> None:
        self.weight = 0
        self._texts: list[str] = []
        self._messages: list[str] = []
        self._taken: list[TakenPacking] = []

    def add(self, part: Any) -> None:
        """A piece of the prompt, a message, a chunk, or a page of chunks."""
        if (piece := text(part)) is not None:
            self._texts.append(piece)
            self.weight += len(piece)
        elif is_chat([part]):
            self._messages.append(read_prompt([part]) or "")
            self.weight += len(self._messages[-1])
        else:
            for item in within(items_of_part(part)):
                self._taken.append(_packing_of(item))
                self.weight += ITEM + weight_of(item)

    def taken(self) -> TakenPacking:
        """All of it as one packing. Raises: Unreadable when nothing passed."""
        prompt = "".join(self._texts) or "\n\n".join(filter(None, self._messages))
        if not self._taken:
            return take_packing(prompt)
        return _merged(self._taken, prompt or None)


def read_packing(
    value: Any, known: Known, inputs: Iterable[str], budget: int | None, questions: Sequence[str | None] = ()
) -> PackerResult:
    """What was packed out of `inputs` (chunk ids). Raises: Unreadable when no chunks and no prompt are found."""
    return placed(take_packing(value), known, inputs, budget, questions)


def take_known_packing(value: Any) -> TakenPacking | None:
    """A packer's value where it is a list of items of a shape that was met before; None for all else."""
    columns = freeze_known(value, _FURTHER)
    return None if columns is None else TakenPacking(columns, (), (), None, None)


def take_packing(value: Any) -> TakenPacking:
    """A packer's value as it is now. Raises: Unreadable when no chunks and no prompt are found."""
    value = cut(value)
    if (known := take_known_packing(value)) is not None:
        return known
    chunks, dropped, prompt, stated = _parts(value)
    unread: list[str] = []
    taken: SnapshotColumns | Frozen | list[_Item] | None = None
    if chunks is not None:
        chunks = cut(chunks)
        is_listed = type(chunks) is list or isinstance(chunks, list | tuple)
        taken = freeze(chunks, _FURTHER) if is_listed else None
        taken = _items(chunks, unread) if taken is None else taken
    return TakenPacking(taken, unread, [] if dropped is None else _dropped(dropped, unread), prompt, stated)


def placed(
    taken: TakenPacking, known: Known, inputs: Iterable[str], budget: int | None, questions: Sequence[str | None] = ()
) -> PackerResult:
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
    dropped = _left_out(inputs, packed, stated, known, budget=budget, readable=readable)
    return PackerResult(Packing(chunks=tuple(packed), dropped=dropped, budget_tokens=budget), taken.prompt, unread)


def _merged(packings: Iterable[TakenPacking], prompt: str | None) -> TakenPacking:
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
    return TakenPacking(items, unread, dropped, prompt, stated)


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


def _thawed(chunks: SnapshotColumns | Frozen | list[_Item] | None, unread: list[str]) -> list[_Item] | None:
    if chunks is None or isinstance(chunks, list):
        return chunks
    if isinstance(chunks, SnapshotColumns) and not _FURTHER_NAMES.isdisjoint(chunks.names):
        return _items(chunks.items(), unread)
    found = chunks.chunks()
    unread += found.unread
    return [_Item(chunk) for _, chunk in found.ranked]


def _items(chunks: Iterable[Any], unread: list[str]) -> list[_Item]:
    items: list[_Item] = []
    for item in within(chunks):
        taken = attempt(_item, item, None)
        if taken is None:  # one that raises when it is looked at is no reason to lose the others
            unread.append(type(item).__name__)
        else:
            items.append(taken)
    return items


def _item(item: Any) -> _Item:
    chunk = read_chunk(item)
    flag = None if isinstance(item, str) else first(item, *_FLAGS)
    return _Item(chunk, *_tokens(item), None if flag is None else bool(flag))


def _listed(items: Iterable[_Item], known: Known) -> list[PackedChunk]:
    return [_packed(item, known, position) for position, item in enumerate(items, 1)]


def _packed(item: _Item, known: Known, position: int) -> PackedChunk:
    chunk, tokens, tokens_full, flag = item
    chunk_id = known.identify(chunk)
    candidate = known.get(chunk_id)
    if candidate is not None and chunk.text is candidate.text and tokens is tokens_full is flag is None:
        digest = candidate.content_hash
        return PackedChunk(chunk_id=chunk_id, position=position, content_hash=digest, text=chunk.text)
    if candidate is None and chunk.chunk_id is None and chunk.text:
        candidate = _best(known.located(chunk.text))
        chunk_id = chunk_id if candidate is None else candidate.chunk_id
    full = candidate.text if candidate is not None else None
    is_same = chunk.text is full or chunk.text is None or full is None
    part = None if is_same else excerpt_of(chunk.text or "", full or "")
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


def _best(found: list[tuple[Candidate, Excerpt, str]]) -> Candidate | None:
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
        dropped = attempt(_dropped_chunk, item, None)
        if dropped is None:
            unread.append(type(item).__name__)
        else:
            found.append(dropped)
    return found


def _dropped_chunk(item: Any) -> tuple[Chunk, str]:
    reason = None
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str):
        item, reason = item
    elif not isinstance(item, str):
        reason = names(item, "reason", "why")
    return read_chunk(item), reason or _UNKNOWN


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


def _is_part(part: Excerpt, candidate: Candidate) -> bool:
    full = candidate.text or ""
    return part.truncated or bool(full[: part.start].strip() or full[part.end :].strip())


def _packing_of(item: Any) -> TakenPacking:
    taken = take_packing([item])
    return attempt(take_packing, item, taken) if taken.unread else taken


def _left_out(
    inputs: Iterable[str],
    packed: Sequence[PackedChunk],
    stated: Mapping[str, str],
    known: Known,
    *,
    budget: int | None,
    readable: Mapping[str, bool] | None = None,
) -> tuple[DroppedChunk, ...]:
    """The chunks that did not reach the prompt; those that the host names come first.

    A reason that the host states is kept. Any other is inferred, and marked so, by the first rule that applies:

    - `duplicate`: the text, white space apart, is that of a packed chunk, or stands within one;
    - `filter`: left out although a chunk that came later among the inputs was packed;
    - `budget`: it came behind all packed ones, which are the beginning of the inputs, duplicates apart (the packer
      stopped there), and a token budget is known, a packed chunk was cut, or the host says `budget` of another one;
    - `limit`: the same without any of these;
    - `unknown`, which infers nothing: all else, and whatever is not certain to have been left out.

    Args:
        inputs: ids of what the packer was given, best first.
        stated: reasons by id, of the chunks that the host names.
        readable: where packed chunks were searched for in a prompt, whether each input could have been found there;
            None: what was packed is known. An input that could not be found may have been packed.
    """
    there = {chunk.chunk_id for chunk in packed}
    order = list(dict.fromkeys(inputs))
    open_ids = [name for name in order if name not in there and stated.get(name, _UNKNOWN) == _UNKNOWN]
    reasons = _Reasons(packed, known).of(order, open_ids, there, stated, budget, readable) if open_ids else {}
    named = [*stated, *(name for name in order if name not in there and name not in stated)]
    return tuple(
        DroppedChunk(chunk_id=name, reason=reasons[name], inferred=True)
        if name in reasons
        else DroppedChunk(chunk_id=name, reason=stated.get(name, _UNKNOWN))
        for name in named
        if name not in there
    )


class _Reasons:
    """What a packing shows about the chunks that are not in it."""

    def __init__(self, packed: Sequence[PackedChunk], known: Known) -> None:
        self._packed = packed
        self._known = known

    def of(
        self,
        order: Sequence[str],
        open_ids: Sequence[str],
        there: set[str],
        stated: Mapping[str, str],
        budget: int | None,
        readable: Mapping[str, bool] | None,
    ) -> dict[str, str]:
        """The inferred reasons by id."""
        reasons = dict.fromkeys(self._duplicates(open_ids), _DUPLICATE)
        unsure = set[str]()
        if readable is not None:
            unsure = {name for name in order if not readable.get(name) and name not in stated}
        rest = [name for name in open_ids if name not in reasons and name not in unsure]
        place = {name: at for at, name in enumerate(order)}
        last = max((place[name] for name in there if name in place), default=-1)
        if last < 0:
            return reasons
        passed = there | unsure | {name for name in order if reasons.get(name, stated.get(name)) == _DUPLICATE}
        beginning = passed.issuperset(order[:last])
        is_cut = budget is not None or "budget" in stated.values() or any(chunk.truncated for chunk in self._packed)
        for name in rest:
            if place[name] < last:
                reasons[name] = "filter"
            elif beginning:
                reasons[name] = "budget" if is_cut else "limit"
        return reasons

    @cached_property
    def _bodies(self) -> list[str]:
        """What the packed chunks say: as they were given, and in full."""
        texts = [text for chunk in self._packed for text in (chunk.text, self._known.text(chunk.chunk_id)) if text]
        return list(dict.fromkeys(texts))

    @cached_property
    def _spaced(self) -> set[str]:
        return {_spaced(body) for body in self._bodies}

    @cached_property
    def _given(self) -> str:
        return "\0".join(_spaced(chunk.text) for chunk in self._packed if chunk.text)

    def _duplicates(self, open_ids: Iterable[str]) -> Iterator[str]:
        longest = max((len(chunk.text) for chunk in self._packed if chunk.text), default=0)
        beginnings = {_beginning(body) for body in self._bodies}
        for name in open_ids:
            text = self._known.text(name)
            if not text or (len(text) >= longest and _beginning(text) not in beginnings):
                continue
            spaced = _spaced(text)
            if spaced in self._spaced or (spaced and exact_passages(self._given, spaced, 0)):
                yield name


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _beginning(text: str) -> str:
    """The first characters, white space apart: texts that differ in them are no duplicates of each other."""
    return _squeezed(text[:_KEY])


@lru_cache(maxsize=8192)
def _squeezed(start: str) -> str:
    return "".join(start.split())[: _KEY // 2]
