"""Judges every metric over all requests and in every segment; docs/gate-statistics.md says how and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ragtrace.gate import wording
from ragtrace.gate.model import Action, Cell, Comparison, Family, Outcome, Policy, Rule
from ragtrace.gate.statistics.estimates import Estimate, estimate
from ragtrace.gate.statistics.floors import Floor, against_floor
from ragtrace.gate.statistics.multiplicity import holm, shares
from ragtrace.gate.statistics.power import detectable, needed
from ragtrace.gate.statistics.rows import Rows, rows_of
from ragtrace.gate.statistics.samples import Floats

__all__ = ["FEWEST", "judge"]

FEWEST: Final = 10
"""Requests, or clusters where requests share one, below which there is no verdict, whatever a rule's minimum is."""


@dataclass(slots=True, eq=False)
class _Question:
    """A cell in the making: one rule over all requests, in a segment, or against its floor."""

    rule: Rule
    rows: Rows
    family: Family
    n: tuple[int, int]
    units: int  # what is independent of each other: clusters with a value, of the smaller side
    found: Estimate | Floor | None = None
    adjusted: float | None = None
    level: float = 1.0  # what the smallest p-value of its family is held against

    @property
    def action(self) -> Action:
        return self.rule.segment_action if self.family == "segments" else self.rule.action

    @property
    def enough(self) -> bool:
        return min(self.n) >= self.rule.minimum and self.units >= FEWEST

    @property
    def cohort(self) -> tuple[Family, Action]:
        """Those that are judged together: what only warns takes no part in what blocks."""
        return self.family, self.action


def judge(comparison: Comparison, policy: Policy) -> tuple[Cell, ...]:
    """Every rule of the policy over all requests, in each segment, and against its floor, in this order.

    The probability that a candidate which is as good as the baseline gets a cell that blocks is at most `policy.alpha`.
    The same requests in another order give the same cells.
    Raises: MissingExtraError without SciPy.
    """
    questions = list(_questions(rows_of(comparison), policy))
    open_ones = [question for question in questions if question.enough]
    _set_levels(open_ones, policy)
    by_rows: dict[int, list[_Question]] = defaultdict(list)
    for question in open_ones:
        by_rows[id(question.rows)].append(question)
    for asked in by_rows.values():
        _answer(asked, policy)
    _adjust(open_ones, policy)
    return tuple(_cell(question, policy) for question in questions)


def _questions(rows: Rows, policy: Policy) -> Iterator[_Question]:
    for rule in policy.rules:
        yield _Question(rule, rows, "overall", *_counts(rows.columns(rule), rows))
    for name in rows.segments(policy.required_segments):
        segment = rows.within(name)
        for rule in policy.rules:
            yield _Question(rule, segment, "segments", *_counts(segment.columns(rule), segment))
    for rule in policy.rules:
        if rule.floor is not None:
            own, alone = rows.candidate.column(rule.metric), Rows(None, rows.candidate, rows.candidate, paired=True)
            yield _Question(rule, rows, "floors", *_counts((own, own), alone))


def _counts(columns: tuple[Floats, Floats], rows: Rows) -> tuple[tuple[int, int], int]:
    defined = [~np.isnan(column) for column in columns]
    units = [half.units(rows) for half, rows in zip((rows.baseline, rows.candidate), defined, strict=True)]
    return (int(defined[0].sum()), int(defined[1].sum())), min(units)


def _set_levels(questions: Sequence[_Question], policy: Policy) -> None:
    for members, share in _cohorts(questions):
        for question in members:
            question.level = policy.alpha * share / len(members)


def _cohorts(questions: Sequence[_Question]) -> Iterator[tuple[list[_Question], float]]:
    """What is adjusted together, with its share of alpha."""
    members: dict[tuple[Family, Action], list[_Question]] = defaultdict(list)
    for question in questions:
        members[question.cohort].append(question)
    actions: tuple[Action, ...] = ("block", "warn")
    parts = {action: shares(family for family, does in members if does == action) for action in actions}
    for (family, action), asked in members.items():
        yield asked, parts[action][family]


