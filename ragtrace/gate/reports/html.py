"""The gate's report as one HTML file that needs nothing else: neither network nor script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ragtrace.export.charts import ticks
from ragtrace.formats import percent, plain, show_command
from ragtrace.gate.reports import content
from ragtrace.gate.reports.content import RESULTS, Result, Section, floor_of, of_place, place, result, sections, worst
from ragtrace.gate.reports.questions import StageQuestion, as_html, stage_questions
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
from ragtrace.gate.types import Break, Cell, GateReport
from ragtrace.html_page import Html, asset, join, standalone, tag

__all__ = ["Scale", "html", "report_body", "scale"]

_SIGNS: Final[dict[Result, str]] = {"failed": "✕", "warned": "!", "inconclusive": "?", "no_data": "–", "passed": "✓"}
_PLOTS: Final = (
    "In the plots below, a dot is the change from baseline to candidate, its bar the {} interval; the dashed line is "
    "the margin, and what lies in the shaded part is worse than it."
)
_COLUMNS: Final = 12
_EXAMPLES: Final = 5
_IN_SIGHT, _QUESTIONS = 3, 20  # of a stage
_ROOM = 0.06
_TICKS = 6


def html(report: GateReport) -> str:
    """The whole file."""
    style = asset("ragtrace.export", "base.css") + asset("ragtrace.gate.reports", "gate.css")
    return standalone(f"Release gate: {headline(report)}", style, tag("main", report_body(report)))


def report_body(report: GateReport) -> Html:
    """What the file shows, for a page that has its style."""
    stages, questions = sections(report), stage_questions(report)
    return join(
        _header(report),
        _advice(report),
        _matrix(stages, report),
        _mix(report),
        _providers(report),
        *(_stage(section, report, questions.get(section.name, ())) for section in stages),
        _computed(report),
    )


def _header(report: GateReport) -> Html:
    at = datetime.fromtimestamp(report.created_at / 1e9, UTC)
    origin = [report.service and plain(report.service), f"{at:%Y-%m-%d %H:%M:%S} UTC", report.run_id]
    word, _, rest = headline(report).partition(": ")
    return tag(
        "header",
        tag("p", "Release gate · " + " · ".join(each for each in origin if each), class_="eyebrow"),
        tag("h1", tag("span", word, class_=f"decision {report.decision}"), " ", rest, dir="auto"),
        _listing(facts(report)),
    )


def _listing(lines: Iterator[tuple[str, str]]) -> Html:
    return tag("dl", *(join(tag("dt", name), tag("dd", text, dir="auto")) for name, text in lines))


def _advice(report: GateReport) -> Html:
    parts = [tag("section", tag("h2", "What to do next"), tag("ol", *(tag("li", step) for step in next_steps(report))))]
    if found := remarks(report):
        parts.append(tag("section", tag("h2", "Mind"), tag("ul", *(tag("li", remark) for remark in found))))
    if labeled := labeled_changes(report):
        parts.append(tag("section", tag("h2", LABELED), tag("ul", *(tag("li", line) for line in labeled))))
    return join(*parts)


def _matrix(stages: Sequence[Section], report: GateReport) -> Html:
    """Every stage in every segment; the segments in which most went wrong first."""
    names = _segments(report)
    shown = names[:_COLUMNS]
    head = tag(
        "tr", *(tag("th", name, scope="col") for name in ("stage", "all requests", *map(content.shown_name, shown)))
    )
    rows = [
        tag(
            "tr",
            tag("th", tag("a", section.name, href=f"#{_anchor(section)}"), scope="row"),
            _sign(section.of_all),
            *(_sign(_segment_result(section, name)) for name in shown),
        )
        for section in stages
    ]
    legend = ", ".join(f"{sign} {RESULTS[name]}" for name, sign in _SIGNS.items())
    more = f" {len(names) - len(shown)} more segments are listed below." if len(names) > len(shown) else ""
    table = tag("table", tag("caption", "Stages by segment"), tag("thead", head), tag("tbody", *rows), class_="matrix")
    return tag(
        "section",
        tag("h2", "Stages and segments"),
        tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Stages by segment"),
        tag("p", f"{legend}.{more}", class_="legend"),
        tag("p", _PLOTS.format(confidence(report)), class_="legend"),
    )


def _mix(report: GateReport) -> Html:
    """The segments of live traffic: their shares on both sides, and by how much the candidate's requests count."""
    if not report.mix:
        return Html("")
    head = tag(
        "tr",
        tag("th", "segment", scope="col"),
        *(tag("th", name, scope="col", class_="num") for name in ("baseline", "candidate", "counts")),
    )
    rows = [
        tag(
            "tr",
            tag("th", content.shown_name(each.segment), scope="row", dir="auto"),
            tag("td", percent(each.baseline), class_="num"),
            tag("td", percent(each.candidate), class_="num"),
            tag("td", "left out" if each.factor is None else f"× {each.factor:.3g}", class_="num"),
        )
        for each in sorted(report.mix, key=lambda each: -each.baseline)
    ]
    table = tag("table", tag("caption", "Segments by share"), tag("thead", head), tag("tbody", *rows), class_="mix")
    summary = tag("summary", tag("b", "Segments in the baseline's proportions"))
    return tag("details", summary, tag("div", table, class_="scroll"))


