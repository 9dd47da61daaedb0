"""What cells say: outcomes, families, floors, data that can tell nothing; and the one decision that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrace.gate._judgment import alpha_shares, decide, first_broken, judge
from ragtrace.gate.policy import default_rule
from ragtrace.gate.types import Cell, Policy, Rule
from ragtrace.sample_statistics import holm
from tests.gate.populations import RULES, pair, population, traffic_pair, unpaired
from tests.gate.verdicts import SCORE, cell_of, of, scores, segment_of, sure, verdict

PASS = cell_of("pass")
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@pytest.mark.parametrize("paired", [True, False])
def test_a_large_loss_fails(paired: bool) -> None:
    """A third of the requests lose everything."""
    before = scores(1)
    cell = verdict(before, np.where(np.arange(400) % 3 == 0, 0.0, before), paired=paired)
    assert (cell.outcome, cell.blocks) == ("fail", True)
    assert sure(cell.difference) < sure(cell.high) < -0.05
    assert "Worse by" in cell.reason


@pytest.mark.parametrize("kind", ["score", "boolean", "quantity"])
@pytest.mark.parametrize("paired", [True, False])
def test_lower_is_better_mirrors_higher(kind: Any, paired: bool) -> None:
    """A metric turned around has the same verdict; its interval is mirrored."""
    before = np.random.default_rng(2).integers(0, 2, 300).astype(float)
    after = np.where(np.random.default_rng(3).random(300) < 0.1, 1 - before, before)
    one = verdict(before, after, Rule(metric="m", kind=kind, direction="higher", margin=0.05), paired=paired)
    two = verdict(1 - before, 1 - after, Rule(metric="m", kind=kind, direction="lower", margin=0.05), paired=paired)
    assert one.outcome == two.outcome
    assert one.p_harm == pytest.approx(two.p_harm, rel=0.3)
    assert one.low == pytest.approx(-sure(two.high), abs=0.005)


@pytest.mark.parametrize("paired", [True, False])
def test_equal_sides_pass(paired: bool) -> None:
    """Enough of the same scores."""
    cell = verdict(scores(4, 3000), scores(4, 3000), paired=paired)
    assert cell.outcome == "pass"
    assert cell.difference == pytest.approx(0.0)


def test_a_loss_within_the_margin_passes_and_is_told() -> None:
    """Worse for certain, by less than what is tolerated; a guardrail fails."""
    before = np.random.default_rng(5).uniform(0.3, 0.9, 2000)
    told = verdict(before, before - 0.02)
    assert told.outcome == "pass"
    assert "worse for certain" in told.reason
    guard = verdict(before, before - 0.02, msgspec.structs.replace(SCORE, guardrail=True))
    assert guard.outcome == "fail"
    assert "guardrail" in guard.reason


def test_a_loss_below_the_margin_fails_until_it_is_shown_to_be_within() -> None:
    """A tenth of the answers lose 60 points, margin 10: 60 pairs do not rule the margin out, 240 do."""
    rule = msgspec.structs.replace(SCORE, margin=0.1)
    few, many = (verdict(np.full(count, 0.8), np.where(np.arange(count) % 10, 0.8, 0.2), rule) for count in (60, 240))
    assert (few.outcome, many.outcome) == ("fail", "pass")
    assert few.difference == pytest.approx(-0.06)
    assert many.difference == pytest.approx(-0.06)
    assert sure(few.low) < -0.1 < sure(many.low)
    assert "More than the margin of 0.1 is not ruled out" in few.reason
    assert 60 < sure(few.decides) <= 240


def test_few_requests_are_inconclusive_and_say_how_many_it_takes() -> None:
    """Eighty noisy pairs; with forty the margin cannot be shown at all, and the least number is said."""
    cell = verdict(scores(6, 80), scores(7, 80))
    assert cell.outcome == "inconclusive"
    assert sure(cell.needed) > 80
    assert sure(cell.decides) > 80
    few = verdict(scores(6, 40), scores(7, 40))
    assert (few.outcome, few.least) == ("not_enough_data", 59)
    assert "a verdict takes 59" in few.reason


def test_a_loss_just_within_its_margin_asks_for_no_absurd_number() -> None:
    """One break in 38 questions, margin 3 points: 2.6 points by chance, of which a verdict would take tens of thousands
    if they lasted."""
    rule = Rule(metric="m", kind="boolean", direction="lower", margin=0.03)
    broken, equal = np.zeros(38), verdict(np.zeros(38), np.zeros(38), rule)
    broken[7] = 1.0
    cell = verdict(np.zeros(38), broken, rule)
    assert 0.02 < sure(cell.difference) < 0.03
    assert sure(equal.decides) <= sure(cell.decides) < 2_000


@pytest.mark.parametrize("paired", [True, False])
def test_too_few_values_are_no_verdict(paired: bool) -> None:
    """29 of 30; and a metric that no request defines, or that a side does not know."""
    few = verdict(scores(8, 29), scores(9, 29), paired=paired)
    assert (few.outcome, few.n, few.low) == ("not_enough_data", (29, 29), None)
    undefined = verdict([np.nan] * 50, [np.nan] * 50, paired=paired)
    assert (undefined.outcome, undefined.n) == ("not_enough_data", (0, 0))
    sides = population({"other": [1.0] * 50}, name="b"), population({"m": [1.0] * 50}, name="c")
    cells = judge((pair if paired else unpaired)(*sides), Policy(rules=(SCORE,)))
    assert cells[0].outcome == "not_enough_data"


def test_what_has_too_few_values_shows_the_margin_that_it_would_be_held_to() -> None:
    """A relative one is a share of a mean that nobody knows, and is not shown as one in the metric's unit; nor does the
    floor of a metric have a margin."""
    assert verdict(scores(8, 29), scores(9, 29)).margin == SCORE.margin
    relative = Rule(metric="m", kind="quantity", direction="lower", margin=0.2, relative=True)
    assert verdict(scores(8, 29), scores(9, 29), relative).margin == 0.0
    sides = (population({"m": scores(8, 29)}, name=name) for name in "bc")
    cells = judge(pair(*sides), Policy(rules=(msgspec.structs.replace(SCORE, floor=0.5),)))
    assert {cell.family: cell.margin for cell in cells} == {"overall": SCORE.margin, "floors": 0.0}


@pytest.mark.parametrize("kind", ["score", "boolean", "quantity"])
@pytest.mark.parametrize("paired", [True, False])
def test_one_request_has_a_verdict(kind: Any, paired: bool) -> None:
    """With a minimum of one: fewer than ten never decide, whichever way they went."""
    rule = Rule(metric="m", kind=kind, direction="higher", margin=0.05, minimum=1)
    for count in (1, 9):
        for before, after in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
            cell = verdict([before] * count, [after] * count, rule, paired=paired)
            assert cell.outcome == "not_enough_data"
            assert "takes 10" in cell.reason
    assert verdict([1.0] * 10, [0.0] * 10, rule, paired=paired).outcome == "fail"


def test_requests_of_few_sessions_are_no_verdict() -> None:
    """A hundred requests of nine sessions."""
    sessions = [f"s{at % 9}" for at in range(100)]
    sides = [population({"m": scores(1, 100)}, name=name, clusters=sessions) for name in "bc"]
    cell = judge(pair(sides[0], sides[1]), Policy(rules=(SCORE,)))[0]
    assert cell.outcome == "not_enough_data"
    assert "9 sessions" in cell.reason


@pytest.mark.parametrize("paired", [True, False])
def test_no_variance_has_a_verdict(paired: bool) -> None:
    """All the same: 50 pairs leave room for a rare loss, 300 do not; the same loss everywhere fails."""
    assert verdict([1.0] * 50, [1.0] * 50, paired=paired).outcome == "not_enough_data"
    assert verdict([0.7] * 300, [0.7] * 300, paired=paired).outcome == "pass"
    lost = verdict([0.7] * 300, [0.5] * 300, paired=paired)
    assert lost.outcome == "fail"
    assert sure(lost.low) == pytest.approx(-0.2, abs=0.02)
    assert sure(lost.high) == pytest.approx(-0.2)


def test_a_relative_margin_is_resolved() -> None:
    """A fifth of a mean of two seconds."""
    before = np.random.default_rng(10).gamma(4, 0.5, 1000)
    rule = Rule(metric="m", kind="quantity", direction="lower", margin=0.2, relative=True)
    cell = verdict(before, before * 1.02, rule)
    assert cell.margin == pytest.approx(0.2 * before.mean())
    assert cell.outcome == "pass"
    assert verdict(before, before * 1.5, rule).outcome == "fail"


def test_a_share_of_nothing_is_no_margin() -> None:
    """A fifth of a mean of zero: only nothing is within it, and no number of requests would show more."""
    rule = Rule(metric="m", kind="quantity", direction="lower", margin=0.2, relative=True)
    none, some = verdict([0.0] * 50, [0.0] * 50, rule), verdict([0.0] * 50, [0.0] * 48 + [1.0] * 2, rule)
    assert (none.outcome, none.margin, none.needed) == ("pass", 0.0, None)
    assert (some.outcome, some.margin, some.needed) == ("inconclusive", 0.0, None)


def _broken(before: Any, after: Any, *, paired: bool) -> Cell:
    """The cell of a stage's broken share; NaN: the stage is suspected or not known."""
    rule = msgspec.structs.replace(default_rule("broken_generation"), margin=0.1)
    sides = (population({rule.metric: values}, name=name) for name, values in (("b", before), ("c", after)))
    return judge((pair if paired else unpaired)(*sides), Policy(rules=(rule,)))[0]


