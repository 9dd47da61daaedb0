"""What follows from the judged cells: the decision, the first broken stage, and what to say about the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ragtrace.gate.metrics import METRICS
from ragtrace.gate.model import Cell, Comparison, Decision, Policy, Population
from ragtrace.registry.instruments import STAGES
from ragtrace.types import Stage

__all__ = ["decide", "first_broken", "warnings"]

_SHOWN: Final = 3
_UNDECIDED: Final = ("inconclusive", "not_enough_data")


def decide(cells: Sequence[Cell], policy: Policy) -> Decision:
    """Block for a cell that fails and blocks; for a required segment without enough data by `on_missing`; else stay
    undecided where the policy says so, and wherever nothing had data enough to be judged; else pass."""
    if any(cell.blocks for cell in cells):
        return "block"
    blocking = [cell for cell in cells if cell.action == "block"]
    missing = [cell for cell in blocking if cell.required and cell.outcome == "not_enough_data"]
    if missing and policy.on_missing == "block":
        return "block"
    overall = [cell for cell in blocking if cell.family != "segments"]
    segments = [cell for cell in blocking if cell.family == "segments"]
    if policy.on_inconclusive == "block" and any(cell.outcome in _UNDECIDED for cell in overall):
        return "undecided"
    if policy.on_inconclusive_segment == "block" and any(cell.outcome == "inconclusive" for cell in segments):
        return "undecided"
    return "pass" if any(cell.outcome != "not_enough_data" for cell in cells) else "undecided"


def first_broken(cells: Sequence[Cell]) -> Stage | None:
    """The earliest stage with a cell that blocks."""
    blocked = {cell.stage for cell in cells if cell.blocks}
    return next((stage.name for stage in STAGES if stage.name in blocked), None)


def warnings(comparison: Comparison, cells: Sequence[Cell], left_out: Sequence[str]) -> tuple[str, ...]:
    """What a reader must know of the comparison itself, in sentences."""
    return tuple(_sentences(comparison, cells, left_out))


def _sentences(comparison: Comparison, cells: Sequence[Cell], left_out: Sequence[str]) -> Iterator[str]:
    for side, population in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        yield from _of_side(side, population)
    if comparison.paired and any(comparison.unmatched):
        before, after = comparison.unmatched
        yield f"Without a partner, and left out: {before} of the baseline's requests and {after} of the candidate's."
    if left_out:
        yield f"Neither side has them, so they are not judged: {', '.join(left_out)}."
    yield from _undetectable(cells, "pairs" if comparison.paired else "requests a side")


def _of_side(side: str, population: Population) -> Iterator[str]:
    if population.excluded:
        told = ", ".join(f"{number} {reason}" for reason, number in population.excluded.items())
        yield f"Left out of the {side}: {told}."
    mixed = {component: counts for component, counts in population.versions.items() if len(counts) > 1}
    if mixed:
        told = "; ".join(f"{component} {_counted(counts)}" for component, counts in mixed.items())
        yield f"The {side} mixes versions: {told}."


def _counted(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    more = ", ..." if len(ordered) > _SHOWN else ""
    return ", ".join(f"{version} ({number})" for version, number in ordered[:_SHOWN]) + more


def _undetectable(cells: Sequence[Cell], unit: str) -> Iterator[str]:
    """Rules over all requests that these data leave open, and whose own margin they could not show."""
    open_ones = [cell for cell in cells if cell.family == "overall" and cell.outcome == "inconclusive"]
    weak = [cell for cell in open_ones if cell.detectable is not None and cell.detectable > cell.margin]
    if weak:
        told = ", ".join(
            METRICS[cell.metric].title + (f" ({cell.needed} {unit} would)" if cell.needed is not None else "")
            for cell in sorted(weak, key=lambda cell: -(cell.needed or 0))[:_SHOWN]
        )
        more = f" and {len(weak) - _SHOWN} more" if len(weak) > _SHOWN else ""
        yield f"With these data the policy cannot detect its own margin of {told}{more}."
