"""One record's analysis: references, reasons of what is undefined, determinism."""

from __future__ import annotations

import pytest

from ragtrace.analyze import ServiceView, analyze_record, examine
from ragtrace.coverage.verifier import JudgedRelevance
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.types import (
    Candidate,
    Citation,
    ErrorInfo,
    Facet,
    GenerateRun,
    Generation,
    Gold,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    replace,
)
from tests.analyze.examples import ANSWER, FACETS, QUESTION, RERANK, RETRIEVE, packed, request

GOLD = Gold(service="s", question=QUESTION, chunk_ids=("water",))


def test_a_healthy_request_is_healthy_with_oracle_and_proxy() -> None:
    """Both references find the chunk that the answer was written from."""
    for gold, reference in ((GOLD, "oracle"), (None, "proxy")):
        analysis = analyze_record(request(), gold)
        assert (analysis.reference, analysis.reference_chunks) == (reference, ("water",))
        assert analysis.diagnosis.verdict == "healthy"


def test_the_proxy_reference_goes_by_a_judge_of_relevance_too() -> None:
    """By what it says of the candidates, which is asked once for grade, presence and reference; gold goes before."""
    texts = {"words": "A mooring fee may be raised by the Tarn council.", "answer": "The mooring fee is 41 EUR."}
    found = tuple(Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(texts.items(), 1))
    asked = RequestRecord(
        request_id="r", service="s", query=Query(original="what does mooring cost on the Tarn"),
        stages=(RetrieveRun(candidates=found),),
    )  # fmt: skip
    judged = JudgedRelevance({"words": 0.1, "answer": 0.9}, by="model")
    assert examine(asked)[0].reference_chunks == ("words",)
    assert examine(asked, relevances=judged)[0].reference_chunks == ("answer",)
    gold = Gold(service="s", question=asked.query.original, chunk_ids=("words",))
    assert examine(asked, gold, relevances=judged)[0].reference_chunks == ("words",)


def test_every_per_request_metric_of_the_registry_is_scored_once() -> None:
    """No metric of coverage without a score and no score without a metric, in the order of the registry; relevance as a
    judge or the host grades it only where one did."""
    graded = ("best_relevance", "host_relevance")
    wanted = [name for name, each in INSTRUMENTS.items() if each.analysis == "coverage" and name not in graded]
    assert [score.metric for score in analyze_record(request()).scores] == wanted


def test_analysis_is_a_function_of_the_request() -> None:
    """The same record gives the same analysis, to the bit."""
    assert analyze_record(request(), GOLD, computed_at=7) == analyze_record(request(), GOLD, computed_at=7)


def test_a_request_that_asks_for_nothing_needs_no_retrieval() -> None:
    """A courtesy is counted apart, and never a break, whatever was retrieved for it."""
    for asked in ("hello!", "thanks a lot, bye", "are you a real person?", "see you tomorrow", "no, that's everything"):
        chat = replace(request(answer="You are welcome!"), query=Query(original=asked))
        diagnosis = analyze_record(chat).diagnosis
        assert (diagnosis.verdict, diagnosis.stages) == ("no_retrieval_needed", ())
    for asked in ("tomorrow?", "later", "what can you do about my refund?", "is anyone insured?"):
        chat = replace(request(), query=Query(original=asked))
        assert analyze_record(chat).diagnosis.verdict != "no_retrieval_needed"
    greeted = replace(request(), query=Query(original=f"hello! {QUESTION}", facets=request().query.facets))
    assert analyze_record(greeted).diagnosis.stages


def test_a_packer_that_leaves_out_a_duplicate_loses_nothing() -> None:
    """With gold or without; another edition, with another figure, is no duplicate."""
    text = "Home Plus, Ireland, 2024\nWe pay up to €5,000 for escape of water."
    twice = (Candidate(chunk_id="water", rank=1, text=text), Candidate(chunk_id="copy", rank=2, text=f"{text} "))
    prompt = PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="copy", position=1, text=text),)))
    answer = GenerateRun(generation=Generation(answer=ANSWER))
    same = request(RetrieveRun(candidates=twice), prompt, answer)
    assert analyze_record(same, GOLD).diagnosis.verdict == "healthy"
    assert analyze_record(same).diagnosis.state("ranking") == "sound"
    other = text.replace("5,000", "4,000").replace("2024", "2023")
    edition = PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="copy", position=1, text=other),)))
    older = (twice[0], replace(twice[1], text=other))
    assert analyze_record(request(RetrieveRun(candidates=older), edition, answer), GOLD).diagnosis.stage == "ranking"


