"""Writes a library's object down as JSON, and builds an object that looks like it where the library is missing.

A look-alike's class has the module, the name and the bases' names of the real one, and its instance the same
attributes. NumPy's arrays and numbers are built again as they were; of enumerations the values are kept, of
bytes nothing, and what has no attributes becomes its text.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np

__all__ = ["build", "describe"]

_PLAIN: Final = (str, int, float, bool, type(None))
_READ: Final = {"sqlalchemy.orm.state.InstanceState": ("key",)}  # of these only what is named, not what hangs on them
_ROWS: Final = "sqlalchemy.engine.row."
_SKIPPED: Final = frozenset({"embedding", "sparse_embedding", "hash"})


def describe(value: Any) -> Any:
    """A value as plain data; what is more than data is a mapping with one key that begins with `$`."""
    kind = type(value)
    name = _name(kind)
    if isinstance(value, enum.Enum):
        return describe(value.value)
    if isinstance(value, np.ndarray):
        return {"$array": value.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return {"$scalar": value.item(), "dtype": str(value.dtype)}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if kind is bytes:
        return None
    if kind is float and not math.isfinite(value):
        return {"$float": str(value)}
    if kind in _PLAIN:
        return value
    if kind is list:
        return [describe(item) for item in value]
    if kind is tuple:
        return {"$tuple": [describe(item) for item in value]}
    if kind is dict:
        return {"$dict": [[describe(key), describe(item)] for key, item in value.items()]}
    if not hasattr(value, "__dict__") and not name.startswith(_ROWS):
        return str(value)
    return {"$object": [_name(base) for base in kind.__mro__ if base is not object], **_content(value, name)}


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _content(value: Any, name: str) -> dict[str, Any]:
    if name.startswith(_ROWS):
        fields = value._fields if hasattr(value, "_fields") else tuple(value)
        return {"fields": list(fields), "values": [describe(item) for item in _values(value)]}
    if isinstance(value, Mapping):
        return {"mapping": [[describe(key), describe(item)] for key, item in value.items()]}
    if name.startswith(("sqlalchemy.", "pgvector.")) and name not in _READ:
        return {"attributes": {}}
    if name in _READ:
        key = value.key
        return {"attributes": {"key": None if key is None else {"$tuple": [None, describe(key[1]), None]}}}
    return {"attributes": {key: describe(part) for key, part in vars(value).items() if key not in _SKIPPED}}


def _values(row: Any) -> Sequence[Any]:
    return list(row.values()) if isinstance(row, Mapping) else list(row)


def build(data: Any) -> Any:
    """The value that `describe` wrote down."""
    if isinstance(data, list):
        return [build(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "$array" in data:
        return np.array(data["$array"], dtype=data["dtype"])
    if "$scalar" in data:
        return np.dtype(data["dtype"]).type(data["$scalar"])
    if "$decimal" in data:
        return Decimal(data["$decimal"])
    if "$float" in data:
        return float(data["$float"])
    if "$tuple" in data:
        return tuple(build(item) for item in data["$tuple"])
    if "$dict" in data:
        return {build(key): build(item) for key, item in data["$dict"]}
    return _build_object(data)


_classes: dict[tuple[str, ...], type] = {}


class _Row(Sequence[Any]):
    """As SQLAlchemy's `Row`: a sequence with `_fields`."""

    __slots__ = ("_fields", "_values")

    def __init__(self, fields: tuple[str, ...], values: list[Any]) -> None:
        self._fields, self._values = fields, values

    def __getitem__(self, place: Any) -> Any:
        return self._values[place]

    def __len__(self) -> int:
        return len(self._values)


class _RowMapping(Mapping[str, Any]):
    """As SQLAlchemy's `RowMapping`."""

    __slots__ = ("_items",)

    def __init__(self, fields: tuple[str, ...], values: list[Any]) -> None:
        self._items = dict(zip(fields, values, strict=True))

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Any:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


def _build_object(data: dict[str, Any]) -> Any:
    names = tuple(data["$object"])
    if "fields" in data:
        base: type = _RowMapping if names[0].endswith("RowMapping") else _Row
        return _class(names[:1], base)(tuple(data["fields"]), [build(item) for item in data["values"]])
    if "mapping" in data:
        return _class(names, dict)((build(key), build(item)) for key, item in data["mapping"])
    found = _class(names, object)()
    found.__dict__.update({key: build(part) for key, part in data["attributes"].items()})
    return found


def _class(names: tuple[str, ...], root: type) -> type:
    """A class with these names, its own first, each the base of the one before."""
    names = tuple(name for name in names if not name.startswith(("builtins.", "typing.", "abc.", "collections.")))
    if not names:
        return root
    if names not in _classes:
        module, _, name = names[0].rpartition(".")
        space = {"__module__": module, "__qualname__": name}
        _classes[names] = type(name, (_class(names[1:], root),), space)
    return _classes[names]
