"""Breaks: why a stage got worse between two sides. The states on both sides, the requests that flipped, their causes,
what was changed, and of each cell that did not pass the questions that got worse, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze.diagnosis import CAUSE_COMPONENTS
from ragtrace.gate._means import Floats, Rows, rows_of
from ragtrace.gate._metrics import is_hint, is_state
from ragtrace.gate.policy import OTHER
from ragtrace.gate.types import (
    NOWHERE,
    STATES,
    Break,
    Cell,
    CellChanges,
    ChangedPair,
    Comparison,
    Direction,
    Population,
    SideSummary,
    StageShares,
    VersionChange,
)
from ragtrace.registry.instruments import STAGES
from ragtrace.registry.types import StageInfo
from ragtrace.types import Stage

__all__ = ["find_breaks", "find_changes", "stage_shares", "version_changes"]

_EXAMPLES: Final = 5
_WORST: Final = 5  # questions of a cell
_OWN_SHARE: Final = 0.1  # of what the earlier stage broke: less than that is noise
_PLACES: Final = {stage.name: place for place, stage in enumerate(STAGES)}
_SOUND, _BROKEN, _SUSPECTED, _NOT_KNOWN = range(len(STATES))
_UNSOUND: Final = (_BROKEN, _SUSPECTED, _NOT_KNOWN)

Marks: TypeAlias = NDArray[np.bool_]
"""One for each request of a side."""


class _ComparedSide(NamedTuple):
    """One side's requests that are compared. states: (stages, requests), places in `STATES` or `NOWHERE`."""

    population: Population
    rows: NDArray[np.int64]
    states: NDArray[np.int8]
    segments: NDArray[np.object_]

    def within(self, chosen: Marks) -> _ComparedSide:
        return _ComparedSide(self.population, self.rows[chosen], self.states[:, chosen], self.segments[chosen])

    def judged(self, place: int) -> Marks:
        """Where a stage is sound or broken."""
        marks: Marks = np.isin(self.states[place], (_SOUND, _BROKEN))
        return marks

    def own(self, place: int, *states: int) -> Marks:
        """Where a stage is in one of the states, and nothing before it is broken or suspected."""
        before = np.isin(self.states[:place], (_BROKEN, _SUSPECTED)).any(axis=0)
        marks: Marks = np.isin(self.states[place], states) & ~before
        return marks

    def first(self, place: int) -> Marks:
        """Where a stage is the first that is broken, which the request's cause is of."""
        marks: Marks = (self.states[place] == _BROKEN) & ~(self.states[:place] == _BROKEN).any(axis=0)
        return marks

    def share(self, marks: Marks, among: Marks) -> float | None:
        """The weighted share of the marked requests among others; None among none."""
        weights = self.population.weights[self.rows]
        return float(weights[marks & among].sum() / weights[among].sum()) if among.any() else None

    def own_share(self, place: int, *states: int) -> float:
        """The share of requests where `own` holds, among those where the stage applies."""
        return self.share(self.own(place, *states), self.states[place] != NOWHERE) or 0.0


class _BreakGrowth(NamedTuple):
    """A break; by how much the shares grew in which its stage is broken, or not sound, with nothing wrong before."""

    break_: Break
    broken: float
    unsound: float


def find_breaks(comparison: Comparison, cells: Sequence[Cell], small: Sequence[str] = ()) -> tuple[Break, ...]:
    """One break for each stage and segment with a failed cell: earlier stages first, all requests before segments.
    small: the segments that were judged together.

    What only points to a break (a rise of suspected requests) makes none, and neither does what only explains one.
    """
    failed: dict[tuple[Stage, str | None], list[Cell]] = {}
    for cell in cells:
        if cell.outcome == "fail" and cell.stage is not None and not is_hint(cell.metric):
            failed.setdefault((cell.stage, cell.segment), []).append(cell)
    failed = {where: own for where, own in failed.items() if any(_is_proof(cell) for cell in own)}
    if not failed:
        return ()
    sides = _sides(comparison)
    changes = version_changes(comparison.baseline, comparison.candidate)
    breaks = []
    for (stage, segment), own in failed.items():
        place, parts = _PLACES[stage], _in_segment(sides, segment, small)
        found_break = _make_break(comparison.paired, parts, changes, STAGES[place], segment, own)
        breaks.append(_BreakGrowth(found_break, _growth(parts, place, _BROKEN), _growth(parts, place, *_UNSOUND)))
    breaks.sort(key=lambda each: (_PLACES[each.break_.stage], each.break_.segment is not None, -each.broken))
    return tuple(msgspec.structs.replace(each.break_, follows=_followed(each, breaks)) for each in breaks)


