"""Judgments of every metric over all requests and by segment, and the decision (docs/explanation/gate-statistics.md).

Source of the adjustment for multiplicity: Holm (1979), "A simple sequentially rejective multiple test procedure".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from ragtrace.gate._estimates import (
    CellEstimate,
    Floor,
    against_floor,
    decides,
    detectable,
    estimate,
    needed,
)
from ragtrace.gate._means import Floats, Rows, Sample, rows_of, side_of
from ragtrace.gate._metrics import METRICS, is_doubtful
from ragtrace.gate.policy import OTHER, least_questions, too_small
from ragtrace.gate.types import Action, Cell, Comparison, Decision, Family, Outcome, Policy, Rule
from ragtrace.registry.instruments import STAGES
from ragtrace.sample_statistics import ONE_SIDED_95, holm
from ragtrace.types import Stage

__all__ = [
    "FEWEST",
    "alpha_shares",
    "decide",
    "first_broken",
    "is_doubt",
    "judge",
    "questions",
    "small_segments",
]

FEWEST: Final = 10
"""Requests, or clusters where requests share one, below which there is no verdict, whatever a rule's minimum is."""

_ROUNDING: Final = 1e-6
_LEVELS: Final = 48  # at which the smallest p-value that still fails is looked for
_OPEN: Final = ("inconclusive", "not_enough_data")
_MOST_TIMES: Final = 4
_WEIGHTS: Final[Mapping[Family, float]] = {"overall": 1.0, "segments": 3.0, "floors": 1.0}
"""Segments get three times the share, since they hold the most cells and the fewest requests."""


@dataclass(slots=True, eq=False)
class _CellDraft:
    """A cell in the making: one rule over all requests, in a segment, or against its floor."""

    rule: Rule
    rows: Rows
    family: Family
    n: tuple[int, int]
    units: int  # what is independent of each other: clusters with a value, of the smaller side
    least: int = 0  # with fewer it can be found worse, and never to be no worse
    estimate: CellEstimate | Floor | None = None
    adjusted: float | None = None
    level: float = 1.0  # what the smallest p-value of its family is held against where every cell can fail
    reach: float = 1.0  # the same of today's requests: cells that hardly changed take nothing

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
    rows = rows_of(comparison)
    drafts = list(_drafts(rows, small_segments(rows, policy), policy))
    open_ones = [draft for draft in drafts if draft.enough]
    _set_levels(open_ones, policy)
    by_rows: dict[int, list[_CellDraft]] = defaultdict(list)
    for draft in open_ones:
        by_rows[id(draft.rows)].append(draft)
    for same_rows in by_rows.values():
        _estimate(same_rows, policy)
    _adjust(open_ones, policy)
    return tuple(_cell(draft, policy) for draft in drafts)


def decide(cells: Sequence[Cell], policy: Policy) -> Decision:
    """Block for a cell that fails and blocks; for a required segment without enough data by `on_missing`; else stay
    undecided where the policy says so (open verdicts, more doubt), and wherever nothing had data enough to be judged;
    else pass."""
    if any(cell.blocks for cell in cells):
        return "block"
    blocking = [cell for cell in cells if cell.action == "block"]
    missing = [cell for cell in blocking if cell.required and cell.outcome == "not_enough_data" and cell.low is None]
    if missing and policy.on_missing == "block":
        return "block"
    overall = [cell for cell in blocking if cell.family != "segments"]
    segments = [cell for cell in blocking if cell.family == "segments"]
    if policy.on_suspected == "block" and any(is_doubt(cell) for cell in cells):
        return "undecided"
    if policy.on_inconclusive == "block" and any(cell.outcome in _OPEN for cell in overall):
        return "undecided"
    if policy.on_inconclusive_segment == "block" and any(cell.outcome == "inconclusive" for cell in segments):
        return "undecided"
    return "pass" if any(cell.outcome != "not_enough_data" for cell in cells) else "undecided"


def is_doubt(cell: Cell) -> bool:
    """Whether a stage is suspected or not known, or nothing tells of a refusal, in certainly more requests, over all of
    them."""
    return cell.outcome == "fail" and cell.family == "overall" and is_doubtful(cell.metric)


def first_broken(cells: Sequence[Cell]) -> Stage | None:
    """The earliest stage with a cell that blocks."""
    blocked = {cell.stage for cell in cells if cell.blocks}
    return next((stage.name for stage in STAGES if stage.name in blocked), None)


def small_segments(rows: Rows, policy: Policy) -> tuple[str, ...]:
    """The segments that are too small to be judged alone."""
    return too_small({name: rows.within(name).size for name in rows.segments(())}, policy)


