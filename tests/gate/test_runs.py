"""The gate from two populations, or two selections, to a report that is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import ragtrace.gate
from ragtrace.errors import ConfigurationError, InputError
from ragtrace.gate.policy import default_policy, default_rule
from ragtrace.gate.reports import Format, render
from ragtrace.gate.runs import compare, read_report, run, save, with_texts_and_labels
from ragtrace.gate.types import GateReport, Policy, Population
from ragtrace.store import CorrectedRate, Drawing, GateRun, Judge, Store
from tests.gate.populations import population

COUNT = 200


def _side(name: str, coverage: float = 1.0, **fields: Any) -> Population:
    """Two hundred requests of one answer coverage that contradict nothing, judged by one judge."""
    scores = {"answer_coverage": [coverage] * COUNT, "contradiction_rate": [0.0] * COUNT}
    given = {"versions": {"model": {name: COUNT}}, "analyzer_versions": {"coverage-1": COUNT},
             "judges": frozenset((Judge("j1"),)), **fields}  # fmt: skip
    return population({**scores, **given.pop("scores", {})}, name=name, **given)


def _policy(*metrics: str, **settings: Any) -> Policy:
    chosen = metrics or ("answer_coverage", "contradiction_rate")
    return Policy(rules=tuple(default_rule(metric) for metric in chosen), **settings)


@pytest.fixture
def report() -> GateReport:
    """A candidate that lost two tenths of its answer coverage."""
    return compare(_side("m1"), _side("m2", 0.8), _policy(), service="shop")


def test_an_equal_candidate_passes() -> None:
    """Without any difference there is no harm."""
    found = compare(_side("m1"), _side("m2"), _policy())
    assert (found.decision, found.exit_code, found.paired, found.pairs, found.first_broken) == (
        "pass",
        0,
        True,
        COUNT,
        None,
    )


def test_a_worse_candidate_is_blocked(report: GateReport) -> None:
    """At the stage of the metric that fell, with both sides in figures."""
    assert (report.decision, report.exit_code, report.first_broken, report.service) == (
        "block",
        1,
        "generation",
        "shop",
    )
    [failed] = [cell for cell in report.cells if cell.blocks]
    assert (failed.metric, failed.segment, failed.n) == ("answer_coverage", None, (COUNT, COUNT))
    assert (report.baseline.requests, report.baseline.versions) == (COUNT, {"model": {"m1": COUNT}})


def test_a_seed_makes_a_report_again() -> None:
    """Everything but its id and its time."""
    chance = np.random.default_rng(1)
    before, after = (_side(name, scores={"answer_coverage": chance.random(COUNT)}) for name in ("m1", "m2"))
    one, other = (compare(before, after, _policy(seed=3)) for _ in range(2))
    assert one.run_id != other.run_id
    assert msgspec.structs.replace(one, run_id="", created_at=0) == msgspec.structs.replace(
        other, run_id="", created_at=0
    )


def test_an_optional_rule_without_data_is_left_out() -> None:
    """Where neither side has the metric; with data on one side it stays, and lacks the other's."""
    undefined, rules = [float("nan")] * COUNT, _policy("answer_coverage", "citation_coverage")
    optional = msgspec.structs.replace(rules.rules[1], optional=True)
    policy = msgspec.structs.replace(rules, rules=(rules.rules[0], optional))
    before, after = (_side(name, scores={"citation_coverage": undefined}) for name in ("m1", "m2"))
    found = compare(before, after, policy)
    assert (found.decision, [rule.metric for rule in found.policy.rules]) == ("pass", ["answer_coverage"])
    assert "Neither side has them, so they are not judged: citation_coverage." in found.warnings
    half = compare(_side("m1", scores={"citation_coverage": [1.0] * COUNT}), after, policy)
    assert {cell.metric: cell.outcome for cell in half.cells if cell.family == "overall"}[
        "citation_coverage"
    ] == "not_enough_data"
    assert half.decision == "undecided"
    strict = compare(before, after, rules)
    assert strict.decision == "undecided"