@pytest.mark.parametrize("paired", [True, False])
def test_a_stage_that_is_judged_less_does_not_pass(paired: bool) -> None:
    """A third of the requests can no longer be told: they may all be broken, and nothing shows it."""
    sound, hidden = np.zeros(600), np.where(np.arange(600) % 3 == 0, np.nan, 0.0)
    cell = _broken(sound, hidden, paired=paired)
    assert (cell.outcome, cell.blocks, cell.needed) == ("inconclusive", False, None)
    assert cell.unjudged == pytest.approx(1 / 3)
    assert "sound or broken fell by 0.333, more than the margin of 0.1" in cell.reason
    for before, after in ((sound, sound), (hidden, hidden), (hidden, sound)):
        cell = _broken(before, after, paired=paired)
        assert (cell.outcome, cell.unjudged) == ("pass", None)


@pytest.mark.parametrize("paired", [True, False])
def test_a_little_less_that_is_judged_hides_little(paired: bool) -> None:
    """Within the margin, or not for certain, it changes nothing; neither does it in a metric that is no state."""
    sound = np.zeros(600)
    within = np.where(np.arange(600) % 12 == 0, np.nan, 0.0)
    assert _broken(sound, within, paired=paired).outcome == "pass"
    few = np.array([np.nan] * 8 + [0.0] * 52)
    assert _broken(np.roll(few, 30), np.array([np.nan] * 15 + [0.0] * 45), paired=paired).unjudged is None
    hidden = np.where(np.arange(600) % 3 == 0, np.nan, 1.0)
    assert verdict(np.ones(600), hidden, paired=paired).outcome == "pass"


