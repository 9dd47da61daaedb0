"""What a model says of claims, merged with what words say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from ragtrace.coverage import JudgedAnswer, judge_claims, verify_answers
from ragtrace.coverage.verifier import ENTAILMENT, Pair, Verdict, supports_of_claims
from ragtrace.types import Candidate, PackedChunk

CHUNKS = (
    PackedChunk(chunk_id="a", position=1, text="The deductible is 500 EUR."),
    PackedChunk(chunk_id="b", position=2, text="The policy ends in May."),
)


class Scripted:
    """A verifier that does as it is told, and remembers what it was asked."""

    name = "scripted"
    lexical_weight = 0.0

    def __init__(self, says: Callable[[str, str], Verdict]) -> None:
        self.says = says
        self.calls: list[list[Pair]] = []

    def verify(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """What `says` says."""
        self.calls.append(list(pairs))
        return [self.says(*pair) for pair in pairs]


def answered(answer: str, candidates: tuple[Candidate, ...] = ()) -> JudgedAnswer:
    """`answer` judged by words alone."""
    return JudgedAnswer(*judge_claims(answer, CHUNKS, candidates), CHUNKS, candidates)


def test_support_is_the_largest_of_all_chunks() -> None:
    """Support, best chunk and the supports of each chunk are the model's; the layer says so."""
    verifier = Scripted(lambda claim, evidence: (0.9, 0.0) if evidence == CHUNKS[1].text else (0.2, 0.1))
    (found,) = verify_answers([answered("Insurance stops in spring.")], verifier)
    claim = found.claims[0]
    assert (claim.support, claim.contradiction, claim.best_chunk, claim.layer) == (0.9, 0.0, "b", ENTAILMENT)
    assert found.supports == ({"a": 0.2, "b": 0.9},)


def test_a_claim_may_rest_on_two_chunks() -> None:
    """The best sentences of all chunks together are evidence as well."""
    verifier = Scripted(lambda claim, evidence: (0.8, 0.0) if "500" in evidence and "May" in evidence else (0.1, 0.0))
    (found,) = verify_answers([answered("The deductible is 500 EUR and the policy ends in May.")], verifier)
    assert found.claims[0].support == 0.8


def test_a_claim_that_nothing_supports_is_put_beside_what_speaks_of_the_question() -> None:
    """An answer in other words has few in common with what it rests on, which the question finds. A claim that is
    supported is not asked of again, and nothing is without a question."""
    texts = ("The fee for a lost card is 20 EUR.", "Cards are sent by post.", "A card is valid for 3 years.", "The old "
             "plastic SIM stops working 15 minutes later.")  # fmt: skip
    chunks = tuple(PackedChunk(chunk_id=str(at), position=at, text=text) for at, text in enumerate(texts, 1))
    claims = judge_claims("The card goes dead a quarter of an hour after that.", chunks)
    verifier = Scripted(lambda claim, evidence: (0.9 if evidence == texts[3] else 0.1, 0.0))
    (found,) = verify_answers([JudgedAnswer(*claims, chunks, question="What becomes of the plastic SIM?")], verifier)
    assert [text for _, text in verifier.calls[1]] == [texts[3]]
    assert (found.claims[0].support, found.claims[0].best_chunk) == (0.9, "4")
    for answer, says in (
        (JudgedAnswer(*claims, chunks), (0.1, 0.0)),
        (JudgedAnswer(*claims, chunks, question="What becomes of the plastic SIM?"), (0.9, 0.0)),
    ):
        verify_answers([answer], asked := Scripted(lambda *pair, says=says: says))
        assert len(asked.calls) == 1


class Calibrated(Scripted):
    """The same, with probabilities that somebody checked."""

    calibration = object()


def test_what_a_calibrated_verifier_is_not_sure_of_is_judged_once_more() -> None:
    """Beside the chunks as one text; without a calibration, and where all judgments agree, nothing more is asked."""
    answer = answered("Insurance stops in spring.")
    plain, sure = Scripted(lambda *pair: (0.05, 0.0)), Calibrated(lambda *pair: (0.95, 0.0))
    assert verify_answers([answer], plain)[0].borne == ()
    verify_answers([answer], sure)
    assert [[len(verifier.calls[0]), len(verifier.calls)] for verifier in (plain, sure)] == [[3, 1], [3, 1]]
    doubtful = Calibrated(lambda *pair: (0.05, 0.0))
    (found,) = verify_answers([answer], doubtful)
    (claim,) = found.claims
    assert doubtful.calls[1] == [(claim.text, f"{CHUNKS[0].text}\n\n{CHUNKS[1].text}")]
    assert found.by_words == answer.claims
    (borne,) = found.borne
    assert borne is not None
    assert borne.odds < -2 * math.log(19)


def test_judgments_of_a_claim_multiply() -> None:
    """One "yes" among five that say "no" is no support, and the chunk that says so is what the claim would rest on. One
    that agrees with those before it tells less than if it were independent of them."""
    denied = Calibrated(lambda *pair: (0.05, 0.0))
    mixed = Calibrated(lambda claim, evidence: (0.95 if evidence == CHUNKS[1].text else 0.05, 0.0))
    clear = Calibrated(lambda claim, evidence: (0.95 if "May" in evidence else 0.05, 0.0))
    found = [
        verify_answers([answered("Insurance stops in spring.")], each)[0].borne[0] for each in (denied, mixed, clear)
    ]
    odds = [each.odds if each else math.nan for each in found]
    assert -3 * math.log(19) < odds[0] < -6.0 < odds[1] < -3.0 < 3.5 < odds[2]
    assert found[2] is not None
    assert found[2].rests["b"] > 0.9


