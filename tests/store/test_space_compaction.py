"""The space of deleted rows is given back, and a store says what is broken in it, on both databases."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragtrace.errors import SchemaMismatch, StoreUnavailable
from ragtrace.store import Finished, Store, Subject, _space as space
from ragtrace.store.tables import addendum, analysis, bundle, gold, metadata, request
from ragtrace.types import Addendum, Gold, RequestRecord

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]


def test_compacting(store: Store, make_record: MakeRecord) -> None:
    """A SQLite file is as small as what it holds; PostgreSQL's tables are analyzed; nothing is lost."""
    store.write([make_record(f"r{number}", session_id="x" * 5_000) for number in range(100)])
    store.prune({"all": 1.0}, now=2e9)
    store.write([make_record("kept")])
    before, after, clean = store.compact()
    assert clean is (True if store.url.startswith("sqlite") else None)
    if store.url.startswith("sqlite"):
        assert before.free
        assert after.free == 0
        assert after.bytes < before.bytes
    else:
        assert (before.free, after.free) == (None, None)
        assert set(after.tables) == set(metadata.tables)
        with store._database.read() as connection:
            analyzed = sa.text("SELECT last_analyze IS NOT NULL FROM pg_stat_user_tables WHERE relname = 'request'")
            assert connection.scalar(analyzed) is True
    assert store.get_record("kept") is not None
    store.write([make_record("later")])


def test_a_reader_keeps_the_log(tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """An erasure says that somebody reads the database, and so does compacting; when that has ended it is emptied."""
    monkeypatch.setattr(space, "_LOG_SECONDS", 0.0)
    with Store.open(f"sqlite:///{tmp_path}/r.db") as store:
        store.write([make_record("a", tenant_id="a")])
        with store._database.read() as reader:
            assert reader.scalar(sa.select(request.c.request_id)) == "a"
            gone = store.erase(Subject(tenant="a"))
            assert (gone.requests, gone.rewritten, gone.emptied) == (1, True, False)
            assert store.compact()[1].log
        assert store.compact()[1].log == 0
        assert store.erase(Subject(tenant="a")).emptied is True


def test_both_copies_must_fit_on_one_disk(
    tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder for temporary files and that of the file each take a copy; where they share a disk, it takes both."""
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with Store.open(f"sqlite:///{tmp_path}/r.db") as store:
        store.write([make_record("a")])
        size = space.measure(store._database).bytes
        monkeypatch.setattr("shutil.disk_usage", lambda folder: shutil._ntuple_diskusage(9 * size, 7 * size, 2 * size))
        space.refuse_full(store._database)
        monkeypatch.setattr("shutil.disk_usage", lambda folder: shutil._ntuple_diskusage(9, 9, 2 * size - 1))
        with pytest.raises(StoreUnavailable, match=f"takes {2 * size:,} bytes"):
            space.refuse_full(store._database)


def test_what_the_server_says_of_a_vacuum_is_explained(store: Store) -> None:
    """PostgreSQL's own words become an error of ours."""
    if store.url.startswith("sqlite"):
        pytest.skip("SQLite's VACUUM is of a file")
    with store._database.write() as connection:
        connection.execute(sa.text("DROP TABLE erased"))
    with pytest.raises(SchemaMismatch, match="ragtrace db upgrade"):
        space.rewrite(store._database)


def test_each_damage_is_a_problem(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """Payloads, addenda, analyses, gold sets and texts that cannot be read, each by its name."""
    store.write([make_record("a"), make_record("b")])
    store.write([Addendum(request_id="b", service="shop", addendum_id="x", flags=("late",))])
    store.finish([make_finished(job) for job in store.claim("w", limit=1)])
    store.put_gold([Gold(service="shop", question="Why?")])
    whole = store.inspect()
    assert (whole.problems, whole.read, whole.rows["request"]) == ((), 5, 2)
    assert whole.space.bytes > 0
    with store._database.write() as connection:
        connection.execute(sa.update(request).where(request.c.request_id == "a").values(payload=b"x"))
        for table in (addendum, analysis, gold, bundle):
            connection.execute(sa.update(table).values(body=b"x"))
    for sample in (1_000, None):
        problems = store.inspect(sample=sample).problems
        starts = ("request a: record 'a' cannot", "request b: ", "addendum x: ", "analysis ", "gold shop/")
        assert [sum(each.startswith(start) for each in problems) for start in starts] == [1] * 5
        assert len(problems) == 5


def test_the_newest_are_sampled(store: Store, make_record: MakeRecord) -> None:
    """A sample reads so many; all reads every page."""
    store.write([make_record(f"r{number}", started_at=number) for number in range(250)])
    with store._database.write() as connection:
        connection.execute(sa.update(request).where(request.c.request_id == "r249").values(payload=b"x"))
    few, every = store.inspect(sample=1), store.inspect(sample=None)
    assert (few.read, every.read) == (1, 250)
    assert [len(found.problems) for found in (few, every)] == [1, 1]
