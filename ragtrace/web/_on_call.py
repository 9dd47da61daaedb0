"""What somebody on call reads: the triage of a segment, with the words that the terminal has, and runbooks.

A runbook is docs/runbooks/NAME.md as plain data: headings, paragraphs, lists, commands and links.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from ragtrace import installation
from ragtrace.errors import ConfigurationError
from ragtrace.formats import clock, plain, shortened
from ragtrace.registry.instruments import STAGES
from ragtrace.store import Listing, Store
from ragtrace.store.tables import DISTANT
from ragtrace.store.totals import OTHER
from ragtrace.triage import Check, Report, Unjudged, Window, triage_segment
from ragtrace.triage.postmortem import postmortem
from ragtrace.triage.rendering import (
    STATES,
    counted,
    mean_text,
    report_facts,
    segments_summary,
    unjudged_text,
)
from ragtrace.types import Stage
from ragtrace.web._request_list import query_part, read_time

__all__ = ["Block", "Piece", "TriageView", "linked", "postmortem_draft", "runbook", "runbook_names", "triage_view"]

_DAY: Final = 86_400 * 10**9
_MOST: Final = 300  # requests that are read, evenly in time: shares to six points; the terminal reads 2,000
_BUSY: Final = 10_000  # requests, the newest, that a page without a time looks at where a day has more


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of a report."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class DoubtView:
    """In how many requests a stage is in doubt or not known. ids: of some; link: to a list of the doubted, or ""."""

    text: str
    ids: tuple[str, ...]
    link: str


@dataclass(frozen=True, slots=True)
class CheckView:
    """A stage, its state, what was found, and its metrics now and before."""

    stage: Stage
    state: str
    finding: str
    doubts: tuple[DoubtView, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TriageView:
    """A report and what the template needs beside it. since, until: nanoseconds."""

    report: Report
    facts: tuple[Fact, ...]
    checks: tuple[CheckView, ...]
    rises: tuple[tuple[str, str, tuple[str, ...]], ...]
    segments: str
    segment_lines: tuple[tuple[str, str, str, str], ...]
    exemplars: tuple[tuple[str, str, str], ...]
    stages: tuple[str, ...]
    service: str
    segment: str
    since: int
    until: int
    runbook: str
    named: str  # the stage that the alert named
    severity: str

    @property
    def answer(self) -> str:
        """The command that says whether the alert was right."""
        about = {"service": self.service, "segment": self.segment, "stage": self.named, "severity": self.severity}
        words = shlex.join(f"--{name}={value}" for name, value in about.items() if value)
        return f"ragtrace triage judge {words} right|wrong-stage|false"


def triage_view(store: Store, service: str, query: Mapping[str, str]) -> TriageView:
    """Walk the evidence of a link's window: by default of the day before the service's last request, no longer than
    its requests reach back. Raises: ConfigurationError."""
    stages = tuple(stage.name for stage in STAGES)
    with store.snapshot():
        window, segment = _asked(store, service, query)
        report = triage_segment(store, service, segment, window, limit=_MOST)
        if segment == OTHER and report.range and not report.range.requests:  # the exporter's name for several segments
            report = triage_segment(store, service, None, window, limit=_MOST)
    return TriageView(
        report=report,
        facts=tuple(_facts(report)),
        checks=tuple(_check(one, report, window) for one in report.checks),
        rises=tuple((one.stage, one.finding, tuple(each.request_id for each in one.exemplars)) for one in report.rises),
        segments=segments_summary(report) if report.segments else "",
        segment_lines=tuple(
            (line.segment, line.state.replace("_", " "), counted(line.now), counted(line.before))
            for line in report.segments
        ),
        exemplars=tuple((one.request_id, f"{one.segment}, {clock(one.at)}", one.cause) for one in report.exemplars),
        stages=stages,
        service=service,
        segment=segment or "",
        since=window.since,
        until=window.until,
        runbook=_runbook(report),
        named=known if (known := query.get("stage", "")) in stages else report.stage or "",
        severity="ticket" if query.get("severity") == "ticket" else "page",
    )


def postmortem_draft(store: Store, service: str, query: Mapping[str, str]) -> str:
    """The draft of the window's postmortem, from as many requests as the walk reads. Raises: ConfigurationError."""
    with store.snapshot():
        window, segment = _asked(store, service, query)
        return postmortem(store, service, segment, window, limit=_MOST)


def _asked(store: Store, service: str, query: Mapping[str, str]) -> tuple[Window, str | None]:
    segment = query.get("segment", "").strip() or None
    around = store.time_bounds(service)
    last = around[1] + 1 if around else 0
    first = around[0] if around else 0
    until = _moment("until", query.get("until")) or last
    since = _moment("since", query.get("since"))
    if since is None or (since >= last and until == last):  # nothing came since then: the day before the last request
        busy = store.start_of(Listing(service=service, segment=segment, until=until), _BUSY)
        since = max(first, until - _DAY, busy or 0)
    if since >= until:
        raise ConfigurationError("the window ends before it begins; give since before until")
    return Window.of(since, until), segment


def _moment(name: str, text: str | None) -> int | None:
    if text is None or not text.strip():
        return None
    return read_time(name, text)