def test_what_is_broken_fails_however_little_is_judged() -> None:
    """Proof is proof."""
    after = np.where(np.arange(600) % 3 == 0, np.nan, (np.arange(600) % 3 == 1).astype(float))
    cell = _broken(np.zeros(600), after, paired=True)
    assert (cell.outcome, cell.blocks, cell.unjudged) == ("fail", True, None)


def test_one_segment_fails_while_the_whole_improves() -> None:
    """Five of a hundred requests' class loses, all others gain a little."""
    comparison = traffic_pair(2000, 1, segments=("main", "minor"), shares=(0.93, 0.07))
    minor = np.array([name == "minor" for name in comparison.baseline.segments])
    before = np.random.default_rng(3).uniform(0.4, 0.7, 2000)
    after = before + np.random.default_rng(4).normal(0, 0.1, 2000) + np.where(minor, -0.15, 0.03)
    sides = [
        replace(side, scores={**side.scores, "answer_coverage": values})
        for side, values in ((comparison.baseline, before), (comparison.candidate, after))
    ]
    cells = judge(pair(*sides), Policy(rules=RULES))
    assert of(cells, "answer_coverage").outcome == "pass"
    assert [(cell.metric, cell.segment) for cell in cells if cell.blocks] == [("answer_coverage", "minor")]


def test_segments_and_families() -> None:
    """Each segment has its cells; one that holds everything is left out; required ones are there even when absent."""
    policy = Policy(rules=RULES[:2], required_segments=("absent",))
    cells = judge(traffic_pair(300, 2, segments=("x", ""), shares=(0.6, 0.4)), policy)
    assert [(cell.family, cell.segment) for cell in cells[::2]] == [
        ("overall", None),
        ("segments", "absent"),
        ("segments", "x"),
    ]
    absent = of(cells, RULES[0].metric, "absent")
    assert (absent.outcome, absent.required, absent.n) == ("not_enough_data", True, (0, 0))
    whole = judge(traffic_pair(100, 2, segments=("x",), shares=(1,)), policy)
    assert {cell.segment for cell in whole} == {None, "absent"}


