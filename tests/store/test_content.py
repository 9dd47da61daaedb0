"""Texts that are compressed before the write lock is taken: whatever happens until then, each is stored, once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.store import Store, _content as owner
from ragtrace.store._content import Bundles, bundled, decompress, remove_texts
from ragtrace.store._records import Batch
from ragtrace.store.tables import bundle, content
from ragtrace.types import Candidate, RequestRecord, RetrieveRun, content_hash

COUNT = 300  # texts of a record, enough to be prepared
TEXTS = [f"<{number}> " + "clause of a tariff, in words " * 8 for number in range(COUNT + 100)]


def _record(request_id: str, texts: list[str]) -> RequestRecord:
    found = tuple(Candidate(chunk_id=f"c{at}", rank=at + 1, text=text) for at, text in enumerate(texts))
    return RequestRecord(request_id=request_id, service="shop", stages=(RetrieveRun(candidates=found),))


def _texts(store: Store, request_id: str) -> list[str | None]:
    record = store.get_record(request_id)
    assert record is not None
    run = record.stages[0]
    assert isinstance(run, RetrieveRun)
    return [each.text for each in run.candidates]


def _copies(store: Store) -> list[int]:
    """How often each of the texts of a record stands in the bundles."""
    with store._database.read() as connection:
        bodies = b"".join(decompress(body) for body in connection.scalars(sa.select(bundle.c.body)))
    return [bodies.count(text.encode()) for text in TEXTS[:COUNT]]


def _deleted(store: Store) -> None:
    with store._database.write() as connection:
        remove_texts(connection, [content_hash(text) for text in TEXTS[50:250]])


def _condemned(store: Store) -> None:
    with store._database.write() as connection:
        connection.execute(sa.update(content).values(touched_at=0))


def _stored(store: Store) -> None:
    store.write([_record("another", TEXTS[200:])])


def _stored_and_condemned(store: Store) -> None:
    _stored(store)
    _condemned(store)


def _all_stored(store: Store) -> None:
    store.write([_record("another", TEXTS)])


@pytest.mark.parametrize("known", [0, 100, COUNT])
@pytest.mark.parametrize("happens", [_deleted, _condemned, _stored, _stored_and_condemned, _all_stored])
def test_what_happens_before_the_lock(store: Store, known: int, happens: Callable[[Store], None]) -> None:
    """Texts that were there are deleted, or about to be; others, or all, come from somebody else."""
    if known:
        store.write([_record("first", TEXTS[:known])])
    batch = Batch([_record("r", TEXTS[:COUNT])])
    batch.prepare(store._database)
    happens(store)
    with store._database.write() as connection:
        batch.write(connection)
    assert _texts(store, "r") == TEXTS[:COUNT]
    assert _copies(store) == [1] * COUNT
    with store._database.read() as connection:
        used = content.c.hash.in_([content_hash(text) for text in TEXTS[:COUNT]])
        assert 0 not in set(connection.scalars(sa.select(content.c.touched_at).where(used)))


def test_writers_may_write_while_texts_are_compressed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite has one write lock for all."""
    if not store.url.startswith("sqlite"):
        pytest.skip("PostgreSQL's writers do not wait for each other")
    file = store._database.address.file
    compressed: list[int] = []

    def watched(texts: Any) -> Bundles:
        other = sqlite3.connect(file, timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.close()
        compressed.append(len(texts))
        return bundled(texts)

    monkeypatch.setattr(owner, "bundled", watched)
    store.write([_record("a", TEXTS[:COUNT])])
    store.write([_record("b", TEXTS)])
    assert compressed == [COUNT, 100]
    assert _texts(store, "b") == TEXTS


def test_few_texts_are_written_at_once(store: Store) -> None:
    """A record of few texts is looked up in its own transaction only."""
    batch = Batch([_record("r", TEXTS[:10])])
    batch.prepare(store._database)
    _stored(store)
    with store._database.write() as connection:
        batch.write(connection)
    assert _texts(store, "r") == TEXTS[:10]