def test_the_first_break_is_named_with_its_proof() -> None:
    """Evidence that was a candidate and is not in the prompt is a selection failure, whatever the answer says."""
    broken = request(RETRIEVE, RERANK, packed("theft"), GenerateRun(generation=Generation(answer="We pay €1.")))
    analysis = analyze_record(broken, GOLD)
    assert analysis.diagnosis.verdict == "selection_failure"
    assert analysis.score("evidence_recall") == 0.0
    assert [loss.where for loss in analysis.lost] == ["packing"]


def test_citations_are_judged_where_a_service_cites() -> None:
    """One that never cited is not judged by them; once it has, an answer without any is a break, with the remedy."""
    bare = request(answer="We pay up to €5,000 for escape of water. Home Plus pays up to €5,000 in 2024.")
    assert analyze_record(bare, GOLD).diagnosis.verdict == "healthy"
    assert analyze_record(bare, GOLD).diagnosis.state("citation") is None
    uncited = analyze_record(bare, GOLD, service=ServiceView(cites=True)).diagnosis
    assert (uncited.verdict, uncited.cause) == ("citation_failure", "uncited")
    assert "cites=False" in uncited.evidence[-1]
    assert analyze_record(replace(bare, cites=True), GOLD).diagnosis.stage == "citation"
    plain = analyze_record(replace(bare, cites=False), GOLD, service=ServiceView(cites=True))
    assert plain.diagnosis.verdict == "healthy"
    assert reasons(replace(bare, cites=False), GOLD)["citation_coverage"] == "not_citing"


def reasons(of: RequestRecord, gold: Gold | None = None) -> dict[str, str | None]:
    """metric -> reason, for what is undefined."""
    return {score.metric: score.reason for score in analyze_record(of, gold).scores if score.value is None}


def test_of_nothing_recorded_nothing_is_known() -> None:
    """A request without stages: every score undefined, none of them 0 or 1."""
    empty = replace(request(), stages=())
    assert set(reasons(empty).values()) == {"not_recorded", "no_token_counts"}
    diagnosis = analyze_record(empty).diagnosis
    assert diagnosis.verdict == "no_break_found"
    assert {(each.state, each.reason) for each in diagnosis.stages} == {("not_known", "not_recorded")}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(None, "not_recorded"), ("  ", "no_answer"), ("I don't know.", "abstained"), ("Hello!", "no_factual_claims")],
)
def test_undefined_answer_coverage_has_its_reason(answer: str | None, reason: str) -> None:
    """An abstention is no full coverage, and no answer is not an unsupported one."""
    found = reasons(replace(request(answer=answer), cites=True))
    assert (found["answer_coverage"], found["citation_coverage"]) == (reason, reason)


def test_a_refusal_that_says_why_is_generations_where_the_evidence_is_known_to_be_there() -> None:
    """With gold evidence in the prompt it is a break; without gold, or where the evidence was lost, it is not named."""
    answer = "I'm sorry, the passages do not include the deadline. They are about another product."
    declining = request(answer=answer)
    assert analyze_record(declining, GOLD).diagnosis.stage == "generation"
    assert analyze_record(declining).diagnosis.stage is None
    elsewhere = replace(GOLD, chunk_ids=("a-chunk-that-was-not-found",))
    assert analyze_record(declining, elsewhere).diagnosis.stage == "retrieval"


def test_an_answer_to_another_question_is_less_relevant() -> None:
    """Relevance is of question and answer: it needs neither evidence nor a prompt, and says why it is undefined."""
    asked = Query(original="How soon must a loss be reported?")
    found = {
        answer: analyze_record(replace(request(answer=answer), query=asked)).score("answer_relevance")
        for answer in ("A loss must be reported within 30 days.", "Bicycles are insured up to their age of five.")
    }
    right, other = found.values()
    assert right is not None
    assert other is not None
    assert right > 0.5 > other
    said = GenerateRun(generation=Generation(answer="Within 30 days."))
    bare = replace(request(), query=asked, stages=(said,))
    assert analyze_record(bare).score("answer_relevance") is not None
    assert reasons(replace(request(answer="I don't know."), query=asked))["answer_relevance"] == "abstained"


