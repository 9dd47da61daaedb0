"""Owns the payload: a record (or addendum) as one compressed value, next to the hashes of its texts."""

from __future__ import annotations

from typing import Final

import msgspec
import zstandard

from ragtrace.errors import CorruptStore
from ragtrace.store.compression import compress, decompress
from ragtrace.store.content import Slots
from ragtrace.store.rows import ServiceTraffic
from ragtrace.types import (
    Addendum,
    Analysis,
    Gold,
    RequestRecord,
    decode_addendum,
    decode_record,
    encode_addendum,
    encode_record,
    replace,
)

__all__ = [
    "read_addendum",
    "read_analysis",
    "read_gold",
    "read_record",
    "read_slots",
    "read_traffic",
    "write_addendum",
    "write_analysis",
    "write_gold",
    "write_record",
    "write_traffic",
]


class _Payload(msgspec.Struct, frozen=True):
    record: msgspec.Raw
    texts: Slots


class _Texts(msgspec.Struct, frozen=True):
    texts: Slots


_ENCODER: Final = msgspec.json.Encoder()
_PAYLOADS: Final = msgspec.json.Decoder(_Payload)
_SLOTS: Final = msgspec.json.Decoder(_Texts)
_ANALYSES: Final = msgspec.json.Decoder(Analysis)
_GOLDS: Final = msgspec.json.Decoder(Gold)
_COUNTS: Final = msgspec.msgpack.Encoder()
_TRAFFIC: Final = msgspec.msgpack.Decoder(ServiceTraffic)


def write_record(record: RequestRecord, texts: Slots) -> bytes:
    """The payload of a record without its texts. Raises: RecordError."""
    return _write(encode_record(record), texts)


def read_record(request_id: str, payload: bytes) -> tuple[RequestRecord, Slots]:
    """The reverse of `write_record`. Raises: CorruptStore, RecordError (a record of a newer schema version)."""
    body, texts = _read(f"record {request_id!r}", payload)
    return decode_record(body), texts


def read_slots(identity: str, payload: bytes) -> Slots:
    """The hashes of the texts of a record or an addendum, without reading it. Raises: CorruptStore."""
    try:
        return _SLOTS.decode(decompress(payload)).texts
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise _damaged(f"record or addendum {identity!r}", error) from error


def write_addendum(addendum: Addendum, texts: Slots) -> bytes:
    """The payload of an addendum without its texts. Raises: RecordError."""
    return _write(encode_addendum(addendum), texts)


def read_addendum(addendum_id: str, payload: bytes) -> tuple[Addendum, Slots]:
    """The reverse of `write_addendum`. Raises: CorruptStore, RecordError."""
    body, texts = _read(f"addendum {addendum_id!r}", payload)
    return decode_addendum(body), texts


def _write(body: bytes, texts: Slots) -> bytes:
    return compress(_ENCODER.encode(_Payload(msgspec.Raw(body), texts)))


def _read(what: str, payload: bytes) -> tuple[bytes, Slots]:
    try:
        read = _PAYLOADS.decode(decompress(payload))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise _damaged(what, error) from error
    return bytes(read.record), read.texts


def write_analysis(analysis: Analysis) -> bytes:
    """An analysis as it is stored."""
    return compress(_ENCODER.encode(analysis))


def read_analysis(body: bytes) -> Analysis:
    """The reverse of `write_analysis`, with the verdicts of today in those before version 8. Raises: CorruptStore."""
    try:
        analysis = _ANALYSES.decode(decompress(body))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise _damaged("an analysis", error) from error
    found = analysis.diagnosis
    if found.verdict != "undetermined":
        return analysis
    verdict = "error" if found.cause == "error" else "no_break_found"
    return replace(analysis, diagnosis=replace(found, verdict=verdict))


def write_gold(gold: Gold) -> bytes:
    """A gold set as it is stored."""
    return compress(_ENCODER.encode(gold))


def read_gold(body: bytes) -> Gold:
    """The reverse of `write_gold`. Raises: CorruptStore."""
    try:
        return _GOLDS.decode(decompress(body))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise _damaged("a gold set", error) from error


def write_traffic(traffic: ServiceTraffic) -> bytes:
    """What a service usually returns as it is stored."""
    return compress(_COUNTS.encode(traffic))


def read_traffic(body: bytes) -> ServiceTraffic:
    """The reverse of `write_traffic`. Raises: CorruptStore."""
    try:
        return _TRAFFIC.decode(decompress(body))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise _damaged("what a service usually returns", error) from error


def _damaged(what: str, error: Exception) -> CorruptStore:
    return CorruptStore(f"{what} cannot be read: {error}; restore the database from a copy")
