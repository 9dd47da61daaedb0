"""The dispatch of a value to the adapter of its type: one of `ragtrace.record.adapters`, found by the type's name and
never by importing the library.

A type is looked up once, over its bases: first among the entry points of the group `ragtrace.adapters`, then in the
table below. What no adapter knows is read by its attributes and entries, as any object is.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ragtrace.record.coercion.values import Chunk, Unreadable
from ragtrace.record.guard import let_through

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "Adapter", "adapter_of", "items_in", "lists_itself", "read_adapted"]

T = TypeVar("T")

GROUP: Final = "ragtrace.adapters"
_ADAPTERS: Final = "ragtrace.record.adapters"
_LOG: Final = logging.getLogger("ragtrace")
_TYPES: Final = 1024  # further types are looked up each time
_BUILT_IN: Final[Mapping[str, str]] = {
    "builtins.dict": "DICT",
    "builtins.list": "LIST",
    "builtins.tuple": "TUPLE",
    "ragtrace.record.coercion.values.Chunk": "CHUNK",
    "chromadb.api.types.SearchResult": "CHROMA_RESULT",
    "haystack.dataclasses.document.Document": "HAYSTACK_DOCUMENT",
    "langchain_core.documents.base.Document": "LANGCHAIN_DOCUMENT",
    "llama_index.core.schema.BaseNode": "LLAMA_INDEX_NODE",
    "llama_index.core.schema.NodeWithScore": "LLAMA_INDEX_SCORED",
    "llama_index.core.vector_stores.types.VectorStoreQueryResult": "LLAMA_INDEX_RESULT",
    "qdrant_client.http.models.models.GroupsResult": "QDRANT_GROUPS",
    "qdrant_client.http.models.models.QueryResponse": "QDRANT_RESPONSE",
    "qdrant_client.http.models.models.Record": "QDRANT_POINT",
    "qdrant_client.http.models.models.ScoredPoint": "QDRANT_POINT",
    "sqlalchemy.engine.row.Row": "SQLALCHEMY_ROW",
    "sqlalchemy.engine.row.RowMapping": "SQLALCHEMY_MAPPING",
    "sqlalchemy.orm.decl_api.Base": "SQLALCHEMY_ENTITY",
    "sqlalchemy.orm.decl_api.DeclarativeBase": "SQLALCHEMY_ENTITY",
    "sqlalchemy.orm.decl_api.DeclarativeBaseNoMeta": "SQLALCHEMY_ENTITY",
    "sqlmodel.main.SQLModel": "SQLALCHEMY_ENTITY",
}
_adapters: dict[type, Adapter] = {}


class Adapter(NamedTuple):
    """What is known of one type; each part may be missing, and may give None for what it does not know.

    chunk: reads one item of this type.
    items: the items in a value of this type.
    listed: the items of a list that begins with an item of this type, where they are not just its own items.
    marks: keys of which one stands in the first item wherever `listed` has something to say; None: it must be asked.
    """

    chunk: Callable[[Any], Chunk | None] | None = None
    items: Callable[[Any], Iterable[Any] | None] | None = None
    listed: Callable[[list[Any]], Iterable[Any] | None] | None = None
    marks: frozenset[str] | None = None


_UNKNOWN: Final = Adapter()


def read_adapted(item: Any, kind: type) -> Chunk | None:
    """The chunk in an item of a type that an adapter knows; None for all else. Raises: Unreadable."""
    adapter = _adapters.get(kind)
    read = (adapter_of(kind) if adapter is None else adapter).chunk
    return None if read is None else read(item)


def items_in(value: Any) -> Iterable[Any] | None:
    """The items in a value of a type that an adapter knows; None for all else. Raises: Unreadable."""
    if type(value) is list:
        listed = adapter_of(type(value[0])).listed if value else None
        return None if listed is None else listed(value)
    items = adapter_of(type(value)).items
    return None if items is None else items(value)


def lists_itself(first: Any) -> bool:
    """Whether any list that begins with such an item (of its type; of a mapping, with its keys) is just its items."""
    adapter = adapter_of(type(first))
    return adapter.listed is None or (adapter.marks is not None and adapter.marks.isdisjoint(first))


def adapter_of(kind: type) -> Adapter:
    """The adapter of a type or of the nearest of its bases; an empty one where there is none."""
    found = _adapters.get(kind)
    if found is None:
        found = _decide(kind)
        if len(_adapters) < _TYPES:
            _adapters[kind] = found
    return found


def _decide(kind: type) -> Adapter:
    others = _others()
    for base in kind.__mro__:
        name = f"{base.__module__}.{base.__qualname__}"
        if base.__module__ == "builtins" and base is not kind:  # a named tuple or a host's own list is none of these
            continue
        if name in others and (adapter := _loaded(others[name])) is not None:
            return _guarded(adapter, name)
        if name in _BUILT_IN:
            return _guarded(getattr(import_module(_ADAPTERS), _BUILT_IN[name]), name)
    return _UNKNOWN


@cache
def _others() -> Mapping[str, EntryPoint]:
    """The entry points by the qualified name of the type that each one reads."""
    from importlib.metadata import entry_points  # loaded late: `import ragtrace` is light

    return {point.name: point for point in entry_points(group=GROUP)}


def _loaded(point: EntryPoint) -> Adapter | None:
    """An `Adapter`, or a function that reads one item."""
    try:
        found = point.load()
    except BaseException as error:
        let_through(error)
        _LOG.exception("the adapter %s of %s cannot be loaded", point.value, point.name)
        return None
    return found if isinstance(found, Adapter) else Adapter(chunk=found)


def _guarded(adapter: Adapter, name: str) -> Adapter:
    """The same adapter; where it fails, that is logged once, and the value is read as if there were none."""
    chunk, items, listed, marks = adapter
    return Adapter(
        None if chunk is None else _safe(chunk, name),
        None if items is None else _safe(items, name),
        None if listed is None else _safe(listed, name),
        marks,
    )


def _safe(part: Callable[[Any], T | None], name: str) -> Callable[[Any], T | None]:
    failed = False

    def call(value: Any) -> T | None:
        nonlocal failed
        try:
            return part(value)
        except Unreadable:
            raise
        except BaseException as error:
            let_through(error)
            if not failed:
                failed = True  # without its message, which may quote content
                about = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
                _LOG.error("the adapter of %s fails; its values are read as any other object\n%s", name, about)
            return None

    return call
