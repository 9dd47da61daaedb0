"""Bodies within bounds."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, strategies as st

from ragtrace.receive import _bodies as bodies
from ragtrace.receive._bodies import Refused, inflated, received
from ragtrace.receive._limits import ReceiverLimits

MEMBERS = ReceiverLimits().members


def read(parts: list[bytes], most: int) -> bytes:
    """What is received of these parts."""

    async def stream() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return asyncio.run(received(stream(), most))


def test_received() -> None:
    """All of it, up to the bound; beyond, the rest is not even read."""
    assert read([b"ab", b"c"], 3) == b"abc"
    with pytest.raises(Refused) as refused:
        read([b"ab", b"cd"], 3)
    assert refused.value.status == 413


@given(st.binary(max_size=5_000))
def test_inflated(body: bytes) -> None:
    """gzip, and none."""
    assert inflated(gzip.compress(body), "gzip", 5_000, MEMBERS) == body
    assert inflated(body, "", 0, MEMBERS) == body


def test_bomb() -> None:
    """48 kB that would become 50 MB are refused before they are."""
    bomb = gzip.compress(bytes(50_000_000))

    assert len(bomb) < 60_000
    with pytest.raises(Refused, match="larger than 1,000,000 bytes when inflated") as refused:
        inflated(bomb, "gzip", 1_000_000, MEMBERS)
    assert refused.value.status == 413


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (b"x", "br", 415),
        (b"no gzip", "gzip", 400),
        (gzip.compress(b"hello", mtime=0)[:-9], "gzip", 400),
        (b"", "gzip", 400),
    ],
)
def test_refused(body: bytes, encoding: str, status: int) -> None:
    """What is no gzip, or breaks off, or is encoded otherwise."""
    with pytest.raises(Refused) as refused:
        inflated(body, encoding, 1_000, MEMBERS)
    assert refused.value.status == status


@given(st.binary(max_size=300))
def test_any_bytes(body: bytes) -> None:
    """Bytes that are no gzip are refused, and nothing else."""
    try:
        size = len(inflated(body, "gzip", 10_000, MEMBERS))
    except Refused:
        size = 0
    assert size <= 10_000


def test_members() -> None:
    """A gzip of several members is read to its end, and its bound holds for all of them."""
    body = gzip.compress(b"first ") + gzip.compress(b"second")

    assert inflated(body, "gzip", 12, MEMBERS) == b"first second"
    with pytest.raises(Refused) as refused:
        inflated(body, "gzip", 11, MEMBERS)
    assert refused.value.status == 413
    with pytest.raises(Refused) as refused:
        inflated(body[:-3], "gzip", 12, MEMBERS)
    assert refused.value.status == 400


def test_many_members() -> None:
    """Each has its own decompressor; those of a hostile sender hold nothing."""
    member = gzip.compress(b"")

    assert inflated(member * MEMBERS, "gzip", 1, MEMBERS) == b""
    with pytest.raises(Refused, match="more than 1,000 members") as refused:
        inflated(member * 100_000, "gzip", 1, MEMBERS)
    assert refused.value.status == 400


@given(st.integers(0, 3), st.binary(max_size=40))
def test_longer_than_a_slice(before: int, body: bytes) -> None:
    """Wherever a slice of the body ends: within a member, at its end, within the next one's head."""
    filler = gzip.compress(b"x" * (bodies._SLICE - 23 - before), compresslevel=0)
    sent = filler + gzip.compress(body)

    assert inflated(sent, "gzip", 1 << 20, MEMBERS) == b"x" * (bodies._SLICE - 23 - before) + body
