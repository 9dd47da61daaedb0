"""Writes OTLP's JSON as protobuf, also what OTLP has no field for: the library would refuse to."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final, TypeAlias

__all__ = ["protobuf_of", "scalar"]

Json: TypeAlias = dict[str, Any]

_REPEATED: Final = {"resourceSpans", "scopeSpans", "spans", "attributes", "events", "links", "values"} | {
    "resourceLogs", "scopeLogs", "logRecords",
}  # fmt: skip
_ATTRIBUTE_FIELDS: Final[Json] = {}
_VALUE_FIELDS: Final[Json] = {
    "stringValue": (1, "text"),
    "boolValue": (2, "varint"),
    "intValue": (3, "varint"),
    "doubleValue": (4, "double"),
    "arrayValue": (5, {}),
    "kvlistValue": (6, {"values": (1, _ATTRIBUTE_FIELDS)}),
    "bytesValue": (7, "text"),
}
_VALUE_FIELDS["arrayValue"][1]["values"] = (1, _VALUE_FIELDS)
_ATTRIBUTE_FIELDS.update({"key": (1, "text"), "value": (2, _VALUE_FIELDS)})
_RESOURCE: Final[Json] = {"attributes": (1, _ATTRIBUTE_FIELDS), "droppedAttributesCount": (2, "varint")}
_SCOPE: Final[Json] = {"name": (1, "text"), "version": (2, "text"), "attributes": (3, _ATTRIBUTE_FIELDS)}
_EVENT: Final[Json] = {
    "timeUnixNano": (1, "fixed64"), "name": (2, "text"), "attributes": (3, _ATTRIBUTE_FIELDS),
}  # fmt: skip
_SPAN: Final[Json] = {
    "traceId": (1, "id"), "spanId": (2, "id"), "traceState": (3, "text"), "parentSpanId": (4, "id"),
    "name": (5, "text"), "kind": (6, "varint"), "startTimeUnixNano": (7, "fixed64"), "endTimeUnixNano": (8, "fixed64"),
    "attributes": (9, _ATTRIBUTE_FIELDS), "droppedAttributesCount": (10, "varint"), "events": (11, _EVENT),
    "droppedEventsCount": (12, "varint"), "links": (13, {"traceId": (1, "id"), "spanId": (2, "id")}),
    "status": (15, {"message": (2, "text"), "code": (3, "varint")}), "flags": (16, "fixed32"),
}  # fmt: skip
_RECORD: Final[Json] = {
    "timeUnixNano": (1, "fixed64"), "body": (5, _VALUE_FIELDS), "attributes": (6, _ATTRIBUTE_FIELDS),
    "traceId": (9, "id"), "spanId": (10, "id"), "eventName": (12, "text"),
}  # fmt: skip
_SCOPED: Final[Json] = {"scope": (1, _SCOPE)}
_REQUEST: Final[Json] = {
    "resourceSpans": (1, {"resource": (1, _RESOURCE), "scopeSpans": (2, _SCOPED | {"spans": (2, _SPAN)})}),
    "resourceLogs": (1, {"resource": (1, _RESOURCE), "scopeLogs": (2, _SCOPED | {"logRecords": (2, _RECORD)})}),
}


_DIGITS: Final = [bytes([value]) for value in range(0x80)]


_ENUMS: Final = {"STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2, "SPAN_KIND_INTERNAL": 1, "SPAN_KIND_CLIENT": 3}


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _DIGITS[value]
    digits = bytearray()
    value &= 2**64 - 1
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _message(given: Any, fields: Json) -> bytes:
    """A mapping of OTLP's JSON in protobuf. What does not fit its field is written as what it is."""
    parts: list[bytes] = []
    for name, value in given.items():
        number, kind = fields.get(name, (1_000, "text"))
        if name in _REPEATED and type(value) is list:
            parts += (_field(number, kind, each) for each in value)
        else:
            parts.append(_field(number, kind, value))
    return b"".join(parts)


def _field(number: int, kind: Any, value: Any) -> bytes:
    if value is None:
        return b""
    if type(kind) is dict:
        if type(value) is dict:
            inner = _attribute(value) if kind is _ATTRIBUTE_FIELDS else _message(value, kind)
            return _varint(number << 3 | 2) + _varint(len(inner)) + inner
        kind = "text"
    return scalar(number, kind, value)


def _attribute(given: Json) -> bytes:
    value = given.get("value")
    if len(given) == 2 and type(value) is dict and len(value) == 1:
        key, said = given.get("key"), value.get("stringValue")
        if type(key) is str and type(said) is str and len(said) < 4_000:
            return _plain_attribute(key, said)
    return _message(given, _ATTRIBUTE_FIELDS)


@lru_cache(maxsize=4_096)
def _plain_attribute(key: str, value: str) -> bytes:
    return _message({"key": key, "value": {"stringValue": value}}, _ATTRIBUTE_FIELDS)


def scalar(number: int, kind: str, value: Any) -> bytes:
    """A field with a value of this kind; one of another kind is written as what it is."""
    if kind == "id" and type(value) is str:
        try:
            value = bytes.fromhex(value)
        except ValueError:
            value = value.encode("utf-8", "surrogatepass")
    elif kind != "text" and type(value) is str:
        try:
            value = float(value) if kind == "double" else int(value)
        except ValueError:
            value = _ENUMS.get(value, value)
    if isinstance(value, int):
        if kind == "fixed64":
            return _varint(number << 3 | 1) + struct.pack("<Q", value & (2**64 - 1))
        if kind == "double" and abs(value) < 2**1000:
            return _varint(number << 3 | 1) + struct.pack("<d", value)
        if kind == "fixed32":
            return _varint(number << 3 | 5) + struct.pack("<I", value & (2**32 - 1))
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    text = value if isinstance(value, str | bytes) else repr(value)
    said = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return _varint(number << 3 | 2) + _varint(len(said)) + said


def protobuf_of(whole: Any) -> bytes:
    """A body of OTLP's JSON in protobuf."""
    return _message(whole, _REQUEST) if isinstance(whole, dict) else repr(whole).encode("utf-8", "surrogatepass")
