"""Owns texts and compression: a text is stored once, under its hash, and records hold their place in order.

`strip` takes every text out of a record and says, slot by slot, what stood there; `join` puts them back. So a record
comes back exactly as it was, whether or not the host gave hashes of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import sqlalchemy as sa
import zstandard

from ragtrace.errors import CorruptStore
from ragtrace.store.database import insert
from ragtrace.store.tables import content
from ragtrace.types import (
    Addendum,
    GenerateRun,
    PackRun,
    RequestRecord,
    RetrieveRun,
    StageRun,
    content_hash,
    replace,
)

__all__ = ["Slots", "Texts", "chunks", "compress", "decompress", "fetch", "join", "strip"]

Slots = tuple[str | None, ...]
Staged = TypeVar("Staged", RequestRecord, Addendum)

_LEVEL: Final = 3
_IN: Final = 500  # values of one IN (...)


class _Compressors(threading.local):
    """One of each thread: to make one takes longer than to compress a text, and none serves two threads at once."""

    def __init__(self) -> None:
        self.one = zstandard.ZstdCompressor(level=_LEVEL)


_COMPRESSORS: Final = _Compressors()


def compress(body: bytes) -> bytes:
    """Zstandard of `body`."""
    return _COMPRESSORS.one.compress(body)


def decompress(body: bytes) -> bytes:
    """The reverse of `compress`. Raises: zstandard.ZstdError when the bytes are damaged."""
    return zstandard.decompress(body)


def chunks(values: Iterable[Any], size: int = _IN) -> Iterator[list[Any]]:
    """`values` in lists that fit into one statement."""
    known = list(values)
    for start in range(0, len(known), size):
        yield known[start : start + size]


@dataclass(slots=True)
class Texts:
    """The texts of one batch of records, each once."""

    hashes: dict[str, str] = field(default_factory=dict)

    def add(self, text: str | None) -> str | None:
        """Keep a text and return its hash; None stays None."""
        if text is None:
            return None
        known = self.hashes.get(text)
        if known is None:
            known = self.hashes[text] = content_hash(text)
        return known

    def store(self, connection: sa.Connection) -> None:
        """Insert the texts that the content table does not have yet."""
        texts = {digest: text for text, digest in self.hashes.items()}
        known: set[str] = set()
        for some in chunks(texts):
            known.update(connection.scalars(sa.select(content.c.hash).where(content.c.hash.in_(some))))
        rows = [{"hash": digest, "body": compress(_encode(texts[digest]))} for digest in sorted(texts.keys() - known)]
        if rows:
            connection.execute(insert(connection, content).on_conflict_do_nothing(), rows)


def fetch(connection: sa.Connection, hashes: Iterable[str]) -> dict[str, str]:
    """The texts of these hashes."""
    texts: dict[str, str] = {}
    for some in chunks(dict.fromkeys(hashes)):
        for digest, body in connection.execute(sa.select(content).where(content.c.hash.in_(some))):
            try:
                texts[digest] = decompress(body).decode("utf-8", "surrogatepass")
            except (zstandard.ZstdError, UnicodeDecodeError) as error:
                raise CorruptStore(
                    f"the stored text {digest} is damaged ({error}); restore the database from a backup"
                ) from error
    return texts


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def strip(record: Staged, texts: Texts) -> tuple[Staged, Slots]:
    """The record (or addendum) without its texts, and the hash of the text that stood in each slot (None: none did)."""
    slots: list[str | None] = []
    stages = tuple(_strip_run(run, texts, slots) for run in record.stages)
    return replace(record, stages=stages), tuple(slots)


def _strip_run(run: StageRun, texts: Texts, slots: list[str | None]) -> StageRun:
    if isinstance(run, RetrieveRun):
        return replace(run, candidates=_bare(run.candidates, texts, slots))
    if isinstance(run, PackRun):
        return replace(run, packing=replace(run.packing, chunks=_bare(run.packing.chunks, texts, slots)))
    if isinstance(run, GenerateRun):
        slots.append(texts.add(run.generation.answer))
        return replace(run, generation=replace(run.generation, answer=None))
    return run


def _bare(parts: Sequence[Any], texts: Texts, slots: list[str | None]) -> tuple[Any, ...]:
    slots.extend(texts.add(part.text) for part in parts)
    return tuple(part if part.text is None else replace(part, text=None) for part in parts)


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
