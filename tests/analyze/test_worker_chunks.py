"""What an analyzed request says of the identity of its chunks, and the worker that notes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.analyze import worker
from ragtrace.analyze.worker import WorkerSettings, seen_chunks
from ragtrace.store import ChunkSeen, Store
from ragtrace.types import Candidate, RequestRecord, RetrieveRun, content_hash


def found(request_id: str, version: str | None, at: int, **texts: str) -> RequestRecord:
    """A request that found these chunks under a version of the index."""
    candidates = (Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(texts.items(), 1))
    return RequestRecord(
        request_id=request_id,
        service="s",
        started_at=at,
        versions={} if version is None else {"index": version, "model": "m"},
        stages=(RetrieveRun(candidates=tuple(candidates)),),
    )


def test_a_hash_that_the_host_gives_is_the_content() -> None:
    """Else the text is hashed; a chunk with neither says nothing."""
    candidates = (
        Candidate(chunk_id="a", rank=1, text="A", content_hash="the host's"),
        Candidate(chunk_id="b", rank=2, text="B"),
        Candidate(chunk_id="c", rank=3),
    )
    record = RequestRecord(
        request_id="r", service="s", versions={"index": "v"}, stages=(RetrieveRun(candidates=candidates),)
    )
    assert list(seen_chunks(record)) == [
        ChunkSeen("s", "v", "a", "the host's"),
        ChunkSeen("s", "v", "b", content_hash("B")),
    ]


def test_a_record_without_an_index_version_says_nothing() -> None:
    """There is nothing to compare it with."""
    assert list(seen_chunks(found("r", None, 1, a="A"))) == []


def test_the_worker_notes_drift_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it fails between the note and the end of its jobs, and does them again."""
    with Store.open(f"sqlite:///{tmp_path}/r.db") as store:
        store.write([found("r1", "v1", 1, a="A", b="B"), found("r2", "v2", 2, a="A, edited", c="B")])
        with monkeypatch.context() as patched:
            patched.setattr(Store, "finish", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                worker.run(store, WorkerSettings(lease_seconds=-1.0))
        assert store.queue_depth()["done"] == 0
        assert worker.run(store).done == 2
        [drift] = store.drift("s")
        assert (drift.rewritten_ids, drift.renumbered_ids) == (("a",), (("b", "c"),))
        counted = [total.value for total in store.totals() if total.name == "ragtrace_chunk_drift_total"]
        assert counted == [1.0, 1.0]
