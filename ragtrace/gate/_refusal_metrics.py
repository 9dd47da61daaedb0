"""Refusals: answers that state nothing, told apart by whether the evidence was there.

A refusal is false where the evidence was in the prompt: generation is broken by it, or retrieval and ranking are both
sound. It is right where one of them is broken: the evidence was not there. Else nothing tells, unless the other side of
a pair answered the same question soundly: then the question could be answered, and the refusal is false as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate.types import STATES, Population
from ragtrace.types import Stage

__all__ = ["FALSE", "REFUSALS", "RIGHT", "UNTOLD", "refusals", "silence", "with_pairs"]

FALSE: Final = "false_refusals"
RIGHT: Final = "right_refusals"
UNTOLD: Final = "untold_refusals"
REFUSALS: Final = (FALSE, RIGHT, UNTOLD)
"""The metrics, each 1 or 0 wherever it is known whether the answer states anything; at most one of them is 1."""

_SOUND, _BROKEN = STATES.index("sound"), STATES.index("broken")

_Floats = NDArray[np.float64]


def refusals(silent: _Floats, states: Mapping[Stage, NDArray[np.int8]]) -> dict[str, _Floats]:
    """The metrics of requests. silent: 1 where the answer states nothing, 0 where it does, NaN where it is not known.
    states: of all stages, as `Population` has them."""
    before = (states["retrieval"], states["ranking"])
    was_there = np.logical_and.reduce([codes == _SOUND for codes in before])
    was_lost = np.logical_or.reduce([codes == _BROKEN for codes in before])
    false = (states["generation"] == _BROKEN) | was_there
    right = was_lost & ~false
    marks = {FALSE: false, RIGHT: right, UNTOLD: ~(false | right)}
    return {metric: np.where(np.isnan(silent), np.nan, (silent == 1.0) & told) for metric, told in marks.items()}


def silence(scores: Mapping[str, _Floats]) -> _Floats:
    """What `refusals` was given, by its metrics."""
    false, right, untold = (scores[metric] for metric in REFUSALS)
    return false + right + untold


def with_pairs(baseline: Population, candidate: Population, pairs: NDArray[np.int64]) -> tuple[Population, Population]:
    """Both sides; a refusal of which nothing told is false where the pair's other answer is sound. pairs: rows of
    both, (n, 2)."""
    if not all(metric in side.scores for side in (baseline, candidate) for metric in (FALSE, UNTOLD)):
        return baseline, candidate
    sides = ((baseline, pairs[:, 0]), (candidate, pairs[:, 1]))
    answered = [side.states["generation"][rows] == _SOUND for side, rows in sides]
    one, two = (_falsified(side, rows[other]) for (side, rows), other in zip(sides, answered[::-1], strict=True))
    return one, two


def _falsified(side: Population, answerable: NDArray[np.int64]) -> Population:
    """A side in which nothing told of refusals in these rows, and the question could be answered."""
    rows = answerable[side.scores[UNTOLD][answerable] == 1.0]
    changed = {metric: side.scores[metric].copy() for metric in (FALSE, UNTOLD)}
    changed[FALSE][rows], changed[UNTOLD][rows] = 1.0, 0.0
    return replace(side, scores={**side.scores, **changed})
