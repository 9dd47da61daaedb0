"""Counts what an OTLP message in protobuf holds before it is decoded: two bytes on the wire may take 168 in memory.

Traces and logs have the same shape: resources (field 1) hold scopes (2), and these hold records (2).
Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ragtrace.errors import RecordError

__all__ = ["fields"]

_PATH: Final = (1, 2, 2)  # the numbers of the fields that lead to records
_FIXED: Final = {1: 8, 5: 4}  # bytes by wire type
_VARINT, _LENGTH = 0, 2
_MOST_DIGITS: Final = 10  # of a varint
_BROKEN: Final = "the body is no OTLP protobuf message: its fields do not fit"


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