def _is_proof(cell: Cell) -> bool:
    """Whether a failed cell blocks, or tells that its stage is broken in more requests."""
    return cell.action == "block" or is_state(cell.metric)


def stage_shares(comparison: Comparison) -> tuple[StageShares, ...]:
    """The states of each stage on both sides, over all requests that are compared; of stages that apply somewhere."""
    sides = _sides(comparison)
    found = (_shares(sides, stage.name, place) for place, stage in enumerate(STAGES))
    return tuple(each for each in found if any(each.requests))


def _shares(sides: tuple[_ComparedSide, _ComparedSide], stage: str, place: int) -> StageShares:
    applies = [side.states[place] != NOWHERE for side in sides]
    shares = {
        state: tuple(side.share(side.states[place] == code, among) for side, among in zip(sides, applies, strict=True))
        for code, state in enumerate(STATES)
    }
    return StageShares(stage=stage, requests=tuple(int(among.sum()) for among in applies), **shares)  # type: ignore[arg-type]


def version_changes(
    baseline: Population | SideSummary, candidate: Population | SideSummary
) -> tuple[VersionChange, ...]:
    """The components that do not run in the same versions on both sides, by name."""
    before, after = baseline.versions, candidate.versions
    changes = (
        _version_change(component, before.get(component, {}), after.get(component, {}))
        for component in sorted({*before, *after})
    )
    return tuple(change for change in changes if change is not None)


def _version_change(component: str, before: Mapping[str, int], after: Mapping[str, int]) -> VersionChange | None:
    old, new = _commonest(before), _commonest(after)
    if old == new and set(before) == set(after):
        return None
    added = _commonest({version: count for version, count in after.items() if version not in before})
    return VersionChange(
        component=component, baseline=old, candidate=added or new, mixed=len(before) > 1 or len(after) > 1
    )


def _commonest(counts: Mapping[str, int]) -> str | None:
    return max(sorted(counts), key=lambda version: counts[version], default=None)


def _sides(comparison: Comparison) -> tuple[_ComparedSide, _ComparedSide]:
    """Both sides; where they are paired, row by row the same question, in the segment of the baseline's request."""
    baseline, candidate = comparison.baseline, comparison.candidate
    if comparison.pairs is None:
        return _compared_side(baseline, np.arange(len(baseline))), _compared_side(candidate, np.arange(len(candidate)))
    before = _compared_side(baseline, comparison.pairs[:, 0])
    after = _compared_side(candidate, comparison.pairs[:, 1])
    states = after.states.copy()
    for stage, same in comparison.unchanged.items():  # as the cells are judged: nothing changed there
        states[_PLACES[stage], same] = before.states[_PLACES[stage], same]
    return before, after._replace(segments=before.segments, states=states)


def _compared_side(population: Population, rows: NDArray[np.int64]) -> _ComparedSide:
    nowhere = np.full(len(population), NOWHERE, dtype=np.int8)
    states = np.array([population.states.get(stage, nowhere) for stage in _PLACES])  # type: ignore[call-overload]
    return _ComparedSide(population, rows, states[:, rows], np.array(population.segments, dtype=object)[rows])


