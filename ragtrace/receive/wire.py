"""Reads OTLP messages in protobuf as bytes: sees that one holds no more than it may before it is decoded, since two
bytes on the wire may take 168 in memory, and takes records out as they are.

Traces and logs have the same shape: resources (field 1) hold scopes (2), and these hold records (2).
Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from ragtrace.errors import RecordError
from ragtrace.receive.limits import DEPTH, Allowance, TooLarge

__all__ = ["Scope", "check", "joined", "scopes"]

_Messages: TypeAlias = dict[str, dict[int, str]]

_PATH: Final = (1, 2, 2)  # the numbers of the fields that lead to records
_MESSAGES: Final[_Messages] = {  # by the kind of a message, the kinds of those in its fields
    "request": {1: "resources"},
    "resources": {1: "resource", 2: "scopes"},
    "resource": {1: "attribute", 3: "entity"},
    "scopes": {1: "scope", 2: "record"},
    "scope": {3: "attribute"},
    "attribute": {2: "value"},
    "value": {5: "array", 6: "map"},
    "array": {1: "element"},
    "element": {5: "array", 6: "map"},
    "map": {1: "attribute"},
    "event": {3: "attribute"},
    "link": {4: "attribute"},
    "entity": {},
}
_RECORDS: Final[_Messages] = {  # that of a record, by signal
    "traces": {9: "attribute", 11: "event", 13: "link"},
    "logs": {5: "value", 6: "attribute"},
}
_FRAME: Final = frozenset({"request", "resources", "scopes"})
_STRAYS: Final = 16  # fields of one of these that are none of its messages; more count as records
_RECORD_KINDS: Final = frozenset({"resources", "scopes", "record"})
_COUNTED: Final = frozenset({"attribute", "element", "event", "link", "entity"})
_VALUES: Final = frozenset({"value", "element"})
_TEXT: Final = 1 << 3 | 2  # the tag of a value's text
_LOOK: Final = 4_096  # fields of one message, after which they are counted
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


def check(body: bytes, signal: Literal["traces", "logs"], allowance: Allowance) -> None:
    """See that a message holds no more than it may, before it is decoded.

    Raises: TooLarge; RecordError where it is broken, or has groups, which OTLP has not.
    """
    limits = allowance.limits
    if limits is None:
        return
    whole = _MESSAGES | {"record": _RECORDS[signal]}
    # each takes two bytes or more: a small body cannot hold many, and is looked at down to its records
    if len(body) // 2 <= min(limits.attributes, limits.values):
        whole["record"] = whole["resource"] = whole["scope"] = {}
    _Count(body, whole, allowance, limits.values).read(0, len(body), "request")


class _Count:
    """Walks through the messages of a body, and counts what they hold."""

    def __init__(self, body: bytes, messages: _Messages, allowance: Allowance, values: int) -> None:
        self._body, self._messages, self._allowance = body, messages, allowance
        self._values, self._left = values, values

    def read(self, at: int, end: int, kind: str, depth: int = 1) -> None:
        """A message. Raises: TooLarge, RecordError."""
        if depth > DEPTH:
            raise RecordError(f"the body holds messages in messages, more than {DEPTH} deep; send flatter values")
        body, below, fields, strays = self._body, self._messages[kind], 0, 0
        while at < end:
            tag, at = (body[at], at + 1) if body[at] < 0x80 else _varint(body, at, end)
            if tag & 7 == _LENGTH:
                size, at = (body[at], at + 1) if at < end and body[at] < 0x80 else _varint(body, at, end)
                inner = below.get(tag >> 3)
                if inner is not None:
                    if at + size > end:
                        raise RecordError(_BROKEN)
                    self._take(inner)
                    if size and self._messages[inner] and not (inner in _VALUES and _is_text(body, at, size)):
                        self.read(at, at + size, inner, depth + 1)
                at += size
            elif tag & 7 == _VARINT:
                at = at + 1 if at < end and body[at] < 0x80 else _varint(body, at, end)[1]
            elif tag & 7 in _FIXED:
                at += _FIXED[tag & 7]
            else:
                raise RecordError(_BROKEN)
            if kind in _FRAME and (tag & 7 != _LENGTH or tag >> 3 not in below):
                strays += 1
                if strays > _STRAYS:
                    self._allowance.take_record()
            fields += 1
            if fields == _LOOK:
                self._spend(fields)
                fields = 0
        if at > end:
            raise RecordError(_BROKEN)
        self._spend(fields)

    def _take(self, kind: str) -> None:
        if kind in _COUNTED:
            self._allowance.take()
        elif kind in _RECORD_KINDS:
            self._allowance.take_record()

    def _spend(self, fields: int) -> None:
        self._left -= fields
        self._allowance.tick(fields)
        if self._left < 0:
            raise TooLarge(f"the body holds more than {self._values:,} fields; send smaller batches")


def _is_text(body: bytes, at: int, size: int) -> bool:
    """Whether a value is one short text and nothing else, as most are."""
    return size >= 2 and body[at] == _TEXT and body[at + 1] == size - 2


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
