"""Several rounds of retrieval through the whole analysis: what a later round mends is no break."""

from __future__ import annotations

from ragtrace.analyze import analyze_record
from ragtrace.types import (
    Analysis,
    Candidate,
    ErrorInfo,
    GenerateRun,
    Generation,
    Gold,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageState,
    replace,
)
from tests.analyze.examples import ANSWER, FACETS, QUESTION, TEXTS, packed, request

BOTH = "We pay up to €5,000 for escape of water [2]. We pay up to €900 for stolen bicycles [1]."
PLAN = GenerateRun(generation=Generation(answer="search: escape of water"))
SAID = GenerateRun(generation=Generation(answer=ANSWER))


def found(*names: str, query: str | None = None) -> RetrieveRun:
    """A retriever's run with these chunks."""
    chunks = (Candidate(chunk_id=name, rank=rank, text=TEXTS[name]) for rank, name in enumerate(names, 1))
    return RetrieveRun(query=query, candidates=tuple(chunks))


def gold(*names: str) -> Gold:
    """The chunks that the question needs."""
    return Gold(service="s", question=QUESTION, chunk_ids=names)


def states(found: Analysis) -> dict[str, StageState]:
    """The state of each stage."""
    return {finding.stage: finding.state for finding in found.diagnosis.stages}


MENDED = request(found("theft"), packed("theft"), PLAN, found("old", "water"), packed("water"), SAID)


def test_a_later_round_that_mends_an_earlier_one_is_no_break() -> None:
    """The first search misses the evidence, the second finds it: by gold healthy, and without gold nobody is blamed."""
    assert analyze_record(MENDED, gold("water")).diagnosis.verdict == "healthy"
    assert analyze_record(MENDED).diagnosis.stage is None
    assert states(analyze_record(MENDED))["retrieval"] == "sound"


def test_a_round_that_failed_and_was_repeated_is_no_break() -> None:
    """The retriever raised an error at first."""
    failed = RetrieveRun(error=ErrorInfo(type="Timeout"))
    again = request(failed, found("water"), packed("water"), SAID)
    assert analyze_record(again, gold("water")).diagnosis.verdict == "healthy"


def test_evidence_of_an_earlier_round_was_given() -> None:
    """The answer rests on the chunks of both rounds; the last prompt alone would not support it."""
    both = request(
        found("water", "old"),
        packed("water"),
        PLAN,
        found("theft"),
        packed("theft"),
        GenerateRun(generation=Generation(answer=BOTH)),
    )
    whole = analyze_record(both, gold("water", "theft"))
    assert whole.diagnosis.verdict == "healthy"
    assert (whole.score("evidence_recall"), whole.score("answer_coverage")) == (1.0, 1.0)
    assert whole.lost == ()
    assert analyze_record(both).diagnosis.stage is None


def test_evidence_that_no_round_found_is_a_recall_failure() -> None:
    """As many rounds as one likes."""
    missed = request(found("theft"), packed("theft"), PLAN, found("old"), packed("old"), SAID)
    assert analyze_record(missed, gold("water")).diagnosis.verdict == "recall_failure"


def test_evidence_that_a_round_found_and_none_gave_is_a_selection_failure() -> None:
    """By the packer of the first round, although the second one has a reranker that never saw it."""
    rerank = RerankRun(moves=(RankMove(chunk_id="old", rank_before=1, rank_after=1),))
    left = request(found("theft", "water"), packed("theft"), PLAN, found("old"), rerank, packed("old"), SAID)
    diagnosis = analyze_record(left, gold("water")).diagnosis
    assert (diagnosis.verdict, diagnosis.cause) == ("selection_failure", "lost_in_packing")


def test_evidence_that_the_reranker_of_the_last_round_drops_is_lost_there() -> None:
    """The first round did not find it."""
    rerank = RerankRun(
        moves=(RankMove(chunk_id="old", rank_before=1, rank_after=1), RankMove(chunk_id="water", rank_before=2))
    )
    dropped = request(found("theft"), packed("theft"), PLAN, found("old", "water"), rerank, packed("old"), SAID)
    diagnosis = analyze_record(dropped, gold("water")).diagnosis
    assert (diagnosis.verdict, diagnosis.cause) == ("selection_failure", "lost_in_rerank")


def test_a_prompt_that_was_thrown_away_gave_nothing() -> None:
    """The host packed the evidence, searched anew before any model saw it, and answered from something else."""
    thrown = request(found("water"), packed("water"), found("theft"), packed("theft"), SAID)
    assert analyze_record(thrown, gold("water")).diagnosis.verdict == "selection_failure"


def test_a_made_up_answer_after_two_rounds_is_the_models() -> None:
    """The rounds before it are sound by gold."""
    invented = GenerateRun(generation=Generation(answer="Whales sing in the Arctic Ocean and sleep near Iceland."))
    told = replace(MENDED, stages=(*MENDED.stages[:-1], invented))
    found = analyze_record(told, gold("water"))
    assert (states(found)["retrieval"], states(found)["ranking"]) == ("sound", "sound")
    assert states(found)["generation"] != "sound"


def follow_up(*queries: str) -> RequestRecord:
    """A request whose retriever was asked these, one after the other, and found nothing of 2024."""
    rounds = [run for query in queries for run in (found("old", query=query), packed("old"), PLAN)]
    rewritten = next((query for query in queries if query != QUESTION), None)
    record = request(*rounds[:-1], SAID)
    return replace(record, query=Query(original=QUESTION, rewritten=rewritten, facets=FACETS))


def test_a_constraint_that_one_of_several_queries_asks_was_not_dropped() -> None:
    """A single rewrite that drops the year is a proven break; beside a query that has it, it is none."""
    short = "What does Home Plus pay for escape of water?"
    assert states(analyze_record(follow_up(short)))["retrieval"] == "broken"
    assert states(analyze_record(follow_up(QUESTION, short)))["retrieval"] == "suspected"
    assert states(analyze_record(follow_up(short, "What does Home Plus pay in 2024?")))["retrieval"] == "suspected"


def test_rounds_are_the_same_for_a_verifier() -> None:
    """What a model is asked about is what all rounds gave."""
    from ragtrace.analyze.analysis import judged_answer

    judged = judged_answer(MENDED)
    assert judged is not None
    assert [chunk.chunk_id for chunk in judged.packed] == ["water", "theft"]
    assert isinstance(MENDED.stages[-2], PackRun)
