"""The spool: files on disk for what is accepted and not in the store yet.

Each process writes segments of its own, each held under `flock` while the process lives; so a segment that can be
locked belongs to a dead process and is adopted by the next that starts. Once written, an entry survives `kill -9`;
a power loss can take what was written since the last `sync` (one background cycle). The file format: entries of magic,
length, CRC-32 and the JSON of one tagged item, or MessagePack of a request as it was taken.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import struct
import tempfile
import uuid
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from ragtrace.config import variable
from ragtrace.errors import RecordError
from ragtrace.record import TakenReader, write_taken
from ragtrace.types import (
    Addendum,
    Fault,
    Feedback,
    Item,
    RequestRecord,
    SourceReport,
    TakenRequest,
    decode_addendum,
    decode_record,
    encode_addendum,
    encode_record,
)

__all__ = [
    "HANDED",
    "Spool",
    "SpoolFile",
    "decode_entry",
    "default_folder",
    "encode_entries",
    "encode_entry",
    "fallback_folder",
    "handed_folder",
    "lock_segment",
    "read_entries",
    "segment_paths",
]

MAGIC: Final = b"\xabRT\x01"  # stands in no payload, so that reading finds its place again behind a damaged entry
_ESCAPE: Final = b"\xabRT\x02"  # in MessagePack, whose texts may say anything, both have another byte behind them
_HEADER: Final = struct.Struct(">4sII")
_KINDS: Final[dict[type, str]] = {
    RequestRecord: "request",
    Addendum: "addendum",
    Feedback: "feedback",
    Fault: "fault",
    SourceReport: "source_report",
}
_PLAIN: Final[dict[str, type[Item]]] = {_KINDS[kind]: kind for kind in (Feedback, Fault, SourceReport)}
_LOG: Final = logging.getLogger("ragtrace")
_SUFFIX: Final = ".seg"
_HOST: Final = re.compile(r"(\[[^\]]*\]|[^:/]*)(?::(\d+))?")
_TRIES: Final = 8
_PIECE: Final = 32 * 2**10  # bytes that are written at once, or one entry
SEGMENT_BYTES: Final = 16 * 2**20
HANDED: Final = "handed"
"""The folder of what an application has handed over to `ragtrace build`."""
_REMEDY: Final = f"name a folder that this process can write with configure(spool=) or {variable('spool')}"
NO_FOLDER: Final = f"there is no spool folder; {_REMEDY}"
"""What an error says without one."""
_ADOPTED: Final = 64  # segments of dead processes that are open at the same time


def default_folder(store: str, given: str | None = None) -> Path:
    """Where the spool of a store lies: under `given`, else beside the SQLite file, else in the temporary folder."""
    if given is not None:
        return Path(given) / _name(store)  # two stores that share a folder must not adopt each other's records
    file = _sqlite_file(store)
    return fallback_folder(store) if file is None else file.with_name(f"{file.name}.spool")


def fallback_folder(store: str) -> Path:
    """Where the spool of a store lies while its own folder cannot be used."""
    return Path(tempfile.gettempdir()) / f"ragtrace-spool-{os.getuid()}-{_name(store)}"


def handed_folder(folder: Path) -> Path:
    """It, in a spool's folder."""
    return folder / HANDED


def _name(store: str) -> str:
    """A short name for a database: another for each, the same however its address is spelled and whoever logs in."""
    file = _sqlite_file(store)
    database = _server_database(store) if file is None else os.path.abspath(file)
    return hashlib.blake2b(database.encode(), digest_size=8).hexdigest()


def _server_database(url: str) -> str:
    """What tells a PostgreSQL database from others: servers, name, and options, such as its search path. Each may stand
    in the query; a port is 5432 where none is given, and a database has its user's name."""
    parts = urlsplit(url)
    query = {key: ",".join(values) for key, values in parse_qs(parts.query).items()}
    login, _, place = parts.netloc.rpartition("@")
    user = query.get("user") or unquote(login.partition(":")[0])
    name = query.get("dbname") or unquote(parts.path).strip("/") or user
    hosts, ports = (query.get("host") or unquote(place)).lower().split(","), query.get("port", "").split(",")
    servers = [_server(host, port) for host, port in zip(hosts, ports * len(hosts), strict=False)]
    return repr((servers, name, query.get("service"), query.get("options")))