def _providers(report: GateReport) -> Html:
    """Whose documents stand in prompts on both sides."""
    rows = content.provider_rows(report)
    if not rows:
        return Html("")
    head = tag("tr", *(tag("th", name, scope="col", class_="num" if at else None) for at, name in enumerate(rows[0])))
    body = [
        tag("tr", tag("th", row[0], scope="row", dir="auto"), *(tag("td", cell, class_="num") for cell in row[1:]))
        for row in rows[1:]
    ]
    table = tag("table", tag("caption", "Providers"), tag("thead", head), tag("tbody", *body), class_="mix")
    summary = tag("summary", tag("b", content.PROVIDERS))
    return tag("details", summary, tag("div", table, class_="scroll"))


def _segments(report: GateReport) -> list[str]:
    cells: dict[str, list[Cell]] = {}
    for cell in report.cells:
        if cell.segment is not None:
            cells.setdefault(cell.segment, []).append(cell)
    order = list(RESULTS)
    return sorted(cells, key=lambda name: (order.index(worst(cells[name])), name))


def _segment_result(section: Section, segment: str) -> Result | None:
    cells = [cell for cell in section.cells if cell.segment == segment]
    return of_place(cells) if cells else None


def _sign(outcome: Result | None) -> Html:
    if outcome is None:
        return tag("td")
    mark = tag("span", _SIGNS[outcome], aria_hidden="true")
    return tag("td", mark, tag("span", RESULTS[outcome], class_="spoken"), class_=outcome)


def _anchor(section: Section) -> str:
    return f"stage-{section.name.replace(' ', '-')}"


def _stage(section: Section, report: GateReport, questions: Sequence[StageQuestion]) -> Html:
    metrics = dict.fromkeys(cell.metric for cell in section.cells)
    own = [break_ for break_ in section.breaks if break_.follows is None]
    follows = f", follows from {section.follows}" if section.follows is not None else ""
    word = tag("span", RESULTS[section.result] + follows, class_=f"state {section.result}")
    return tag(
        "section",
        tag("h2", section.name, " ", word),
        tag("p", f"owner {section.owner}", class_="faint") if section.owner else "",
        *(_break(break_, break_ == own[0]) for break_ in own),
        *(tag("p", f"{line}.", dir="auto") for line in consequences(section.breaks)),
        _questions(questions),
        *(_metric([cell for cell in section.cells if cell.metric == metric], report) for metric in metrics),
        id=_anchor(section),
    )


def _questions(questions: Sequence[StageQuestion]) -> Html:
    """The first ones in sight, the others behind a click."""
    if not questions:
        return Html("")
    first, rest = questions[:_IN_SIGHT], questions[_IN_SIGHT:_QUESTIONS]
    more = tag("details", tag("summary", f"{len(rest)} more"), as_html(rest)) if rest else ""
    return tag("section", tag("h3", "Questions that got worse"), as_html(first), more)


def _break(break_: Break, first: bool) -> Html:
    where = "all requests" if break_.segment is None else content.shown_name(break_.segment)
    lines: list[tuple[str, str]] = []
    if break_.causes:
        lines.append(("causes", cause(break_)))
    if break_.suspects:
        lines.append(("suspect", tag("b", ", ".join(content.change(suspect) for suspect in break_.suspects))))
    if break_.requests:
        lines.append(("look at", tag("ul", *(_example(*pair) for pair in break_.requests[:_EXAMPLES]), class_="plain")))
    entries = (join(tag("dt", name), tag("dd", text)) for name, text in lines)
    title = f"{break_.failure.replace('_', ' ').capitalize()} in {where}"
    parts = tag("b", title, dir="auto"), " ", tag("span", flips(break_), class_="faint", dir="auto")  # each by itself
    summary = tag("summary", *parts)
    return tag("details", summary, tag("dl", *entries), class_="break", open=first)


def _example(before: str, after: str) -> Html:
    earlier = join(tag("span", " before: ", class_="faint"), tag("code", plain(before))) if before else ""
    return tag("li", tag("code", show_command(after)), earlier)


def _metric(cells: Sequence[Cell], report: GateReport) -> Html:
    """A metric's cells with their intervals; open where something did not pass."""
    outcome = worst(cells)
    compared = [cell for cell in cells if cell.family != "floors"]
    drawn = scale(compared)
    name = content.short_name(cells[0].metric)
    unit = "" if cells[0].kind == "quantity" else ", in points"
    numbers = ("change", f"{confidence(report)} interval", "margin", "before", "after", "n")
    head = [
        tag("th", "segment", scope="col"),
        tag("th", drawn.axis(), scope="col", class_="plot", aria_label="interval"),
        *(tag("th", text, scope="col", class_="num") for text in numbers),
        tag("th", "verdict", scope="col"),
    ]
    table = tag(
        "table",
        tag("caption", f"{name}: change from baseline to candidate, by segment"),
        tag("thead", tag("tr", *head)),
        tag("tbody", *(tag("tr", *_row(cell, drawn.interval(cell), report)) for cell in cells)),
        class_="cells",
    )
    summary = tag(
        "summary",
        tag("b", name),
        " ",
        tag("span", RESULTS[outcome], class_=f"state {outcome}"),
        tag("span", f"{cells[0].direction} is better{unit}", class_="faint"),
    )
    return tag("details", summary, tag("div", table, class_="scroll"), open=outcome not in ("passed", "no_data"))


