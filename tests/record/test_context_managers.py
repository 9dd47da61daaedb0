"""`with` and `async with`: the same records from code that cannot be decorated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ragtrace
from ragtrace.record import install
from ragtrace.types import Fault, GenerateRun, PackRun, RetrieveRun, SampledRanking


def run_pipeline() -> str:
    """A pipeline without a single decorated function."""
    with ragtrace.request(query="when?", query_class="dates", versions={"app": "1"}, name="ask") as request:
        with ragtrace.retrieve(query="when? 2024", top_k=2, source="wiki", versions={"index": "7"}) as retrieval:
            hits = [("a", "the text of chunk a", 0.9), ("b", "the text of chunk b", 0.8)]
            retrieval.candidates(hits)
        with ragtrace.rerank(candidates=hits) as reranking:
            reranking.candidates(hits[::-1])
        with ragtrace.pack(budget=50) as packing:
            packing.packed({"chunks": [{"id": "b", "tokens": 5, "tokens_full": 9}], "dropped": [("a", "budget")]})
        with ragtrace.generate(model="m1", prompt="Use: the text of chunk b") as generation:
            generation.answer("So.")
        request.set(attributes={"channel": "web"})
        request.flag("vip")
        return request.request_id


def test_with_blocks_leave_the_same_record(recorded: Any) -> None:
    """Values are given directly; results through the handle."""
    request_id = run_pipeline()
    record = recorded.record
    assert record.request_id == request_id
    assert (record.query.original, record.query.rewritten, record.segment) == ("when?", "when? 2024", "dates")
    assert record.versions == {"app": "1", "index": "7", "model": "m1"}
    assert (record.flags, record.attributes) == (("vip",), {"channel": "web"})
    assert [(move.chunk_id, move.rank_before, move.rank_after) for move in record.moves] == [("b", 2, 1), ("a", 1, 2)]
    packing = recorded.run(PackRun).packing
    assert [(chunk.chunk_id, chunk.truncated) for chunk in packing.chunks] == [("b", True)]
    assert [(chunk.chunk_id, chunk.reason) for chunk in packing.dropped] == [("a", "budget")]
    assert recorded.run(GenerateRun).generation.answer == "So."


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"alpha": 2, "log_probability": -1.5, "places": 5}, (2.0, -1.5, 5)),
        (SampledRanking(alpha=0.5, log_probability=0.0, places=1), (0.5, 0.0, 1)),
        ({"alpha": 2, "log_probability": 0.1, "places": 5}, None),
        ({"alpha": -1, "log_probability": -1.5, "places": 5}, None),
        ({"alpha": 2, "log_probability": -1.5, "places": 0}, None),
        ({"alpha": 2, "places": 5}, None),
        ({"alpha": float("inf"), "log_probability": -1.5, "places": 5}, None),
        ("2", None),
    ],
)
def test_a_ranking_that_was_drawn(recorded: Any, said: Any, kept: tuple[float, float, int] | None) -> None:
    """Its alpha, probability and places stand in the record and on the span; what cannot be is a fault."""
    with ragtrace.request(query="when?") as request:
        request.set(sampled_ranking=said)
    found = recorded.record.sampled_ranking
    assert (None if found is None else (found.alpha, found.log_probability, found.places)) == kept
    assert [where for where, _ in recorded.faults] == ([] if kept else ["coerce.sampled_ranking"])
    attributes = recorded.spans["request request"].attributes
    names = ("alpha", "log_probability", "places")
    assert tuple(attributes.get(f"ragtrace.ranking.{name}") for name in names) == (kept or (None, None, None))


def test_a_host_grades_what_it_retrieved(recorded: Any) -> None:
    """By the block of a stage and by the request, one after the other; the last grade of a chunk and the last action
    count, and both stand on the span."""
    with ragtrace.request(query="when?") as request:
        with ragtrace.retrieve(query="when?") as run:
            run.candidates([{"id": "a", "text": "x"}, {"id": "b", "text": "y"}])
            run.grade({"a": 0.5, "b": "no"})
        with ragtrace.rerank(candidates=[]) as ranking:
            ranking.grade({"a": True}, action="correct")
        request.grade(action="AMBIGUOUS")
    found = recorded.record.graded
    assert [(each.chunk_id, each.grade) for each in found.grades] == [("a", 1.0), ("b", -1.0)]
    assert found.action == "AMBIGUOUS"
    assert recorded.faults == []
    attributes = recorded.spans["request request"].attributes
    assert [attributes[f"ragtrace.grades.{name}"] for name in ("ids", "values", "action")] == [
        ("a", "b"),
        (1.0, -1.0),
        "AMBIGUOUS",
    ]


@pytest.mark.parametrize(
    "said", [{"grades": {"a": 1.5}}, {"grades": {"a": "perhaps"}}, {"grades": [1]}, {"action": "?"}]
)
def test_grades_that_cannot_be_are_a_fault(recorded: Any, said: Any) -> None:
    """And none of the call is kept."""
    with ragtrace.request(query="when?") as request:
        request.grade(said.get("grades"), action=said.get("action"))
    assert recorded.record.graded is None
    assert [where for where, _ in recorded.faults] == ["coerce.graded"]


@pytest.mark.parametrize(("said", "cites"), [(False, False), (True, True), (None, None), ("no", None)])
@pytest.mark.parametrize("is_late", [False, True])
def test_whether_a_request_is_meant_to_cite(recorded: Any, said: Any, cites: bool | None, is_late: bool) -> None:
    """Said by True and False alone, at its begin or later; nobody says it by default, and another value is counted."""
    with ragtrace.request(query="when?", cites=None if is_late else said) as request:
        request.set(cites=said if is_late else None)
    assert recorded.record.cites is cites
    assert recorded.faults == ([("coerce.cites", "str")] if said == "no" else [])
    assert recorded.spans["request request"].attributes.get("ragtrace.cites") is cites


def test_a_request_inside_of_another_does_not_contradict_it(recorded: Any) -> None:
    """Whether it cites is said by the outer one, and by an inner one only where that is silent."""
    with ragtrace.request(query="when?", cites=True), ragtrace.request(query="how?", cites=False):
        pass
    assert recorded.record.cites is True
    recorded.items.clear()
    with ragtrace.request(query="when?"), ragtrace.request(query="how?", cites=False):
        pass
    assert recorded.record.cites is False


def test_async_with(recorded: Any) -> None:
    """The same in a coroutine."""

    async def ask() -> None:
        async with ragtrace.request(query="q"), ragtrace.retrieve(query="q") as run:
            await asyncio.sleep(0)
            run.candidates(["some text here"])

    asyncio.run(ask())
    assert recorded.run(RetrieveRun).candidates[0].text == "some text here"


def test_an_exception_leaves_the_block_unchanged(recorded: Any) -> None:
    """The same object, recorded as the request's error."""
    error = RuntimeError("down")

    def ask() -> None:
        with ragtrace.request(query="q"), ragtrace.generate(model="m"):
            raise error

    with pytest.raises(RuntimeError) as caught:
        ask()
    assert caught.value is error
    assert (recorded.record.error.type, recorded.record.error.stage) == ("RuntimeError", "generate")


