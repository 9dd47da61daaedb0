"""Snapshots of what a stage returns or streams, taken at once and by reference where nothing can change it; reading it
can wait then.

Of mappings and objects of one shape msgspec takes the parts, in C: texts and numbers by reference, metadata as copies.
A list with anything else in it is read at once, so that what a host changes afterwards changes no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from inspect import getattr_static
from itertools import chain
from math import isfinite
from numbers import Number
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from ragtrace.record.coercion.chunks import (
    SHAPES,
    TEXTS,
    UNREAD,
    Chunks,
    is_listing,
    items_of,
    named_parts,
    plain_parts,
    read_chunk,
    read_chunks,
)
from ragtrace.record.coercion.dispatch import adapter_of, items_in, lists_itself
from ragtrace.record.coercion.values import Chunk, PlainChunks, number, plain, size as size_of, within
from ragtrace.record.guard import attempt, let_through

__all__ = ["Frozen", "SnapshotColumns", "StreamedChunks", "StreamedValues", "freeze", "freeze_known"]

S = TypeVar("S", bound=Sequence[Any])

_FIXED: Final[set[type]] = {str, int, float, bool, type(None)}  # what nothing can change; further numbers are added
_PLANS: Final = 512
_MOST: Final = 16  # keys of a mapping; one with more is read at once
_DEPTH: Final = 3  # of lists and mappings in metadata
_ROW: Final = 150  # bytes of an item without its text, roughly
_convert: Final = msgspec.convert
_plans: dict[Any, _Plan | None] = {}
_known: dict[Any, _Plan] = {}  # those of lists that are just their items
ITEM: Final = 200  # bytes of an item without its texts, roughly
_BASIC: Final = frozenset({str, int, float, bool, type(None)})  # what nothing can change


def _values(depth: int) -> Any:
    """The type of what can be taken."""
    fixed = str | int | float | bool | None
    return fixed | list[_values(depth - 1)] | dict[str, _values(depth - 1)] if depth else fixed  # type: ignore[misc]


_VALUE: Final = _values(_DEPTH)


class _Plan(NamedTuple):
    """How the items of one shape are taken."""

    names: tuple[str, ...]
    batches: tuple[Any, ...]  # types of lists of such items, the strictest first
    text: attrgetter[Any] | None  # takes the text
    size: int | None  # of the attributes of an object, which tells one with further ones
    kind: type | None  # all items are of this class
    is_plain: bool  # they are just an id, a text and a score


class SnapshotColumns(msgspec.Struct, frozen=True, gc=False):
    """Items of one shape, taken apart: `names` are the keys or attributes, a row has them as its fields.

    The garbage collector sees neither this nor, after a first look at the tuple, the rows.
    """

    names: tuple[str, ...]
    rows: tuple[Any, ...]
    weight: int
    is_plain: bool = False  # an id, a text and a score each, of these types

    def light(self, most: int) -> SnapshotColumns:
        """The first items, of no more than so many bytes together, and one at least."""
        rows, weight = _light(self.rows, map(msgspec.structs.astuple, self.rows), most)
        return SnapshotColumns(self.names, rows, weight, self.is_plain)

    @classmethod
    def of(cls, names: tuple[str, ...], columns: Sequence[Sequence[Any]]) -> SnapshotColumns:
        """The reverse of `columns`."""
        row = _row_of(len(names))
        return cls(names, tuple([row(*parts) for parts in zip(*columns, strict=True)]), 0)

    def columns(self) -> list[tuple[Any, ...]]:
        """The values of each part, item by item."""
        return list(zip(*map(msgspec.structs.astuple, self.rows), strict=True))

    def items(self) -> list[Any]:
        """The items as mappings, as they were."""
        return [dict(zip(self.names, msgspec.structs.astuple(row), strict=True)) for row in self.rows]

    def chunks(self) -> Chunks:
        """The chunks: of items that are just an id, a text and a score at once, of others as mappings."""
        plain = self.plain()
        return read_chunks(self.items()) if plain is None else Chunks(plain.chunks(), [])

    def plain(self) -> PlainChunks | None:
        """The chunks by columns, where each is just an id, a text and a score."""
        take = _plain_parts_of(self.names)
        if take is None or not self.rows:
            return None
        ids, texts, scores = zip(*map(take, self.rows), strict=True)
        if not self.is_plain:
            are_plain = {*map(type, ids)} == {*map(type, texts)} == {str} and {*map(type, scores)} == {float}
            if not are_plain:
                return None
        if not all(ids) or not all(map(isfinite, scores)):
            return None
        return PlainChunks(ids, texts, scores)


@lru_cache(maxsize=_PLANS)
def _row_of(parts: int) -> type[Any]:
    """Rows of so many parts."""
    return msgspec.defstruct("Row", [(f"part{place}", Any) for place in range(parts)], frozen=True, gc=False)


@lru_cache(maxsize=_PLANS)
def _plain_parts_of(names: tuple[str, ...]) -> attrgetter[tuple[Any, Any, Any]] | None:
    """Takes id, text and score of a row; None where rows have other parts."""
    places = plain_parts(names)
    return None if places is None else attrgetter(*(f"part{place}" for place in places))


class Frozen(NamedTuple):
    """Items that nothing can change: texts, and tuples of texts and numbers."""

    rows: Sequence[Any]
    weight: int

    def light(self, most: int) -> Frozen:
        """The first items, of no more than so many bytes together, and one at least."""
        return Frozen(*_light(self.rows, ((row,) if type(row) is str else row for row in self.rows), most))

    def items(self) -> Sequence[Any]:
        """The items."""
        return self.rows

    def chunks(self) -> Chunks:
        """The chunks."""
        return read_chunks(self.rows)


def _light(rows: S, parts: Iterable[tuple[Any, ...]], most: int) -> tuple[S, int]:
    """The first rows whose texts, by their parts, take no more than `most` bytes, and how many they take."""
    weight = 0
    for count, row in enumerate(parts):
        weight += _ROW + sum(map(size_of, row))
        if weight > most and count:
            return rows[:count], most  # type: ignore[return-value] # a slice is of the same kind
    return rows, weight


_FIELDS: Final = (MemberDescriptorType, type(_Plan.names))  # of slots, and of named tuples


def freeze(value: Sequence[Any], further: tuple[str, ...] = ()) -> SnapshotColumns | Frozen | None:
    """A list's or tuple's items as they are now; None when they must be read at once.

    Args:
        further: attributes to take beside those that every chunk may have; of mappings everything is taken.
    """
    if not value:
        return Frozen([], 0)
    first = value[0]
    kind = type(first)
    if kind is str or kind is tuple:
        return _frozen(value, kind)
    key = tuple(first) if kind is dict else (kind, further)
    try:
        plan = _plans[key]
    except KeyError:
        try:
            plan = _plan(first, further)
        except BaseException as error:  # it raises when it is looked at; the others may not
            let_through(error)
            return None
        if len(_plans) < _PLANS:
            _plans[key] = plan
            if plan is not None and lists_itself(first):
                _known[key] = plan
    return None if plan is None else _columns(value, plan)


def freeze_known(value: Any, further: tuple[str, ...] = ()) -> SnapshotColumns | None:
    """The same of a list whose items have a shape that was met before; None when it has to be looked at first."""
    if type(value) is not list or not value:
        return None
    first = value[0]
    kind = type(first)
    plan = _known.get(tuple(first) if kind is dict else (kind, further))
    return None if plan is None else _columns(value, plan)


def _frozen(value: Sequence[Any], kind: type) -> Frozen | None:
    if set(map(type, value)) != {kind}:
        return None
    if kind is str:
        return Frozen(list(value), sum(map(len, value)))
    if not _are_fixed(set(map(type, chain.from_iterable(value)))):
        return None
    return Frozen(list(value), sum(len(part) for part in chain.from_iterable(value) if type(part) is str))


def _columns(value: Sequence[Any], plan: _Plan) -> SnapshotColumns | None:
    names, batches, text, size, kind, is_plain = plan
    try:
        if kind is not None and set(map(type, value)) != {kind}:
            return None
        if size is not None and set(map(len, map(vars, value))) != {size}:
            return None
    except BaseException as error:  # it raises when it is looked at
        let_through(error)
        return None
    for batch in batches:
        try:
            rows = _convert({"rows": value}, batch, from_attributes=kind is not None).rows
            break
        except BaseException as error:  # of another shape, or one that raises when it is looked at
            let_through(error)
    else:
        return None
    # the first, as the host has it, for all
    held = size_of(msgspec.structs.astuple(rows[0])) if not is_plain or text is None else len(text(rows[0]) or "")
    return SnapshotColumns(names, rows, len(rows) * (_ROW + held), is_plain and batch is batches[0])


def _are_fixed(types: Set[type]) -> bool:
    """Whether values of these types can be kept by reference."""
    unknown = types - _FIXED
    if not unknown:
        return True
    if not all(issubclass(kind, Number) for kind in unknown) or len(_FIXED) > _PLANS:
        return False
    _FIXED.update(unknown)
    return True


def _plan(item: Any, further: tuple[str, ...]) -> _Plan | None:
    if type(item) is dict:
        names = tuple(item)
        if len(names) > _MOST or not all(type(name) is str for name in names) or not UNREAD.isdisjoint(names):
            return None
        return _made(names, None, None)
    found = named_parts(item)
    if found is None:
        return None
    names = (*found, *(name for name in further if not callable(getattr(item, name, print))))
    own = getattr(item, "__dict__", None)
    if not all(_is_there(type(item), own or {}, name) for name in names):
        return None  # whoever reads one by one can stop where that takes too long
    return _made(names, None if own is None else len(own), type(item))


def _is_there(kind: type, own: Mapping[str, Any], name: str) -> bool:
    """Whether an attribute is just there: in a slot or the object's own, and computed or loaded by nobody."""
    found = getattr_static(kind, name, None)
    return isinstance(found, _FIELDS) or (name in own and not hasattr(found, "__get__"))


