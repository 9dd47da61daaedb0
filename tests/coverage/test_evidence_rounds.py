"""Rounds of retrieval: what the models of a request were given, and in which round something was lost."""

from __future__ import annotations

import pytest

from ragtrace.coverage import asked, lost_evidence, superseded, united
from ragtrace.coverage._evidence import rounds_of
from ragtrace.types import (
    Candidate,
    DroppedChunk,
    ErrorInfo,
    GenerateRun,
    Generation,
    LostChunk,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageRun,
    replace,
)

G = GenerateRun(generation=Generation(answer="So."))


def record(*stages: StageRun, rewritten: str | None = None) -> RequestRecord:
    """A request with these stages."""
    query = Query(original="What is paid in 2024?", rewritten=rewritten)
    return RequestRecord(request_id="r", service="s", query=query, stages=stages)


def found(names: str, query: str | None = None) -> RetrieveRun:
    """A retriever's run with these candidates, a letter each."""
    return RetrieveRun(
        query=query, candidates=tuple(Candidate(chunk_id=name, rank=rank) for rank, name in enumerate(names, 1))
    )


def kept(before: str, after: str) -> RerankRun:
    """A reranker's run from one order to another, which may lack some."""
    moves = [
        RankMove(chunk_id=name, rank_before=rank, rank_after=after.index(name) + 1 if name in after else None)
        for rank, name in enumerate(before, 1)
    ]
    return RerankRun(moves=tuple(moves))


def pack(names: str, dropped: str = "") -> PackRun:
    """A packing of these chunks; those in capitals are cut."""
    chunks = tuple(
        PackedChunk(chunk_id=name.lower(), position=place, truncated=name.isupper(), text=f"{name}!")
        for place, name in enumerate(names, 1)
    )
    return PackRun(packing=Packing(chunks=chunks, dropped=tuple(DroppedChunk(chunk_id=name) for name in dropped)))


def given(*stages: StageRun) -> str:
    """What the models were given, cut chunks in capitals."""
    packing = united(record(*stages)).packing
    assert packing is not None
    assert [chunk.position for chunk in packing.chunks] == list(range(1, len(packing.chunks) + 1))
    return "".join(chunk.chunk_id.upper() if chunk.truncated else chunk.chunk_id for chunk in packing.chunks)


@pytest.mark.parametrize(
    ("stages", "chunks"),
    [
        ([found("ab"), pack("ab"), G], "ab"),
        ([found("ab"), pack("ab"), G, found("cd"), pack("cd"), G], "cdab"),  # a second round
        ([found("ab"), pack("ab"), G, found("ac"), pack("abc"), G], "abc"),  # whose prompt repeats the first one
        ([found("ab"), pack("ab"), found("cd"), pack("cd"), G], "cd"),  # no model saw the first packing
        ([found("ab"), pack("ab"), pack("a"), G], "a"),  # nor here
        ([found("abcd"), pack("ab"), G, pack("cd"), G], "cdab"),  # an answer that is refined
        ([found("a"), found("b"), pack("a"), pack("b"), G, G, G], "ba"),  # parts answered side by side, then one answer
        ([found("ab"), pack("ab")], "ab"),
        ([G, found("ab"), pack("ab"), G], "ab"),  # a model that plans the search
        ([found("ab"), pack("Ab"), G, found("a"), pack("a"), G], "ab"),  # whole where one holds it whole
        ([found("ab"), pack("ab"), G, found("a"), pack("A"), G], "Aab"),
        ([found("ab"), pack("A"), G, found("a"), pack("A"), G], "A"),
    ],
)
def test_all_that_a_model_was_given_counts(stages: list[StageRun], chunks: str) -> None:
    """The last packing first, in its order, and each chunk once."""
    assert given(*stages) == chunks


def test_a_model_that_failed_was_given_nothing() -> None:
    """Its packing was replaced by another one, as after a prompt that was too long."""
    failed = GenerateRun(error=ErrorInfo(type="TooLong"))
    assert given(found("abc"), pack("abc"), failed, pack("a"), G) == "a"


def test_one_round_is_left_as_it_is() -> None:
    """The record itself: nothing is written anew."""
    one = record(found("ab"), found("c"), kept("abc", "ca"), pack("c"), G, G)
    assert united(one) is one
    assert rounds_of(one) == [one]
    assert united(record(found("ab"))).packing is None


