"""The record: strict on write, tolerant on read, and its views over repeated stage runs."""

from __future__ import annotations

import msgspec
import pytest

from ragtrace.errors import RecordError
from ragtrace.types import (
    SCHEMA_VERSION,
    Candidate,
    ErrorInfo,
    Facet,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    content_hash,
    decode_record,
    encode_record,
    replace,
)

RECORD = RequestRecord(
    request_id="r1",
    service="answers",
    query=Query(original="How long?", facets=(Facet(kind="time", value="2024", weight=2.0),)),
    versions={"index": "7"},
    stages=(
        RetrieveRun(candidates=(Candidate(chunk_id="a", rank=2, score=0.5, text="x"), Candidate(chunk_id="b", rank=3))),
        RetrieveRun(candidates=(Candidate(chunk_id="a", rank=1), Candidate(chunk_id="c", rank=2, modality="table"))),
        RerankRun(moves=(RankMove(chunk_id="a", rank_before=1, rank_after=2),)),
        PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="a", position=1),))),
        GenerateRun(generation=Generation(answer="Three days.")),
    ),
    flags=("error",),
    head_sampled=False,
    head_probability=0.05,
)


def test_round_trip_keeps_every_field() -> None:
    """What was written is read back, stamped with the schema version."""
    assert decode_record(encode_record(RECORD)) == replace(RECORD, schema_version=SCHEMA_VERSION)


def test_unknown_fields_are_ignored_on_read() -> None:
    """A field that a later minor change added does not stop an older reader."""
    body = msgspec.json.decode(encode_record(RECORD)) | {"mood": "good"}
    assert decode_record(msgspec.json.encode(body)).request_id == "r1"


def test_the_former_schema_version_is_read() -> None:
    """A record of version n-1, which lacks fields of version n, is read with their defaults."""
    old = msgspec.json.encode({"request_id": "r0", "service": "answers", "schema_version": SCHEMA_VERSION - 1})
    record = decode_record(old)
    assert (record.request_id, record.head_sampled, record.stages) == ("r0", True, ())


def test_a_newer_schema_version_is_refused_with_the_remedy() -> None:
    """A record of the future is not half understood."""
    future = msgspec.json.encode({"request_id": "r9", "service": "s", "schema_version": SCHEMA_VERSION + 1})
    with pytest.raises(RecordError, match="upgrade ragtrace"):
        decode_record(future)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"request_id": 3, "service": "s"}'])
def test_what_is_no_record_is_refused(body: bytes) -> None:
    """Bytes that are no record raise RecordError, nothing else."""
    with pytest.raises(RecordError):
        decode_record(body)


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(chunk_id="a", rank=1, metadata={"x": object()}),
        Candidate(chunk_id="a", rank="first"),  # type: ignore[arg-type]  # the very mistake under test
        Candidate(chunk_id=None, rank=1),  # type: ignore[arg-type]  # the very mistake under test
        Candidate(chunk_id="\ud800", rank=1),
    ],
)
def test_what_could_not_be_read_back_is_not_written(candidate: Candidate) -> None:
    """Writing is strict: a wrong type or value is refused when it is written, not when it is read."""
    with pytest.raises(RecordError, match="r1"):
        encode_record(replace(RECORD, stages=(RetrieveRun(candidates=(candidate,)),)))


def test_candidates_are_the_union_of_all_retrieve_runs_at_their_best_rank() -> None:
    """A chunk that two retrievers found is one candidate; modalities are kept."""
    assert [(item.chunk_id, item.rank, item.modality) for item in RECORD.candidates] == [
        ("a", 1, "text"),
        ("c", 2, "table"),
        ("b", 3, "text"),
    ]


def test_a_failed_run_does_not_stand_for_the_stage() -> None:
    """A retry that failed does not hide the packing and the answer that were used."""
    failed = PackRun(error=ErrorInfo(type="ValueError"))
    record = replace(RECORD, stages=(*RECORD.stages, failed, GenerateRun(error=ErrorInfo(type="TimeoutError"))))
    assert record.packing is not None
    assert record.packing.chunks[0].chunk_id == "a"
    assert record.generation is not None
    assert record.generation.answer == "Three days."


def test_a_clock_that_ran_backwards_gives_no_negative_duration() -> None:
    """Durations never fall below zero."""
    assert replace(RECORD, started_at=5, ended_at=3).duration_ns == 0


def test_content_hash_takes_any_text() -> None:
    """Lone surrogates, which a host may hand over, have a hash too, and equal texts share one."""
    assert content_hash("\ud800") != content_hash("a") == content_hash("a")
    assert len(content_hash("")) == 32
