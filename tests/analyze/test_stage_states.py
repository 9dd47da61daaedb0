"""The state of each stage: what proves a break, what acquits, what is only suspected, and what nobody knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragtrace.analyze._doubt_model import (
    ACQUITTAL,
    GENERATION,
    NEIGHBORS,
    RANKING,
    RETRIEVAL,
    USUAL,
    DoubtModel,
    Thresholds,
    distance_of,
    place_odds,
)
from ragtrace.analyze._stage_signs import Signs
from ragtrace.analyze._stage_states import REASONS, Case, judge_stages
from ragtrace.types import Citation, Claim, Facet, FacetMatch, IndexProbe, LostChunk, ProbedChunk, StageFinding

SOUND = Signs(
    asked=6,
    left_count=3,
    pool_match=0.9,
    first_match=0.9,
    packed_match=0.9,
    left_match=0.2,
    left_chunk="c9",
    pool_facets=1.0,
    packed_facets=1.0,
    left_facets=0.0,
    claims=2,
    supported=1.0,
    weakest=0.9,
    answered=0.9,
    on_topic=0.5,
    outside=0.1,
    foreign=0.1,
    odd_figures=0.0,
    odd_dates=0.0,
    odd_names=0.0,
    absent=1,
    odd=0,
    contradicted=0.0,
    altered=0.0,
    citable=2,
    cited=1.0,
    miscited=0.0,
)
INVENTED = {
    "supported": 0.0,
    "citable": 0,
    "cited": None,
    "weakest": 0.0,
    "answered": 0.0,
    "outside": 0.95,
    "foreign": 1.0,
    "odd_figures": 1.0,
    "odd_names": 1.0,
    "odd": 5,
    "absent": 25,
    "on_topic": 0.1,
}
FAINT = INVENTED | {"odd": 2, "absent": 6, "weakest": 0.3, "foreign": 0.6, "on_topic": 0.2}
WORDLESS = {"pool_match": 0.0, "first_match": 0.0, "packed_match": 0.0, "pool_facets": None, "packed_facets": None,
            "left_facets": None}  # fmt: skip


def judged(signs: dict[str, Any] | None = None, **given: Any) -> dict[str, StageFinding]:
    """The findings by stage of a sound case with some signs or facts changed."""
    values = {name: getattr(SOUND, name) for name in Signs.__slots__} | (signs or {})
    facts: dict[str, Any] = {"retrieved": True, "packed": True, "answered": True, "left_out": True, "cites": True,
                             "unjudged": None, "reference": "proxy"}  # fmt: skip
    read = Signs(**values)
    case = Case(signs=read, before_answer=read.before_answer(), **(facts | given))
    return {found.stage: found for found in judge_stages(case)}


def states(found: dict[str, StageFinding]) -> tuple[str, ...]:
    """The states in the order of the path."""
    return tuple(each.state for each in found.values())


def test_whole_evidence_and_a_supported_answer_are_sound() -> None:
    """At every stage that applies; citation does not where a service does not cite."""
    assert states(judged()) == ("sound",) * 4
    assert list(judged(cites=False)) == ["retrieval", "ranking", "generation"]


def test_a_made_up_answer_beside_perfect_evidence_breaks_generation_alone() -> None:
    """The answer's words never count against retrieval or ranking while a chunk of the prompt matches the question."""
    found = judged(INVENTED)
    assert (found["retrieval"].state, found["ranking"].state) == ("sound", "sound")
    assert found["generation"].state == "broken"


def test_what_is_broken_stays_broken_as_traffic_comes() -> None:
    """Question and chunks that match less than is usual cast doubt on retrieval, and acquit no answer."""
    signs = INVENTED | {"pool_match": 0.7, "first_match": 0.7, "packed_match": 0.7}
    before, after = judged(signs), judged(signs, usual={"RETRIEVAL": [-2.5] * USUAL})
    assert (before["retrieval"].state, after["retrieval"].state) == ("not_known", "suspected")
    assert (before["generation"].state, after["generation"].state) == ("broken", "broken")


@pytest.mark.parametrize(
    ("nearness", "others", "is_distant"),
    [(0.1, NEIGHBORS, True), (0.9, NEIGHBORS, False), (None, NEIGHBORS, False), (0.1, NEIGHBORS - 1, False)],
)
def test_an_answer_farther_from_its_question_than_the_others_is_no_doubt_of_it(
    nearness: float | None, others: int, is_distant: bool
) -> None:
    """It is told of generation alone, where enough answers of the service are known, and changes no state."""
    usual = {"DISTANCE": [distance_of(0.2 + 0.6 * number / others) for number in range(others)]}
    found = judged({"nearness": nearness}, usual=usual)
    assert [stage for stage, one in found.items() if one.distant] == ["generation"] * is_distant
    assert states(found) == ("sound",) * 4
    assert not any(one.doubted for one in found.values())


