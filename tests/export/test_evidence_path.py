"""The rendered evidence path of one request."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from ragtrace.analyze import analyze_record
from ragtrace.export.evidence_path import NOT_JUDGED, render, verdict_brief, verdict_words
from ragtrace.registry.wording import VERDICTS
from ragtrace.types import (
    Analysis,
    Candidate,
    Diagnosis,
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
    Stage,
    StageFinding,
    StageState,
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
    assert "verdict selection failure: ranking broke; retrieval is sound" in text
    assert "owner ranking-context" in text
    assert any(line.startswith("ranking BROKEN evidence home-2021 was lost in rerank") for line in lines)
    assert "time 2021 home-2021 1 1.00 dropped" in lines
    assert any(line.startswith("* home-2021 1 3 lost in") and line.endswith("(budget)") for line in lines)
    assert "home-2020 2 2 [2] 9 tokens, cut from 20" in lines
    assert "contradicted" in text


def found(verdict: str, *stages: StageFinding, **fields: Any) -> Diagnosis:
    """A diagnosis of these stages."""
    return Diagnosis(verdict=verdict, stages=stages, judge="j-1", **fields)


def stage(name: Stage, state: StageState, reason: str | None = None, *evidence: str) -> StageFinding:
    """The finding of a stage."""
    return StageFinding(stage=name, state=state, reason=reason, evidence=evidence)


SOUND = (stage("retrieval", "sound"), stage("ranking", "sound"), stage("generation", "sound"))
NOT_KNOWN = stage("retrieval", "not_known", "undecided")


@pytest.mark.parametrize(
    ("diagnosis", "words"),
    [
        (found("healthy", *SOUND), "healthy: retrieval, ranking and generation are sound"),
        (
            found("no_break_found", NOT_KNOWN, *SOUND[1:]),
            "no break found: 2 of 3 stages judged sound; retrieval is not known (no proof either way)",
        ),
        (
            found("no_break_found", NOT_KNOWN, stage("ranking", "suspected", "low_match"), SOUND[2]),
            "no break found: 1 of 3 stages judged sound; retrieval is not known; ranking is suspected",
        ),
        (
            found("grounding_failure", NOT_KNOWN, SOUND[1], stage("generation", "broken"), stage="generation"),
            "grounding failure: generation broke; whether retrieval broke before is not known (no proof either way)",
        ),
        (
            found(
                "selection_failure",
                stage("retrieval", "suspected", "facet_not_found"),
                stage("ranking", "broken"),
                stage="ranking",
            ),
            "selection failure: ranking broke; retrieval before it is suspected (a required fact that no candidate "
            "holds)",
        ),
        (found("recall_failure", stage("retrieval", "broken"), stage="retrieval"), "recall failure: retrieval broke"),
        (found("no_retrieval_needed"), "no retrieval needed"),
        (
            found("error", evidence=("generate raised TimeoutError: too slow",)),
            "error: generate raised TimeoutError: too slow",
        ),
        (Diagnosis(verdict="healthy"), "not judged by these rules (ragtrace analyze --redo judges anew)"),
        (Diagnosis(verdict="recall_failure", stage="retrieval"), NOT_JUDGED),
    ],
)
def test_a_verdict_says_what_is_not_known(diagnosis: Diagnosis, words: str) -> None:
    """Healthy only where all that applies is sound; before a break and beside soundness stands what is not known."""
    assert verdict_words(diagnosis) == words


@pytest.mark.parametrize(
    ("verdict", "states", "brief"),
    [
        (None, {}, "not analyzed"),
        ("healthy", {"retrieval": "sound"}, "healthy"),
        ("healthy", {}, "not judged by these rules"),
        ("no_break_found", {"retrieval": "not_known", "ranking": "sound"}, "no break found"),
        ("no_retrieval_needed", {}, "no retrieval needed"),
        ("error", {}, "error"),
        ("recall_failure", {"retrieval": "broken"}, "recall failure"),
    ],
)
def test_a_table_has_the_verdict_in_a_few_words(
    verdict: str | None, states: dict[Stage, StageState], brief: str
) -> None:
    """What no rule of today has judged is not called by its old verdict."""
    assert verdict_brief(verdict, states) == brief


def test_each_stage_has_a_line_with_its_state_and_reason() -> None:
    """A sound one without a reason, one that does not apply without a state, a suspected one with its evidence."""
    doubt = stage("retrieval", "suspected", "facet_not_found", "no candidate meets the time “2021”")
    analysis = replace(_analysis(), diagnosis=found("no_break_found", doubt, *SOUND[1:]))
    for width in (80, 120):
        lines = [" ".join(line.split()) for line in _shown(_RECORD, analysis, width).splitlines()]
        at = next(number for number, line in enumerate(lines) if line.startswith("stages "))
        assert lines[at : at + 5] == [
            "stages retrieval suspected a required fact that no candidate holds",
            "no candidate meets the time “2021”",
            "ranking sound",
            "generation sound",
            "citation - does not apply",
        ]


def test_what_would_tell_more_is_said_only_where_something_is_not_known() -> None:
    """The line that would change it."""
    unknown = replace(_analysis(), diagnosis=found("no_break_found", NOT_KNOWN, *SOUND[1:]))
    assert "ragtrace gold import" in _shown(_RECORD, unknown)
    assert "ragtrace gold import" not in _shown(_RECORD, replace(unknown, diagnosis=found("healthy", *SOUND)))


def test_only_what_is_healthy_is_green() -> None:
    """A request in which no break was found is not painted as if it were sound."""
    colors = {"healthy": "green", "no_break_found": "yellow", "error": "bold red"}
    for verdict, color in colors.items():
        shown = render(_RECORD, replace(_analysis(), diagnosis=found(verdict, NOT_KNOWN, *SOUND[1:])))
        console = Console(width=200, markup=False, highlight=False)
        said = VERDICTS[verdict]
        styles = {str(part.style) for part in console.render(shown) if part.text.startswith(f"{said}")}
        assert styles == {color}


def test_a_support_that_was_not_computed_is_not_zero() -> None:
    """Nor is a facet of which nobody could tell."""
    analysis = _analysis()
    claim = replace(analysis.claims[0], support=None, contradiction=None, reason=None)
    facet = replace(analysis.facets[0], match=0.0, chunk_id=None, rank=None, reason="no_candidate_text")
    text = _shown(_RECORD, replace(analysis, claims=(claim,), facets=(facet,)))
    assert text.count("not known") >= 2
    assert "0.00" not in text


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
