"""`build="worker"`: what an application hands over is stored by another process, whole and once."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

import ragtrace
from ragtrace.collect import BackgroundSink, Builder, HandOver, RecordWriter, default_folder
from ragtrace.collect.spool import (
    Spool,
    SpoolFile,
    encode_entries,
    encode_entry,
    handed_folder,
    lock_segment,
    read_entries,
    segment_paths,
)
from ragtrace.errors import StoreUnavailable
from ragtrace.store import Store
from ragtrace.types import Fault, Feedback, Item, RequestRecord, TakenRequest, replace

RETRY = (0.0, 0.0)
HITS = [{"id": f"c{number}", "text": f"the text of chunk {number}", "score": 1 - number / 10} for number in range(5)]
PROGRAM = """
import sys, ragtrace
ragtrace.configure(service="svc", store=sys.argv[1], build="worker")
for number in range(int(sys.argv[2])):
    with ragtrace.request(query="q", request_id=f"r{number}", flag="keep"):
        with ragtrace.retrieve(query="q") as run:
            run.candidates([{"id": "a", "text": "the text of a chunk", "score": 0.5}])
    print(f"r{number}", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store that nobody has made yet."""
    return f"sqlite:///{tmp_path / 'ragtrace.db'}"


def build_all(url: str) -> int:
    """Build what waits; how many items were stored."""
    builder = Builder(lambda: Store.open(url), [default_folder(url)], RETRY)
    while builder.step():
        pass
    builder.close()
    return builder.stored


def ask(number: int, flag: str | None = None) -> None:
    """A request of two stages."""
    with ragtrace.request(query=f"question {number}", request_id=f"r{number}", flag=flag):
        found = ragtrace.retrieve(lambda query: [dict(hit) for hit in HITS])("q")
        ragtrace.rerank(lambda hits: hits[::-1][:3])(found)


def hand_over(url: str, count: int) -> list[Path]:
    """Let an application hand over so many requests; the segments that wait then."""
    ragtrace.configure(service="svc", store=url, build="worker")
    for number in range(count):
        ask(number)
    assert ragtrace.shutdown(60)
    return sorted(handed_folder(default_folder(url)).glob("*.seg"))


def test_all_arrive_as_if_the_application_had_stored_them(url: str, tmp_path: Path) -> None:
    """Requests, flags raised late, feedback and faults; the application never opens the database."""
    ragtrace.configure(service="svc", store=url, build="worker")
    for number in range(20):
        ask(number)
    ask(20, flag="host")
    assert ragtrace.flush(60)
    ragtrace.flag("r3", "late")
    ragtrace.feedback("r4", score=1.0)
    with ragtrace.retrieve(query="q") as run:
        run.candidates(object())
    assert ragtrace.shutdown(60)
    assert not (tmp_path / "ragtrace.db").exists()
    build_all(url)
    there = f"sqlite:///{tmp_path / 'other.db'}"
    ragtrace.configure(service="svc", store=there)
    for number in range(20):
        ask(number)
    ask(20, flag="host")
    assert ragtrace.shutdown(60)
    with Store.open(url) as store, Store.open(there) as other:
        found, expected = (each.get_records([f"r{number}" for number in range(21)]) for each in (store, other))
        assert found["r3"].flags == ("late",)
        assert found["r4"].feedback[0].score == 1.0
        assert found["r20"].flags == ("host",)
        assert store.counts()["request"] == 22
        assert [fault.where for fault in store.faults()] == ["coerce.retrieve"]
        for request_id in expected.keys() - {"r3", "r4"}:
            assert timeless(found[request_id]) == timeless(expected[request_id])


def timeless(record: RequestRecord) -> RequestRecord:
    """A record without its times."""
    stages = tuple(replace(run, started_at=0, ended_at=0) for run in record.stages)
    return replace(record, started_at=0, ended_at=0, stages=stages)


def test_few_files_wait_however_long_nobody_builds(url: str) -> None:
    """Each transaction adds to the last segment, until somebody has stored it."""
    writer = HandOver(default_folder(url), 2**20)
    for number in range(5):
        writer.write([Feedback(request_id=f"r{number}", score=1.0)])
    folder = handed_folder(default_folder(url))
    assert len(list(folder.glob("*.seg"))) == 1
    held = lock_segment(next(folder.glob("*.seg")))  # a worker reads it now
    writer.write([Feedback(request_id="r5", score=1.0)])
    assert len(list(folder.glob("*.seg"))) == 2
    assert held is not None
    held.release()
    assert build_all(url) == 6
    assert list(folder.glob("*.seg")) == []
    writer.write([Feedback(request_id="r6", score=1.0)])
    assert build_all(url) == 1


def test_beyond_the_limit_nothing_more_is_taken(url: str) -> None:
    """The message says what waits, what is allowed, and what to do; what was taken stays."""
    writer = HandOver(default_folder(url), 100)
    said = Feedback(request_id="r1", score=1.0)
    writer.write([said, said])
    with pytest.raises(OSError, match=r"bytes wait in .* spool_bytes allows 100; run `ragtrace build --follow`"):
        writer.write([said, said])
    assert build_all(url) == 2
    after = HandOver(default_folder(url), 100)  # a batch that is larger than the limit, and nothing waits
    after.write([said, said])
    assert build_all(url) == 2


def test_a_full_disk_keeps_nothing_from_being_handed_over(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the application has spooled is moved, not copied, and no empty file stays behind."""
    ragtrace.configure(service="svc", store=url, build="worker")
    assert ragtrace.flush(60)

    def full(segment: SpoolFile) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as disk:
        disk.setattr(HandOver, "_segment", full)
        ask(0, flag="keep")
        assert not ragtrace.flush(60)
        assert build_all(url) == 1
    with Store.open(url) as store:
        assert store.get_record("r0") is not None
    append = SpoolFile.append
    monkeypatch.setattr(SpoolFile, "append", lambda segment, entry: full(segment))
    with pytest.raises(OSError, match="no space"):
        HandOver(default_folder(url), 2**20).write([Feedback(request_id="r1", score=1.0)])
    monkeypatch.setattr(SpoolFile, "append", append)
    assert list(handed_folder(default_folder(url)).glob("*.seg")) == []
    assert ragtrace.shutdown(60)


def test_a_segment_whose_name_is_not_flushed_is_handed_over_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What has been moved is not tried again, where it would not be found; a warning says what may be lost."""
    own = Spool(tmp_path).new_segment()

    def fails(folder: Path) -> None:
        raise OSError(errno.EIO, "no flush")

    monkeypatch.setattr("ragtrace.collect._handover._sync_folder", fails)
    HandOver(tmp_path, 1_000).take_over(own)
    assert [path.name for path in segment_paths(handed_folder(tmp_path))] == [own.path.name]
    assert "may be lost when power fails" in caplog.text


def test_requests_that_cannot_be_built_are_set_aside(url: str) -> None:
    """One is no obstacle for the others, and a fault tells of it."""
    (segment,) = hand_over(url, 2)
    held = lock_segment(segment)
    assert held is not None
    held.append(*encode_entries([TakenRequest(body=b"\x90", texts=()), Feedback(request_id="r0", score=1.0)]))
    held.append(b"\xabRT\x01 and no entry at all, but damage")
    held.append(encode_entry(Feedback(request_id="r1", score=1.0)))
    held.release()
    build_all(url)
    with Store.open(url) as store:
        assert all(len(store.get_records(["r0", "r1"])[name].feedback) == 1 for name in ("r0", "r1"))
        faults = {fault.where: fault for fault in store.faults()}
    assert faults.keys() == {"sink.refused", "sink.spool"}
    assert "a request that was taken cannot be built" in faults["sink.refused"].message
    assert len(list((handed_folder(default_folder(url)) / "damaged").iterdir())) == 2


def test_what_a_newer_version_wrote_waits_for_it(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """An old worker leaves it where it is, and says what to upgrade."""
    (segment,) = hand_over(url, 1)
    newer = encode_entry(TakenRequest(body=b"", texts=()))
    payload = msgspec.msgpack.encode([3, "a later form"])
    held = lock_segment(segment)
    assert held is not None
    held.append(with_payload(newer, payload))
    held.release()
    (segment.parent / "zz.seg").write_bytes(encode_entry(Feedback(request_id="behind", score=1.0)))
    assert build_all(url) == 2  # what lies in another file, and that something waits
    assert segment.exists()
    assert "upgrade where `ragtrace build` runs" in caplog.text


def with_payload(entry: bytes, payload: bytes) -> bytes:
    """An entry with another payload."""
    import struct
    import zlib

    return struct.pack(">4sII", entry[:4], len(payload), zlib.crc32(payload)) + payload


def test_a_text_that_looks_like_an_entry_is_none(url: str) -> None:
    """Behind a damaged entry, the reading finds its place by what no payload holds."""
    forged = encode_entry(Feedback(request_id="forged", score=1.0))
    texts = (forged.decode("latin-1"), "\xabRT\x02", "\udcabRT\x01\x02")
    raw = TakenRequest(body=forged + b"\xabRT\x02\x01\xabRT\x02\x02" + forged[:4], texts=texts)
    entry = encode_entry(raw)
    assert entry.count(forged[:4]) == 1
    assert [each.item for each in read_entries(entry)] == [raw]
    damaged = entry[:20] + b"?" + entry[21:] + encode_entry(Feedback(request_id="r1", score=1.0))
    assert [each.item for each in read_entries(damaged)] == [None, Feedback(request_id="r1", score=1.0)]


def test_nothing_that_is_redacted_is_handed_over(url: str) -> None:
    """The policy holds in the application, before anything is written."""
    ragtrace.configure(
        service="svc", store=url, build="worker", capture_content={"query": "redacted", "chunks": "hash"}
    )
    with ragtrace.request(query="write to jane@example.com", request_id="r0"):
        ragtrace.retrieve(lambda query: [dict(hit) for hit in HITS])("write to jane@example.com")
    assert ragtrace.shutdown(60)
    (segment,) = handed_folder(default_folder(url)).glob("*.seg")
    assert b"jane@" not in segment.read_bytes()
    assert b"the text of chunk" not in segment.read_bytes()
    build_all(url)
    with Store.open(url) as store:
        record = store.get_record("r0")
    assert record is not None
    assert "jane" not in record.query.original
    assert all(found.content_hash and found.text is None for found in record.candidates)


def test_while_the_store_is_away_all_waits(url: str) -> None:
    """A worker that finds no database tries again, and nothing is lost or stored twice."""
    hand_over(url, 3)
    broken = [True]

    class Broken:
        def __init__(self, store: Store) -> None:
            self.store = store

        def write(self, items: Sequence[Item]) -> None:
            self.store.write(items)
            if broken:
                raise OSError(broken.pop())  # after the commit

        def close(self) -> None:
            self.store.close()

    builder = Builder(lambda: Broken(Store.open(url)), [default_folder(url)], RETRY)
    assert not builder.step()
    while builder.step():
        pass
    builder.close()
    with Store.open(url) as store:
        assert store.counts()["request"] == 3
        assert {fault.where for fault in store.faults()} == {"sink.write"}


def test_a_worker_of_another_user_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could read nothing, and would wait for ever."""
    hand_over(url, 1)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(StoreUnavailable, match=r"belongs to the user .* as 12345; run `ragtrace build` as the user"):
        Builder(lambda: Store.open(url), [default_folder(url)], RETRY)


def test_a_killed_application_loses_no_flagged_request(url: str) -> None:
    """What it had accepted is in its spool or handed over, and the worker stores both."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    accepted: list[str] = []
    command = [sys.executable, "-c", PROGRAM, url, "2000"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            accepted.append(line.strip())
            if len(accepted) == 700:
                process.send_signal(signal.SIGKILL)
                break
        accepted += [line.strip() for line in process.stdout if line.endswith("\n")]
    build_all(url)
    with Store.open(url) as store:
        found = store.get_records(accepted)
        assert sorted(found) == sorted(accepted)
        assert all(record.flags == ("keep",) and len(record.candidates) == 1 for record in found.values())
        assert store.faults() == []


def test_a_killed_worker_stores_all_the_same(url: str) -> None:
    """`ragtrace build`, killed again and again while it stores."""
    hand_over(url, 400)
    environment = {**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    command = [sys.executable, "-m", "ragtrace", "build", "--store", url]
    for seconds in (0.6, 0.9, 1.2):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as worker:
            try:
                worker.wait(seconds)
            except subprocess.TimeoutExpired:
                worker.kill()
    build_all(url)
    with Store.open(url) as store:
        assert store.counts()["request"] == 400
        assert store.faults() == []


def test_another_process_that_stores_itself_takes_over_what_was_taken(url: str) -> None:
    """After a change of the setting back to `host`, what lies in the application's own spool is built there."""
    folder = default_folder(url)
    ragtrace.configure(service="svc", store=url, build="worker")
    ask(0)
    assert ragtrace.shutdown(60)
    (segment,) = handed_folder(folder).glob("*.seg")
    segment.rename(folder / segment.name)  # as a killed application leaves it
    ragtrace.configure(service="svc", store=url)
    assert ragtrace.shutdown(60)
    with Store.open(url) as store:
        assert store.get_record("r0") is not None


def test_the_other_writer_is_told_what_was_built(url: str) -> None:
    """A writer of records never sees a request that was only taken."""
    seen: list[Item] = []

    class Collects:
        def write(self, items: Sequence[Item]) -> None:
            seen.extend(items)

        def close(self) -> None:
            pass

    (segment,) = hand_over(url, 1)
    noted: list[int] = []
    tell: Callable[[int], object] = noted.append
    RecordWriter(Collects(), tell).write([each.item for each in read_entries(segment.read_bytes()) if each.item])
    assert [type(item) for item in seen] == [RequestRecord]
    assert noted == [1]
    assert not any(isinstance(item, Fault | TakenRequest) for item in seen)


class Unheard:
    """A writer over the store that fails once behind its commit: what it has written is written."""

    def __init__(self, store: Store, failures: list[bool]) -> None:
        self._store = store
        self._failures = failures

    def write(self, items: Sequence[Item]) -> None:
        """Write, and fail."""
        self._store.write(items)
        if self._failures:
            self._failures.pop()
            raise StoreUnavailable("the connection broke behind the commit")

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def test_faults_are_counted_once_where_a_delivery_fails_behind_its_commit(url: str) -> None:
    """Those of requests that are built, and of entries that are damaged, tell of the same when it is tried again."""
    ragtrace.configure(service="svc", store=url, build="worker")
    for number in range(2):
        with ragtrace.request(query="q", request_id=f"r{number}"):
            ragtrace.retrieve(lambda query: [{"id": "a", "text": "b"}, object(), object()])("q")
            ragtrace.retrieve(lambda query: [{"id": "a", "text": "b"}, object(), object()])("q")
    assert ragtrace.shutdown(60)
    (segment,) = handed_folder(default_folder(url)).glob("*.seg")
    held = lock_segment(segment)
    assert held is not None
    held.append(b"\xabRT\x01 and no entry at all, but damage")
    held.append(encode_entry(Feedback(request_id="r1", score=1.0)))
    held.release()
    failures = [True, True]
    folders = [default_folder(url)]
    for _ in range(4):
        builder = Builder(lambda: Unheard(Store.open(url), failures), folders, (0.0, 0.0))
        while builder.step():
            pass
        builder.close()
    assert failures == []
    with Store.open(url) as store:
        found = {(fault.where, fault.kind): fault.count for fault in store.faults()}
    found.pop(("sink.write", "StoreUnavailable"), None)
    assert found == {("coerce.retrieve", "object"): 8, ("sink.spool", "damaged"): 1}
    assert len(list((handed_folder(default_folder(url)) / "damaged").iterdir())) == 1


def test_a_fault_that_comes_behind_one_that_was_heard_adds_to_it_alone(url: str, tmp_path: Path) -> None:
    """In the application itself: a failure behind the commit leaves the first one as it was, and it is known."""
    failures = [True]
    spool = Spool.open(tmp_path / "spool", url)
    sink = BackgroundSink(lambda: Unheard(Store.open(url), failures), spool, service="svc", retry=RETRY)
    for number in (1, 2):
        sink.submit(Fault(service="svc", where="here", kind="odd", at=number))
        assert sink.flush(30) == (number == 2)
    assert sink.close(30)
    with Store.open(url) as store:
        assert {fault.where: fault.count for fault in store.faults()} == {"here": 2, "sink.write": 1}
