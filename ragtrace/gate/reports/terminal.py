"""The gate's report for a terminal of 80 columns or more: the verdict, then stage by stage, the first broken on top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragtrace.export.evidence_path import labeled, plain_table
from ragtrace.formats import percent, plain, show_command
from ragtrace.gate._metrics import METRICS
from ragtrace.gate.reports import content
from ragtrace.gate.reports.content import RESULTS, Section, floor_of, hidden, place, result, sections
from ragtrace.gate.reports.questions import as_text, stage_questions
from ragtrace.gate.reports.sentences import (
    LABELED,
    cause,
    confidence,
    consequences,
    facts,
    flips,
    headline,
    labeled_changes,
    next_steps,
    remarks,
)
from ragtrace.gate.types import Break, Cell, GateReport, SelfCheck

__all__ = ["render_report", "render_selfcheck"]

_COLORS: Final = {"block": "bold red", "undecided": "bold yellow", "pass": "bold green"}
_STYLES: Final = {"failed": "bold red", "warned": "yellow", "inconclusive": "yellow", "no_data": "dim",
                  "passed": "green"}  # fmt: skip
_NEARLY_ALL: Final = 0.95  # of the splits undecided: nothing is learned from them
_WIDE: Final = 116
_NARROWEST: Final = 12
_BREAKS: Final = 3
_EXAMPLES: Final = 2
_QUESTIONS: Final = 2  # of a stage


def render_report(report: GateReport, *, every: bool = False, store: str | None = None) -> RenderableType:
    """The report. every: also the segments that passed, and all breaks. store: named in the commands, where given."""
    stages = sections(report)
    parts: list[RenderableType] = [Text(headline(report), style=_COLORS[report.decision]), Text()]
    parts += [labeled(*((name, Text(text)) for name, text in facts(report))), Text(), _stages(stages), Text()]
    parts += [_Cells(stages, report, every=every), Text(_note(stages, every=every), style="dim")]
    parts += _breaks([each for section in stages for each in section.breaks], every=every, store=store)
    for stage, questions in stage_questions(report).items():
        parts += [Text(), Text(f"questions that got worse: {stage}", style="bold")]
        parts += as_text(questions if every else questions[:_QUESTIONS])
    if rows := content.provider_rows(report):
        table = plain_table(*rows[0])
        for row in rows[1:]:
            table.add_row(*map(Text, row))
        parts += [Text(), Text(content.PROVIDERS, style="bold"), table]
    ends = ((LABELED, labeled_changes(report)), ("Mind", remarks(report)), ("Next", next_steps(report)))
    for title, lines in ends:
        if lines:
            parts += [Text(), Text(title, style="bold"), *(_item(line) for line in lines)]
    return Group(*parts)


def _note(stages: Sequence[Section], *, every: bool) -> str:
    rest = "" if every else hidden(stages)
    return "change and margin in points where no unit is named" + (f"; not listed: {rest} (--all)" if rest else "")


def _item(line: str) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_row("-", Text(plain(line)))
    return table


def _stages(stages: Sequence[Section]) -> Table:
    """Stage by segment: segments that passed are counted, the others named."""
    table = plain_table("stage", "all requests", "segments")
    table.columns[2].max_width = None
    for section in stages:
        segments = Text()
        for name, names in section.segments().items():
            segments.append("; " if segments else "").append(f"{len(names)} {RESULTS[name]}", style=_STYLES[name])
            if name != "passed":
                segments.append(f": {content.segment_names(names)}")
        of_all = Text(RESULTS[section.of_all], style=_STYLES[section.of_all])
        if section.follows is not None:
            segments.append(f"; follows from {section.follows}", style="dim")
        table.add_row(Text(section.name, style="bold"), of_all, segments or Text("-"))
    return table


def _breaks(failed: Sequence[Break], *, every: bool, store: str | None) -> Iterator[RenderableType]:
    own = [break_ for break_ in failed if break_.follows is None]
    shown = own if every else own[:_BREAKS]
    for number, break_ in enumerate(shown):
        before = next((one for one in shown[:number] if one.stage == break_.stage), None)
        where = "all requests" if break_.segment is None else content.shown_name(break_.segment)
        yield Text()
        yield Text(f"{break_.failure.replace('_', ' ')} in {where}", style="bold")
        yield Padding(labeled(*_signature(break_, before, store)), (0, 0, 0, 2))
    more = len(own) - len(shown)
    if more:
        yield Text()
        yield Text(f"and in {more} more place{'' if more == 1 else 's'}: --all", style="dim")
    for line in consequences(failed):
        yield Text()
        yield Text(line)


def _signature(break_: Break, before: Break | None, store: str | None) -> Iterator[tuple[str, RenderableType]]:
    """before: the stage's break above, whose lines are not said again."""
    yield "flipped" if break_.flipped is not None else "share", Text(flips(break_))
    if break_.causes:
        yield "causes", Text(cause(break_))
    if break_.suspects and (before is None or before.suspects != break_.suspects):
        yield "suspect", Text(", ".join(content.change(each) for each in break_.suspects), style="bold yellow")
    if before is None:
        yield "owner", Text(break_.owner)
    where = f" --store {quote(store)}" if store else ""
    for earlier, after in break_.requests[: _EXAMPLES if before is None else 1]:
        yield "look at", Text(f"{show_command(after)}{where}")
        if earlier:
            yield "before", Text(f"{show_command(earlier)}{where}", style="dim")