def _row(cell: Cell, plot: Html, report: GateReport) -> Iterator[Html]:
    floor = floor_of(cell, report)
    name = place(cell)
    values = [("change", content.signed(cell, cell.difference)), ("interval", content.interval(cell)),
              ("margin", content.width(cell, cell.margin))]  # fmt: skip
    if floor is not None:
        limit = "floor" if cell.direction == "higher" else "limit"
        name, plot = f"{name}, against the {limit}", Html("")
        known = cell.low is not None and cell.high is not None
        ends = f"{content.level(cell, cell.low)} to {content.level(cell, cell.high)}" if known else "-"
        values = [("change", "-"), ("interval", ends), (limit, content.level(cell, floor))]
    values += [("before", content.level(cell, cell.baseline)), ("after", content.level(cell, cell.candidate))]
    yield tag("th", name, scope="row", dir="auto")
    yield tag("td", plot, class_="plot")
    for title, value in (*values, ("n", content.count(cell))):
        yield tag("td", value, class_="num", data_name=title)
    yield tag("td", RESULTS[result(cell)], class_=f"word {result(cell)}", title=plain(cell.reason))


def _computed(report: GateReport) -> Html:
    methods = sorted({cell.method for cell in report.cells if cell.method})
    policy = report.policy
    entries = [
        ("intervals", f"{confidence(report)} for each cell alone; {'; '.join(methods)}"),
        ("verdicts", f"failed: worse for certain, after Holm's correction, familywise {policy.alpha:g}; passed: not "
                     f"worse by the margin for certain; inconclusive: neither"),
        ("resampling", f"{policy.resamples:,} resamples, seed {policy.seed}"),
        ("analyzer", ", ".join({**report.baseline.analyzer_versions, **report.candidate.analyzer_versions})),
    ]  # fmt: skip
    known = ((name, plain(text)) for name, text in entries if text)
    return tag("section", tag("h2", "How it was computed"), _listing(known))


@dataclass(frozen=True, slots=True)
class Scale:
    """From where to where the differences of one metric are drawn."""

    low: float
    high: float
    factor: float

    def interval(self, cell: Cell) -> Html:
        """The interval of a cell; what is worse than the margin lies in the shaded part."""
        if cell.difference is None or cell.low is None or cell.high is None:
            return Html("")
        margin = -cell.margin if cell.direction == "higher" else cell.margin
        edge = self.low if cell.direction == "higher" else self.high
        left, right = sorted((self._at(margin), self._at(edge)))
        parts = [
            tag("rect", x=f"{left}%", y=0, width=f"{right - left:.2f}%", height=24, class_="harm"),
            self._upright(margin, "margin"),
            self._upright(0.0, "zero"),
            tag("line", x1=f"{self._at(cell.low)}%", y1=12, x2=f"{self._at(cell.high)}%", y2=12, class_="range"),
            *(self._upright(end, "range", 7, 17) for end in (cell.low, cell.high)),
            tag("circle", cx=f"{self._at(cell.difference)}%", cy=12, r=4.5, class_="mean"),
        ]
        return tag("svg", *parts, class_=f"interval {result(cell)}", height=24, aria_hidden="true")

    def axis(self) -> Html:
        """Round values to read the intervals by."""
        values = ticks(self.low * self.factor, self.high * self.factor)
        step = -(-len(values) // _TICKS)
        zero = next((place for place, value in enumerate(values) if value == 0), 0)
        parts = [
            tag("text", f"{value:+g}".replace("-", "−") if value else "0",
                x=f"{self._at(value / self.factor)}%", y=12, class_="middle")
            for place, value in enumerate(values)
            if (place - zero) % step == 0
        ]  # fmt: skip
        return tag("svg", *parts, class_="axis", height=16, aria_hidden="true")

    def _at(self, value: float) -> float:
        return round(2 + 96 * (value - self.low) / (self.high - self.low), 2)

    def _upright(self, value: float, class_: str, top: int = 0, bottom: int = 24) -> Html:
        at = f"{self._at(value)}%"
        return tag("line", x1=at, y1=top, x2=at, y2=bottom, class_=class_)


def scale(cells: Sequence[Cell]) -> Scale:
    """One scale for all cells of a metric, wide enough for every interval, for zero and for the margins."""
    ends = [0.0]
    for cell in cells:
        ends += [-cell.margin, cell.margin]
        ends += [end for end in (cell.low, cell.high, cell.difference) if end is not None]
    room = (max(ends) - min(ends)) * _ROOM or 1.0
    return Scale(min(ends) - room, max(ends) + room, 1.0 if cells and cells[0].kind == "quantity" else 100.0)
