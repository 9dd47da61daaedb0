"""Records go in once, whole or not at all, and come back as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragtrace.errors import RecordError
from ragtrace.store import Release, Store, totals
from ragtrace.types import (
    SCHEMA_VERSION,
    Candidate,
    Fault,
    Feedback,
    Item,
    PackRun,
    Query,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    content_hash,
    replace,
)

MakeRecord = Callable[..., RequestRecord]


def _as_read(record: RequestRecord) -> RequestRecord:
    return replace(record, schema_version=SCHEMA_VERSION)


def test_a_record_comes_back_exactly(store: Store, make_record: MakeRecord) -> None:
    """Every text, hash, stage and attribute of a record is what it was."""
    record = make_record(query=Query(original="what?"), flags=("slow", "two words"), attributes={"deep": {"x": [1, 2]}})
    store.write([record])
    assert store.get_record("r1") == _as_read(record)


def test_stages_without_content_come_back_too(store: Store, make_record: MakeRecord) -> None:
    """A stage that ran twice or gave nothing keeps its place, and empty texts stay empty."""
    empty = Candidate(chunk_id="c", rank=1, text="")
    record = make_record(stages=(RetrieveRun(), RetrieveRun(candidates=(empty,)), RerankRun(), PackRun()))
    store.write([record])
    assert store.get_record("r1") == _as_read(record)


def test_a_text_that_was_not_captured_is_not_joined(store: Store, make_record: MakeRecord) -> None:
    """A candidate that carries a hash alone stays without text, even when another record stored that text."""
    bare = Candidate(chunk_id="c1", rank=1, content_hash=content_hash("the first text"))
    record = make_record("r2", stages=(RetrieveRun(candidates=(bare,)),))
    store.write([make_record("r1"), record])
    assert store.get_record("r2") == _as_read(record)


def test_a_text_is_stored_once(store: Store, make_record: MakeRecord) -> None:
    """Texts that recur within and between records take one row each."""
    store.write([make_record(f"r{number}") for number in range(5)])
    store.write([make_record("again")])
    assert store.counts()["content"] == 4  # two chunks, one of them cut in the prompt, one answer


def test_writing_again_changes_nothing(store: Store, make_record: MakeRecord) -> None:
    """A batch that is replayed leaves every table and total as it was."""
    batch: list[Item] = [
        make_record("r1", versions={"model": "a"}),
        make_record("r2"),
        Feedback(request_id="r1", score=1.0, created_at=5),
        Fault(service="shop", where="coerce.retrieve", kind="int", at=7),
    ]
    store.write(batch)
    before = store.counts(), store.totals(), store.faults()
    store.write(batch)
    assert (store.counts(), store.totals(), store.faults()) == before


def test_the_newest_revision_is_kept(store: Store, make_record: MakeRecord) -> None:
    """A newer revision replaces the record, an older or equal one is ignored, in whatever batch they come."""
    store.write([make_record(record_revision=1, segment="one")])
    store.write([make_record(record_revision=0, segment="zero"), make_record(record_revision=1, segment="other")])
    assert [row.segment for row in store.find_requests()] == ["one"]
    store.write([make_record(record_revision=3, segment="three"), make_record(record_revision=2, segment="two")])
    assert [(row.segment, row.record_revision) for row in store.find_requests()] == [("three", 3)]
    newest = store.get_record("r1")
    assert newest is not None
    assert newest.segment == "three"
    assert store.queue_depth()["pending"] == 2  # revisions 1 and 3
    assert [total.value for total in store.totals()] == [1.0]


def test_a_batch_is_written_whole_or_not_at_all(
    store: Store, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure in the last step of a write leaves nothing of it."""

    def broken(*_: Any) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(totals, "add", broken)
    with pytest.raises(RuntimeError, match="power cut"):
        store.write([make_record(), Feedback(request_id="r1"), Fault(service="s", where="w", kind="k")])
    assert set(store.counts().values()) == {0}


