"""Holm's procedure and the shares of alpha."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.gate.statistics.multiplicity import holm, shares

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def test_holm_as_published() -> None:
    """As R's p.adjust gives them."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P_VALUES)
def test_holm_rejects_step_by_step(p_values: list[float]) -> None:
    """What is at most alpha is what the procedure rejects when it is walked through."""
    rejected, left = set(), sorted(range(len(p_values)), key=lambda at: p_values[at])
    for step, at in enumerate(left):
        if p_values[at] * (len(left) - step) > 0.05:
            break
        rejected.add(at)
    assert {at for at, adjusted in enumerate(holm(p_values)) if adjusted <= 0.05} == rejected


@given(P_VALUES)
def test_holm_lies_between_itself_and_bonferroni(p_values: list[float]) -> None:
    """Never below the p-value, never above Bonferroni's."""
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p <= adjusted <= min(1.0, p * len(p_values)) + 1e-12


@given(st.sets(st.sampled_from(["overall", "segments", "floors"]), min_size=1))
def test_shares_sum_to_one(families: set[str]) -> None:
    """Whatever families there are."""
    found = shares(families)  # type: ignore[arg-type]  # sampled from the literals
    assert set(found) == families
    assert sum(found.values()) == pytest.approx(1.0)
