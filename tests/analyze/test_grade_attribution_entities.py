"""What grades rest on, by judges whose reasons are known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ragtrace.analyze.grade_attribution import GradedPair, alignment_report, deciding_pairs, names_of
from ragtrace.analyze.worker import WorkerSettings, run
from ragtrace.coverage.text import words
from ragtrace.grading import GradeThresholds, document_action, grade_of
from ragtrace.store import Store
from tests.analyze.test_retrieval_grading import GOOD, MINUTE, START, WordJudge, record

LINE = GradeThresholds(upper=0.3, lower=-0.3)
PEOPLE = ("Ann Hoe", "Billy Carlson", "Rufus Holsinger", "Lena Marchetti", "Henry Feilden", "Dan Cox")


@dataclass
class ByNames:
    """Grades by the names that question and document share alone, or by the answer's word alone."""

    by_names: bool
    name: str = "names"
    digest: str = "d"
    calibration: None = None

    def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One half more for each half of what is looked for."""
        said = []
        for question, text in pairs:
            asked = set(words(question.replace("'s", ""))) - {"What", "is", "occupation"}
            held = set(words(text))
            share = len(asked & held) / max(1, len(asked)) if self.by_names else float("worked" in held)
            said.append(0.1 + 0.8 * share)
        return said


def pairs_of(judge: ByNames) -> list[GradedPair]:
    """A document about each person that says what they worked as, and one about somebody else that does not."""
    found = []
    for place, person in enumerate(PEOPLE * 9):
        other = PEOPLE[(place + 1) % len(PEOPLE)]
        for text in (f"{person} lived here. {person} worked as a miller.", f"Bees make honey for {other}."):
            question = f"What is {person}'s occupation?"
            grade = grade_of(judge.relevant([(question, text)])[0])
            found.append(GradedPair(question, text, grade, document_action(grade, LINE)))
    return found


@pytest.mark.parametrize("by_names", [True, False])
def test_a_judge_that_trusts_names_is_told_from_one_that_reads(by_names: bool) -> None:
    """By the share of its reasons that are names, and by what an exchanged name changes; with intervals of 54 each."""
    judge = ByNames(by_names)
    found = alignment_report(pairs_of(judge), judge, LINE, budget=128)
    correct = found.alignments[0]
    assert (correct.action, correct.requests, correct.unnamed) == ("CORRECT", 54, 0)
    assert correct.shared is not None
    assert correct.separator is None  # words have none between the texts
    exchanged = found.exchanges[0]
    assert exchanged.in_document is not None
    assert exchanged.kept is not None
    assert exchanged.on_both is not None
    assert exchanged.requests == 54
    assert exchanged.on_both.value == pytest.approx(0.0, abs=1e-9)
    if by_names:
        assert correct.shared.value > 0.9
        assert exchanged.in_document.low > 0.5
        assert exchanged.kept.high < 0.1
        missing = found.alignments[-1].missing
        assert missing is None or missing.low <= missing.value <= missing.high
    else:
        assert correct.shared.high < 0.1
        assert exchanged.in_document.value == pytest.approx(0.0, abs=1e-9)
        assert exchanged.kept.value == 1.0


def test_intervals_are_of_requests() -> None:
    """Where half of the grades rest on names, the share is about a half and its interval holds it; more are surer."""
    names, reads = ByNames(by_names=True), ByNames(by_names=False)

    @dataclass
    class Either(ByNames):
        def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
            return [(names if "Ann" in q or "Dan" in q or "Lena" in q else reads).relevant([(q, t)])[0]
                    for q, t in pairs]  # fmt: skip

    judge = Either(by_names=True)
    pairs = [pair for pair in pairs_of(judge) if pair.action == "CORRECT"]
    found = [alignment_report(some, judge, LINE, budget=64).alignments[0].shared for some in (pairs[:12], pairs)]
    few, many = (each for each in found if each is not None)
    assert few.low < many.value < few.high
    assert many.high - many.low < few.high - few.low


def test_names_of_a_question() -> None:
    """As it writes them: of rules, and of PopQA's forms where there are no capitals."""
    assert "Ann Hoe" in names_of("What is Ann Hoe's occupation?")
    assert names_of("what is ann hoe's occupation?") == ("ann hoe",)
    assert names_of("how do I open it?") == ()


def test_the_candidates_that_decide(store: Store) -> None:
    """Of each action as many requests as are wanted, each with its best candidate."""
    texts = [("Bees.", GOOD), ("A fee is due.", "Bees."), ("Bees.", "Honey.")]
    store.write([record(place, *random.Random(place).choice(texts)) for place in range(60)])
    run(store, WorkerSettings())
    found = deciding_pairs(store, "s", WordJudge(), LINE, since=START, until=START + MINUTE, each=5, limit=200)
    assert [(pair.action, pair.document) for pair in found[:5]] == [("CORRECT", GOOD)] * 5
    assert [pair.action for pair in found].count("AMBIGUOUS") == 5
    assert len(found) == 15