def test_what_was_dropped_and_given_after_all_was_not_dropped() -> None:
    """What no round gave stays dropped."""
    whole = united(record(found("abc"), pack("a", dropped="bc"), G, found("b"), pack("b"), G))
    assert whole.packing is not None
    assert [chunk.chunk_id for chunk in whole.packing.dropped] == ["c"]


def test_uniting_again_changes_nothing() -> None:
    """It may be done wherever a record is read."""
    once = united(record(found("ab"), pack("ab"), G, found("cd"), pack("cd"), G))
    assert united(once) == once


def lost(*stages: StageRun) -> dict[str, tuple[str, str | None]]:
    """Where each chunk was lost, and why."""
    losses: tuple[LostChunk, ...] = lost_evidence(record(*stages), "abcdexyz")
    return {loss.chunk_id: (loss.where, loss.reason) for loss in losses}


def test_the_packer_of_one_round_is_not_taken_for_the_reranker_of_another() -> None:
    """A chunk is lost where the last round that found it lost it: here the first one, which has no reranker."""
    where = lost(found("abc"), pack("ab", dropped="c"), G, found("zxy"), kept("zxy", "zx"), pack("z"), G)
    assert where.keys() == {"c", "d", "e", "x", "y"}
    assert where["c"] == ("packing", "unknown")
    assert where["y"] == ("rerank", "dropped by the reranker")
    assert where["x"] == ("packing", "not packed")
    assert where["d"] == ("retrieval", "not among the candidates")


def test_ranks_are_those_of_the_round() -> None:
    """The packed depth of a round is not that of all rounds together."""
    stages = (found("ab"), pack("ab"), G, found("xyz"), kept("xyz", "yxz"), pack("y"), G)
    assert lost(*stages)["x"] == ("rerank", "sunk below the 1 packed")
    assert {loss.chunk_id: (loss.rank_before, loss.rank_after) for loss in lost_evidence(record(*stages), "x")} == {
        "x": (1, 2)
    }


def test_what_a_later_round_gives_was_not_lost() -> None:
    """Whatever the reranker or the packer of an earlier one did with it."""
    where = lost(found("abc"), kept("abc", "ab"), pack("a"), G, found("cb"), pack("cb"), G)
    assert where.keys() == {"d", "e", "x", "y", "z"}


def test_what_an_earlier_round_gave_was_not_lost_later() -> None:
    """The reranker of the second round drops what the model has read already."""
    where = lost(found("ab"), pack("ab"), G, found("ac"), kept("ac", "c"), pack("c"), G)
    assert {"a", "b", "c"}.isdisjoint(where)


@pytest.mark.parametrize(
    ("queries", "rewritten", "text"),
    [
        (["What is paid in 2024?"], None, None),
        (["what is paid"], "what is paid", "what is paid"),
        (["What is paid in 2024?"], "what is paid", "what is paid"),  # as the host says, of its one retriever
        (["What is paid in 2024?", "what is paid"], "what is paid", "what is paid\nWhat is paid in 2024?"),
        (["paid", "2024", None], "paid", "paid\n2024"),
        ([], "paid", "paid"),
    ],
)
def test_what_the_retrievers_were_asked(queries: list[str | None], rewritten: str | None, text: str | None) -> None:
    """Of several queries all together: what one leaves out another one may ask."""
    assert asked(record(*(found("a", query) for query in queries), rewritten=rewritten)) == text


def test_a_run_that_is_not_known_gives_nothing() -> None:
    """A packing that could not be read is none."""
    unread = replace(pack("cd"), unread=True)
    assert given(found("ab"), pack("ab"), G, found("cd"), unread, G) == "ab"


def test_what_a_later_round_took_the_place_of_is_superseded() -> None:
    """Where the prompt is made of the last round alone, and only of rounds that ended before it began."""
    first = replace(found("abc"), started_at=1, ended_at=2)
    last = replace(found("cd"), started_at=3, ended_at=4)
    assert superseded(record(first, last, pack("cd"))) == {"a", "b"}
    assert superseded(record(first, last, kept("acd", "cda"), pack("cd"))) == {"b"}  # the reranker was given a
    assert superseded(record(first, last, pack("ad"))) == set()  # so both rounds made the prompt
    assert superseded(record(replace(first, ended_at=4), last, pack("cd"))) == set()  # side by side
    assert superseded(record(found("ab"), found("cd"), pack("cd"))) == set()  # no clock
    assert superseded(record(first, pack("a"))) == set()
    assert superseded(record(first, last)) == set()
