"""The background sink: nothing accepted is lost, nothing in the host is hurt."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ragtrace.collect import Spool
from ragtrace.collect.spool import encode_entry
from ragtrace.errors import CorruptStore, RecordError, StoreUnavailable
from ragtrace.record import scrub
from ragtrace.types import Fault, Feedback, Item, Query, RequestRecord
from tests.collect.drafts import FakeDraft


def record(request_id: str, **parts: Any) -> RequestRecord:
    """A record."""
    return RequestRecord(request_id=request_id, service="svc", **parts)


def test_what_is_submitted_arrives(make_sink: Any, writer: Any, folder: Path) -> None:
    """Samples, flagged ones and feedback; the spool is empty afterwards."""
    sink = make_sink()
    sink.submit(record("a"))
    sink.submit(record("b"), durable=True)
    sink.submit(Feedback(request_id="a", feedback_id="f"), durable=True)
    assert sink.flush(10)
    assert writer.ids == ["a", "b"]
    assert Feedback(request_id="a", feedback_id="f") in writer.items
    assert len(writer.items) == 3
    assert list(folder.iterdir()) == []


def test_a_durable_item_is_in_the_spool_when_submit_returns(make_sink: Any, writer: Any, folder: Path) -> None:
    """Before the background thread has done anything."""
    writer.gate.clear()
    sink = make_sink()
    sink.submit(record("first"))
    assert writer.entered.wait(10)
    sink.submit(record("flagged"), durable=True)
    assert any(b'"flagged"' in path.read_bytes() for path in folder.iterdir())


def test_samples_are_dropped_when_the_queue_is_full(make_sink: Any, writer: Any) -> None:
    """And counted; flagged ones are not."""
    writer.gate.clear()
    sink = make_sink(queue_bytes=2500)
    sink.submit(record("first"))
    assert writer.entered.wait(10)
    for number in range(5):
        sink.submit(record(f"sample{number}"))
    for number in range(5):
        sink.submit(record(f"flagged{number}"), durable=True)
    writer.gate.set()
    assert sink.flush(10)
    assert writer.ids == ["first", *(f"flagged{number}" for number in range(5)), "sample0", "sample1"]
    assert writer.faults == {("sink.queue", "full"): 3}


@pytest.mark.parametrize("error", [StoreUnavailable("no server"), CorruptStore("broken"), OSError("gone")])
def test_while_the_store_fails_items_wait_in_the_spool(
    make_sink: Any, writer: Any, folder: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """One clear line in the log, and all is stored once the store is back."""
    sink = make_sink(retry=(0.01, 0.02))
    writer.error = error
    for number in range(3):
        sink.submit(record(f"r{number}"), durable=number == 1)
        assert not sink.flush(10)
    assert writer.ids == []
    assert sum("cannot be stored" in line.message for line in caplog.records) == 1
    assert str(error) in caplog.text
    writer.error = None
    assert sink.flush(10)
    assert writer.ids == ["r0", "r1", "r2"]
    assert writer.faults["sink.write", type(error).__name__] >= 3
    assert list(folder.iterdir()) == []


def test_a_connection_that_broke_before_the_end_loses_no_time(make_sink: Any, writer: Any, folder: Path) -> None:
    """The last flush is the first to notice; a second try, over a new connection, stores what the first could not."""
    sink = make_sink(retry=(60.0, 60.0))
    assert sink.flush(10)
    writer.error = StoreUnavailable("replaced by another file")
    reopen = writer.close

    def close() -> None:
        reopen()
        writer.error = None

    writer.close = close
    sink.submit(record("last"), durable=True)
    assert sink.close(10)
    assert writer.ids == ["last"]
    assert list(folder.iterdir()) == []


def test_a_long_outage_opens_few_files(make_sink: Any, writer: Any, folder: Path) -> None:
    """Each try to store leaves a file with what came since the one before: they become one, and nothing is lost."""
    sink = make_sink(retry=(0.001, 0.001))
    writer.error = StoreUnavailable("no server")
    names = [f"r{number:02}" for number in range(40)]
    for number, name in enumerate(names):
        sink.submit(record(name), durable=number % 2 == 0)
        assert not sink.flush(10)
    assert len(list(folder.iterdir())) <= 3
    writer.error = None
    assert sink.flush(10)
    assert writer.ids == names
    assert list(folder.iterdir()) == []


def test_many_that_crashed_leave_no_more_than_is_open_at_once(
    make_sink: Any, writer: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a crash loop left is stored in turns."""
    monkeypatch.setattr("ragtrace.collect.spool._ADOPTED", 3)
    names = [f"r{number}" for number in range(8)]
    for name in names:
        dead = Spool.open(folder, "sqlite:///x.db")
        dead.durable.append(encode_entry(record(name)))
        dead.close()
    waiting = Spool.open(folder, "sqlite:///x.db")
    assert waiting.adopt() == 3
    waiting.close()
    sink = make_sink()
    for _ in range(3):
        assert sink.flush(10)
    assert writer.ids == names
    assert list(folder.iterdir()) == []


