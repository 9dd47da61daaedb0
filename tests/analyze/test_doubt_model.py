"""What calibrated models and words together say of where a request broke."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ragtrace.analyze._doubt_model import chances
from ragtrace.analyze._stage_signs import Signs
from ragtrace.analyze._stage_states import Case, judge_stages, proofs
from ragtrace.types import IndexProbe, Stage, StageFinding

STAGES: tuple[Stage, ...] = ("retrieval", "ranking", "generation", "citation")
NINETEEN = math.log(19)  # one judgment of a model that errs in one of twenty
MATCHED: dict[str, Any] = {
    "asked": 6,
    "pool_match": 0.6,
    "first_match": 0.6,
    "packed_match": 0.6,
    "left_match": 0.4,
    "left_standing": 0.0,
    "left_count": 4,
    "claims": 3,
    "supported": 1.0,
    "weakest": 0.8,
    "answered": 0.7,
    "on_topic": 0.5,
    "foreign": 0.1,
    "absent": 1,
    "odd": 0,
    "contradicted": 0.0,
    "altered": 0.0,
}
SOUND: dict[str, Any] = {
    "packed_odds": 2 * NINETEEN,
    "left_odds": -NINETEEN,
    "rest_odds": 2 * NINETEEN,
    "borne": (5.0, 5.0, 5.0),
    "answer_odds": NINETEEN,
}
DECLINED: dict[str, Any] = {"declined": True, "supported": None, "answered": None, "borne": (), "rest_odds": None}


def judged(*, cites: bool = False, probe: IndexProbe | None = None, **given: Any) -> dict[str, StageFinding]:
    """The findings of a request of whose chunks a part was left out."""
    signs = Signs(**(MATCHED | SOUND | given))
    case = Case(signs=signs, before_answer=signs.before_answer(), retrieved=True, packed=True, answered=True,
                left_out=True, cites=cites, unjudged=None, reference="proxy", probe=probe)  # fmt: skip
    return {found.stage: found for found in judge_stages(case)}


def stage(name: str, **given: Any) -> str:
    """The state of one stage."""
    return judged(**given)[name].state


def test_what_all_judgments_agree_on_is_sound() -> None:
    """At every stage."""
    assert [found.state for found in judged().values()] == ["sound"] * 3


@pytest.mark.parametrize(("place", "state"), [(-5.0, "not_known"), (-3 * NINETEEN, "broken")])
def test_one_claim_that_two_judgments_deny_breaks_nothing_and_one_that_three_deny_does(
    place: float, state: str
) -> None:
    """One made-up claim in an answer of three that words cannot see. Whether a part of the evidence was lost, so that
    it had to be made up, only the index can tell."""
    found = judged(borne=(5.0, place, 5.0))
    assert found["generation"].state in {"broken": ("broken",), "not_known": ("suspected", "not_known")}[state]
    assert found["ranking"].state == "sound"
    nothing = IndexProbe(outcome="nothing_better", exact=True, odds=-NINETEEN)
    assert judged(borne=(5.0, place, 5.0), probe=nothing)["retrieval"].state == "sound"


def test_claims_that_are_all_denied_multiply() -> None:
    """Two judgments of each of three claims, which words find foreign as well."""
    signs = {"supported": 0.0, "weakest": 0.1, "foreign": 0.7, "absent": 9}
    assert stage("generation", borne=(-2 * NINETEEN,) * 3, **signs) == "broken"


def test_an_answer_to_something_else_rests_on_what_is_no_evidence() -> None:
    """That it does not speak of the question is one witness; that what it rests on is none of the evidence another."""
    beside = {"answer_odds": -NINETEEN}
    assert stage("generation", **beside) != "broken"
    assert stage("generation", rest_odds=-NINETEEN, **beside) == "broken"


def test_a_refusal_beside_the_evidence_is_generations() -> None:
    """Where two judgments find it in the prompt; one alone suspects, and where none does, it is not generation's."""
    assert stage("generation", **DECLINED) == "broken"
    assert stage("generation", **(DECLINED | {"packed_odds": NINETEEN - 1.5})) == "suspected"
    absent = judged(**(DECLINED | {"packed_odds": -NINETEEN}))
    assert absent["generation"].state not in ("broken", "suspected")
    assert absent["retrieval"].state == "suspected"