def test_a_question_without_constraints_has_no_query_coverage() -> None:
    """Counted as no_facets."""
    plain = replace(request(), query=Query(original="how do i file a claim?"))
    assert reasons(plain)["query_coverage"] == "no_facets"


def test_hash_only_content_is_undefined_not_bad() -> None:
    """Without texts neither facets nor claims can be judged; ids still can, against an oracle."""
    bare = RetrieveRun(candidates=tuple(replace(item, text=None) for item in RETRIEVE.candidates))
    prompt = PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="water", position=1),)))
    blind = request(bare, prompt, GenerateRun(generation=Generation(answer=ANSWER)))
    found = reasons(blind, GOLD)
    assert (found["query_coverage"], found["answer_coverage"]) == ("no_candidate_text", "no_evidence_text")
    assert analyze_record(blind, GOLD).score("evidence_recall") == 1.0
    assert analyze_record(blind).reference == "none"


def test_an_empty_retrieval_is_suspected() -> None:
    """A retriever that found nothing covers nothing; whether there was anything to find, nobody knows."""
    analysis = analyze_record(request(RetrieveRun(), GenerateRun(generation=Generation(answer="I don't know."))))
    assert analysis.score("query_coverage") == 0.0
    assert analysis.diagnosis.state("retrieval") == "suspected"


def test_a_stage_that_raised_is_named() -> None:
    """The verdict stays open, and the cause says which stage raised what."""
    failed = replace(
        request(RETRIEVE), status="error", error=ErrorInfo(type="TimeoutError", message="after 5 s", stage="generate")
    )
    diagnosis = analyze_record(failed).diagnosis
    assert (diagnosis.verdict, diagnosis.cause) == ("error", "error")
    assert diagnosis.evidence == ("generate raised TimeoutError: after 5 s",)


def test_gold_facets_stand_in_for_those_of_the_host() -> None:
    """The host's own facets come first, then the gold set's, then those read from the question."""
    gold = replace(GOLD, facets=(Facet(kind="jurisdiction", value="Ireland", source="gold"),))
    silent = replace(request(), query=Query(original=QUESTION))
    assert [match.facet.source for match in analyze_record(silent, gold).facets] == ["gold"]
    assert {match.facet.source for match in analyze_record(silent).facets} == {"query"}
    assert {match.facet.source for match in analyze_record(request(), gold).facets} == {"host"}


def test_what_could_not_be_understood_blames_nobody() -> None:
    """A retriever whose return value is unread has not retrieved nothing; so too for a packer."""
    unread = analyze_record(request(RetrieveRun(unread=True), *request().stages[1:]), GOLD)
    assert unread.diagnosis.state("retrieval") == "not_known"
    assert reasons(request(RetrieveRun(unread=True), *request().stages[1:]))["query_coverage"] == "not_recorded"
    packless = analyze_record(request(RETRIEVE, PackRun(unread=True), request().stages[-1]), GOLD)
    assert packless.diagnosis.state("ranking") == "not_known"
    assert packless.diagnosis.stage is None
    assert packless.lost == ()
    assert packless.claims == ()


def test_an_answer_in_another_language_is_undefined() -> None:
    """Rather than judged by English rules."""
    assert reasons(request(answer="Die Frist gilt nicht für Mieter."))["answer_coverage"] == "language"


def pooled(answer: str, *texts: str, packed: int = 1) -> RequestRecord:
    """A question about glass makers, these candidates and ten strangers, the first `packed` in the prompt."""
    strangers = [f"The {place} has its own {guild} guild." for place, guild in zip(
        "harbor church market school museum station theater library bridge mill".split(),
        "rope paper bell clock boat cheese wool salt tile candle".split(), strict=True)]  # fmt: skip
    candidates = tuple(
        Candidate(chunk_id=f"c{rank}", rank=rank, text=text) for rank, text in enumerate([*texts, *strangers], start=1)
    )
    prompt = tuple(PackedChunk(chunk_id=f"c{at}", position=at, text=text) for at, text in enumerate(texts[:packed], 1))
    cited = Citation(marker="[1]", chunk_id="c1")
    return replace(
        request(),
        query=Query(original="how many apprentices did the glass makers employ"),
        stages=(
            RetrieveRun(candidates=candidates),
            PackRun(packing=Packing(chunks=prompt)),
            GenerateRun(generation=Generation(answer=answer, citations=(cited,))),
        ),
    )


