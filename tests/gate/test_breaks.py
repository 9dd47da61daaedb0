"""Why a stage got worse: who flipped, where, by which cause, which changed component belongs to the stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragtrace.gate._breaks import find_breaks, stage_shares, version_changes
from ragtrace.gate.types import Comparison, VersionChange
from ragtrace.types import Stage
from tests.gate.populations import STAGES, pair, population
from tests.gate.reported import cell, comparison, failed, unclear


def test_signature_of_a_segment() -> None:
    """The verdict, the owner, the pairs that flipped, and the change of the stage's own component."""
    (found,) = find_breaks(comparison(), [failed("answer_coverage", "claims-de"), cell(), unclear()])
    assert (found.stage, found.segment, found.failure, found.owner) == (
        "generation",
        "claims-de",
        "grounding_failure",
        "generation-governance",
    )
    worse = sum(row % 5 == 0 and row % 3 > 0 for row in range(200))
    assert (found.flipped, found.recovered) == (worse, 0)
    assert found.causes == {"unsupported_claims": worse}
    before, after = found.broken
    assert before == 0.0
    assert after == pytest.approx(worse / 40)
    assert found.suspects == (VersionChange(component="model", baseline="gpt-x", candidate="gpt-y"),)
    assert found.requests[0] == ("baseline-5", "candidate-5")
    assert all(int(after.removeprefix("candidate-")) % 5 == 0 for _, after in found.requests)
    assert len(found.requests) == 5


def test_recovered_pairs_are_told() -> None:
    """What broke before and does not now is counted beside what flipped."""
    (found,) = find_breaks(comparison(), [failed("answer_coverage", None)])
    assert found.segment is None
    assert found.recovered == 1


def test_unpaired_sides_know_no_flips() -> None:
    """Causes and examples are those of the candidate's own broken requests."""
    (found,) = find_breaks(comparison(paired=False), [failed("answer_coverage", "claims-de")])
    assert found.flipped is None
    assert found.recovered is None
    assert sum(found.causes.values()) == 26
    assert {before for before, _ in found.requests} == {""}


def test_metrics_of_a_stage_make_one_break() -> None:
    """Blocking ones are named first."""
    cells = [failed("contradiction_rate", "claims-de", action="warn"), failed("answer_coverage", "claims-de")]
    (found,) = find_breaks(comparison(), cells)
    assert found.metrics == ("answer_coverage", "contradiction_rate")


def test_order_is_that_of_the_path() -> None:
    """Earlier stages first; all requests before segments, then where the share grew most."""
    cells = [
        failed("citation_coverage"),
        failed("answer_coverage", "limits"),
        failed("answer_coverage", "claims-de"),
        failed("answer_coverage"),
        failed("candidate_recall", "limits"),
        failed("latency"),
    ]
    found = [(each.stage, each.segment) for each in find_breaks(comparison(), cells)]
    assert found == [
        ("retrieval", "limits"),
        ("generation", None),
        ("generation", "claims-de"),
        ("generation", "limits"),
        ("citation", None),
    ]


def _retrieval_and_ranking(*states: str) -> Any:
    """`sb`: retrieval is sound and ranking broken; ? is suspected, - not known."""
    words = {"s": "sound", "b": "broken", "?": "suspected", "-": "not_known"}
    stages: tuple[Stage, ...] = ("retrieval", "ranking")
    return {stage: [words[each[place]] for each in states] for place, stage in enumerate(stages)}


def _follows(before: Any, after: Any) -> list[str | None]:
    scores = {"candidate_recall": np.zeros(4), "evidence_recall": np.zeros(4)}
    sides = (population(scores, states=states) for states in (before, after))
    cells = [failed("candidate_recall"), failed("evidence_recall")]
    return [each.follows for each in find_breaks(pair(*sides), cells)]


def test_a_consequence_is_no_break_of_its_own() -> None:
    """Evidence that retrieval lost is not in the prompt either; ranking is not blamed where nothing broke there while
    all before it was right."""
    before = _retrieval_and_ranking("ss", "ss", "ss", "ss")
    assert _follows(before, _retrieval_and_ranking("bs", "bs", "bs", "ss")) == [None, "retrieval"]
    assert _follows(before, _retrieval_and_ranking("bb", "bb", "?b", "ss")) == [None, "retrieval"]
    assert _follows(before, _retrieval_and_ranking("bs", "bs", "sb", "-b")) == [None, None]


@pytest.mark.parametrize("doubt", ["?", "-"])
def test_what_may_be_broken_by_itself_is_no_consequence(doubt: str) -> None:
    """Ranking is not proven to have broken where retrieval was right, and it is not sound there any more."""
    before = _retrieval_and_ranking("ss", "ss", "ss", "ss")
    assert _follows(before, _retrieval_and_ranking("bs", "bs", f"s{doubt}", "ss")) == [None, None]


def test_no_failure_no_break() -> None:
    """What is inconclusive is not explained."""
    assert find_breaks(comparison(), [cell(), unclear()]) == ()


