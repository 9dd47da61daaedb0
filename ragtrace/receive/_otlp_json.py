"""Reads OTLP's JSON: documents, also one per line, ids as hex digits, and all else as protobuf's JSON.

Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.errors import RecordError
from ragtrace.receive._limits import DEPTH, DecodingBudget, TooLarge

__all__ = ["JsonWalk", "id_of", "parse_message", "parse_or_clear", "requests"]

_Parser: TypeAlias = Callable[[Any, Any, DecodingBudget, int], None]

_DIGITS: Final = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
_UNREADABLE: Final = (RecursionError, OverflowError, SystemError)  # by protobuf's reader of JSON, beside its ParseError
_ARRAYS: Final = ("arrayValue", "array_value")
_MAPS: Final = ("kvlistValue", "kvlist_value")
_NESTED: Final = frozenset({*_ARRAYS, *_MAPS})
_SCALARS: Final = ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "stringValueStrindex")
_SNAKES: Final = ("string_value", "bool_value", "int_value", "double_value", "bytes_value", "string_value_strindex")
_KINDS: Final = frozenset({*_NESTED, *_SCALARS, *_SNAKES})
_KEYS: Final = frozenset({"key", "keyStrindex", "key_strindex"})
_EXACT: Final = 2**53  # beyond, a whole number may be none as a double
_STEP: Final = 1 << 20  # bytes that are looked at together
_QUOTE, _BACKSLASH, _COMMA = (ord(mark) for mark in '"\\,')
_OPENING: Final = tuple(b"{[")


def requests(body: bytes | str, name: str, signal: str, allowance: DecodingBudget) -> Iterator[dict[str, Any]]:
    """The requests of a body, each with a list of this name; an empty one may have none.

    Raises: RecordError; TooLarge for more values than may be, before any is made.
    """
    if isinstance(body, bytes):
        check(body, allowance)
    for document in _documents(body, allowance):
        allowance.tick()
        if not isinstance(document, dict) or (document and not isinstance(document.get(name, 0), list | None)):
            raise RecordError(f"the body is no OTLP JSON of {signal}: it has no list `{name}`")
        yield document


def check(body: bytes, allowance: DecodingBudget) -> None:
    """See that a body holds no more members and elements than it may, before it is decoded. Raises: TooLarge."""
    limits = allowance.limits
    if limits is None or len(body) <= limits.values:
        return
    if sum(map(body.count, (b",", b"{", b"["))) <= limits.values:  # also of those within texts
        return
    count = 0
    for part in _outside_texts(body):
        count += int(np.count_nonzero(part == _COMMA)) + sum(int(np.count_nonzero(part == mark)) for mark in _OPENING)
        if count > limits.values:
            raise TooLarge(f"the body holds more than {limits.values:,} values; send smaller batches")
        allowance.check_time()


def _outside_texts(body: bytes) -> Iterator[NDArray[np.uint8]]:
    """The bytes of a body, part by part, with zeros for those within its texts."""
    is_within = is_escaped = False
    for at in range(0, len(body), _STEP):
        part = np.frombuffer(body, np.uint8, min(_STEP, len(body) - at), at)
        is_quote = part == _QUOTE
        places = np.flatnonzero(part == _BACKSLASH)
        if is_escaped:
            is_quote[0] = False
            places = places[places > 0]
        # of backslashes in a row, the first, third, ... escape what follows
        starts = np.flatnonzero(np.diff(places, prepend=-2) > 1)
        run = np.repeat(starts, np.diff(starts, append=len(places)))
        escaped = places[(np.arange(len(places)) - run) % 2 == 0] + 1
        is_escaped = bool(len(escaped)) and int(escaped[-1]) == len(part)
        is_quote[escaped[:-1] if is_escaped else escaped] = False
        within = np.logical_xor.accumulate(is_quote) ^ is_within
        is_within = bool(within[-1])
        yield np.where(within, np.uint8(0), part)


def _documents(body: bytes | str, allowance: DecodingBudget) -> Iterator[Any]:
    """The values of a text, which is one of them or has one in each line. Raises: RecordError, TooLarge."""
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        try:
            found = json.loads(text)
            yield from found if found and isinstance(found, list) else [found]
            return
        except json.JSONDecodeError:
            if allowance.limits is not None and text.count("\n") > allowance.limits.records:
                raise TooLarge(
                    f"the body has more than {allowance.limits.records:,} lines; send smaller batches"
                ) from None
            lines = [line for line in text.split("\n") if line.strip()]
            if len(lines) < 2:
                raise
        yield from map(json.loads, lines)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"the body is no JSON: {error}") from None


class JsonWalk:
    """Walks through the lists of mappings in a request. What is no mapping is rejected."""

    def __init__(self, rejected: list[str], allowance: DecodingBudget) -> None:
        self._rejected, self._allowance = rejected, allowance

    def dicts(self, given: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
        """The mappings of a list of this name. Raises: TooLarge when there are too many."""
        value = given.get(name)
        if not isinstance(value, list | None):
            self._rejected.append(f"`{name}` is {type(value).__name__}, and should be a list")
            return
        for each in value or ():
            self._allowance.take_record()
            if isinstance(each, dict):
                yield each
            else:
                self._rejected.append(f"one of `{name}` is {type(each).__name__}, and should be an object")


def parse_or_clear(value: Any, message: Any, allowance: DecodingBudget, depth: int) -> None:
    """Fill a message, as of a resource; one that cannot be read is as good as none. Raises: TooLarge."""
    try:
        parse_message(value if isinstance(value, dict) else {}, message, allowance, depth)
    except ValueError:
        message.Clear()


def parse_message(given: dict[str, Any], message: Any, allowance: DecodingBudget, depth: int = 4) -> None:
    """Fill a message that holds no ids: its attributes, events, links and values here, where they are counted and take
    a fraction of the time, all else by protobuf's own reader. depth: of the message; without more, a record's.

    Raises: ValueError; TooLarge.
    """
    parsers = _parsers(message)
    rest = {name: value for name, value in given.items() if name not in parsers}
    if rest:
        _parse_rest(rest, message)
    for name in parsers.keys() & given.keys():
        if given[name] is not None:
            parsers[name](given[name], getattr(message, name, None), allowance, depth + 1)


def _parse_rest(given: dict[str, Any], message: Any) -> None:
    """Raises: ValueError."""
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        ParseDict(given, message, ignore_unknown_fields=True)
    except (*_UNREADABLE, ParseError) as error:
        raise ValueError(str(error)) from None


def _parsers(message: Any) -> dict[str, _Parser]:
    """What reads the fields of a message that may hold much, by their names."""
    return _PARSERS[message.DESCRIPTOR.name]


def _listed(value: Any, name: str) -> list[dict[str, Any]]:
    """Raises: ValueError."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"`{name}` is {_shown(value)}, and should be a list")
    return value


