"""A triage report as Markdown, for a ticket, a chat or a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ragtrace.triage.report import Check, Report, Value
from ragtrace.triage.text import STATES, affected, began, looked_at, named, segments_summary
from ragtrace.triage.wording import clock, counted, plain, shortened

__all__ = ["code", "escaped", "markdown", "table"]

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|!~]|:(?=//)|(?<=www)\.)", re.IGNORECASE)


def markdown(report: Report) -> str:
    """The whole report. Texts of the host are escaped: a label cannot become a link, an image or HTML."""
    return "\n".join(_lines(report)) + "\n"


def escaped(text: str) -> str:
    """A text that shows as it is."""
    return _SPECIAL.sub(r"\\\1", plain(text))


def code(text: str) -> str:
    """A text as code, whatever back-quotes it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{plain(text)}{space}{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table whose cells are escaped."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(escaped(cell) for cell in row) + " |"


def _lines(report: Report) -> Iterator[str]:
    yield f"# Triage: {escaped(_subject(report))}"
    yield ""
    yield f"**{escaped(report.conclusion)}**"
    yield ""
    yield from _facts(report)
    if report.checks:
        yield from ("", "## What was checked")
    for number, check in enumerate(report.checks, 1):
        yield ""
        yield from _check(number, check, of_request=report.request is not None)
    if report.recovery:
        yield from ("", "## Recovery", "", escaped(report.recovery.finding))
    if report.segments:
        yield from ("", f"## {escaped(segments_summary(report))}", "")
        yield from table(
            ("segment", "state", "now", "before"),
            ((each.segment, STATES[each.state], counted(each.now), counted(each.before)) for each in report.segments),
        )
    if report.telling:
        yield from ("", "## The most telling requests", "")
        for each in report.telling:
            release = f", {each.suspected_release}" if each.suspected_release else ""
            yield f"- {code(each.command)} – {escaped(f'{clock(each.at)}, {each.segment}, {each.cause}{release}')}"


def _subject(report: Report) -> str:
    if report.request:
        return f"request {report.request.request_id}"
    if report.alert and not report.range:  # it is not about requests
        where = report.service or "ragtrace itself"
    else:
        where = f"{report.service}, {report.segment or 'all segments'}"
    return f"{report.alert.name} ({where})" if report.alert else where


def _facts(report: Report) -> Iterator[str]:
    if report.alert:
        alert = report.alert
        yield f"- alert: {escaped(f'{alert.name}, {alert.status} since {clock(alert.starts_at)}')}"
        if alert.agrees is not None:
            yield f"- {escaped(named(report))}"
    if report.request:
        yield f"- asked: {escaped(shortened(report.request.asked))}"
        yield from (f"- because: {escaped(shortened(proof))}" for proof in report.request.evidence)
    if report.owner:
        yield f"- owner: **{escaped(report.owner)}**"
    if report.suspected_release:
        yield f"- suspected release: **{escaped(report.suspected_release)}**"
    if report.release_note:
        yield f"- {escaped(report.release_note)}"
    if report.gate_note:
        yield f"- {escaped(report.gate_note)}"
    if report.onset:
        yield f"- began: {escaped(began(report.onset))}"
    if report.tenants:
        yield f"- tenants: {affected(report.tenants)}"
    if report.range:
        yield f"- looked at: {escaped(looked_at(report))}"
    yield f"- made at {clock(report.made_at)}"


def _check(number: int, check: Check, *, of_request: bool) -> Iterator[str]:
    yield f"### {number}. {check.stage}: {STATES[check.state]}"
    yield ""
    yield escaped(f"{check.title} {check.finding}" if check.state != "not_checked" else check.finding)
    if check.values and (check.state != "no_data" or of_request):
        yield ""
        yield from table(
            ("metric", "objective", "request" if of_request else "now", "before"),
            ((value.name, value.objective or "none", _mean(value.now), _before(value)) for value in check.values),
        )


def _before(value: Value) -> str:
    return _mean(value.before) if value.before_count else "-"


def _mean(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