def _made(names: tuple[str, ...], size: int | None, kind: type | None) -> _Plan:
    text = next((f"part{place}" for place, name in enumerate(names) if name in TEXTS), None)
    places = plain_parts(names)
    batches = [_batch(names, [_VALUE] * len(names))]
    if places is not None:  # most are so, and msgspec takes these in half the time
        types: list[Any] = [float] * len(names)
        types[places[0]] = types[places[1]] = str
        batches.insert(0, _batch(names, types))
    return _Plan(names, tuple(batches), None if text is None else attrgetter(text), size, kind, places is not None)


def _batch(names: Sequence[str], types: Sequence[Any]) -> Any:
    """The type of a list of items with parts of these types."""
    row = msgspec.defstruct(
        "Row",
        [(f"part{place}", kind) for place, kind in enumerate(types)],
        rename={f"part{place}": name for place, name in enumerate(names)},
        forbid_unknown_fields=True,
        frozen=True,
        gc=False,  # it holds values and copies, which refer to nothing
    )
    return msgspec.defstruct("Batch", [("rows", tuple[row, ...])])  # type: ignore[valid-type]


class StreamedChunks:
    """What a retriever or reranker found, one by one or in pages, one page after the other."""

    def __init__(self) -> None:
        self.items: list[Any] = []  # the host's own, by which later stages recognize them
        self.rows: list[Any] = []  # the same as they were when they passed
        self.weight = 0

    def add(self, part: Any) -> None:
        """One chunk, or a page of them."""
        for item in within(items_of_part(part)):
            row = _snapshot(item)
            self.items.append(item)
            self.rows.append(row)
            self.weight += weight_of(row)


