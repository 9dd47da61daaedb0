"""Owns the texts of records: each is stored once, under its hash, and records hold their place in order.

`strip` takes every text out of a record and says, slot by slot, what stood there; `join` puts them back. So a record
comes back exactly as it was, whether or not the host gave hashes of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from ragtrace.store import bundles
from ragtrace.store.bulk import chunks
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

__all__ = ["GRANULARITY", "Slots", "Texts", "join", "strip"]

GRANULARITY: Final = 3600
"""Seconds for which a text that was used counts as just used, so that a text that all requests share is not written
with each of them."""

Slots = tuple[str | None, ...]
Staged = TypeVar("Staged", RequestRecord, Addendum)


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

    def store(self, connection: sa.Connection, now: float | None = None) -> None:
        """Insert the texts that the content table does not have, and note of the others that they are used.

        What nobody uses is deleted by `ragtrace.store.garbage`, beside writers that use it again. So a text that was
        last used more than `GRANULARITY` ago is locked and touched first; one that was deleted between the look and the
        lock is inserted again. One that was used since is left alone: it is not deleted within a day, or, where it is
        erased, not before this transaction has ended.
        """
        moment = int(time.time() if now is None else now)
        texts = {digest: text for text, digest in self.hashes.items()}
        known = _used(connection, sorted(texts), moment)
        new = {digest: text for digest, text in texts.items() if digest not in known}
        bundles.write(connection, new, moment)


def _used(connection: sa.Connection, hashes: Sequence[str], now: int) -> set[str]:
    """Those of these texts that are there, and will be when this transaction ends; in order, so that two writers never
    wait for each other."""
    fresh: set[str] = set()
    stale: list[str] = []
    for some in chunks(hashes):
        columns = sa.select(content.c.hash, content.c.touched_at)
        for digest, touched_at in connection.execute(columns.where(content.c.hash.in_(some)).order_by(content.c.hash)):
            if touched_at > now - GRANULARITY:
                fresh.add(digest)
            else:
                stale.append(digest)
    for some in chunks(stale):
        there = sa.select(content.c.hash).where(content.c.hash.in_(some)).order_by(content.c.hash).with_for_update()
        locked = connection.scalars(there).all()
        connection.execute(sa.update(content).where(content.c.hash.in_(locked)).values(touched_at=now))
        fresh.update(locked)
    return fresh


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
