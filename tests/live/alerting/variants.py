"""Courses that the demo's scenarios do not take: made of its requests, where they differ analyzed anew."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace import coverage
from ragtrace.analyze import ServiceView, analyze_record
from ragtrace.demo._corpus import load_corpus, load_questions
from ragtrace.demo.runner import SERVICE
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    StageFinding,
    StageRun,
    replace,
)
from tests.live.alerting.replaying import HEALTHY, Course, Recorded, Recording

__all__ = ["FLAGGED", "FOUR", "LOST", "SUNK", "TWO", "UNCITED", "UNCITED_MODEL", "UNJUDGED", "UNRELEASED", "variants"]

TWO, FLAGGED, UNCITED, UNRELEASED = "two faults", "flagged", "uncited", "uncited, unreleased"
UNJUDGED, FOUR = "unjudged", "four candidates"
LOST, SUNK = "change", "exception"  # segments
UNCITED_MODEL = "extractive-1.3"

MADE_UP = (
    "Yes. The Harbour Compensation Board refunds the whole amount within eleven working days, and a second inspector "
    "from Lisbon confirms it by telegram.",
    "Members of the Silver Circle receive 4,300 florins at once. Everybody else waits until the assembly in September "
    "has voted on the matter.",
    "That is decided by the Tramway Ombudsman alone, who meets on the Tuesday after Easter and charges 75 florins.",
)

_CITING = ServiceView(cites=True)
_MARK = re.compile(r" \[\d+\](?=\.)")


def variants(recordings: dict[str, Recording]) -> dict[str, Course]:
    """Two faults in two segments; bad requests that are only there for their flag; answers without citations, with
    and without the release of a model; requests of which nothing is known but that all candidates are in the prompt;
    answers that are made up where nothing but four candidates, all of them packed, and no gold evidence is known."""
    healthy = {segment: recordings[HEALTHY][segment] for segment in (LOST, SUNK)}
    uncited = {segment: [_uncited(each) for each in requests] for segment, requests in healthy.items()}
    released = {segment: [_released(each) for each in requests] for segment, requests in uncited.items()}
    two = {LOST: recordings["recall"][LOST], SUNK: recordings["selection"][SUNK]}
    flagged = {
        segment: list(_alternating(healthy[segment], recordings["grounding"][segment])) for segment in (LOST, SUNK)
    }
    unknown = {segment: [_unjudged(each) for each in requests] for segment, requests in healthy.items()}
    four = {segment: [_of_four(each) for each in requests] for segment, requests in healthy.items()}
    made_up = {
        segment: [_released(_of_four(each, MADE_UP[at % len(MADE_UP)])) for at, each in enumerate(requests)]
        for segment, requests in healthy.items()
    }
    return {
        FOUR: Course(four, made_up),
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


def _of_four(recorded: Recorded, answer: str | None = None) -> Recorded:
    """The request of an application that retrieves and packs four chunks, knows no facets and does not cite; and its
    analysis without gold evidence. answer: in place of its own."""
    record = recorded.record
    assert record.packing is not None
    assert record.generation is not None
    rests_on = {claim.best_chunk for claim in recorded.analysis.claims}
    chunks = tuple(sorted(record.packing.chunks, key=lambda chunk: chunk.chunk_id not in rests_on)[:4])
    candidates = tuple(
        Candidate(chunk_id=chunk.chunk_id, rank=at, text=chunk.text) for at, chunk in enumerate(chunks, 1)
    )
    written = answer or _MARK.sub("", record.generation.answer or "")
    began, ended = record.started_at, record.ended_at
    short = replace(
        record,
        query=Query(original=record.query.original),
        stages=(
            RetrieveRun(
                name="search", query=record.query.original, candidates=candidates, started_at=began, ended_at=ended
            ),
            PackRun(name="pack", packing=Packing(chunks=chunks), started_at=began, ended_at=ended),
            GenerateRun(name="answer", generation=Generation(answer=written), started_at=began, ended_at=ended),
        ),
    )
    return Recorded(short, analyze_record(short, service=_BACKGROUND))


def _without_marks(run: StageRun) -> StageRun:
    if not isinstance(run, GenerateRun):
        return run
    answer = _MARK.sub("", run.generation.answer or "")
    return replace(run, generation=replace(run.generation, answer=answer, citations=()))


def _released(recorded: Recorded) -> Recorded:
    """The same as another model's."""
    record: RequestRecord = recorded.record
    return recorded._replace(record=replace(record, versions={**record.versions, "model": UNCITED_MODEL}))


_BACKGROUND = ServiceView(background=coverage.Background.of(chunk.text for chunk in load_corpus().chunks))
_GOLDS = {question.text: question.gold(SERVICE) for question in load_questions()}
