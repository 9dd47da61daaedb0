"""Takes what a stage streams, part by part as it passes: an answer is joined, chunks are taken as they are then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ragtrace.record.adapters import adapter_of, items_in
from ragtrace.record.adapters.several import is_listing
from ragtrace.record.coercion.allowance import within
from ragtrace.record.coercion.answers import is_chat, read_prompt
from ragtrace.record.coercion.chunks import Chunk, read_chunk
from ragtrace.record.coercion.items import items_of
from ragtrace.record.coercion.packing import Taken, merged, take_packing
from ragtrace.record.coercion.shapes import SHAPES
from ragtrace.record.coercion.snapshots import freeze
from ragtrace.record.coercion.values import number, plain, text
from ragtrace.record.faults import let_through

__all__ = ["StreamedChunks", "StreamedPacking", "StreamedValues"]

_ITEM: Final = 200  # bytes of an item without its texts, roughly
_FIXED: Final = frozenset({str, int, float, bool, type(None)})  # what nothing can change


class StreamedChunks:
    """What a retriever or reranker found, one by one or in pages, one page after the other."""

    def __init__(self) -> None:
        self.items: list[Any] = []  # the host's own, by which later stages recognize them
        self.rows: list[Any] = []  # the same as they were when they passed
        self.weight = 0

    def add(self, part: Any) -> None:
        """One chunk, or a page of them."""
        for item in within(_listed(part)):
            row = _snapshot(item)
            self.items.append(item)
            self.rows.append(row)
            self.weight += _weight(row)


class StreamedPacking:
    """What a packer streamed: its prompt in pieces, messages, or chunks."""

    def __init__(self) -> None:
        self.weight = 0
        self._texts: list[str] = []
        self._messages: list[str] = []
        self._taken: list[Taken] = []

    def add(self, part: Any) -> None:
        """A piece of the prompt, a message, a chunk, or a page of chunks."""
        if (piece := text(part)) is not None:
            self._texts.append(piece)
            self.weight += len(piece)
        elif is_chat([part]):
            self._messages.append(read_prompt([part]) or "")
            self.weight += len(self._messages[-1])
        else:
            for item in within(_listed(part)):
                self._taken.append(_packed(item))
                self.weight += _ITEM + _weight(item)

    def taken(self) -> Taken:
        """All of it as one packing. Raises: Unreadable when nothing passed."""
        prompt = "".join(self._texts) or "\n\n".join(filter(None, self._messages))
        if not self._taken:
            return take_packing(prompt)
        return merged(self._taken, prompt or None)


class StreamedValues:
    """The items as they are, for a host's `returns` that says what to take of them; texts are joined to one."""

    def __init__(self, *, are_found: bool) -> None:
        self.weight = 0
        self._parts: list[Any] = []
        self._are_found = are_found

    def add(self, part: Any) -> None:
        """One item."""
        self._parts.append(part)
        self.weight += len(part) if type(part) is str else _ITEM

    def value(self) -> Any:
        """What `returns` is given."""
        if self._parts and not self._are_found and all(isinstance(part, str) for part in self._parts):
            return "".join(self._parts)
        return self._parts


def _listed(part: Any) -> Iterable[Any]:
    """The chunks of one part of a stream: itself, or those of a page."""
    if type(part) is list:
        if not is_listing(part):
            return (part,)
        found = items_in(part)
        return part if found is None else found
    if type(part) is dict and (shape := SHAPES.get(tuple(part))) is not None and shape.ids and shape.texts:
        return (part,)
    if isinstance(part, str) or (type(part) is tuple and part and type(part[0]) is tuple):
        return (part,)
    found = items_in(part)
    if found is None and type(part) is not tuple:
        try:
            read_chunk(part)
        except BaseException as error:
            let_through(error)
            found = _items(part)
    return (part,) if found is None else found


def _items(part: Any) -> Iterable[Any] | None:
    try:
        return items_of(part)
    except BaseException as error:
        let_through(error)
        return None


def _snapshot(item: Any) -> Any:
    """An item as it is now, by what it is made of; what cannot be read is left as it is, to be counted."""
    kind = type(item)
    if kind is str:
        return item
    if kind is tuple or kind is list:
        return kind(map(_part, item))
    if kind is dict:
        if _FIXED.issuperset(map(type, item.values())):
            return item.copy()
        taken = freeze([item])
        return taken.items()[0] if taken is not None else {key: _part(part) for key, part in item.items()}
    if adapter_of(kind).listed is not None:  # it says more among others of its kind
        return item
    try:
        return read_chunk(item)
    except BaseException as error:
        let_through(error)
        return item


def _part(value: Any) -> Any:
    """A part of an item: a wrapped document as its chunk, metadata as a copy."""
    if value is None or isinstance(value, str) or number(value) is not None:
        return value
    return plain(value) if isinstance(value, Mapping | list | tuple | set | frozenset | bool) else _snapshot(value)


def _packed(item: Any) -> Taken:
    taken = take_packing([item])
    if taken.unread:
        try:
            return take_packing(item)
        except BaseException as error:
            let_through(error)
            return taken
    return taken


def _weight(row: Any) -> int:
    kind = type(row)
    if kind is str:
        return len(row)
    if kind is dict or kind is tuple or kind is list:
        parts = row.values() if kind is dict else row
        return _ITEM + sum([len(part) for part in parts if type(part) is str])
    return _ITEM + (len(row.text or "") if isinstance(row, Chunk) else 0)
