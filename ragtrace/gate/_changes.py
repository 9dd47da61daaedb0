"""The questions that got worse in each cell that did not pass, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.gate._sizes import OTHER
from ragtrace.gate.statistics.means import Rows, rows_of
from ragtrace.gate.types import Cell, CellChanges, ChangedPair, Comparison, Direction

__all__ = ["find_changes", "is_suspicious"]

_PAIRS: Final = 5  # questions of a cell

_Floats = NDArray[np.float64]


def is_suspicious(cell: Cell) -> bool:
    """Whether a cell is worth a look at its questions: it failed or warns, or is open and looks worse."""
    if cell.outcome == "fail":
        return True
    harm = (cell.difference or 0.0) * (-1.0 if cell.direction == "higher" else 1.0)
    return cell.outcome == "inconclusive" and (harm > 0 or cell.unjudged is not None)


def find_changes(comparison: Comparison, cells: Sequence[Cell], small: Sequence[str] = ()) -> tuple[CellChanges, ...]:
    """Of each such cell the questions that lost most, and among equals those that lost most in the others as well.

    A pair's loss is against its own baseline. Without pairs it is against the baseline's mean.
    """
    chosen = [cell for cell in cells if cell.family != "floors" and is_suspicious(cell)]
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


def _worst(cell: Cell, rows: Rows, total: _Floats | float) -> Iterator[ChangedPair]:
    own = _losses(cell, rows)
    before, after = rows.baseline.column(cell.metric), rows.candidate.column(cell.metric)
    for at in np.lexsort((-np.asarray(total), -own))[:_PAIRS].tolist():
        if own[at] <= 0:
            return
        earlier = rows.baseline.population.request_ids[int(rows.baseline.places[at])] if rows.paired else ""
        yield ChangedPair(
            baseline=earlier,
            candidate=rows.candidate.population.request_ids[int(rows.candidate.places[at])],
            before=_known(before[at]) if rows.paired else None,
            after=_known(after[at]),
        )


def _losses(cell: Cell, rows: Rows) -> _Floats:
    """How much worse each request is; 0 where it cannot be told."""
    after = rows.candidate.column(cell.metric)
    before = rows.baseline.column(cell.metric) if rows.paired else cell.baseline or 0.0
    return np.nan_to_num((after - before) * _sign(cell.direction))


def _sign(direction: Direction) -> float:
    return -1.0 if direction == "higher" else 1.0


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
