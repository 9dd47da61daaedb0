"""Many values at once, past SQLAlchemy."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ragtrace.store import Store
from ragtrace.store.database import insert_new, look_up
from ragtrace.store.tables import bundle, content, counted


@pytest.mark.parametrize("count", [0, 1, 1_234])
def test_what_is_there_is_found(store: Store, count: int) -> None:
    """However many values are asked for; those that are not there, and those given twice, add nothing."""
    rows = [(number.to_bytes(16, "big"), 7, number, 9) for number in range(count)]
    with store._database.write() as connection:
        assert insert_new(connection, (content.c.hash, *list(content.c)[1:]), rows) == count
        digests = [digest for digest, *_ in rows]
        found = look_up(connection, (content.c.hash, content.c.place), [*digests, *digests[:3], b"\xff" * 16])
        assert sorted(set(found)) == [(digest, place) for digest, _, place, _ in rows]


def test_words_are_found_as_well(store: Store) -> None:
    """With every row that has them."""
    rows = [("a", "x", 1), ("a", "y", 2), ("ü%s", "x", 3)]
    with store._database.write() as connection:
        insert_new(connection, tuple(counted.c), rows)
        found = look_up(connection, tuple(counted.c), ["a", "ü%s", "?"])
        assert sorted(found) == rows


def test_postgresql_sends_bytes_as_they_are(url: str) -> None:
    """In text they would be twice as many; what SQLAlchemy asks of the catalogs it wants as text."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite sends nothing")
    formats: list[int] = []
    with Store.open(url) as store:
        engine = store._database._engine
        sa.event.listen(engine, "after_cursor_execute", lambda _connection, cursor, *_: formats.append(cursor.format))
        with store._database.read() as connection:
            assert list(look_up(connection, (bundle.c.id, bundle.c.body), [7])) == []
            assert sa.inspect(connection).has_table("bundle")
    assert (formats[0], set(formats[1:])) == (1, {0})
