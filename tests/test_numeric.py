"""What counts as a number."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ragtrace.errors import AttributionError, ConfigurationError
from ragtrace.numeric import check_seed, is_integer, is_real, real_array


@pytest.mark.parametrize("number", [3, np.int8(3), np.uint64(3), -1])
def test_integers(number: object) -> None:
    """Python's and NumPy's; each is a real number, too."""
    assert is_integer(number)
    assert is_real(number)


@pytest.mark.parametrize("number", [3.0, np.float32(3), float("nan"), float("inf")])
def test_real_numbers(number: object) -> None:
    """Floats are no integers, whatever their value."""
    assert is_real(number)
    assert not is_integer(number)


@pytest.mark.parametrize("other", [True, np.True_, "3", None, 3j, [3], np.array(3), date(2026, 1, 1), Fraction(1, 2)])
def test_what_is_no_number(other: object) -> None:
    """Truth values, texts, complex numbers, arrays."""
    assert not is_real(other)
    assert not is_integer(other)


@pytest.mark.parametrize("seed", [-1, 1.0, None, "1", True])
def test_seeds(seed: object) -> None:
    """An integer of at least 0, so that a run can be repeated."""
    check_seed(np.int64(3))
    with pytest.raises(ConfigurationError, match="give an integer of at least 0"):
        check_seed(seed)


def test_arrays_become_floats() -> None:
    """Of integers, truth values and objects; what is float64 is not copied."""
    given = np.arange(3.0)
    assert real_array(given, "x", AttributionError) is given
    odd: list[Any] = [[1, 2], [True, False], [1, None], np.array([1, 2], dtype=object), np.ones(2, dtype=np.float16)]
    for values in odd:
        assert real_array(values, "x", AttributionError).dtype == np.float64


@pytest.mark.parametrize(
    "values", ["abc", ["1", "2"], [1j], [[1], [2, 3]], [10**400], np.array(["2026-01-01"], dtype="datetime64[D]"), [{}]]
)
def test_what_is_no_array_of_numbers(values: object) -> None:
    """Texts and dates are not read as numbers, imaginary parts not cut off; the error is the caller's."""
    with pytest.raises(AttributionError, match=r"^x must be an array of real numbers: "):
        real_array(values, "x", AttributionError)  # type: ignore[arg-type]