def test_a_share_of_the_answers_is_always_far_from_their_questions() -> None:
    """Six of a hundred, among themselves."""
    nearness = [0.2 + 0.006 * number for number in range(NEIGHBORS)]
    usual = {"DISTANCE": [distance_of(one) for one in nearness]}
    assert sum(judged({"nearness": one}, usual=usual)["generation"].distant for one in nearness) == 6


def test_a_figure_that_a_claim_computes_and_no_operation_gives_leaves_generation_not_known() -> None:
    """It is no sign of an invention, and nothing proves it."""
    assert judged()["generation"].state == "sound"
    assert judged({"unproven": 1})["generation"].state == "not_known"


def test_words_that_match_nothing_are_suspicion_and_never_a_break() -> None:
    """Without gold only proof breaks retrieval."""
    found = judged(WORDLESS | {"declined": True, "supported": None, "answered": None, "claims": 0})["retrieval"]
    assert (found.state, found.reason) == ("suspected", "refused")
    made_up = judged(WORDLESS | INVENTED | {"pool_facets": 0.0})["retrieval"]
    assert (made_up.state, made_up.reason) == ("suspected", "low_match")


def test_a_certain_constraint_that_the_rewrite_dropped_and_nothing_meets_is_a_break() -> None:
    """One that the rewrite kept is a gap of the corpus, or of recall: suspected."""
    facet = Facet(kind="version", value="3.1", source="query")
    dropped = judged(facets=[FacetMatch(facet=facet, match=0.0, in_rewrite=False)])["retrieval"]
    assert dropped.state == "broken"
    assert "the rewritten query dropped" in dropped.evidence[0]
    kept = judged(facets=[FacetMatch(facet=facet, match=0.0, in_rewrite=True)])["retrieval"]
    assert (kept.state, kept.reason) == ("suspected", "facet_not_found")


@pytest.mark.parametrize(("kind", "value"), [("entity", "Acme"), ("time", "two weeks ago")])
def test_a_name_or_time_of_the_question_that_is_nowhere_proves_nothing(kind: str, value: str) -> None:
    """It may be written otherwise, or be the asker's own case; one that the host gave is certain."""
    facet = Facet(kind=kind, value=value, source="query")  # type: ignore[arg-type]
    read = FacetMatch(facet=facet, match=0.0, in_rewrite=False)
    given = FacetMatch(facet=Facet(kind="entity", value="Acme", source="host"), match=0.0, in_rewrite=False)
    assert judged(facets=[read])["retrieval"].state == "sound"
    assert judged(facets=[given])["retrieval"].state == "broken"


def test_what_could_not_be_computed_is_not_known_and_not_absent() -> None:
    """No texts, no retriever, no packer: each stage says why."""
    bare = {
        name: None
        for name in Signs.__slots__
        if name not in ("declined", "hedged", "readable", "claims", "citable", "asked", "left_count")
    }
    found = judged(bare | {"claims": 0}, unjudged="no_evidence_text")
    assert all(each.state == "not_known" for each in found.values())
    assert {found[stage].reason for stage in ("retrieval", "ranking", "generation")} == {"not_recorded"}
    found = judged(retrieved=False, packed=False)
    assert {found[stage].reason for stage in ("retrieval", "ranking", "generation")} == {"not_recorded"}


def test_nothing_is_lost_in_ranking_where_nothing_was_left_out() -> None:
    """Whatever the chunks say: the candidates are the prompt."""
    assert judged(WORDLESS | INVENTED, left_out=False)["ranking"].state == "sound"


def test_a_chunk_outside_of_the_prompt_that_speaks_much_better_breaks_ranking() -> None:
    """Its lead decides; the line names the chunk."""
    signs = {"packed_match": 0.1, "left_match": 1.0, "packed_facets": 0.0, "left_facets": 1.0, "declined": True,
             "supported": None, "answered": None, "claims": 0}  # fmt: skip
    found = judged(signs)["ranking"]
    assert found.state == "broken"
    assert "c9" in found.evidence[0]


def test_an_answer_that_words_cannot_follow_is_not_known() -> None:
    """Data and other languages are neither supported nor made up."""
    for facts in ({"signs": INVENTED | {"readable": False}}, {"signs": INVENTED, "unjudged": "language"}):
        found = judged(**facts)["generation"]
        assert (found.state, found.reason) == ("not_known", "language")


