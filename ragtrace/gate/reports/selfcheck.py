"""What the gate does with a baseline against itself, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ragtrace.export.evidence_path import labeled, plain_table
from ragtrace.gate.metrics import METRICS
from ragtrace.triage.wording import percent, plain

if TYPE_CHECKING:
    from ragtrace.gate.selfcheck import SelfCheck

__all__ = ["render"]


def render(found: SelfCheck) -> RenderableType:
    """The share of false blocks against what is promised, and what the policy would find, the weakest metric first."""
    kept = found.low <= found.alpha
    what = "random splits of the baseline" if found.pairs is None else "random exchanges within its pairs"
    verdict = f"{percent(found.false_block_rate)} of {found.runs:,} {what} were blocked"
    promise = f"at most {percent(found.alpha)} is promised: {'kept' if kept else 'NOT KEPT'}"
    lines = [
        ("false blocks", f"{percent(found.low)} to {percent(found.high)} with 95 % confidence"),
        ("passed", percent(found.pass_rate)),
        ("inconclusive", percent(found.inconclusive_rate)),
        ("requests", f"{found.requests:,}, half of them on each side")
        if found.pairs is None
        else ("pairs", f"{found.pairs:,}"),
    ]
    parts: list[RenderableType] = [
        Text(f"{verdict}; {promise}.", style="bold green" if kept else "bold red"),
        Text(),
        labeled(*((name, Text(text)) for name, text in lines)),
    ]
    if found.powers:
        table = plain_table("metric", "power at its margin", "")
        for metric, power in sorted(found.powers.items(), key=lambda each: each[1]):
            enough = power >= found.wanted_power
            word = Text(
                "enough" if enough else f"below {percent(found.wanted_power)}", style="" if enough else "yellow"
            )
            name = METRICS[metric].title if metric in METRICS else metric.replace("_", " ")
            table.add_row(name, percent(power), word)
        parts += [Text(), table]
    if found.warnings:
        parts += [Text(), Text("Mind", style="bold"), *(Text(f"- {plain(warning)}") for warning in found.warnings)]
    return Group(*parts)
