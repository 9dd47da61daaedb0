"""Traits: what tells which requests can be compared, beside every record that is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from ragtrace.store import Replayed, Store
from ragtrace.store.golds import question_hash
from ragtrace.store.populations import traits_of
from ragtrace.store.tables import trait
from ragtrace.types import Addendum, GenerateRun, Generation, Query, RequestRecord, TokenUsage

if TYPE_CHECKING:
    from tests.store.conftest import MakeRecord


def _generated(**usage: int) -> GenerateRun:
    return GenerateRun(generation=Generation(usage=TokenUsage(**usage)))


def _rows(store: Store) -> dict[str, dict[str, object]]:
    with store._database.read() as connection:
        rows = connection.execute(sa.select(trait)).mappings().all()
    return {row["request_id"]: dict(row) for row in rows}


def test_a_question_is_known_by_its_words() -> None:
    """Case and white space make no difference; nothing asked is no question."""
    asked = [RequestRecord(request_id="r", service="s", query=Query(original=each)) for each in ("A  b?", "a B?", " ")]
    assert [traits_of(each).question for each in asked] == [question_hash("a b?"), question_hash("a b?"), ""]


def test_a_replay_names_its_questions_itself() -> None:
    """Run, question, attempt and document come from the replay's attributes; a session goes before the document."""
    attributes = {"run": "nightly", "question": "q7", "attempt": 2, "document": "d1"}
    attributes = {f"ragtrace.replay.{name}": value for name, value in attributes.items()}
    record = RequestRecord(request_id="r", service="s", query=Query(original="what?"), attributes=attributes)
    found = traits_of(record)
    assert (found.replay, found.question, found.attempt, found.cluster) == ("nightly", "q7", 2, "d1")
    assert traits_of(RequestRecord(request_id="r", service="s", session_id="s1", attributes=attributes)).cluster == "s1"


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), (None, None)),
        ((GenerateRun(),), (None, None)),
        ((_generated(output_tokens=3),), (None, 3)),
        ((_generated(input_tokens=5, output_tokens=3), _generated(output_tokens=4)), (5, 7)),
    ],
)
def test_tokens_are_summed_over_the_generations(
    runs: tuple[GenerateRun, ...], expected: tuple[int | None, int | None]
) -> None:
    """Every generation costs; what no model reported is unknown, not zero."""
    found = traits_of(RequestRecord(request_id="r", service="s", stages=runs))
    assert (found.input_tokens, found.output_tokens) == expected


def test_traits_follow_their_record(store: Store, make_record: MakeRecord) -> None:
    """They are written with a record, and anew with each revision and each addendum."""
    store.write([make_record(session_id="s\x00", versions={"model": "m1"})])
    row = _rows(store)["r1"]
    assert (row["cluster"], json.loads(str(row["versions"])), row["replay"]) == ("s\ufffd", {"model": "m1"}, None)
    store.write([make_record(versions={"model": "m2"}, record_revision=1)])
    assert json.loads(str(_rows(store)["r1"]["versions"])) == {"model": "m2"}
    late = Addendum(request_id="r1", service="shop", addendum_id="a", stages=(_generated(output_tokens=9),))
    store.write([late])
    assert _rows(store)["r1"]["output_tokens"] == 9


def test_a_replays_attempts_are_found(store: Store, make_record: MakeRecord) -> None:
    """By question, the earlier attempts first, each with the outcome of its request."""

    def asked(request_id: str, question: str, attempt: int, status: str) -> RequestRecord:
        attributes = {"ragtrace.replay.run": "n", "ragtrace.replay.question": question,
                      "ragtrace.replay.attempt": attempt}  # fmt: skip
        return make_record(request_id, attributes=attributes, status=status)

    store.write(
        [asked("r2", "q1", 2, "ok"), asked("r1", "q1", 1, "error"), asked("r3", "q0", 1, "ok"), make_record("r4")]
    )
    assert store.replayed("n") == [
        Replayed("q0", 1, "r3", "shop", "ok"),
        Replayed("q1", 1, "r1", "shop", "error"),
        Replayed("q1", 2, "r2", "shop", "ok"),
    ]
    assert store.replayed("m") == []
    store.write([asked("r5", "q1", 1, "ok"), make_record("r6", attributes={"ragtrace.replay.run": "a"})])
    assert store.replays() == ["a", "n"]
