"""What was erased stands in no file of a PostgreSQL database: neither as text nor compressed, nor as a sample."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import psycopg
import pytest
import sqlalchemy as sa

from ragtrace.store import SpanPart, Store, Subject, _space as space
from ragtrace.store.tables import addendum, analysis, bundle, request, span_part
from ragtrace.types import Addendum, Feedback, GenerateRun, Generation, RequestRecord

if TYPE_CHECKING:
    from tests.conftest import PostgresServer
    from tests.store.conftest import MakeFinished

MakeRecord = Callable[..., RequestRecord]

TENANT: Final = "tenant-of-the-test"
BODIES: Final = ((request, "payload"), (addendum, "body"), (analysis, "body"), (span_part, "body"), (bundle, "body"))
SLICE: Final = 24  # bytes of a stored body that are looked for


class Disk:
    """A store on the scratch server, and the bytes of its files as they are after a checkpoint."""

    def __init__(self, server: PostgresServer, url: str) -> None:
        self.server, self.url = server, url
        with psycopg.connect(url) as connection:
            (self.oid,) = connection.execute(
                "SELECT oid FROM pg_database WHERE datname = current_database()"
            ).fetchone() or (0,)

    def holds(self, needles: Iterable[bytes], folder: str | None = None) -> set[bytes]:
        """Those of the needles that stand in a file of the database, or of another folder of the server's."""
        self.server.run("CHECKPOINT")
        place = self.server.folder / "data" / (folder or f"base/{self.oid}")
        files = [file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file()]
        return {needle for needle in needles if any(needle in file for file in files)}


@pytest.fixture
def disk(postgres_server: PostgresServer) -> Disk:
    """A new store, and its files."""
    url = postgres_server.new_database()
    Store.open(url).close()
    return Disk(postgres_server, url)


def stored(store: Store) -> set[bytes]:
    """A part of each compressed body as the store keeps it, from its middle."""
    with store._database.read() as connection:
        found = [body for table, name in BODIES for body in connection.scalars(sa.select(table.c[name]))]
    return {body[len(body) // 2 :][:SLICE] for body in found if len(body) >= 2 * SLICE}


def fill(store: Store, make: MakeRecord, finish: MakeFinished) -> set[bytes]:
    """Write what one tenant sends in every way, beside another one, some of it twice; returns what stands as text."""
    words = [secrets.token_hex(20) for _ in range(40)]
    said = iter(words)

    def record(number: int, **fields: object) -> RequestRecord:
        texts = " ".join(secrets.token_hex(600) for _ in range(2))  # longer than what a page's row may have
        answer = GenerateRun(generation=Generation(answer=texts))
        return make(f"{TENANT}-{number}", stages=(answer,), tenant_id=TENANT, **fields)

    store.write([record(number, session_id=next(said)) for number in range(20)])
    store.write([record(number, session_id=next(said), record_revision=2) for number in range(10)])
    store.write([Feedback(request_id=f"{TENANT}-{number}", score=0.0, comment=next(said)) for number in range(10)])
    late = GenerateRun(generation=Generation(answer=secrets.token_hex(400)))
    store.write([Addendum(request_id=f"{TENANT}-1", service="shop", addendum_id="x", stages=(late,))])
    store.add_spans([SpanPart(TENANT, "1" * 32, secrets.token_bytes(3_000), True)], now=100.0)
    store.write([make("kept", tenant_id="other")])
    store.finish([finish(job) for job in store.claim("w", limit=100)])
    return {word.encode() for word in words} | {TENANT.encode()}


def test_an_erasure_leaves_nothing_in_the_files(
    disk: Disk, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Each text and each stored body is found in the files before, and none of them after; the other tenant's stay."""
    with Store.open(disk.url) as store:
        words = fill(store, make_record, make_finished)
        packed = stored(store)
        with psycopg.connect(disk.url, autocommit=True) as connection:
            connection.execute("ANALYZE")  # as autovacuum does: samples of the columns are a copy
        earlier = 10  # sessions of revisions that were replaced
        assert len(disk.holds(words)) >= len(words) - earlier
        assert disk.holds(packed) == packed
        gone = store.erase(Subject(tenant=TENANT))
        assert (gone.requests, gone.rewritten, gone.emptied) == (20, True, True)
        kept = stored(store)
        assert disk.holds(words | (packed - kept)) == set()
        assert disk.holds(kept) == kept
        assert store.get_record("kept") is not None


def test_whoever_reads_keeps_a_copy(
    disk: Disk, make_record: MakeRecord, make_finished: MakeFinished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that began before may still see the rows: the erasure says so, and a full vacuum after its end
    removes them; so it does where the tables were not to be rewritten, and the table that it has read is waited for."""
    monkeypatch.setattr(space, "_LOG_SECONDS", 0.0)
    with Store.open(disk.url) as store:
        words = fill(store, make_record, make_finished)
        with store._database.read() as reader:
            reader.execute(sa.select(request.c.request_id))
            gone = store.erase(Subject(tenant=TENANT))
            assert (gone.requests, gone.rewritten, gone.emptied) == (20, True, False)
            assert disk.holds(words) != set()
            assert store.compact(full=True)[2] is False
        assert store.compact()[2] is None
        assert disk.holds(words) != set()
        assert store.compact(full=True)[2] is True
        assert disk.holds(words) == set()


def test_the_log_of_the_server_goes_as_the_documentation_says(
    disk: Disk, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """It holds what was written until its files are replaced; those that are not used again go with a checkpoint."""
    with Store.open(disk.url) as store:
        words = fill(store, make_record, make_finished)
        store.erase(Subject(tenant=TENANT))
    assert disk.holds(words, "pg_wal") != set()
    disk.server.run("ALTER SYSTEM SET wal_recycle = off")
    try:
        disk.server.run("SELECT pg_reload_conf()")
        for _ in left(180.0):  # files that a checkpoint has set aside for later are used before they go
            disk.server.run("SELECT pg_logical_emit_message(true, 'a', 'b'), pg_switch_wal()")
            disk.server.run("CHECKPOINT")
            if not disk.holds([TENANT.encode()], "pg_wal"):  # one of the words: there may be much to be read
                break
        assert disk.holds(words, "pg_wal") == set()
    finally:
        disk.server.run("ALTER SYSTEM RESET wal_recycle")
        disk.server.run("SELECT pg_reload_conf()")


def left(seconds: float) -> Iterator[float]:
    """Turns, until so many seconds are over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield deadline
        time.sleep(0.1)
