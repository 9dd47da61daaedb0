"""Both databases for every test of the store, and the smallest things to put into them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import ragtrace.types
from ragtrace.store import Delta, Finished, Job, Store
from ragtrace.types import (
    Analysis,
    Candidate,
    Diagnosis,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    Score,
)

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once in SQLite and once in PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ragtrace.db"
    fresh: str = request.getfixturevalue("postgres_server").new_database()
    return fresh


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An open store with nothing in it."""
    with Store.open(url) as opened:
        yield opened


@pytest.fixture
def make_record() -> MakeRecord:
    """Builds a record with all four stages; any field may be given."""

    def make(request_id: str = "r1", **fields: Any) -> RequestRecord:
        chunks = [("c1", "the first text"), ("c2", "the second text"), ("c3", "the first text")]
        found = tuple(
            Candidate(chunk_id=chunk_id, rank=rank, score=1.0 / rank, text=text, metadata={"year": 2024})
            for rank, (chunk_id, text) in enumerate(chunks, start=1)
        )
        packed = (
            PackedChunk(chunk_id="c1", position=0, text="the first text", tokens=3, content_hash="the host's own"),
            PackedChunk(chunk_id="c2", position=1, text="the second", truncated=True),
        )
        stages = (
            RetrieveRun(query="what?", candidates=found),
            RerankRun(),
            PackRun(packing=Packing(chunks=packed)),
            GenerateRun(generation=Generation(answer="It is so [1].", model="m")),
        )
        defaults: dict[str, Any] = {"service": "shop", "segment": "billing", "started_at": 1_000, "stages": stages}
        return RequestRecord(request_id=request_id, **{**defaults, **fields})

    return make


@pytest.fixture
def make_finished() -> MakeFinished:
    """Builds the outcome of a job: a recall failure, and one delta of 1 to the series `done`."""

    def make(job: Job, value: float = 0.5, stage: Any = "retrieval", **fields: Any) -> Finished:
        analysis = Analysis(
            request_id=job.request_id,
            analyzer_version=job.analyzer_version,
            record_revision=job.record_revision,
            scores=(Score(metric="query_coverage", value=value), Score(metric="answer_coverage", reason="abstained")),
            diagnosis=Diagnosis(verdict="recall_failure" if stage else "healthy", stage=stage, owner="search"),
            **fields,
        )
        return Finished(job, analysis, (Delta("done", (("service", job.service),), 1.0),))

    return make


@pytest.fixture
def python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python processes that import this ragtrace, and ends those that are left."""
    started: list[subprocess.Popen[str]] = []
    checkout = str(Path(ragtrace.types.__file__).parents[1])

    def start(script: str, *arguments: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*before, sys.executable, "-c", script, *arguments],
            env={**os.environ, "PYTHONPATH": checkout},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
