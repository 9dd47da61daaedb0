"""The content of records: each text is stored once, under its hash, and records hold their place in order.

`strip` takes every text out of a record and says, slot by slot, what stood there; `join` puts them back. So a record
comes back exactly as it was, whether or not the host gave hashes of its own. A payload is such a record (or addendum)
as one compressed value, next to the hashes of its texts.

Several new texts are compressed together in a bundle, since a text alone hardly becomes smaller. `content` says for
each hash in which bundle its text stands, and at which place. A text that is removed leaves its place empty; a bundle
whose places are all empty is deleted. Bundles are small: who needs one text reads few others."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa
import zstandard

from ragtrace.errors import CorruptStore
from ragtrace.store.database import Database, chunks, insert_new, insert_numbered, look_up
from ragtrace.store.rows import ServiceTraffic
from ragtrace.store.tables import Moment, bundle, content
from ragtrace.types import (
    Addendum,
    Analysis,
    GenerateRun,
    Gold,
    PackRun,
    RequestRecord,
    RetrieveRun,
    StageRun,
    content_hash,
    decode_addendum,
    decode_record,
    encode_addendum,
    encode_record,
    replace,
)

__all__ = [
    "GRANULARITY",
    "Bundles",
    "Removed",
    "Slots",
    "Texts",
    "bundled",
    "compress",
    "compress_against",
    "decompress",
    "decompress_against",
    "fetch_texts",
    "join",
    "read_addendum",
    "read_analysis",
    "read_gold",
    "read_record",
    "read_slots",
    "read_traffic",
    "remove_texts",
    "strip",
    "texts_of",
    "write_addendum",
    "write_analysis",
    "write_bundles",
    "write_gold",
    "write_record",
    "write_traffic",
]

_LEVEL: Final = 1  # the usual 3 makes records 2 % smaller, and takes a quarter longer
_LEVEL_OF_TEXTS: Final = 2  # 2 % smaller as well; they are most of a store, and stay longest
_WINDOWS: Final = (17, 26)  # logarithms of bytes; a trace has 32 MiB at most
_TABLES: Final = (12, 22)  # logarithms of entries


class _Compressors(threading.local):
    """One of each thread: to make one takes longer than to compress a text, and none serves two threads at once."""

    def __init__(self) -> None:
        self.one = zstandard.ZstdCompressor(level=_LEVEL)
        self.of_texts = zstandard.ZstdCompressor(level=_LEVEL_OF_TEXTS)
        self.back = zstandard.ZstdDecompressor()


_COMPRESSORS: Final = _Compressors()


def compress(body: bytes) -> bytes:
    """Zstandard of `body`."""
    return _COMPRESSORS.one.compress(body)


def _compress_texts(body: bytes) -> bytes:
    """The same of several texts."""
    return _COMPRESSORS.of_texts.compress(body)


def decompress(body: bytes) -> bytes:
    """The reverse of both. Raises: zstandard.ZstdError when the bytes are damaged."""
    return _COMPRESSORS.back.decompress(body)


def compress_against(bodies: Sequence[bytes], known: bytes) -> list[bytes]:
    """Zstandard of each of `bodies`, for one who has `known` as well: what stands in it takes next to nothing."""
    window = (max(map(len, bodies)) + len(known)).bit_length()  # so that all of `known` is within reach,
    table = len(known).bit_length() - 2  # and found: the level's own table would hold the last of it alone
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL,
        window_log=min(max(window, _WINDOWS[0]), _WINDOWS[1]),
        hash_log=min(max(table, _TABLES[0]), _TABLES[1]),
        write_checksum=True,  # else another text in its place would go unnoticed
    )
    one = zstandard.ZstdCompressor(dict_data=_dictionary(known), compression_params=parameters)
    return [one.compress(body) for body in bodies]


def decompress_against(body: bytes, known: bytes) -> bytes:
    """The reverse of `compress_against`. Raises: zstandard.ZstdError when the bytes are damaged, or `known` is
    another."""
    return zstandard.ZstdDecompressor(dict_data=_dictionary(known)).decompress(body)


def _dictionary(known: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(known, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


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


class Bundles(NamedTuple):
    """Texts in bundles that have no numbers yet: `places` says of each hash, in order, in which bundle it stands, by
    its index in `bodies`, and where."""

    places: list[tuple[bytes, int, int]]
    bodies: list[bytes]


def bundled(texts: Iterable[tuple[bytes, str]]) -> Bundles:
    """Texts with their hashes made ready, those that stand together side by side. No lock is needed for that."""
    places: list[tuple[bytes, int, int]] = []
    bodies: list[bytes] = []
    for hashes, body in _each_bundle(texts):
        places += [(digest, len(bodies), place) for place, digest in enumerate(hashes)]
        bodies.append(body)
    return Bundles(sorted(places, key=itemgetter(0)), bodies)


def _each_bundle(texts: Iterable[tuple[bytes, str]]) -> Iterator[tuple[list[bytes], bytes]]:
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


def write_bundles(connection: sa.Connection, texts: Bundles, now: int) -> set[bytes]:
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
        rest = _left_of(number, bodies.pop(number), gone)
        if rest is not None:
            bodies[number] = rest


def fetch_texts(connection: sa.Connection, hashes: Iterable[str]) -> dict[str, str]:
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


def remove_texts(connection: sa.Connection, hashes: Iterable[str]) -> Removed:
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
            rest = _left_of(number, body, gone[number])
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


def _left_of(number: int, body: bytes, gone: Collection[int]) -> bytes | None:
    """A bundle with these places empty; None when no text is left."""
    parts = [None if at in gone else part for at, part in enumerate(_parts(number, body))]
    return _written(parts) if any(part is not None for part in parts) else None


def _written(parts: list[bytes] | list[bytes | None]) -> bytes:
    return _compress_texts(_ENCODE(parts))


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


GRANULARITY: Final = 3600
"""Seconds for which a text that was used counts as just used, so that a text that all requests share is not written
with each of them."""

_MANY: Final = 200  # texts; fewer are compressed sooner than looked up

Slots = tuple[str | None, ...]
Staged = TypeVar("Staged", RequestRecord, Addendum)


class _Hashes(dict[str, str]):
    """The hash of each text that was asked for."""

    def __missing__(self, text: str) -> str:
        found = self[text] = content_hash(text)
        return found


@dataclass(slots=True)
class Texts:
    """The texts of one batch of records, each once."""

    hashes: dict[str, str] = field(default_factory=_Hashes)
    _prepared: tuple[Bundles, list[tuple[bytes, str]]] | None = field(default=None, init=False)

    def prepare(self, database: Database) -> None:
        """Compress the texts that seem to be new, before SQLite's write lock is taken, for which all others wait.

        `store` relies on none of what is found here. PostgreSQL's writers do not wait for each other, and few texts are
        compressed sooner than looked up.
        """
        if not database.address.is_sqlite or len(self.hashes) < _MANY:
            return
        texts = self._hashed()
        with database.read() as connection:
            hashes = sorted([digest for digest, _ in texts])
            there = {digest for (digest,) in look_up(connection, (content.c.hash,), hashes)}
        known = [each for each in texts if each[0] in there] if there else []
        self._prepared = bundled(_without(texts, there)), known

    def _hashed(self) -> list[tuple[bytes, str]]:
        return list(zip(map(bytes.fromhex, self.hashes.values()), self.hashes, strict=True))

    def store(self, connection: sa.Connection, now: float | None = None) -> None:
        """Insert the texts that the content table does not have, and note of the others that they are used.

        What nobody uses is deleted by `ragtrace.store._space`, beside writers that use it again. So a text that was
        last used more than `GRANULARITY` ago is locked and touched first; one that was deleted between the look and the
        lock is inserted again. One that was used since is left alone: it is not deleted within a day, or, where it is
        erased, not before this transaction has ended.

        Which case a text is can change until this transaction begins, so all are looked up in it, except those that
        were prepared as new: these are inserted, and looked up where somebody else has stored them since.
        """
        moment = int(time.time() if now is None else now)
        new, texts = self._prepared or (None, self._hashed())
        used = _used(connection, sorted([digest for digest, _ in texts]), moment)
        if new is not None:
            late = write_bundles(connection, new, moment)
            _used(connection, sorted(late), moment)
        if len(used) < len(texts):
            write_bundles(connection, bundled(_without(texts, used)), moment)


def _without(texts: list[tuple[bytes, str]], hashes: Collection[bytes]) -> list[tuple[bytes, str]]:
    return [each for each in texts if each[0] not in hashes] if hashes else texts


def _used(connection: sa.Connection, hashes: Sequence[bytes], now: int) -> set[bytes]:
    """Those of these texts that are there, and will be when this transaction ends; in order, so that two writers never
    wait for each other."""
    fresh: set[bytes] = set()
    stale: list[str] = []
    for digest, touched_at in sorted(look_up(connection, (content.c.hash, content.c.touched_at), hashes)):
        if touched_at > now - GRANULARITY:
            fresh.add(digest)
        else:
            stale.append(digest.hex())
    for some in chunks(stale):
        there = sa.select(content.c.hash).where(content.c.hash.in_(some)).order_by(content.c.hash).with_for_update()
        locked = connection.scalars(there).all()
        connection.execute(sa.update(content).where(content.c.hash.in_(locked)).values(touched_at=now))
        fresh.update(map(bytes.fromhex, locked))
    return fresh


def strip(record: Staged, texts: Texts) -> tuple[Staged, Slots]:
    """The record (or addendum) without its texts, and the hash of the text that stood in each slot (None: none did)."""
    hashes = texts.hashes
    slots = tuple([None if text is None else hashes[text] for text in texts_of(record)])
    return replace(record, stages=tuple(map(_bare_run, record.stages))), slots


def texts_of(record: Staged) -> Iterator[str | None]:
    """The text that stands in each slot."""
    for run in record.stages:
        if isinstance(run, RetrieveRun):
            yield from [part.text for part in run.candidates]
        elif isinstance(run, PackRun):
            yield from [part.text for part in run.packing.chunks]
        elif isinstance(run, GenerateRun):
            yield run.generation.answer


def _bare_run(run: StageRun) -> StageRun:
    if isinstance(run, RetrieveRun):
        return replace(run, candidates=_bare(run.candidates))
    if isinstance(run, PackRun):
        return replace(run, packing=replace(run.packing, chunks=_bare(run.packing.chunks)))
    if isinstance(run, GenerateRun):
        return replace(run, generation=replace(run.generation, answer=None))
    return run


def _bare(parts: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([part if part.text is None else replace(part, text=None) for part in parts])


def join(record: Staged, slots: Slots, texts: Mapping[str, str]) -> Staged:
    """The record (or addendum) with its texts back in their slots."""
    following = iter(slots)
    return replace(record, stages=tuple(_join_run(run, following, texts) for run in record.stages))


def _join_run(run: StageRun, slots: Iterator[str | None], texts: Mapping[str, str]) -> StageRun:
    if isinstance(run, RetrieveRun):
        return replace(run, candidates=_full(run.candidates, slots, texts))
    if isinstance(run, PackRun):
        return replace(run, packing=replace(run.packing, chunks=_full(run.packing.chunks, slots, texts)))
    if isinstance(run, GenerateRun):
        digest = next(slots)
        answer = None if digest is None else texts.get(digest)
        return replace(run, generation=replace(run.generation, answer=answer))
    return run


def _full(parts: Sequence[Any], slots: Iterator[str | None], texts: Mapping[str, str]) -> tuple[Any, ...]:
    digests = [next(slots) for _ in parts]
    return tuple(
        part if digest is None else replace(part, text=texts.get(digest))
        for part, digest in zip(parts, digests, strict=True)
    )


class _Payload(msgspec.Struct, frozen=True):
    record: msgspec.Raw
    texts: Slots


class _Slots(msgspec.Struct, frozen=True):
    texts: Slots


_ENCODER: Final = msgspec.json.Encoder()
_PAYLOADS: Final = msgspec.json.Decoder(_Payload)
_SLOTS: Final = msgspec.json.Decoder(_Slots)
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
