"""Owns where texts stand: several new ones are compressed together, since a text alone hardly becomes smaller.

`content` says for each hash in which bundle its text stands, and at which place. A text that is removed leaves its
place empty; a bundle whose places are all empty is deleted. Bundles are small: who needs one text reads few others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
import sqlalchemy as sa
import zstandard

from ragtrace.errors import CorruptStore
from ragtrace.store.bulk import chunks, insert_new, insert_numbered, look_up
from ragtrace.store.columns import Moment
from ragtrace.store.compression import compress_texts, decompress
from ragtrace.store.tables import bundle, content

__all__ = ["Packed", "Removed", "fetch", "packed", "remove", "write"]

_FULL: Final = 15_900  # bytes of a bundle: a little less than PostgreSQL puts on two pages, in eight pieces
_RATIO: Final = 0.47  # of a bundle's bytes to those of its texts, where none was written before it
_LEAST: Final = 1 / 8  # as which a lower one counts: who needs one text inflates all of its bundle
_PLACES: Final = (content.c.hash, content.c.bundle, content.c.place)
_COLUMNS: Final = (*_PLACES, content.c.touched_at)
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODER: Final = msgspec.msgpack.Decoder(list[bytes | None])


class Removed(NamedTuple):
    """Texts that were removed, and by how many bytes their bundles became smaller."""

    texts: int
    bytes: int


class _Place(NamedTuple):
    hash: bytes
    bundle: int
    place: int


class Packed(NamedTuple):
    """Texts in bundles that have no numbers yet: `places` says of each hash, in order, in which bundle it stands, by
    its index in `bodies`, and where."""

    places: list[tuple[bytes, int, int]]
    bodies: list[bytes]


def packed(texts: Iterable[tuple[bytes, str]]) -> Packed:
    """Texts with their hashes made ready, those that stand together side by side. No lock is needed for that."""
    places: list[tuple[bytes, int, int]] = []
    bodies: list[bytes] = []
    for hashes, body in _bundled(texts):
        places += [(digest, len(bodies), place) for place, digest in enumerate(hashes)]
        bodies.append(body)
    return Packed(sorted(places, key=itemgetter(0)), bodies)


def _bundled(texts: Iterable[tuple[bytes, str]]) -> Iterator[tuple[list[bytes], bytes]]:
    """Each bundle, with the hashes of its texts. How much smaller a bundle will become is told by the one before."""
    hashes: list[bytes] = []
    parts: list[bytes] = []
    size, ratio = 0, _RATIO
    for digest, text in texts:
        part = text.encode("utf-8", "surrogatepass")
        if parts and (size + len(part)) * ratio > _FULL:
            body = _written(parts)
            ratio = max(len(body) / max(size, 1), _LEAST)
            yield hashes, body
            hashes, parts, size = [], [], 0
        hashes.append(digest)
        parts.append(part)
        size += len(part)
    if parts:
        yield hashes, _written(parts)


def write(connection: sa.Connection, texts: Packed, now: int) -> set[bytes]:
    """Store texts, each once: one that is there already stays. Returns the hashes of those that were."""
    if not texts.places:
        return set()
    numbers = _numbers(connection, len(texts.bodies))
    touched = Moment().process_bind_param(now, connection.dialect)
    rows = [(digest, numbers[index], place, touched) for digest, index, place in texts.places]
    bodies = dict(zip(numbers, texts.bodies, strict=True))
    taken: set[bytes] = set()
    if insert_new(connection, _COLUMNS, rows) < len(rows):
        stored = {digest: number for digest, number, _ in _places(connection, [digest for digest, *_ in rows])}
        lost = [row for row in rows if stored.get(row[0]) != row[1]]
        taken = {digest for digest, *_ in lost}
        _leave_out(bodies, [(number, place) for _, number, place, _ in lost])
    insert_numbered(connection, (bundle.c.id, bundle.c.body), sorted(bodies.items()))
    return taken


def _numbers(connection: sa.Connection, count: int) -> Sequence[int]:
    """Numbers of new bundles. In SQLite only this transaction writes."""
    if connection.dialect.name == "sqlite":
        last = connection.scalar(sa.select(sa.func.max(bundle.c.id))) or 0
        return range(last + 1, last + 1 + count)
    following = sa.func.nextval(sa.func.pg_get_serial_sequence(bundle.name, "id"))
    return connection.scalars(sa.select(following).select_from(sa.func.generate_series(1, count))).all()


def _leave_out(bodies: dict[int, bytes], places: Iterable[tuple[int, int]]) -> None:
    """Empty places of texts that another writer has stored meanwhile: nobody would find them to erase them."""
    for number, gone in _by_bundle(places).items():
        rest = _without(number, bodies.pop(number), gone)
        if rest is not None:
            bodies[number] = rest


def fetch(connection: sa.Connection, hashes: Iterable[str]) -> dict[str, str]:
    """The texts of these hashes that are stored. Raises: CorruptStore."""
    wanted: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for each in _places(connection, map(bytes.fromhex, dict.fromkeys(hashes))):
        wanted[each.bundle].append((each.hash.hex(), each.place))
    texts: dict[str, str] = {}
    for number, body in look_up(connection, (bundle.c.id, bundle.c.body), wanted):
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
        places += [(row.bundle, row.place) for row in _places(connection, map(bytes.fromhex, some))]
        connection.execute(sa.delete(content).where(content.c.hash.in_(some)))
    return Removed(len(places), _empty(connection, places))


def _places(connection: sa.Connection, hashes: Iterable[bytes]) -> Iterator[_Place]:
    return (_Place(*row) for row in look_up(connection, _PLACES, hashes))


def _empty(connection: sa.Connection, places: Iterable[tuple[int, int]]) -> int:
    """Take texts out of their bundles; returns the bytes that are saved."""
    gone = _by_bundle(places)
    saved = 0
    for some in chunks(sorted(gone)):
        locked = sa.select(bundle).where(bundle.c.id.in_(some)).order_by(bundle.c.id).with_for_update()
        for number, body in connection.execute(locked).all():
            same = bundle.c.id == number
            rest = _without(number, body, gone[number])
            if rest is None:
                connection.execute(sa.delete(bundle).where(same))
            else:
                connection.execute(sa.update(bundle).where(same).values(body=rest))
            saved += len(body) - len(rest or b"")
    return saved


def _by_bundle(places: Iterable[tuple[int, int]]) -> dict[int, set[int]]:
    found: defaultdict[int, set[int]] = defaultdict(set)
    for number, place in places:
        found[number].add(place)
    return found


def _without(number: int, body: bytes, gone: Collection[int]) -> bytes | None:
    """A bundle with these places empty; None when no text is left."""
    parts = [None if at in gone else part for at, part in enumerate(_parts(number, body))]
    return _written(parts) if any(part is not None for part in parts) else None


def _written(parts: list[bytes] | list[bytes | None]) -> bytes:
    return compress_texts(_ENCODE(parts))


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
