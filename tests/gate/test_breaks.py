"""Why a stage got worse: who flipped, where, by which cause, and which changed component belongs to the stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragtrace.gate.breaks import find_breaks, version_changes
from ragtrace.gate.model import Comparison, VersionChange
from tests.gate.populations import pair, population
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


def _stages(*places: str) -> dict[str, Any]:
    verdicts = {"": "healthy", "retrieval": "recall_failure", "ranking": "selection_failure"}
    return {"stages": list(places), "verdicts": [verdicts[place] for place in places]}


def test_a_consequence_is_no_break_of_its_own() -> None:
    """Evidence that retrieval lost is not in the prompt either; ranking is not blamed where nothing broke there."""
    scores = {"candidate_recall": np.zeros(4), "evidence_recall": np.zeros(4)}
    before = population(scores, **_stages("", "", "", ""))
    after = population(scores, **_stages("retrieval", "retrieval", "retrieval", ""))
    cells = [failed("candidate_recall"), failed("evidence_recall")]
    assert [each.follows for each in find_breaks(pair(before, after), cells)] == [None, "retrieval"]
    both = population(scores, **_stages("retrieval", "retrieval", "ranking", "ranking"))
    assert [each.follows for each in find_breaks(pair(before, both), cells)] == [None, None]


def test_no_failure_no_break() -> None:
    """What is inconclusive is not explained."""
    assert find_breaks(comparison(), [cell(), unclear()]) == ()


def test_an_earlier_break_is_no_flip() -> None:
    """A pair that was already broken before the stage, or is unknown, was not good there."""
    before = population(
        {"answer_coverage": np.ones(4)},
        stages=["retrieval", "", "citation", ""],
        verdicts=["recall_failure", "undetermined", "citation_failure", "healthy"],
    )
    after = population({"answer_coverage": np.zeros(4)}, stages=["generation"] * 4, verdicts=["grounding_failure"] * 4)
    (found,) = find_breaks(pair(before, after), [failed()])
    assert found.flipped == 2


def test_without_a_flip_the_scores_tell() -> None:
    """The pairs that lost most, those without a loss never."""
    before = population({"answer_coverage": [0.9, 0.9, 0.9, np.nan]}, name="a")
    after = population({"answer_coverage": [0.8, 0.9, 0.2, 0.1]}, name="b")
    (found,) = find_breaks(pair(before, after), [failed()])
    assert found.requests == (("a-2", "b-2"), ("a-0", "b-0"))
    assert found.flipped == 0


def test_shares_are_weighted() -> None:
    """A request that stands for ten counts ten times."""
    side = population(
        {"answer_coverage": [1.0, 0.0]},
        stages=["", "generation"],
        verdicts=["healthy", "grounding_failure"],
        weights=[10.0, 1.0],
    )
    (found,) = find_breaks(Comparison(side, side, None), [failed()])
    assert found.broken[0] == found.broken[1] == pytest.approx(1 / 11)


def test_the_cause_orders_the_suspects() -> None:
    """A facet lost in the rewrite points at the rewriter, before the index that changed as well."""
    lost = ["lost_in_rewrite"] * 2
    before = population({"candidate_recall": [1.0, 1.0]}, versions={"index": {"1": 2}, "rewriter": {"1": 2}})
    after = population(
        {"candidate_recall": [0.0, 0.0]},
        stages=["retrieval"] * 2,
        verdicts=["recall_failure"] * 2,
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