def _answer(questions: Sequence[_Question], policy: Policy) -> None:
    compared = [question for question in questions if question.family != "floors"]
    if compared:
        strictest = min(question.level for question in compared)
        rules = [question.rule for question in compared]
        for question, found in zip(compared, estimate(compared[0].rows, rules, policy, strictest), strict=True):
            question.found = found
    for question in questions:
        if question.family == "floors":
            question.found = against_floor(question.rows, question.rule, policy)


def _adjust(questions: Sequence[_Question], policy: Policy) -> None:
    for members, share in _cohorts(questions):
        p_values = [question.found.p_harm if question.found else 1.0 for question in members]
        for question, adjusted in zip(members, holm(p_values), strict=True):
            question.adjusted = min(1.0, adjusted / share)


def _cell(question: _Question, policy: Policy) -> Cell:
    rule, segment, found = question.rule, question.rows.segment, question.found
    required = segment is not None and segment in policy.required_segments
    if found is None:
        return Cell(
            metric=rule.metric,
            stage=rule.stage,
            segment=segment,
            family=question.family,
            kind=rule.kind,
            direction=rule.direction,
            outcome="not_enough_data",
            action=question.action,
            reason=_lacking(question),
            n=question.n,
            margin=0.0 if question.family == "floors" or rule.relative else rule.margin_of(segment),
            required=required,
        )
    if isinstance(found, Floor):
        return _floor_cell(question, found, policy)
    return _compared_cell(question, found, policy, required=required)


def _lacking(question: _Question) -> str:
    minimum = max(FEWEST, question.rule.minimum)
    if min(question.n) < minimum:
        return wording.not_enough(question.n, minimum, paired=question.rows.paired and question.family != "floors")
    return wording.too_alike(question.units, FEWEST)


def _compared_cell(question: _Question, found: Estimate, policy: Policy, *, required: bool) -> Cell:
    rule, adjusted = question.rule, question.adjusted if question.adjusted is not None else 1.0
    harmed, kept = adjusted <= policy.alpha, found.p_inferior <= policy.alpha or _is_nothing(rule, found)
    outcome: Outcome = "fail" if harmed and (rule.guardrail or not kept) else "pass" if kept else "inconclusive"
    wanted = needed(found.spread, found.margin, question.level, policy.power)
    wanted = None if wanted is None else max(wanted, rule.minimum)
    turned = (found.low, found.high) if rule.direction == "higher" else (-found.high, -found.low)
    return Cell(
        metric=rule.metric,
        stage=rule.stage,
        segment=question.rows.segment,
        family=question.family,
        kind=rule.kind,
        direction=rule.direction,
        outcome=outcome,
        action=question.action,
        reason=wording.compared(
            found, outcome, adjusted, wanted, question.n, policy, rule, paired=question.rows.paired
        ),
        n=question.n,
        baseline=found.baseline,
        candidate=found.candidate,
        difference=found.candidate - found.baseline,
        low=turned[0],
        high=turned[1],
        margin=found.margin,
        p_harm=found.p_harm,
        p_adjusted=adjusted,
        p_inferior=found.p_inferior,
        detectable=detectable(found.spread, found.size, question.level, policy.power),
        needed=wanted,
        method=found.method,
        required=required,
    )


def _is_nothing(rule: Rule, found: Estimate) -> bool:
    """Whether both sides have only zeros of a quantity: a share of nothing is no margin that could be shown."""
    return rule.kind == "quantity" and found.baseline == found.candidate == found.margin == 0.0


def _floor_cell(question: _Question, found: Floor, policy: Policy) -> Cell:
    rule, adjusted = question.rule, question.adjusted if question.adjusted is not None else 1.0
    outcome: Outcome = "fail" if adjusted <= policy.alpha else "pass" if found.reached else "inconclusive"
    return Cell(
        metric=rule.metric,
        stage=rule.stage,
        segment=None,
        family="floors",
        kind=rule.kind,
        direction=rule.direction,
        outcome=outcome,
        action=question.action,
        reason=wording.floor(found, outcome, rule),
        n=question.n,
        candidate=found.mean,
        low=found.low,
        high=found.high,
        margin=0.0,
        p_harm=found.p_harm,
        p_adjusted=adjusted,
        method=found.method,
    )
