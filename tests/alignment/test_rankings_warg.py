"""WARG, its floor and its chance level."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from statistics import mean

import pytest
from hypothesis import given, strategies as st

from ragtrace.alignment import rbo, warg, warg_adjusted, warg_chance, warg_floor, warg_normalized
from ragtrace.errors import ConfigurationError

TEN = list(range(10))


def test_published_floor() -> None:
    """Equal rankings of ten documents do not have a WARG of 0."""
    assert warg(TEN, TEN, 0.9) == pytest.approx(0.349, abs=5e-4)
    assert warg_floor(10, 0.9) == pytest.approx(0.349, abs=5e-4)


@pytest.mark.parametrize(("p", "chance"), [(0.5, 0.801), (0.6, 0.758), (0.7, 0.704), (0.8, 0.661), (0.9, 0.697)])
def test_published_chance(p: float, chance: float) -> None:
    """A random order of ten documents."""
    assert warg_chance(10, p) == pytest.approx(chance, abs=5e-4)


@pytest.mark.parametrize(("p", "reversed_", "chance"), [(0.9, 0.75, 0.535), (0.5, 0.985, 0.801)])
def test_published_reversal(p: float, reversed_: float, chance: float) -> None:
    """A reversed order of ten is no 1, and stands out from chance by different amounts."""
    assert warg_normalized(TEN, TEN[::-1], p) == pytest.approx(reversed_, abs=5e-3)
    floor = warg_floor(10, p)
    assert (warg_chance(10, p) - floor) / (1 - floor) == pytest.approx(chance, abs=5e-4)


@pytest.mark.parametrize("k", range(1, 7))
@pytest.mark.parametrize("p", [0.3, 0.9])
def test_floor_and_chance_are_those_of_all_orders(k: int, p: float) -> None:
    """By enumeration: the least value, the mean, and an adjusted mean of 1."""
    given_order = list(range(k))
    orders = list(permutations(given_order))
    values = [warg(given_order, order, p) for order in orders]
    assert min(values) == pytest.approx(warg_floor(k, p))
    assert mean(values) == pytest.approx(warg_chance(k, p), abs=1e-12)
    adjusted = [value for order in orders if (value := warg_adjusted(given_order, order, p)) is not None]
    assert adjusted == [] if k == 1 else mean(adjusted) == pytest.approx(1)


@given(st.permutations(range(7)), st.floats(0.1, 0.95))
def test_normalized_and_adjusted(order: list[int], p: float) -> None:
    """Normalized stays in [0, 1], both are 0 for equal rankings only, and symmetric."""
    given_order = list(range(7))
    normalized, adjusted = warg_normalized(given_order, order, p), warg_adjusted(given_order, order, p)
    assert adjusted is not None
    assert 0 <= normalized <= 1
    assert (normalized > 1e-12) == (adjusted > 1e-12) == (order != given_order)
    assert adjusted == pytest.approx(warg_adjusted(order, given_order, p))
    assert warg(given_order, order, p) == pytest.approx(1 - rbo(given_order, order, p))


@given(st.integers(1, 40), st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_equal_rankings_have_the_floor_itself(k: int, p: float) -> None:
    """Not a number beside it that is printed otherwise, such as 0.063 beside 0.062."""
    assert warg(range(k), range(k), p) == warg_floor(k, p)
    assert warg_normalized(range(k), range(k), p) == 0


@pytest.mark.parametrize("below_one", [1e-16, 1e-14, 1e-12])
def test_p_next_to_one(below_one: float) -> None:
    """Floor and chance round to 1, what lies between them has a limit."""
    p = 1 - below_one
    assert warg_adjusted(["a", "b"], ["b", "a"], p) == pytest.approx(2)
    assert warg_normalized(["a", "b"], ["b", "a"], p) == pytest.approx(0.5)
    assert warg_adjusted(TEN, TEN[::-1], p) == pytest.approx(warg_adjusted(TEN, TEN[::-1], 0.9999999))


def test_one_document() -> None:
    """Its only order is the best and the average one: normalized 0, adjusted undefined."""
    assert warg_normalized(["a"], ["a"]) == 0
    assert warg_adjusted(["a"], ["a"]) is None
    with pytest.raises(ConfigurationError, match="p is 7"):
        warg_adjusted(["a"], ["a"], 7)
    with pytest.raises(ConfigurationError, match="'a' stands in one of the two rankings only"):
        warg_adjusted(["a"], ["b"])


def test_rankings_of_different_documents() -> None:
    """WARG is defined, what rests on the chance of a reordering is not."""
    for p in (0.03593817939391722, 0.5, 0.6, 0.9):
        assert warg(range(5), range(5, 10), p) == 1
    assert warg(["a", "b", "c"], ["a"], 0.5) == pytest.approx(1 - 0.5 * (1 + 0.5 / 2 + 0.25 / 3))
    for function in (warg_normalized, warg_adjusted):
        with pytest.raises(ConfigurationError, match=r"'b' stands in one of the two rankings only; restrict"):
            function(["a", "b"], ["a", "c"])


@pytest.mark.parametrize("function", [warg_floor, warg_chance])
def test_no_documents(function: Callable[[int, float], float]) -> None:
    """There is no level of nothing."""
    with pytest.raises(ConfigurationError, match="k is 0"):
        function(0, 0.9)
    with pytest.raises(ConfigurationError, match="p is 1"):
        function(3, 1)


@pytest.mark.parametrize("k", [2.5, 3.0, math.nan, True, "3", None])
@pytest.mark.parametrize("function", [warg_floor, warg_chance])
def test_a_number_of_documents_is_an_integer(function: Callable[[int, float], float], k: int) -> None:
    """Nothing lies between the levels of two and of three documents."""
    with pytest.raises(ConfigurationError, match="give the number of ranked documents"):
        function(k, 0.9)