def _server(place: str, port: str) -> tuple[str, str]:
    """A host, or the folder of a socket, with its port."""
    found = _HOST.fullmatch(place)
    host, own = (place, None) if found is None else found.groups()
    return host.strip("[]"), own or port or "5432"


def _sqlite_file(store: str) -> Path | None:
    scheme, _, rest = store.partition("://")
    return Path(rest.partition("?")[0].removeprefix("/")) if scheme.startswith("sqlite") else None


class SpoolFile:
    """One file of entries, locked by this process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.is_own = False  # written here, so that it ends with a whole entry
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        _open_files.add(self)

    def append(self, *entries: bytes) -> None:
        """Write entries whole. Raises: OSError; nothing of them is then left in the file."""
        size = self.size
        try:
            for piece in _pieces(entries):
                written = 0
                while written < len(piece):
                    written += os.write(self._descriptor, piece[written:])
                size += len(piece)
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size = size

    def sync(self) -> None:
        """Bring what was written to the disk itself. Raises: OSError."""
        os.fsync(self._descriptor)

    @property
    def modified_at(self) -> int:
        """When it was last written, Unix nanoseconds."""
        return os.fstat(self._descriptor).st_mtime_ns

    @property
    def is_there(self) -> bool:
        """Whether nobody has deleted the file."""
        return os.fstat(self._descriptor).st_nlink > 0

    def take(self, other: SpoolFile) -> None:
        """Bring what another one holds to this one and to the disk itself. Raises: OSError."""
        self.append(other.path.read_bytes())
        self.sync()

    def entries(self) -> Iterator[SpoolEntry]:
        """What the file holds. Raises: OSError."""
        return read_entries(self.path.read_bytes())

    def remove(self) -> None:
        """Delete the file: all of it is in the store. Raises: OSError."""
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Let go of the file and its lock, once; it stays for another process."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _pieces(entries: Sequence[bytes]) -> Iterator[bytes]:
    """What is written at once: some of the entries. All of a batch would be memory that is new each time."""
    piece: list[bytes] = []
    size = 0
    for entry in entries:
        piece.append(entry)
        size += len(entry)
        if size >= _PIECE:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def _release_all() -> None:
    """In a forked child: a descriptor that it inherits holds the lock for as long as it lives, also when the parent has
    let go of the file, and nobody else could store what is in it."""
    for file in tuple(_open_files):
        file.release()


_open_files: Final[weakref.WeakSet[SpoolFile]] = weakref.WeakSet()
os.register_at_fork(after_in_child=_release_all)


class Lane:
    """The segment that one writer appends to; a full one is sealed into the spool's pending ones."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._segment: SpoolFile | None = None

    @property
    def size(self) -> int:
        """Bytes in the open segment."""
        return self._segment.size if self._segment is not None else 0

    def append(self, entry: bytes) -> None:
        """Add an entry. Raises: OSError."""
        if self.size >= SEGMENT_BYTES:
            self.seal()
        if self._segment is None:
            self._segment = self._spool.new_segment()
        self._segment.append(entry)

    def seal(self) -> None:
        """Close the segment for writing and put it among the pending ones."""
        if self._segment is not None:
            self._spool.pending.append(self._segment)
            self._segment = None