def test_a_record_that_cannot_be_encoded_writes_nothing(store: Store, make_record: MakeRecord) -> None:
    """One bad record is an error before anything of its batch is written."""
    with pytest.raises(RecordError, match="r2"):
        store.write([make_record("r1"), make_record("r2", attributes={"bad": object()})])
    assert set(store.counts().values()) == {0}


def test_an_empty_batch_is_fine(store: Store) -> None:
    """Nothing to write is no error."""
    store.write([])
    assert set(store.counts().values()) == {0}


def test_requests_are_counted_by_stratum_and_status(store: Store, make_record: MakeRecord) -> None:
    """Each new request counts once, as random when it was drawn, else as flagged."""
    store.write([make_record("r1"), make_record("r2", flags=("slow",))])
    store.write([make_record("r3", head_sampled=False, flags=("error",), status="error")])
    counted = {(dict(total.labels)["stratum"], dict(total.labels)["status"]): total.value for total in store.totals()}
    assert counted == {("random", "ok"): 2.0, ("flagged", "error"): 1.0}


def test_only_sampled_or_flagged_records_are_analyzed(store: Store, make_record: MakeRecord) -> None:
    """A record that is neither in the random stratum nor flagged gets no job."""
    store.write([make_record("r1", head_sampled=False), make_record("r2"), make_record("r3", flags=("slow",))])
    assert [job.request_id for job in store.claim("w")] == ["r3", "r2"]


def test_values_that_columns_cannot_hold_are_kept_in_the_payload(store: Store, make_record: MakeRecord) -> None:
    """NUL in a name and a revision past 64 bits neither fail the batch nor change the record."""
    record = make_record(segment="a\x00b", record_revision=2**63 + 5, versions={"model": "v\x00"})
    store.write([record])
    assert store.get_record("r1") == _as_read(record)
    assert [row.segment for row in store.find_requests(segment="a\x00b")] == ["a\ufffdb"]


def test_feedback_may_come_before_or_after_its_record(store: Store, make_record: MakeRecord) -> None:
    """Feedback joins the record by request id, oldest first, each once."""
    late = Feedback(request_id="r1", score=-1.0, label="wrong", created_at=20, feedback_id="f2", comment="no\x00")
    early = Feedback(request_id="r1", score=1.0, created_at=10, feedback_id="f1")
    carried = Feedback(request_id="r1", score=0.0, created_at=5)
    store.write([late])
    store.write([make_record(feedback=(carried,))])
    store.write([early, carried])
    read = store.get_record("r1")
    assert read is not None
    assert read.feedback == (carried, early, replace(late, comment="no\ufffd"))


def test_faults_add_up(store: Store) -> None:
    """Faults of one place and kind are summed, with the latest message."""
    fault = Fault(service="shop", where="sink.write", kind="OSError", message="old", count=2, at=10)
    store.write([fault, replace(fault, count=3, message="new", at=30)])
    store.write([replace(fault, count=1, message="between", at=20), replace(fault, kind="ValueError", at=20)])
    assert [(each.kind, each.count, each.message, each.at) for each in store.faults()] == [
        ("OSError", 6, "new", 30),
        ("ValueError", 2, "old", 20),
    ]


def test_a_release_keeps_its_earliest_request(store: Store, make_record: MakeRecord) -> None:
    """A version is first seen at the earliest request that carried it, whatever the order of arrival."""
    store.write([make_record("r1", started_at=50, versions={"model": "a"})])
    store.write([make_record("r2", started_at=30, versions={"model": "a", "index": "i"})])
    store.write([make_record("r3", started_at=90, versions={"model": "a"}, service="other")])
    assert store.releases("shop") == [Release("shop", "index", "i", 30), Release("shop", "model", "a", 30)]
    assert len(store.releases()) == 3


def test_many_records_are_read_in_one_go(store: Store, make_record: MakeRecord) -> None:
    """More ids than fit into one statement, known and unknown, give the records that there are."""
    records = {f"r{number}": make_record(f"r{number}") for number in range(1_200)}
    store.write(list(records.values()))
    found = store.get_records([*records, "unknown"])
    assert found == {request_id: _as_read(record) for request_id, record in records.items()}
    assert store.get_record("unknown") is None