@pytest.mark.parametrize(("third", "least", "most"), [(0.95, 0.0, 3.0), (0.05, -6.0, -3.0)])
def test_judgments_that_contradict_each_other_ask_for_a_third(third: float, least: float, most: float) -> None:
    """Of the same chunks in reverse order."""
    backward = f"{CHUNKS[1].text}\n\n{CHUNKS[0].text}"
    said = {CHUNKS[0].text: 0.05, CHUNKS[1].text: 0.95, backward: third}
    verifier = Calibrated(lambda claim, evidence: (said.get(evidence, 0.05), 0.0))
    (found,) = verify_answers([answered("Insurance stops in spring.")], verifier)
    assert verifier.calls[-1] == [(found.claims[0].text, backward)]
    (borne,) = found.borne
    assert borne is not None
    assert least < borne.odds < most


@pytest.mark.parametrize(("chance", "calls"), [(0.05, 3), (0.7, 2)])
def test_a_claim_that_all_deny_is_judged_in_both_orders(chance: float, calls: int) -> None:
    """Two errors would break the request; of one that all support, however weakly, nothing more is asked."""
    verifier = Calibrated(lambda *pair: (chance, 0.0))
    verify_answers([answered("Insurance stops in spring.")], verifier)
    assert len(verifier.calls) == calls


def test_several_answers_share_the_calls() -> None:
    """All claims of all answers are asked at once; a second call looks for support by what was not packed."""
    spare = Candidate(chunk_id="c", rank=1, text="The moon orbits the earth at night.")
    verifier = Scripted(lambda claim, evidence: (0.7, 0.0) if "moon" in evidence else (0.0, 0.0))
    answers = [answered("The moon orbits the earth.", (spare,)), answered("The policy ends in May.")]
    first, second = verify_answers(answers, verifier)
    assert [len(call) for call in verifier.calls] == [6, 1]
    assert (first.claims[0].unselected_chunk, first.claims[0].unselected_support) == ("c", 0.7)
    assert second.claims[0].unselected_chunk is None


def test_a_cited_chunk_that_contradicts_is_heard() -> None:
    """A claim is held to the chunk that it cites, even if another one supports it."""
    verifier = Scripted(lambda claim, evidence: (0.0, 0.9) if evidence == CHUNKS[0].text else (0.9, 0.0))
    (found,) = verify_answers([answered("The policy ends in May [1].")], verifier)
    assert (found.claims[0].contradiction, found.claims[0].best_chunk) == (0.9, "a")
    (found,) = verify_answers([answered("The policy ends in May [2].")], verifier)
    assert found.claims[0].contradiction == 0.0


def test_another_number_counts_against_a_claim_that_nothing_supports() -> None:
    """What words found (500, not 700) is kept where the model finds no support, and dropped where it does."""
    low = Scripted(lambda claim, evidence: (0.1, 0.0))
    (found,) = verify_answers([answered("The deductible is 700 EUR.")], low)
    assert (found.claims[0].contradiction or 0.0) >= 0.6
    assert found.claims[0].best_chunk == "a"
    high = Scripted(lambda claim, evidence: (0.9, 0.0))
    (found,) = verify_answers([answered("The deductible is 700 EUR.")], high)
    assert found.claims[0].contradiction == 0.0


def test_words_are_added_with_their_weight() -> None:
    """Log odds add up: a verifier that does not know leaves the decision to words, where it gives them a weight."""
    verifier = Scripted(lambda claim, evidence: (0.5, 0.0))
    answer = answered("The policy ends in May.")
    by_words = answer.claims[0].support
    assert by_words is not None
    assert verify_answers([answer], verifier)[0].claims[0].support == 0.5
    verifier.lexical_weight = 1.0
    found = verify_answers([answer], verifier)[0].claims[0].support
    assert found == pytest.approx(by_words, abs=1e-3)


def test_supports_alone() -> None:
    """Those of the packed chunks, unrounded, without a second call; none for what states nothing."""
    verifier = Scripted(lambda claim, evidence: (0.123456, 0.0))
    spare = Candidate(chunk_id="c", rank=1, text="The policy ends in June.")
    found = supports_of_claims([answered("The policy ends in June. Is that so?", (spare,))], verifier)
    assert found == [[0.123456, None]]
    assert len(verifier.calls) == 1


def test_what_states_nothing_is_not_asked() -> None:
    """A question stays unjudged, and an answer without claims asks nothing."""
    verifier = Scripted(lambda claim, evidence: (1.0, 0.0))
    (found,) = verify_answers([answered("Is that what you wanted?")], verifier)
    assert verifier.calls == []
    assert found == answered("Is that what you wanted?")


def test_a_claim_keeps_what_the_model_says_of_each_chunk() -> None:
    """In place of what words said, and the words' contradiction where that is what counts against the claim."""
    verifier = Scripted(lambda claim, evidence: (0.9, 0.1) if evidence == CHUNKS[1].text else (0.2, 0.7))
    (found,) = verify_answers([answered("Insurance stops in spring.")], verifier)
    assert (found.claims[0].supports, found.claims[0].contradictions) == ({"a": 0.2, "b": 0.9}, {"a": 0.7})

    low = Scripted(lambda claim, evidence: (0.1, 0.0))
    (found,) = verify_answers([answered("The deductible is 700 EUR.")], low)
    assert found.claims[0].supports == {}
    assert found.claims[0].contradictions == {"a": 1.0}


def test_a_model_that_says_nothing_of_contradictions_leaves_those_of_words() -> None:
    """As sentence embeddings do."""
    verifier = Scripted(lambda claim, evidence: (0.7, 0.0))
    (found,) = verify_answers([answered("The deductible is 700 EUR.")], verifier)
    assert found.claims[0].contradiction == 0.0
    assert found.claims[0].contradictions == {"a": 1.0}