def _check(check: Check, report: Report, window: Window) -> CheckView:
    values = (
        f"{one.name}: {mean_text(one.now, one.now_count)}, before {mean_text(one.before, one.before_count)}"
        for one in check.values
    )
    doubts = (_doubt(each, check.stage, report, window) for each in check.unjudged)
    return CheckView(check.stage, STATES.get(check.state, check.state), check.finding, tuple(doubts), tuple(values))


def _doubt(unjudged: Unjudged, stage: Stage, report: Report, window: Window) -> DoubtView:
    link = ""
    if unjudged.command:
        is_distant = any(each.reason == DISTANT for each in unjudged.reasons)
        about = {"service": report.service, "segment": report.segment, "in_doubt": DISTANT if is_distant else stage}
        link = f"/requests?{query_part(about | {'since': read_time('since', unjudged.since), 'until': window.until})}"
    return DoubtView(unjudged_text(unjudged), unjudged.request_ids, link)


def _facts(report: Report) -> list[Fact]:
    """What the terminal says above the checks, with its labels."""
    found = [(label, text) for label, text, _ in report_facts(report)]
    if report.recovery:
        found.append(("recovery", report.recovery.finding))
    return [Fact(name, plain(shortened(text))) for name, text in found]


def _runbook(report: Report) -> str:
    """The runbook of the broken stage, as it stands in the documentation."""
    stage = next((one for one in STAGES if one.name == report.stage), None)
    return stage.runbook if stage else ""


_FOLDER: Final = "docs/runbooks"
_INLINE: Final = re.compile(r"`(?P<code>[^`]+)`|\[(?P<words>[^\]]+)\]\((?P<target>[^)]*)\)")
_RUNBOOK: Final = re.compile(r"(?:.*/)?([\w-]+)\.md")
_PATH: Final = re.compile(r"`(?P<code>[^`]+)`|docs/runbooks/(?P<name>[\w-]+)\.md|\d\d-\d\d \d\d:\d\d:\d\dZ?")
_ITEM: Final = re.compile(r"(?:-|(\d+)\.) +")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text. runbook: the page that it leads to, "" for none; is_whole: it stands on one line."""

    text: str
    is_code: bool = False
    runbook: str = ""
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, a paragraph, an item of a list or of numbered steps, or lines of code."""

    kind: Literal["title", "heading", "text", "item", "step", "code"]
    pieces: tuple[Piece, ...]
    number: int | None = None  # of a step


@cache
def runbook_names() -> tuple[str, ...]:
    """The names of the pages, without `.md`, sorted."""
    return tuple(sorted(path.stem for path in installation.folder(_FOLDER).glob("*.md")))


def runbook(name: str) -> list[Block] | None:
    """The blocks of a page; None where there is none of this name."""
    if name not in runbook_names():
        return None
    text = (installation.folder(_FOLDER) / f"{name}.md").read_text("utf-8")
    blocks: list[Block] = []
    for place, part in enumerate(re.split(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)):
        if place % 2:
            blocks.append(Block("code", (Piece(part, is_code=True),)))
        else:
            blocks += [_block(one) for one in _paragraphs(part)]
    return blocks


def _paragraphs(text: str) -> list[str]:
    """Each on one line; an item of a list is one."""
    found: list[str] = []
    is_open = False
    for line in text.splitlines():
        if is_open and line.strip() and not _ITEM.match(line) and not line.startswith("#"):
            found[-1] += f" {line.strip()}"
        elif line.strip():
            found.append(line.strip())
        is_open = bool(line.strip()) and not line.startswith("#")
    return found


def _block(text: str) -> Block:
    if text.startswith("#"):
        return Block("title" if text.startswith("# ") else "heading", _pieces(text.lstrip("# ")))
    item = _ITEM.match(text)
    if item is None:
        return Block("text", _pieces(text))
    pieces = _pieces(text[item.end() :])
    return Block("step", pieces, int(item[1])) if item[1] else Block("item", pieces)


def _pieces(text: str) -> tuple[Piece, ...]:
    """Code, and links to other runbooks; what a link to elsewhere says."""
    found: list[Piece] = []
    at = 0
    for part in _INLINE.finditer(text):
        found.append(Piece(text[at : part.start()]))
        if part["code"]:
            found.append(Piece(part["code"], is_code=True))
        else:
            target = _RUNBOOK.fullmatch(part["target"])
            name = target[1] if target and target[1] in runbook_names() else ""
            found.append(Piece(part["words"], runbook=name))
        at = part.end()
    return tuple(piece for piece in (*found, Piece(text[at:])) if piece.text)


def linked(text: str) -> tuple[Piece, ...]:
    """A text of a report: what stands in back quotes is code, a runbook's path leads to its page, a time is whole."""
    found: list[Piece] = []
    at = 0
    for part in _PATH.finditer(text):
        found += [Piece(text[at : part.start()]), _linked(part)]
        at = part.end()
    return tuple(piece for piece in (*found, Piece(text[at:])) if piece.text)


def _linked(part: re.Match[str]) -> Piece:
    if part["code"]:
        return Piece(part["code"], is_code=True)
    if part["name"] in runbook_names():
        return Piece(f"runbook {part['name']}", runbook=part["name"])
    return Piece(part[0], is_whole=part["name"] is None)
