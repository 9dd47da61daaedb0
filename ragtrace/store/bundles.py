"""Owns where texts stand: several new ones are compressed together, since a text alone hardly becomes smaller.

`content` says for each hash in which bundle its text stands, and at which place. A text that is removed leaves its
place empty; a bundle whose places are all empty is deleted. Bundles are small: who needs one text reads few others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import sqlalchemy as sa
import zstandard

from ragtrace.errors import CorruptStore
from ragtrace.store.bulk import chunks, insert_new
from ragtrace.store.compression import compress, decompress
from ragtrace.store.tables import bundle, content

__all__ = ["Removed", "fetch", "remove", "write"]

_SIZE: Final = 16 << 10  # bytes of texts from which on a bundle is full
_PLACES: Final = (content.c.hash, content.c.bundle, content.c.place)
_COLUMNS: Final = (*_PLACES, content.c.touched_at)
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODER: Final = msgspec.msgpack.Decoder(list[bytes | None])


class Removed(NamedTuple):
    """Texts that were removed, and by how many bytes their bundles became smaller."""

    texts: int
    bytes: int


class _Place(NamedTuple):
    hash: str
    bundle: int
    place: int


def write(connection: sa.Connection, texts: Mapping[str, str], now: int) -> None:
    """Store texts under their hashes, those that stand together side by side; one that is there already stays."""
    bundles = list(_bundled(texts))
    if not bundles:
        return
    numbers = _numbers(connection, len(bundles))
    bodies = [(number, _written(parts.values())) for number, parts in zip(numbers, bundles, strict=True)]
    insert_new(connection, (bundle.c.id, bundle.c.body), bodies)
    rows = sorted(
        (bytes.fromhex(digest), number, place, now)
        for number, parts in zip(numbers, bundles, strict=True)
        for place, digest in enumerate(parts)
    )
    if insert_new(connection, _COLUMNS, rows) < len(rows):
        _give_up(connection, rows)


def _bundled(texts: Mapping[str, str]) -> Iterator[dict[str, bytes]]:
    parts: dict[str, bytes] = {}
    size = 0
    for digest, text in texts.items():
        parts[digest] = text.encode("utf-8", "surrogatepass")
        size += len(parts[digest])
        if size >= _SIZE:
            yield parts
            parts, size = {}, 0
    if parts:
        yield parts


def _numbers(connection: sa.Connection, count: int) -> Sequence[int]:
    """Numbers of new bundles. In SQLite only this transaction writes."""
    if connection.dialect.name == "sqlite":
        last = connection.scalar(sa.select(sa.func.max(bundle.c.id))) or 0
        return range(last + 1, last + 1 + count)
    following = sa.func.nextval(sa.func.pg_get_serial_sequence(bundle.name, "id"))
    return connection.scalars(sa.select(following).select_from(sa.func.generate_series(1, count))).all()


def _give_up(connection: sa.Connection, rows: Sequence[tuple[bytes, int, int, int]]) -> None:
    """Empty the places of texts that another writer has stored meanwhile: nobody would find them to erase them."""
    stored = {row.hash: row.bundle for row in _places(connection, [digest.hex() for digest, *_ in rows])}
    _empty(connection, [(number, place) for digest, number, place, _ in rows if stored.get(digest.hex()) != number])


def fetch(connection: sa.Connection, hashes: Iterable[str]) -> dict[str, str]:
    """The texts of these hashes that are stored. Raises: CorruptStore."""
    wanted: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for digest, number, place in _places(connection, dict.fromkeys(hashes)):
        wanted[number].append((digest, place))
    texts: dict[str, str] = {}
    for some in chunks(wanted):
        for number, body in connection.execute(sa.select(bundle).where(bundle.c.id.in_(some))):
            parts = _parts(number, body)
            for digest, place in wanted[number]:
                part = parts[place] if place < len(parts) else None
                if part is not None:
                    texts[digest] = _text(digest, part)
    return texts


def remove(connection: sa.Connection, hashes: Iterable[str]) -> Removed:
    """Delete the texts of these hashes. Their rows of `content` should be locked, in order."""
    places: list[tuple[int, int]] = []
    for some in chunks(sorted(hashes)):
        places += [(row.bundle, row.place) for row in _places(connection, some)]
        connection.execute(sa.delete(content).where(content.c.hash.in_(some)))
    return Removed(len(places), _empty(connection, places))


def _places(connection: sa.Connection, hashes: Iterable[str]) -> Iterator[_Place]:
    for some in chunks(hashes):
        yield from (_Place(*row) for row in connection.execute(sa.select(*_PLACES).where(content.c.hash.in_(some))))


def _empty(connection: sa.Connection, places: Iterable[tuple[int, int]]) -> int:
    """Take texts out of their bundles; returns the bytes that are saved."""
    gone: defaultdict[int, set[int]] = defaultdict(set)
    for number, place in places:
        gone[number].add(place)
    saved = 0
    for some in chunks(sorted(gone)):
        locked = sa.select(bundle).where(bundle.c.id.in_(some)).order_by(bundle.c.id).with_for_update()
        for number, body in connection.execute(locked).all():
            parts = [None if at in gone[number] else part for at, part in enumerate(_parts(number, body))]
            same = bundle.c.id == number
            if any(part is not None for part in parts):
                written = _written(parts)
                connection.execute(sa.update(bundle).where(same).values(body=written))
                saved += len(body) - len(written)
            else:
                connection.execute(sa.delete(bundle).where(same))
                saved += len(body)
    return saved


def _written(parts: Iterable[bytes | None]) -> bytes:
    return compress(_ENCODE(list(parts)))


def _parts(number: int, body: bytes) -> list[bytes | None]:
    try:
        return _DECODER.decode(decompress(body))
    except (zstandard.ZstdError, msgspec.MsgspecError) as error:
        raise CorruptStore(f"bundle {number} of texts is damaged ({error}); restore the database from a backup") from (
            error
        )


def _text(digest: str, part: bytes) -> str:
    try:
        return part.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptStore(
            f"the stored text {digest} is damaged ({error}); restore the database from a backup"
        ) from error