def test_an_answer_of_its_own_words_counts_against_the_presence_of_evidence() -> None:
    """Only where it was given the best candidates: else it tells nothing of them."""
    best = "The glass makers employed 40 apprentices."
    presence = {
        answer: analyze_record(pooled(answer, best)).score("evidence_presence")
        for answer in (best, "Venetian merchants shipped vessels overseas.")
    }
    told, strange = presence.values()
    assert told is not None
    assert strange is not None
    assert strange < told
    unpacked = [
        analyze_record(pooled(answer, "It was closed.", best)).score("evidence_presence") for answer in presence
    ]
    assert unpacked[0] == unpacked[1]


BEST = "The glass makers employed 40 apprentices."


@pytest.mark.parametrize("gold", [None, ("c1",), ("c7",), ("elsewhere",)])
@pytest.mark.parametrize(
    "asked",
    [
        "how many apprentices did the glass makers employ",
        "how many apprentices did the glass makers at Zenith Gold employ",
        "I am from Spain, 30 years: how many apprentices did the glass makers employ",
        "how much does a ticket to the opera cost in version 3.1",
    ],
)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_the_answer_says_puts_neither_retrieval_nor_ranking_in_doubt(
    asked: str, gold: tuple[str, ...] | None, order: tuple[int, int]
) -> None:
    """Not even by way of the facets: an answer that was told the evidence acquits a name that no chunk holds."""
    texts = [(BEST, "The hall was closed for years.")[at] for at in order]
    answers = (BEST, "Venetian merchants shipped vessels overseas.", "I don't know.", "", "Die Meister waren fort.")
    records = [replace(pooled(answer, *texts), query=Query(original=asked)) for answer in answers]
    known = Gold(service="s", question=asked, chunk_ids=gold) if gold else None
    doubts = set()
    for record in records:
        found = {each.stage: each for each in analyze_record(record, known).diagnosis.stages}
        doubts.add((found["retrieval"].doubted, found["ranking"].doubted))
        if gold:
            assert all(found[stage].doubted == (found[stage].state == "broken") for stage in ("retrieval", "ranking"))
    assert len(doubts) == 1


@pytest.mark.parametrize(
    ("answer", "state", "verdict"),
    [
        ("I don't know.", "sound", "healthy"),
        ("They employed 90 apprentices.", "broken", "grounding_failure"),
        ("The glass makers employed 40 apprentices.", "broken", "grounding_failure"),
    ],
)
def test_to_a_question_that_no_chunk_answers_declining_alone_is_right(answer: str, state: str, verdict: str) -> None:
    """By gold: retrieval and ranking had nothing to find, and whatever is claimed is generation's, in the prompt or
    not. Without gold evidence, or with gold that names none and says nothing, no such thing is known."""
    asked = "how many apprentices did the rope makers employ"
    record = replace(
        pooled(answer, "The glass makers employed 40 apprentices.", "The hall was closed."), query=Query(original=asked)
    )
    found = analyze_record(record, Gold(service="s", question=asked, is_unanswerable=True))
    assert (found.reference, found.reference_chunks, found.lost) == ("oracle", (), ())
    states = {one.stage: one.state for one in found.diagnosis.stages}
    assert (states["retrieval"], states["ranking"], states["generation"]) == ("sound", "sound", state)
    assert found.diagnosis.verdict == verdict
    assert found.score("evidence_recall") is None
    silent = analyze_record(record, Gold(service="s", question=asked)).diagnosis
    assert silent == analyze_record(record).diagnosis
    if state == "broken":
        assert found.diagnosis.owner == "generation-governance"
        assert answer in found.diagnosis.evidence[0]