def test_what_only_warns_does_not_cost_the_others() -> None:
    """Eleven warning rules more leave a blocking cell's adjusted p-value as it was."""
    comparison = traffic_pair(400, 3)
    alone = Policy(rules=RULES[:1])
    others = tuple(msgspec.structs.replace(rule, action="warn", segment_action="warn") for rule in RULES[1:])
    one, two = judge(comparison, alone), judge(comparison, Policy(rules=RULES[:1] + others))
    assert of(one, RULES[0].metric).p_adjusted == of(two, RULES[0].metric).p_adjusted


def test_adjusted_p_values_are_held_against_alpha_itself() -> None:
    """Two families: an overall p-value times its rules, over its quarter of alpha."""
    comparison = traffic_pair(600, 4)
    cells = [cell for cell in judge(comparison, Policy(rules=RULES)) if cell.family == "overall"]
    smallest = min(cell.p_harm for cell in cells if cell.p_harm is not None)
    adjusted = min(cell.p_adjusted for cell in cells if cell.p_adjusted is not None)
    assert adjusted == pytest.approx(min(1.0, smallest * 12 * 4))


@pytest.mark.parametrize(("mean", "outcome"), [(0.95, "pass"), (0.86, "inconclusive"), (0.6, "fail")])
@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_floors(mean: float, outcome: str, direction: Any) -> None:
    """A floor of 0.9, or a ceiling of 0.1: reached; missed, maybe by chance; missed for certain."""
    values = (np.arange(50) < 50 * mean).astype(float)
    values, limit = (values, 0.9) if direction == "higher" else (1 - values, 0.1)
    rule = Rule(metric="m", kind="boolean", direction=direction, margin=0.5, floor=limit)
    sides = population({"m": values}, name="b"), population({"m": values}, name="c")
    cell = of(judge(pair(*sides), Policy(rules=(rule,))), "m", None, "floors")
    assert cell.outcome == outcome
    assert cell.candidate == pytest.approx(values.mean())
    assert sure(cell.low) <= values.mean() <= sure(cell.high)


@pytest.mark.parametrize(
    ("cells", "changes", "decision"),
    [
        ((PASS,), {}, "pass"),
        ((PASS, cell_of("fail")), {}, "block"),
        ((PASS, segment_of("fail")), {}, "block"),
        ((PASS, cell_of("fail", family="floors")), {}, "block"),
        ((PASS, cell_of("fail", action="warn")), {}, "pass"),
        ((PASS, segment_of("fail", action="warn")), {}, "pass"),
        ((PASS, cell_of("inconclusive")), {}, "undecided"),
        ((PASS, cell_of("inconclusive")), {"on_inconclusive": "warn"}, "pass"),
        ((PASS, cell_of("inconclusive", action="warn")), {}, "pass"),
        ((PASS, cell_of("inconclusive", family="floors")), {}, "undecided"),
        ((PASS, cell_of("not_enough_data")), {}, "undecided"),
        ((PASS, cell_of("not_enough_data")), {"on_inconclusive": "warn"}, "pass"),
        ((PASS, segment_of("inconclusive")), {}, "pass"),
        ((PASS, segment_of("inconclusive")), {"on_inconclusive_segment": "block"}, "undecided"),
        ((PASS, segment_of("not_enough_data")), {"on_inconclusive_segment": "block"}, "pass"),
        ((PASS, segment_of("not_enough_data", required=True)), {}, "block"),
        ((PASS, segment_of("not_enough_data", required=True)), {"on_missing": "warn"}, "pass"),
        ((cell_of("inconclusive"), segment_of("not_enough_data", required=True)), {}, "block"),
        ((cell_of("inconclusive"), segment_of("fail")), {}, "block"),
        ((cell_of("inconclusive"),), {"on_inconclusive": "warn"}, "pass"),
        ((cell_of("inconclusive"), cell_of("not_enough_data")), {"on_inconclusive": "warn"}, "pass"),
        ((cell_of("not_enough_data"),), {"on_inconclusive": "warn"}, "undecided"),
        ((cell_of("not_enough_data", action="warn"),), {}, "undecided"),
        ((cell_of("fail", action="warn"),), {}, "pass"),
        ((cell_of("inconclusive", action="warn"), segment_of("fail", action="warn")), {}, "pass"),
        ((), {}, "undecided"),
    ],
)
def test_the_decision_follows_the_policy(cells: Sequence[Cell], changes: dict[str, Any], decision: str) -> None:
    """Harm first, then what is missing, then what is open; what was never judged is no pass."""
    assert decide(cells, Policy(rules=(default_rule("answer_coverage"),), **changes)) == decision