def test_evidence_outside_of_the_prompt_breaks_ranking() -> None:
    """Where none is in it, and the answer's claims are denied; never where nothing was left out."""
    lost = {"packed_odds": -NINETEEN, "left_odds": 2 * NINETEEN, "rest_odds": -NINETEEN, "borne": (-5.0, -5.0),
            "left_match": 0.7, "packed_match": 0.4, "supported": 0.0, "weakest": 0.0}  # fmt: skip
    assert stage("ranking", **lost) == "broken"
    whole = chances(Signs(**(MATCHED | SOUND | lost)), left_out=False)
    assert whole is not None
    assert whole.ranking == 0.0


@pytest.mark.parametrize(
    "given", [{"borne": (-6.0, -6.0), "supported": 0.0, "weakest": 0.0}, DECLINED], ids=["made up", "declined"]
)
def test_a_part_of_the_evidence_may_be_lost(given: dict[str, Any]) -> None:
    """A prompt that holds what answers the question may lack another part of it: where more of it is outside of the
    prompt ranking lost that, and where the index holds it retrieval did; else generation broke."""
    held = IndexProbe(outcome="found", exact=True, odds=1.6 * NINETEEN, cause="missed_by_search")
    nothing = IndexProbe(outcome="nothing_better", exact=True, odds=-NINETEEN)
    left = given | {"left_odds": 1.6 * NINETEEN}
    assert judged(**given, probe=nothing)["generation"].state == "broken"
    assert judged(**given, probe=held)["retrieval"].state == "broken"
    assert judged(**given, probe=held)["generation"].state != "broken"
    assert judged(**left, probe=nothing)["ranking"].state in ("broken", "suspected")
    assert judged(**left, probe=nothing)["generation"].state != "broken"


def test_an_answer_whose_claims_hold_lacks_no_part() -> None:
    """However sure the index seems to hold more: near relatives of the evidence are there of many questions."""
    held = IndexProbe(outcome="nothing_better", exact=True, odds=1.6 * NINETEEN)
    assert [found.state for found in judged(probe=held).values()] == ["sound"] * 3


def test_what_rests_on_no_evidence_may_say_that_there_is_none() -> None:
    """In other words than a refusal's, or as a courtesy: an index that tells nothing breaks nothing."""
    odds: dict[str, Any] = {"packed_odds": -2 * NINETEEN, "rest_odds": -2 * NINETEEN, "left_odds": -NINETEEN}
    unsure = IndexProbe(outcome="nothing_better", exact=True, odds=0.4)
    found = chances(Signs(**(MATCHED | SOUND | odds | {"pool_match": 0.3})), left_out=True)
    assert found is not None
    assert found.with_index(0.4).sound > 0.2
    assert "broken" not in {each.state for each in judged(**odds, pool_match=0.3, probe=unsure).values()}


def test_a_model_that_is_not_known_to_rank_better_than_the_host_suspects_ranking() -> None:
    """However sure it is; and says why."""
    lost = {"packed_odds": -NINETEEN, "left_odds": 2 * NINETEEN, "rest_odds": -NINETEEN, "borne": (-5.0, -5.0),
            "left_match": 0.7, "packed_match": 0.4, "supported": 0.0, "weakest": 0.0}  # fmt: skip
    signs = Signs(**(MATCHED | SOUND | lost))
    case = Case(signs=signs, before_answer=signs.before_answer(), retrieved=True, packed=True, answered=True,
                left_out=True, cites=False, unjudged=None, reference="proxy", may_outrank=False)  # fmt: skip
    (ranking,) = (found for found in judge_stages(case) if found.stage == "ranking")
    assert ranking.state == "suspected"
    assert any("no labels show" in line for line in ranking.evidence)
    assert "ranking" not in proofs(case)


def test_evidence_that_is_nowhere_is_suspected_of_retrieval_and_never_proves_it() -> None:
    """The corpus may lack it."""
    odds = dict.fromkeys(("packed_odds", "left_odds", "rest_odds"), -NINETEEN)
    gone: dict[str, Any] = odds | {"borne": (-5.0, -5.0), "pool_match": 0.2, "packed_match": 0.2, "left_match": 0.1}
    found = judged(**gone)
    assert found["retrieval"].state == "suspected"
    assert "broken" not in {each.state for each in found.values()}