def test_a_refusal_is_suspected_only_beside_a_chunk_that_matches_the_question() -> None:
    """Without the evidence in the prompt it is right."""
    declined = {"declined": True, "supported": None, "answered": None, "claims": 0, "cited": None}
    assert judged(declined)["generation"].state == "suspected"
    assert judged(declined | {"packed_match": 0.65})["generation"].state == "suspected"
    assert judged(declined | {"packed_match": 0.55})["generation"].state == "not_known"
    assert judged(declined | {"packed_match": 0.65, "packed_facets": 0.5})["generation"].state == "not_known"
    assert judged(declined | WORDLESS)["generation"].state == "not_known"


def test_a_lead_proves_a_loss_however_little_the_chunk_holds_of_the_question() -> None:
    """A third of its words against none; not of a question of two words, whose shares tell little."""
    signs = {"packed_match": 0.0, "left_match": 0.35, "packed_facets": 0.0, "left_facets": 1.0, "declined": True,
             "supported": None, "answered": None, "claims": 0}  # fmt: skip
    assert judged(signs)["ranking"].state == "broken"
    assert judged(signs | {"asked": 2})["ranking"].state != "broken"


def test_a_question_of_three_words_needs_more_to_prove_ranking() -> None:
    """Half of them stand in many a chunk of the same person or thing: "How old was Thomas when he died?"."""
    less = {"packed_match": 0.3, "left_match": 0.6, "packed_facets": None, "left_facets": None, "asked": 4}
    assert judged(less)["ranking"].state == "broken"
    assert judged(less | {"asked": 3})["ranking"].state == "suspected"
    assert judged(less | {"asked": 3, "packed_match": 0.1, "left_match": 0.9})["ranking"].state == "broken"


def test_a_lead_of_words_proves_nothing_where_the_chunk_itself_hardly_speaks_of_the_question() -> None:
    """Of what is in no document some chunk has a word more than the others; facets that it meets are another matter."""
    signs: dict[str, Any] = {"packed_match": 0.05, "left_match": 0.28, "left_standing": 1.0, "packed_facets": None,
                             "left_facets": None}  # fmt: skip
    declined = signs | {"declined": True, "supported": None, "answered": None, "claims": 0}
    assert judged(declined)["ranking"].state == "suspected"
    assert judged(declined | {"left_match": 0.32})["ranking"].state == "broken"
    assert judged(declined | {"packed_facets": 0.0, "left_facets": 1.0})["ranking"].state == "broken"


def test_grades_of_the_built_in_judge_tell_of_chunks_that_words_find_alike() -> None:
    """It may prove a loss; a lead of words proves none where the judge grades something in the prompt higher."""
    alike: dict[str, Any] = {"packed_match": 0.4, "left_match": 0.45, "packed_facets": None, "left_facets": None}
    assert judged(alike)["ranking"].state == "not_known"
    found = judged(alike | {"graded_lead": 3.0, "left_graded": "c7"})["ranking"]
    assert found.state == "broken"
    assert any("c7" in line and "by 3.0 in log odds" in line for line in found.evidence)
    assert judged(alike | {"graded_lead": 0.5})["ranking"].state == "suspected"
    assert judged(alike | {"graded_lead": -3.0})["ranking"].state == "sound"
    ahead = alike | {"packed_match": 0.1, "left_match": 0.8}
    assert judged(ahead)["ranking"].state == "broken"
    assert judged(ahead | {"graded_lead": -0.1})["ranking"].state == "suspected"


def test_a_refusal_beside_a_chunk_as_good_as_those_of_the_prompt_makes_ranking_suspected() -> None:
    """Not so an answer to the same prompt."""
    level = {"left_match": 0.6, "packed_match": 0.55, "packed_facets": None, "left_facets": None, "pool_facets": None,
             "declined": True, "supported": None, "answered": None}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "ragtrace.analyze._stage_states.RANKING",
            replace(RANKING, base=2.0, weights={}, lines=Thresholds(suspected=0.0)),
        )
        declined = judged(level)["ranking"]
        assert (declined.state, declined.reason) == ("suspected", "refused")
        assert judged(level | {"declined": False})["ranking"].state == "not_known"


@pytest.mark.parametrize(("cut", "where"), [(set(), "is not in the prompt"), ({"c9"}, "is cut in the prompt")])
def test_what_is_left_out_is_told_from_what_is_cut(cut: set[str], where: str) -> None:
    """A better chunk outside of the prompt is not called one that is in it in part."""
    better = {"left_match": 0.9, "packed_match": 0.2, "left_facets": 1.0, "packed_facets": 0.2}
    words, facets = judged(better, cut=cut)["ranking"].evidence[:2]
    assert words.startswith(f"c9, which {where}, holds 90% of the question's words")
    assert facets.startswith(f"a candidate that is not in the prompt{' or cut in it' * bool(cut)} meets 100%")


