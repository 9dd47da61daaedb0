"""Records of one question with their analyses: what the prompt held, what was answered, and how it was judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragtrace.safe_text import dumps
from ragtrace.types import (
    ANALYZER_VERSION,
    Analysis,
    Candidate,
    Claim,
    Diagnosis,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    Score,
    Stage,
    StageFinding,
    to_builtins,
)

TEXTS = {"c1": "Theft is covered up to 500 EUR.", "c2": "Fire is covered.", "c3": "Glass is not covered."}
STAGES: tuple[Stage, ...] = ("retrieval", "ranking", "generation", "citation")


def judged(
    request_id: str,
    answer: str | None = "Theft is covered up to 500 EUR.",
    packed: Sequence[str] = ("c1", "c2"),
    *,
    question: str = "Is theft covered?",
    broken: str | None = None,
    support: float = 1.0,
    **other: Any,
) -> tuple[RequestRecord, Analysis]:
    """A request whose evidence is c1, with one claim. other: `found` candidates, `lost` chunks, `template`, `coverage`,
    and fields of the record."""
    found, lost = other.pop("found", tuple(TEXTS)), other.pop("lost", ())
    template, coverage = other.pop("template", None), other.pop("coverage", support)
    generation = Generation(answer=answer, prompt_template=template)
    candidates = tuple(Candidate(chunk_id=each, rank=at, text=TEXTS[each]) for at, each in enumerate(found))
    chunks = tuple(PackedChunk(chunk_id=each, position=at, text=TEXTS[each]) for at, each in enumerate(packed))
    record = RequestRecord(
        request_id=request_id,
        service="shop",
        started_at=1_700_000_000_000_000_000,
        query=Query(original=question),
        stages=(
            RetrieveRun(candidates=candidates),
            PackRun(packing=Packing(chunks=chunks)),
            GenerateRun(generation=generation),
        ),
        **other,
    )
    claims = (Claim(start=0, end=len(answer), text=answer, support=support, best_chunk="c1"),) if answer else ()
    findings = tuple(StageFinding(stage=each, state="broken" if each == broken else "sound") for each in STAGES)
    return record, Analysis(
        request_id=request_id,
        analyzer_version=ANALYZER_VERSION,
        reference="proxy",
        reference_chunks=("c1",),
        scores=(Score(metric="answer_coverage", value=coverage, reference="proxy"),),
        lost=tuple(lost),
        claims=claims,
        diagnosis=Diagnosis(verdict="healthy", stages=findings, judge="words"),
    )


def written(file: Path, *sides: tuple[RequestRecord, Analysis]) -> str:
    """These in a file, as the gate reads them."""
    lines = ({"record": to_builtins(record), "analysis": to_builtins(analysis)} for record, analysis in sides)
    file.write_text("".join(dumps(line, indent=None) + "\n" for line in lines), encoding="utf-8")
    return str(file)
