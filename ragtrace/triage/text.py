"""A triage report for a terminal of 80 columns or more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragtrace.export.evidence_path import labeled, plain_table
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.triage.report import Check, Onset, Report, SegmentLine, Tally, Telling, Tenants, Value
from ragtrace.triage.wording import clock, counted, percent, plain, shortened, show_command, with_reference

__all__ = ["STATES", "affected", "began", "looked_at", "named", "render", "segments_summary"]

STATES: Final = {
    "broken": "BROKEN",
    "worse": "worse than before",
    "unclear": "not enough data",
    "good": "ok",
    "no_data": "no data",
    "not_checked": "not checked",
    "recovered": "recovered",
    "better": "better, not proven",
    "not_recovered": "not recovered",
}
_EVEN: Final = 1.1  # times the smallest rate: what is kept alike
_STYLES: Final = {"broken": "bold red", "not_recovered": "bold red", "good": "green", "recovered": "green",
                  "not_checked": "dim"}  # fmt: skip


def render(report: Report, *, store: str | None = None) -> RenderableType:
    """The report: what is to be done first, then what was checked. store: named in the commands, where it is given."""
    parts: list[RenderableType] = [_conclusion(report), Text(), labeled(*_facts(report))]
    for number, check in enumerate(report.checks, 1):
        parts += [Text(), *_check(number, check, of_request=report.request is not None)]
    if report.recovery:
        found = report.recovery
        parts += [Text(), _headed("recovery", found.state), _indented(Text(found.finding))]
    if report.segments:
        parts += [Text(), Text(segments_summary(report), style="bold"), _indented(_segments(report.segments))]
    if report.telling:
        parts += [Text(), Text("The most telling requests", style="bold"), _indented(_telling(report, store))]
    return Group(*parts)


def _conclusion(report: Report) -> Text:
    style = "bold red" if report.stage else "bold"
    return Text(report.conclusion, style=style)


def _facts(report: Report) -> Iterator[tuple[str, RenderableType]]:
    if report.alert:
        alert = report.alert
        yield "alert", Text(f"{alert.name or 'without a name'}, {alert.status} since {clock(alert.starts_at)}")
        if alert.agrees is not None:
            yield "", Text(named(report))
    if report.request:
        yield "request", Text(f"{report.request.request_id}  {clock(report.request.at)}", style="bold")
        yield "asked", Text(shortened(report.request.asked))
        for proof in report.request.evidence:
            yield "because", Text(shortened(proof))
    if report.owner:
        yield "owner", Text(report.owner, style="bold")
    if report.suspected_release:
        yield "suspect", Text(report.suspected_release, style="bold yellow")
    if report.release_note:
        yield "release" if not report.suspected_release else "", Text(report.release_note)
    if report.gate_note:
        yield "gate", Text(report.gate_note)
    if report.onset:
        yield "began", Text(began(report.onset))
    if report.tenants:
        yield "tenants", Text(affected(report.tenants))
    if report.range:
        yield "looked at", Text(looked_at(report), style="dim")


def looked_at(report: Report) -> str:
    """The time, the requests and the reference on which all of it rests."""
    found = report.range
    if found is None:
        return ""
    drawn = found.read + found.unanalyzed
    read = f"{found.requests:,} requests" if drawn == found.requests else (
        f"{drawn:,} of {found.requests:,} requests, evenly in time"
    )  # fmt: skip
    if found.unanalyzed and found.read:
        read += f", {found.unanalyzed:,} of them not analyzed"
    judged = f"{found.analyzed:,} {with_reference(found.reference)}" if found.reference else "none analyzed"
    if found.most_sampled > _EVEN * found.least_sampled:
        judged += (
            f"; kept at rates from {percent(found.least_sampled)} to {percent(found.most_sampled)}, "
            "so shares and means are weighted to be those of the traffic"
        )
    times = f"{clock(found.since)} to {clock(found.until)}, compared with before, from {clock(found.before_since)}"
    return f"{times}; {read}; {judged}"


def named(report: Report) -> str:
    """What the evidence says of the stage that the alert names."""
    stage = report.alert.labels.get("stage", "") if report.alert else ""
    if report.alert and report.alert.agrees:
        return f"it names {stage}: so does the evidence"
    state = next((check.state for check in report.checks if check.stage == stage), None)
    if state == "recovered":
        return f"it names {stage}, which has recovered; {report.stage} is broken now"
    if state == "not_checked":
        return f"it names {stage}, but {report.stage} is broken before it"
    return f"it names {stage}: the evidence names {report.stage}"


def affected(tenants: Tenants) -> str:
    """Whether one customer is hit or all are."""
    return f"{tenants.broken:,} of {tenants.known:,} with requests in the break have a bad one"


def began(onset: Onset) -> str:
    """When it began, and the shares on both sides."""
    when = clock(onset.latest)
    if onset.earliest[:19] != onset.latest[:19]:
        when = f"between {clock(onset.earliest)} and {when}"
    return f"{when}: since then {counted(onset.since)}, before {counted(onset.before)}"


def _headed(name: str, state: str) -> Text:
    return Text(f"{name}  ", style="bold").append(STATES[state], style=_STYLES.get(state, "yellow"))


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _check(number: int, check: Check, *, of_request: bool) -> Iterator[RenderableType]:
    if check.state == "not_checked":
        yield Text(f"{number} {check.stage}  {check.finding}", style="dim")
        return
    yield _headed(f"{number} {check.stage}", check.state)
    yield _indented(Text(check.title, style="dim"))
    yield _indented(Text(check.finding))
    if of_request and check.now.known:
        around = f"its segment around it: {counted(check.now)}, before {counted(check.before)}"
        yield _indented(Text(f"{around}; the objective allows {percent(check.budget)}"))
    if check.state != "no_data" or of_request:
        yield _indented(_values(check.values, of_request=of_request))


def _values(values: Sequence[Value], *, of_request: bool) -> Table:
    heads = (
        ("metric", "objective", "request", "segment before")
        if of_request
        else ("mean of", "objective", "now", "before")
    )
    table = plain_table(*heads)
    for value in values:
        objective = INSTRUMENTS[value.metric].objective
        missed = of_request and objective and value.now is not None and not objective.met(value.now)
        now = Text(_mean(value.now), style="bold red" if missed else "")
        table.add_row(value.name, value.objective or "none", now, _before(value))
    return table


def _before(value: Value) -> str:
    return _mean(value.before) if value.before_count else "-"


def _mean(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def segments_summary(report: Report) -> str:
    """Whether the stage is broken everywhere or in some segments only."""
    known = [each for each in report.segments if each.state not in ("no_data", "unclear")]
    broken = [each.segment for each in known if each.state == "broken"]
    recovered, better = (sum(each.state == state for each in known) for state in ("recovered", "better"))
    unknown = len(report.segments) - len(known)
    parts = []
    if broken and len(broken) == len(known) > 1 and not report.more_segments:
        parts.append("broken in every segment that tells")
    elif broken:
        parts.append(f"broken in {len(broken)} of {len(report.segments) + report.more_segments} segments")
    if recovered:
        parts.append(f"recovered in {recovered}")
    if better:
        parts.append(f"better in {better}, which is not proven")
    if unknown:
        parts.append(f"not enough data in {unknown}")
    return f"Segments at {report.stage}: {', '.join(parts) or 'none is broken'}"


def _segments(lines: Sequence[SegmentLine]) -> Table:
    table = plain_table("segment", "state", "now", "before")
    for line in lines:
        state = STATES[line.state] + (f" {clock(line.recovered_since)}" if line.recovered_since else "")
        state_text = Text(state, style=_STYLES.get(line.state, "yellow"))
        table.add_row(Text(plain(line.segment)), state_text, _share(line.now), _share(line.before))
    return table


def _share(found: Tally) -> str:
    return f"{found.bad}/{found.known} {percent(found.share)}" if found.known else "-"


def _telling(report: Report, store: str | None) -> Group:
    return Group(*(line for each in report.telling for line in _told(each, store)))


def _told(each: Telling, store: str | None) -> tuple[Text, Text]:
    why = plain(f"{clock(each.at)}, {each.segment}, {each.cause}")
    release = f", {each.suspected_release}" if each.suspected_release else ""
    return Text(show_command(each.request_id, store)), Text(f"  {why}{release}", style="dim")
