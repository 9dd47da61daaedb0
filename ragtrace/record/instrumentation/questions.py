"""Finds the user's question in what a framework's run was given: a text, a mapping of inputs, chat messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragtrace.record.coercion import read_prompt
from ragtrace.record.coercion.values import first, text

__all__ = ["read_question"]

_KEYS: Final = (
    *("query", "question", "user_query", "search_query", "query_str", "q", "input", "messages", "message"),
    *("str_or_query_bundle", "prompt", "text"),
)
_USER: Final = ("user", "human")
_ROLES: Final = (*_USER, "system", "developer", "assistant", "ai", "tool")
_DEPTH: Final = 4


def read_question(value: Any, depth: int = _DEPTH) -> str | None:
    """The question; None when there is none to be found. The last message of a user wins."""
    found = text(value)
    if found is not None or value is None or not depth:
        return found or None
    if isinstance(value, Mapping):
        return _in_mapping(value, depth)
    if isinstance(value, tuple) and len(value) == 2 and value[0] in _ROLES:
        return read_question(value[1], depth - 1) if value[0] in _USER else None
    if isinstance(value, list | tuple):
        return _in_messages(value, depth)
    return _said(value) or text(first(value, "query_str")) or None


def _in_mapping(value: Mapping[Any, Any], depth: int) -> str | None:
    if "content" in value:
        return _said(value)
    for key in _KEYS:
        found = read_question(value[key], depth - 1) if value.get(key) else None
        if found:
            return found
    inner = (read_question(item, depth - 1) for item in value.values() if isinstance(item, Mapping))
    return next((found for found in inner if found), None)


def _in_messages(messages: list[Any] | tuple[Any, ...], depth: int) -> str | None:
    for message in reversed(messages):
        inner = isinstance(message, list | tuple | str)  # ("user", "…"), batches, plain texts
        found = read_question(message, depth - 1) if inner else _said(message)
        if found:
            return found
    return None


def _said(message: Any) -> str | None:
    """What a user's message says."""
    role = first(message, "role", "type")
    role = getattr(role, "value", role)
    return read_prompt([message]) if role in _USER else None
