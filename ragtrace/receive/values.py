"""Reads values out of attributes without trusting their types: what does not fit is as good as absent."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec

from ragtrace.receive.spans import Attributes
from ragtrace.types import TokenUsage

__all__ = [
    "Groups",
    "grouped",
    "has_gaps",
    "identifier",
    "jsonish",
    "listed",
    "mapping",
    "number",
    "question_in",
    "text",
    "usage",
    "whole",
]

Groups: TypeAlias = dict[int, dict[str, Any]]
"""What a flattened list held, by its places."""

_Layout: TypeAlias = dict[str, list[tuple[int, list[tuple[int, str]]]]]
"""For each list, by its places: the attributes, by their place among all, and the rest of their names."""

_DIGITS: Final = 8  # of a place
_USUAL: Final = 256  # characters of a name that is worth remembering
_FEW: Final = 512  # names of a span that are worth remembering,
_SHORT: Final = 32_768  # and their characters
_MOST: Final = 2**53  # whole numbers above are no counts of anything


def text(attributes: Mapping[str, Any], *names: str) -> str | None:
    """The first of these attributes that is a text with something in it."""
    for name in names:
        found = attributes.get(name)
        if isinstance(found, str) and found:
            return found
    return None


def identifier(value: Any) -> str | None:
    """An id, which some senders give as a number."""
    if isinstance(value, bool):
        return None
    return str(value) if isinstance(value, int) or (isinstance(value, str) and value) else None


def number(value: Any) -> float | None:
    """A finite number, also one that was written as a text."""
    if type(value) is float:
        return value if isfinite(value) else None
    if isinstance(value, bool):
        return None
    try:
        found = float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None
    return found if found is not None and isfinite(found) else None


def whole(attributes: Mapping[str, Any], *names: str) -> int | None:
    """The first of these attributes that is a whole number >= 0."""
    for name in names:
        found = number(attributes.get(name))
        if found is not None and 0 <= found < _MOST and found == int(found):
            return int(found)
    return None


def usage(given: int | None, made: int | None) -> TokenUsage | None:
    """Token counts; None where none is known."""
    return None if given is None and made is None else TokenUsage(input_tokens=given, output_tokens=made)


def jsonish(value: Any) -> Any:
    """The value that a text holds as JSON; other texts, and other values, as they are."""
    if not isinstance(value, str) or value[:1] not in ("{", "[", '"'):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        pass  # what follows reads more: halves of characters, NaN
    try:
        found = json.loads(value)
        return _whole_characters(found) if "\\ud" in value or "\\uD" in value else found
    except (ValueError, RecursionError):
        return value


def _whole_characters(found: Any) -> Any:
    """Halves of characters, as JavaScript writes a text that was cut, become U+FFFD: no record can hold them."""
    said = json.dumps(found, ensure_ascii=False)
    return json.loads(said.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def mapping(value: Any) -> dict[str, Any]:
    """A mapping, also one that was written as JSON; empty for all else."""
    found = jsonish(value)
    return found if isinstance(found, dict) else {}


def listed(value: Any, *names: str) -> list[Any] | None:
    """The mappings and texts of a list, also one in JSON, or one that a mapping holds under one of these names.

    None where there is no such list, or nothing in it can be read: what it held is not known then.
    """
    found = jsonish(value)
    if isinstance(found, dict):
        found = next((found[name] for name in names if isinstance(found.get(name), list)), None)
    if not isinstance(found, list):
        return None
    items = [each for each in found if isinstance(each, dict | str)]
    return items if items or not found else None


def grouped(attributes: Attributes, prefix: str) -> Groups:
    """Flattened lists put together again: `prefix.N.rest = value` becomes {N: {rest: value}}, by N."""
    names = tuple(attributes)
    is_usual = len(names) <= _FEW and sum(map(len, names)) <= _SHORT
    layout = _known_layout(names) if is_usual else _layout(names)
    values = list(attributes.values())
    return {number: {rest: values[at] for at, rest in group} for number, group in layout.get(prefix, ())}


def has_gaps(*lists: dict[int, Any]) -> bool:
    """Whether the first places are missing: the SDK drops the oldest attributes first."""
    return any(len(groups) != next(reversed(groups), -1) + 1 for groups in lists)


@lru_cache(maxsize=64)
def _known_layout(names: tuple[str, ...]) -> _Layout:
    """A sender's names come again with every trace."""
    return _layout(names)


def _layout(names: Iterable[str]) -> _Layout:
    """The lists of flattened names."""
    found: defaultdict[str, defaultdict[int, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for at, name in enumerate(names):
        prefix, number, rest = _known_place(name) if len(name) <= _USUAL else _place(name)
        if prefix is not None:
            found[prefix][number].append((at, rest))
    return {prefix: sorted(groups.items()) for prefix, groups in found.items()}


@lru_cache(maxsize=16_384)
def _known_place(name: str) -> tuple[str | None, int, str]:
    return _place(name)


def _place(name: str) -> tuple[str | None, int, str]:
    """The list of an attribute's name, its place and what follows."""
    parts = name.split(".")
    for number, part in enumerate(parts[1:-1], 1):
        if part.isdecimal() and len(part) < _DIGITS:
            return ".".join(parts[:number]), int(part), ".".join(parts[number + 1 :])
    return None, 0, ""


_OTHERS: Final = ("assistant", "ai", "system", "developer", "tool", "function")
"""Whose messages ask nothing."""

_QUESTIONS = ("question", "query", "input", "query_str", "q", "prompt", "text", "user_input", "str_or_query_bundle")


def question_in(value: Any, depth: int = 4) -> str | None:
    """The question in what a chain was given: a text, a mapping with a usual key, the last message of a user."""
    value = jsonish(value)
    if isinstance(value, str):
        return value or None
    if depth and isinstance(value, dict):
        wrapped = ("inputs", "kwargs", "query_bundle", "kwds", "messages", "args", "input")
        for name in (*_QUESTIONS, *wrapped):
            if name in value and (found := question_in(value[name], depth - 1)):
                return found
        if value.get("role", value.get("type")) not in _OTHERS and isinstance(value.get("content"), str):
            return value["content"] or None
        return None
    if depth and isinstance(value, list):
        return _last(value, depth)
    return None


def _last(values: Iterable[Any], depth: int) -> str | None:
    found = [question_in(each, depth - 1) for each in values]
    return next((each for each in reversed(found) if each), None)