class StreamedValues:
    """The items as they are, for a host's `returns` that says what to take of them; texts are joined to one."""

    def __init__(self, *, are_found: bool) -> None:
        self.weight = 0
        self._parts: list[Any] = []
        self._are_found = are_found

    def add(self, part: Any) -> None:
        """One item."""
        self._parts.append(part)
        self.weight += len(part) if type(part) is str else ITEM

    def value(self) -> Any:
        """What `returns` is given."""
        if self._parts and not self._are_found and all(isinstance(part, str) for part in self._parts):
            return "".join(self._parts)
        return self._parts


def items_of_part(part: Any) -> Iterable[Any]:
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
        found = (part,) if attempt(read_chunk, part, None) is not None else attempt(items_of, part, None)
    return (part,) if found is None else found


def _snapshot(item: Any) -> Any:
    """An item as it is now, by what it is made of; what cannot be read is left as it is, to be counted."""
    kind = type(item)
    if kind is str:
        return item
    if kind is tuple or kind is list:
        return kind(map(_part, item))
    if kind is dict:
        if _BASIC.issuperset(map(type, item.values())):
            return item.copy()
        taken = freeze([item])
        return taken.items()[0] if taken is not None else {key: _part(part) for key, part in item.items()}
    if adapter_of(kind).listed is not None:  # it says more among others of its kind
        return item
    return attempt(read_chunk, item, item)


def _part(value: Any) -> Any:
    """A part of an item: a wrapped document as its chunk, metadata as a copy."""
    if value is None or isinstance(value, str) or number(value) is not None:
        return value
    return plain(value) if isinstance(value, Mapping | list | tuple | set | frozenset | bool) else _snapshot(value)


def weight_of(row: Any) -> int:
    kind = type(row)
    if kind is str:
        return len(row)
    if kind is dict or kind is tuple or kind is list:
        parts = row.values() if kind is dict else row
        return ITEM + sum([len(part) for part in parts if type(part) is str])
    return ITEM + (len(row.text or "") if isinstance(row, Chunk) else 0)
