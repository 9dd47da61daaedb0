"""Courses that the demo's scenarios do not take: made of its requests, where they differ analyzed anew."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.analyze import ServiceView, analyze_record
from ragtrace.demo.corpus import load_questions
from ragtrace.demo.runner import SERVICE
from ragtrace.types import GenerateRun, RequestRecord, StageFinding, StageRun, replace
from tests.live.alerting.replaying import HEALTHY, Course, Recorded, Recording

__all__ = ["FLAGGED", "LOST", "SUNK", "TWO", "UNCITED", "UNCITED_MODEL", "UNJUDGED", "UNRELEASED", "variants"]

TWO, FLAGGED, UNCITED, UNRELEASED = "two faults", "flagged", "uncited", "uncited, unreleased"
UNJUDGED = "unjudged"
LOST, SUNK = "change", "exception"  # segments
UNCITED_MODEL = "extractive-1.3"

_CITING = ServiceView(cites=True)
_MARK = re.compile(r" \[\d+\](?=\.)")


def variants(recordings: dict[str, Recording]) -> dict[str, Course]:
    """Two faults in two segments; bad requests that are only there for their flag; answers without citations, with
    and without the release of a model; requests of which nothing is known but that all candidates are in the prompt."""
    healthy = {segment: recordings[HEALTHY][segment] for segment in (LOST, SUNK)}
    uncited = {segment: [_uncited(each) for each in requests] for segment, requests in healthy.items()}
    released = {segment: [_released(each) for each in requests] for segment, requests in uncited.items()}
    two = {LOST: recordings["recall"][LOST], SUNK: recordings["selection"][SUNK]}
    flagged = {
        segment: list(_alternating(healthy[segment], recordings["grounding"][segment])) for segment in (LOST, SUNK)
    }
    unknown = {segment: [_unjudged(each) for each in requests] for segment, requests in healthy.items()}
    return {
        UNJUDGED: Course(unknown, unknown),
        TWO: Course(healthy, two),
        FLAGGED: Course(healthy, flagged),
        UNCITED: Course(healthy, released),
        UNRELEASED: Course(healthy, uncited),
    }


def _alternating(sampled: list[Recorded], bad: list[Recorded]) -> Iterator[Recorded]:
    """A request of the random stratum, then one outside of it that is bad."""
    for good, flagged in zip(sampled, bad, strict=True):
        yield good
        yield flagged._replace(record=replace(flagged.record, head_sampled=False, flags=("thumbs_down",)))


def _uncited(recorded: Recorded) -> Recorded:
    """The request with an answer that cites nothing, and its analysis."""
    record = replace(recorded.record, stages=tuple(map(_without_marks, recorded.record.stages)))
    return Recorded(record, analyze_record(record, _GOLDS[record.query.original], service=_CITING))


def _unjudged(recorded: Recorded) -> Recorded:
    """The request in another language: neither retrieval nor the answer is judged."""
    diagnosis = recorded.analysis.diagnosis
    stages = tuple(
        StageFinding(stage=finding.stage, state="sound")
        if finding.stage == "ranking"
        else StageFinding(stage=finding.stage, state="not_known", reason="language")
        for finding in diagnosis.stages
    )
    verdict = replace(diagnosis, verdict="no_break_found", stages=stages)
    return recorded._replace(analysis=replace(recorded.analysis, diagnosis=verdict))


def _without_marks(run: StageRun) -> StageRun:
    if not isinstance(run, GenerateRun):
        return run
    answer = _MARK.sub("", run.generation.answer or "")
    return replace(run, generation=replace(run.generation, answer=answer, citations=()))


def _released(recorded: Recorded) -> Recorded:
    """The same as another model's."""
    record: RequestRecord = recorded.record
    return recorded._replace(record=replace(record, versions={**record.versions, "model": UNCITED_MODEL}))


_GOLDS = {question.text: question.gold(SERVICE) for question in load_questions()}