def test_nothing_to_judge_is_refused() -> None:
    """A policy of which neither side has any metric proves nothing."""
    nothing = {"answer_coverage": [float("nan")] * COUNT, "contradiction_rate": [float("nan")] * COUNT}
    with pytest.raises(InputError, match="neither side defines any metric of the policy"):
        compare(_side("m1", scores=nothing), _side("m2", scores=nothing), default_policy())


@pytest.mark.parametrize(("component", "guarded"), [("model", True), ("reranker", False)])
def test_a_change_of_a_component_makes_a_guardrail(component: str, guarded: bool) -> None:
    """Citations are guarded after another model, and not after another reranker."""
    before, after = (
        _side(name, versions={component: {name: COUNT}}, scores={"citation_coverage": [1.0] * COUNT})
        for name in ("a", "b")
    )
    [rule] = compare(before, after, _policy("citation_coverage")).policy.rules
    assert (rule.guardrail, default_rule("citation_coverage").guardrail) == (guarded, False)


def _twice(side: Population) -> Population:
    return replace(side, request_ids=["r"] * COUNT)


def _with(**fields: Any) -> Callable[[Population], Population]:
    return lambda side: replace(side, **fields)


def _scored(value: float) -> Callable[[Population], Population]:
    return lambda side: replace(side, scores={"answer_coverage": np.array([value, *[1.0] * (COUNT - 1)])})


@pytest.mark.parametrize(
    ("spoiled", "complaint"),
    [
        (_twice, "the candidate 'm2' holds a request twice"),
        (_with(request_ids=[]), "the candidate 'm2' is empty"),
        (_with(weights=np.zeros(COUNT)), "has a weight that is not above 0"),
        (_with(weights=np.full(COUNT, np.nan)), "has a weight that is not above 0"),
        (_scored(1.2), "answer_coverage of a request of the candidate is 1.2, and must be from 0 to 1"),
        (_scored(float("-inf")), "is -inf, and must be from 0 to 1; NaN stands for undefined"),
        (_with(analyzer_versions={"coverage-2": COUNT}), "baseline: 200 by coverage-1; candidate: 200 by coverage-2"),
        (_with(analyzer_versions={"coverage-1": 1, "coverage-2": 2}), "run ragtrace analyze --redo"),
        (
            _with(judges=frozenset((Judge("j2", "nli"),))),
            "not judged alike (baseline: words alone (judge j1); candidate: nli (judge j2))",
        ),
        (_with(judges=frozenset((Judge("j1"), Judge("j2")))), "candidate: words alone (judge j1) and words alone (ju"),
    ],
)
def test_sides_that_cannot_be_judged_are_refused(spoiled: Callable[[Population], Population], complaint: str) -> None:
    """In one line that says what is wrong, and what to do."""
    with pytest.raises(InputError) as caught:
        compare(_side("m1"), spoiled(_side("m2")), _policy())
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sides_of_which_nothing_tells_the_judge_are_compared() -> None:
    """Answers without claims were judged by no model."""
    assert compare(_side("m1"), _side("m2", judges=frozenset()), _policy()).decision == "pass"


def test_hints_warn_and_never_block() -> None:
    """Half of the candidate's requests are suspected now: the release passes, and says so; no break is named."""
    half = np.arange(COUNT) % 2
    names = ("broken_generation", "suspected_generation")
    before = _side("m1", scores=dict(zip(names, (np.zeros(COUNT), np.zeros(COUNT)), strict=True)))
    after = _side(
        "m2",
        scores=dict(zip(names, (np.where(half, np.nan, 0.0), half.astype(float)), strict=True)),
        states={"generation": ["suspected" if lost else "sound" for lost in half]},
    )
    found = compare(before, after, Policy(rules=tuple(map(default_rule, ("answer_coverage", *names)))))
    outcomes = {cell.metric: cell.outcome for cell in found.cells if cell.segment is None}
    assert (outcomes["suspected_generation"], found.first_broken, found.breaks) == ("fail", None, ())
    assert found.decision != "block"
    [shares] = [each for each in found.stages if each.stage == "generation"]
    assert (shares.sound, shares.suspected) == ((1.0, 0.5), (0.0, 0.5))
    assert any("generation (100 of 200 requests)" in warning for warning in found.warnings)


