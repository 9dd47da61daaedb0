"""Two replays question by question: in a terminal, as Markdown, and as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from ragtrace.export.evidence_path import labeled
from ragtrace.gate.replay_diff import Change, DiffSide, ReplayDiff
from ragtrace.gate.reports import content
from ragtrace.gate.reports.questions import StageQuestion, as_html, as_markdown, as_text
from ragtrace.html_page import Html, asset, join, standalone, tag
from ragtrace.triage.rendering import escaped

__all__ = ["diff_body", "diff_html", "diff_markdown", "render_diff"]

_WORDS: Final[dict[Change, str]] = {
    "worse": "a stage was sound and is broken",
    "better": "a stage was broken and is sound",
    "answer": "another answer",
    "evidence": "needed chunks lost or gained",
    "prompt": "another prompt",
}


def _title(diff: ReplayDiff) -> str:
    return f"{content.label(diff.baseline.name)} against {content.label(diff.candidate.name)}"


def _facts(diff: ReplayDiff) -> Iterator[tuple[str, str]]:
    yield "before", _side(diff.baseline)
    yield "after", _side(diff.candidate)
    yield "changed", ", ".join(content.change(each) for each in diff.versions) or "no recorded version"
    gone = f", {diff.missing:,} of them no longer stored" if diff.missing else ""
    unknown = f"; of {diff.unknown:,} the answer is not stored" if diff.unknown else ""
    yield "questions", f"{diff.questions:,} on both sides{gone}; {diff.same:,} without any of these changes{unknown}"
    for kind, words in _WORDS.items():
        yield kind, f"{diff.changed[kind]:,}: {words}"


def _side(side: DiffSide) -> str:
    alone = f", {side.unmatched:,} without a partner" if side.unmatched else ""
    return f"{content.label(side.name)}: {side.requests:,} requests{alone}"


def _questions(diff: ReplayDiff) -> list[StageQuestion]:
    return [StageQuestion(pair, {}) for pair in diff.listed]


def _rest(diff: ReplayDiff) -> str:
    if not diff.listed:
        return "No question to list."
    return f"{diff.left_out:,} more questions are not listed (--limit)." if diff.left_out else ""


def render_diff(diff: ReplayDiff) -> RenderableType:
    """For a terminal of 80 columns or more."""
    facts = labeled(*((name, Text(text)) for name, text in _facts(diff)))
    return Group(Text(_title(diff), style="bold"), Text(), facts, *as_text(_questions(diff)), Text(), Text(_rest(diff)))


def diff_markdown(diff: ReplayDiff) -> str:
    """The same as Markdown."""
    facts = [f"- {name}: {escaped(text)}" for name, text in _facts(diff)]
    return "\n".join([f"# {escaped(_title(diff))}", "", *facts, *as_markdown(_questions(diff)), "", _rest(diff)]) + "\n"


def diff_html(diff: ReplayDiff) -> str:
    """The same as a page."""
    style = asset("ragtrace.export", "base.css") + asset("ragtrace.gate.reports", "gate.css")
    return standalone(f"Compared: {_title(diff)}", style, tag("main", diff_body(diff)))


def diff_body(diff: ReplayDiff) -> Html:
    """What the page shows, for one that has its style."""
    facts = tag("dl", *(join(tag("dt", name), tag("dd", text, dir="auto")) for name, text in _facts(diff)))
    header = tag("header", tag("p", "Replays compared", class_="eyebrow"), tag("h1", _title(diff), dir="auto"), facts)
    listed = tag("section", tag("h2", "Questions"), as_html(_questions(diff)), tag("p", _rest(diff), class_="faint"))
    return join(header, listed)
