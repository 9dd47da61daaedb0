"""Reads SQLAlchemy's rows and mapped objects, as pgvector's queries return them.

Only what is loaded is read: an attribute that has expired would ask the database, in the host's session. All of
pgvector's operators are distances, so the number without a label beside a mapped object is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, Final

from ragtrace.record.coercion.chunks import read_chunk
from ragtrace.record.coercion.dispatch import Adapter
from ragtrace.record.coercion.rows import is_distance_name
from ragtrace.record.coercion.values import Chunk, Unreadable, number

__all__ = ["ENTITY", "MAPPING", "ROW"]

_STATE: Final = "_sa_instance_state"
_IDS: Final = ("chunk_id", "id", "_id", "id_", "node_id")
_UNLABELED: Final = ("_no_label", "anon_", "?column?")
_METADATA: Final = ("metadata_", "cmetadata", "meta_")  # `metadata` is taken in a mapped class


def _row(row: Any) -> Chunk:
    return _read(row, zip(row._fields, row, strict=True))


def _mapping(mapping: Mapping[Any, Any]) -> Chunk:
    return _read(mapping, ((str(key), value) for key, value in mapping.items()))


def _entity(entity: Any) -> Chunk:
    return _chunk(entity, _loaded(entity))


def _read(item: Any, fields: Iterable[tuple[str, Any]]) -> Chunk:
    """One row: its columns, those of its objects (the first one's before the next one's), and its distance."""
    columns: dict[str, Any] = {}
    joined: dict[str, Any] = {}
    for name, value in fields:
        if _is_mapped(value):
            joined = {**_loaded(value), **joined}
        elif _is_distance(name, value):
            columns.setdefault("distance", value)
        else:
            columns[_named(name)] = value
    return _chunk(item, {**joined, **columns})


def _is_distance(name: str, value: Any) -> bool:
    return is_distance_name(name) or (
        name.startswith(_UNLABELED) and not isinstance(value, Integral) and number(value) is not None
    )


def _is_mapped(value: Any) -> bool:
    return _STATE in getattr(value, "__dict__", ())


def _loaded(entity: Any) -> dict[str, Any]:
    """The columns that are loaded, without related objects; the primary key also when nothing else is."""
    own = entity.__dict__
    found = {
        _named(name): value
        for name, value in own.items()
        if name != _STATE and not _is_mapped(value) and not type(value).__module__.startswith("sqlalchemy.")
    }
    key = getattr(own.get(_STATE), "key", None)
    if key is not None and len(key[1]) == 1 and not any(name in found for name in _IDS):
        found["id"] = key[1][0]
    return found


def _named(name: str) -> str:
    return "metadata" if name in _METADATA else name


def _chunk(item: Any, columns: dict[str, Any]) -> Chunk:
    try:
        return read_chunk(columns)
    except Unreadable:
        raise Unreadable(item) from None


ROW: Final = Adapter(chunk=_row)
MAPPING: Final = Adapter(chunk=_mapping)
ENTITY: Final = Adapter(chunk=_entity)
