"""From what a model says to how often it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrace.engines.calibration import Calibration, Method, as_method, expected_calibration_error, logits
from ragtrace.errors import ConfigurationError, ModelError

METHODS: Final[tuple[Method, ...]] = ("temperature", "isotonic")


def overconfident() -> tuple[np.ndarray, np.ndarray]:
    """Claims of which a share p is supported, and a model that says sigmoid(3 logit(p) + 1)."""
    draw = np.random.default_rng(0)
    right = draw.uniform(0.02, 0.98, 4000)
    return 1 / (1 + np.exp(-(3 * logits(right) + 1))), draw.random(4000) < right


@pytest.mark.parametrize("method", METHODS)
def test_overconfidence_is_mended(method: Method) -> None:
    """Fitted on one half, the error on the other one falls below 0.05; the order of claims stays."""
    pytest.importorskip("scipy", reason="pip install 'ragtrace[models]'")
    said, truth = overconfident()
    fitted = Calibration.fit(said[::2], truth[::2], method=method, model="m")
    assert expected_calibration_error(said[1::2], truth[1::2]) > 0.1
    assert expected_calibration_error(fitted.at_rate(fitted.apply(said[1::2])), truth[1::2]) < 0.05
    grid = np.linspace(0, 1, 101)
    assert (np.diff(fitted.apply(grid)) >= 0).all()


def test_the_parameters_are_found() -> None:
    """Temperature and offset are those by which the model exaggerates."""
    fitted = Calibration.fit(*overconfident(), method="temperature", model="m")
    assert fitted.temperature == pytest.approx(3, rel=0.1)
    assert fitted.offset == pytest.approx(-1 / 3, abs=0.1)


def test_a_model_worse_than_chance_is_not_turned_around() -> None:
    """Its probabilities become flat."""
    said, truth = overconfident()
    flat = Calibration.fit(said, ~truth, method="temperature", model="m").apply([0.1, 0.9])
    assert flat[1] - flat[0] == pytest.approx(0, abs=1e-4)


def test_even_odds() -> None:
    """Where nine of ten claims are supported, one half means what divides both kinds best, not what is likely."""
    draw = np.random.default_rng(0)
    truth = draw.random(8000) < 0.9
    said = 1 / (1 + np.exp(-(draw.normal(size=8000) + np.where(truth, 1, -1))))
    fitted = Calibration.fit(said, truth, method="temperature", model="m")
    found = fitted.apply(said)
    assert fitted.rate == pytest.approx(0.9, abs=0.01)
    assert (found[truth] >= 0.5).mean() == pytest.approx((found[~truth] < 0.5).mean(), abs=0.06)
    assert fitted.at_rate(found).mean() == pytest.approx(0.9, abs=0.01)


def test_words_add_what_they_know() -> None:
    """What words know besides is added with a weight of its own; what is mere noise, or wrong, gets none."""
    draw = np.random.default_rng(0)
    one, two = draw.normal(size=(2, 4000))
    truth = draw.random(4000) < 1 / (1 + np.exp(-(one + 2 * two)))
    said, words = 1 / (1 + np.exp(-one)), 1 / (1 + np.exp(-two))
    fitted = Calibration.fit(said, truth, method="temperature", model="m", lexical=words)
    assert fitted.lexical_weight == pytest.approx(2, rel=0.1)
    assert 1 / fitted.temperature == pytest.approx(1, rel=0.15)
    assert Calibration.fit(said, truth, method="temperature", model="m", lexical=1 - words).lexical_weight == 0.0


def test_another_kind_helps_with_the_slopes_alone() -> None:
    """Claims of two kinds with the same slopes: offset and rate are those of the first kind, as if fitted by itself."""
    pytest.importorskip("scipy", reason="pip install 'ragtrace[models]'")
    draw = np.random.default_rng(0)
    one, two = draw.normal(size=(2, 8000))
    kinds = np.repeat([0, 1], 4000)
    truth = draw.random(8000) < 1 / (1 + np.exp(-(one + 2 * two + np.where(kinds, -3, 1))))
    said, words = 1 / (1 + np.exp(-one)), 1 / (1 + np.exp(-two))
    both = Calibration.fit(said, truth, method="temperature", model="m", lexical=words, kinds=kinds)
    assert both.offset == pytest.approx(1, abs=0.15)
    assert both.lexical_weight == pytest.approx(2, rel=0.1)
    assert both.rate == pytest.approx(truth[:4000].mean(), abs=1e-6)
    assert both.claims == 8000
    alone = Calibration.fit(said[:4000], truth[:4000], method="isotonic", model="m")
    assert Calibration.fit(said, truth, method="isotonic", model="m", kinds=kinds) == alone
    with pytest.raises(ConfigurationError, match="both supported and unsupported"):
        Calibration.fit(said, truth | (kinds == 0), method="temperature", model="m", kinds=kinds)


def test_claims_of_which_words_say_nothing() -> None:
    """They keep what the model says; the others get what words say added, however sure words are."""
    fitted = Calibration("temperature", "m", lexical_weight=0.5)
    found = fitted.with_words([0.4, 0.4, 0.4, 0.4], [np.nan, 0.5, 0.0, 1.0])
    assert found[:2] == pytest.approx([0.4, 0.4])
    assert 0 < found[2] < 0.4 < found[3] < 1


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=40), st.sampled_from(METHODS))
def test_probabilities_stay_probabilities(claims: list[tuple[float, bool]], method: Method) -> None:
    """Whatever it was fitted on, what it says lies in [0, 1]; claims of one kind are refused."""
    pytest.importorskip("scipy", reason="pip install 'ragtrace[models]'")
    said, truth = [each[0] for each in claims], [each[1] for each in claims]
    if len(set(truth)) < 2:
        with pytest.raises(ConfigurationError, match="both supported and unsupported"):
            Calibration.fit(said, truth, method=method, model="m")
        return
    applied = Calibration.fit(said, truth, method=method, model="m").apply([0.0, 0.3, 1.0])
    assert ((applied >= 0) & (applied <= 1)).all()


@pytest.mark.parametrize("method", METHODS)
def test_kept_as_a_file(method: Method, tmp_path: Path) -> None:
    """What is read is what was written; a number changed by hand is noticed."""
    pytest.importorskip("scipy", reason="pip install 'ragtrace[models]'")
    fitted = Calibration.fit(*overconfident(), method=method, model="m")
    path = tmp_path / "calibration.json"
    fitted.save(path)
    assert Calibration.load(path) == fitted
    path.write_text(path.read_text().replace('"claims": 4000', '"claims": 5000'))
    with pytest.raises(ModelError, match="changed since it was fitted"):
        Calibration.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": "x"}'])
def test_a_broken_file(text: str, tmp_path: Path) -> None:
    """A file that is no calibration is an error with a remedy."""
    (tmp_path / "calibration.json").write_text(text)
    with pytest.raises(ModelError, match="ragtrace verifier calibrate"):
        Calibration.load(tmp_path / "calibration.json")


def test_unknown_method() -> None:
    """The methods are named."""
    with pytest.raises(ConfigurationError, match="temperature or isotonic"):
        as_method("platt")


def test_the_error_by_hand() -> None:
    """Two bins: 0.2 against one of two, 0.9 against all of two."""
    assert expected_calibration_error([0.2, 0.2, 0.9, 0.9], [1, 0, 1, 1]) == pytest.approx((0.6 + 0.2) / 4)
    assert expected_calibration_error([], []) == 0.0
