"""The figures of an evaluation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragtrace.coverage import SUPPORTED, JudgedAnswer, verify_answers
from ragtrace.engines.calibration import Calibration
from ragtrace.engines.verifier import EntailmentVerifier
from ragtrace.engines.verifier_evaluation import (
    auroc,
    balanced_accuracy,
    best_threshold,
    calibrate,
    evaluate,
    measure,
    report,
    some,
    supports_of,
)
from ragtrace.engines.verifier_examples import Example, Label
from ragtrace.errors import ConfigurationError
from ragtrace.types import Claim, PackedChunk
from tests.engines.verifiers import save_classifier

TRUTH = np.array([True, True, False, False])


def example(source: int, supported: bool, *, answer: str | None = None, certain: bool = True) -> Example:
    """A claim of a source."""
    label: Label = "entailment" if supported else "neutral"
    text = f"The limit is {30 if supported else 40} days."
    return Example("ragtruth-qa", str(source), text, ("The limit is 30 days.",), label, answer, certain=certain)


def test_auroc() -> None:
    """All, half or none of the pairs in the right order; equal scores count half; one kind is undefined."""
    assert auroc(np.array([0.9, 0.8, 0.2, 0.1]), TRUTH) == 1.0
    assert auroc(np.array([0.9, 0.1, 0.8, 0.2]), TRUTH) == 0.5
    assert auroc(np.array([0.1, 0.1, 0.2, 0.2]), TRUTH) == 0.0
    assert auroc(np.array([0.5, 0.5, 0.5, 0.5]), TRUTH) == 0.5
    assert auroc(np.array([0.5]), np.array([True])) is None


def test_balanced_accuracy_and_threshold() -> None:
    """The mean of both shares; the chosen threshold is the lowest where it is best."""
    scores = np.array([0.9, 0.4, 0.3, 0.5])
    assert balanced_accuracy(scores, TRUTH, 0.6) == 0.75
    assert best_threshold(scores, TRUTH) == 0.4
    assert balanced_accuracy(scores, np.array([True] * 4), 0.5) is None
    assert best_threshold(scores, np.array([True] * 4)) == SUPPORTED


def test_answers_are_compared_by_their_unsupported_claims() -> None:
    """By how many are expected; a claim that may be true is left out of one figure."""
    examples = [
        example(1, True, answer="1/0"),
        example(1, False, answer="1/0", certain=False),
        example(2, True, answer="2/0"),
        example(2, True, answer="2/0"),
    ]
    (found,) = measure(examples, np.array([0.9, 0.8, 0.5, 0.6]))
    assert found.answers_auroc.value == 0.0
    assert found.claims_auroc.value == pytest.approx(1 / 3)
    assert found.certain_auroc.value is None
    assert (found.claims, found.sources, found.unsupported) == (4, 2, 1)


def test_the_interval_is_by_source() -> None:
    """Claims of one source move together: a source that is wrong as a whole widens the interval."""
    examples = [example(source, bool(number % 2)) for source in range(8) for number in range(20)]
    right = np.array([float(each.supported) for each in examples])
    (sure,) = measure(examples, right)
    assert (sure.claims_auroc.low, sure.claims_auroc.high) == (1.0, 1.0)
    wrong = np.where([each.source == "0" for each in examples], 1 - right, right)
    (unsure,) = measure(examples, wrong)
    assert unsure.claims_auroc.low is not None
    assert unsure.claims_auroc.low < (unsure.claims_auroc.value or 0) < (unsure.claims_auroc.high or 0)


def test_whole_sources_are_taken() -> None:
    """A limit on claims never cuts a source in two, and stays in its part."""
    examples = [example(source, True) for source in range(40) for _ in range(5)]
    chosen = some(examples, "held_out", 12)
    assert len(chosen) == 15
    assert {each.part for each in chosen} == {"held_out"}


def test_calibrate_and_evaluate(tmp_path: Path) -> None:
    """The calibration is fitted on its own sources, states its error, and the report holds it."""
    examples = [example(source, bool(number % 3), answer=f"{source}/0") for source in range(60) for number in range(6)]
    verifier = EntailmentVerifier.load(save_classifier(tmp_path, "contradiction", "neutral", "entailment"))
    fitted = calibrate(verifier, examples)
    mine = some(examples, "calibrate")
    assert (fitted.claims, fitted.sources) == (len(mine), len({each.source for each in mine}))
    assert fitted.model == verifier.digest
    assert fitted.ece is not None
    said = report(verifier, evaluate(verifier, examples))
    assert said["calibration"]["id"] == fitted.id
    assert said["held_out"][0]["claims"] == len(some(examples, "held_out"))
    assert said["held_out"][0]["ece"] < 0.1


def test_model_words_and_both_are_told_apart(tmp_path: Path) -> None:
    """Where words judge too, each has its own figures; the two together are what `verify_answers` stores."""
    examples = [
        replace(example(source, bool(number % 3), answer=f"{source}/0"), lexical=0.2 + 0.2 * (number % 4))
        for source in range(60)
        for number in range(6)
    ]
    others = [replace(each, dataset="wice", lexical=None, answer=None) for each in examples]
    verifier = EntailmentVerifier.load(save_classifier(tmp_path, "contradiction", "neutral", "entailment"))
    assert [each.judge for each in evaluate(verifier, examples)] == ["model"]
    verifier.calibration = Calibration("temperature", verifier.digest, lexical_weight=0.5, rate=0.7)
    found = evaluate(verifier, [*examples, *others])
    assert [(each.dataset, each.judge) for each in found] == [
        ("ragtruth-qa", "both"),
        ("ragtruth-qa", "model"),
        ("ragtruth-qa", "words"),
        ("wice", "model"),
    ]
    one = examples[0]
    claim = Claim(start=0, end=len(one.claim), text=one.claim, support=one.lexical)
    chunk = PackedChunk(chunk_id="a", position=1, text=one.evidence[0])
    (stored,) = verify_answers([JudgedAnswer((claim,), ({},), (chunk,))], verifier)
    both = verifier.calibration.with_words(supports_of(verifier, [one]), [one.lexical or 0.0])
    assert stored.claims[0].support == pytest.approx(both[0], abs=1e-4)
    assert both[0] != pytest.approx(supports_of(verifier, [one])[0], abs=1e-2)


def test_a_second_set_weighs_words_alone(tmp_path: Path) -> None:
    """Rate, threshold and error are of the first set, whatever the share of supported claims in the second."""
    first = [replace(example(source, bool(number % 3)), lexical=0.6) for source in range(60) for number in range(6)]
    second = [
        replace(example(source, number > 4), dataset="ragtruth-summary", lexical=0.6)
        for source in range(60)
        for number in range(6)
    ]
    verifier = EntailmentVerifier.load(save_classifier(tmp_path, "contradiction", "neutral", "entailment"))
    fitted = calibrate(verifier, [*second, *first])
    assert fitted.data == ("ragtruth-qa", "ragtruth-summary")
    assert fitted.rate == pytest.approx(2 / 3, abs=1e-6)
    assert fitted.claims == len(some([*first, *second], "calibrate"))


def test_nothing_to_fit_or_measure(tmp_path: Path) -> None:
    """Sets without claims of a part are errors that say so."""
    verifier = EntailmentVerifier.load(save_classifier(tmp_path, "contradiction", "neutral", "entailment"))
    examples = [example(source, True) for source in range(40)]
    with pytest.raises(ConfigurationError, match="no claims to calibrate on"):
        calibrate(verifier, examples, sets=["wice"])
    with pytest.raises(ConfigurationError, match="no source of the data is held out"):
        evaluate(verifier, some(examples, "train"))
