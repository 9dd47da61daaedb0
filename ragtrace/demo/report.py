"""Prints a demo run: a table per scenario, confusion tables, one failed request's path, and how to look further."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ragtrace.demo.results import UNTOUCHED, Agreement, DemoResult, ScenarioResult, SegmentResult
from ragtrace.export import evidence_path
from ragtrace.registry.instruments import INSTRUMENTS, STAGES

__all__ = ["WIDTH", "report"]

WIDTH: Final = 100
_COLUMNS: Final = {
    "query_coverage": "QC",
    "evidence_recall": "EO",
    "answer_coverage": "AC",
    "citation_coverage": "CC",
    "contradiction_rate": "con.",
}
_LEGEND: Final = Text(
    "QC query coverage, EO share of the needed evidence that is in the prompt, AC share of the claims\n"
    "that is supported, CC cited, con. contradicted; red: the average misses the objective",
    style="dim",
)
_SHORT: Final = {"generation": "generat.", "retrieval": "retriev.", "no_break_found": "no break"}
_TRUTH: Final = "true \\ found"
_GAP: Final = 4  # columns between two tables
_STAGE_NAMES: Final = tuple(stage.name for stage in STAGES)


def report(result: DemoResult) -> RenderableType:
    """The whole report, made for `WIDTH` columns."""
    parts: list[RenderableType] = [_intro(result), _LEGEND]
    for scenario in result.scenarios:
        parts += [Text(), _scenario(scenario)]
    parts += [Text(), _rule("Does the diagnosis name what the fault really did?"), _accuracy(result.scenarios)]
    parts += [Text(), _confusions(result.scenarios)]
    if result.example is not None:
        parts += [Text(), _rule("One failed request, from question to claim")]
        parts.append(evidence_path.render(result.example.record, result.example.oracle))
    parts += [Text(), _rule("Look further"), _further(result)]
    return Group(*parts)


def _intro(result: DemoResult) -> Text:
    requests = sum(scenario.requests for scenario in result.scenarios)
    return Text(
        f"{result.documents} policy wordings in {result.chunks:,} chunks; {requests} requests of service "
        f"{result.service} in {result.seconds:.0f} s",
        style="dim",
    )


def _rule(title: str) -> Rule:
    return Rule(Text(title, style="bold"), align="left", style="dim")


def _scenario(scenario: ScenarioResult) -> Group:
    table = _table()
    table.add_column("segment", width=11)
    for name in _COLUMNS.values():
        table.add_column(name, justify="right", width=4)
    table.add_column("broke first in", width=16)
    table.add_column("owner", width=21)
    table.add_column("suspected rollout", overflow="fold")
    for segment in scenario.segments:
        table.add_row(*_segment(segment))
    title = Text(scenario.name, style="bold").append(f"  {scenario.brief}", style="dim not bold")
    return Group(Rule(title, align="left", style="dim"), table)


def _segment(segment: SegmentResult) -> Iterator[Text]:
    yield Text(segment.segment)
    for metric in _COLUMNS:
        yield _value(metric, segment.metrics[metric])
    stage = segment.first_broken_stage
    if stage is None:
        yield Text(f"none of {segment.requests}", style="green")
    else:
        yield Text(f"{stage} {segment.stages[stage]}/{segment.requests}", style="red")
    yield Text(segment.owner or "")
    yield Text(segment.suspected_rollout or "", style="yellow")


def _value(metric: str, value: float | None) -> Text:
    if value is None:
        return Text("-", style="dim")
    objective = INSTRUMENTS[metric].objective
    return Text(f"{value:.2f}", style="" if objective is None or objective.met(value) else "red")


def _accuracy(scenarios: Iterable[ScenarioResult]) -> Table:
    table = _table()
    table.add_column("\nscenario", min_width=11)
    for name in ("requests", "affected", "untouched", "organic"):
        table.add_column(f"\n{name}", justify="right")
    for reference in ("oracle", "proxy"):
        table.add_column(f"{reference}:\nright stage", justify="right", min_width=12)
        table.add_column("\nfalse blame", justify="right", min_width=11)
    for scenario in scenarios:
        counts = (scenario.requests, scenario.oracle.affected, scenario.oracle.untouched, scenario.organic)
        shares = [
            _share(share)
            for found in (scenario.oracle, scenario.proxy)
            for share in (found.first_stage_accuracy, found.false_blame)
        ]
        table.add_row(scenario.name, *map(str, counts), *shares)
    return table


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _confusions(scenarios: Iterable[ScenarioResult]) -> RenderableType:
    """One table for each reference: beside each other where there is room, else below each other."""
    found = list(scenarios)
    oracle = _confusion([scenario.oracle for scenario in found])
    proxy = _confusion([scenario.proxy for scenario in found])
    titled = [
        Group(Text(title, style="bold"), table)
        for title, table in (("with the oracle evidence", oracle), ("with the proxy reference alone", proxy))
    ]
    if _width(oracle) + _width(proxy) + _GAP > WIDTH:
        return Group(titled[0], Text(), titled[1])
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_row(*titled)
    return grid


def _width(table: Table) -> int:
    """Characters of a table whose columns are as wide as their heads, the first one as its longest cell."""
    return len(_TRUTH) + sum(len(str(column.header)) + 1 for column in table.columns[1:])


def _confusion(agreements: Iterable[Agreement]) -> Table:
    counts: dict[tuple[str, str], int] = {}
    for agreement in agreements:
        for key, count in agreement.confusion.items():
            counts[key] = counts.get(key, 0) + count
    found = [*_STAGE_NAMES, *sorted({name for _, name in counts} - set(_STAGE_NAMES))]
    found = [name for name in found if any(key[1] == name for key in counts)]
    table = _table()
    table.add_column(_TRUTH)
    for name in found:
        table.add_column(_SHORT.get(name, name), justify="right")
    for truth in (*_STAGE_NAMES, UNTOUCHED):
        if any(key[0] == truth for key in counts):
            table.add_row(truth, *(_count(counts.get((truth, name), 0), truth, name) for name in found))
    return table


def _count(count: int, truth: str, found: str) -> Text:
    right = truth == found or (truth == UNTOUCHED and found not in _STAGE_NAMES)
    return Text(str(count) if count else ".", style=("green" if right else "bold red") if count else "dim")


def _further(result: DemoResult) -> Table:
    request = result.example.record.request_id if result.example else "REQUEST_ID"
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(Text("one request", style="dim"), Text(f"ragtrace show {request} --store {result.store_url}"))
    table.add_row(Text("all metrics", style="dim"), Text(f"ragtrace export --store {result.store_url}"))
    table.add_row(Text("the set-up", style="dim"), Text(f"ragtrace doctor --store {result.store_url}"))
    return table


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