def test_gold_evidence_decides_retrieval_and_ranking() -> None:
    """Lost in retrieval it is retrieval's, lost later it is ranking's, whatever the words say."""
    absent = judged(reference="oracle", lost=[LostChunk(chunk_id="g", where="retrieval")])
    assert states(absent)[:2] == ("broken", "sound")
    sunk = judged(reference="oracle", lost=[LostChunk(chunk_id="g", where="packing", reason="budget")])
    assert states(sunk)[:2] == ("sound", "broken")
    assert "budget" in sunk["ranking"].evidence[0]
    assert states(judged(WORDLESS, reference="oracle"))[:2] == ("sound", "sound")


def test_a_made_up_answer_breaks_generation_only_where_the_evidence_is_in_the_prompt() -> None:
    """As far as question and chunks tell; and an answer that says that the evidence is silent is no invention."""
    assert judged(INVENTED)["generation"].state == "broken"
    assert judged(INVENTED | WORDLESS)["generation"].state == "suspected"
    assert judged(INVENTED | {"hedged": True})["generation"].state == "suspected"


def test_the_less_sure_the_evidence_is_the_more_must_speak_against_an_answer() -> None:
    """Where it is in doubt, an invention by every sign is proven, and one by fewer signs, which it would prove beside
    evidence that is there, is suspected."""
    doubtful = {"pool_match": 0.42, "first_match": 0.42, "packed_match": 0.42, "pool_facets": 0.5, "packed_facets": 0.5}
    assert judged(INVENTED | doubtful)["retrieval"].state == "not_known"
    assert judged(INVENTED | doubtful)["generation"].state == "broken"
    assert judged(FAINT)["generation"].state == "broken"
    assert judged(FAINT | doubtful)["generation"].state == "suspected"


@pytest.mark.parametrize(
    ("stage", "signs"),
    [
        ("generation", FAINT),
        ("generation", {"exchanged": 0.8, "contradicted": 0.8, "absent": 1}),
        ("ranking", {"packed_match": 0.3, "left_match": 0.6, "packed_facets": 0.5, "left_facets": 1.0}),
    ],
)
def test_the_less_what_is_ranked_first_speaks_of_the_question_the_more_a_proof_of_a_later_stage_needs(
    stage: str, signs: dict[str, Any]
) -> None:
    """A match further down may be a near miss in the place of the evidence; the suspicion stays."""
    assert judged(signs)[stage].state == "broken"
    missed = judged(signs | {"first_match": 0.0})
    assert missed["retrieval"].state == judged(signs)["retrieval"].state
    assert missed["retrieval"].doubted
    assert missed[stage].state == "suspected"


def test_an_answer_that_is_made_up_by_every_sign_is_proven_though_the_first_chunk_misses_the_question() -> None:
    """A little: the wording of questions and texts may differ throughout a service."""
    found = judged(INVENTED | {"first_match": 0.3})
    assert found["retrieval"].doubted
    assert found["generation"].state == "broken"


def test_a_refusal_beside_gold_evidence_breaks_generation() -> None:
    """The evidence is in the prompt, and the answer says that it is not."""
    declined = {"declined": True, "supported": None, "answered": None, "claims": 0}
    assert judged(declined, reference="oracle")["generation"].state == "broken"
    lost = [LostChunk(chunk_id="g", where="packing")]
    assert judged(declined, reference="oracle", lost=lost)["generation"].state == "not_known"


def test_a_collapse_of_citations_breaks_the_citation_stage() -> None:
    """No citation at all in an answer of two claims; a single claim without one is a matter of style."""
    claims = [Claim(start=0, end=1, text="One."), Claim(start=2, end=3, text="Two.")]
    found = judged({"cited": 0.0, "miscited": None}, claims=claims)["citation"]
    assert found.state == "broken"
    assert any("no citation: “One.”" in line for line in found.evidence)
    assert judged({"cited": 0.0, "miscited": None, "citable": 1}, claims=claims[:1])["citation"].state == "suspected"


def test_an_answer_that_says_what_is_not_there_need_not_cite() -> None:
    """It has nothing to cite for that, even where it does not decline as a whole."""
    bare = {"cited": 0.0, "citable": 2}
    assert judged(bare)["citation"].state == "broken"
    assert judged(bare | {"hedged": True})["citation"].state == "not_known"


