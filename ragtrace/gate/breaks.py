"""Why a stage got worse: the verdict that names it, the requests that flipped, their causes, and what was changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragtrace.analyze.diagnosis import CAUSE_COMPONENTS
from ragtrace.gate.model import Break, Cell, Comparison, Population, SideSummary, VersionChange
from ragtrace.registry.instruments import STAGES
from ragtrace.registry.model import StageInfo
from ragtrace.types import Stage

__all__ = ["find_breaks", "version_changes"]

_EXAMPLES: Final = 5
_OWN_SHARE: Final = 0.1  # of what the earlier stage broke: less than that is noise
_PLACES: Final = {stage.name: place for place, stage in enumerate(STAGES)}
_HEALTHY: Final = len(STAGES)
_UNKNOWN: Final = -1


class _Side(NamedTuple):
    """One side's requests that are compared: where each broke first (place of the stage, healthy, unknown)."""

    population: Population
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    segments: NDArray[np.object_]

    def within(self, chosen: NDArray[np.bool_]) -> _Side:
        return _Side(self.population, self.rows[chosen], self.places[chosen], self.segments[chosen])

    def share(self, place: int) -> float | None:
        """The weighted share of the requests with a verdict that broke first at a stage."""
        known = self.places != _UNKNOWN
        weights = self.population.weights[self.rows[known]]
        return float(weights[self.places[known] == place].sum() / weights.sum()) if known.any() else None


def find_breaks(comparison: Comparison, cells: Sequence[Cell]) -> tuple[Break, ...]:
    """One break for each stage and segment with a failed cell: earlier stages first, all requests before segments."""
    failed: dict[tuple[Stage, str | None], list[Cell]] = {}
    for cell in cells:
        if cell.outcome == "fail" and cell.stage is not None:
            failed.setdefault((cell.stage, cell.segment), []).append(cell)
    if not failed:
        return ()
    sides = _sides(comparison)
    changes = version_changes(comparison.baseline, comparison.candidate)
    breaks = [
        _break(comparison.paired, sides, changes, STAGES[_PLACES[stage]], segment, found)
        for (stage, segment), found in failed.items()
    ]
    breaks.sort(key=lambda each: (_PLACES[each.stage], each.segment is not None, -_growth(each)))
    return tuple(msgspec.structs.replace(each, follows=_followed(each, breaks)) for each in breaks)


def version_changes(
    baseline: Population | SideSummary, candidate: Population | SideSummary
) -> tuple[VersionChange, ...]:
    """The components that do not run in the same versions on both sides, by name."""
    before, after = baseline.versions, candidate.versions
    changes = (
        _change(component, before.get(component, {}), after.get(component, {}))
        for component in sorted({*before, *after})
    )
    return tuple(change for change in changes if change is not None)


def _change(component: str, before: Mapping[str, int], after: Mapping[str, int]) -> VersionChange | None:
    old, new = _commonest(before), _commonest(after)
    if old == new and set(before) == set(after):
        return None
    added = _commonest({version: count for version, count in after.items() if version not in before})
    return VersionChange(
        component=component, baseline=old, candidate=added or new, mixed=len(before) > 1 or len(after) > 1
    )


def _commonest(counts: Mapping[str, int]) -> str | None:
    return max(sorted(counts), key=lambda version: counts[version], default=None)


def _sides(comparison: Comparison) -> tuple[_Side, _Side]:
    """Both sides; where they are paired, row by row the same question, in the segment of the baseline's request."""
    baseline, candidate = comparison.baseline, comparison.candidate
    if comparison.pairs is None:
        return _side(baseline, np.arange(len(baseline))), _side(candidate, np.arange(len(candidate)))
    before = _side(baseline, comparison.pairs[:, 0])
    return before, _side(candidate, comparison.pairs[:, 1])._replace(segments=before.segments)


def _side(population: Population, rows: NDArray[np.int64]) -> _Side:
    places = np.array(
        [_place(verdict, stage) for verdict, stage in zip(population.verdicts, population.stages, strict=True)],
        dtype=np.int64,
    )
    return _Side(population, rows, places[rows], np.array(population.segments, dtype=object)[rows])


def _place(verdict: str, stage: str) -> int:
    return _PLACES.get(stage, _HEALTHY if verdict == "healthy" else _UNKNOWN)


def _break(
    paired: bool,
    sides: tuple[_Side, _Side],
    changes: Sequence[VersionChange],
    stage: StageInfo,
    segment: str | None,
    failed: Sequence[Cell],
) -> Break:
    place = _PLACES[stage.name]
    before, after = sides if segment is None else (side.within(side.segments == segment) for side in sides)
    flips = _flips(before.places, after.places, place) if paired else None
    causes = _causes(after.within(flips if flips is not None else after.places == place))
    return Break(
        stage=failed[0].stage or "retrieval",
        segment=segment,
        failure=stage.failure,
        owner=stage.owner,
        broken=(before.share(place), after.share(place)),
        flipped=None if flips is None else int(flips.sum()),
        recovered=None if flips is None else int(_flips(after.places, before.places, place).sum()),
        causes=causes,
        requests=tuple(_examples(before, after, flips, place, failed)),
        suspects=_suspects(changes, stage, causes),
        metrics=tuple(dict.fromkeys(cell.metric for cell in sorted(failed, key=lambda cell: not cell.blocks))),
    )


def _flips(good: NDArray[np.int64], bad: NDArray[np.int64], place: int) -> NDArray[np.bool_]:
    """The pairs that one side brought past the stage and that the other side broke there first."""
    flips: NDArray[np.bool_] = (good > place) & (bad == place)
    return flips


def _causes(side: _Side) -> dict[str, int]:
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
    before: _Side, after: _Side, flips: NDArray[np.bool_] | None, place: int, failed: Sequence[Cell]
) -> Iterator[tuple[str, str]]:
    """The requests that show it best: flipped ones, else those whose scores suffered most."""
    harm = np.zeros(len(after.rows))
    for cell in failed:
        harm += _harm(cell, before, after, paired=flips is not None)
    told = after.places == place if flips is None else flips
    for at in np.lexsort((-harm, ~told))[:_EXAMPLES].tolist():
        if told[at] or harm[at] > 0:
            known = before.population.request_ids[int(before.rows[at])] if flips is not None else ""
            yield known, after.population.request_ids[int(after.rows[at])]


def _harm(cell: Cell, before: _Side, after: _Side, *, paired: bool) -> NDArray[np.float64]:
    """How much worse each request is in a metric, in margins: than its partner, else than the baseline's mean."""
    scores = after.population.scores.get(cell.metric)
    if scores is None:
        return np.zeros(len(after.rows))
    known = before.population.scores[cell.metric][before.rows] if paired else cell.baseline or 0.0
    worse = (scores[after.rows] - known) * (-1.0 if cell.direction == "higher" else 1.0)
    return np.nan_to_num(worse / (cell.margin or 1.0))  # a floor has no margin


def _followed(found: Break, breaks: Sequence[Break]) -> Stage | None:
    """The first earlier stage whose break, in the same place or over all, leaves hardly any to break here first."""
    earlier = [
        each
        for each in breaks
        if _PLACES[each.stage] < _PLACES[found.stage] and each.segment in (None, found.segment) and _growth(each) > 0
    ]
    return next((each.stage for each in earlier if _growth(found) < _OWN_SHARE * _growth(each)), None)


def _growth(found: Break) -> float:
    """By how much the share of requests that break here grew."""
    before, after = found.broken
    return (after or 0.0) - (before or 0.0)