def test_the_policy_is_checked_first() -> None:
    """A margin that tolerates everything proves nothing."""
    rule = msgspec.structs.replace(default_rule("answer_coverage"), margin=1.0)
    with pytest.raises(ConfigurationError, match=r"margin 1\.0 is not usable"):
        compare(_side("m1"), _side("m2"), Policy(rules=(rule,)))


def test_a_report_is_kept_and_read_again(report: GateReport, tmp_path: Path) -> None:
    """As it was, and found by the versions of its candidate."""
    with Store.open(f"sqlite:///{tmp_path}/kept.db") as store:
        save(store, report)
        assert read_report(store, report.run_id[:8]) == report
        [kept] = store.gate_runs_of("shop", "model", "m2")
        assert kept == GateRun(
            report.run_id, "shop", report.created_at, "block", "m1", "m2", "generation", (("model", "m2"),)
        )
        with pytest.raises(ConfigurationError, match="gate run 'x' is not usable; give the id of one run"):
            read_report(store, "x")


def _labeled(url: str, version: str, rate: float) -> None:
    """A drawing of the requests of one version, of which people's labels gave a rate."""
    with Store.open(url) as store:
        drawing = Drawing(f"of-{version}", "shop", 0, 10**18, {"model": version}, "j1", 10**18, 0.5)
        store.draw(drawing, [])
        bounds = (rate - 0.04, rate + 0.04)
        store.save_rates(drawing.drawing_id, [CorrectedRate("generation", rate, *bounds, 0.5, 120)])


def test_rates_by_labels_stand_beside_each_other_where_both_sides_have_them(tmp_path: Path) -> None:
    """In every form, as a change with its interval; not where one side has none, mixes versions, or is all others."""
    url = f"sqlite:///{tmp_path}/labels.db"
    before, after = (replace(_side(name), name=f"version:model={name}") for name in ("m1", "m2"))
    found = compare(before, after, _policy(), service="shop")
    _labeled(url, "m1", 0.10)
    assert with_texts_and_labels(found, url).by_labels == ()
    _labeled(url, "m2", 0.30)
    told = with_texts_and_labels(found, url)
    (change,) = told.by_labels
    assert (change.stage, change.baseline.share, change.candidate.share) == ("generation", 0.10, 0.30)
    assert (change.low, change.high) == pytest.approx((0.2 - 0.04 * 2**0.5, 0.2 + 0.04 * 2**0.5))
    assert (told.decision, told.headline) == (found.decision, found.headline)
    forms: tuple[Format, ...] = ("text", "markdown", "html")
    for form in forms:
        text = " ".join(render(told, form).split())
        assert "By people" in text
        assert "change +20.0 points (+14.3 to +25.7)" in text
    assert json.loads(render(told, "json"))["by_labels"][0]["stage"] == "generation"
    mixed = replace(before, versions={"model": {"m1": 199, "m2": 1}})
    others = replace(before, name="other:model=m2")
    for side in (mixed, others):
        assert with_texts_and_labels(compare(side, after, _policy(), service="shop"), url).by_labels == ()


def test_selections_are_named_in_errors(tmp_path: Path) -> None:
    """By their option."""
    with pytest.raises(ConfigurationError, match="--candidate 'version:a' is not usable"):
        run("replay:a", "version:a", store=f"sqlite:///{tmp_path}/a.db")


def test_the_face_is_complete() -> None:
    """Everything that the package names is there when it is asked for, and nothing else."""
    assert all(callable(getattr(ragtrace.gate, name)) for name in ragtrace.gate.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'decide_everything'"):
        _ = ragtrace.gate.decide_everything