def questions(cells: Sequence[Cell], policy: Policy, asked: int) -> int | None:
    """How many pairs (or requests per side) decide what is open over all requests, rounded up to tens; None where
    nothing is open, or no number would help. asked: how many there are; as large a share of more would have a value."""
    open_ = [cell for cell in cells if cell.family == "overall" and cell.action == "block" and cell.outcome in _OPEN]
    known = [(cell.decides, min(cell.n)) for cell in open_ if cell.decides is not None]
    wanted = [number * max(1.0, asked / defined) for number, defined in known if defined]
    return 10 * ceil(max(wanted) / 10 - _ROUNDING) if wanted and policy.on_inconclusive == "block" else None


def _drafts(rows: Rows, small: Sequence[str], policy: Policy) -> Iterator[_CellDraft]:
    for rule in policy.rules:
        yield _draft(rule, rows, "overall", policy)
    parts = [rows.within(name) for name in rows.segments(policy.required_segments)]
    other = rows.union(OTHER, small)
    if len(small) > 1 and len(other.baseline.places) < len(rows.baseline.places):
        parts.append(other)
    for segment in parts:
        for rule in policy.rules:
            yield _draft(rule, segment, "segments", policy)
    for rule in policy.rules:
        if rule.floor is not None:
            own, alone = rows.candidate.column(rule.metric), Rows(None, rows.candidate, rows.candidate, paired=True)
            yield _CellDraft(rule, rows, "floors", *_counts((own, own), alone))


def _draft(rule: Rule, rows: Rows, family: Family, policy: Policy) -> _CellDraft:
    least = least_questions(rule, rows.segment, policy.alpha)
    return _CellDraft(rule, rows, family, *_counts(rows.columns(rule), rows), least)


def _counts(columns: tuple[Floats, Floats], rows: Rows) -> tuple[tuple[int, int], int]:
    defined = [~np.isnan(column) for column in columns]
    units = [side.units(rows) for side, rows in zip((rows.baseline, rows.candidate), defined, strict=True)]
    return (int(defined[0].sum()), int(defined[1].sum())), min(units)


def _set_levels(drafts: Sequence[_CellDraft], policy: Policy) -> None:
    for members, share in _cohorts(drafts):
        for draft in members:
            draft.level = policy.alpha * share / len(members)


def _cohorts(drafts: Sequence[_CellDraft]) -> Iterator[tuple[list[_CellDraft], float]]:
    """What is adjusted together, with its share of alpha."""
    members: dict[tuple[Family, Action], list[_CellDraft]] = defaultdict(list)
    for draft in drafts:
        members[draft.cohort].append(draft)
    actions: tuple[Action, ...] = ("block", "warn")
    parts = {action: alpha_shares(family for family, does in members if does == action) for action in actions}
    for (family, action), cohort in members.items():
        yield cohort, parts[action][family]


def _estimate(drafts: Sequence[_CellDraft], policy: Policy) -> None:
    compared = [draft for draft in drafts if draft.family != "floors"]
    if compared:
        strictest = min(draft.level for draft in compared)
        rules = [draft.rule for draft in compared]
        for draft, result in zip(compared, estimate(compared[0].rows, rules, policy, strictest), strict=True):
            draft.estimate = result
    for draft in drafts:
        if draft.family == "floors":
            draft.estimate = against_floor(draft.rows, draft.rule, policy)


def _adjust(drafts: Sequence[_CellDraft], policy: Policy) -> None:
    for members, share in _cohorts(drafts):
        p_values = [draft.estimate.p_harm if draft.estimate else 1.0 for draft in members]
        chances = [draft.estimate.chance if isinstance(draft.estimate, CellEstimate) else float for draft in members]
        for draft, adjusted in zip(members, holm(p_values, chances), strict=True):
            draft.adjusted = min(1.0, adjusted / share)
        for draft, reach in zip(members, _reaches(chances, policy.alpha * share), strict=True):
            draft.reach = reach


def _reaches(chances: Sequence[Callable[[float], float]], level: float) -> list[float]:
    """For each test the largest p-value that fails at the first step: with the chances of the others it stays within
    the family's level. A mid-p can be half its chance, so that the smallest one tried is half of Holm's."""
    equal = level / len(chances)
    tried = np.sort(np.append(np.geomspace(equal / 2, level, _LEVELS), equal))[::-1]
    likely = np.array([[chance(p) for chance in chances] for p in tried.tolist()])
    fails = tried[:, None] + likely.sum(axis=1, keepdims=True) - likely <= level * (1 + _ROUNDING)
    fails[-1] = True
    return [float(tried[at]) for at in fails.argmax(axis=0)]