def test_one_wrong_thing_in_the_words_of_the_prompt_is_a_break() -> None:
    """Something exchanged in its place; where the evidence is in doubt it is suspected, and so is a value that stands
    nowhere, in an answer that has no other words than the prompt's. With gold evidence a copy does."""
    stray, exchanged = {"odd": 1, "absent": 1, "foreign": 0.2}, {"exchanged": 0.8, "contradicted": 0.8, "absent": 1}
    doubtful = {"pool_match": 0.3, "first_match": 0.3, "packed_match": 0.3, "pool_facets": 0.5, "packed_facets": 0.5}
    assert judged(exchanged)["generation"].state == "broken"
    assert judged(exchanged | {"hedged": True})["generation"].state != "broken"
    assert judged(exchanged | doubtful)["generation"].state != "broken"
    assert judged(stray)["generation"].state == "suspected"
    assert judged(stray, reference="oracle")["generation"].state != "sound"
    assert judged(exchanged | {"absent": 6})["generation"].state == "broken"
    assert judged(exchanged | {"exchanged": 0.0})["generation"].state == "suspected"  # a negation
    less = exchanged | {"exchanged": 0.65, "contradicted": 0.65}
    assert judged(less)["generation"].state == "suspected"
    assert judged(less | {"altered": 0.9}, reference="oracle")["generation"].state == "broken"


def test_a_figure_that_may_be_reckoned_is_suspected_alone() -> None:
    """It counts as odd where a stage is suspected, and for no proof."""
    stray = {"odd": 1, "absent": 1, "foreign": 0.2}
    assert judged(stray | {"reckoned": 1})["generation"].state == "suspected"
    assert judged(FAINT)["generation"].state == "broken"
    assert judged(FAINT | {"reckoned": 1})["generation"].state == "suspected"


@pytest.mark.parametrize(
    ("sureness", "state"), [(0.4, "sound"), (0.7, "not_known"), (0.95, "suspected"), (0.997, "broken")]
)
def test_a_wrong_citation_is_as_sure_as_the_claim_is_told_apart(sureness: float, state: str) -> None:
    """Both chunks are named where it is in doubt; what generation made up is none of it."""
    wrong = "“The toll is 85 crowns [1].” cites c1; c2 bears it out"
    found = judged({"miscited": sureness, "wrong_citation": wrong})["citation"]
    assert found.state == state
    assert found.evidence == ((wrong,) if state in ("suspected", "broken") else ())


def test_a_dangling_citation_is_said_to_dangle() -> None:
    """It names no chunk of the prompt."""
    claim = Claim(start=0, end=1, text="One.", citations=(Citation(marker="[9]"),))
    found = judged({"cited": 0.0, "miscited": None}, claims=[claim])["citation"]
    assert found.state == "suspected"
    assert "[9] names no chunk of the prompt: “One.”" in found.evidence


def test_unsupported_claims_are_quoted_with_what_holds_them_elsewhere() -> None:
    """With the reason that words give."""
    claim = Claim(start=0, end=4, text="It is 7.", support=0.1, unselected_chunk="c4", reason="7 stands nowhere")
    lines = judged(INVENTED, claims=[claim])["generation"].evidence
    where = "weakly supported by the prompt, but supported by c4, which it does not hold in full"
    assert lines == (f"{where}: “It is 7.” (7 stands nowhere)",)
    by_model = Claim(start=0, end=4, text="It is 7.", support=0.1, layer="entailment")
    assert judged(INVENTED, claims=[by_model])["generation"].evidence == ("not supported by the prompt: “It is 7.”",)


GHOSTS = (Claim(start=0, end=9, text="The roof.", factual=True, citations=(Citation(marker="[7]"),)),)


def test_marks_that_name_no_chunk_break_citation_where_others_do() -> None:
    """All of them, where other answers of the service cite chunks of their prompts; else marks may be no citations."""
    ghosts = {"cited": 0.0, "citable": 1}
    found = judged(ghosts, claims=GHOSTS, resolves=True)["citation"]
    assert found.state == "broken"
    assert "[7] names no chunk of the prompt" in found.evidence[0]
    assert judged(ghosts, claims=GHOSTS)["citation"].state == "suspected"
    right = (Citation(marker="[1]", chunk_id="c1"),)
    half = (*GHOSTS, Claim(start=10, end=19, text="The wall.", factual=True, citations=right))
    assert judged({"cited": 0.5, "citable": 2}, claims=half, resolves=True)["citation"].state != "broken"


REFUSAL: dict[str, Any] = {
    "declined": True,
    "supported": None,
    "answered": None,
    "claims": 0,
    "citable": 0,
    "cited": None,
}
ANSWERS: tuple[dict[str, Any], ...] = ({}, INVENTED, REFUSAL, REFUSAL | {"hedged": True}, INVENTED | {"hedged": True})
FACET = Facet(kind="version", value="3.1", source="query")


