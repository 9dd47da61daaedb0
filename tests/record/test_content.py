"""The capture policy and the last step of a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ragtrace.config import load
from ragtrace.plausible_values import EARLIEST
from ragtrace.prompts import rebuild
from ragtrace.record import ContentPolicy, scrub
from ragtrace.types import (
    Addendum,
    Candidate,
    Citation,
    ErrorInfo,
    Facet,
    Fault,
    Feedback,
    GenerateRun,
    Generation,
    Item,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    StageRun,
    content_hash,
    encode_record,
    replace,
    to_builtins,
)

ItemT = TypeVar("ItemT", bound=Item)

MAIL = "john@example.com"
TEXT = f"secret text of a chunk, see {MAIL}"
REDACTED = "secret text of a chunk, see [EMAIL]"
STAGES: tuple[StageRun, ...] = (
    RetrieveRun(
        query=f"secret rewrite {MAIL}",
        candidates=(
            Candidate(
                chunk_id=f"a-{MAIL}",
                rank=1,
                text=TEXT,
                metadata={"t": "secret", "by": [{MAIL: f"<{MAIL}>"}], "page": 7},
            ),
            Candidate(chunk_id="b", rank=2, text="secret text that is not packed"),
        ),
    ),
    PackRun(packing=Packing(chunks=(PackedChunk(chunk_id=f"a-{MAIL}", position=1, text=TEXT),))),
    GenerateRun(
        generation=Generation(
            answer=f"secret answer to {MAIL} [1]",
            prompt_template=f"For {MAIL}:\n{TEXT}\nsecret text that is not packed\nAnswer.",
            citations=(Citation(marker="[1]", chunk_id="a", start=34, end=37),),
        ),
        error=ErrorInfo(type="E", message=f"secret of {MAIL}"),
    ),
)
RECORD = RequestRecord(
    request_id="r",
    service="s",
    query=Query(
        original=f"secret question of {MAIL}",
        rewritten="secret rewrite",
        facets=(Facet(kind="entity", value=MAIL, aliases=("secret", MAIL), start=19, end=35),),
    ),
    status="error",
    error=ErrorInfo(type="E", message=f"secret in a message to {MAIL}"),
    attributes={"note": f"secret of {MAIL}"},
    stages=STAGES,
    feedback=(Feedback(request_id="r", comment=f"secret thanks from {MAIL}"),),
)
MODES = [
    "full", "hash", "off", "redacted", {"chunks": "off"}, {"chunks": "hash", "prompt": "redacted"},
    {"default": "redacted", "answer": "full"}, {"query": "off", "answer": "redacted"},
]  # fmt: skip


def finished(item: ItemT, capture: Any, **settings: Any) -> ItemT:
    """`item` as it may be written."""
    done = ContentPolicy(load(capture_content=capture, **settings)).finish(item)
    assert isinstance(done, type(item))
    return done


def parts(record: RequestRecord | Addendum) -> tuple[RetrieveRun, PackRun, GenerateRun]:
    """The three runs."""
    return record.stages  # type: ignore[return-value]


def test_full_keeps_texts_and_adds_hashes() -> None:
    """Chunks and answer get their hash, the prompt becomes a template."""
    retrieve, pack, generate = parts(finished(RECORD, "full"))
    assert retrieve.candidates[0].content_hash == pack.packing.chunks[0].content_hash == content_hash(TEXT)
    assert retrieve.candidates[0].text == TEXT
    assert generate.generation.answer_hash == content_hash(f"secret answer to {MAIL} [1]")
    assert generate.generation.prompt_template is not None
    assert generate.generation.prompt_template.startswith(f"For {MAIL}:\n{{chunk:a-{MAIL}}}\n")


def test_hash_keeps_hashes_only() -> None:
    """No text is left, and a chunk can still be told from another."""
    record = finished(RECORD, "hash")
    retrieve, pack, generate = parts(record)
    assert retrieve.candidates[0].content_hash == pack.packing.chunks[0].content_hash == content_hash(TEXT)
    assert generate.generation.answer_hash == content_hash(f"secret answer to {MAIL} [1]")
    assert b"secret" not in encode_record(record)


def test_off_keeps_neither() -> None:
    """Ids, ranks, times and counts only."""
    record = finished(RECORD, "off")
    retrieve, _, generate = parts(record)
    assert (retrieve.candidates[0].content_hash, generate.generation.answer_hash) == (None, None)
    assert b"secret" not in encode_record(record)
    assert generate.generation.citations == (Citation(marker="", chunk_id="a", start=34, end=37),)


def test_redacted_replaces_in_all_content() -> None:
    """Texts, nested metadata, template, facets, messages, attributes and comments; ids stay as they are."""
    record = finished(RECORD, "redacted")
    retrieve, pack, generate = parts(record)
    assert MAIL not in str(to_builtins(record)).replace(f"a-{MAIL}", "")
    assert retrieve.candidates[0].chunk_id == pack.packing.chunks[0].chunk_id == f"a-{MAIL}"
    assert retrieve.candidates[0].text == pack.packing.chunks[0].text == REDACTED
    assert retrieve.candidates[0].content_hash == pack.packing.chunks[0].content_hash == content_hash(REDACTED)
    assert retrieve.candidates[0].metadata == {"t": "secret", "by": [{"[EMAIL]": "<[EMAIL]>"}], "page": 7}
    assert generate.generation.prompt_template is not None
    assert generate.generation.prompt_template.startswith(f"For [EMAIL]:\n{{chunk:a-{MAIL}}}\n")
    assert generate.generation.answer_hash == content_hash("secret answer to [EMAIL] [1]")
    assert record.query.original == "secret question of [EMAIL]"
    assert record.query.facets == (Facet(kind="entity", value="[EMAIL]", aliases=("secret", "[EMAIL]")),)
    assert record.attributes == {"note": "secret of [EMAIL]"}


def test_secrets_are_seen_by_the_name_of_their_key() -> None:
    """In a request's attributes and in a candidate's metadata."""
    given = {"password": "Sommer2024!", "db": {"api_key": "abc"}}
    hidden = {"password": "[KEY]", "db": {"api_key": "[KEY]"}}
    candidate = Candidate(chunk_id="a", rank=1, metadata=given)
    retrieve = RetrieveRun(candidates=(candidate,))
    record = finished(replace(RECORD, attributes=given, stages=(retrieve,)), "redacted")
    assert record.attributes == hidden
    assert [run.candidates[0].metadata for run in record.stages if isinstance(run, RetrieveRun)] == [hidden]


def test_citations_follow_the_redacted_answer() -> None:
    """A marker stands at its new place; one that cannot be found again has none."""
    _, _, generate = parts(finished(RECORD, "redacted"))
    generation = generate.generation
    (citation,) = generation.citations
    assert generation.answer is not None
    assert generation.answer[citation.start : citation.end] == citation.marker == "[1]"
    inside = replace(STAGES[2].generation, citations=(Citation(marker="x", start=20, end=24),))  # type: ignore[union-attr]
    _, _, generate = parts(finished(replace(RECORD, stages=(*STAGES[:2], GenerateRun(generation=inside))), "redacted"))
    assert generate.generation.citations == (Citation(marker="x"),)


@pytest.mark.parametrize(
    ("field", "read", "kept"),
    [
        ("query", lambda record: record.query, RECORD.query),
        ("query", lambda record: parts(record)[0].query, f"secret rewrite {MAIL}"),
        ("chunks", lambda record: parts(record)[0].candidates[0].text, TEXT),
        ("chunks", lambda record: parts(record)[1].packing.chunks[0].text, TEXT),
        ("metadata", lambda record: parts(record)[0].candidates[0].metadata, STAGES[0].candidates[0].metadata),  # type: ignore[union-attr]
        ("answer", lambda record: parts(record)[2].generation.answer, f"secret answer to {MAIL} [1]"),
        ("error", lambda record: record.error.message, f"secret in a message to {MAIL}"),
        ("error", lambda record: parts(record)[2].error.message, f"secret of {MAIL}"),  # type: ignore[union-attr]
        ("attributes", lambda record: record.attributes, {"note": f"secret of {MAIL}"}),
        ("feedback", lambda record: record.feedback[0].comment, f"secret thanks from {MAIL}"),
    ],
)
def test_each_field_by_itself(field: str, read: Callable[[RequestRecord], Any], kept: Any) -> None:
    """Kept when it alone is kept, gone when it alone is off, and redacted when it alone is redacted."""
    assert read(finished(RECORD, {"default": "off", field: "full"})) == kept
    assert "secret" not in str(read(finished(RECORD, {field: "off"})))
    redacted = str(read(finished(RECORD, {field: "redacted"})))
    assert "secret" in redacted
    assert MAIL not in redacted


def test_a_prompt_without_the_texts_of_chunks() -> None:
    """Where chunks are not kept, candidates that were not packed leave the prompt too."""
    _, _, generate = parts(finished(RECORD, {"chunks": "off"}))
    assert generate.generation.prompt_template == f"For {MAIL}:\n{{chunk:a-{MAIL}}}\n{{chunk:b}}\nAnswer."


def test_an_addendum_is_treated_as_its_record() -> None:
    """Stages that another process ran: the same policy, and no prompt whose chunks are known elsewhere only."""
    addendum = Addendum(request_id="r", service="s", addendum_id="x", stages=STAGES)
    assert finished(addendum, "redacted").stages == finished(RECORD, "redacted").stages
    assert "secret" not in str(to_builtins(finished(addendum, "off")))
    alone = replace(addendum, stages=STAGES[2:])
    assert alone.stages[0].generation.prompt_template  # type: ignore[union-attr]
    assert finished(alone, {"chunks": "off"}).stages[0].generation.prompt_template is None  # type: ignore[union-attr]
    assert finished(alone, "full").stages[0].generation.prompt_template  # type: ignore[union-attr]


def test_a_redactor_cannot_forge_a_placeholder() -> None:
    """What it puts into a prompt is text, so that the prompt can still be rebuilt."""
    settings = {"redactor": lambda text: text.replace("Answer", "{chunk:z}")}
    _, pack, generate = parts(finished(RECORD, {"prompt": "redacted"}, **settings))
    prompt = rebuild(str(generate.generation.prompt_template), pack.packing.chunks)
    assert prompt == f"For [EMAIL]:\n{TEXT}\nsecret text that is not packed\n{{chunk:z}}."


@pytest.mark.parametrize("capture", MODES)
def test_finishing_twice_changes_nothing(capture: Any) -> None:
    """An item that waits in memory and is finished again is the same."""
    once = finished(RECORD, capture)
    assert finished(once, capture) == once


def test_feedback_and_faults() -> None:
    """A comment is content; a fault passes as it is, since its message was treated when it was counted."""
    feedback = Feedback(request_id="r", label="good", comment=f"thanks, {MAIL}", created_at=EARLIEST)
    assert finished(feedback, "off") == replace(feedback, comment=None)
    assert finished(feedback, "redacted").comment == "thanks, [EMAIL]"
    fault = Fault(service="s", where="w", kind="k", message="m")
    assert finished(fault, "off") == fault


def test_a_redactor_that_fails_costs_the_content_not_the_record() -> None:
    """All content is gone and counted; ids, ranks and offsets stay."""
    faults: list[tuple[str, str]] = []

    def broken(text: str) -> str:
        raise ValueError("secret")

    policy = ContentPolicy(load(capture_content="redacted", redactor=broken), lambda *fault: faults.append(fault))
    record = policy.finish(RECORD)
    assert isinstance(record, RequestRecord)
    assert "secret" not in str(to_builtins(record))
    assert [candidate.rank for candidate in parts(record)[0].candidates] == [1, 2]
    assert parts(record)[0].candidates[0].content_hash is None
    assert set(faults) == {("redact", "ValueError")}
    assert policy.finish(record) == record


def test_scrub_makes_lone_surrogates_writable() -> None:
    """Text from broken JSON escapes costs a character, not the record."""
    record = RequestRecord(request_id="r", service="s", query=Query(original="half \ud83d"), attributes={"\ud83d": 1})
    assert scrub(record).query.original == "half ?"  # type: ignore[union-attr]
    encode_record(scrub(record))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["full", "redacted", "off"])
def test_a_source_tells_no_password(mode: str) -> None:
    """A source that is a URL is kept without the user and the password in it."""
    source = "https://reader:s3cret@wiki.example/a?by=x@y"
    run = RetrieveRun(candidates=(Candidate(chunk_id="a", rank=1, source=source, text="t"),))
    record = ContentPolicy(load(capture_content=mode)).finish(RequestRecord(request_id="r", service="s", stages=(run,)))
    assert isinstance(record, RequestRecord)
    assert record.candidates[0].source == "https://wiki.example/a?by=x@y"


def test_labels_command_no_terminal() -> None:
    """Names that become labels are one line without control characters; others stay as they are."""
    run = RetrieveRun(candidates=(Candidate(chunk_id="a", rank=1, source="wi\x1b[31mki\u202e"),))
    record = RequestRecord(
        request_id="r", service="shop\x1b]0;x\x07", segment="a\nb", versions={"index\t1": "v\x00 1"}, stages=(run,)
    )
    finished = ContentPolicy(load()).finish(record)
    assert isinstance(finished, RequestRecord)
    assert (finished.service, finished.segment, finished.versions) == ("shop]0;x", "a b", {"index 1": "v 1"})
    assert finished.candidates[0].source == "wi[31mki"
    plain = RequestRecord(request_id="r", service="Köln/shop 2", segment="\u6771\u4eac", started_at=EARLIEST)
    assert ContentPolicy(load()).finish(plain) == plain
