"""Every field of a record that holds a text, and a record with something else in one of them: a field that is added to
the record is tried as well."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ragtrace.types import RequestRecord, to_builtins

__all__ = ["FIELDS", "named", "with_text"]

Path = tuple[Any, ...]
"""Fields (a struct and a name), and what a list or a mapping holds."""

_ITEM, _KEY, _VALUE = "[]", "{key}", "{value}"


def _texts(kind: Any, path: Path = ()) -> Iterator[Path]:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is str or kind is Any:
        yield path
    elif origin in (typing.Union, types.UnionType):
        for one in inner:
            yield from _texts(one, path)
    elif origin is tuple:
        yield from _texts(inner[0], (*path, _ITEM))
    elif origin is dict:
        if inner[0] is str:
            yield (*path, _KEY)
        yield from _texts(inner[1], (*path, _VALUE))
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            yield from _texts(field.type, (*path, (kind, field.encode_name)))


FIELDS: Final[tuple[Path, ...]] = tuple(dict.fromkeys(_texts(RequestRecord)))


def named(path: Path) -> str:
    """As a test names it: `RetrieveRun.candidates[]Candidate.text`."""
    return "".join(one if isinstance(one, str) else f"{one[0].__name__}.{one[1]}" for one in path)


def with_text(record: RequestRecord, path: Path, text: str) -> RequestRecord:
    """The record with this text in each place that the path leads to; what does not exist there is made."""
    return msgspec.convert(_put(to_builtins(record), path, text), RequestRecord, strict=False)


def _put(data: Any, path: Path, text: str) -> Any:
    if not path:
        return text
    step, rest = path[0], path[1:]
    if step == _ITEM:
        kinds = _tagged(rest)
        return [_put(one, rest, text) if kinds is None or one.get("stage") == kinds else one for one in data or [None]]
    if step == _KEY:
        return {text: next(iter((data or {"": "1"}).values()))}
    if step == _VALUE:
        return {key: _put(value, rest, text) for key, value in (data or {"key": None}).items()}
    kind, name = step
    known = _least(kind) if data is None else data
    return {**known, name: _put(known.get(name), rest, text)}


def _tagged(path: Path) -> str | None:
    """Which kind of run the next step is of."""
    tag = getattr(path[0][0], "__struct_config__", None) if path and not isinstance(path[0], str) else None
    return tag.tag if tag is not None else None


def _least(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """What such a struct needs."""
    simple: dict[Any, Any] = {str: "some", int: 1, float: 0.5, bool: True}
    found = {}
    for field in msgspec.structs.fields(kind):
        if field.required:
            literal = typing.get_args(field.type)
            found[field.encode_name] = simple.get(field.type, literal[0] if literal else None)
    return found
