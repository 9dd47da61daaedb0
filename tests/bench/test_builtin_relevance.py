"""The benchmark of the built-in judge of relevance: what it asks, its fit, and the thresholds of the other half."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from bench.builtin_relevance import (
    FOUND,
    Asked,
    Judged,
    _least,
    _of_proxy,
    _print_thresholds,
    first_right,
    fit,
    interval,
    questions,
)


def made(seed: int, offset: float = 0.0) -> Judged:
    """A set of 60 questions with five candidates, of which the first is relevant and has the higher features."""
    draw = np.random.default_rng(seed)
    truth = np.array([place == 0 for _ in range(60) for place in range(5)])
    rows = draw.normal(offset, 0.1, (300, 5)) + 0.3 * truth[:, None]
    rows[:, 4] = -rows[:, 4]  # a feature that says the opposite
    owners = np.repeat(np.arange(60), 5)
    return Judged(rows, truth, owners, rows[:, 0], np.arange(60) % 2 == 0)


def test_each_question_has_its_evidence_among_its_candidates() -> None:
    """Whether BM25 finds it or not."""
    for asked in islice(questions("handwritten"), 20):
        assert len(asked.texts) == len(asked.is_relevant) == len(asked.words) >= FOUND
        assert any(asked.is_relevant)


def test_a_fit_has_no_weight_against_what_a_feature_measures() -> None:
    """The features that tell relevance get weights, one that says the opposite gets none; each set has its offset."""
    weights, offsets = fit([made(1), made(2, offset=0.5)])
    assert (weights[:4] > 0).all()
    assert weights[4] == pytest.approx(0.0, abs=1e-6)
    assert offsets[0] > offsets[1]


def test_the_auroc_and_the_best_candidate() -> None:
    """Of scores that tell all and of those that tell nothing."""
    each = made(3)
    perfect = each.truth.astype(float)
    assert interval(each.truth, perfect, each.owners) == (1.0, 1.0, 1.0)
    assert first_right(each, perfect) == 1.0
    value, low, high = interval(each.truth, np.zeros(300), each.owners)
    assert low <= value <= high
    assert value == pytest.approx(0.5)


def test_thresholds_are_of_the_other_half(capsys: pytest.CaptureFixture[str]) -> None:
    """What one half gives is told on the other; where nothing will do it says so."""
    best = np.linspace(-1, 1, 400)
    halves = np.arange(400) % 2 == 0
    _print_thresholds(best, best > 0, halves)
    said = capsys.readouterr().out
    assert "CORRECT" in said
    assert "of 200" in said
    _print_thresholds(best, np.arange(400) % 2 == 0, halves)
    assert "no threshold" in capsys.readouterr().out


def test_a_line_that_shall_be_surer_is_higher_or_none() -> None:
    """By the share itself, and by the lower end of its interval."""
    best = np.linspace(0, 1, 200)
    there = (best > 0.3) | (np.arange(200) % 3 == 0)
    assert _least(best, there, 0.0) < _least(best, there, 1.96) < 0.6
    assert _least(best, np.arange(200) % 2 == 0, 0.0) == np.inf


def test_grades_choose_the_proxy_reference() -> None:
    """Where the words choose another candidate, those of the judge may find the evidence."""
    texts = ("A mooring fee may be raised by the Tarn council.", "The mooring fee is 41 EUR.")
    asked = Asked("a", "what does mooring cost on the Tarn", texts, (False, True), (0.0, 0.0), (2.0, 1.0))
    truth = np.array(asked.is_relevant)
    assert _of_proxy(asked, truth, None) == (0.0, 0.0)
    assert _of_proxy(asked, truth, {"0": 0.1, "1": 0.9}) == (1.0, 1.0)
