"""The spool's file format: entries of magic, length, CRC-32 and the JSON of one tagged item."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from ragtrace.errors import RecordError
from ragtrace.types import (
    Addendum,
    Fault,
    Feedback,
    Item,
    RequestRecord,
    SourceReport,
    decode_addendum,
    decode_record,
    encode_addendum,
    encode_record,
)

__all__ = ["Entry", "decode", "encode", "read"]

MAGIC: Final = b"\xabRT\x01"  # cannot stand in JSON, so that reading finds its place again behind a damaged entry
_HEADER: Final = struct.Struct(">4sII")
_KINDS: Final[dict[type, str]] = {
    RequestRecord: "request",
    Addendum: "addendum",
    Feedback: "feedback",
    Fault: "fault",
    SourceReport: "source_report",
}
_PLAIN: Final[dict[str, type[Item]]] = {_KINDS[kind]: kind for kind in (Feedback, Fault, SourceReport)}


class _Tagged(msgspec.Struct):
    kind: str
    item: msgspec.Raw


class Entry(NamedTuple):
    """Some bytes of a spool file and the item in them; None when they are damaged."""

    item: Item | None
    raw: bytes


def encode(item: Item) -> bytes:
    """One entry. Raises: RecordError when the item has a value that JSON cannot hold."""
    if isinstance(item, RequestRecord):
        body = encode_record(item)
    elif isinstance(item, Addendum):
        body = encode_addendum(item)
    else:
        try:
            body = msgspec.json.encode(item)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise RecordError(f"a {type(item).__name__} cannot be written: {error}; give JSON values") from error
    payload = b'{"kind":"%s","item":%s}' % (_KINDS[type(item)].encode(), body)
    return _HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


def decode(payload: bytes) -> Item:
    """The item of an entry. Raises: RecordError when it is none that this version knows."""
    try:
        tagged = msgspec.json.decode(payload, type=_Tagged)
        if tagged.kind == "request":
            return decode_record(bytes(tagged.item))
        if tagged.kind == "addendum":
            return decode_addendum(bytes(tagged.item))
        if tagged.kind in _PLAIN:
            return msgspec.json.decode(tagged.item, type=_PLAIN[tagged.kind])
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordError(f"not a spool entry: {error}") from error
    raise RecordError(f"spool entry of kind {tagged.kind!r}; this ragtrace knows {', '.join(_KINDS.values())}")


def read(data: bytes) -> Iterator[Entry]:
    """The entries of a spool file. A torn last entry (the process died in the write) is left out."""
    at = 0
    while at < len(data):
        payload = _payload(data, at)
        if payload is not None:
            end = at + _HEADER.size + len(payload)
            yield Entry(_decoded(payload), data[at:end])
            at = end
            continue
        further = _next(data, at + 1)
        if further is None:
            if not _is_torn(data, at):
                yield Entry(None, data[at:])
            return
        yield Entry(None, data[at:further])
        at = further


def _payload(data: bytes, at: int) -> bytes | None:
    if len(data) - at < _HEADER.size:
        return None
    magic, length, checksum = _HEADER.unpack_from(data, at)
    payload = data[at + _HEADER.size : at + _HEADER.size + length]
    return payload if magic == MAGIC and len(payload) == length and zlib.crc32(payload) == checksum else None


def _decoded(payload: bytes) -> Item | None:
    try:
        return decode(payload)
    except RecordError:
        return None


def _next(data: bytes, at: int) -> int | None:
    """Where the next whole entry begins."""
    found = data.find(MAGIC, at)
    while found >= 0 and _payload(data, found) is None:
        found = data.find(MAGIC, found + 1)
    return found if found >= 0 else None


def _is_torn(data: bytes, at: int) -> bool:
    """Whether the bytes at the end are an entry that was cut, rather than a damaged one."""
    rest = data[at:]
    if len(rest) < _HEADER.size:
        return MAGIC.startswith(rest[:4])
    magic, length, _ = _HEADER.unpack_from(rest)
    return bool(magic == MAGIC) and len(rest) < _HEADER.size + length