class _Cells:
    """The cells as one table, with as many columns as there is room for."""

    def __init__(self, found: Sequence[Section], report: GateReport, *, every: bool) -> None:
        self._sections = found
        self._report = report
        self._every = every

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= _WIDE
        texts, numbers = ["verdict", "segment", "metric"], ["change", f"{confidence(self._report)} interval", "margin"]
        table = plain_table(*texts, *(["baseline", "candidate"] if wide else []), *numbers, *(["n"] if wide else []))
        table.padding = (0, 2 if wide else 1, 0, 0)
        for column in table.columns[len(texts) :]:
            column.justify, column.no_wrap = "right", True
        listed = [(section, section.listed(every=self._every)) for section in self._sections]
        names = (place(cell) for _, cells in listed for cell in cells)
        table.columns[0].no_wrap = True
        table.columns[1].no_wrap = max(map(len, names), default=0) <= _NARROWEST
        table.columns[2].no_wrap = wide  # where there is no room, words break and no figure does
        for section, cells in listed:
            if cells:
                table.add_row(Text(f"{section.name}:", style="bold"))
            for cell in cells:
                table.add_row(*self._row(cell, wide=wide))
        yield table

    def _row(self, cell: Cell, *, wide: bool) -> Iterator[Text]:
        name = result(cell)
        yield Text(f"{'  ' if wide else ''}{RESULTS[name]}", style=_STYLES[name])
        yield Text(place(cell), style="dim" if cell.segment is None else "")
        yield Text(content.short_name(cell.metric))
        if wide:
            yield Text(content.level(cell, cell.baseline))
            yield Text(content.level(cell, cell.candidate))
        floor = floor_of(cell, self._report)
        if floor is None:
            yield Text(content.signed(cell, cell.difference))
            yield Text(content.interval(cell))
            yield Text(content.width(cell, cell.margin))
        else:
            yield Text(content.level(cell, cell.candidate))
            yield Text("floor" if cell.direction == "higher" else "limit")
            yield Text(content.level(cell, floor))
        if wide:
            yield Text(content.count(cell))


def render_selfcheck(check: SelfCheck) -> RenderableType:
    """The share of false blocks against what is promised, and what the policy would find, the weakest metric first."""
    is_kept, is_decided = check.low <= check.alpha, check.inconclusive_rate < _NEARLY_ALL
    kept = "NOT KEPT" if not is_kept else "kept" if is_decided else "not tested, since they are undecided"
    what = "random splits of the baseline" if check.pairs is None else "random exchanges within its pairs"
    verdict = f"{percent(check.false_block_rate)} of {check.runs:,} {what} were blocked"
    promise = f"at most {percent(check.alpha)} is promised: {kept}"
    lines = [
        ("false blocks", f"{percent(check.low)} to {percent(check.high)} with 95 % confidence"),
        ("passed", percent(check.pass_rate)),
        ("inconclusive", percent(check.inconclusive_rate)),
        ("requests", f"{check.requests:,}, half of them on each side")
        if check.pairs is None
        else ("pairs", f"{check.pairs:,}"),
    ]
    parts: list[RenderableType] = [
        Text(f"{verdict}; {promise}.", style=f"bold {_kept_color(is_kept, is_decided)}"),
        Text(),
        labeled(*((name, Text(text)) for name, text in lines)),
    ]
    if check.powers:
        table = plain_table("metric", "power at its margin", "")
        for metric, power in sorted(check.powers.items(), key=lambda each: each[1]):
            enough = power >= check.wanted_power
            word = Text(
                "enough" if enough else f"below {percent(check.wanted_power)}", style="" if enough else "yellow"
            )
            name = METRICS[metric].title if metric in METRICS else metric.replace("_", " ")
            table.add_row(name, percent(power), word)
        parts += [Text(), table]
    if check.warnings:
        parts += [Text(), Text("Mind", style="bold"), *(Text(f"- {plain(warning)}") for warning in check.warnings)]
    return Group(*parts)


def _kept_color(is_kept: bool, is_decided: bool) -> str:
    return "red" if not is_kept else "green" if is_decided else "yellow"
