"""Texts that nobody uses go; one that anybody uses, has used lately, or begins to use meanwhile, never does."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, strategies as st

from ragtrace.errors import CorruptStore, StoreError
from ragtrace.store import Store, Swept, _records as records, _space as space
from ragtrace.store._content import GRANULARITY, Removed, Texts, remove_texts
from ragtrace.store._named_leases import UpkeepLease
from ragtrace.store._space import MARGIN, Bloom
from ragtrace.store.tables import content, lease, request
from ragtrace.types import Addendum, GenerateRun, Generation, RequestRecord, content_hash

MakeRecord = Callable[..., RequestRecord]

LATER = GRANULARITY + MARGIN + 60


def answering(make: MakeRecord, request_id: str, answer: str, **fields: Any) -> RequestRecord:
    """A record of one text."""
    return make(request_id, stages=(GenerateRun(generation=Generation(answer=answer)),), **fields)


def _answer(store: Store, request_id: str) -> str | None:
    record = store.get_record(request_id)
    assert record is not None
    run = record.stages[0]
    assert isinstance(run, GenerateRun)
    return run.generation.answer


def _execute(store: Store, statement: sa.Executable) -> None:
    with store._database.write() as connection:
        connection.execute(statement)


def _hashes(store: Store) -> set[str]:
    with store._database.read() as connection:
        return set(connection.scalars(sa.select(content.c.hash)))


def test_what_no_request_uses_goes_after_a_day(store: Store, make_record: MakeRecord) -> None:
    """A text of a deleted request stays for a day, one that another request or a waiting addendum uses for good."""
    store.write([answering(make_record, each, answer) for each, answer in (("a", "one"), ("b", "two"), ("c", "two"))])
    late = GenerateRun(generation=Generation(answer="three"))
    store.write([Addendum(request_id="later", service="shop", addendum_id="x", stages=(late,))])
    _execute(store, sa.delete(request).where(request.c.request_id.in_(["a", "b"])))
    assert store.collect_garbage() == Swept(3)
    assert store.collect_garbage(now=time.time() + LATER, dry_run=True).deleted == 1
    assert len(_hashes(store)) == 3
    swept = store.collect_garbage(now=time.time() + LATER)
    assert (swept.texts, swept.examined, swept.deleted) == (3, 3, 1)
    assert swept.bytes > 0
    assert _hashes(store) == {content_hash("two"), content_hash("three")}
    store.write([answering(make_record, "later", "four")])
    assert _answer(store, "c") == "two"


def test_what_is_saved_is_never_less_than_nothing(
    store: Store, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a bundle may pack worse than the whole."""
    store.write([answering(make_record, "a", "one")])
    _execute(store, sa.delete(request))
    monkeypatch.setattr(space, "remove_texts", lambda *arguments: Removed(1, -7))
    assert store.collect_garbage(now=time.time() + LATER) == Swept(1, 1, 1, 0)


def test_a_text_that_is_used_again_counts_as_used(store: Store, make_record: MakeRecord) -> None:
    """Its time is written when it is older than an hour, not with each request."""
    store.write([answering(make_record, "a", "one")])
    for seconds, touched in ((10, False), (GRANULARITY + 10, True)):
        then = (int(time.time()) - seconds) // 60 * 60  # PostgreSQL keeps minutes
        _execute(store, sa.update(content).values(touched_at=then))
        store.write([answering(make_record, f"after {seconds}", "one")])
        with store._database.read() as connection:
            assert (connection.scalar(sa.select(content.c.touched_at)) != then) is touched


def test_a_payload_that_cannot_be_read_stops_the_collection(store: Store, make_record: MakeRecord) -> None:
    """Nobody knows which texts it uses."""
    store.write([answering(make_record, "a", "one"), answering(make_record, "b", "two")])
    _execute(store, sa.update(request).where(request.c.request_id == "a").values(payload=b"x"))
    with pytest.raises(CorruptStore, match="'a' cannot be read"):
        store.collect_garbage(now=time.time() + LATER)
    assert store.counts()["content"] == 2


def test_one_upkeep_at_a_time(store: Store) -> None:
    """A second one waits, then says who is at work; one that lost its place stops."""
    with UpkeepLease(store._database, "first") as first:
        with (
            pytest.raises(StoreError, match=r"first on .* is at work; wait"),
            UpkeepLease(store._database, "second", wait=0),
        ):
            pass
        _execute(store, sa.update(lease).values(owner="another"))
        with pytest.raises(StoreError, match="took its place"), store._database.write() as connection:
            first.hold(connection)
    _execute(store, sa.delete(lease))
    with UpkeepLease(store._database, "second", wait=0):
        assert store.counts()["lease"] == 1
    assert store.counts()["lease"] == 0


