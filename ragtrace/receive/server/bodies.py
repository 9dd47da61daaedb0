"""Reads request bodies within bounds: what is too large, or of a kind that is not read, is refused with its status."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, Iterator
from typing import Final

__all__ = ["LATER", "Refused", "inflated", "received", "unavailable"]

LATER: Final = 5
"""Seconds after which a sender may come back, while the store does not answer."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_STEP: Final = 1 << 20
_SLICE: Final = 64 << 10  # bytes that are given to zlib at once: it copies those that follow a member


class Refused(Exception):
    """A request that is not accepted, with the status and the reason that its sender gets."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


def unavailable(error: Exception) -> Refused:
    """What a sender is told while the store does not answer; the reason may name hosts and stays here."""
    return Refused(503, f"the store does not take it now: {type(error).__name__}", LATER)


async def received(stream: AsyncIterable[bytes], most: int) -> bytes:
    """The whole body. Raises: Refused (413) as soon as it is longer than `most` bytes."""
    parts, size = [], 0
    async for part in stream:
        size += len(part)
        if size > most:
            raise Refused(413, f"the body is larger than {most:,} bytes; send smaller batches")
        parts.append(part)
    return b"".join(parts)


def inflated(body: bytes, encoding: str, most: int, members: int) -> bytes:
    """The body without its content encoding.

    Raises: Refused (413 when it grows beyond `most` bytes, 415, 400; also for a gzip of more than so many members).
    """
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Refused(415, f"content encoding {encoding!r} is not read; send gzip or none")
    parts, size = list[bytes](), 0
    try:
        for part in _parts(body, members):
            size += len(part)
            if size > most:
                raise Refused(413, f"the body is larger than {most:,} bytes when inflated; send smaller batches")
            parts.append(part)
    except zlib.error as error:
        raise Refused(400, f"the body is no gzip: {error}") from None
    return b"".join(parts)


def _parts(body: bytes, most: int) -> Iterator[bytes]:
    """What a gzip holds, which may have several members. Raises: Refused (400), zlib.error."""
    reader, members = zlib.decompressobj(_GZIP), 1
    for at in range(0, len(body), _SLICE):
        rest = body[at : at + _SLICE]
        while rest:
            if reader.eof:
                reader, members = zlib.decompressobj(_GZIP), members + 1
                if members > most:
                    raise Refused(400, f"the body's gzip has more than {most:,} members; compress it in one")
            yield reader.decompress(rest, _STEP)
            rest = reader.unused_data if reader.eof else reader.unconsumed_tail
    if not reader.eof:
        raise Refused(400, "the body's gzip breaks off; send it whole")