def test_flips_are_between_sound_and_broken() -> None:
    """What was not judged before, or did not apply, was not sound; what is not judged any more is counted apart."""
    before = ["sound", "sound", "broken", "suspected", "not_known", "", "sound", "broken", "sound", "not_known"]
    after = ["broken", "broken", "sound", "broken", "broken", "broken", "suspected", "suspected", "not_known", "sound"]
    sides = (population({"answer_coverage": np.ones(10)}, states={"generation": each}) for each in (before, after))
    (found,) = find_breaks(pair(*sides), [failed()])
    assert (found.flipped, found.recovered, found.now_suspected, found.now_not_known) == (2, 1, 2, 1)


def test_what_only_points_to_a_break_makes_none() -> None:
    """A rise of suspected requests proves no recall failure; beside what failed it is no metric of the break."""
    hint = failed("suspected_generation", "claims-de", action="warn")
    assert find_breaks(comparison(), [hint]) == ()
    (found,) = find_breaks(comparison(), [hint, failed("broken_generation", "claims-de")])
    assert found.metrics == ("broken_generation",)


def test_shares_of_states_are_weighted_and_of_what_is_compared() -> None:
    """Over the pairs alone; a stage that applies nowhere has none."""
    one = population({"x": [1.0] * 3}, weights=[8.0, 1.0, 1.0], states={
        "retrieval": ["sound", "broken", "broken"], "ranking": ["not_known", "suspected", ""], "citation": [""] * 3,
    })  # fmt: skip
    two = population({"x": [1.0] * 3})
    found = {each.stage: each for each in stage_shares(Comparison(one, two, np.array([[0, 2], [1, 1]])))}
    assert list(found) == ["retrieval", "ranking", "generation", "citation"]
    assert found["retrieval"].requests == (2, 2)
    assert list(found["retrieval"].sound) == [pytest.approx(8 / 9), 1.0]
    assert list(found["retrieval"].broken) == [pytest.approx(1 / 9), 0.0]
    assert list(found["ranking"].not_known) == [pytest.approx(8 / 9), 0.0]
    assert (found["citation"].requests, found["citation"].sound) == ((0, 2), (None, 1.0))
    nowhere = population({"x": [1.0]}, states={stage: [""] for stage in STAGES})
    assert stage_shares(Comparison(nowhere, nowhere, None)) == ()


def test_causes_are_those_of_the_first_broken_stage() -> None:
    """A request that broke before has another stage's cause."""
    before = population({"answer_coverage": np.ones(2)})
    after = population(
        {"answer_coverage": np.zeros(2)},
        states={"retrieval": ["broken", "sound"], "generation": ["broken", "broken"]},
        causes=["facets_unmet", "unsupported"],
    )
    (found,) = find_breaks(pair(before, after), [failed()])
    assert (found.flipped, found.causes) == (2, {"unsupported": 1})


def test_without_a_flip_the_scores_tell() -> None:
    """The pairs that lost most, those without a loss never."""
    before = population({"answer_coverage": [0.9, 0.9, 0.9, np.nan]}, name="a")
    after = population({"answer_coverage": [0.8, 0.9, 0.2, 0.1]}, name="b")
    (found,) = find_breaks(pair(before, after), [failed()])
    assert found.requests == (("a-2", "b-2"), ("a-0", "b-0"))
    assert found.flipped == 0


def test_shares_are_weighted() -> None:
    """A request that stands for ten counts ten times; one that is not judged counts nowhere."""
    side = population(
        {"answer_coverage": [1.0, 0.0, 0.0]},
        states={"generation": ["sound", "broken", "suspected"]},
        weights=[10.0, 1.0, 100.0],
    )
    (found,) = find_breaks(Comparison(side, side, None), [failed()])
    assert found.broken[0] == found.broken[1] == pytest.approx(1 / 11)


def test_the_cause_orders_the_suspects() -> None:
    """A facet lost in the rewrite points at the rewriter, before the index that changed as well."""
    lost = ["lost_in_rewrite"] * 2
    before = population({"candidate_recall": [1.0, 1.0]}, versions={"index": {"1": 2}, "rewriter": {"1": 2}})
    after = population(
        {"candidate_recall": [0.0, 0.0]},
        states={"retrieval": ["broken"] * 2},
        causes=lost,
        versions={"index": {"2": 2}, "rewriter": {"2": 2}, "model": {"2": 2}},
    )
    (found,) = find_breaks(pair(before, after), [failed("candidate_recall")])
    assert [each.component for each in found.suspects] == ["rewriter", "index"]


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({"a": 5}, {"a": 9}, None),
        ({"a": 5}, {"b": 5}, ("a", "b", False)),
        ({}, {"b": 5}, (None, "b", False)),
        ({"a": 5}, {}, ("a", None, False)),
        ({"a": 5}, {"a": 4, "b": 1}, ("a", "b", True)),
        ({"a": 4, "b": 1}, {"b": 5}, ("a", "b", True)),
        ({"a": 3, "b": 2}, {"a": 4, "b": 2}, None),
    ],
)
def test_changes_of_versions(
    before: dict[str, int], after: dict[str, int], change: tuple[str | None, str | None, bool] | None
) -> None:
    """The commonest version of the baseline, and what is new at the candidate."""
    sides = [population({"x": [1.0]}, versions={"model": counts} if counts else {}) for counts in (before, after)]
    found = version_changes(*sides)
    assert [(each.baseline, each.candidate, each.mixed) for each in found] == ([change] if change else [])
