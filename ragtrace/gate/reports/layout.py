"""The order of a report: its stages, the first broken one on top, and which of their cells are worth a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragtrace.gate.judgment import FEWEST
from ragtrace.gate.metrics import is_hint
from ragtrace.gate.model import Break, Cell, GateReport, Policy
from ragtrace.gate.reports.figures import harm, label
from ragtrace.registry.instruments import STAGES

__all__ = [
    "RESULTS",
    "Result",
    "Section",
    "floor_of",
    "harm_in_margins",
    "hidden",
    "is_missing",
    "minimum",
    "place",
    "result",
    "sections",
    "stays_open",
    "worst",
]

Result: TypeAlias = Literal["failed", "warned", "inconclusive", "no_data", "passed"]

RESULTS: Final[dict[Result, str]] = {
    "failed": "FAILED",
    "warned": "warning",
    "inconclusive": "inconclusive",
    "no_data": "too few",
    "passed": "passed",
}
_SEVERITY: Final = {name: place for place, name in enumerate(RESULTS)}
_ORDER: Final = {stage.name: place for place, stage in enumerate(STAGES)}
_OWNERS: Final = {stage.name: stage.owner for stage in STAGES}
_FAILED: Final = 16
_OPEN: Final = 3


@dataclass(frozen=True, slots=True)
class Section:
    """A stage: its cells, those over all requests first, then the worst first; and why it got worse, by segment."""

    name: str
    owner: str | None
    cells: tuple[Cell, ...]
    breaks: tuple[Break, ...]

    @property
    def result(self) -> Result:
        """The worst of its cells."""
        return worst(self.cells)

    @property
    def of_all(self) -> Result:
        """What became of it over all requests."""
        return worst([cell for cell in self.cells if cell.segment is None])

    @property
    def follows(self) -> str | None:
        """The earlier stage that all of it follows from, where it failed for no reason of its own."""
        stages = {found.follows for found in self.breaks}
        return next(iter(stages)) if len(stages) == 1 else None

    def segments(self) -> dict[Result, list[str]]:
        """The segments by the worst that became of one, gravest first; the worst segments first."""
        cells: dict[str, list[Cell]] = {}
        for cell in self.cells:
            if cell.segment is not None:
                cells.setdefault(cell.segment, []).append(cell)
        results = {name: worst(own) for name, own in cells.items()}
        return {each: found for each in RESULTS if (found := [name for name in results if results[name] == each])}

    def listed(self, *, every: bool = False) -> tuple[Cell, ...]:
        """The cells worth a line: those of all requests, failed and warned ones, and open ones that look worse; of what
        only points to a break, those that warn."""
        if every:
            return self.cells
        shown = [cell for cell in self.cells if result(cell) == "warned" or not is_hint(cell.metric)]
        overall = [cell for cell in shown if cell.segment is None]
        parts = [cell for cell in shown if cell.segment is not None]
        failed = [cell for cell in parts if result(cell) == "failed"]
        rest = [cell for cell in parts if result(cell) in ("warned", "inconclusive") and harm(cell) > 0]
        return (*overall, *failed[:_FAILED], *rest[: max(0, _OPEN - len(failed))])


def hidden(stages: Sequence[Section]) -> str:
    """The cells that are not listed, counted."""
    counts: Counter[Result] = Counter()
    for section in stages:
        shown = section.listed()
        counts += Counter(map(result, section.cells)) - Counter(map(result, shown))
    return ", ".join(f"{counts[name]} {word}" for name, word in RESULTS.items() if counts[name])


def sections(report: GateReport) -> tuple[Section, ...]:
    """The stages that were judged: failed ones first, each group in the order of the path."""
    names = dict.fromkeys(cell.stage for cell in report.cells)
    stages = [
        Section(
            stage or "request",
            _OWNERS.get(stage or ""),
            tuple(sorted((cell for cell in report.cells if cell.stage == stage), key=_rank)),
            tuple(break_ for break_ in report.breaks if break_.stage == stage),
        )
        for stage in names
    ]
    return tuple(
        sorted(stages, key=lambda section: (section.result != "failed", _ORDER.get(section.name, len(_ORDER))))
    )


def result(cell: Cell) -> Result:
    """What became of a cell."""
    if cell.outcome == "fail":
        return "failed" if cell.action == "block" else "warned"
    if cell.outcome == "not_enough_data":
        return "no_data"
    return "inconclusive" if cell.outcome == "inconclusive" else "passed"


def worst(cells: Sequence[Cell]) -> Result:
    """The gravest result; too little data counts where it was required, or where there is nothing else; so does what
    only points to a break, unless it warns."""
    firm = [cell for cell in cells if result(cell) == "warned" or not is_hint(cell.metric)] or cells
    telling = [cell for cell in firm if cell.required or result(cell) != "no_data"] or firm
    return min((result(cell) for cell in telling), key=lambda name: _SEVERITY[name], default="passed")


def stays_open(cell: Cell, policy: Policy) -> bool:
    """Whether a cell alone leaves the gate undecided."""
    if cell.action != "block":
        return False
    if cell.family == "segments":
        return cell.outcome == "inconclusive" and policy.on_inconclusive_segment == "block"
    return cell.outcome in ("inconclusive", "not_enough_data") and policy.on_inconclusive == "block"


def is_missing(cell: Cell) -> bool:
    """Whether it lacks the data that the policy requires; what only warns is not held to that."""
    return cell.required and cell.action == "block" and cell.outcome == "not_enough_data"


def minimum(cell: Cell, report: GateReport) -> int:
    """The fewest requests that a verdict on its metric takes."""
    return max(FEWEST, *(rule.minimum for rule in report.policy.rules if rule.metric == cell.metric), 0)


def floor_of(cell: Cell, report: GateReport) -> float | None:
    """The floor that a cell was held against; None for a cell that compares the sides."""
    if cell.family != "floors":
        return None
    return next((rule.floor for rule in report.policy.rules if rule.metric == cell.metric), None)


def harm_in_margins(cell: Cell) -> float:
    """How much worse it is, for an order among metrics of different units; a floor knows no margin."""
    return harm(cell) / cell.margin if cell.margin > 0 else 0.0


def place(cell: Cell) -> str:
    """Where a cell was judged."""
    return "all requests" if cell.segment is None else label(cell.segment)


def _rank(cell: Cell) -> tuple[bool, int, float]:
    is_part = cell.segment is not None
    return is_part, _SEVERITY[result(cell)], -harm_in_margins(cell) if is_part else 0.0
