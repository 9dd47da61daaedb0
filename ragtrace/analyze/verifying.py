"""Layer 2 for the requests of a batch: their claims are judged by a model, all in the same calls."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from ragtrace.analyze.analysis import judged_answer
from ragtrace.coverage import JudgedAnswer, Verifier, verify_answers
from ragtrace.types import RequestRecord, VerifiedBy

__all__ = ["AnswerVerifier", "Calibrated", "judge_batch", "verified_by"]

_log = logging.getLogger("ragtrace.analyze")


class Calibrated(Protocol):
    """The calibration of a verifier."""

    @property
    def id(self) -> str:
        """What tells it from others."""

    @property
    def ece(self) -> float | None:
        """Its expected calibration error."""


class AnswerVerifier(Verifier, Protocol):
    """A verifier that says which weights and which calibration it has."""

    @property
    def digest(self) -> str:
        """What tells its weights from others."""

    @property
    def calibration(self) -> Calibrated | None:
        """None where its probabilities are the model's own."""


def verified_by(verifier: AnswerVerifier) -> VerifiedBy:
    """What is stored of it with each analysis."""
    calibration = verifier.calibration
    return VerifiedBy(
        name=verifier.name,
        weights=verifier.digest,
        calibration=calibration.id if calibration else None,
        calibration_error=calibration.ece if calibration else None,
    )


def judge_batch(records: Mapping[str, RequestRecord], verifier: Verifier) -> dict[str, JudgedAnswer | Exception]:
    """The verified answer of each request by its id; the exception of a request that cannot be verified.

    A request without an answer that can be judged is left out. An error of the whole batch is looked for request by
    request, so that one of them does not fail the others.
    """
    judged: dict[str, JudgedAnswer | Exception] = {}
    answers: dict[str, JudgedAnswer] = {}
    for key, record in records.items():
        try:
            if (answer := judged_answer(record)) is not None:
                answers[key] = answer
        except Exception as error:  # one request must not stop the others
            judged[key] = error
    try:
        found = verify_answers(list(answers.values()), verifier)
        return judged | dict(zip(answers, found, strict=True))
    except Exception as error:
        _log.warning("a batch of %d requests cannot be verified together (%s)", len(answers), error)
    for key, answer in answers.items():
        try:
            judged[key] = verify_answers([answer], verifier)[0]
        except Exception as error:  # one request must not stop the others
            judged[key] = error
    return judged