def test_an_idle_sink_tries_again_by_itself(make_sink: Any, writer: Any) -> None:
    """Without another request, what waits is stored when the store is back."""
    sink = make_sink(retry=(0.05, 0.05))
    writer.error = StoreUnavailable("no server")
    sink.submit(record("a"))
    assert not sink.flush(10)
    writer.entered.clear()
    writer.error = None
    assert writer.entered.wait(10)
    assert sink.flush(10)
    assert writer.ids == ["a"]


def test_what_remains_at_the_end_is_stored_by_the_next_start(make_sink: Any, writer: Any) -> None:
    """close says False, and nothing is lost: neither records nor the faults that were counted."""
    sink = make_sink()
    writer.error = StoreUnavailable("no server")
    sink.submit(record("sample"))
    sink.submit(record("flagged"), durable=True)
    sink.submit(Fault(service="svc", where="coerce.retrieve", kind="X"))
    assert not sink.close(10)
    writer.error = None
    assert make_sink().flush(10)
    assert writer.ids == ["flagged", "sample"]
    assert writer.faults["coerce.retrieve", "X"] == 1


def test_closing_keeps_its_deadline(make_sink: Any, writer: Any) -> None:
    """A store that hangs does not hold the process; the next start stores what was left."""
    writer.gate.clear()
    sink = make_sink()
    sink.submit(record("hanging"))
    assert writer.entered.wait(10)
    sink.submit(record("behind"))
    assert not sink.close(0.05)
    writer.gate.set()
    assert sink._storer.join(10)
    assert make_sink().flush(10)
    assert writer.ids == ["behind", "hanging"]


def test_a_refused_item_is_set_aside_and_the_others_stored(make_sink: Any, writer: Any, folder: Path) -> None:
    """One record that the database cannot take does not hold up the rest."""
    writer.refused = lambda item: isinstance(item, RequestRecord) and item.request_id == "poison"
    sink = make_sink()
    for name in ("a", "poison", "b"):
        sink.submit(record(name), durable=True)
    assert sink.flush(10)
    assert writer.ids == ["a", "b"]
    assert writer.faults == {("sink.refused", "ValueError"): 1}
    (damaged,) = (folder / "damaged").iterdir()
    assert b'"poison"' in damaged.read_bytes()


def test_a_store_that_refuses_everything_is_no_reason_to_set_aside(make_sink: Any, writer: Any, folder: Path) -> None:
    """Trouble of an unknown kind is the store's as long as it takes nothing at all."""
    writer.refused = lambda item: True
    sink = make_sink()
    sink.submit(record("a"), durable=True)
    assert not sink.flush(10)
    writer.refused = lambda item: False
    assert sink.flush(10)
    assert writer.ids == ["a"]
    assert not (folder / "damaged").exists()


def test_a_damaged_entry_is_set_aside_and_counted(make_sink: Any, writer: Any, folder: Path) -> None:
    """Of a dead process's segment all that is whole is stored."""
    sink = make_sink()
    writer.error = StoreUnavailable("no server")
    for name in ("a", "b", "c"):
        sink.submit(record(name), durable=True)
    sink.close(10)
    (segment,) = (path for path in folder.iterdir() if b'"b"' in path.read_bytes())
    segment.write_bytes(segment.read_bytes().replace(b'"b"', b'"!"'))
    writer.error = None
    assert make_sink().flush(10)
    assert writer.ids == ["a", "c"]
    assert writer.faults["sink.spool", "damaged"] == 1
    assert len(list((folder / "damaged").iterdir())) == 1


def test_without_a_spool_items_wait_in_memory(make_sink: Any, writer: Any) -> None:
    """Nothing is lost while the process lives, and the trouble is counted."""
    sink = make_sink(spool=Spool(None))
    writer.error = StoreUnavailable("no server")
    sink.submit(record("flagged"), durable=True)
    sink.submit(record("sample"))
    assert not sink.flush(10)
    writer.error = None
    assert sink.flush(10)
    assert writer.ids == ["flagged", "sample"]
    assert writer.faults["sink.spool", "OSError"] >= 2