def _mapped(value: Any, name: str) -> dict[str, Any]:
    """Raises: ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {_shown(value)}, and should be an object")
    return value


def _shown(value: Any) -> str:
    return f'the text "{value[:40]}"' if isinstance(value, str) else type(value).__name__


def _attributes(value: Any, messages: Any, allowance: DecodingBudget, depth: int) -> None:
    """Raises: ValueError, TooLarge."""
    for each in _listed(value, "attributes"):
        allowance.take()
        _attribute(_mapped(each, "one of `attributes`"), messages.add(), allowance, depth)


def _attribute(given: dict[str, Any], message: Any, allowance: DecodingBudget, depth: int) -> None:
    _check_depth(depth)
    rest = {}
    for name, value in given.items():
        if name == "key" and type(value) is str:
            message.key = value
        elif name == "value" and value is not None:
            message.value.SetInParent()
            _value(value, message.value, allowance, depth + 1)
        elif name in _KEYS:
            rest[name] = value
    if rest:
        _parse_rest(rest, message)


def _value(value: Any, message: Any, allowance: DecodingBudget, depth: int) -> None:
    _check_depth(depth)
    given = _mapped(value, "a value")
    if len(given) == 1:
        ((name, inner),) = given.items()
        is_read = _PLAIN.get((name, type(inner)))
        if is_read is not None and is_read(inner, message):
            return
    kinds = [name for name, inner in given.items() if name in _KINDS and inner is not None]
    if len(kinds) > 1:
        raise ValueError(f"a value is of several kinds: {', '.join(kinds)}")
    rest = {name: given[name] for name in kinds if name not in _NESTED}
    if rest:
        _parse_rest(rest, message)
    for name in kinds:
        if name in _ARRAYS:
            message.array_value.SetInParent()
            for each in _listed(_mapped(given[name], name).get("values"), name):
                allowance.take()
                _value(each, message.array_value.values.add(), allowance, depth + 2)
        elif name in _MAPS:
            message.kvlist_value.SetInParent()
            _attributes(_mapped(given[name], name).get("values"), message.kvlist_value.values, allowance, depth + 2)


def _read_text(value: Any, message: Any) -> bool:
    message.string_value = value
    return True


def _read_bool(value: Any, message: Any) -> bool:
    message.bool_value = value
    return True


def _read_int(value: Any, message: Any) -> bool:
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        return False
    message.int_value = int(value)
    return True


def _read_double(value: Any, message: Any) -> bool:
    if not -_EXACT <= value <= _EXACT:
        return False
    message.double_value = value
    return True


def _read_bytes(value: Any, message: Any) -> bool:
    message.bytes_value = urlsafe_b64decode(value + "=" * (4 - len(value) % 4))
    return True


_PLAIN: Final = {
    ("stringValue", str): _read_text,
    ("boolValue", bool): _read_bool,
    ("intValue", int): _read_int,
    ("intValue", str): _read_int,
    ("doubleValue", float): _read_double,
    ("doubleValue", int): _read_double,
    ("bytesValue", str): _read_bytes,
}
"""Reads a value as nearly all senders write it; False: protobuf's reader should."""


