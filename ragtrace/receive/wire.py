"""Reads OTLP messages in protobuf as bytes: counts what one holds before it is decoded, since two bytes on the wire may
take 168 in memory, and takes records out as they are.

Traces and logs have the same shape: resources (field 1) hold scopes (2), and these hold records (2).
Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from ragtrace.errors import RecordError

__all__ = ["Scope", "fields", "held", "joined", "scopes"]

_PATH: Final = (1, 2, 2)  # the numbers of the fields that lead to records
_REQUEST, _RESOURCES, _SCOPES, _RESOURCE, _SCOPE, _RECORD = range(6)
_BELOW: Final = {  # by the kind of a message, the kinds of those in its fields
    _REQUEST: {1: _RESOURCES},
    _RESOURCES: {1: _RESOURCE, 2: _SCOPES},
    _SCOPES: {1: _SCOPE, 2: _RECORD},
}
_HELD: Final = {  # the tags of messages that are counted: attributes, events, links
    _RESOURCE: frozenset({1 << 3 | 2, 3 << 3 | 2}),
    _SCOPE: frozenset({3 << 3 | 2}),
    _RECORD: frozenset({6 << 3 | 2, 9 << 3 | 2, 11 << 3 | 2, 13 << 3 | 2}),
}
_FIXED: Final = {1: 8, 5: 4}  # bytes by wire type
_VARINT, _LENGTH = 0, 2
_MOST_DIGITS: Final = 10  # of a varint
_BROKEN: Final = "the body is no OTLP protobuf message: its fields do not fit"


class Scope(NamedTuple):
    """The records of one scope, in their order. resource, scope: all else that stands in its message, and in that of
    its resource."""

    resource: bytes
    scope: bytes
    records: list[memoryview]


class _Field(NamedTuple):
    number: int
    wire_type: int
    start: int
    end: int


def fields(body: bytes, most: int) -> int:
    """How many fields a message has down to its records, those included; it stops beyond `most`.

    Raises: RecordError where it is broken, or has groups, which OTLP has not.
    """
    count = 0
    waiting = [(0, len(body), 0)]
    while waiting:
        start, end, depth = waiting.pop()
        for field in _read(body, start, end):
            count += 1
            if count > most:
                return count
            if field.wire_type == _LENGTH and field.number == _PATH[depth] and depth + 1 < len(_PATH):
                waiting.append((field.start, field.end, depth + 1))
    return count


def held(body: bytes, most: int) -> int:
    """How many attributes, events and links a message has, a few other fields counted in; it stops beyond `most`.

    Raises: RecordError, as above.
    """
    count = 0
    waiting = [(0, len(body), _REQUEST)]
    while waiting:
        start, end, kind = waiting.pop()
        if kind in _HELD:
            count += _tagged(body, start, end, _HELD[kind], most - count)
            if count > most:
                return count
            continue
        for field in _read(body, start, end):
            below = _BELOW[kind].get(field.number)
            if below is not None and field.wire_type == _LENGTH:
                waiting.append((field.start, field.end, below))
    return count


def scopes(body: bytes) -> list[Scope]:
    """The scopes of a message, in its order. Raises: RecordError, as above."""
    found: list[Scope] = []
    view = memoryview(body)
    for first, last in _parted(body, 0, len(body), _PATH[0])[0]:
        inner, resource = _parted(body, first, last, _PATH[1])
        for start, end in inner:
            records, scope = _parted(body, start, end, _PATH[2])
            found.append(Scope(resource, scope, [view[at:to] for at, to in records]))
    return found


def joined(given: Iterable[Scope]) -> bytes:
    """A message of these scopes, those of one resource in a row under it."""
    parts: list[bytes | memoryview] = []
    for _, same in groupby(given, key=lambda each: id(each.resource)):
        own = list(same)
        inner = [piece for each in own for piece in _pieces(each)]
        resource = own[0].resource
        parts += (_head(_PATH[0], len(resource) + sum(map(len, inner))), resource, *inner)
    return b"".join(parts)


def _pieces(scope: Scope) -> list[bytes | memoryview]:
    inner: list[bytes | memoryview] = [scope.scope]
    for record in scope.records:
        inner += (_head(_PATH[2], len(record)), record)
    return [_head(_PATH[1], sum(map(len, inner))), *inner]


def _parted(body: bytes, at: int, end: int, number: int) -> tuple[list[tuple[int, int]], bytes]:
    """Where the messages with this field's number stand in a message, and the fields beside them."""
    inner: list[tuple[int, int]] = []
    others: list[bytes] = []
    for field in _read(body, at, end):
        if field.wire_type == _LENGTH and field.number == number:
            inner.append((field.start, field.end))
        else:
            others.append(body[at : field.end])
        at = field.end
    return inner, b"".join(others)


def _head(number: int, size: int) -> bytes:
    """What stands before a field's message of so many bytes."""
    digits = bytearray([number << 3 | _LENGTH])
    while size >= 0x80:
        digits.append(size & 0x7F | 0x80)
        size >>= 7
    digits.append(size)
    return bytes(digits)


def _tagged(body: bytes, at: int, end: int, tags: frozenset[int], most: int) -> int:
    """How many fields of a message have one of these tags of a byte; it stops beyond `most`."""
    count = 0
    while at < end:
        if body[at] in tags and at + 2 < end and (body[at + 1] < 0x80 or body[at + 2] < 0x80):  # most, at once
            size = body[at + 1]
            at += 2 + size if size < 0x80 else 3 + (size & 0x7F | body[at + 2] << 7)
            count += 1
        else:
            field = next(_read(body, at, end))
            count += field.wire_type == _LENGTH and field.number << 3 | _LENGTH in tags
            at = field.end
        if count > most:
            return count
    if at > end:
        raise RecordError(_BROKEN)
    return count


def _read(body: bytes, at: int, end: int) -> Iterator[_Field]:
    while at < end:
        tag, at = _varint(body, at, end)
        wire_type = tag & 7
        start = at
        if wire_type == _VARINT:
            _, at = _varint(body, at, end)
        elif wire_type == _LENGTH:
            size, start = _varint(body, at, end)
            at = start + size
        elif wire_type in _FIXED:
            at += _FIXED[wire_type]
        else:
            raise RecordError(_BROKEN)
        if at > end:
            raise RecordError(_BROKEN)
        yield _Field(tag >> 3, wire_type, start, at)


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for place in range(min(_MOST_DIGITS, end - at)):
        byte = body[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise RecordError(_BROKEN)