def in_doubt(signs: dict[str, Any] | None = None, **given: Any) -> list[str]:
    """The stages that are in doubt."""
    return [stage for stage, found in judged(signs, **given).items() if found.doubted]


@given(
    shares=st.fixed_dictionaries(
        dict.fromkeys(("pool_match", "first_match", "packed_match", "left_match", "pool_facets", "packed_facets",
                       "left_facets"), st.none() | st.floats(0, 1))
    ),
    left_count=st.integers(0, 20),
    asked=st.integers(0, 9),
    facts=st.fixed_dictionaries({"is_empty": st.booleans(), "retrieved": st.booleans(), "packed": st.booleans(),
                                 "left_out": st.booleans(), "reference": st.sampled_from(("proxy", "none", "oracle"))}),
    facet=st.none() | st.builds(FacetMatch, facet=st.just(FACET), match=st.floats(0, 1), in_rewrite=st.booleans()),
)  # fmt: skip
def test_doubt_of_retrieval_and_ranking_does_not_depend_on_the_answer(
    shares: dict[str, Any], left_count: int, asked: int, facts: dict[str, Any], facet: FacetMatch | None
) -> None:
    """Whatever question and chunks are: supported, made up or declined, it is the same."""
    signs = shares | {"left_count": left_count, "asked": asked}
    facets = [facet] if facet else []
    doubts = {tuple(in_doubt(signs | answer, facets=facets, cites=False, **facts)) for answer in ANSWERS}
    assert len({tuple(stage for stage in found if stage != "generation") for found in doubts}) == 1


def test_a_sound_request_is_in_no_doubt() -> None:
    """At no stage; nor is one of which nothing was recorded."""
    assert in_doubt() == []
    assert in_doubt(retrieved=False, packed=False, answered=False, cites=False) == []


@pytest.mark.parametrize(
    ("signs", "facts"),
    [
        ({}, {"facets": [FacetMatch(facet=FACET, match=0.0, in_rewrite=False)]}),
        ({}, {"facets": [FacetMatch(facet=FACET, match=0.0, in_rewrite=True)]}),
        ({"pool_match": None}, {"is_empty": True}),
        (WORDLESS, {}),
    ],
    ids=["broken", "unmet facet", "no candidates", "far off"],
)
def test_what_puts_retrieval_in_doubt(signs: dict[str, Any], facts: dict[str, Any]) -> None:
    """Proof, a certain facet that no candidate meets, no candidate, and candidates that match nothing of the question;
    the answer neither acquits nor accuses."""
    for answer in ANSWERS:
        assert "retrieval" in in_doubt(signs | answer, **facts)
    assert "retrieval" not in in_doubt(REFUSAL)


def test_what_a_retriever_ranks_first_puts_it_in_doubt() -> None:
    """It says little of the question, a chunk further down says more; one whose text is not known casts no doubt."""
    low = {"pool_match": 0.6, "first_match": 0.2}
    assert "retrieval" in in_doubt(low)
    assert "retrieval" not in in_doubt(low | {"first_match": 0.6})
    assert "retrieval" not in in_doubt(low | {"first_match": None})


def test_retrieval_is_in_doubt_though_an_answer_acquits_it() -> None:
    """The state is that of the request; the doubt is there to be counted."""
    close = {
        "pool_match": 0.3,
        "first_match": 0.3,
        "packed_match": 0.3,
        "pool_facets": 0.5,
        "packed_facets": 0.5,
    }
    found = judged(close | {"answered": 1.0})["retrieval"]
    assert (found.state, found.doubted) == ("sound", True)


def test_a_better_chunk_outside_of_the_prompt_puts_ranking_in_doubt() -> None:
    """Unless nothing was left out."""
    lead = {"packed_match": 0.1, "left_match": 1.0, "packed_facets": 0.0, "left_facets": 1.0}
    for answer in ANSWERS:
        assert "ranking" in in_doubt(lead | answer)
        assert "ranking" not in in_doubt(lead | answer, left_out=False)


@pytest.mark.parametrize(
    ("signs", "state"),
    [(INVENTED, "broken"), (INVENTED | {"hedged": True}, "suspected"), (REFUSAL | WORDLESS, "not_known")],
    ids=["broken", "suspected", "refused"],
)
def test_what_puts_generation_in_doubt(signs: dict[str, Any], state: str) -> None:
    """An answer that is made up, or looks so, or declines: rightly or not."""
    found = judged(signs)["generation"]
    assert (found.state, found.doubted) == (state, True)