def test_without_configure_the_blocks_run() -> None:
    """Handles and requests are there and do nothing."""
    install(None)
    assert run_pipeline() == ""


def test_the_current_request_is_found_anywhere(recorded: Any) -> None:
    """Deep inside the host's code, without passing anything on; outside of a request it records nothing."""
    assert not ragtrace.current_request().recording
    with ragtrace.request(query="q") as request:
        assert ragtrace.current_request().request_id == request.request_id
        assert ragtrace.current_request().recording
    assert not request.recording


def test_what_comes_after_the_end_is_counted(recorded: Any) -> None:
    """What is set on an ended request cannot reach its record, and says so."""
    with ragtrace.request(query="q") as request:
        pass
    request.set(segment="late")
    assert recorded.faults == [("request.set", "ended")]


def test_a_given_request_id_is_kept(recorded: Any) -> None:
    """A host that has ids of its own uses them."""
    with ragtrace.request(query="q", request_id="mine-1"):
        pass
    assert recorded.record.request_id == "mine-1"


@pytest.mark.parametrize("facets", [[{"kind": "colour", "value": "x"}], [5], 5, [{"kind": "time"}]])
def test_bad_facets_are_counted_and_left_out(configure: Any, facets: Any) -> None:
    """The rest of the request is recorded; the fault says what to give in their place."""
    recorded = configure(raise_errors=False)
    with ragtrace.request(query="q", facets=facets):
        pass
    assert recorded.record.query.facets == ()
    (fault,) = (item for item in recorded.items if isinstance(item, Fault))
    assert 'give a list of {"kind": ..., "value": ...}; kinds are entity, time, ' in fault.message
