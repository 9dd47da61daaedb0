"""Reads OTLP's JSON: documents, also one per line, ids as hex digits, and all else as protobuf's JSON.

Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from ragtrace.errors import RecordError

__all__ = ["Counted", "TooLarge", "id_of", "parse_message", "parse_or_clear", "requests"]

_DIGITS: Final = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
_UNREADABLE: Final = (RecursionError, OverflowError, SystemError)  # by protobuf's reader of JSON, beside its ParseError


def requests(body: bytes | str, name: str, signal: str) -> Iterator[dict[str, Any]]:
    """The requests of a body, each with a list of this name; an empty one may have none. Raises: RecordError."""
    for document in _documents(body):
        if not isinstance(document, dict) or (document and not isinstance(document.get(name, 0), list | None)):
            raise RecordError(f"the body is no OTLP JSON of {signal}: it has no list `{name}`")
        yield document


def _documents(body: bytes | str) -> Iterator[Any]:
    """The values of a text, which is one of them or has one in each line. Raises: RecordError."""
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        try:
            found = json.loads(text)
            yield from found if found and isinstance(found, list) else [found]
            return
        except json.JSONDecodeError:
            lines = [line for line in text.splitlines() if line.strip()]
            if len(lines) < 2:
                raise
        yield from [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise RecordError(f"the body is no JSON: {error}") from None


class TooLarge(RecordError):
    """A body that can be read and holds too much: its sender should send smaller ones."""


class Counted:
    """Walks through lists of mappings, up to a number of them in all; None: any number. What is none is rejected."""

    def __init__(self, rejected: list[str], most: int | None = None) -> None:
        self._rejected, self._most, self._count = rejected, most, 0

    def dicts(self, given: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
        """The mappings of a list of this name. Raises: TooLarge when there are too many."""
        value = given.get(name)
        if not isinstance(value, list | None):
            self._rejected.append(f"`{name}` is {type(value).__name__}, and should be a list")
            return
        for each in value or ():
            self._count += 1
            if self._most is not None and self._count > self._most:
                raise TooLarge(f"the body holds more than {self._most:,} records; send smaller batches")
            if isinstance(each, dict):
                yield each
            else:
                self._rejected.append(f"one of `{name}` is {type(each).__name__}, and should be an object")


def parse_or_clear(value: Any, message: Any) -> None:
    """Fill a message, as of a resource; one that cannot be read is as good as none."""
    try:
        parse_message(value if isinstance(value, dict) else {}, message)
    except ValueError:
        message.Clear()


def parse_message(given: dict[str, Any], message: Any) -> None:
    """Fill a message that holds no ids. Raises: ValueError."""
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        ParseDict(given, message, ignore_unknown_fields=True)
    except (*_UNREADABLE, ParseError) as error:
        raise ValueError(str(error)) from None


def id_of(given: dict[str, Any], name: str) -> bytes:
    """An id. Raises: ValueError."""
    value = given.get(name) or ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {type(value).__name__}, and should be a text of hex digits")
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise ValueError(f"{name} is {value[:40]!r}, and should be {_DIGITS[name]} hex digits") from None
