"""Texts that an older ragtrace stored."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
import zstandard

from ragtrace.store import Store, migrate
from ragtrace.store._content import bundled, fetch_texts, write_bundles
from ragtrace.store.address import Address
from ragtrace.store.database import Database
from ragtrace.store.tables import content
from ragtrace.types import content_hash
from tests.store.test_schema import HEAD, up_to

TEXTS = {content_hash(text): text for text in ("one", "two", "three", "")}


def test_they_are_found_where_they_were(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When they were last used is known to the minute, and what was condemned stays so, but nothing else."""
    with monkeypatch.context() as patched:
        up_to(tmp_path, "0010_parts", patched)
        assert migrate(url) == "0010"
    moments = [0, 1, 90, int(time.time())]
    before = sa.table("content", *map(sa.column, ("hash", "bundle", "place", "touched_at")))
    database = Database(Address.parse(url))
    with database.write() as connection:
        body = zstandard.compress(msgspec.msgpack.encode([text.encode() for text in TEXTS.values()]))
        connection.execute(sa.insert(sa.table("bundle", sa.column("id"), sa.column("body"))).values(id=7, body=body))
        for place, (digest, moment) in enumerate(zip(TEXTS, moments, strict=True)):
            row = {"hash": bytes.fromhex(digest), "bundle": 7, "place": place, "touched_at": moment}
            connection.execute(sa.insert(before).values(**row))
    database.close()
    assert migrate(url) == HEAD
    with Store.open(url) as store, store._database.read() as connection:
        assert fetch_texts(connection, TEXTS) == TEXTS
        touched = dict(map(tuple, connection.execute(sa.select(content.c.hash, content.c.touched_at))))
    assert touched.keys() == TEXTS.keys()
    for digest, moment in zip(TEXTS, moments, strict=True):
        assert abs(touched[digest] - moment) < 60
        assert (touched[digest] == 0) is (moment == 0)


def test_postgresql_keeps_their_places_in_small_rows(url: str) -> None:
    """56 bytes, without a gap between two columns; and it looks often after tables through which rows pass."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite has no gaps between columns, and no vacuum of its own")
    with Store.open(url) as store, store._database.write() as connection:
        write_bundles(connection, bundled((bytes.fromhex(key), text) for key, text in TEXTS.items()), 1)
        sizes = connection.scalars(sa.text("SELECT pg_column_size(content.*) FROM content"))
        assert set(sizes) == {56}
        often = connection.scalars(sa.text("SELECT relname FROM pg_class WHERE reloptions::text LIKE '%scale_factor%'"))
        assert {"job", "span_part", "trace"} <= set(often)
