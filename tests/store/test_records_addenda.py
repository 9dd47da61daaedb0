"""An addendum is united with its record once, whichever comes first, and whatever is written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import permutations
from subprocess import Popen
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.errors import RecordError
from ragtrace.store import Finished, Store, totals
from ragtrace.store._records import Batch
from ragtrace.store.tables import bundle, request
from ragtrace.types import (
    Addendum,
    Candidate,
    Feedback,
    GenerateRun,
    Generation,
    Item,
    PackedChunk,
    Packing,
    PackRun,
    RequestRecord,
    RetrieveRun,
    replace,
)

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]

FLAG = Addendum(request_id="r1", service="shop", addendum_id="a1", created_at=5, flags=("thumbs_down",))
ELSEWHERE = Addendum(
    request_id="r1",
    service="shop",
    addendum_id="a2",
    created_at=7,
    stages=(
        RetrieveRun(ended_at=30, candidates=(Candidate(chunk_id="x", rank=1, text="found in another process"),)),
        PackRun(ended_at=40, packing=Packing(chunks=(PackedChunk(chunk_id="x", position=0, text="packed there"),))),
    ),
)
ANSWER = GenerateRun(ended_at=50, generation=Generation(answer="Written in the end."))


def _stored(store: Store, request_id: str = "r1") -> RequestRecord:
    found = store.get_record(request_id)
    assert found is not None
    return found


def _state(store: Store) -> tuple[Any, ...]:
    return store.counts(), store.find_requests(), store.totals(), store.queue_depth(), store.get_record("r1")


def _revisions(store: Store) -> list[tuple[int, bool]]:
    return sorted((job.record_revision, job.flagged) for job in store.claim("w"))


def test_an_addendum_extends_a_stored_record(store: Store, make_record: MakeRecord) -> None:
    """Its flags and stage runs join the record, texts included, and the analysis is asked for again."""
    record = make_record(stages=(ANSWER,))
    store.write([record])
    store.write([FLAG, ELSEWHERE])
    found = _stored(store)
    assert (found.flags, found.record_revision) == (("thumbs_down",), 2)
    assert found.stages == (*ELSEWHERE.stages, ANSWER)
    [row] = store.find_requests()
    assert (row.flags, row.record_revision, row.head_sampled) == (("thumbs_down",), 2, True)
    assert _revisions(store) == [(0, False), (2, True)]


def test_an_addendum_that_comes_first_waits(store: Store, make_record: MakeRecord) -> None:
    """It is no request: not counted, listed, read or analyzed; with its request it becomes part of it."""
    store.write([FLAG])
    store.write([ELSEWHERE])
    assert (store.find_requests(), store.totals(), store.get_record("r1")) == ([], [], None)
    assert {name for name, number in store.counts().items() if number} == {"addendum", "bundle", "content"}
    store.write([make_record(stages=(ANSWER,))])
    assert _stored(store).stages == (*ELSEWHERE.stages, ANSWER)
    assert _stored(store).flags == ("thumbs_down",)
    assert _revisions(store) == [(2, True)]


@pytest.mark.parametrize("split", [1, 2, 3])
def test_the_order_of_arrival_does_not_matter(store: Store, make_record: MakeRecord, split: int) -> None:
    """Record and addenda in any order, in one batch or several, give the same record and the same totals."""
    given: tuple[Item, ...] = (make_record(stages=(ANSWER,)), FLAG, ELSEWHERE)
    for number, order in enumerate(permutations(given)):
        name = f"r{number}"
        items = [_renamed(item, name) for item in order]
        for batch in ([items], [items[:1], items[1:]], [[item] for item in items])[split - 1]:
            store.write(batch)
        found = _stored(store, name)
        assert found.stages == (*ELSEWHERE.stages, ANSWER)
        assert (found.flags, found.record_revision) == (("thumbs_down",), 2)
    assert [total.value for total in store.totals()] == [6.0]


def _renamed(item: Item, name: str) -> Item:
    own = {"addendum_id": f"{name}-{item.addendum_id}"} if isinstance(item, Addendum) else {}
    return replace(item, request_id=name, **own)


def test_writing_again_changes_nothing(store: Store, make_record: MakeRecord) -> None:
    """A spool that is replayed, whole or in parts, neither doubles nor undoes the union."""
    record = make_record(versions={"model": "m"})
    store.write([FLAG])
    store.write([record, ELSEWHERE])
    before = _state(store)
    batches: list[list[Item]] = [[record], [FLAG], [ELSEWHERE], [ELSEWHERE, record, FLAG], [record, FLAG, record, FLAG]]
    for batch in batches:
        store.write(batch)
        assert _state(store) == before


def test_a_newer_revision_of_the_recorder_takes_the_addenda_along(store: Store, make_record: MakeRecord) -> None:
    """The union's own revisions do not hide it, and an older one of the recorder's still changes nothing."""
    store.write([make_record(stages=(), flags=("slow",)), FLAG, ELSEWHERE])
    store.add_flags({"r1": ["low_coverage"]})
    newer = make_record(stages=(ANSWER,), segment="newer", record_revision=1)
    store.write([newer])
    found = _stored(store)
    assert (found.segment, found.record_revision, found.stages) == ("newer", 3, (*ELSEWHERE.stages, ANSWER))
    assert set(found.flags) == {"slow", "thumbs_down", "low_coverage"}
    before = _state(store)
    store.write([make_record(stages=())])
    store.write([newer])
    assert _state(store) == before


def test_a_flag_makes_an_unsampled_request_one_to_analyze(store: Store, make_record: MakeRecord) -> None:
    """It had no job; with the flag it has one, in the flagged stratum, and counts no second time."""
    store.write([make_record(head_sampled=False)])
    assert store.queue_depth()["pending"] == 0
    store.write([FLAG])
    assert _revisions(store) == [(1, True)]
    assert _stored(store).head_sampled is False
    assert [(dict(total.labels)["stratum"], total.value) for total in store.totals()] == [("flagged", 1.0)]


def test_a_flag_leaves_a_random_request_in_its_stratum(store: Store, make_record: MakeRecord) -> None:
    """Whether it comes before the record or after it."""
    store.write([FLAG])
    store.write([make_record(), make_record("r2")])
    store.write([replace(FLAG, addendum_id="a9", request_id="r2")])
    assert [(dict(total.labels)["stratum"], total.value) for total in store.totals()] == [("random", 2.0)]
    assert all(row.head_sampled and row.flags == ("thumbs_down",) for row in store.find_requests())


def test_an_addendum_without_an_id_counts_once(store: Store, make_record: MakeRecord) -> None:
    """What it says is its id then."""
    store.write([make_record()])
    for _ in range(2):
        store.write([replace(FLAG, addendum_id="")])
    store.write([replace(FLAG, addendum_id="", flags=("other",))])
    assert (_stored(store).flags, _stored(store).record_revision) == (("thumbs_down", "other"), 2)


def test_feedback_is_not_doubled_by_a_union(store: Store, make_record: MakeRecord) -> None:
    """What joins the record on reading is not written into it."""
    store.write([make_record(), Feedback(request_id="r1", score=-1.0, created_at=3)])
    store.write([FLAG])
    assert len(_stored(store).feedback) == 1


def test_an_addendum_that_cannot_be_encoded_writes_nothing(store: Store, make_record: MakeRecord) -> None:
    """It is an error before anything of its batch is written."""
    bad = replace(FLAG, stages=(RetrieveRun(candidates=(Candidate(chunk_id="c", rank=1, metadata={"x": object()}),)),))
    with pytest.raises(RecordError, match="addendum to 'r1' cannot be written"):
        store.write([make_record(), bad])
    assert set(store.counts().values()) == {0}


def test_a_union_is_written_whole_or_not_at_all(
    store: Store, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure in the last step leaves neither addendum nor union, so that the next try unites."""
    store.write([make_record()])
    before = _state(store)

    def broken(*_: Any) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(totals, "add", broken)
        with pytest.raises(RuntimeError, match="power cut"):
            store.write([FLAG])
    assert _state(store) == before
    store.write([FLAG])
    assert _stored(store).record_revision == 1