def test_a_writer_that_came_first_keeps_its_text(store: Store, make_record: MakeRecord) -> None:
    """The sweep passes over a text that an open transaction has touched, and over it afterwards."""
    if store.url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    store.write([answering(make_record, "a", "one")])
    _execute(store, sa.update(content).values(touched_at=1))
    _execute(store, sa.delete(request))
    before = int(time.time()) - GRANULARITY - MARGIN
    texts = Texts()
    texts.hashes["one"] = content_hash("one")
    with UpkeepLease(store._database, "test") as alone:
        with store._database.write() as writer:
            texts.store(writer)
            assert space.sweep(store._database, alone, Bloom(1), before, Swept(1)).deleted == 0
        assert space.sweep(store._database, alone, Bloom(1), before, Swept(1)).deleted == 0
    assert store.counts()["content"] == 1


def test_a_writer_that_came_second_writes_its_text_again(store: Store) -> None:
    """It waits for the deletion, finds no row, and inserts one."""
    if store.url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    texts = Texts()
    texts.hashes["one"] = content_hash("one")
    with store._database.write() as connection:
        texts.store(connection, now=1)
    looked, deleted = threading.Event(), threading.Event()

    def write() -> None:
        with store._database.write() as writer:
            pid = writer.scalar(sa.text("SELECT pg_backend_pid()"))
            waiting.append(pid)
            looked.set()
            texts.store(writer)
        deleted.set()

    waiting: list[Any] = []
    thread = threading.Thread(target=write)
    with store._database.write() as sweeper:
        remove_texts(sweeper, [content_hash("one")])
        thread.start()
        looked.wait(30)
        query = sa.text("SELECT wait_event_type FROM pg_stat_activity WHERE pid = :pid")
        for _ in range(3_000):
            with store._database.read() as watcher:
                if watcher.scalar(query, {"pid": waiting[0]}) == "Lock":
                    break
            time.sleep(0.01)
        else:
            pytest.fail("the writer did not wait")
        assert not deleted.is_set()
    thread.join(30)
    assert _hashes(store) == {content_hash("one")}


@pytest.mark.parametrize("prepared", [False, True])
def test_writers_reuse_what_is_swept(
    store: Store, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch, prepared: bool
) -> None:
    """Several writers use texts again while the collection, over and over, takes them for garbage; none is missing."""
    if prepared:
        monkeypatch.setattr("ragtrace.store._content._MANY", 1)
    answers = [f"answer {number}" for number in range(30)]
    failed: list[BaseException] = []
    deleted, turns, stop = 0, [0, 0, 0], threading.Event()

    def write(seed: int) -> None:
        drawn = random.Random(seed)
        try:
            while not stop.is_set():
                some = drawn.sample(answers, 5)
                store.write([answering(make_record, f"{seed}-{turns[seed]}-{each}", each) for each in some])
                turns[seed] += 1
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for thread in writers:
        thread.start()
    while not failed and (deleted < 100 or min(turns) < 10):
        with store._database.write() as connection:  # days pass, in which most requests go
            records.wait_for_turn(connection, alone=True)
            connection.execute(sa.delete(request).where(request.c.request_id.not_like("%-7-%")))
            connection.execute(sa.update(content).values(touched_at=1))
        deleted += store.collect_garbage().deleted
    stop.set()
    for thread in writers:
        thread.join(60)
    assert failed == []
    kept = store.find_requests(limit=10_000)
    assert len(kept) >= 15
    for row in kept:
        assert _answer(store, row.request_id) == row.request_id.split("-", 2)[2]


@given(st.sets(st.text(max_size=8), min_size=1, max_size=200))
def test_the_marks_forget_nothing(texts: set[str]) -> None:
    """Whatever was added is there, however small the filter."""
    digests = {content_hash(text) for text in texts}
    marks = Bloom(len(digests) // 4)
    for digest in digests:
        marks.add(digest)
    assert all(digest in marks for digest in digests)


def test_few_texts_look_marked_by_accident() -> None:
    """Of a thousand others in a full filter not even one percent, and other ones each time."""
    first, second = Bloom(1_000), Bloom(1_000)
    for number in range(1_000):
        for marks in (first, second):
            marks.add(content_hash(f"marked {number}"))
    others = [content_hash(f"other {number}") for number in range(10_000)]
    wrong = [{digest for digest in others if digest in marks} for marks in (first, second)]
    assert max(map(len, wrong)) < 100
    assert wrong[0] != wrong[1] or not wrong[0]
