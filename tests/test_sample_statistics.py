"""Corrected rates agree with reference implementations, draws have the probabilities that are said, labelers agree."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.errors import ConfigurationError
from ragtrace.sample_statistics import (
    FEWEST_LABELS,
    cohen_kappa,
    correct,
    draw_order,
    inclusion_probabilities,
    krippendorff_alpha,
)


def _service(size: int = 4_000, labels: int = 400) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.intp]]:
    rng = np.random.default_rng(7)
    truth = (rng.random(size) < 0.2).astype(float)
    verdicts = np.where(truth > 0, rng.random(size) < 0.7, rng.random(size) < 0.05)
    return truth, verdicts, np.sort(rng.choice(size, labels, replace=False))


def test_a_rate_agrees_with_ppi_python() -> None:
    """The estimates of `ppi_mean_pointestimate` of ppi-python 0.2.3 with the same λ, without weights and with them."""
    truth, verdicts, drawn = _service()
    even = correct(verdicts, np.ones(4_000), drawn, truth[drawn], np.full(400, 0.1))
    assert even.rate == pytest.approx(0.2040023317465846, abs=1e-12)
    assert even.tuning == pytest.approx(0.7519253841092921, abs=1e-12)
    weights = np.random.default_rng(11).uniform(0.5, 4, 400)
    weighted = correct(verdicts, np.ones(4_000), drawn, truth[drawn], 1 / weights)
    assert weighted.rate == pytest.approx(0.20158345044391737, abs=1e-12)


def test_a_rate_is_the_documented_formula() -> None:
    """θ = λ · mean(verdict on all) + weighted mean over labeled of (label − λ · verdict)."""
    truth, verdicts, drawn = _service()
    importance = np.random.default_rng(1).uniform(1, 3, 4_000)
    probabilities = np.random.default_rng(2).uniform(0.05, 0.6, 400)
    found = correct(verdicts, importance, drawn, truth[drawn], probabilities)
    residuals = truth[drawn] - found.tuning * verdicts[drawn]
    mean = np.average(residuals, weights=importance[drawn] / probabilities)
    assert found.rate == pytest.approx(found.tuning * np.average(verdicts, weights=importance) + mean, abs=1e-12)
    assert found.low < found.rate < found.high


def test_a_verdict_that_is_always_right_leaves_the_variance_of_the_window_alone() -> None:
    """The rate is the verdict's own share, and the interval is narrower than that of the labels alone."""
    truth, _, drawn = _service()
    right = correct(truth > 0, np.ones(4_000), drawn, truth[drawn], np.full(400, 0.1))
    blind = correct(np.zeros(4_000, dtype=bool), np.ones(4_000), drawn, truth[drawn], np.full(400, 0.1))
    assert right.rate == pytest.approx(truth.mean(), abs=1e-12)
    assert right.tuning == 1.0
    assert right.high - right.low < 0.6 * (blind.high - blind.low)
    assert blind.rate == pytest.approx(truth[drawn].mean(), abs=1e-12)
    assert blind.tuning == 0.0


def test_verdicts_without_a_label_are_open_from_0_to_1() -> None:
    """Where no request that is named was labeled, the interval holds all that these may be."""
    verdicts = np.zeros(1_000, dtype=bool)
    verdicts[:100] = True
    found = correct(verdicts, np.ones(1_000), np.arange(100, 300), np.zeros(200), np.full(200, 0.2))
    assert found.rate == 0.0
    assert found.high > 0.1