def _cell(draft: _CellDraft, policy: Policy) -> Cell:
    rule, segment, result = draft.rule, draft.rows.segment, draft.estimate
    required = segment is not None and segment in policy.required_segments
    if result is None:
        return Cell(
            metric=rule.metric,
            stage=rule.stage,
            segment=segment,
            family=draft.family,
            kind=rule.kind,
            direction=rule.direction,
            outcome="not_enough_data",
            action=draft.action,
            reason=_lacking(draft),
            n=draft.n,
            least=draft.least,
            decides=draft.least if draft.family == "overall" else None,
            margin=0.0 if draft.family == "floors" or rule.relative else rule.margin_of(segment),
            required=required,
        )
    if isinstance(result, Floor):
        return _floor_cell(draft, result, policy)
    return _compared_cell(draft, result, policy, required=required)


def _lacking(draft: _CellDraft) -> str:
    minimum = max(FEWEST, draft.rule.minimum)
    if min(draft.n) < minimum:
        return _too_few(draft.n, minimum, paired=draft.rows.paired and draft.family != "floors")
    return _too_alike(draft.units, FEWEST)


def _compared_cell(draft: _CellDraft, result: CellEstimate, policy: Policy, *, required: bool) -> Cell:
    rule, adjusted = draft.rule, draft.adjusted if draft.adjusted is not None else 1.0
    harmed, kept = adjusted <= policy.alpha, result.p_inferior <= policy.alpha or _is_nothing(rule, result)
    unjudged = _unjudged(draft) if kept and not harmed else None
    kept = kept and unjudged is None
    outcome: Outcome = "fail" if harmed and (rule.guardrail or not kept) else "pass" if kept else "inconclusive"
    is_small = outcome == "inconclusive" and unjudged is None and draft.units < draft.least
    outcome = "not_enough_data" if is_small else outcome
    wanted = needed(result.spread, result.margin, draft.reach, policy.power)
    if wanted is not None and wanted > result.size:  # of more requests, more cells can fail
        wanted = needed(result.spread, result.margin, min(draft.level, draft.reach), policy.power)
    wanted = None if wanted is None or unjudged is not None else max(wanted, rule.minimum)
    turned = (result.low, result.high) if rule.direction == "higher" else (-result.high, -result.low)
    return Cell(
        metric=rule.metric,
        stage=rule.stage,
        segment=draft.rows.segment,
        family=draft.family,
        kind=rule.kind,
        direction=rule.direction,
        outcome=outcome,
        action=draft.action,
        reason=_unjudged_reason(unjudged, result.margin)
        if unjudged is not None
        else _too_few(draft.n, draft.least, paired=draft.rows.paired)
        if is_small
        else _compared_reason(result, outcome, adjusted, policy, rule),
        n=draft.n,
        baseline=result.baseline,
        candidate=result.candidate,
        difference=result.candidate - result.baseline,
        low=turned[0],
        high=turned[1],
        margin=result.margin,
        p_harm=result.p_harm,
        p_adjusted=adjusted,
        p_inferior=result.p_inferior,
        detectable=detectable(result.spread, result.size, draft.reach, policy.power),
        needed=wanted,
        decides=None if unjudged is not None else _decides(draft, result, wanted, policy),
        least=draft.least,
        method=result.method,
        required=required,
        unjudged=unjudged,
    )


def _decides(draft: _CellDraft, result: CellEstimate, needed: int | None, policy: Policy) -> int | None:
    """With how many requests the cell passes where the candidate is no worse and all goes on as here; where the margin
    is reached already, with how many the loss is found. A loss that lies just within the margin asks for ever more, of
    a few requests by chance: at most `_MOST_TIMES` what a candidate without any loss takes."""
    equal = decides(result.spread, result.margin, policy.alpha, policy.power)
    loss = -result.difference
    if result.is_same and not draft.rule.relative:
        return draft.least
    if equal is None or loss >= result.margin:
        return needed
    shrunk = (-result.low - loss) / (result.margin - loss)
    lasting = ceil(min(draft.n) * max(1.0, shrunk) ** 2)
    return max(draft.least, equal, min(lasting, _MOST_TIMES * max(equal, draft.least)))


def _unjudged(draft: _CellDraft) -> float | None:
    """By how much the share of requests fell in which a stage is sound or broken, where that is certain and more than
    the margin: as many more may be broken unseen. None for any other metric.

    The difference of shares against its cluster-robust standard error, one-sided at 5 %.
    """
    if draft.rule.metric not in METRICS or METRICS[draft.rule.metric].state != "broken":
        return None
    rows = draft.rows
    both = (rows.baseline, rows.candidate)
    before, after = ((~np.isnan(side.column(draft.rule.metric))).astype(np.float64) for side in both)
    same = rows.same(draft.rule)
    after = after if same is None else np.where(same, before, after)
    if rows.paired:
        change = Sample((side_of([after - before], rows.baseline.weights, rows.baseline.clusters),), (1,)).student
    else:
        sides = (
            side_of([known], side.weights, side.clusters)
            for known, side in zip((after, before), both[::-1], strict=True)
        )
        change = Sample(tuple(sides), (1, -1)).student
    lost, error = -float(change.values[0]), float(change.errors[0])
    is_certain = lost > ONE_SIDED_95 * error
    return lost if is_certain and lost > draft.rule.margin_of(rows.segment) else None