def _in_segment(
    sides: tuple[_ComparedSide, _ComparedSide], segment: str | None, small: Sequence[str]
) -> tuple[_ComparedSide, _ComparedSide]:
    if segment is None:
        return sides
    before, after = sides
    names = small if segment == OTHER else (segment,)
    return before.within(np.isin(before.segments, names)), after.within(np.isin(after.segments, names))


def _make_break(
    paired: bool,
    sides: tuple[_ComparedSide, _ComparedSide],
    changes: Sequence[VersionChange],
    stage: StageInfo,
    segment: str | None,
    failed: Sequence[Cell],
) -> Break:
    place = _PLACES[stage.name]
    before, after = sides
    flips = _flips(before, after, place) if paired else None
    causes = _causes(after.within(after.first(place) if flips is None else flips & after.first(place)))
    lost = (after.states[place][before.judged(place)] if paired else np.empty(0)).tolist()
    return Break(
        stage=failed[0].stage or "retrieval",
        segment=segment,
        failure=stage.failure,
        owner=stage.owner,
        broken=tuple(side.share(side.states[place] == _BROKEN, side.judged(place)) for side in sides),  # type: ignore[arg-type]
        flipped=None if flips is None else int(flips.sum()),
        recovered=None if flips is None else int(_flips(after, before, place).sum()),
        now_suspected=None if flips is None else lost.count(_SUSPECTED),
        now_not_known=None if flips is None else lost.count(_NOT_KNOWN),
        causes=causes,
        requests=tuple(_examples(before, after, flips, place, failed)),
        suspects=_suspects(changes, stage, causes),
        metrics=tuple(dict.fromkeys(cell.metric for cell in sorted(failed, key=lambda cell: not cell.blocks))),
    )


def _flips(good: _ComparedSide, bad: _ComparedSide, place: int) -> Marks:
    """The pairs in which a stage is sound on one side and broken on the other."""
    flips: Marks = (good.states[place] == _SOUND) & (bad.states[place] == _BROKEN)
    return flips


def _causes(side: _ComparedSide) -> dict[str, int]:
    counts = Counter(side.population.causes[row] for row in side.rows.tolist())
    return {cause: count for cause, count in counts.most_common() if cause}


def _suspects(
    changes: Sequence[VersionChange], stage: StageInfo, causes: Mapping[str, int]
) -> tuple[VersionChange, ...]:
    """The changed components of the stage; those that the commonest cause points at come first."""
    pointed = CAUSE_COMPONENTS.get(next(iter(causes), ""), ())
    own = [change for change in changes if change.component in stage.components]
    return tuple(sorted(own, key=lambda each: (each.component not in pointed, stage.components.index(each.component))))


def _examples(
    before: _ComparedSide, after: _ComparedSide, flips: Marks | None, place: int, failed: Sequence[Cell]
) -> Iterator[tuple[str, str]]:
    """The requests that show it best: flipped ones, else those whose scores suffered most."""
    harm = np.zeros(len(after.rows))
    for cell in failed:
        harm += _harm_in_margins(cell, before, after, paired=flips is not None)
    shown = after.own(place, _BROKEN) if flips is None else flips
    for at in np.lexsort((-harm, ~shown))[:_EXAMPLES].tolist():
        if shown[at] or harm[at] > 0:
            known = before.population.request_ids[int(before.rows[at])] if flips is not None else ""
            yield known, after.population.request_ids[int(after.rows[at])]


def _harm_in_margins(cell: Cell, before: _ComparedSide, after: _ComparedSide, *, paired: bool) -> NDArray[np.float64]:
    """How much worse each request is in a metric, in margins: than its partner, else than the baseline's mean."""
    scores = after.population.scores.get(cell.metric)
    if scores is None:
        return np.zeros(len(after.rows))
    known = before.population.scores[cell.metric][before.rows] if paired else cell.baseline or 0.0
    worse = (scores[after.rows] - known) * (-1.0 if cell.direction == "higher" else 1.0)
    return np.nan_to_num(worse / (cell.margin or 1.0))  # a floor has no margin


