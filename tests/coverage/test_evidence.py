"""Evidence overlap, recall, precision, and where each reference chunk was lost."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragtrace.coverage import (
    candidate_recall,
    evidence_depth,
    evidence_overlap,
    evidence_precision,
    evidence_recall,
    evidence_token_share,
    lost_evidence,
    rank_shift,
    truncated_tokens,
)
from ragtrace.types import (
    Candidate,
    Claim,
    DroppedChunk,
    ErrorInfo,
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
    replace,
)

IDS = st.sets(st.sampled_from("abcdef"))


def test_overlap_recall_and_precision() -> None:
    """Two needed, one packed among four: Jaccard 1/5, recall 1/2, precision 1/4."""
    assert evidence_overlap("abcd", "ax") == 1 / 5
    assert evidence_recall("abcd", "ax") == 1 / 2
    assert evidence_precision("abcd", "ax") == 1 / 4
    assert candidate_recall("abcdx", "ax") == 1.0


def test_without_a_reference_nothing_is_defined() -> None:
    """No reference gives None, an empty prompt gives 0."""
    assert (evidence_overlap("ab", ""), evidence_recall("ab", ""), evidence_precision("ab", "")) == (None, None, None)
    assert (evidence_overlap("", "a"), evidence_recall("", "a"), evidence_precision("", "a")) == (0.0, 0.0, None)


@given(IDS, IDS)
def test_bounds_and_order(packed: set[str], reference: set[str]) -> None:
    """Overlap never exceeds recall or precision; all lie in [0, 1]."""
    overlap, recall = evidence_overlap(packed, reference), evidence_recall(packed, reference)
    if not reference:
        assert overlap is None
        return
    assert overlap is not None
    assert recall is not None
    assert 0.0 <= overlap <= recall <= 1.0


@pytest.mark.parametrize(
    ("candidates", "reference", "depth"),
    [
        ("abcd", "a", 1.0),
        ("abcd", "c", 3.0),
        ("abcd", "ac", 3.0),
        ("abcd", "da", 4.0),
        ("aabbc", "c", 3.0),  # a chunk that is listed twice is read once
        ("abcd", "ax", None),  # no depth shows what is absent
        ("", "a", None),
        ("abcd", "", None),
    ],
)
def test_depth_is_the_place_of_the_last_evidence(candidates: str, reference: str, depth: float | None) -> None:
    """Read from the best candidate on, all evidence is seen at the worst place of its chunks."""
    assert evidence_depth(candidates, reference) == depth


@given(st.permutations("abcdef"), IDS, st.integers(1, 6))
def test_recall_at_a_depth_follows_from_the_depth(ranked: list[str], reference: set[str], depth: int) -> None:
    """All evidence is among the first d candidates exactly when its depth is at most d: what the dashboard divides."""
    found = evidence_depth(ranked, reference)
    if not reference:
        assert found is None
        return
    assert found is not None
    assert (candidate_recall(ranked[:depth], reference) == 1.0) == (found <= depth)


def _sized(**tokens: int | None) -> list[PackedChunk]:
    return [
        PackedChunk(chunk_id=name, position=place, tokens=number)
        for place, (name, number) in enumerate(tokens.items(), start=1)
    ]


@pytest.mark.parametrize(
    ("packed", "reference", "share"),
    [
        (_sized(a=30, b=10), "a", 0.75),
        (_sized(a=30, b=10), "ab", 1.0),
        (_sized(a=30, b=10, c=60), "bx", 0.1),
        (_sized(a=30, b=10), "x", 0.0),
        (_sized(a=30, b=None), "a", None),  # of an unknown whole no share is known
        (_sized(a=0), "a", None),
        ([], "a", None),
        (_sized(a=30), "", None),
    ],
)
def test_token_share_of_the_evidence(packed: list[PackedChunk], reference: str, share: float | None) -> None:
    """Tokens of the evidence over those of all chunks of the prompt."""
    assert evidence_token_share(packed, reference) == share


def test_a_chunk_given_in_parts_has_the_tokens_of_all_its_parts() -> None:
    """Each part of an evidence chunk adds to its share: (20 + 20) / 50."""
    parts = [*_sized(a=20, b=10), PackedChunk(chunk_id="a", position=3, tokens=20)]
    assert evidence_token_share(parts, "a") == 0.8


def test_more_tokens_than_the_whole_has_are_no_truncation() -> None:
    """A host that counts the wrapper's tokens with a chunk's cut nothing off it: a sum that falls is no counter."""
    assert truncated_tokens([PackedChunk(chunk_id="a", position=1, tokens=12, tokens_full=10)]) == 0.0


LONG = "The limit is €5,000. " + "Other rules apply to gardens. " * 5


def path(**packed: PackedChunk) -> RequestRecord:
    """Six candidates a..f; the reranker drops e and sinks d; the packer takes two chunks unless told otherwise."""
    chunks = packed or {"a": PackedChunk(chunk_id="a", position=1), "b": PackedChunk(chunk_id="b", position=2)}
    moves = [("a", 1, 1), ("b", 3, 2), ("c", 4, 3), ("d", 2, 5), ("e", 5, None), ("f", 6, 4)]
    return RequestRecord(
        request_id="r",
        service="s",
        query=Query(original="What is the limit?"),
        stages=(
            RetrieveRun(
                candidates=tuple(
                    Candidate(chunk_id=name, rank=before, text=LONG)
                    for name, before, _ in sorted(moves, key=lambda m: m[1])
                )
            ),
            RerankRun(moves=tuple(RankMove(chunk_id=n, rank_before=b, rank_after=a) for n, b, a in moves)),
            PackRun(
                packing=Packing(chunks=tuple(chunks.values()), dropped=(DroppedChunk(chunk_id="c", reason="budget"),))
            ),
        ),
    )


def test_each_lost_chunk_has_a_place_and_a_reason() -> None:
    """Never retrieved, dropped or sunk by the reranker, left out by the packer; what was packed is not lost."""
    lost = lost_evidence(path(), ["a", "x", "e", "d", "c", "f"])
    assert [(loss.chunk_id, loss.where, loss.rank_before, loss.rank_after, loss.reason) for loss in lost] == [
        ("x", "retrieval", None, None, "not among the candidates"),
        ("e", "rerank", 5, None, "dropped by the reranker"),
        ("d", "rerank", 2, 5, "sunk below the 2 packed"),
        ("c", "packing", 4, 3, "budget"),
        ("f", "packing", 6, 4, "not packed"),
    ]


def test_a_packer_that_passes_others_over_packs_deeper() -> None:
    """Only two are packed, one of them from rank 4: what fell from rank 4 to 6 was within its reach before."""
    record = path(a=PackedChunk(chunk_id="a", position=1), f=PackedChunk(chunk_id="f", position=2))
    moves = [RankMove(chunk_id=name, rank_before=before, rank_after=after) for name, before, after in (
        ("a", 1, 1), ("f", 6, 4), ("c", 4, 6), ("b", 3, 2), ("d", 5, 5))]  # fmt: skip
    record = replace(
        record,
        stages=tuple(RerankRun(moves=tuple(moves)) if isinstance(run, RerankRun) else run for run in record.stages),
    )
    assert {loss.chunk_id: loss.where for loss in lost_evidence(record, "cbd")} == {
        "c": "rerank",
        "b": "packing",
        "d": "packing",
    }


@pytest.mark.parametrize(
    ("text", "tokens", "where"),
    [
        (LONG[:25], 20, None),
        (LONG[25:60], 20, "truncation"),
        (LONG[:25], 5, "truncation"),
        (None, 20, None),
        (None, 5, "truncation"),
    ],
)
def test_truncation_loses_a_chunk_with_its_answer_or_by_half(text: str | None, tokens: int, where: str | None) -> None:
    """A cut chunk is lost when the sentence that answers is gone, or when less than half is left."""
    cut = PackedChunk(chunk_id="a", position=1, tokens=tokens, tokens_full=30, truncated=True, text=text)
    lost = lost_evidence(path(a=cut), ["a"])
    assert [loss.where for loss in lost] == ([where] if where else [])


def test_an_answer_that_misses_what_was_cut_away_shows_the_loss() -> None:
    """It declines, or states what only the cut part of the chunk supports; what another chunk supports is no sign."""
    cut = PackedChunk(chunk_id="a", position=1, tokens=20, tokens_full=30, truncated=True, text=LONG[:25])
    record = path(a=cut)
    generated = GenerateRun(generation=Generation(answer="I could not find this in the documents."))
    declining = replace(record, stages=(*record.stages, generated))
    assert [loss.where for loss in lost_evidence(declining, ["a"])] == ["truncation"]
    of_cut, of_other = (Claim(text="x", start=0, end=1, unselected_chunk=name) for name in ("a", "b"))
    assert [loss.where for loss in lost_evidence(record, ["a"], [of_cut])] == ["truncation"]
    assert lost_evidence(record, ["a"], [of_other]) == ()


def test_rank_shift_is_the_mean_distance_of_the_reference() -> None:
    """b moved one rank, d three; dropped chunks have no distance."""
    assert rank_shift(path().moves, ["b", "d", "e"]) == 2.0
    assert rank_shift(path().moves, ["e", "x"]) is None


def test_truncated_tokens_sum_what_was_cut() -> None:
    """Unknown counts are undefined, not zero."""
    cut = PackedChunk(chunk_id="a", position=1, tokens=10, tokens_full=30)
    assert truncated_tokens([cut, cut]) == 40.0
    assert truncated_tokens([PackedChunk(chunk_id="a", position=1)]) is None


def test_a_second_rerank_of_other_chunks_drops_nothing_of_the_first() -> None:
    """Two hops, each with a reranker of its own: a chunk that the packer left out was lost in packing."""
    record = path()
    other = RerankRun(moves=(RankMove(chunk_id="z", rank_before=1, rank_after=1),))
    hops = replace(record, stages=(*record.stages[:2], other, *record.stages[2:]))
    assert [loss.where for loss in lost_evidence(hops, ["c"])] == ["packing"]


def test_what_was_not_recorded_has_lost_nothing() -> None:
    """Without a packing nothing is lost in packing, and without a retrieval that was understood nothing in it."""
    record = path()
    assert lost_evidence(replace(record, stages=record.stages[:2]), ["c"]) == ()
    unread = (RetrieveRun(unread=True), *record.stages[1:])
    assert lost_evidence(replace(record, stages=unread), ["x"]) == ()


def test_a_chunk_that_the_reranker_never_saw_was_not_dropped_by_it() -> None:
    """It was cut off before."""
    record = path()
    fewer = replace(record.stages[1], moves=tuple(move for move in record.moves if move.chunk_id != "f"))
    lost = lost_evidence(replace(record, stages=(record.stages[0], fewer, record.stages[2])), ["f"])
    assert [(loss.where, loss.reason) for loss in lost] == [("rerank", "not given to the reranker")]


def test_a_retriever_that_failed_beside_one_that_did_not_hides_no_loss() -> None:
    """After a fallback the candidates are known, so what is absent from them was lost in retrieval."""
    record = path()
    failed = RetrieveRun(error=ErrorInfo(type="TimeoutError"))
    lost = lost_evidence(replace(record, stages=(failed, *record.stages)), ["x"])
    assert [loss.where for loss in lost] == ["retrieval"]


def test_a_chunk_given_in_parts_is_lost_with_its_answer_only() -> None:
    """Line breaks and quotes within a part do not hide the sentence; without token counts the places are named."""
    full = "Cover begins at noon. The excess for theft is EUR 50. Claims are reported in writing."
    candidate = Candidate(chunk_id="a", rank=1, text=full)

    def losses(*texts: str) -> list[str | None]:
        chunks = tuple(
            PackedChunk(chunk_id="a", position=place, truncated=True, text=text, given_start=0, given_end=len(text))
            for place, text in enumerate(texts, 1)
        )
        record = RequestRecord(
            request_id="r",
            service="s",
            query=Query(original="What is the excess for theft?"),
            stages=(RetrieveRun(candidates=(candidate,)), PackRun(packing=Packing(chunks=chunks))),
        )
        return [loss.reason for loss in lost_evidence(record, ["a"])]

    assert losses("Cover begins at noon.") == [f"characters 0 to 21 of {len(full)} given"]
    assert losses("> The excess for\n> theft is EUR 50.", "Cover begins at noon.") == []


def test_an_inferred_reason_is_called_probable() -> None:
    """It is no proof of what the packer did."""
    record = RequestRecord(
        request_id="r",
        service="s",
        stages=(
            RetrieveRun(candidates=(Candidate(chunk_id="a", rank=1), Candidate(chunk_id="b", rank=2))),
            PackRun(
                packing=Packing(
                    chunks=(PackedChunk(chunk_id="a", position=1),),
                    dropped=(DroppedChunk(chunk_id="b", reason="budget", inferred=True),),
                )
            ),
        ),
    )
    assert [loss.reason for loss in lost_evidence(record, ["b"])] == ["probably budget"]
