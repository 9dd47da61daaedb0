"""A report's content: its stages in order, the first broken one on top, the cells that are worth a line, and figures as
they are written: scores and shares in points and percent, quantities in their unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragtrace.formats import plain
from ragtrace.gate._judgment import FEWEST, is_doubt
from ragtrace.gate._metrics import METRICS, is_hint, is_state
from ragtrace.gate.types import Break, Cell, GateReport, Kind, Policy, ProviderShift, VersionChange
from ragtrace.registry.instruments import STAGES

__all__ = [
    "MOST_LEFT_OUT",
    "PROVIDERS",
    "RESULTS",
    "Result",
    "Section",
    "amount",
    "bounds",
    "change",
    "count",
    "decided_by_labels",
    "enumerated",
    "floor_of",
    "harm",
    "harm_in_margins",
    "hidden",
    "interval",
    "is_missing",
    "level",
    "metric_name",
    "minimum",
    "of_place",
    "place",
    "probability",
    "provider_rows",
    "result",
    "sections",
    "share_left_out",
    "short_name",
    "shown_name",
    "signed",
    "stays_open",
    "verb",
    "width",
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
MOST_LEFT_OUT: Final = 0.1
"""The share of the baseline's live traffic that may go without comparison in a candidate that passes."""


PROVIDERS: Final = "Whose documents stand in prompts: baseline → candidate (decides nothing)"


@dataclass(frozen=True, slots=True)
class Section:
    """A stage: its cells, those over all requests first, then the worst first; and why it got worse, by segment."""

    name: str
    owner: str | None
    cells: tuple[Cell, ...]
    breaks: tuple[Break, ...]
    blocked: bool = False  # the whole gate: what has too little data changes nothing then

    @property
    def result(self) -> Result:
        """The worst of its cells; where too few requests could be judged, what became of it over all of them."""
        found = worst(self.cells)
        return self.of_all if found == "passed" else found

    @property
    def of_all(self) -> Result:
        """What became of it over all requests."""
        return of_place([cell for cell in self.cells if cell.segment is None])

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
        results = {name: of_place(own) for name, own in cells.items()}
        return {each: found for each in RESULTS if (found := [name for name in results if results[name] == each])}

    def listed(self, *, every: bool = False) -> tuple[Cell, ...]:
        """The cells worth a line: those of all requests (of a blocked gate only with data enough, or a loss), failed
        and warned ones, and open ones that look worse; of what only points to a break, those that warn."""
        if every:
            return self.cells
        shown = [cell for cell in self.cells if result(cell) == "warned" or not is_hint(cell.metric)]
        overall = [
            cell
            for cell in shown
            if cell.segment is None and not (self.blocked and result(cell) == "no_data" and harm(cell) <= 0)
        ]
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
            report.decision == "block",
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


def of_place(cells: Sequence[Cell]) -> Result:
    """What became of a stage in one place: too few requests for its broken share are too few for the stage, whatever
    other metrics passed."""
    found = worst(cells)
    lacks = any(is_state(cell.metric) and not is_hint(cell.metric) and result(cell) == "no_data" for cell in cells)
    return "no_data" if found == "passed" and lacks else found


def stays_open(cell: Cell, policy: Policy) -> bool:
    """Whether a cell alone leaves the gate undecided."""
    if is_doubt(cell):
        return policy.on_suspected == "block"
    if cell.action != "block":
        return False
    if cell.family == "segments":
        return cell.outcome == "inconclusive" and policy.on_inconclusive_segment == "block"
    return cell.outcome in ("inconclusive", "not_enough_data") and policy.on_inconclusive == "block"


def decided_by_labels(report: GateReport) -> list[Cell]:
    """The open cells of an undecided run of pairs that labels can decide: whether a stage is broken."""
    if report.decision != "undecided" or not report.paired:
        return []
    open_ = [cell for cell in report.cells if stays_open(cell, report.policy)]
    return [cell for cell in open_ if is_state(cell.metric) and not is_hint(cell.metric)]


def share_left_out(report: GateReport) -> float:
    """The share of the baseline's live traffic that was not compared, since its segments were left out."""
    return sum(each.baseline for each in report.mix if each.factor is None)


def is_missing(cell: Cell) -> bool:
    """Whether it lacks the data that the policy requires; what only warns is not held to that."""
    return cell.required and cell.action == "block" and cell.outcome == "not_enough_data" and cell.low is None


def minimum(cell: Cell, report: GateReport) -> int:
    """The fewest requests that a verdict on its metric takes."""
    least = cell.least if cell.low is not None else 0
    return max(FEWEST, least, *(rule.minimum for rule in report.policy.rules if rule.metric == cell.metric), 0)


def floor_of(cell: Cell, report: GateReport) -> float | None:
    """The floor that a cell was held against; None for a cell that compares the sides."""
    if cell.family != "floors":
        return None
    return next((rule.floor for rule in report.policy.rules if rule.metric == cell.metric), None)


def harm_in_margins(cell: Cell) -> float:
    """How much worse it is, for an order among metrics of different units; a floor knows no margin."""
    return harm(cell) / cell.margin if cell.margin > 0 else 0.0


def may_be_within(cell: Cell, alpha: float) -> bool:
    """Whether a failed cell lost less than its margin, and more is not ruled out: more requests may show that it is
    within."""
    unsure = cell.outcome == "fail" and cell.p_inferior is not None and cell.p_inferior > alpha
    return unsure and 0 < harm(cell) < cell.margin


def place(cell: Cell) -> str:
    """Where a cell was judged."""
    return "all requests" if cell.segment is None else shown_name(cell.segment)