def _events(value: Any, messages: Any, allowance: DecodingBudget, depth: int) -> None:
    for each in _listed(value, "events"):
        allowance.take()
        given, event = _mapped(each, "one of `events`"), messages.add()
        rest = {}
        for name, inner in given.items():
            kind = type(inner)
            if name == "name" and kind is str:
                event.name = inner
            elif name == "timeUnixNano" and (kind is int or (kind is str and inner.isascii() and inner.isdigit())):
                event.time_unix_nano = int(inner)
            elif name == "droppedAttributesCount" and kind is int:
                event.dropped_attributes_count = inner
            elif name == "attributes":
                _attributes(inner, event.attributes, allowance, depth + 1)
            else:
                rest[name] = inner
        if rest:
            _parse_rest(rest, event)


def _links(value: Any, messages: Any, allowance: DecodingBudget, depth: int) -> None:
    """They are counted and left out: nothing reads them."""
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    for each in value if isinstance(value, list) else ():
        allowance.take()
        attributes = each.get("attributes") if isinstance(each, dict) else None
        with suppress(ValueError):
            _attributes(attributes, Span.Link().attributes, allowance, depth + 1)


def _entities(value: Any, messages: Any, allowance: DecodingBudget, depth: int) -> None:
    """They are counted and left out: nothing reads them."""
    allowance.take(len(value) if isinstance(value, list) else 0)


def _check_depth(depth: int) -> None:
    if depth > DEPTH:
        raise ValueError(f"its values nest deeper than {DEPTH} messages; send flatter values")


_PARSERS: Final[dict[str, dict[str, _Parser]]] = {
    "Span": {"attributes": _attributes, "events": _events, "links": _links},
    "LogRecord": {"attributes": _attributes, "body": _value},
    "InstrumentationScope": {"attributes": _attributes},
    "Resource": {"attributes": _attributes, "entityRefs": _entities, "entity_refs": _entities},
}


def id_of(given: dict[str, Any], name: str) -> bytes:
    """An id. Raises: ValueError."""
    value = given.get(name) or ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {type(value).__name__}, and should be a text of hex digits")
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise ValueError(f"{name} is {value[:40]!r}, and should be {_DIGITS[name]} hex digits") from None