class Spool:
    """The folder of segments; without a usable folder every `append` raises OSError.

    `durable` is written by the host's threads (one at a time), `samples` and `pending` by the storing thread.
    """

    def __init__(self, folder: Path | None, elsewhere: tuple[Path, ...] = ()) -> None:
        self.folder = folder
        self._elsewhere = elsewhere
        self.durable = Lane(self)
        self.samples = Lane(self)
        self.pending: list[SpoolFile] = []
        self.has_more = False  # segments of dead processes that wait until others are stored

    @classmethod
    def open(cls, folder: Path, store: str) -> Spool:
        """The spool in `folder`, or with a warning in the temporary folder, or with one nowhere."""
        fallback = fallback_folder(store)
        for chosen in dict.fromkeys((folder, fallback)):
            try:
                _prepare(chosen, is_shared=chosen == fallback)
            except OSError as error:
                memory = f"what cannot be stored at once waits in memory only; {_REMEDY}"
                then = f"{fallback} is used instead" if chosen != fallback else memory
                _LOG.warning("spool folder %s cannot be used (%s); %s", chosen, error.strerror or error, then)
            else:
                return cls(chosen.absolute(), (fallback,) if chosen != fallback else ())
        return cls(None)

    @property
    def size(self) -> int:
        """Bytes that wait for the store."""
        return self.durable.size + self.samples.size + sum(segment.size for segment in tuple(self.pending))

    def adopt(self) -> int:
        """Take over the segments of dead processes, also of those that had to use the temporary folder; gives their
        number."""
        folders = [folder for folder in (self.folder, *self._elsewhere) if folder is not None and _is_ours(folder)]
        found = (lock_segment(path) for folder in folders for path in segment_paths(folder))
        free = max(0, _ADOPTED - sum(not segment.is_own for segment in self.pending))
        adopted = list(islice((segment for segment in found if segment is not None), free))
        self.has_more = len(adopted) == free
        self.pending.extend(adopted)
        return len(adopted)

    def join(self) -> None:
        """Make one file of small pending ones of this process, each of which is held open. Raises: OSError."""
        before: SpoolFile | None = None
        for segment in [each for each in self.pending if each.is_own]:
            if before is not None and before.is_there and before.size + segment.size <= SEGMENT_BYTES:
                before.take(segment)
                self.remove(segment)
            else:
                before = segment

    def remove(self, segment: SpoolFile) -> None:
        """Delete a pending segment: all of it is in the store. Raises: OSError."""
        segment.remove()
        self.pending.remove(segment)

    def set_aside(self, raw: bytes) -> None:
        """Keep what can be neither read nor stored, out of the way, once, in `damaged/`. Raises: OSError."""
        if self.folder is None:
            raise OSError(errno.EROFS, NO_FOLDER)
        folder = self.folder / "damaged"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / f"{hashlib.blake2b(raw, digest_size=16).hexdigest()}.bin").write_bytes(raw)

    def close(self) -> bool:
        """Let go of all segments, which wait for the next start; whether none was left."""
        self.durable.seal()
        self.samples.seal()
        left, self.pending = self.pending, []
        for segment in left:
            segment.release()
        return not left

    def new_segment(self) -> SpoolFile:
        """An empty segment of this process. Raises: OSError."""
        if self.folder is None:
            raise OSError(errno.EROFS, NO_FOLDER)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for _ in range(_TRIES):
            path = self.folder / f"{os.getpid()}-{uuid.uuid4().hex}{_SUFFIX}"
            path.touch(mode=0o600, exist_ok=False)
            segment = lock_segment(path)  # None when another process took the empty file for a dead one's: it is gone
            if segment is not None:
                segment.is_own = True
                return segment
        raise OSError(errno.ENOLCK, f"no file in {self.folder} can be locked")


def _prepare(folder: Path, *, is_shared: bool) -> None:
    """Make the folder, and see that files in it can be written and locked; where all users write, by us alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_shared and folder.stat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user")
    with tempfile.TemporaryFile(dir=folder) as probe:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)


def segment_paths(folder: Path) -> list[Path]:
    """The segments in a folder, in the order in which they are stored."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


def _is_ours(folder: Path) -> bool:
    """Whether the folder is there and nobody else's."""
    return folder.is_dir() and folder.stat().st_uid == os.getuid()