def test_the_case_of_who_asks_is_no_failure_of_retrieval() -> None:
    """A place and an amount that the evidence does not speak of; one that it contradicts still is."""
    record = pooled("They employed 40 apprentices.", "The glass makers employed 40 apprentices.")
    asked = "I am from Spain, 30 years: how many apprentices did the glass makers employ"
    healthy = analyze_record(replace(record, query=Query(original=asked)))
    assert healthy.score("query_coverage") is None
    assert reasons(replace(record, query=Query(original=asked)))["query_coverage"] == "doubtful_facets"
    assert healthy.diagnosis.stage is None
    other = pooled("They employed 40 apprentices.", "The glass makers in Ireland employed 40 apprentices.")
    contradicted = analyze_record(replace(other, query=Query(original=asked)))
    assert contradicted.score("query_coverage") == 0.0
    assert contradicted.diagnosis.stage is None  # it is no proof: who asks may live elsewhere


def test_candidates_that_repeat_each_other_give_no_presence() -> None:
    """Three editions of one clause: undefined with that reason."""
    editions = [f"The glass makers employed {count} apprentices." for count in (40, 43, 46)]
    record = pooled(editions[0], *editions, packed=3)
    assert reasons(record)["evidence_presence"] == "alike_candidates"


def test_what_the_question_or_the_host_requires_yields_to_known_evidence() -> None:
    """A year that the gold chunk does not state is no failure of retrieval: the gold chunk is what was needed."""
    record = pooled("The glass makers employed 40 apprentices.", "The glass makers employed 40 apprentices.")
    asked = "how many apprentices did the glass makers employ in 2019"
    gold = Gold(service="s", question=asked, chunk_ids=("c1",))
    read = replace(record, query=Query(original=asked))
    required = replace(record, query=Query(original=asked, facets=(Facet(kind="time", value="2019"),)))
    assert analyze_record(read, gold).diagnosis.stage is None
    assert analyze_record(required, gold).diagnosis.state("retrieval") == "sound"
    assert analyze_record(required).diagnosis.state("retrieval") == "suspected"
    assert analyze_record(read).score("query_coverage") == 0.0


def test_key_terms_are_listed_and_judge_nothing() -> None:
    """They are weak: metrics and states are those of the same request whose host names no facet but a weak one."""
    asked = replace(request(), query=Query(original="does it cover zeppelins and stolen bicycles in 2024"))
    analysis = analyze_record(asked)
    terms = {match.facet.value: match.match for match in analysis.facets if match.facet.weak}
    assert terms == {"zeppelins": 0.0, "bicycles": 1.0}
    assert analysis.score("query_coverage") == 1.0
    assert analysis.diagnosis.state("retrieval") != "broken"


def test_a_weak_facet_of_the_host_counts_in_no_metric() -> None:
    """It is matched beside the others, and leaves their coverage as it is."""
    weak = Facet(kind="entity", value="zeppelins", weak=True)
    asked = replace(request(), query=Query(original=QUESTION, facets=(*FACETS, weak)))
    analysis = analyze_record(asked)
    assert [match.facet.value for match in analysis.facets if match.facet.weak] == ["zeppelins"]
    assert analysis.score("query_coverage") == analyze_record(request()).score("query_coverage") == 1.0
    only_weak = replace(request(), query=Query(original=QUESTION, facets=(weak,)))
    assert reasons(only_weak)["query_coverage"] == "no_facets"


def test_a_suspicion_of_retrieval_names_the_terms_that_nobody_states() -> None:
    """Beside the share of the question's words in the best candidate."""
    strangers = pooled("I do not know, the documents do not say that.", "The harbor has a rope guild.")
    asked = replace(strangers, query=Query(original="how heavy were zeppelins filled with helium"))
    (finding,) = (each for each in analyze_record(asked).diagnosis.stages if each.stage == "retrieval")
    assert finding.state == "suspected"
    assert any("“zeppelins”" in line for line in finding.evidence)


def test_the_rerankers_scores_judge_nothing() -> None:
    """Ranking is what the reranker did: how sure it was of that neither acquits nor blames it, nor any other stage."""
    runs = (RETRIEVE, RERANK, packed("old"), GenerateRun(generation=Generation(answer=ANSWER)))
    plain = analyze_record(request(*runs))
    for scores in ((0.99, 0.01, 0.0), (0.0, 0.5, 1.0)):
        moves = tuple(replace(move, score=score) for move, score in zip(RERANK.moves, scores, strict=True))
        assert analyze_record(request(runs[0], replace(RERANK, moves=moves), *runs[2:])) == plain
