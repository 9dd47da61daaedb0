"""Why a judge graded so, by judges whose reasons are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ragtrace.analyze.grade_attribution import explain_grade
from ragtrace.errors import ConfigurationError


@dataclass
class SharedWords:
    """Says yes by the share of the question's words that the text has; a word of the question without a match counts
    against it."""

    name: str = "shared"
    digest: str = "d"
    calibration: None = None

    def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One half where there is nothing to compare."""
        said = []
        for question, text in pairs:
            asked, held = set(question.split()), set(text.split())
            said.append(0.5 + 0.1 * len(asked & held) - 0.1 * len(asked - held))
        return said


def test_sides_and_shares() -> None:
    """Matches speak for it on both sides, a missing word against it, and nothing else counts; all sum to the grade."""
    found = explain_grade(SharedWords(), "tariff ends Lima", "The tariff ends soon. Bees fly.")
    weights = {word.text: word.weight for word in found.question}
    assert weights["Lima"] == pytest.approx(-0.2)
    assert {word.text for word in found.document if abs(word.weight) > 1e-9} == {"tariff", "ends"}
    assert found.shared == pytest.approx(1.0)
    assert found.missing == pytest.approx(1.0)
    total = sum(word.weight for word in (*found.question, *found.document))
    assert total == pytest.approx(found.grade - found.empty, abs=1e-6)
    assert found.is_exact


def test_a_budget_is_kept() -> None:
    """And the sum holds."""
    found = explain_grade(SharedWords(), "tariff ends Lima", "The tariff ends soon. " * 30, budget=32)
    assert found.evaluations <= 33
    assert not found.is_exact
    assert found.completeness_delta < 1e-6


def test_without_words() -> None:
    """There is nothing to explain."""
    with pytest.raises(ConfigurationError, match="no words"):
        explain_grade(SharedWords(), "?", "")