MADE_UP: dict[str, Any] = dict.fromkeys(("packed_odds", "left_odds", "rest_odds"), -1.6 * NINETEEN) | {
    "borne": (-5.0, -5.0), "supported": 0.0, "weakest": 0.1, "pool_match": 0.2, "packed_match": 0.2, "left_match": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("odds", "given", "broken"),
    [
        (-2 * NINETEEN, {}, "generation"),
        (None, {}, None),
        (0.0, {}, None),
        (-2 * NINETEEN, {"borne": (5.0, 5.0), "supported": 1.0, "weakest": 0.8}, None),
        (-2 * NINETEEN, {"on_topic": 0.0}, None),
        (-2 * NINETEEN, {"hedged": True}, None),
        (-2 * NINETEEN, DECLINED | {"borne": ()}, None),
    ],
)
def test_an_answer_to_what_no_document_answers_is_generations(
    odds: float | None, given: dict[str, Any], broken: str | None
) -> None:
    """Where the index was asked and nothing of it is evidence: whatever is claimed is made up. Not where the index was
    not asked or does not tell, the claims are borne out, a courtesy does not speak of the question, or the answer says
    what is not there, or declines."""
    probe = IndexProbe(outcome="nothing_better", exact=True, odds=odds)
    found = judged(**(MADE_UP | given), probe=probe)
    assert [each.stage for each in found.values() if each.state == "broken"] == ([broken] if broken else [])
    if broken:
        assert any("nothing in the index" in line for line in found["generation"].evidence)
        assert found["retrieval"].state == "sound"


def test_an_answer_that_declines_what_no_document_answers_is_sound() -> None:
    """Retrieval is suspected of it until the index was asked."""
    declines = MADE_UP | DECLINED
    asked = judged(**declines, probe=IndexProbe(outcome="nothing_better", exact=True, odds=-2 * NINETEEN))
    assert judged(**declines)["retrieval"].state == "suspected"
    assert {each.state for each in asked.values()} == {"sound"}


@pytest.mark.parametrize(("rests", "state"), [(2 * NINETEEN, "broken"), (-NINETEEN, "sound")])
def test_what_rests_on_no_evidence_need_not_cite(rests: float, state: str) -> None:
    """A courtesy is borne out by any chunk, and no source is missing behind it."""
    found = judged(cites=True, rest_odds=rests, citable=2, cited=0.0)
    assert (found["citation"].state == "broken") == (state == "broken")


@pytest.mark.parametrize(
    ("wrong", "state"),
    [((2 * NINETEEN,), "broken"), ((9.0, -6.0, -6.0), "broken"), ((NINETEEN,), "suspected"), ((-6.0, -6.0), "sound")],
)
def test_a_claim_that_only_another_chunk_bears_out_is_wrongly_cited(wrong: tuple[float, ...], state: str) -> None:
    """Where the models and words of it agree, all citations are wrong or one among right ones; one judgment alone
    only suspects. The other stages stay sound."""
    found = judged(cites=True, citable=2, cited=1.0, miscited=0.5, miscited_odds=wrong, wrong_citation="1 cites 2")
    assert found["citation"].state == state
    assert {found[stage].state for stage in ("retrieval", "ranking", "generation")} == {"sound"}
    assert ("1 cites 2" in found["citation"].evidence) == (state in ("broken", "suspected"))


def test_citations_count_only_where_a_service_cites() -> None:
    """And an answer whose claims are denied is generation's, whatever it cites."""
    wrong = MATCHED | SOUND | {"miscited_odds": (9.0,)}
    heard, silent = (chances(Signs(**wrong), left_out=True, cites=cites) for cites in (True, False))
    assert heard is not None
    assert silent is not None
    assert heard.citation > 0.9
    assert silent.citation == 0.0
    false = chances(Signs(**(wrong | {"borne": (-9.0,) * 3})), left_out=True, cites=True)
    assert false is not None
    assert false.generation > 0.9


def test_without_a_judgment_of_chunks_words_judge() -> None:
    """A model of claims alone changes no chances."""
    assert chances(Signs(**(MATCHED | {"borne": (-9.0,)})), left_out=True) is None


def test_chances_sum_to_one() -> None:
    """With and without an answer that declines."""
    for given in (SOUND, SOUND | DECLINED, SOUND | {"borne": ()}, SOUND | {"miscited_odds": (3.0, -2.0)}):
        found = chances(Signs(**(MATCHED | given)), left_out=True, cites=True)
        assert found is not None
        assert found.sound + math.fsum(found.of(stage) for stage in STAGES) == pytest.approx(1)