def lock_segment(path: Path) -> SpoolFile | None:
    """The segment at `path` if it is there and no living process holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        segment = SpoolFile(path, descriptor)
        if segment.is_there:
            return segment
    except BlockingIOError:
        pass
    except OSError as error:
        _LOG.warning("spool segment %s cannot be locked: %s", path, error)
    os.close(descriptor)
    return None


class _Tagged(msgspec.Struct):
    kind: str
    item: msgspec.Raw


class SpoolEntry(NamedTuple):
    """Some bytes of a spool file and an item in them; None when they are damaged."""

    item: Item | None
    raw: bytes


def encode_entry(item: Item) -> bytes:
    """One entry. Raises: RecordError when the item has a value that JSON cannot hold."""
    if isinstance(item, TakenRequest):
        return _entries_of_taken([item])[0]
    if isinstance(item, RequestRecord):
        body = encode_record(item)
    elif isinstance(item, Addendum):
        body = encode_addendum(item)
    else:
        try:
            body = msgspec.json.encode(item)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise RecordError(f"a {type(item).__name__} cannot be written: {error}; give JSON values") from error
    return _entry(b'{"kind":"%s","item":%s}' % (_KINDS[type(item)].encode(), body))


def encode_entries(items: Iterable[Item]) -> list[bytes]:
    """Entries of several items; requests as they were taken share their texts. Raises: RecordError."""
    taken, others = [], []
    for item in items:
        if isinstance(item, TakenRequest):
            taken.append(item)
        else:
            others.append(encode_entry(item))
    return [*others, *_entries_of_taken(taken)]


def _entries_of_taken(requests: Iterable[TakenRequest]) -> list[bytes]:
    """An entry for each, so that each has a checksum of its own."""
    frames = (frame.replace(_ESCAPE, _ESCAPE + b"\x02") for frame in write_taken(requests))
    return [_entry(frame.replace(MAGIC, _ESCAPE + b"\x01")) for frame in frames]


def _entry(payload: bytes) -> bytes:
    return _HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


def decode_entry(payload: bytes, reader: TakenReader) -> Item:
    """The item of an entry; the reader has read those before it. Raises: RecordError when it is none that this version
    knows; NewerForm where a newer one has written it."""
    if payload.startswith(b"{"):
        return _decode_item(payload)
    return reader.read(payload.replace(_ESCAPE + b"\x01", MAGIC).replace(_ESCAPE + b"\x02", _ESCAPE))


def _decode_item(payload: bytes) -> Item:
    try:
        tagged = msgspec.json.decode(payload, type=_Tagged)
        if tagged.kind == "request":
            return decode_record(bytes(tagged.item))
        if tagged.kind == "addendum":
            return decode_addendum(bytes(tagged.item))
        if tagged.kind in _PLAIN:
            return msgspec.json.decode(tagged.item, type=_PLAIN[tagged.kind])
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordError(f"not a spool entry: {error}") from error
    raise RecordError(f"spool entry of kind {tagged.kind!r}; this ragtrace knows {', '.join(_KINDS.values())}")


def read_entries(data: bytes) -> Iterator[SpoolEntry]:
    """The entries of a spool file. A torn last entry (the process died in the write) is left out."""
    start, reader = 0, TakenReader()
    while start < len(data):
        payload = _payload(data, start)
        if payload is not None:
            end = start + _HEADER.size + len(payload)
            yield SpoolEntry(_decoded(payload, reader), data[start:end])
            start = end
            continue
        further = _next(data, start + 1)
        if further is None:
            if not _is_torn(data, start):
                yield SpoolEntry(None, data[start:])
            return
        yield SpoolEntry(None, data[start:further])
        start = further


def _payload(data: bytes, at: int) -> bytes | None:
    if len(data) - at < _HEADER.size:
        return None
    magic, length, checksum = _HEADER.unpack_from(data, at)
    payload = data[at + _HEADER.size : at + _HEADER.size + length]
    return payload if magic == MAGIC and len(payload) == length and zlib.crc32(payload) == checksum else None


def _decoded(payload: bytes, reader: TakenReader) -> Item | None:
    try:
        return decode_entry(payload, reader)
    except RecordError:
        return None


def _next(data: bytes, at: int) -> int | None:
    """Where the next whole entry begins."""
    found = data.find(MAGIC, at)
    while found >= 0 and _payload(data, found) is None:
        found = data.find(MAGIC, found + 1)
    return found if found >= 0 else None


def _is_torn(data: bytes, at: int) -> bool:
    """Whether the bytes at the end are an entry that was cut, rather than a damaged one."""
    rest = data[at:]
    if len(rest) < _HEADER.size:
        return MAGIC.startswith(rest[:4])
    magic, length, _ = _HEADER.unpack_from(rest)
    return bool(magic == MAGIC) and len(rest) < _HEADER.size + length