def test_generation_is_in_doubt_whatever_is_usual_of_the_service() -> None:
    """Where all answers are like inventions none is suspected; many can be compared none the less."""
    usual = {"GENERATION": [9.0] * USUAL}
    loose = INVENTED | {"weakest": 0.1, "foreign": 0.4, "odd": 0, "absent": 2, "contradicted": 0.0, "on_topic": 0.1}
    assert judged(loose, usual=usual)["generation"].state == "not_known"
    assert "generation" in in_doubt(loose, usual=usual)
    assert "generation" not in in_doubt(usual=usual)


def test_what_nobody_can_judge_is_no_doubt_of_generation() -> None:
    """Another language, and an answer that was not recorded."""
    assert "generation" not in in_doubt(INVENTED, unjudged="language")
    assert "generation" not in in_doubt(INVENTED, answered=False)


def test_gold_evidence_leaves_no_doubt_but_proof() -> None:
    """Words say nothing beside it."""
    assert in_doubt(WORDLESS, reference="oracle") == []
    absent = [LostChunk(chunk_id="g", where="retrieval")]
    sunk = [LostChunk(chunk_id="g", where="packing", reason="budget")]
    assert in_doubt(WORDLESS, reference="oracle", lost=absent) == ["retrieval"]
    assert in_doubt(WORDLESS, reference="oracle", lost=sunk) == ["ranking"]


FOUND = IndexProbe(
    outcome="found",
    cause="missed_by_search",
    depth=3,
    asked=30,
    exact=True,
    chunks=(ProbedChunk(chunk_id="c7", cause="missed_by_search", exact_rank=1, match=0.8),),
)
NOTHING = IndexProbe(outcome="nothing_better", depth=3, asked=30, exact=True)
UNMET = (FacetMatch(facet=Facet(kind="version", value="7.3"), match=0.0, in_rewrite=True),)


def test_evidence_that_a_probe_found_breaks_retrieval_and_no_later_stage() -> None:
    """Whatever the words said of it; a made-up answer follows from it."""
    for signs in ({}, WORDLESS, INVENTED):
        found = judged(signs, probe=FOUND)
        assert (found["retrieval"].state, found["retrieval"].doubted) == ("broken", True)
        assert "c7 was missed by the approximate search (rank 1 of an exact search;" in found["retrieval"].evidence[-1]
    assert judged(INVENTED)["generation"].state == "broken"
    assert judged(INVENTED, probe=FOUND)["generation"].state != "broken"


def test_a_probe_that_finds_nothing_better_neither_acquits_nor_convicts() -> None:
    """What was suspected stays so, since the evidence may never have been indexed; what it asked stands beside."""
    nothing = WORDLESS | INVENTED | {"pool_facets": 0.0}
    before, after = judged(nothing)["retrieval"], judged(nothing, probe=NOTHING)["retrieval"]
    assert (after.state, after.reason) == (before.state, before.reason) == ("suspected", "low_match")
    assert after.evidence[-1] == "an exact search of 30 candidates in place of 3 finds nothing better"
    assert judged(probe=NOTHING)["retrieval"].state == "sound"


def test_an_unmet_constraint_is_a_gap_of_the_corpus_where_an_exact_search_finds_nothing_better() -> None:
    """A search that is merely deeper may have missed it, and tells no gap."""
    merely_deeper = IndexProbe(outcome="nothing_better", depth=3, asked=30)
    reasons = [judged(facets=UNMET, probe=probe)["retrieval"].reason for probe in (None, NOTHING, merely_deeper)]
    assert reasons == ["facet_not_found", "corpus_gap", "facet_not_found"]
    assert judged(facets=UNMET, probe=NOTHING)["retrieval"].doubted


def test_a_probe_that_tells_nothing_changes_nothing() -> None:
    """It failed, it asked another version, or it is another search; or what is found today has no cause."""
    for outcome in ("failed", "another_version", "other_search"):
        assert judged(WORDLESS, probe=IndexProbe(outcome=outcome)) == judged(WORDLESS)
    today = IndexProbe(outcome="found", depth=3, asked=30, exact=True, chunks=(ProbedChunk(chunk_id="c7", rank=2),))
    found = judged(probe=today)["retrieval"]
    assert (found.state, found.evidence) == ("sound", ("c7 is returned at rank 2 today; why not then is not known "
                                                       "(rank 2 of the same search, asked for 30)",))  # fmt: skip


def test_every_reason_is_one_of_nine() -> None:
    """Reasons are a label of metrics, so there are few."""
    assert len(REASONS) == len(set(REASONS)) == 9
    cases = [judged(), judged(INVENTED), judged(WORDLESS | INVENTED), judged(packed=False), judged({"cited": None})]
    reasons = {each.reason for found in cases for each in found.values()}
    assert reasons - {None} <= set(REASONS)


