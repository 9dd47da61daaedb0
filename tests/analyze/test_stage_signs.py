"""The signs of one request: what they say of chunks outside of the prompt, and of citations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ragtrace.analyze._stage_signs import Signs, once_more, signs_of
from ragtrace.analyze.analysis import judged_answer
from ragtrace.coverage import united
from ragtrace.coverage.miscitation import SURE
from ragtrace.coverage.verifier import JudgedRelevance
from ragtrace.types import (
    Candidate,
    Facet,
    FacetKind,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)

PIERS = (
    "The pier of Oxmoor was built by Wilma Harke in 1887 and is 310 metres long.",
    "The pier of Tarnby burned down during a storm and was never built again.",
    *(f"The {kind} of Tarnby opens at nine and closes at six on every day." for kind in (
        "market museum theater library bakery school chapel station harbor mill").split()),
)  # fmt: skip
OXMOOR = Facet(kind="entity", value="Oxmoor")
SCORES = (0.92, 0.61, 0.3, 0.29, 0.28, 0.27, 0.26, 0.25, 0.24, 0.23, 0.22, 0.21)


def signs(
    packed: Sequence[int],
    answer: str = "It was built by Wilma Harke [1].",
    template: str | None = None,
    ranks: Sequence[int] = (1, 2),
    meets: Sequence[int] = (),
    grades: JudgedRelevance | None = None,
    asked: str = "Who built the pier of Oxmoor?",
    texts: Sequence[str] = PIERS,
    facet: Facet = OXMOOR,
) -> Signs:
    """Those of a request whose prompt holds the piers at these places of the ranking, counted from 1. ranks: what the
    retrievers gave the first two piers; meets: the piers that meet a facet, none for a question without facets."""
    candidates = tuple(
        Candidate(chunk_id=f"p{place}", rank=rank, score=score, text=text)
        for place, (rank, text, score) in enumerate(
            zip((*ranks, *range(3, len(texts) + 1)), texts, SCORES, strict=True), 1
        )
    )
    chunks = tuple(
        PackedChunk(chunk_id=f"p{rank}", position=place, text=texts[rank - 1]) for place, rank in enumerate(packed, 1)
    )
    record = united(
        RequestRecord(
            request_id="r",
            service="s",
            query=Query(original=asked),
            stages=(
                RetrieveRun(candidates=candidates),
                PackRun(packing=Packing(chunks=chunks)),
                GenerateRun(generation=Generation(answer=answer, prompt_template=template)),
            ),
        )
    )
    facets = [facet] if meets else []
    matrix = np.array([[float(place in meets) for place in range(1, len(PIERS) + 1)]] * len(facets))
    return signs_of(record, facets, matrix.reshape(len(facets), len(candidates)), judged_answer(record), grades=grades)


def test_the_retriever_says_how_good_a_chunk_was_that_is_not_in_the_prompt() -> None:
    """It stands out of the rest; the retriever judges what came after it."""
    lost = signs([2, 3])
    assert (lost.left_chunk, lost.left_standing) == ("p1", 1.0)
    kept = signs([1, 3])
    assert kept.left_chunk == "p2"
    assert 0.0 < (kept.left_standing or 0.0) < 1.0


def test_facets_that_a_chunk_on_another_matter_meets_give_it_no_lead() -> None:
    """It is as good as evidence where it holds about half of the question's words that the prompt's best chunk does."""
    assert signs([2, 3], meets=[1]).left_facets == 1.0
    assert signs([1, 3], meets=[2]).left_facets == 1.0
    assert signs([1, 3], meets=[9]).left_facets == 0.0
    assert signs([1, 3], meets=[1]).packed_facets == 1.0


def test_marks_that_english_lacks_make_no_chunk_foreign() -> None:
    """A list of amounts has few function words; letters of another language beside them tell that it is none."""
    amounts = "Tolls: Oxmoor pier, single £4, return £7. Moor buoys: weekly £30, monthly £95. Anglers: daily £2."
    assert signs([1, 2], texts=[PIERS[0], amounts, *PIERS[2:]]).readable
    foreign = "Zölle: Seebrücke Oxmoor, einfach £4, zurück £7. Bojen: wöchentlich £30. Angler: täglich £2."
    assert not signs([1, 2], texts=[PIERS[0], foreign, *PIERS[2:]]).readable


@pytest.mark.parametrize(("first", "least", "most"), [(2.9, 1.0, 2.5), (-2.9, 2.5, 2.95)])
def test_a_second_judgment_that_agrees_tells_less_than_one_that_does_not(
    first: float, least: float, most: float
) -> None:
    """A model that erred once of a text is likely to err again where the same text stands among others."""
    said = once_more([0.95], first, 1)
    assert least < said < most
    assert once_more([0.05], first, 1) == pytest.approx({2.9: -2.5, -2.9: -1.6}[first], abs=0.15)
    assert once_more([], first, 1) == 0.0


def test_a_text_of_several_chunks_that_were_called_relevant_tells_less_of_them() -> None:
    """A model may err again of any one. That it denies such a text tells as much."""
    assert once_more([0.95], 2.9, 3) < once_more([0.95], 2.9, 1) - 0.5
    assert once_more([0.05], 2.9, 3) == once_more([0.05], 2.9, 1)
    assert once_more([0.05], -2.9, 3) == once_more([0.05], -2.9, 0)


@pytest.mark.parametrize(("third", "least", "most"), [(0.95, 1.8, 4.0), (0.05, -3.0, -1.8)])
def test_a_third_judgment_decides_where_two_contradict_each_other(third: float, least: float, most: float) -> None:
    """Two of them cancel, whichever came first."""
    for first, second in ((2.9, 0.05), (-2.9, 0.95)):
        assert abs(first + once_more([second], first, 1)) < 0.5
        assert least < first + once_more([second, third], first, 1) < most


def test_the_best_grade_outside_of_the_prompt_is_set_against_the_best_in_it() -> None:
    """As log odds; a candidate that stands whole in the prompt is not outside of it."""
    said = JudgedRelevance({"p1": 0.9, "p2": 0.5, "p9": 0.7}, {"p2": 0.5, "p3": 0.2}, by="builtin")
    lost = signs([2, 3], grades=said)
    assert lost.left_graded == "p1"
    assert lost.graded_lead == pytest.approx(np.log(9))
    kept = signs([1, 2], grades=JudgedRelevance(said.candidates, {"p1": 0.9, "p2": 0.5}, by="builtin"))
    assert kept.left_graded == "p9"
    assert (kept.graded_lead or 0.0) < 0.0
    assert signs([2, 3]).graded_lead is None


def test_what_retrievers_rank_first_is_matched_apart() -> None:
    """Of several rounds the best of what one of them ranked first; a chunk further down is none of it."""
    own = signs([1, 2])
    assert own.first_match == own.pool_match
    swapped = signs([1, 2], ranks=(2, 1))
    assert (swapped.first_match or 0.0) < (swapped.pool_match or 0.0)
    assert signs([1, 2], ranks=(1, 1)).first_match == own.pool_match


def test_nothing_left_out_stands_nowhere() -> None:
    """Without a chunk outside of the prompt there is nothing to lose."""
    whole = signs(range(1, len(PIERS) + 1))
    assert (whole.left_chunk, whole.left_standing) == (None, None)


def test_a_wrong_citation_names_both_chunks() -> None:
    """The cited one, and the one that bears the claim out; a right one is hardly suspected."""
    claim = "The pier of Oxmoor was built by Wilma Harke in 1887 [{}]."
    right, wrong = signs([3, 1], claim.format(2)), signs([3, 1], claim.format(1), "[1] {chunk:p3}\n[2] {chunk:p1}")
    assert (right.miscited or 1.0) < 0.5
    assert (wrong.miscited or 0.0) >= SURE
    assert wrong.wrong_citation == f"“{claim.format(1)}” cites p3; p1 bears it out"


def test_the_prompt_says_what_a_number_names() -> None:
    """Counted from 0 there, [1] is the second chunk."""
    claim = "The pier of Oxmoor was built by Wilma Harke in 1887 [1]."
    assert (signs([3, 1], claim, "[0] {chunk:p3}\n[1] {chunk:p1}").miscited or 1.0) < 0.5
    assert 0.93 <= (signs([3, 1], claim).miscited or 0.0) < SURE  # not known from where it counts


@pytest.mark.parametrize(
    "claim",
    [
        "Under section 26, the pier of Oxmoor was built by Wilma Harke.",
        "The pier of Oxmoor was built by Wilma Harke (see page 12).",
        "The pier of Oxmoor was built by Wilma Harke, as footnote 3 says.",
    ],
)
def test_the_number_of_a_section_is_no_figure(claim: str) -> None:
    """It says how much of nothing, so that the evidence need not state it."""
    assert signs([3, 1], claim).odd == 0
    assert signs([3, 1], "The pier of Oxmoor was built by Wilma Harke for 26 crowns.").odd == 1


def test_days_of_the_week_beside_others_are_no_odd_names() -> None:
    """One beside another is reckoned, in the plural as well; one alone that the prompt does not have is odd."""
    asked = "Is the pier of Oxmoor open on weekends?"
    assert signs([1], "The pier of Oxmoor opens on Saturdays, and on Sundays as well.", asked=asked).odd == 0
    assert signs([1], "The pier of Oxmoor opens on Sundays.", asked=asked).odd == 1


def test_figures_are_odd_unproven_or_computed() -> None:
    """By whether the claim says that it computes, and whether some operation gives them."""
    odd = signs([1, 2], "It was built by Wilma Harke and is 422 metres long.")
    unproven = signs([1, 2], "It was built by Wilma Harke and is 422 metres longer in total.")
    computed = signs([1, 2], "It was built by Wilma Harke and is 155 metres long to its half.")
    assert [(found.odd, found.unproven) for found in (odd, unproven, computed)] == [(1, 0), (0, 1), (0, 0)]


def test_a_value_of_the_question_is_no_invention() -> None:
    """An answer that repeats it says what it speaks of; another value is one."""
    asked = "We want the pier of Oxmoor for 120 people. How long is it?"
    assert signs([1], "For 120 people the pier is 310 metres long.", asked=asked).odd == 0
    assert signs([1], "For 120 users the pier is 310 metres long.", asked=asked).odd == 0
    assert signs([1], "For 130 people the pier is 310 metres long.", asked=asked).odd == 1


WORKSHOP = (
    "The workshop employs 84 people, 21 of them apprentices. It was flooded last Friday. The pumps cost 340 euros."
)


@pytest.mark.parametrize(
    ("answer", "odd", "reckoned", "unproven"),
    [
        ("The workshop employs 84 people.", 0, 0, 0),
        ("The workshop employs 63 people who are trained.", 1, 1, 0),  # 84 less 21
        ("The workshop employs 71 people.", 1, 0, 0),
        ("The workshop was flooded on 14 June 2024.", 0, 0, 1),
        ("The workshop was flooded in June.", 1, 1, 0),
        ("The workshop employs Wilma Harke.", 2, 2, 0),  # named by another candidate
        ("The workshop employs Edda Brook.", 2, 0, 0),
    ],
)
def test_what_may_be_reckoned_or_stands_elsewhere_is_told_from_inventions(
    answer: str, odd: int, reckoned: int, unproven: int
) -> None:
    """It stays odd, and is counted apart; of a date in a text that tells days from its own, nothing is known."""
    found = signs([1], answer, asked="What is it with the workshop?", texts=(WORKSHOP, PIERS[0], *PIERS[2:]))
    assert (found.odd, found.reckoned, found.unproven) == (odd, reckoned, unproven)


@pytest.mark.parametrize(("kind", "packed"), [("quantity", 0.75), ("entity", 0.0)])
def test_an_amount_that_a_chunk_outside_meets_gives_it_no_great_lead(kind: FacetKind, packed: float) -> None:
    """It may be the asker's own, and weighs a quarter of another facet, also where it is alone."""
    facet = Facet(kind=kind, value="310 metres", weight=0.25 if kind == "quantity" else 1.0)
    found = signs([2], meets=[1], asked="Is the pier of Oxmoor 310 metres long?", facet=facet)
    assert (found.left_facets, found.packed_facets, found.pool_facets) == (1.0, packed, 1.0)
