"""Verification of a batch: models judge its requests' claims in shared calls, and read the names of questions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ragtrace.analyze.analysis import judged_answer
from ragtrace.coverage import JudgedAnswer, ReadEntities, Verifier, verify_answers
from ragtrace.types import RequestRecord, VerifiedBy

__all__ = ["AnswerVerifier", "Calibrated", "Models", "judge_batch", "verified_by"]

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


@dataclass(frozen=True, slots=True)
class Models:
    """What a worker asks besides words: models that judge claims, each on top of those before it, and one for names."""

    layers: tuple[AnswerVerifier, ...] = ()
    entities: ReadEntities | None = None


def verified_by(*layers: AnswerVerifier) -> VerifiedBy | None:
    """What is stored of them with each analysis; None without any. The calibration is the last one's."""
    if not layers:
        return None
    calibration = layers[-1].calibration
    return VerifiedBy(
        name=" + ".join(each.name for each in layers),
        weights=" + ".join(each.digest for each in layers),
        calibration=calibration.id if calibration else None,
        calibration_error=calibration.ece if calibration else None,
    )


def judge_batch(records: Mapping[str, RequestRecord], *layers: Verifier) -> dict[str, JudgedAnswer | Exception]:
    """The verified answer of each request by its id; the exception of a request that cannot be verified.

    Each layer judges the claims on top of what words and earlier layers said. A request without an answer that can be
    judged is left out. An error of the whole batch is looked for request by request, so that one of them does not fail
    the others.
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
        found = _with_cosines(_through(list(answers.values()), layers), [records[key] for key in answers], layers)
        return judged | dict(zip(answers, found, strict=True))
    except Exception as error:
        _log.warning("a batch of %d requests cannot be verified together (%s)", len(answers), error)
    for key, answer in answers.items():
        try:
            judged[key] = _with_cosines(_through([answer], layers), [records[key]], layers)[0]
        except Exception as error:  # one request must not stop the others
            judged[key] = error
    return judged


def _with_cosines(
    answers: Sequence[JudgedAnswer], records: Sequence[RequestRecord], layers: Sequence[Verifier]
) -> list[JudgedAnswer]:
    """The answers, each with how near it is to its question by the first layer that embeds texts, if there is one."""
    cosines = next((found for layer in layers if (found := getattr(layer, "cosines", None))), None)
    if cosines is None:
        return list(answers)
    texts = [(each.query.original, (each.generation.answer if each.generation else None) or "") for each in records]
    return [replace(answer, cosine=cosine) for answer, cosine in zip(answers, cosines(texts), strict=True)]


def _through(answers: list[JudgedAnswer], layers: Sequence[Verifier]) -> list[JudgedAnswer]:
    for layer in layers:
        answers = verify_answers(answers, layer)
    return answers
