"""Results, totals and the end of their jobs are one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ragtrace.store import Finished, Store, _job_queue as job_queue, tables
from ragtrace.store._content import compress
from ragtrace.types import Claim, RequestRecord, Score, replace

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]


def _done(store: Store) -> float:
    return sum(total.value for total in store.totals() if total.name == "done")


def test_an_analysis_comes_back_exactly(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """What was finished is what is read, and the job is done."""
    store.write([make_record()])
    [job] = store.claim("w")
    finished = make_finished(job, reference_chunks=("c1",), computed_at=7)
    assert store.finish([finished], now=50.0) == 1
    assert store.get_analysis("r1") == finished.analysis
    assert store.get_analyses(["r1", "none"]) == {"r1": finished.analysis}
    assert store.get_analysis("r1", kind="deep") is None
    assert store.get_analysis("unknown") is None
    assert store.queue_depth() == {"pending": 0, "leased": 0, "done": 1, "dead": 0}
    assert store.last_success() == {"shop": 50.0}
    assert {name: store.counts()[name] for name in ("analysis", "score", "diagnosis")} == {
        "analysis": 1,
        "score": 2,
        "diagnosis": 1,
    }


def test_what_each_chunk_says_of_a_claim_comes_back(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Its support and its contradiction by each chunk of the prompt."""
    store.write([make_record()])
    [job] = store.claim("w")
    claim = Claim(start=0, end=1, text="a", support=0.93, supports={"c1": 0.93, "c2": 0.4}, contradictions={"c3": 0.75})
    store.finish([make_finished(job, claims=(claim,))])
    analysis = store.get_analysis("r1")
    assert analysis is not None
    assert analysis.claims == (claim,)


def test_an_older_result_says_nothing_of_each_chunk(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """One of before that was kept is read as it was written: with its best chunk, and without the others."""
    store.write([make_record()])
    [job] = store.claim("w")
    finished = make_finished(job)
    store.finish([finished])
    older = json.loads(msgspec.json.encode(finished.analysis))
    older["claims"] = [{"start": 0, "end": 1, "text": "a", "support": 0.93, "contradiction": 0.0, "best_chunk": "c1"}]
    with store._database.write() as connection:
        connection.execute(tables.analysis.update().values(body=compress(json.dumps(older).encode())))
    analysis = store.get_analysis("r1")
    assert analysis is not None
    (claim,) = analysis.claims
    assert (claim.best_chunk, claim.support, claim.supports, claim.contradictions) == ("c1", 0.93, {}, {})


def test_finishing_twice_counts_once(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """A second finish of the same lease finds its job done."""
    store.write([make_record()])
    [job] = store.claim("w")
    assert store.finish([make_finished(job), make_finished(job)]) == 1
    assert store.finish([make_finished(job)]) == 0
    assert _done(store) == 1.0


def test_a_request_counts_once_by_its_first_result(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """A newer revision replaces analysis and scores but adds nothing to the totals."""
    store.write([make_record()])
    store.finish([make_finished(job) for job in store.claim("w")])
    store.write([make_record(record_revision=1)])
    [job] = store.claim("w")
    newer = make_finished(job, stage="generation")
    newer = Finished(job, replace(newer.analysis, scores=(Score(metric="query_coverage", value=1.0),)), newer.deltas)
    assert store.finish([newer]) == 1
    assert _done(store) == 1.0
    assert store.get_analysis("r1") == newer.analysis
    assert [row.stage for row in store.find_requests()] == ["generation"]
    assert (store.counts()["analysis"], store.counts()["score"]) == (2, 1)


def test_two_revisions_in_one_batch_count_once(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """The newest revision's diagnosis stands, whatever the order in the batch."""
    store.write([make_record()])
    store.write([make_record(record_revision=1)])
    first, second = store.claim("w")
    assert store.finish([make_finished(second, stage="generation"), make_finished(first)]) == 2
    assert _done(store) == 1.0
    assert [row.stage for row in store.find_requests()] == ["generation"]


def test_a_late_result_of_an_old_revision_does_not_replace_a_newer_one(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """The analysis of the highest record revision is the newest."""
    store.write([make_record()])
    store.write([make_record(record_revision=1)])
    old, new = store.claim("w")
    store.finish([make_finished(new, stage="generation", value=0.9)])
    store.finish([make_finished(old)])
    newest = store.get_analysis("r1")
    assert newest is not None
    assert (newest.record_revision, newest.score("query_coverage")) == (1, 0.9)
    assert [row.stage for row in store.find_requests()] == ["generation"]
    assert _done(store) == 1.0


def test_result_and_job_end_together(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the job cannot be marked as done, no score and no total is written either."""

    def broken(*_: Any) -> None:
        raise RuntimeError("power cut")

    store.write([make_record()])
    jobs = store.claim("w")
    with monkeypatch.context() as patched:
        patched.setattr(job_queue, "finish", broken)
        with pytest.raises(RuntimeError, match="power cut"):
            store.finish([make_finished(job) for job in jobs])
    assert store.get_analysis("r1") is None
    assert (store.counts()["score"], store.counts()["counted"], _done(store)) == (0, 1, 0)  # the request itself
    assert store.finish([make_finished(job) for job in jobs]) == 1
    assert _done(store) == 1.0


def test_a_batch_skips_the_jobs_that_were_lost(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """The others of the batch are written."""
    store.write([make_record("r1"), make_record("r2")])
    lost, _ = store.claim("a", lease_seconds=60, now=1e11)
    taken, rest = store.claim("b", lease_seconds=60, now=1e11 + 61)
    assert (lost.request_id, taken.request_id) == ("r1", "r1")
    assert store.finish([make_finished(lost), make_finished(rest)]) == 1
    assert store.get_analysis("r1") is None
    assert store.get_analysis("r2") is not None


def test_nothing_to_finish_is_fine(store: Store) -> None:
    """An empty batch ends no job."""
    assert store.finish([]) == 0
    assert store.last_success() == {}


def test_the_last_success_never_goes_back(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """A worker with a slow clock does not make the analyzer look stale."""
    store.write([make_record("r1"), make_record("r2")])
    first, second = store.claim("w")
    store.finish([make_finished(first)], now=100.0)
    store.finish([make_finished(second)], now=90.0)
    assert store.last_success() == {"shop": 100.0}