DOUBTS = (RETRIEVAL, ACQUITTAL, RANKING, GENERATION)


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.name)
def test_the_lines_of_a_doubt_stand_in_order(doubt: DoubtModel) -> None:
    """Sound below suspected, suspected below broken, with and without what is usual."""
    for drawn in (doubt.lines, doubt.known):
        lines = [line for line in (drawn.sound, drawn.suspected, drawn.broken) if line is not None]
        assert lines == sorted(lines)
        assert lines


def test_few_other_requests_tell_nothing_of_what_is_usual() -> None:
    """The score stands alone until enough are known."""
    signs = SOUND
    alone = GENERATION.level(signs, {})
    assert GENERATION.level(signs, {"GENERATION": [9.0] * (USUAL - 1)}) == alone
    assert GENERATION.level(signs, {"RANKING": [9.0] * USUAL}) == alone
    beside = GENERATION.level(signs, {"GENERATION": [9.0] * USUAL})
    assert beside.lines == GENERATION.known
    assert beside.odds < alone.odds


@given(
    values=st.lists(st.floats(-20, 20), min_size=USUAL, max_size=60), low=st.floats(-25, 25), more=st.floats(0.001, 10)
)
def test_a_place_is_finite_and_grows_with_the_value(values: list[float], low: float, more: float) -> None:
    """Below all of them and above all of them, too; turned around, it changes its sign."""
    lower, upper = place_odds(low, values), place_odds(low + more, values)
    assert -10 < lower <= upper < 10
    assert place_odds(-low, [-value for value in values]) == pytest.approx(-lower)


def test_what_is_usual_decides_what_is_suspected() -> None:
    """Words of its own in a service whose answers copy the documents, and in one whose answers never do; proof stays
    proof in both."""
    words: dict[str, Any] = {"supported": 0.3, "weakest": 0.2, "foreign": 0.5, "outside": 0.5, "absent": 6}
    odds = GENERATION.log_odds(replace(SOUND, **words))
    copying = {"GENERATION": [odds - 3 - number / 100 for number in range(100)]}
    telling = {"GENERATION": [odds - 1 + number / 50 for number in range(100)]}
    assert judged(words, usual=copying)["generation"].state == "suspected"
    assert judged(words, usual=telling)["generation"].state != "suspected"
    invented: dict[str, Any] = dict(INVENTED)
    made_up = GENERATION.log_odds(replace(SOUND, **invented))
    for usual in ([made_up - 5.0] * 100, [made_up + 5.0] * 100):
        assert judged(INVENTED, usual={"GENERATION": usual})["generation"].state == "broken"


UNMATCHED = {"packed_facets": None, "left_facets": None, "pool_facets": None, "packed_match": 0.5, "pool_match": 0.5}


def test_a_lost_proxy_chunk_casts_suspicion_on_ranking() -> None:
    """Where it was found and nothing in the prompt is as good; one that was not found tells nothing of ranking."""
    assert judged(UNMATCHED)["ranking"].state == "sound"
    lost = judged(UNMATCHED, lost=[LostChunk(chunk_id="c9", where="packing")])["ranking"]
    assert (lost.state, lost.reason) == ("suspected", "low_match")
    assert any("evidence c9 was lost in packing" in line for line in lost.evidence)
    assert judged(UNMATCHED, lost=[LostChunk(chunk_id="c9", where="retrieval")])["ranking"].state == "sound"


def test_the_reason_of_a_suspected_ranking_names_only_what_is_ahead() -> None:
    """No lead of 0 % over 0 % is told where facets or a lost reference chunk cast the suspicion."""
    by_facets = judged(UNMATCHED | {"left_match": 0.0, "packed_match": 0.0, "packed_facets": 0.0, "left_facets": 1.0},
                       lost=[LostChunk(chunk_id="c9", where="packing")])["ranking"]  # fmt: skip
    assert by_facets.state == "suspected"
    assert by_facets.evidence[0].endswith("meets 100% of what the question requires; the best chunk of the prompt 0%")
    assert not any("words" in line for line in by_facets.evidence)


def test_a_refusal_leaves_ranking_open_where_another_chunk_is_about_as_good() -> None:
    """Whether the answer declines because of it cannot be told; a chunk that is clearly worse is no reason."""
    near = UNMATCHED | {"left_match": 0.45, "declined": True, "left_count": 40}
    assert judged(near | {"declined": False})["ranking"].state == "sound"
    found = judged(near)["ranking"]
    assert (found.state, found.reason) == ("not_known", "refused")
    assert judged(near | {"left_match": 0.2})["ranking"].state == "sound"
