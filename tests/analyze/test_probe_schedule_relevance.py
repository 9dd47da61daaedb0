"""What a probe found, judged by a calibrated model of relevance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from ragtrace.analyze._doubt_model import Chances
from ragtrace.analyze._stage_signs import SUREST
from ragtrace.analyze._stage_states import is_lost
from ragtrace.analyze.analysis import ServiceView, examine
from ragtrace.analyze.probe_schedule import IndexProber, ProbeBudget, probed, relevant_beyond
from ragtrace.coverage.verifier import JudgedRelevance, Pair
from ragtrace.errors import NotJudged
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)

QUESTION = "How long can a berth be reserved for visitors?"
NEAR = "A berth for visitors can be reserved by phone."  # speaks of the question, and does not answer it
OTHER = "The harbour office sells charts and keys."
THERE = "Guests may hold a mooring for at most nine days."  # answers in other words
INDEX = {"near": NEAR, "there": THERE, "other": OTHER}
LOST = Chances(sound=0.02, retrieval=0.7, ranking=0.0, generation=0.28)


class Judge:
    """Calls relevant what holds a phrase."""

    name, digest, calibration = "judge", "d", None

    def __init__(self, phrase: str = "nine days", sureness: float = 0.95) -> None:
        self.phrase, self.sureness, self.asked = phrase, sureness, 0

    def relevant(self, pairs: Sequence[Pair]) -> list[float]:
        """As sure as it was told."""
        self.asked += len(pairs)
        return [self.sureness if self.phrase in text else 1 - self.sureness for _, text in pairs]


class Index:
    """An index whose approximate search misses the evidence."""

    def probe(self, query: str, depth: int, exact: bool) -> list[dict[str, Any]]:
        """Everything, or all but what is missed."""
        return [{"id": name, "text": text} for name, text in INDEX.items() if exact or name != "there"][:depth]

    def has(self, chunk: str) -> bool:
        """Whether it is stored."""
        return chunk in INDEX


RECORD = RequestRecord(
    request_id="r",
    service="harbour",
    query=Query(original=QUESTION),
    stages=(
        RetrieveRun(query=QUESTION, top_k=2, candidates=(Candidate(chunk_id="near", rank=1, text=NEAR),
                                                         Candidate(chunk_id="other", rank=2, text=OTHER))),
        PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="near", position=1, text=NEAR),))),
        GenerateRun(generation=Generation(answer="A berth can be reserved by phone.")),
    ),
)  # fmt: skip


def asked(judge: Judge | None, heard: Chances | None = LOST) -> tuple[str, str | None]:
    """The outcome of a probe, and the cause that it names."""
    found = probed(Index(), RECORD, examine(RECORD)[0], ServiceView(), heard=heard, relevance=judge)
    return found.outcome, found.cause


def test_evidence_in_other_words_is_found_where_models_say_that_retrieval_broke() -> None:
    """Words find nothing better in the index; a judge does, and the index tells why it was not returned."""
    assert asked(None) == ("nothing_better", None)
    assert asked(Judge()) == ("found", "missed_by_search")


def test_a_prober_with_the_judge_breaks_retrieval() -> None:
    """A request whose candidates a calibrated judge calls irrelevant: suspected without the index, broken with it."""
    said = JudgedRelevance({"near": 0.01, "other": 0.01}, {"near": 0.01}, is_calibrated=True)
    analysis, case = examine(RECORD, relevances=said)
    assert analysis.diagnosis.state("retrieval") == "suspected"
    budget = ProbeBudget(suspected=1.0)
    plain = IndexProber(Index(), budget).with_probe(RECORD, analysis, case, ServiceView())
    judged = IndexProber(Index(), budget, relevance=Judge()).with_probe(RECORD, analysis, case, ServiceView())
    assert [each.diagnosis.state("retrieval") for each in (plain, judged)] == ["suspected", "broken"]
    assert judged.diagnosis.stage == "retrieval"


@pytest.mark.parametrize("heard", [None, Chances(0.9, 0.1, 0.0, 0.0), Chances(0.4, 0.3, 0.0, 0.3)])
def test_what_is_no_proof_of_a_loss_stays_none(heard: Chances | None) -> None:
    """Nothing was heard, retrieval is not in doubt, or the request may as well be sound: one "yes" is no proof."""
    assert asked(Judge(sureness=0.6), heard)[0] == "nothing_better"


def test_what_a_model_finds_in_the_index_is_kept_with_the_probe() -> None:
    """As log odds, where an exact search could be asked; the best chunks are judged as one text, whatever they are by
    themselves, and a third time where that contradicts."""

    class Late(Judge):
        def relevant(self, pairs: Sequence[Pair]) -> list[float]:
            self.asked += len(pairs)
            return [0.95 if "\n" in text and self.phrase in text else 0.05 for _, text in pairs]

    found = probed(Index(), RECORD, examine(RECORD)[0], ServiceView(), heard=LOST, relevance=Judge())
    assert found.odds is not None
    assert found.odds > 0.0
    assert probed(Index(), RECORD, examine(RECORD)[0], ServiceView()).odds is None
    chunks = [Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(INDEX.items(), 1)]
    nowhere, late = Judge("elsewhere"), Late()
    assert (
        relevant_beyond(QUESTION, chunks, nowhere)[0] < -math.log(19) < 0.0 < relevant_beyond(QUESTION, chunks, late)[0]
    )
    assert (nowhere.asked, late.asked) == (4, 5)


def test_a_judge_that_finds_nothing_or_gives_up_leaves_it_to_words() -> None:
    """Its budget may have ended."""

    class Poor(Judge):
        def relevant(self, pairs: Sequence[Pair]) -> list[float]:
            raise NotJudged("budget", "nothing more may be spent in this hour")

    assert asked(Judge("elsewhere"))[0] == "nothing_better"
    assert asked(Poor())[0] == "nothing_better"


def test_a_model_judges_in_place_of_words() -> None:
    """A chunk that repeats the question, and does not answer it, is found by words alone."""
    repeats = {**INDEX, "repeats": "How long a berth can be reserved for visitors is asked often."}

    class Repeating(Index):
        def probe(self, query: str, depth: int, exact: bool) -> list[dict[str, Any]]:
            return [{"id": name, "text": text} for name, text in repeats.items() if exact or name in ("near", "other")]

        def has(self, chunk: str) -> bool:
            return True

    given = Repeating(), RECORD, examine(RECORD)[0], ServiceView()
    assert [each.chunk_id for each in probed(*given).chunks] == ["repeats"]
    assert [each.chunk_id for each in probed(*given, heard=LOST, relevance=Judge()).chunks] == ["there"]
    sound = Chances(sound=0.9, retrieval=0.05, ranking=0.0, generation=0.05)
    assert probed(*given, heard=sound, relevance=Judge()).outcome == "nothing_better"


def test_the_best_chunks_are_judged_in_both_orders() -> None:
    """Of three chunks with one relevant, that one leads and all judgments count; without texts nothing is there."""
    found = [Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(INDEX.items(), 1)]
    judge = Judge()
    odds, chunks = relevant_beyond(QUESTION, found, judge)
    assert [each.chunk_id for each in chunks] == ["there"]
    assert judge.asked == 5  # three chunks, and the three as one text, in both orders
    once, _ = relevant_beyond(QUESTION, found[1:2], Judge())
    assert once == pytest.approx(math.log(19))
    assert odds > math.log(19) - 3
    assert relevant_beyond(QUESTION, [Candidate(chunk_id="x", rank=1)], judge) == (-SUREST, [])


def test_the_index_moves_retrieval_alone() -> None:
    """The other stages keep their proportions, and the chances their sum."""
    found = LOST.with_index(math.log(19))
    assert found.retrieval > 0.97
    assert found.generation / found.sound == pytest.approx(LOST.generation / LOST.sound)
    assert found.sound + found.retrieval + found.ranking + found.generation == pytest.approx(1)
    nowhere = LOST.with_index(-math.inf)
    assert nowhere.retrieval == 0.0
    assert not is_lost(nowhere)
    assert is_lost(found)
