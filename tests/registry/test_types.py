"""Objectives judge single values."""

from __future__ import annotations

import pytest

from ragtrace.registry import Objective


@pytest.mark.parametrize(
    ("direction", "value", "good"),
    [(">=", 0.9, True), (">=", 0.8999, False), (">=", 1.0, True), ("<=", 0.9, True), ("<=", 0.9001, False)],
)
def test_threshold_itself_is_good(direction: str, value: float, good: bool) -> None:
    """An objective includes its threshold, in both directions."""
    assert Objective(0.9, ">=" if direction == ">=" else "<=").met(value) is good
