"""Evidence selection: how sentences are cut off from scores, and what counts as right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import selection
from bench.selection import Task

SCORES = np.array([0.2, 1.0, 0.0, 0.7])
TEXTS = ("Wool is sheared.", "Theft of bicycles is covered.", "Bells ring.", "Bicycles are covered at home.")


def test_sentences_are_cut_off_by_number_or_by_share_of_the_best() -> None:
    """The first two, and all from 0.7 or 0.2 of the best score on; nothing where nothing scores but the first k."""
    assert selection._first(SCORES, 2) == [1, 3]
    assert selection._from(SCORES, 0.7) == [1, 3]
    assert selection._from(SCORES, 0.2) == [1, 3, 0]
    assert len(selection._from(np.ones(9), 0.5)) == selection.MOST


def test_the_best_of_the_right_sets_counts() -> None:
    """Precision and recall 1/2 against one set, both 1 against the other."""
    task = Task("s", "q", TEXTS, (frozenset({1, 2}), frozenset({1, 3})))
    assert selection._f1([1, 3], task) == 1.0
    assert selection._f1([1, 0], task) == 0.5
    assert selection._f1([], task) == 0.0


def test_the_proxy_scores_sentences_by_the_words_of_the_question() -> None:
    """Both words before one, and one before none."""
    scores = selection._proxy()(Task("s", "are bicycles covered for theft", TEXTS, (frozenset({1}),)))
    assert list(np.argsort(-scores, kind="stable")[:2]) == [1, 3]
    assert scores[0] == scores[2] == 0.0


def test_absent_data_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each data set."""
    selection.print_selection(tmp_path)
    assert capsys.readouterr().out.count("skipped, no") == 2
