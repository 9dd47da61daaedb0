"""What is compressed comes back, and a text that is known to both sides takes next to nothing."""

from __future__ import annotations

from random import Random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.store.content import compress, compress_against, decompress, decompress_against

PIECE = st.one_of(st.binary(max_size=50), st.binary(min_size=200, max_size=2_000))


def words(size: int, seed: int = 1) -> bytes:
    """Text that is not repeated."""
    return Random(seed).randbytes(size * 2 // 3).hex()[:size].encode()


@given(st.lists(PIECE, min_size=1, max_size=5), st.lists(PIECE, max_size=5), st.randoms())
def test_round_trip(bodies: list[bytes], texts: list[bytes], draw: Random) -> None:
    """Whatever the bodies share with what is known: nothing, pieces, or all of it; neither need hold anything."""
    known = b"".join(texts)
    mixed = [*bodies, b"".join(draw.sample([*bodies, *texts], k=len(bodies) + len(texts)))]
    assert [decompress_against(each, known) for each in compress_against(mixed, known)] == mixed
    assert [decompress(compress(each)) for each in mixed] == mixed


@pytest.mark.parametrize("size", [2_000, 300_000, 3_000_000])
def test_all_that_is_known_is_found(size: int) -> None:
    """Of a large trace too, whose texts are further apart than Zstandard looks by itself, and more than it notes."""
    known = words(size)
    body = words(500, seed=2) + known + known
    (packed,) = compress_against([body], known)
    assert len(packed) < 600 + size // 100
    assert decompress_against(packed, known) == body


def test_another_text_in_its_place_is_noticed() -> None:
    """It is an error, and no other body."""
    (packed,) = compress_against([words(500)], words(500))
    with pytest.raises(zstandard.ZstdError):
        decompress_against(packed, words(500, seed=2))