def test_the_spool_is_bounded_for_samples(make_sink: Any, writer: Any, folder: Path) -> None:
    """A store that is down for days fills neither disk nor memory; flagged ones are kept all the same."""
    sink = make_sink(spool_bytes=2000, queue_bytes=3000)
    writer.error = StoreUnavailable("no server")
    for number in range(30):
        sink.submit(record(f"sample{number:02}", attributes={"x": "y" * 500}))
        sink.submit(record(f"flagged{number:02}"), durable=True)
        assert not sink.flush(10)
    writer.error = None
    assert sink.flush(10)
    assert [name for name in writer.ids if name.startswith("flagged")] == [
        f"flagged{number:02}" for number in range(30)
    ]
    samples = [name for name in writer.ids if name.startswith("sample")]
    assert 0 < len(samples) < 30
    full = [count for (_, kind), count in writer.faults.items() if kind == "full"]
    assert sum(full) == 30 - len(samples)


def test_text_that_utf8_cannot_hold_costs_a_character(make_sink: Any, writer: Any) -> None:
    """Not the record."""
    sink = make_sink(scrub=scrub)
    sink.submit(record("a", query=Query(original="half \ud83d")), durable=True)
    assert sink.flush(10)
    assert writer.items[0].query.original == "half ?"


def test_what_cannot_be_written_at_all_is_counted(make_sink: Any, writer: Any) -> None:
    """On the host's thread as in the background, without an exception."""
    writer.refused = lambda item: encode_entry(item) == b""  # raises as the store does
    sink = make_sink()
    for durable in (True, False):
        sink.submit(record("a", query=Query(original="half \ud83d")), durable=durable)
    assert sink.flush(10)
    assert writer.ids == []
    assert writer.faults == {("sink.encode", RecordError.__name__): 2}


def test_what_cannot_be_finished_is_not_quoted(make_sink: Any, writer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Neither log nor fault repeats an exception's message, which may be content; they say where it comes from."""

    def fail(item: Item) -> Item:
        raise ValueError("the question")

    sink = make_sink(finish=fail)
    sink.submit(record("a"), durable=True)
    assert sink.flush(10)
    (fault,) = [item for item in writer.items if isinstance(item, Fault)]
    assert (fault.where, fault.kind) == ("sink.encode", "ValueError")
    assert "the question" not in fault.message + caplog.text
    assert "test_sink.py" in fault.message


def test_finishing_is_done_off_the_hosts_thread(make_sink: Any, writer: Any) -> None:
    """Samples are hashed and encoded in the background."""
    threads: list[str] = []

    def finish(item: Item) -> Item:
        threads.append(threading.current_thread().name)
        return item

    sink = make_sink(finish=finish)
    sink.submit(record("a"))
    assert sink.flush(10)
    assert threads == ["ragtrace-sink"]


def test_after_the_end_the_next_start_stores(make_sink: Any, writer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What ends then goes to the spool, and it says so; closing again is fine."""
    sink = make_sink()
    assert sink.close(10)
    drafts = [FakeDraft("kept", kept=True), FakeDraft("not kept")]
    with caplog.at_level(logging.WARNING, "ragtrace"):
        sink.submit(record("late"), durable=True)
        for draft in drafts:
            sink.submit(draft)
    assert caplog.text.count("goes to the spool") == 2
    assert [(draft.built, draft.discarded) for draft in drafts] == [(1, 0), (0, 1)]
    assert sink.close(10)
    assert (writer.ids, writer.closed) == ([], 1)
    assert make_sink().flush(10)
    assert writer.ids == ["kept", "late"]


def test_many_threads_at_once(make_sink: Any, writer: Any) -> None:
    """Every item of every thread arrives."""
    sink = make_sink()

    def submit(thread: int) -> None:
        for number in range(50):
            sink.submit(record(f"{thread}-{number}"), durable=number % 2 == 0)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sink.flush(30)
    assert len(writer.ids) == 400
    assert len(writer.items) == 400


def test_a_forked_child_has_a_sink_of_its_own(make_sink: Any, writer: Any, folder: Path) -> None:
    """What waits in the parent stays the parent's; what the child submits goes through its own spool and thread."""
    sink = make_sink()
    writer.error = StoreUnavailable("no server")
    sink.submit(record("parent"), durable=True)
    assert not sink.flush(10)
    child = os.fork()
    if child == 0:
        os._exit(_in_child(sink))
    assert os.waitpid(child, 0)[1] == 0
    writer.error = None
    assert sink.flush(10)
    assert writer.ids == ["parent"]
    assert make_sink().flush(10)
    assert writer.ids == ["child", "parent"]


def _in_child(sink: Any) -> int:
    """The writer still fails here: the record must survive in the spool. 0 when all went as it should."""
    sink.submit(record("child"), durable=True)
    return 0 if not sink.flush(10) and not sink.close(10) else 1