def test_the_earliest_stage_that_blocks_is_named() -> None:
    """In the order of the stages, whatever the order of the cells; warnings name none."""
    late, early = cell_of("fail", "citation_coverage"), segment_of("fail", metric="evidence_recall")
    assert first_broken([late, early, cell_of("fail", "errors")]) == "ranking"
    assert first_broken([late, segment_of("fail", metric="evidence_recall", action="warn")]) == "citation"
    assert first_broken([cell_of("fail", "errors")]) is None


def test_holm_as_published() -> None:
    """As R's p.adjust gives them."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P_VALUES)
def test_holm_rejects_step_by_step(p_values: list[float]) -> None:
    """What is at most alpha is what the procedure rejects when it is walked through."""
    rejected, left = set(), sorted(range(len(p_values)), key=lambda at: p_values[at])
    for step, at in enumerate(left):
        if p_values[at] * (len(left) - step) > 0.05:
            break
        rejected.add(at)
    assert {at for at, adjusted in enumerate(holm(p_values)) if adjusted <= 0.05} == rejected


@given(P_VALUES)
def test_holm_lies_between_itself_and_bonferroni(p_values: list[float]) -> None:
    """Never below the p-value, never above Bonferroni's."""
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p <= adjusted <= min(1.0, p * len(p_values)) + 1e-12


def test_what_cannot_fail_takes_nothing_from_the_others() -> None:
    """Of a hundred tests ninety-eight cannot get to 0.01: the two that can share the level, as if they were alone."""
    rare = [lambda p: p if p >= 0.25 else 0.0] * 98
    adjusted = holm([0.01, 0.02, *[0.5] * 98], [float, float, *rare])
    assert adjusted[:2] == pytest.approx([0.02, 0.02])
    assert min(adjusted[2:]) == 1.0


def test_twelve_lost_answers_fail_among_forty_segments() -> None:
    """All in one segment, which nothing else touches; by Holm over 41 cells, 2 of which can fail, they would not."""
    names = [f"s{at % 40}" for at in range(2000)]
    lost = np.zeros(2000)
    lost[np.arange(12) * 40] = 1.0
    rules = tuple(Rule(metric=metric, kind="boolean", direction="lower", margin=0.03) for metric in "mn")
    quiet = np.zeros(2000)
    sides = [
        population({"m": values, "n": quiet}, name=name, segments=names) for name, values in (("b", quiet), ("c", lost))
    ]
    policy = Policy(rules=rules, resamples=400)
    blocked = [cell for cell in judge(pair(sides[0], sides[1]), policy) if cell.blocks]
    assert [(cell.metric, cell.segment) for cell in blocked] == [("m", "s0")]
    assert sure(blocked[0].p_adjusted) == pytest.approx(2**-12 / 0.75)  # one test that can, of 3/4 of alpha
    noise = np.random.default_rng(1).permuted(np.repeat([[1.0, 0.0]], 2000, axis=0), axis=1).T
    busy = [
        population({**side.scores, "n": noisy}, name=side.name, segments=names)
        for side, noisy in zip(sides, noise, strict=True)
    ]
    (same,) = [cell for cell in judge(pair(busy[0], busy[1]), policy) if (cell.metric, cell.segment) == ("m", "s0")]
    assert sure(blocked[0].detectable) < 12 / 50 < sure(same.detectable)  # what is announced counts as the test does


@given(st.sets(st.sampled_from(["overall", "segments", "floors"]), min_size=1))
def test_shares_sum_to_one(families: set[str]) -> None:
    """Whatever families there are."""
    found = alpha_shares(families)  # type: ignore[arg-type]  # sampled from the literals
    assert set(found) == families
    assert sum(found.values()) == pytest.approx(1.0)
