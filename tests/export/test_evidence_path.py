"""The rendered evidence path of one request."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from ragtrace.analyze import analyze_record
from ragtrace.analyze.alignment import ABLATION
from ragtrace.analyze.diagnosis import RETURNED_BEFORE
from ragtrace.export.evidence_path import render
from ragtrace.export.findings import NOT_JUDGED, doubt_note, verdict_brief, verdict_words
from ragtrace.export.request_view import request_view
from ragtrace.registry.wording import VERDICTS
from ragtrace.store import RequestLabel
from ragtrace.types import (
    Analysis,
    Candidate,
    Diagnosis,
    DroppedChunk,
    ErrorInfo,
    Facet,
    Feedback,
    GenerateRun,
    Generation,
    Gold,
    LostChunk,
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
    assert "* home-2021 1 3 lost in reranking: rank 1 before, 3" in lines
    assert "home-2020 2 2 [2] 9 tokens, cut from 20" in lines
    assert "CONTRADICTED" in text


def test_the_table_of_chunks_shows_what_there_is() -> None:
    """No column of a reranker that there is not, the first candidates with the reason why they were left out, and how
    many more there are."""
    found = RetrieveRun(candidates=tuple(Candidate(chunk_id=f"c{rank}", rank=rank, text="x") for rank in range(1, 31)))
    packed = PackRun(
        packing=Packing(
            chunks=(PackedChunk(chunk_id="c1", position=1, text="x"),),
            dropped=(DroppedChunk(chunk_id="c2", reason="budget"),),
        )
    )
    record = replace(_RECORD, stages=(found, packed, _RECORD.stages[-1]))
    lines = [" ".join(line.split()) for line in _shown(record, None).splitlines()]
    assert "chunk retrieved prompt" in lines
    assert "c1 1 [1]" in lines
    assert "c2 2 not packed (budget)" in lines
    assert "and 16 more candidates" in lines
    assert "reranked" in _shown(_RECORD, None)


def test_what_the_page_says_is_said_here() -> None:
    """What went wrong with the chunk's words, the whole answer, times, feedback and labels, and where an explanation
    is."""
    record = replace(
        _RECORD,
        session_id="s-1",
        flags=("thumbs_down",),
        feedback=(Feedback(request_id=_RECORD.request_id, source="user", label="bad", comment="wrong year"),),
        stages=(*_RECORD.stages[:3], replace(_RECORD.stages[3], started_at=1, ended_at=2_000_001)),
    )
    label = RequestLabel(record.request_id, "ann", "ranking", {"ranking": "broken"}, note="see edition")
    output = io.StringIO()
    shown = render(record, _analysis(record), labels=[label], is_explained=True)
    Console(file=output, width=200, markup=False, highlight=False).print(shown)
    lines = [" ".join(line.split()) for line in output.getvalue().splitlines()]
    for line in (
        "- Needed, but lost in reranking: rank 1 before, 3 after (sunk below the 2 packed)",
        f"home-2021 {' '.join(_TEXTS['home-2021'].split())}",
        "answer Report it no later than 90 days after you discovered it [2].",
        "session s-1",
        "flags thumbs_down",
        "feedback of user bad wrong year",
        "label of ann ranking: broken see edition",
        f"explained ragtrace explain {record.request_id} shows what the answer rests on",
    ):
        assert line in lines
    assert any(line.startswith("times request") and line.endswith("generate 2.0 ms") for line in lines)


def test_the_proof_of_what_broke_first_is_the_first_one() -> None:
    """What the reranker lost goes before what was left out of the prompt, whatever the order of the needed chunks."""
    lost = (
        LostChunk(chunk_id="glance", where="packing", reason="budget"),
        LostChunk(chunk_id="home-2021", where="rerank", rank_before=1, rank_after=3),
    )
    analysis = replace(_analysis(), lost=lost, reference_chunks=("glance", "home-2021"))
    view = request_view(_RECORD, analysis)
    assert [fault.given_by for fault in view.faults] == ["home-2021", "glance"]
    assert [chunk.chunk_id for chunk in view.read][:2] == ["home-2021", "glance"]


@pytest.mark.parametrize(
    ("cause", "title"),
    [
        ("lost_in_rewrite", "Needed, but not retrieved: dropped by the rewritten query"),
        ("absent_from_candidates", "Needed, but not retrieved"),
    ],
)
def test_evidence_that_was_not_retrieved_has_one_cause(cause: str, title: str) -> None:
    """That of the verdict; what else is known of the chunk stands beside it and names none."""
    diagnosis = found("recall_failure", stage("retrieval", "broken"), stage="retrieval", cause=cause)
    lost = (LostChunk(chunk_id="home-2019", where="retrieval", reason=RETURNED_BEFORE),)
    analysis = replace(_analysis(), diagnosis=diagnosis, lost=lost, reference_chunks=("home-2019",))
    view = request_view(_RECORD, analysis, {"home-2019": ("i-1", "Report it.")})
    assert view.faults[0].title == title
    assert "as index i-1 returned it" in view.faults[0].why


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
    assert verdict_brief(verdict, states, {}) == brief


def test_a_table_has_the_first_suspect_where_nothing_broke() -> None:
    """With its reason, so that a missed document and a made-up answer look different."""
    states: dict[Stage, StageState] = {"retrieval": "not_known", "ranking": "suspected", "generation": "suspected"}
    reasons: dict[Stage, str] = {"retrieval": "undecided", "ranking": "low_match", "generation": "unsupported"}
    assert verdict_brief("no_break_found", states, reasons) == "suspected: ranking, low match"
    assert verdict_brief("no_break_found", states | {"ranking": "sound"}, reasons) == (
        "suspected: generation, unsupported"
    )
    assert verdict_brief("recall_failure", states | {"retrieval": "broken"}, reasons) == "recall failure"


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


def test_a_sound_stage_that_counts_as_in_doubt_says_so() -> None:
    """Triage lists it, so that its own page does not seem to know better; a suspected one says it by its state."""
    cases: tuple[tuple[StageState, str, bool], ...] = (
        ("sound", "healthy", True),
        ("not_known", "no_break_found", True),
        ("suspected", "no_break_found", False),
    )
    for state, verdict, is_said in cases:
        doubt = replace(stage("retrieval", state), doubted=True)
        analysis = replace(_analysis(), diagnosis=found(verdict, doubt, *SOUND[1:]))
        why = "words that do not match the question"
        note = f"triage and alerts count it as in doubt ({why}), which proves nothing of one request"
        assert (note in " ".join(_shown(_RECORD, analysis, 120).split())) is is_said
        view = request_view(_RECORD, analysis)
        assert [one.note for one in view.stages if one.note] == [note] * is_said


def test_a_doubt_is_told_with_the_reason_that_triage_gives() -> None:
    """Where the state beside it does not give that already; of a distant answer, that it counts as one."""

    def note(name: Stage, **fields: Any) -> str:
        return doubt_note(replace(stage(name, "not_known"), doubted=True, **fields))

    assert "(a better match outside of the prompt)" in note("ranking", reason="undecided")
    assert note("generation", reason="refused").startswith("triage and alerts count it as in doubt, which")
    assert note("generation", reason=None).startswith("triage and alerts count it as in doubt, which")
    assert "far from its question" in doubt_note(replace(stage("generation", "sound"), distant=True))
    assert doubt_note(stage("generation", "sound")) == ""


def test_a_suspected_hash_of_the_prompt_is_told_in_words() -> None:
    """Nobody knows a hash by heart."""
    broken = stage("generation", "broken")
    diagnosis = replace(
        found("grounding_failure", *SOUND[:2], broken),
        stage="generation",
        suspected_rollout="prompt_hash=ab12",
        versions={"prompt": "v7", "prompt_hash": "ab12"},
    )
    shown = " ".join(_shown(_RECORD, replace(_analysis(), diagnosis=diagnosis), 120).split())
    assert "rollout of prompt_hash=ab12 (the prompt template changed; prompt=v7 was in use)" in shown


def test_numbers_that_cannot_be_are_named() -> None:
    """What became of a start or a probability that a sender cannot have meant."""
    shown = _shown(replace(_RECORD, stated={"head_probability": 5e-324}), None)
    assert "sampled with probability 5e-324" in shown
    assert "stated" not in _shown(_RECORD, None)


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


_LEAVE = {
    "rules-2024": "Leave 2024\nStaff may take 25 days of annual leave each year. Five unused days are kept to March.",
    "rules-2023": "Leave 2023\nStaff may take 23 days of annual leave each year.",
    "faq": "How much leave do I get? 25 days of annual leave each year.",
    "sick": "Tell your manager before 10 a.m. if you are ill. A doctor's note is needed from day four.",
}
_ANSWER = (
    "Staff may take 25 days of annual leave each year [1]. Five unused days are kept until March [4]. "
    "Staff may take 40 days of annual leave in 2024 [1]. The canteen serves dinner on Sundays. Helpful?"
)


def _answered(answer: str = _ANSWER, *, kept: bool = True) -> RequestRecord:
    """A request whose prompt holds four chunks; kept: whether their texts are."""
    chunks = {name: text if kept else None for name, text in _LEAVE.items()}
    return RequestRecord(
        request_id="0123456789abcdef0123456789abcdee",
        service="assistant",
        query=Query(original="How much annual leave is there?"),
        stages=(
            RetrieveRun(
                candidates=tuple(Candidate(chunk_id=name, rank=at, text=text) for at, (name, text) in _numbered(chunks))
            ),
            PackRun(
                packing=Packing(
                    chunks=tuple(
                        PackedChunk(chunk_id=name, position=at, text=text) for at, (name, text) in _numbered(chunks)
                    )
                )
            ),
            GenerateRun(generation=Generation(answer=answer)),
        ),
    )


def _numbered(chunks: dict[str, str | None]) -> list[tuple[int, tuple[str, str | None]]]:
    return list(enumerate(chunks.items(), 1))


def _claims_shown(record: RequestRecord, analysis: Analysis, width: int = 120) -> str:
    """What is printed of the claims, white space folded."""
    lines = _shown(record, analysis, width).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("claims "))
    return " ".join(" ".join(lines[start:]).split()).removeprefix("claims ")


@pytest.mark.parametrize("width", [80, 120])
def test_each_claim_has_the_sentence_that_decides_on_it(width: int) -> None:
    """Which chunk supports it or contradicts it, at which place of the prompt, and in which words; which others do,
    and which chunk it cites in vain; first of all how many claims are in which state."""
    record = _answered()
    shown = _claims_shown(record, analyze_record(record), width)
    assert shown.startswith("4: 1 contradicted (claim 3), 1 weakly supported (claim 4), 2 supported claim 1 Staff may")
    assert "by rules-2024 [1] “Staff may take 25 days of annual leave each year.” also by faq [3] 0." in shown
    assert "“Five unused days are kept to March.” cites sick [4], which does not support it claim 3" in shown
    assert (
        "CONTRADICTED by rules-2024 [1]: 40 days, the evidence says 25 days “Staff may take 25 days of annual leave "
        "each year.” differs in "
    ) in shown
    assert "claim 4 The canteen serves dinner on Sundays. weakly supported 0." in shown
    assert "no claim Helpful? relevance" in shown


def test_without_citations_none_is_missed() -> None:
    """Claims of an answer that cites nothing have no line about it."""
    record = _answered("Staff may take 25 days of annual leave each year. Five unused days are kept until 31 March.")
    assert "cites" not in _claims_shown(record, analyze_record(record))


def test_a_sentence_that_was_not_kept_is_said_to_be() -> None:
    """The chunk is named all the same."""
    record = _answered()
    analysis = analyze_record(record)
    bare = _answered(kept=False)
    assert "by rules-2024 [1] the text of this chunk was not kept" in _claims_shown(bare, analysis)


def test_a_chunk_without_a_sentence_that_decides_is_not_said_to_be_lost() -> None:
    """No sentence of the nearest chunk comes near the claim: it is named, and its text stands above."""
    record = _answered("Zebras graze.")
    (claim,) = analyze_record(record).claims
    nearest = replace(claim, best_chunk="rules-2024", support=0.1, supports={})
    shown = _claims_shown(record, replace(analyze_record(record), claims=(nearest,)))
    assert "nearest is rules-2024 [1]" in shown
    assert "not kept" not in shown


def test_claims_of_an_older_result_have_their_sentence() -> None:
    """It names one chunk for each claim; of the others it says nothing, and blames no citation."""
    record = _answered()
    analysis = analyze_record(record)
    older = tuple(replace(claim, supports={}, contradictions={}) for claim in analysis.claims)
    shown = _claims_shown(record, replace(analysis, claims=older))
    assert "by rules-2024 [1] “Staff may take 25 days of annual leave each year.” cites rules-2024 [1] claim 2" in shown
    assert "also by" not in shown
    assert "does not support" not in shown


def test_a_claim_that_no_chunk_supports_alone_says_so() -> None:
    """One that several support together, one that rests on a chunk by what its removal changed."""
    record = _answered()
    analysis = analyze_record(record)
    first = next(claim for claim in analysis.claims)
    together = replace(first, support=0.7, supports={"rules-2024": 0.41, "faq": 0.3})
    nobody = replace(first, support=0.7, supports={}, best_chunk=None)
    dropped = replace(
        first, layer=ABLATION, best_chunk="sick", reason="without sick each token is 0.50 nats less likely"
    )
    shown = _claims_shown(record, replace(analysis, claims=(together, nobody, dropped)))
    assert "supported 0.70 by several chunks together, most by rules-2024 [1] “" in shown
    assert "supported 0.70 by the words of several chunks together, and by none alone" in shown
    assert "; rests on sick [4]: without sick each token is 0.50 nats less likely" in shown


def test_a_model_that_is_hardly_against_a_claim_contradicts_nothing() -> None:
    """A contradiction counts from one half on."""
    record = _answered()
    analysis = analyze_record(record)
    doubtful = replace(analysis.claims[3], contradiction=0.3, support=0.1)
    shown = _claims_shown(record, replace(analysis, claims=(doubtful,)))
    assert shown.startswith("1: 1 weakly supported (claim 1)")
    assert "CONTRADICTED" not in shown
    by_model = replace(analysis, claims=(replace(doubtful, layer="entailment"),))
    assert _claims_shown(record, by_model).startswith("1: 1 not supported (claim 1)")


def test_the_relevance_of_the_answer_stands_below_its_claims() -> None:
    """Where it is known; nothing stands there where it is not."""
    analysis = _analysis()
    relevance = analysis.score("answer_relevance")
    assert relevance is not None
    assert f"{relevance:.2f}, by words, that the answer speaks of the question" in _shown(_RECORD, analysis)
    without = replace(analysis, scores=tuple(each for each in analysis.scores if each.metric != "answer_relevance"))
    assert "relevance" not in _shown(_RECORD, without)


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


@pytest.mark.parametrize(
    ("question", "rewritten", "dropped"),
    [
        (
            "How did the limit change in 2019 compared with 2021?",
            "How did the limit change?",
            ["in 2019 compared with 2021"],
        ),
        ("In Ireland, what is (as of 2020) the limit?", "what is the limit", ["In Ireland", "as of 2020"]),
        ("What is the Limit?", "the limit: what is", []),
        ("What is the limit?", None, []),
    ],
)
def test_the_words_that_a_rewriting_left_out(question: str, rewritten: str | None, dropped: list[str]) -> None:
    """Run by run, whatever their case and the signs around them; nothing where the question was not rewritten."""
    record = replace(_RECORD, query=Query(original=question, rewritten=rewritten))
    assert request_view(record, None).dropped_words == dropped