def _rank(cell: Cell) -> tuple[bool, int, float]:
    is_part = cell.segment is not None
    return is_part, _SEVERITY[result(cell)], -harm_in_margins(cell) if is_part else 0.0


_LONGEST: Final = 48
_NAMED: Final = 3
_SEGMENTS: Final = 5  # of a line of a stage
_MINUS: Final = "−"


def metric_name(metric: str) -> str:
    """A metric as a sentence calls it."""
    known = METRICS.get(metric)
    if known is None:
        return metric.replace("_", " ")
    return known.title if known.state is None else f"the share of requests with {known.title}"


def short_name(metric: str) -> str:
    """A metric in a table of its stage."""
    known = METRICS.get(metric)
    return (metric if known is None or known.state is None else known.state).replace("_", " ")


def shown_name(text: str) -> str:
    """A name of the host (segment, version, selection) on one line, cut where it is very long."""
    line = plain(text) or "(empty)"
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def enumerated(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def segment_names(names: Sequence[str]) -> str:
    """The segments of a line of a stage: up to six, else the first five and how many more there are."""
    more = len(names) - _SEGMENTS
    if more <= 1:
        return ", ".join(map(shown_name, names))
    return ", ".join(map(shown_name, names[:_SEGMENTS])) + f" and {more} more"


def change(component: VersionChange) -> str:
    """`model m-7 → m-8`; what a side does not name is "none". What is the commonest of both sides stands once."""
    versions = dict.fromkeys((component.baseline, component.candidate))
    sides = " → ".join(shown_name(version) if version is not None else "none" for version in versions)
    return f"{shown_name(component.component)} {sides}{' (several versions at once)' if component.mixed else ''}"


def harm(cell: Cell) -> float:
    """By how much the candidate is worse, in the metric's unit; negative where it is better."""
    difference = cell.difference or 0.0
    return -difference if cell.direction == "higher" else difference


def amount(cell: Cell, value: float) -> str:
    """A size with its unit: `12 points`, `0.42 s`."""
    if cell.kind == "quantity":
        return f"{_digits(value)}{_unit(cell)}"
    points = _points(value)
    return f"{points} point{'' if points == '1' else 's'}"


def level(cell: Cell, value: float | None) -> str:
    """A mean: `71.3 %`, `0.42 s`."""
    if value is None:
        return "-"
    return f"{_digits(value)}{_unit(cell)}" if cell.kind == "quantity" else f"{value * 100:.1f} %"


def signed(cell: Cell, value: float | None) -> str:
    """A difference for a table: points without their name, quantities with their unit."""
    if value is None:
        return "-"
    number = _short(abs(value)) if cell.kind == "quantity" else f"{abs(value) * 100:.1f}"
    sign = "" if not number.strip("0.") else "+" if value > 0 else _MINUS
    return f"{sign}{number}{_unit(cell) if cell.kind == 'quantity' else ''}"


def width(cell: Cell, value: float) -> str:
    """A margin for a table; "-" where it is a share of a mean that is not known."""
    if not value and cell.difference is None:
        return "-"
    return f"{_short(value)}{_unit(cell)}" if cell.kind == "quantity" else _points(value)


def interval(cell: Cell) -> str:
    """The interval of the difference for a table, without its unit: `−16.0 to −8.0`."""
    if cell.low is None or cell.high is None:
        return "-"
    unit = _unit(cell) if cell.kind == "quantity" else ""
    return " to ".join(signed(cell, end).removesuffix(unit) for end in (cell.low, cell.high))


def count(cell: Cell) -> str:
    """The defined pairs, or the defined requests of both sides."""
    before, after = cell.n
    return f"{before:,}" if before == after else f"{before:,} / {after:,}"


def probability(value: float | None) -> str:
    """A p-value."""
    if value is None:
        return "-"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def bounds(cell: Cell) -> str:
    """The interval of a sentence that has said "fell" or "rose": `8 to 16`."""
    low, high = cell.low or 0.0, cell.high or 0.0
    ends = (low, high) if (cell.difference or 0.0) >= 0 else (-high, -low)
    return " to ".join(_end(cell.kind, end) for end in ends) + (_unit(cell) if cell.kind == "quantity" else "")


def provider_rows(report: GateReport) -> list[tuple[str, ...]]:
    """Exposure by provider as a table, its head first; empty where none is known."""
    if not report.providers:
        return []
    head = (report.providers_by, "in prompts", "deserved", "of all used", "")
    return [head, *(_provider_row(each) for each in report.providers)]


def _provider_row(shift: ProviderShift) -> tuple[str, ...]:
    parts = (shift.exposed, shift.deserved, shift.attributed)
    sides = (" → ".join("-" if each is None else f"{each * 100:.1f} %" for each in part) for part in parts)
    return shown_name(shift.provider), *sides, "starved" if shift.starved else ""


def verb(difference: float) -> str:
    """What happened to a metric."""
    return "rose" if difference > 0 else "fell"


def _end(kind: Kind, value: float) -> str:
    text = _digits(abs(value)) if kind == "quantity" else _points(abs(value))
    return f"{_MINUS}{text}" if value < 0 and text != "0" else text


def _points(value: float) -> str:
    points = value * 100
    if 0 < abs(points) < 0.095:
        return f"{points:.1g}"
    return f"{points:.1f}".removesuffix(".0")


def _digits(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _short(value: float) -> str:
    """Two digits that mean something; what is smaller than four places tell is 0, and no power of ten."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value >= 0.0001 or not value else f"{value:.4f}".rstrip("0").rstrip(".")


def _unit(cell: Cell) -> str:
    known = METRICS.get(cell.metric)
    if known is None or known.unit == "1":
        return ""
    return f" {known.unit.strip('{}')}{'s' if known.unit.startswith('{') else ''}"