def _followed(later: _BreakGrowth, breaks: Sequence[_BreakGrowth]) -> Stage | None:
    """The first earlier stage that broke in the same place or over all, where the later one stayed as sound as it was
    in requests in which all before it is right."""
    place, segments = _PLACES[later.break_.stage], (None, later.break_.segment)
    earlier = (other for other in breaks if _PLACES[other.break_.stage] < place and other.break_.segment in segments)
    grown = (other for other in earlier if other.broken > 0 and later.unsound < _OWN_SHARE * other.broken)
    return next((other.break_.stage for other in grown), None)


def _growth(sides: tuple[_ComparedSide, _ComparedSide], place: int, *states: int) -> float:
    """By how much the share of requests grew in which a stage is in one of the states with nothing wrong before."""
    before, after = (side.own_share(place, *states) for side in sides)
    return after - before


def _is_suspicious(cell: Cell, alpha: float) -> bool:
    """Whether a cell is worth a look at its questions: it failed or warns, is open and looks worse, or may block and
    passed although it is worse for certain. Of cells with too few requests that is what may block over all of them;
    where not even the difference is known, the states of stages, whose flips say enough."""
    if cell.outcome == "fail":
        return True
    is_worse = (cell.difference or 0.0) * _sign(cell.direction) > 0
    if cell.outcome == "pass":
        return is_worse and cell.action == "block" and cell.p_adjusted is not None and cell.p_adjusted <= alpha
    if cell.outcome == "not_enough_data":
        is_flip = cell.difference is None and is_state(cell.metric)
        return (is_worse or is_flip) and cell.action == "block" and cell.family == "overall"
    return is_worse or cell.unjudged is not None


def find_changes(
    comparison: Comparison, cells: Sequence[Cell], small: Sequence[str] = (), alpha: float = 0.05
) -> tuple[CellChanges, ...]:
    """Of each suspicious cell the questions that lost most, and among equals those that lost most in the others as
    well; cells that passed come last. alpha: the policy's.

    A pair's loss is against its own baseline. Without pairs it is against the baseline's mean.
    """
    suspicious = [cell for cell in cells if cell.family != "floors" and _is_suspicious(cell, alpha)]
    chosen = sorted(suspicious, key=lambda cell: cell.outcome == "pass")
    if not chosen:
        return ()
    rows = rows_of(comparison)
    parts = {
        name: rows if name is None else rows.union(name, small if name == OTHER else (name,))
        for name in {one.segment for one in chosen}
    }
    found = []
    for cell in chosen:
        part = parts[cell.segment]
        alike = [other for other in chosen if other.segment == cell.segment]
        pairs = tuple(_worst(cell, part, sum(_losses(other, part) / (other.margin or 1.0) for other in alike)))
        if pairs:
            found.append(CellChanges(metric=cell.metric, stage=cell.stage, segment=cell.segment, pairs=pairs))
    return tuple(found)


def _worst(cell: Cell, rows: Rows, total: Floats | float) -> Iterator[ChangedPair]:
    own = _losses(cell, rows)
    before, after = rows.baseline.column(cell.metric), rows.candidate.column(cell.metric)
    for at in np.lexsort((-np.asarray(total), -own))[:_WORST].tolist():
        if own[at] <= 0:
            return
        earlier = rows.baseline.population.request_ids[int(rows.baseline.places[at])] if rows.paired else ""
        yield ChangedPair(
            baseline=earlier,
            candidate=rows.candidate.population.request_ids[int(rows.candidate.places[at])],
            before=_known(before[at]) if rows.paired else None,
            after=_known(after[at]),
        )


def _losses(cell: Cell, rows: Rows) -> Floats:
    """How much worse each request is; 0 where it cannot be told."""
    after = rows.candidate.column(cell.metric)
    before = rows.baseline.column(cell.metric) if rows.paired else cell.baseline or 0.0
    return np.nan_to_num((after - before) * _sign(cell.direction))


def _sign(direction: Direction) -> float:
    return -1.0 if direction == "higher" else 1.0


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
