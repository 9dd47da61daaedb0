"""Texts stand several in a bundle; one that is removed leaves nothing of itself, and what is compressed comes back."""

from __future__ import annotations

import random
from random import Random

import pytest
import sqlalchemy as sa
import zstandard
from hypothesis import given, strategies as st

from ragtrace.errors import CorruptStore, StoreUnavailable
from ragtrace.store import Store
from ragtrace.store._content import (
    Bundles,
    bundled,
    compress,
    compress_against,
    decompress,
    decompress_against,
    fetch_texts,
    remove_texts,
    write_bundles,
)
from ragtrace.store.tables import bundle, content
from ragtrace.types import content_hash

NOW = 1_700_000_000


def _texts(count: int, size: int = 900, seed: int = 1) -> dict[str, str]:
    draw = random.Random(seed)
    texts = [
        " ".join(draw.choice(["tariff", "of", "copper", "ü", "7"]) for _ in range(size // 6)) for _ in range(count)
    ]
    return {content_hash(text): text for text in texts}


def _packed(texts: dict[str, str]) -> Bundles:
    return bundled((bytes.fromhex(digest), text) for digest, text in texts.items())


def _write(store: Store, texts: dict[str, str]) -> None:
    with store._database.write() as connection:
        write_bundles(connection, _packed(texts), NOW)


def _fetch(store: Store, hashes: list[str]) -> dict[str, str]:
    with store._database.read() as connection:
        return fetch_texts(connection, hashes)


def _bodies(store: Store) -> dict[int, bytes]:
    with store._database.read() as connection:
        return {row.id: decompress(row.body) for row in connection.execute(sa.select(bundle))}


def _impatient(store: Store) -> None:
    with store._database.write() as connection:
        connection.execute(sa.text("SET LOCAL lock_timeout = '100ms'"))
        write_bundles(connection, _packed(_texts(40)), NOW)


@pytest.mark.parametrize("count", [1, 3, 200])
def test_each_text_is_found_again(store: Store, count: int) -> None:
    """A few rows go in one by one, many by COPY on PostgreSQL."""
    texts = _texts(count) | {content_hash("\ud800 half"): "\ud800 half", content_hash(""): ""}
    _write(store, texts)
    assert _fetch(store, [*texts, "0" * 32]) == texts
    assert 1 <= len(_bodies(store)) <= 2 + sum(len(text) for text in texts.values()) // 8_000


def test_what_is_there_already_stays(store: Store) -> None:
    """A text is stored once; a bundle that came too late for one of its texts keeps no copy of it."""
    first, both = _texts(2), _texts(4)
    _write(store, first)
    _write(store, both)
    assert _fetch(store, list(both)) == both
    for text in first.values():
        assert sum(text.encode() in body for body in _bodies(store).values()) == 1
    _write(store, both)
    assert len(_bodies(store)) == 2


def test_a_removed_text_is_gone_and_its_neighbors_stay(store: Store) -> None:
    """Its place is empty, so that others are found where they were."""
    texts = _texts(5)
    _write(store, texts)
    gone = list(texts)[1:3]
    with store._database.write() as connection:
        removed = remove_texts(connection, [*gone, "0" * 32])
    assert removed.texts == 2
    assert removed.bytes > 0
    assert _fetch(store, list(texts)) == {digest: text for digest, text in texts.items() if digest not in gone}
    assert not any(texts[digest].encode() in body for digest in gone for body in _bodies(store).values())


def test_a_bundle_without_texts_is_deleted(store: Store) -> None:
    """Nothing is left of texts that were all removed, and they can be stored again."""
    texts = _texts(60)
    _write(store, texts)
    with store._database.write() as connection:
        assert remove_texts(connection, texts).texts == 60
    assert (_bodies(store), store.counts()["content"], _fetch(store, list(texts))) == ({}, 0, {})
    _write(store, texts)
    assert _fetch(store, list(texts)) == texts


@pytest.mark.parametrize("body", [b"x", b""])
def test_a_damaged_bundle_is_named(store: Store, body: bytes) -> None:
    """Its texts cannot be read, and others can."""
    first, second = _texts(2), _texts(2, seed=2)
    _write(store, first)
    _write(store, second)
    with store._database.write() as connection:
        number = connection.scalar(sa.select(content.c.bundle).where(content.c.hash == next(iter(first))))
        connection.execute(sa.update(bundle).where(bundle.c.id == number).values(body=body))
    with pytest.raises(CorruptStore, match=f"bundle {number} .*restore the database"):
        _fetch(store, list(first))
    assert _fetch(store, list(second)) == second


def test_trouble_while_many_rows_go_in_is_the_databases(url: str) -> None:
    """Not the record's, which would be set aside as one that cannot be stored."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite takes rows without COPY")
    with Store.open(url) as store, Store.open(url) as other, other._database.write() as connection:
        connection.execute(sa.text("LOCK TABLE content IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(StoreUnavailable):
            _impatient(store)


@pytest.mark.parametrize("alphabet", ["ab", "abcdefghijklmnopqrstuvwxyz012345"])
def test_bundles_are_alike_in_size(alphabet: str) -> None:
    """However much smaller their texts become, but for the last ones; none must be inflated for long."""
    draw = random.Random(3)
    texts = ["".join(draw.choices(alphabet, k=700)) for _ in range(900)]
    bodies = bundled((bytes.fromhex(content_hash(text)), text) for text in texts).bodies
    assert all(14_000 < len(body) < 17_000 for body in bodies[1:-1])
    assert len(bodies) > 3
    same = bundled((bytes.fromhex(content_hash(str(number))), "a" * 700) for number in range(900)).bodies
    assert all(len(decompress(body)) < 140_000 for body in same)


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
