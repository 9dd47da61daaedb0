"""Finds the partners of two sides: requests that asked the same question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ragtrace.errors import InputError
from ragtrace.gate.model import Comparison, Population

__all__ = ["compared"]

_ENOUGH: Final = 0.5  # of the requests of each side, from which two sides are taken to have asked the same questions


def compared(
    baseline: Population,
    candidate: Population,
    pairing: Literal["auto", "paired", "unpaired"] = "auto",
    *,
    expected: bool = False,
) -> Comparison:
    """Put two sides side by side: paired by question where at least half of both sides' requests have a partner.

    A question that several requests of a side asked is paired in their order: the first with the first, the second with
    the second. expected: both sides were given their questions, so that they are paired whatever their number.

    Raises: InputError for disjoint questions where pairs are expected.
    """
    if pairing == "unpaired":
        return Comparison(baseline, candidate, None)
    pairs = _pairs(baseline.questions, candidate.questions)
    forced = expected or pairing == "paired"
    if forced and not len(pairs):
        raise InputError(
            f"no question of the baseline {baseline.name!r} ({_number(baseline)}) stands in the candidate "
            f"{candidate.name!r} ({_number(candidate)}), so that they cannot be paired; give both the same questions, "
            "or set pairing: unpaired in the policy"
        )
    if not forced and len(pairs) < _ENOUGH * max(len(baseline), len(candidate)):
        return Comparison(baseline, candidate, None)
    return Comparison(baseline, candidate, pairs, (len(baseline) - len(pairs), len(candidate) - len(pairs)))


def _pairs(baseline: Sequence[str], candidate: Sequence[str]) -> NDArray[np.int64]:
    waiting: dict[str, list[int]] = {}
    for row in range(len(candidate) - 1, -1, -1):
        if candidate[row]:
            waiting.setdefault(candidate[row], []).append(row)
    found = [(row, rows.pop()) for row, question in enumerate(baseline) if (rows := waiting.get(question))]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _number(population: Population) -> str:
    known = len({question for question in population.questions if question})
    return f"{known} question{'' if known == 1 else 's'}"
