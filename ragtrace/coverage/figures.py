"""Is a figure of an answer stated by the evidence, stated on another scale, or computed from its figures?

A table gives its scale in a heading ("in millions") and its figures without one. Sums, differences, products, ratios,
shares and growth of two figures that the answer or the question names, rounded as the answer rounds, are taken for
computed: that proves nothing, but such a figure is no sign of an invention. Of the evidence's own figures any number
could be computed, so they are combined only where the claim says that it computes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage.values import Value

__all__ = ["Figures", "Origin"]

Origin: TypeAlias = Literal["stated", "computed", "unknown"]

MOST: Final = 40  # figures that are combined, the first of them
_CONSTANTS: Final = (2.0, 7.0, 12.0, 24.0, 30.0, 52.0, 60.0, 100.0, 365.0)
_COMPUTES: Final = re.compile(
    r"[=×÷+]|\b(?:total|altogether|combined|together|sum|differ\w*|minus|plus|times|divided|multipl\w+|ratio|average|twice|half"
    r"|double|more|less|fewer|higher|lower|longer|shorter|increase\w*|decrease\w*|grew|growth|rose|fell|share|per|percent\w*"
    r"|leaves?|left|remain\w*|comes?\s+to|makes?|works\s+out|amounts?\s+to|i\.e\.)\b|%",
    re.IGNORECASE,
)
_SCALES: Final = (1.0, 1e3, 1e6, 1e9, 1e-3, 1e-6, 1e-9, 100.0, 0.01)
_FRACTION: Final = re.compile(r"[.,](\d+)(?!.*\d[.,])")
_DIGITS: Final = re.compile(r"\D")
_EXACT: Final = 1e-6


class Figures:
    """The figures of some evidence, ready to be asked where a figure of an answer comes from."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._numbers = _numbers(values)
        self._exact = sorted(self._numbers)
        self._scaled = sorted(number * scale for number in self._numbers for scale in _SCALES)

    def states(self, value: Value) -> bool:
        """Whether the evidence has the figure, on any scale of a thousand or as a share of one hundred.

        A figure of one digit is taken as it is: on some scale every text has it.
        """
        number = abs(value.number)
        slack = _EXACT * max(1.0, number)
        known = self._scaled if len(_DIGITS.sub("", value.raw).strip("0")) > 1 else self._exact
        place = bisect_left(known, number - slack)
        return place < len(known) and known[place] <= number + slack

    def origin(self, value: Value, claim: str, named: Iterable[Value]) -> Origin:
        """Where a figure of a claim comes from. Dates and versions are not asked here.

        Args:
            claim: the text of the claim.
            named: the figures of the whole answer and of the question, of which those count that are not the figure.

        Returns: `stated` (see `states`), `computed` from two figures within the rounding that is shown, or `unknown`.
        """
        if self.states(value):
            return "stated"
        operands = [number for number in _numbers(named) if number != abs(value.number)][:MOST]
        if _COMPUTES.search(claim):
            operands += [number for number in self._numbers[:MOST] if number not in operands]
        pool = np.array([*operands, *_CONSTANTS], dtype=np.float64)
        return (
            "computed" if operands and _near(_combined(pool), abs(value.number), _rounding(value)).any() else "unknown"
        )


def _numbers(values: Iterable[Value]) -> list[float]:
    return list(dict.fromkeys(abs(one.number) for one in values if one.dates is None and one.kind != "version"))


def _combined(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    one, two = numbers[:, None], numbers[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(two != 0, one / two, np.nan)
    parts = [one + two, np.abs(one - two), one * two, one * two / 100, ratio, 100 * ratio, 100 * np.abs(ratio - 1)]
    return np.concatenate([part.ravel() for part in parts])


def _rounding(value: Value) -> float:
    """Half of the last digit that a figure shows, on its scale: 21.4 % is 21.35 to 21.45, "£2.1 million" by 50,000."""
    fraction = _FRACTION.search(value.raw)
    digits = len(fraction[1]) if fraction else 0
    written = re.sub(r"[^\d]", "", value.raw)
    shown = int(written) / 10**digits if written else 0.0
    scale = abs(value.number) / shown if shown else 1.0
    return 0.5 * float(10**-digits) * (scale if scale >= 1 else 1.0)


def _near(numbers: NDArray[np.float64], wanted: float, slack: float) -> NDArray[np.bool_]:
    return np.abs(numbers - wanted) <= max(slack, _EXACT * max(1.0, wanted))
