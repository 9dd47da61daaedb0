"""Announced sizes against textbook values and against simulated tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrace.gate._estimates import Spread, detectable, needed, power
from ragtrace.gate._share_tests import mcnemar_mid_p

SPREADS = st.builds(
    Spread,
    noise=st.floats(0.001, 0.5),
    mean=st.floats(0.3, 1.0),
    square=st.floats(0.1, 1.0),
    shared=st.floats(0.0, 0.05),
    scaled=st.booleans(),
)


def test_sizes_of_pairs_as_published() -> None:
    """Connor's formula: discordant shares 0.15 and 0.05, one-sided 0.025, power 0.8 take 154 pairs (and the
    correction for t two more)."""
    spread = Spread(noise=0.1, mean=1.0, square=1.0, shared=0.0, scaled=False)
    assert spread.after(0.1) == pytest.approx(0.2)
    assert needed(spread, 0.1, 0.025, 0.8) == pytest.approx(154 + 2, abs=2)


@given(SPREADS, st.floats(0.01, 0.2), st.floats(0.0001, 0.05))
def test_the_needed_size_has_the_power(spread: Spread, loss: float, alpha: float) -> None:
    """And what is detectable at that size is the loss."""
    size = needed(spread, loss, alpha, 0.8)
    assert size is not None
    assert power(spread, size, loss, alpha) >= 0.8 - 1e-6
    found = detectable(spread, size, alpha, 0.8)
    assert found is not None
    assert found <= loss + 1e-4


@given(SPREADS, st.floats(0.0001, 0.05), st.integers(30, 3000))
def test_more_requests_find_smaller_losses(spread: Spread, alpha: float, size: int) -> None:
    """Four times the requests."""
    few, many = detectable(spread, size, alpha, 0.8), detectable(spread, 4 * size, alpha, 0.8)
    assert few is None or (many is not None and many <= few + 1e-6)


def test_what_cannot_be_lost_is_not_announced() -> None:
    """A mean of 0.02 cannot fall by 0.05."""
    assert needed(Spread(0.02, 0.02, 0.02, 0.0, False), 0.05, 0.01, 0.8) is None


def test_the_needed_size_holds_in_simulation() -> None:
    """Booleans, 10 % discordant before a loss of 0.1 at a level of Holm's: McNemar finds at least 80 %."""
    alpha, chance = 0.001, np.random.default_rng(1)
    size = needed(Spread(noise=0.1, mean=0.9, square=0.9, shared=0.0475, scaled=False), 0.1, alpha, 0.8)
    assert size is not None
    baseline = chance.random((600, size)) < 0.9
    again = chance.random((600, size)) < 0.9
    redrawn = chance.random((600, size)) < 0.1 / 0.18
    candidate = np.where(redrawn, again, baseline) & (chance.random((600, size)) > 0.1 / 0.9)
    found = [
        mcnemar_mid_p(int((one & ~two).sum()), int((~one & two).sum())) <= alpha
        for one, two in zip(baseline, candidate, strict=True)
    ]
    assert np.mean(found) >= 0.77