def _is_nothing(rule: Rule, result: CellEstimate) -> bool:
    """Whether both sides have only zeros of a quantity: a share of nothing is no margin that could be shown."""
    return rule.kind == "quantity" and result.baseline == result.candidate == result.margin == 0.0


def _floor_cell(draft: _CellDraft, floor: Floor, policy: Policy) -> Cell:
    rule, adjusted = draft.rule, draft.adjusted if draft.adjusted is not None else 1.0
    outcome: Outcome = "fail" if adjusted <= policy.alpha else "pass" if floor.reached else "inconclusive"
    return Cell(
        metric=rule.metric,
        stage=rule.stage,
        segment=None,
        family="floors",
        kind=rule.kind,
        direction=rule.direction,
        outcome=outcome,
        action=draft.action,
        reason=_floor_reason(floor, outcome, rule),
        n=draft.n,
        candidate=floor.mean,
        low=floor.low,
        high=floor.high,
        margin=0.0,
        p_harm=floor.p_harm,
        p_adjusted=adjusted,
        method=floor.method,
    )


def _too_few(n: tuple[int, int], minimum: int, *, paired: bool) -> str:
    """How many requests have a value, and how many a verdict takes."""
    if paired:
        return f"{_number_of(n[0], 'pair')} with a value on both sides; a verdict takes {minimum}."
    return f"{n[0]} and {n[1]} requests with a value; a verdict takes {minimum} on each side."


def _too_alike(units: int, fewest: int) -> str:
    """How many sessions or documents the requests are of."""
    return f"The requests are of only {_number_of(units, 'session')} or documents; a verdict takes {fewest}."


def _unjudged_reason(lost: float, margin: float) -> str:
    """Why a stage that looks no worse does not pass."""
    return (
        f"No worse where both can be told; but the share of requests in which the stage is sound or broken fell by "
        f"{_figure(lost)}, more than the margin of {_figure(margin)}, and the others may be broken."
    )


def _compared_reason(result: CellEstimate, outcome: Outcome, adjusted: float, policy: Policy, rule: Rule) -> str:
    """The interval against the margin."""
    margin, span = _figure(result.margin), _span(result.low, result.high)
    if outcome == "fail":
        text = f"{_worse_or_better(result.difference)} ({span}); chance is ruled out (adjusted p {_p(adjusted)})."
        within = result.p_inferior <= policy.alpha
        if not within and 0 < -result.difference < result.margin:
            return f"{text} More than the margin of {margin} is not ruled out."
        return f"{text} {'Within the margin of' if within else 'The margin is'} {margin}" + (
            ", but this metric is a guardrail: it must not get worse at all." if within else "."
        )
    if outcome == "pass":
        text = f"{span.capitalize()}, within the margin of {margin}."
        return f"{text} It is worse for certain, by less than the margin." if adjusted <= policy.alpha else text
    return f"{span.capitalize()}: neither within the margin of {margin} for certain, nor certainly worse."


def _floor_reason(floor: Floor, outcome: Outcome, rule: Rule) -> str:
    """The candidate's mean against its floor, which is a ceiling where lower is better."""
    name = "floor" if rule.direction == "higher" else "ceiling"
    text = f"Mean {_figure(floor.mean)} ({_figure(floor.low)} to {_figure(floor.high)}), {name} {_figure(floor.floor)}"
    if outcome == "pass":
        return f"{text}: kept."
    wrong = "below" if rule.direction == "higher" else "above"
    return f"{text}: {wrong} it" + (" for certain." if outcome == "fail" else ", which may be chance.")


def _span(low: float, high: float) -> str:
    if low >= 0:
        return f"{_figure(low)} to {_figure(high)} better"
    if high <= 0:
        return f"{_figure(-high)} to {_figure(-low)} worse"
    return f"between {_figure(-low)} worse and {_figure(high)} better"


def _worse_or_better(difference: float) -> str:
    return f"Worse by {_figure(-difference)}" if difference < 0 else f"Better by {_figure(difference)}"


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1e-9 else "0"


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def _number_of(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def alpha_shares(families: Iterable[Family]) -> dict[Family, float]:
    """The part of alpha of each family that has cells; they sum to 1."""
    present = set(families)
    whole = sum(weight for family, weight in _WEIGHTS.items() if family in present)
    return {family: weight / whole for family, weight in _WEIGHTS.items() if family in present}
