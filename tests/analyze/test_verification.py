"""Layer 2 in the worker: claims judged by a model, all requests of a batch together."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace as dataclass_replace
from typing import Literal

import pytest

from ragtrace.analyze import examine, worker
from ragtrace.analyze._stage_signs import evidence_odds
from ragtrace.analyze._verification import judge_batch, judge_relevance, question_nearness, verified_by
from ragtrace.analyze.worker import WorkerSettings
from ragtrace.coverage import JudgedAnswer, united
from ragtrace.coverage.verifier import JudgedRelevance, Pair, Verdict
from ragtrace.engines.calibration import Calibration
from ragtrace.errors import NotJudged, ServerError
from ragtrace.store import Store
from ragtrace.types import (
    Candidate,
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
    VerifiedBy,
    replace,
)


@dataclass
class Scripted:
    """A verifier that does as it is told, and remembers how many pairs each call had."""

    says: Callable[[str, str], Verdict]
    calibration: Calibration | None = None
    calls: list[int] = field(default_factory=list)
    name: str = "scripted"
    digest: str = "0123456789ab"

    def verify(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """What `says` says."""
        self.calls.append(len(pairs))
        return [self.says(*pair) for pair in pairs]


def request(number: int, answer: str | None = "The limit is thirty days.") -> RequestRecord:
    """A request with one packed chunk."""
    chunk = PackedChunk(chunk_id="a", position=1, text=f"The limit is thirty days in case {number}.")
    return RequestRecord(
        request_id=f"r{number}",
        service="support",
        query=Query(original="What is the limit?"),
        stages=(PackRun(packing=Packing(chunks=(chunk,))), GenerateRun(generation=Generation(answer=answer))),
    )


def says(support: float) -> Callable[[str, str], Verdict]:
    """The same of every pair."""
    return lambda claim, evidence: (support, 0.0)


def unreadable(claim: str, evidence: str) -> Verdict:
    """What fails for one request only."""
    if "case 1." in evidence:
        raise ValueError("no such evidence")
    return 0.9, 0.0


def test_a_model_without_vectors_leaves_relevance_to_the_words() -> None:
    """A verifier of claims says nothing of question and answer."""
    judged = judge_batch({"r0": request(0)}, Scripted(says(0.9)))["r0"]
    assert isinstance(judged, JudgedAnswer)
    assert judged.cosine is None


@dataclass
class Near:
    """A judge of relevance with an encoder: answers that speak of days are near to every question."""

    calls: list[int] = field(default_factory=list)
    name: str = "near"
    digest: str = "0123456789ab"
    calibration: None = None

    def relevant(self, pairs: Sequence[Pair]) -> list[float]:
        """All alike."""
        return [0.5] * len(pairs)

    def nearness(self, pairs: Sequence[Pair]) -> list[float]:
        """By the answer alone."""
        self.calls.append(len(pairs))
        return [0.8 if "days" in answer else 0.1 for _, answer in pairs]


def test_how_near_answers_are_to_their_questions_is_asked_in_one_call() -> None:
    """Of the first judge that has an encoder; those without an answer, or all without such a judge, are left out."""
    near, records = Near(), {f"r{number}": request(number) for number in range(3)}
    records |= {"r3": request(3, answer=None), "r4": request(4, answer=" ")}
    assert question_nearness(records, None, Scripted(says(0.9)), near) == {"r0": 0.8, "r1": 0.8, "r2": 0.8}
    assert near.calls == [3]
    assert question_nearness(records, None, Scripted(says(0.9))) == {}


def test_answers_far_from_their_questions_are_counted_where_a_judge_reads_them(store: Store) -> None:
    """Once enough answers of the service are known; by words alone nothing is counted and nothing learned."""

    def ask(first: int, count: int, judge: Near | None, answer: str = "The limit is thirty days.") -> None:
        now = time.time_ns()
        store.write([replace(request(number, answer), ended_at=now) for number in range(first, first + count)])
        worker.run(store, WorkerSettings(relevance=judge))

    for first, judge in ((0, None), (1_000, Near())):
        ask(first, 120, judge)
        ask(first + 500, 6, judge, "Bicycles are blue.")
    ask(900, 4, Near(), "Bicycles are red.")
    totals = [each for each in store.totals() if each.name == "ragtrace_sli_distant_requests_total"]
    assert [(each.value, dict(each.labels)["stage"]) for each in totals] == [(10.0, "generation")]
    traffic = store.traffic("support")
    assert traffic is not None
    assert ["DISTANCE" in names for names in traffic.doubts.values()] == [False, True]
    (found,) = store.scored(["r900"], ())
    assert (found.is_distant, found.doubted & {"retrieval"}) == (True, frozenset())


def test_scores_follow_the_verifier(store: Store) -> None:
    """What words alone support, the model may not; claims, scores and the verifier are stored together."""
    store.write([request(0), request(1)])
    verifier = Scripted(says(0.1), Calibration("temperature", "0123456789ab", ece=0.03))
    assert worker.run(store, WorkerSettings(verifier=verifier)).done == 2
    assert verifier.calls == [2]
    analysis = store.get_analysis("r0")
    assert analysis is not None
    assert analysis.score("answer_coverage") == 0.0
    assert (analysis.claims[0].support, analysis.claims[0].layer) == (0.1, "entailment")
    assert analysis.verified_by == verified_by(verifier)
    assert analysis.verified_by == VerifiedBy(
        name="scripted",
        weights="0123456789ab",
        calibration=verifier.calibration.id if verifier.calibration else None,
        calibration_error=0.03,
    )


def test_without_a_verifier_words_alone_judge(store: Store) -> None:
    """The analysis names no verifier."""
    store.write([request(0)])
    worker.run(store)
    analysis = store.get_analysis("r0")
    assert analysis is not None
    assert analysis.verified_by is None
    assert analysis.score("answer_coverage") == 1.0


def test_one_request_that_fails(store: Store) -> None:
    """Its job fails and is tried again; the others of the batch are done, and nothing unverified is stored for it."""
    store.write([request(number) for number in range(3)])
    summary = worker.run(store, WorkerSettings(verifier=Scripted(unreadable), limit=3))
    assert (summary.done, summary.failed) == (2, 1)
    assert store.get_analysis("r1") is None
    assert store.get_analysis("r2") is not None


@pytest.mark.parametrize("answer", [None, "", "Wie lange ist die Frist und wer hat sie für uns gesetzt?"])
def test_answers_that_cannot_be_judged(answer: str | None, store: Store) -> None:
    """They ask the model nothing, and their scores are undefined as without it."""
    store.write([request(0, answer)])
    verifier = Scripted(says(1.0))
    assert worker.run(store, WorkerSettings(verifier=verifier)).done == 1
    assert verifier.calls == []
    analysis = store.get_analysis("r0")
    assert analysis is not None
    assert analysis.score("answer_coverage") is None
    assert analysis.verified_by is None


def test_a_batch_gives_what_each_gives_alone() -> None:
    """The answers come back to their own requests."""
    by_case = Scripted(lambda claim, evidence: (float(evidence[-2]) / 10, 0.0))
    records = {f"r{number}": request(number) for number in (3, 7)}
    together = judge_batch(records, by_case)
    supports = {}
    for key, answer in together.items():
        assert isinstance(answer, JudgedAnswer)
        supports[key] = answer.claims[0].support
    assert supports == {"r3": 0.3, "r7": 0.7}


@dataclass
class Judge:
    """A judge of relevance and of answers that holds what shares a word with the question for relevant."""

    calibration: Calibration | None = None
    calls: list[tuple[str, int]] = field(default_factory=list)
    name: str = "judge"
    digest: str = "ba9876543210"

    def relevant(self, pairs: Sequence[Pair]) -> list[float]:
        """Nearly sure of each."""
        self.calls.append(("relevant", len(pairs)))
        return [0.98 if "limit" in chunk else 0.02 for _, chunk in pairs]

    def answers(self, pairs: Sequence[Pair]) -> list[float]:
        """The same."""
        self.calls.append(("answers", len(pairs)))
        return [0.98 if "limit" in answer else 0.02 for _, answer in pairs]


def ranked(answer: str = "Pay in cash, which is taken at every desk of ours.") -> RequestRecord:
    """A request whose packer left out the chunk that speaks of the question."""
    texts = {"cash": "Cash is taken at every desk.", "limit": "The limit is thirty days."}
    found = tuple(Candidate(chunk_id=key, rank=rank, text=text) for rank, (key, text) in enumerate(texts.items(), 1))
    packed = PackedChunk(chunk_id="cash", position=1, text=texts["cash"])
    return RequestRecord(
        request_id="ranked",
        service="support",
        query=Query(original="What is the limit?"),
        stages=(
            RetrieveRun(query="What is the limit?", candidates=found),
            PackRun(packing=Packing(chunks=(packed,))),
            GenerateRun(generation=Generation(answer=answer)),
        ),
    )


CALIBRATED = Calibration("temperature", "ba9876543210", ece=0.02)


def test_a_text_is_judged_once() -> None:
    """A chunk that was retrieved and packed is one pair, and so is one of two requests with the same question."""
    judge = Judge()
    judged = judge_relevance({"a": ranked(), "b": ranked()}, judge, judge)
    assert judge.calls == [("relevant", 2), ("answers", 1)]
    assert judged["a"] == judged["b"]
    assert (judged["a"].candidates, judged["a"].packed) == ({"cash": 0.02, "limit": 0.98}, {"cash": 0.02})
    assert judged["a"].answer == 0.02


def test_a_calibrated_judge_is_asked_twice_of_what_decides() -> None:
    """Of the prompt as one text, and of the best chunks outside of it, which speak for a break where they are relevant:
    of those in reverse order as well. Of no text twice."""
    texts = [f"Clause {number}: {what} of the lease." for number, what in enumerate(("limit", "term", "limit", "rent"))]
    found = tuple(Candidate(chunk_id=f"c{rank}", rank=rank, text=text) for rank, text in enumerate(texts, 1))
    packed = tuple(PackedChunk(chunk_id=f"c{at}", position=at, text=texts[at - 1]) for at in (1, 2))
    record = replace(
        ranked(), stages=(RetrieveRun(query="?", candidates=found), PackRun(packing=Packing(chunks=packed)))
    )
    said = judge_relevance({"a": record}, judge := Judge(CALIBRATED), None)["a"]
    assert (said.prompt, said.left, said.likely_left) == ((0.98,), (0.98, 0.98), ("c3", "c4"))
    assert judge.calls == [("relevant", 4), ("relevant", 2), ("relevant", 1)]
    plain = judge_relevance({"a": record}, judge := Judge(), None)["a"]
    assert (plain.prompt, plain.left, judge.calls) == ((), (), [("relevant", 4)])
    single = judge_relevance({"a": ranked()}, judge := Judge(CALIBRATED), None)["a"]
    assert (single.prompt, single.left, judge.calls) == ((), (), [("relevant", 2)])


def test_judgments_that_contradict_each_other_ask_for_a_third() -> None:
    """Of the same chunks in reverse order. What is outside of the prompt is judged once more where nothing of either is
    relevant by itself: a model may have missed the one that is."""

    class Blind(Judge):
        """Sees the limit at the end of a longer text alone."""

        def relevant(self, pairs: Sequence[Pair]) -> list[float]:
            self.calls.append(("relevant", len(pairs)))
            return [0.98 if "\n" in text and text.endswith("limit.") else 0.02 for _, text in pairs]

    texts = ["The term.", "The limit.", "The rent.", "The other limit."]
    found = tuple(Candidate(chunk_id=f"c{rank}", rank=rank, text=text) for rank, text in enumerate(texts, 1))
    packed = tuple(PackedChunk(chunk_id=f"c{at}", position=at, text=texts[at - 1]) for at in (1, 2))
    stages = RetrieveRun(query="?", candidates=found), PackRun(packing=Packing(chunks=packed))
    judge = Blind(CALIBRATED)
    said = judge_relevance({"a": replace(ranked(), stages=stages)}, judge, None)["a"]
    assert (said.prompt, said.left) == ((0.98, 0.02), (0.98, 0.02))
    assert judge.calls == [("relevant", 4), ("relevant", 2), ("relevant", 2)]


@pytest.mark.parametrize(
    ("answer", "chance", "judgments"),
    [
        ("30 days.", 0.98, 1),
        ("30 days.", 0.02, 2),
        ("I cannot answer that.", 0.98, 2),
        ("I cannot answer that.", 0.02, 1),
    ],
)
def test_what_speaks_for_a_break_is_judged_in_both_orders(answer: str, chance: float, judgments: int) -> None:
    """A prompt that holds no evidence of an answer, and one that holds some where the answer declines."""

    class Constant(Judge):
        def relevant(self, pairs: Sequence[Pair]) -> list[float]:
            return [chance] * len(pairs)

    packed = tuple(PackedChunk(chunk_id=f"c{at}", position=at, text=f"Clause {at}.") for at in (1, 2))
    stages = PackRun(packing=Packing(chunks=packed)), GenerateRun(generation=Generation(answer=answer))
    said = judge_relevance({"a": replace(ranked(), stages=stages)}, Constant(CALIBRATED), None)["a"]
    assert said.prompt == (chance,) * judgments


def test_texts_that_were_not_recorded_are_not_judged() -> None:
    """Without texts and answer nothing is asked."""
    record = ranked()
    bare = replace(record, stages=(RetrieveRun(query="?", candidates=(Candidate(chunk_id="cash", rank=1),)),))
    judge = Judge()
    judged = judge_relevance({"a": bare}, judge, judge)
    assert judge.calls == []
    assert judged["a"] == JudgedRelevance(is_calibrated=False, by=judge.name)


def test_what_a_calibrated_judge_says_moves_the_states() -> None:
    """Relevance outside of the prompt, and none in it, breaks ranking beside what words say; not the other way."""
    record, judge = ranked(), Judge(CALIBRATED)
    said = judge_relevance({"a": record}, judge, judge)["a"]
    turned = JudgedRelevance({"cash": 0.98, "limit": 0.02}, {"cash": 0.98}, 0.98, is_calibrated=True)
    by_words = examine(record)[0].diagnosis.state("ranking")
    assert by_words != "sound"
    assert examine(record, relevances=said)[0].diagnosis.state("ranking") == "broken"
    assert examine(record, relevances=turned)[0].diagnosis.state("ranking") != "broken"


def test_a_calibrated_judge_finds_a_wrong_citation_in_a_paraphrase() -> None:
    """Words follow neither chunk; the model denies the cited one, and finds the claim in the other."""
    texts = {
        "limit": "Everyone has thirty days: that is the limit.",
        "desk": "Cash is taken at every desk of the hall.",
    }
    found = tuple(Candidate(chunk_id=key, rank=rank, text=text) for rank, (key, text) in enumerate(texts.items(), 1))
    chunks = tuple(PackedChunk(chunk_id=key, position=at, text=text) for at, (key, text) in enumerate(texts.items(), 1))
    verifier = Scripted(lambda claim, evidence: (0.99 if "thirty" in evidence else 0.01, 0.0), CALIBRATED)

    def citation(mark: str, *, heard: bool = True) -> str | None:
        answer = GenerateRun(generation=Generation(answer=f"People get roughly a month {mark}."))
        stages = (RetrieveRun(query="?", candidates=found), PackRun(packing=Packing(chunks=chunks)), answer)
        record = replace(ranked(), stages=stages)
        if not heard:
            return examine(record)[0].diagnosis.state("citation")
        judged = judge_batch({"a": record}, verifier)["a"]
        assert isinstance(judged, JudgedAnswer)
        said = JudgedRelevance({"limit": 0.98, "desk": 0.02}, {"limit": 0.98, "desk": 0.02}, 0.98, is_calibrated=True)
        return examine(record, judged=judged, relevances=said)[0].diagnosis.state("citation")

    assert citation("[2]") == "broken"
    assert citation("[1]") == "sound"
    assert {citation("[1]", heard=False), citation("[2]", heard=False)} == {"not_known"}


def test_a_reranker_is_convicted_by_a_judge_that_labels_show_to_be_better() -> None:
    """By another one its ranking is suspected at most; where the host has no reranker any calibrated judge will do."""
    record = ranked()
    moves = RankMove("limit", 1, 2), RankMove("cash", 2, 1)
    reranked = replace(record, stages=(*record.stages[:1], RerankRun(moves=moves), *record.stages[1:]))
    states = []
    for asked in (record, reranked):
        for lead in (None, 0.02, -0.01):
            calibration = dataclass_replace(CALIBRATED, lead=lead)
            said = judge_relevance({"a": asked}, judge := Judge(calibration), judge)["a"]
            states.append(examine(asked, relevances=said)[0].diagnosis.state("ranking"))
    assert states == ["broken", "broken", "broken", "suspected", "broken", "suspected"]


def test_a_judge_without_calibration_moves_none() -> None:
    """It is shown in the scores, and the states are those of words."""
    record, judge = ranked(), Judge()
    said = judge_relevance({"a": record}, judge, judge)["a"]
    analysis = examine(record, relevances=said)[0]
    assert analysis.diagnosis.stages == examine(record)[0].diagnosis.stages
    assert analysis.score("answer_relevance") == 0.02
    assert analysis.score("evidence_presence") == pytest.approx((49 + 1 / 49) / 2 / (1 + (49 + 1 / 49) / 2))


def test_grades_of_the_built_in_judge_speak_of_ranking_alone() -> None:
    """As they are, since lines were fitted to them; those of another judge without a calibration say nothing there."""
    record = ranked()
    outside = JudgedRelevance({"cash": 0.02, "limit": 0.98}, {"cash": 0.02}, by="builtin")
    inside = JudgedRelevance({"cash": 0.98, "limit": 0.02}, {"cash": 0.98}, by="builtin")
    other = JudgedRelevance(outside.candidates, outside.packed, by="other")
    by_words, lost, kept, elsewhere = (
        examine(record, relevances=said)[0].diagnosis for said in (None, outside, inside, other)
    )
    assert lost.state("ranking") == "suspected"
    assert lost.state("retrieval") == by_words.state("retrieval")
    told = [
        [line for stage in said.stages for line in stage.evidence if "built-in judge" in line]
        for said in (lost, kept, elsewhere)
    ]
    assert "grades limit" in told[0][0]
    assert told[1:] == [[], []]


def test_a_judge_without_calibration_decides_of_no_facet() -> None:
    """Whether a name that the candidates write otherwise counts is told by words, and not by what nobody checked."""
    question = "How long is the notice period in Acme Corporation contracts in Spain?"
    text = "The notice period in contracts is thirty days. It begins with the letter that ends the contract."
    others = tuple(
        Candidate(chunk_id=str(rank), rank=rank, text=f"The {word} is opened at nine.")
        for rank, word in enumerate(("desk", "hall", "gate", "shop"), 2)
    )
    candidates = (Candidate(chunk_id="1", rank=1, text=text), *others)
    chunk = PackedChunk(chunk_id="1", position=1, text=text)
    answer = GenerateRun(generation=Generation(answer="The notice period in contracts is thirty days."))
    record = RequestRecord(
        request_id="r",
        service="s",
        query=Query(original=question),
        stages=(RetrieveRun(query=question, candidates=candidates), PackRun(packing=Packing(chunks=(chunk,))), answer),
    )
    low = dict.fromkeys(map(str, range(1, 6)), 0.01)
    by_words = examine(record)[0]
    shown = examine(record, relevances=JudgedRelevance(low, {"1": 0.01}))[0]
    heard = examine(record, relevances=JudgedRelevance(low, {"1": 0.01}, is_calibrated=True))[0]
    assert shown.diagnosis.stages == by_words.diagnosis.stages
    assert shown.score("query_coverage") == by_words.score("query_coverage")
    assert heard.diagnosis.stages != by_words.diagnosis.stages


def test_a_request_that_a_judge_cannot_read_fails_alone(store: Store) -> None:
    """A server refuses one prompt, as too long: the others of the batch are judged, and none stays leased."""

    @dataclass
    class Refusing(Judge):
        def relevant(self, pairs: Sequence[Pair]) -> list[float]:
            if any("case 1." in chunk for _, chunk in pairs):
                raise ServerError("400: the prompt is too long")
            return super().relevant(pairs)

    store.write([request(number) for number in range(4)])
    summary = worker.run(store, WorkerSettings(relevance=Refusing(CALIBRATED), limit=4))
    assert (summary.done, summary.failed) == (3, 1)
    assert store.get_analysis("r1") is None
    assert (found := store.get_analysis("r2")) is not None
    assert found.verified_by is not None


def test_a_budget_that_holds_for_some_of_a_batch_is_spent_on_them(store: Store) -> None:
    """Where all of it is too much for an hour, requests are judged one by one until the budget ends."""

    @dataclass
    class Poor(Judge):
        left: int = 2

        def relevant(self, pairs: Sequence[Pair]) -> list[float]:
            if len(pairs) > self.left:
                raise NotJudged("budget", "nothing more may be spent in this hour")
            self.left -= len(pairs)
            return super().relevant(pairs)

    store.write([request(number) for number in range(4)])
    assert worker.run(store, WorkerSettings(relevance=Poor(CALIBRATED))).done == 4
    found = [store.get_analysis(f"r{number}") for number in range(4)]
    assert [analysis is not None and analysis.verified_by is not None for analysis in found] == [
        True,
        True,
        False,
        False,
    ]


def test_chunks_of_every_round_are_judged() -> None:
    """What an earlier round put into its prompt is no less in it than what the last one did."""
    early, late = (PackedChunk(chunk_id=name, position=1, text=f"The limit of {name}.") for name in ("early", "late"))
    found = tuple(Candidate(chunk_id=each.chunk_id, rank=1, text=each.text) for each in (early, late))
    stages = (
        *(RetrieveRun(query="?", candidates=(found[0],)), PackRun(packing=Packing(chunks=(early,)))),
        *(RetrieveRun(query="?", candidates=(found[1],)), PackRun(packing=Packing(chunks=(late,)))),
        GenerateRun(generation=Generation(answer="The limit.")),
    )
    record = RequestRecord(request_id="r", service="s", query=Query(original="What is the limit?"), stages=stages)
    judge = Judge(CALIBRATED)
    said = judge_relevance({"r": record}, judge, judge)["r"]
    assert set(said.packed) == {item.chunk_id for item in united(record).packing.chunks}  # type: ignore[union-attr]
    assert set(said.candidates) == {"early", "late"}


def test_the_worker_asks_the_judges_and_stores_who_judged(store: Store) -> None:
    """The analysis names each model with its role, and the calibrations."""
    store.write([ranked()])
    judge = Judge(CALIBRATED)
    assert worker.run(store, WorkerSettings(relevance=judge, answers=judge)).done == 1
    analysis = store.get_analysis("ranked")
    assert analysis is not None
    assert analysis.diagnosis.stage == "ranking"
    assert analysis.verified_by is not None
    assert analysis.verified_by.name == "relevant: judge + answers: judge"
    assert analysis.verified_by.calibration == f"{CALIBRATED.id} + {CALIBRATED.id}"


@pytest.mark.parametrize(("chances", "count", "expected"), [
    ([0.5, 0.5], None, 0.0),  # says nothing
    ([0.8], None, math.log(4)),
    ([0.8, 0.2], None, math.log((4 + 0.25) / 2)),
    ([0.8], 2, math.log(2)),  # the other may hold it as well, and is not among these
    ([], 3, -5.0),
    ([1.0], None, 5.0),
])  # fmt: skip
def test_the_odds_that_one_of_several_holds_the_evidence(
    chances: list[float], count: int | None, expected: float
) -> None:
    """The mean of their odds, within the bounds of what a model is believed."""
    assert evidence_odds(chances, count) == pytest.approx(expected)


@dataclass
class Failing(Judge):
    """A judge that judges nothing of what holds a word."""

    reason: Literal["budget", "server", "odd"] = "budget"
    word: str = "case 1."

    def verify(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Raises for all where one holds the word."""
        self.calls.append(("entails", len(pairs)))
        if any(self.word in evidence for _, evidence in pairs):
            raise NotJudged(self.reason, "nothing more may be spent in this hour")
        return [(0.1, 0.0) for _ in pairs]


@pytest.mark.parametrize(("reason", "by_words", "calls"), [
    ("budget", {"r1", "r2"}, 3),  # together, and then each alone until it ends
    ("server", {"r0", "r1", "r2"}, 1),
    ("odd", {"r1"}, 4),  # together, and then each alone
])  # fmt: skip
def test_what_a_judge_did_not_judge_is_judged_by_words(
    reason: Literal["budget", "server", "odd"], by_words: set[str], calls: int, store: Store
) -> None:
    """No job fails; the analyses say who judged, and no request is judged in part."""
    store.write([request(number) for number in range(3)])
    judge = Failing(reason=reason)
    assert worker.run(store, WorkerSettings(verifier=judge)).done == 3
    found = {key: store.get_analysis(key) for key in ("r0", "r1", "r2")}
    assert {key for key, analysis in found.items() if analysis and analysis.verified_by is None} == by_words
    assert {key for key, analysis in found.items() if analysis and analysis.score("answer_coverage") == 1.0} == by_words
    assert len(judge.calls) == calls
