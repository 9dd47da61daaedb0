"""The rendered evidence path of one request."""

from __future__ import annotations

import io

from rich.console import Console

from ragtrace.analyze import analyze_record
from ragtrace.export.evidence_path import render
from ragtrace.types import (
    Analysis,
    Candidate,
    DroppedChunk,
    ErrorInfo,
    Facet,
    GenerateRun,
    Generation,
    Gold,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    replace,
)

_TEXTS = {
    "home-2021": "Home, Ireland, 2021: Reporting\nReport every loss no later than 30 days after you discovered it.",
    "home-2020": "Home, Ireland, 2020: Reporting\nReport every loss no later than 45 days after you discovered it.",
    "glance": "Home, Ireland, 2021: At a glance\nThe exact deadlines are not repeated here.",
}
_RECORD = RequestRecord(
    request_id="0123456789abcdef0123456789abcdef",
    service="assistant",
    segment="deadline",
    query=Query(
        original="How soon must a loss be reported in Ireland in 2021?",
        rewritten="report a loss in Ireland",
        facets=(Facet(kind="time", value="2021"), Facet(kind="jurisdiction", value="Ireland")),
    ),
    versions={"rewriter": "short-2", "packer": "3"},
    stages=(
        RetrieveRun(
            candidates=tuple(
                Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(_TEXTS.items(), 1)
            )
        ),
        RerankRun(
            moves=(
                RankMove(chunk_id="glance", rank_before=3, rank_after=1),
                RankMove(chunk_id="home-2020", rank_before=2, rank_after=2),
                RankMove(chunk_id="home-2021", rank_before=1, rank_after=3),
            )
        ),
        PackRun(
            packing=Packing(
                chunks=(
                    PackedChunk(chunk_id="glance", position=1, tokens=12, tokens_full=12, text=_TEXTS["glance"]),
                    PackedChunk(
                        chunk_id="home-2020", position=2, tokens=9, tokens_full=20, truncated=True,
                        text=_TEXTS["home-2020"],
                    ),
                ),
                dropped=(DroppedChunk(chunk_id="home-2021", reason="budget"),),
            )
        ),
        GenerateRun(generation=Generation(answer="Report it no later than 90 days after you discovered it [2].")),
    ),
)  # fmt: skip


def _shown(record: RequestRecord, analysis: Analysis | None, width: int = 100) -> str:
    output = io.StringIO()
    Console(file=output, width=width, markup=False, highlight=False).print(render(record, analysis))
    return output.getvalue()


def _analysis(record: RequestRecord = _RECORD) -> Analysis:
    question = record.query.original
    return analyze_record(record, Gold(service="assistant", question=question, chunk_ids=("home-2021",)))


def test_the_path_from_question_to_claim() -> None:
    """Question, rewrite, verdict, facets, ranks, why the evidence is not in the prompt, and the claim's support."""
    lines = [" ".join(line.split()) for line in _shown(_RECORD, _analysis()).splitlines()]
    text = "\n".join(lines)
    assert "asked How soon must a loss be reported in Ireland in 2021?" in text
    assert "rewritten report a loss in Ireland" in text
    assert "selection failure first broken stage: ranking owner: ranking-context" in text
    assert "time 2021 home-2021 1 1.00 dropped" in lines
    assert any(line.startswith("* home-2021 1 3 lost in") and line.endswith("(budget)") for line in lines)
    assert "home-2020 2 2 [2] 9 tokens, cut from 20" in lines
    assert "contradicted" in text


def test_without_an_analysis() -> None:
    """What was recorded is shown, and how to get the rest."""
    text = _shown(_RECORD, None)
    assert "ragtrace analyze" in text
    assert "home-2020" in text
    assert "90 days" in text


def test_a_failed_request() -> None:
    """A request that raised shows its error and that there is no answer."""
    failed = replace(_RECORD, status="error", error=ErrorInfo(type="TimeoutError", message="too slow"), stages=())
    text = _shown(failed, _analysis(failed))
    assert "TimeoutError: too slow" in text
    assert "no answer was recorded" in text


def test_markup_in_texts_is_not_interpreted() -> None:
    """Square brackets of a question stand as they are."""
    record = replace(_RECORD, query=replace(_RECORD.query, original="What is [red]this[/red]?"))
    assert "What is [red]this[/red]?" in _shown(record, None)


def test_narrow_terminals() -> None:
    """Nothing is wider than the terminal."""
    for width in (60, 100):
        assert max(len(line) for line in _shown(_RECORD, _analysis(), width).splitlines()) <= width
