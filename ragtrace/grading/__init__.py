"""Retrieval grading: what an evaluator's scores of retrieved documents say to do, and how often that is right.

Everything here is arithmetic on scores; the evaluator is any model of the role `relevant`.
"""

from ragtrace.grading._actions import (
    ACTIONS,
    LOWEST_GRADE,
    PARTS_KEPT,
    POPQA,
    STRIP_FLOOR,
    STRIP_SENTENCES,
    Action,
    GradeThresholds,
    action_of,
    document_action,
    given_thresholds,
    grade_of,
    refine,
    strips,
)
from ragtrace.grading._outcomes import (
    LEAST_GAP,
    ActionOutcome,
    FittedThreshold,
    GradedRequest,
    confidently_wrong,
    fit_upper,
    outcomes,
    question_entity,
    question_type,
)

__all__ = [
    "ACTIONS",
    "LEAST_GAP",
    "LOWEST_GRADE",
    "PARTS_KEPT",
    "POPQA",
    "STRIP_FLOOR",
    "STRIP_SENTENCES",
    "Action",
    "ActionOutcome",
    "FittedThreshold",
    "GradeThresholds",
    "GradedRequest",
    "action_of",
    "confidently_wrong",
    "document_action",
    "fit_upper",
    "given_thresholds",
    "grade_of",
    "outcomes",
    "question_entity",
    "question_type",
    "refine",
    "strips",
]
