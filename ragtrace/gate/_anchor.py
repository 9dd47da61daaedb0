"""The fixed anchor beside the last baseline: what many releases lost together, each of them less than the margin.

The candidate is held against the anchor by the same policy, as if it were the baseline. What failed there is told; with
`blocks` it blocks. Both comparisons hold the policy's alpha, so that with `blocks` at most 2 alpha of the candidates
that are as good as both are blocked.
"""

from __future__ import annotations

import msgspec

from ragtrace.gate._judgment import first_broken
from ragtrace.gate.reports.sentences import headline, next_steps
from ragtrace.gate.types import AnchorResult, GateReport

__all__ = ["with_anchor"]


def with_anchor(report: GateReport, against: GateReport, *, blocks: bool = False) -> GateReport:
    """The report, with what its candidate lost since the anchor. against: the same candidate held against the anchor.

    blocks: whether a loss that would block against a baseline blocks here as well.
    """
    worse = tuple(cell for cell in against.cells if cell.outcome == "fail" and cell.family != "floors")
    result = AnchorResult(
        anchor=against.baseline,
        paired=against.paired,
        pairs=against.pairs,
        decision=against.decision,
        blocks=blocks,
        worse=worse,
    )
    harmed = blocks and any(cell.blocks for cell in worse)
    found = msgspec.structs.replace(
        report,
        anchor=result,
        decision="block" if harmed else report.decision,
        first_broken=report.first_broken or (first_broken(worse) if harmed else None),
        warnings=(
            *report.warnings,
            *(f"against the anchor: {each}" for each in against.warnings if each not in report.warnings),
        ),
    )
    return msgspec.structs.replace(found, headline=headline(found), next_steps=next_steps(found))
