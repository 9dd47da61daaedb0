"""Actions of corrective retrieval: keep what was retrieved, doubt it, or throw it away; and which parts of it to keep.

An evaluator scores each document for the question, in [−1, 1]. The best score decides: CORRECT (go on with it),
AMBIGUOUS (go on, and search as well), INCORRECT (search instead). What is kept is cut into strips of a few
sentences, and those that speak of the question stay, in the order of the document.

Source: Yan et al. (2024), "Corrective Retrieval Augmented Generation", sections 4.2 to 4.4, and its reproduction, whose
thresholds for PopQA stand here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeAlias, get_args

from ragtrace.errors import ConfigurationError
from ragtrace.numeric import is_integer, is_real
from ragtrace.types import RetrievalAction

__all__ = [
    "ACTIONS",
    "LOWEST_GRADE",
    "PARTS_KEPT",
    "POPQA",
    "STRIP_FLOOR",
    "STRIP_SENTENCES",
    "Action",
    "GradeThresholds",
    "action_of",
    "document_action",
    "given_thresholds",
    "grade_of",
    "refine",
    "strips",
]

Action: TypeAlias = RetrievalAction
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
"""The best first."""
LOWEST_GRADE: Final = -1.0
"""Of a blank text, which no evaluator is asked about, and of no text at all."""

STRIP_SENTENCES: Final = 3
STRIP_FLOOR: Final = -0.5
PARTS_KEPT: Final = 5


@dataclass(frozen=True, slots=True)
class GradeThresholds:
    """From which score on a document is CORRECT, and from which at least AMBIGUOUS. Both in [−1, 1], lower ≤ upper.

    Raises: ConfigurationError for others.
    """

    upper: float
    lower: float

    def __post_init__(self) -> None:
        for name, value in (("upper", self.upper), ("lower", self.lower)):
            if not (is_real(value) and -1 <= value <= 1):
                raise ConfigurationError.of(f"the {name} threshold", value, "a number from -1 to 1")
        if self.lower > self.upper:
            raise ConfigurationError(
                f"the lower threshold, {self.lower:g}, is above the upper one, {self.upper:g}; give lower <= upper"
            )


POPQA: Final = GradeThresholds(upper=0.59, lower=-0.99)
"""Those that the reproduction uses for PopQA, of its own evaluator: another one, or other questions, needs others."""


def given_thresholds(upper: float | None, lower: float | None) -> GradeThresholds | None:
    """Those that somebody gave, PopQA's in place of one that was not; None where neither was given."""
    if upper is None and lower is None:
        return None
    return GradeThresholds(POPQA.upper if upper is None else upper, POPQA.lower if lower is None else lower)


def grade_of(probability: float) -> float:
    """A score in [−1, 1] of the probability that a document is relevant: 2p − 1.

    Raises: ConfigurationError for what is no probability.
    """
    if not (is_real(probability) and 0 <= probability <= 1):
        raise ConfigurationError.of("probability", probability, "a number from 0 to 1")
    return 2 * probability - 1


def document_action(score: float, thresholds: GradeThresholds) -> Action:
    """What one document alone would say."""
    if not (is_real(score) and isfinite(score)):
        raise ConfigurationError.of("score", score, "a finite number")
    if score >= thresholds.upper:
        return "CORRECT"
    return "AMBIGUOUS" if score >= thresholds.lower else "INCORRECT"


def action_of(scores: Sequence[float], thresholds: GradeThresholds) -> Action:
    """What to do with these documents: the best one decides; nothing retrieved is INCORRECT."""
    return min((document_action(score, thresholds) for score in scores), key=ACTIONS.index, default="INCORRECT")


def strips(sentences: Sequence[tuple[int, int]], size: int = STRIP_SENTENCES) -> list[tuple[int, int]]:
    """Parts of a document: `size` sentences each, the last one of what is left.

    sentences: (start, end) of each in the document, in its order. Returns: (start, end) of each strip.
    """
    if not is_integer(size) or size < 1:
        raise ConfigurationError.of("size", size, "an integer of at least 1")
    groups = [sentences[at : at + size] for at in range(0, len(sentences), size)]
    return [(group[0][0], group[-1][1]) for group in groups]


def refine(scores: Sequence[float], *, floor: float = STRIP_FLOOR, most: int = PARTS_KEPT) -> list[int]:
    """Which strips to keep: those from `floor` on, of these the `most` best; ties go to the earlier one.

    scores: of each strip, in the order of the document. Returns: their places, in that order.
    """
    if not is_integer(most) or most < 1:
        raise ConfigurationError.of("most", most, "an integer of at least 1")
    fitting = [place for place, score in enumerate(scores) if score >= floor]
    return sorted(sorted(fitting, key=lambda place: -scores[place])[:most])
