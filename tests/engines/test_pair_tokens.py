"""Tokens of a pair, the grades where some are hidden, and their gradients, on tiny classifiers of five shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze.grade_attribution import explain_grade
from ragtrace.attribution import owen_values
from ragtrace.engines.pair_classifier import PairTokens, RelevanceClassifier
from tests.attribution.shap_reference import CHUNK, QUESTION, SHAPES, partition_explainer, read_pair, tree_of
from tests.engines.test_pair_classifier import save_as


@pytest.fixture(scope="module", params=SHAPES)
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PairTokens:
    """A pair as one shape reads it."""
    return read_pair(tmp_path_factory.mktemp(request.param) / "model", request.param)


def test_each_token_has_its_side(read: PairTokens) -> None:
    """Question, separator and document in this order, each with its place; the ends are special, and no players."""
    sides = list(dict.fromkeys(token.side for token in read.tokens if token.side != "special"))
    assert sides == ["question", "separator", "document"]
    for side, text in (("question", read.question), ("document", read.document)):
        said = [text[token.start : token.end].strip() for token in read.tokens if token.side == side]
        assert " ".join(filter(None, said)).split() == text.replace(".", " .").split()
    assert all(read.tokens[at].side != "special" for at in read.players)
    assert read.tokens[-1].side == "special"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_words_sum_to_the_grade(shape: str, tmp_path: Path) -> None:
    """With the separator, to a millionth; Integrated Gradients beside them to a hundredth of what there is."""
    judge = RelevanceClassifier.load(save_as(tmp_path, shape, "LABEL_0"))
    found = explain_grade(judge, QUESTION, CHUNK)
    assert found.grade == pytest.approx(2 * judge.relevant([(QUESTION, CHUNK)])[0] - 1, abs=1e-5)
    assert found.separator is not None
    total = sum(word.weight for word in (*found.question, *found.document)) + found.separator
    assert total == pytest.approx(found.grade - found.empty, abs=1e-6)
    assert found.is_exact
    beside = found.gradients
    assert beside is not None
    path = sum(word.weight for word in (*beside.question, *beside.document)) + beside.separator
    assert path == pytest.approx(found.grade - found.empty, abs=beside.completeness_delta + 1e-5)
    assert beside.completeness_delta <= max(0.01 * abs(found.grade - found.empty), 1e-3)
    assert [word.text for word in found.document] == [word.text for word in beside.document]


def test_shap_agrees(read: PairTokens) -> None:
    """On the model itself where shap is installed, to a millionth."""
    pytest.importorskip("shap", reason="pip install shap; tests/attribution/test_owen_shap.py compares with its record")

    def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        return read.grades(coalitions)[:, None]

    tree = tree_of(read)
    expected = partition_explainer(game, tree, len(read.players))
    assert np.abs(owen_values(game, tree).values[:, 0] - expected).max() < 1e-6


def test_a_long_chunk_is_explained_by_its_best_window(tmp_path: Path) -> None:
    """The window that has the grade; what stands elsewhere is not read."""
    judge = RelevanceClassifier.load(save_as(tmp_path, "Bert", "LABEL_0"))
    chunk = f"{CHUNK} " + "The deductible is 500 EUR. " * 40
    found = explain_grade(judge, QUESTION, chunk, 64)
    assert len(found.texts[1]) < len(chunk) / 2
    assert found.grade == pytest.approx(2 * judge.relevant([(QUESTION, chunk)])[0] - 1, abs=1e-5)
    assert not found.is_exact
