"""The capture policy and the last step of a record."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.record import finish, scrub
from ragtrace.types import (
    Candidate,
    ErrorInfo,
    Feedback,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    content_hash,
    encode_record,
)

TEXT = "secret text of a chunk"
RECORD = RequestRecord(
    request_id="r",
    service="s",
    query=Query(original="secret question", rewritten="secret rewrite"),
    status="error",
    error=ErrorInfo(type="E", message="secret in a message"),
    attributes={"note": "secret"},
    stages=(
        RetrieveRun(
            query="secret rewrite", candidates=(Candidate(chunk_id="a", rank=1, text=TEXT, metadata={"t": "secret"}),)
        ),
        PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="a", position=1, text=TEXT),))),
        GenerateRun(generation=Generation(answer="secret answer", prompt_template=f"Use:\n{TEXT}\nAnswer.")),
    ),
)


def parts(record: Any) -> tuple[RetrieveRun, PackRun, GenerateRun]:
    """The three runs."""
    return record.stages  # type: ignore[no-any-return]


def test_full_keeps_texts_and_adds_hashes() -> None:
    """Chunks and answer get their hash, the prompt becomes a template."""
    retrieve, pack, generate = parts(finish(RECORD, "full"))
    assert retrieve.candidates[0].content_hash == pack.packing.chunks[0].content_hash == content_hash(TEXT)
    assert retrieve.candidates[0].text == TEXT
    assert generate.generation.answer_hash == content_hash("secret answer")
    assert generate.generation.prompt_template == "Use:\n{chunk:a}\nAnswer."


def test_hash_keeps_hashes_only() -> None:
    """No text is left, and a chunk can still be told from another."""
    record = finish(RECORD, "hash")
    retrieve, pack, generate = parts(record)
    assert retrieve.candidates[0].content_hash == pack.packing.chunks[0].content_hash == content_hash(TEXT)
    assert generate.generation.answer_hash == content_hash("secret answer")
    assert b"secret" not in encode_record(record)  # type: ignore[arg-type]


def test_off_keeps_neither() -> None:
    """Ids, ranks, times and counts only."""
    record = finish(RECORD, "off")
    retrieve, _, generate = parts(record)
    assert (retrieve.candidates[0].content_hash, generate.generation.answer_hash) == (None, None)
    assert b"secret" not in encode_record(record)  # type: ignore[arg-type]


@pytest.mark.parametrize("capture", ["full", "hash", "off"])
def test_finishing_twice_changes_nothing(capture: Any) -> None:
    """An item that waits in memory and is finished again is the same."""
    once = finish(RECORD, capture)
    assert finish(once, capture) == once


def test_feedback_passes_as_it_is() -> None:
    """Only records hold captured content."""
    feedback = Feedback(request_id="r", comment="thanks")
    assert finish(feedback, "off") is feedback


def test_scrub_makes_lone_surrogates_writable() -> None:
    """Text from broken JSON escapes costs a character, not the record."""
    record = RequestRecord(request_id="r", service="s", query=Query(original="half \ud83d"), attributes={"\ud83d": 1})
    assert scrub(record).query.original == "half ?"  # type: ignore[union-attr]
    encode_record(scrub(record))  # type: ignore[arg-type]
