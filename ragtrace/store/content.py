"""Owns the texts of records: each is stored once, under its hash, and records hold their place in order.

`strip` takes every text out of a record and says, slot by slot, what stood there; `join` puts them back. So a record
comes back exactly as it was, whether or not the host gave hashes of its own.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from ragtrace.store.bulk import chunks, look_up
from ragtrace.store.bundles import Packed, packed, write
from ragtrace.store.database import Database
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

__all__ = ["GRANULARITY", "Slots", "Texts", "join", "strip", "texts_of"]

GRANULARITY: Final = 3600
"""Seconds for which a text that was used counts as just used, so that a text that all requests share is not written
with each of them."""

_MANY: Final = 200  # texts; fewer are compressed sooner than looked up

Slots = tuple[str | None, ...]
Staged = TypeVar("Staged", RequestRecord, Addendum)


@dataclass(slots=True)
class Texts:
    """The texts of one batch of records, each once."""

    hashes: dict[str, str] = field(default_factory=dict)
    _prepared: tuple[Packed, list[tuple[bytes, str]]] | None = field(default=None, init=False)

    def add(self, text: str | None) -> str | None:
        """Keep a text and return its hash; None stays None."""
        if text is None:
            return None
        return self.hashes.get(text) or self.hashes.setdefault(text, content_hash(text))

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
        self._prepared = packed(_without(texts, there)), known

    def _hashed(self) -> list[tuple[bytes, str]]:
        return list(zip(map(bytes.fromhex, self.hashes.values()), self.hashes, strict=True))

    def store(self, connection: sa.Connection, now: float | None = None) -> None:
        """Insert the texts that the content table does not have, and note of the others that they are used.

        What nobody uses is deleted by `ragtrace.store.garbage`, beside writers that use it again. So a text that was
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
            late = write(connection, new, moment)
            _used(connection, sorted(late), moment)
        if len(used) < len(texts):
            write(connection, packed(_without(texts, used)), moment)


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
    slots = tuple([texts.add(text) for text in texts_of(record)])
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