def test_no_label_of_a_break_is_no_proof_of_none() -> None:
    """Of 100 labels without a break up to 3.7 % may be broken (Wilson)."""
    found = correct(np.zeros(5_000, dtype=bool), np.ones(5_000), np.arange(100), np.zeros(100), np.full(100, 0.02))
    assert (found.rate, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(0.0370, abs=1e-4)


def test_too_few_labels_correct_nothing() -> None:
    """One less than a hundred is an error that says how many are lacking."""
    few = FEWEST_LABELS - 1
    with pytest.raises(ConfigurationError, match="at least 1 more"):
        correct(np.zeros(200, dtype=bool), np.ones(200), np.arange(few), np.zeros(few), np.ones(few))


def test_as_many_labels_as_it_says_halve_the_interval() -> None:
    """With so many more of the same kind the interval is half as wide, within a tenth; where the window has not so many
    requests, nobody is sent to label them."""
    truth, verdicts, drawn = _service(size=20_000, labels=300)
    first = correct(verdicts, np.ones(20_000), drawn, truth[drawn], np.full(300, 0.015))
    assert first.to_halve is not None
    more = np.random.default_rng(3).choice(20_000, 300 + first.to_halve, replace=False)
    second = correct(verdicts, np.ones(20_000), more, truth[more], np.full(len(more), 0.1))
    assert (second.high - second.low) / (first.high - first.low) == pytest.approx(0.5, rel=0.1)
    whole = correct(verdicts[:320], np.ones(320), np.arange(300), truth[:300], np.ones(300))
    assert whole.to_halve is None


@pytest.mark.parametrize("uniform", [0.2, 0.5, 1.0])
def test_a_draw_has_its_size_and_its_even_part(uniform: float) -> None:
    """The probabilities add up to the number asked for, and none is below the even part of it."""
    interest = np.array([0.0] * 700 + [1.0] * 200 + [3.0] * 100)
    found = inclusion_probabilities(interest, 150, uniform)
    assert found.sum() == pytest.approx(150)
    assert found.min() >= 150 * uniform / 1_000 - 1e-12
    assert found.max() <= 1.0
    if uniform < 1:
        assert found[0] < found[700] < found[900]


def test_what_is_certain_to_be_drawn_leaves_its_rest_to_the_others() -> None:
    """Probabilities are cut at 1 and still add up; few requests are all drawn."""
    interest = np.array([0.0] * 95 + [1.0] * 5)
    found = inclusion_probabilities(interest, 50, 0.2)
    assert found.sum() == pytest.approx(50)
    assert list(found[95:]) == [1.0] * 5
    assert list(inclusion_probabilities(interest, 100, 0.2)) == [1.0] * 100
    for wrong in (0.0, 1.5):
        with pytest.raises(ConfigurationError, match="uniform"):
            inclusion_probabilities(interest, 50, wrong)
    with pytest.raises(ConfigurationError, match="labels"):
        inclusion_probabilities(interest, 0, 0.5)


def test_requests_are_drawn_as_often_as_their_probability_says() -> None:
    """Over 4,000 draws each request comes up within five standard errors of its probability."""
    interest = np.array([0.0] * 30 + [1.0] * 10 + [3.0] * 10)
    probabilities = inclusion_probabilities(interest, 15, 0.5)
    rng = np.random.default_rng(5)
    counts = np.zeros(50)
    for _ in range(4_000):
        counts[draw_order(rng.random(50), probabilities)[:15]] += 1
    error = np.sqrt(probabilities * (1 - probabilities) / 4_000)
    assert np.all(np.abs(counts / 4_000 - probabilities) < 5 * error + 0.01)


def test_a_larger_draw_holds_the_smaller_one() -> None:
    """With the same numbers, and where none is certain."""
    numbers = np.random.default_rng(6).random(500)
    interest = np.array([0.0, 1.0] * 250)
    small, large = (draw_order(numbers, inclusion_probabilities(interest, n, 0.5))[:n] for n in (40, 120))
    assert set(small) <= set(large)


def test_alpha_is_krippendorffs() -> None:
    """The example of Krippendorff (2011), section C: four observers, twelve units, missing values, alpha 0.743."""
    table = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    units = [[said for said in unit if said != "."] for unit in zip(*table, strict=True)]
    assert krippendorff_alpha(units) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha([["a", "a"], ["b", "b"]]) == 1.0
    assert krippendorff_alpha([["a", "a"], ["a"]]) is None


def test_kappa_is_cohens() -> None:
    """The example of Cohen's formula: agreement of 0.7 where chance gives 0.34; scikit-learn says the same."""
    assert cohen_kappa("aabbccabca", "aabbcaabbb") == pytest.approx(0.5454545454545454, abs=1e-12)
    assert cohen_kappa("ab", "ab") == 1.0
    assert cohen_kappa("ab", "ba") == -1.0
    assert cohen_kappa("aa", "aa") is None
    assert cohen_kappa("", "") is None