@pytest.mark.parametrize("damage", ["payload", "text"])
def test_a_damaged_record_does_not_keep_others_out(store: Store, make_record: MakeRecord, damage: str) -> None:
    """An addendum to it is kept, the rest of its batch is written, and a replay of the record mends it."""
    record = make_record()
    store.write([record])
    with store._database.write() as connection:
        statements = {"payload": sa.update(request).values(payload=b"x"), "text": sa.update(bundle).values(body=b"x")}
        connection.execute(statements[damage])
    store.write([FLAG, make_record("r2", stages=())])
    assert sorted(row.request_id for row in store.find_requests()) == ["r1", "r2"]
    assert store.counts()["addendum"] == 1
    if damage == "payload":
        store.write([record])
        assert (_stored(store).flags, _stored(store).record_revision) == (("thumbs_down",), 1)


def test_the_union_is_analyzed_at_its_revision(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """The result of the record as it was counts once and gives way to that of the united one."""
    store.write([make_record()])
    store.finish([make_finished(job, stage="retrieval") for job in store.claim("w")])
    store.write([FLAG])
    store.finish([make_finished(job, stage="generation") for job in store.claim("w")])
    assert [row.stage for row in store.find_requests()] == ["generation"]
    assert [total.value for total in store.totals() if total.name == "done"] == [1.0]


def test_flags_are_raised_after_the_analysis(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """They are read and listed, each once; revision, stratum, queue and totals stay as they are."""
    store.write([make_record(flags=("slow",))])
    store.finish([make_finished(job) for job in store.claim("w")])
    queue, counted = store.queue_depth(), store.totals()
    for _ in range(2):
        store.add_flags({"r1": ["low_coverage", "slow"]})
    [row] = store.find_requests()
    assert row.flags == _stored(store).flags == ("slow", "low_coverage")
    assert (row.record_revision, row.head_sampled) == (0, True)
    assert (store.queue_depth(), store.totals()) == (queue, counted)
    store.write([FLAG])
    assert _stored(store).flags == ("slow", "low_coverage", "thumbs_down")
    store.write([make_record(request_id="r2")])
    store.add_flags({"unknown": ["low_coverage"], "r2": ["slow"], "r1": ["slow", "late"]})
    flags = {record.request_id: record.flags for record in store.get_records(["r1", "r2", "unknown"]).values()}
    assert flags == {"r1": ("slow", "low_coverage", "thumbs_down", "late"), "r2": ("slow",)}


@pytest.mark.parametrize("is_record_first", [True, False])
def test_writers_that_overlap_see_each_other(store: Store, make_record: MakeRecord, is_record_first: bool) -> None:
    """A record whose addendum is being written at that moment waits for it, and the other way round."""
    items: list[Item] = [make_record(stages=()), FLAG]
    first, second = items if is_record_first else reversed(items)
    with ThreadPoolExecutor(1) as pool:
        with store._database.write() as connection:
            Batch([first]).write(connection)
            other = pool.submit(store.write, [second])
            wait([other], timeout=0.5)  # as long as one that does not wait needs to go wrong
        other.result(timeout=60)
    assert (_stored(store).flags, _stored(store).record_revision) == (("thumbs_down",), 1)


WRITE = """
import sys
from ragtrace.store import Store
from ragtrace.types import *
records = [RequestRecord(request_id=f"r{n:02}", service="s", started_at=1) for n in range(30)]
addenda = [Addendum(request_id=f"r{n:02}", service="s", addendum_id=f"a{n}-{k}", flags=(f"f{k}",),
                    stages=(GenerateRun(ended_at=k, generation=Generation(answer=f"answer {n} {k}")),))
           for n in range(30) for k in range(3)]
given = {"records": records, "addenda": addenda, "both": [*addenda[::-1], *records[::-1]]}[sys.argv[2]]
with Store.open(sys.argv[1]) as store:
    sys.stdin.readline()
    for turn in range(2):
        for item in given:
            store.write([item])
            print(item.request_id, flush=True)
"""


def _start(process: Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _ended(processes: Iterable[Popen[str]]) -> None:
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")


def test_two_writers_never_miss_each_other(url: str, python: Callable[..., Popen[str]]) -> None:
    """Records and their addenda, written by several processes at once and again, are all united, each once."""
    Store.open(url).close()
    processes = [python(WRITE, url, what) for what in ("records", "addenda", "both")]
    for process in processes:
        _start(process)
    _ended(processes)
    _assert_united(url)


def test_a_killed_writer_leaves_nothing_half_united(url: str, python: Callable[..., Popen[str]]) -> None:
    """Killed amid its writes and started again, it ends in the same records."""
    Store.open(url).close()
    for lines in (5, 60, 100):
        process = python(WRITE, url, "both")
        _start(process)
        assert process.stdout is not None
        for _ in range(lines):
            assert process.stdout.readline() != ""
        process.kill()
        process.wait()
    last = python(WRITE, url, "both")
    _start(last)
    _ended([last])
    _assert_united(url)


def _assert_united(url: str) -> None:
    with Store.open(url) as store:
        records = store.get_records(f"r{number:02}" for number in range(30))
        assert store.counts()["addendum"] == 90
        assert sum(total.value for total in store.totals()) == 30
    assert len(records) == 30
    for number, record in sorted((int(name[1:]), record) for name, record in records.items()):
        assert (record.record_revision, sorted(record.flags)) == (3, ["f0", "f1", "f2"])
        answers = [run.generation.answer for run in record.stages if isinstance(run, GenerateRun)]
        assert answers == [f"answer {number} {k}" for k in range(3)]
