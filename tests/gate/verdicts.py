"""One metric judged, and cells that are judged already: what the tests of verdicts share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from ragtrace.gate._judgment import judge
from ragtrace.gate._metrics import METRICS
from ragtrace.gate.types import Cell, Policy, Rule
from tests.gate.populations import pair, population, unpaired

KINDS: Final = ("boolean", "score", "quantity")
SCORE: Final = Rule(metric="m", kind="score", direction="higher", margin=0.05)


def sure(figure: float | None) -> float:
    """A figure that is there."""
    assert figure is not None
    return figure


def verdict(baseline: Any, candidate: Any, rule: Rule = SCORE, *, paired: bool = True, **policy: Any) -> Cell:
    """The overall cell of one metric."""
    sides = (population({"m": values}, name=name) for name, values in (("b", baseline), ("c", candidate)))
    cells = judge((pair if paired else unpaired)(*sides), Policy(rules=(rule,), **policy))
    return next(cell for cell in cells if cell.family == "overall")


def of(cells: Sequence[Cell], metric: str, segment: str | None = None, family: str | None = None) -> Cell:
    """The cell of a metric in a segment."""
    return next(c for c in cells if c.metric == metric and c.segment == segment and family in (None, c.family))


def scores(seed: int, count: int = 400, mean: float = 0.8) -> Any:
    """Many exact ones and zeros."""
    chance = np.random.default_rng(seed)
    return np.where(chance.random(count) < mean, np.where(chance.random(count) < 0.7, 1.0, chance.random(count)), 0.0)


def cell_of(outcome: str, metric: str = "answer_coverage", **fields: Any) -> Cell:
    """One judged cell; any field may be given."""
    known = METRICS[metric]
    given: dict[str, Any] = {
        "stage": known.stage,
        "segment": None,
        "family": "overall",
        "action": "block",
        "margin": 0.03,
    }
    given |= {"kind": known.kind, "direction": known.direction, "outcome": outcome, "reason": "", "n": (9, 9), **fields}
    return msgspec.convert({"metric": metric, **given}, Cell)


def segment_of(outcome: str, **fields: Any) -> Cell:
    """A cell of a segment."""
    return cell_of(outcome, **{"segment": "refunds", "family": "segments", **fields})
