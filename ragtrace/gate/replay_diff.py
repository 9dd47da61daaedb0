"""The difference of two replays, question by question: of the prompt, the evidence and the answer. It decides nothing.

Any two selections that have questions in common may be compared; those of the other side only are counted.
Rendered for a terminal, as Markdown, and as one HTML page that needs nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, TypeAlias, get_args

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from ragtrace.errors import InputError
from ragtrace.export.evidence_path import labeled
from ragtrace.formats import escaped, plain
from ragtrace.gate._breaks import version_changes
from ragtrace.gate._population import compared, load
from ragtrace.gate.question_pairs import SideTexts, question_pair, side_texts
from ragtrace.gate.reports import content
from ragtrace.gate.reports.questions import StageQuestion, as_html, as_markdown, as_text
from ragtrace.gate.selection import parse
from ragtrace.gate.types import QuestionPair, VersionChange
from ragtrace.html_page import Html, asset, join, standalone, tag

__all__ = [
    "CHANGES",
    "Change",
    "DiffSide",
    "ReplayDiff",
    "diff_body",
    "diff_html",
    "diff_markdown",
    "diff_replays",
    "render_diff",
]

Change: TypeAlias = Literal["worse", "better", "answer", "evidence", "prompt"]
"""Of a question: a stage broke, a stage was mended, the answer is another, needed chunks were lost or gained, the
prompt holds other chunks, other texts of them, another order or another template."""

CHANGES: Final[tuple[Change, ...]] = get_args(Change)
_BATCH: Final = 200


class DiffSide(msgspec.Struct, frozen=True, kw_only=True):
    """One side: its selection, its requests, and how many of them have no partner."""

    name: str
    requests: int
    unmatched: int


class ReplayDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What two replays have in common. questions: on both sides; missing: of these, whose record is gone. same: answer,
    evidence and prompt are alike; unknown: nothing is known to differ, and answers are stored of neither text nor hash.
    changed: how many questions changed in which way. listed: the questions asked for,
    the worst first; left_out: how many more there are."""

    baseline: DiffSide
    candidate: DiffSide
    versions: tuple[VersionChange, ...]
    questions: int
    missing: int
    same: int
    unknown: int
    changed: dict[Change, int]
    listed: tuple[QuestionPair, ...]
    left_out: int
    schema_version: int = 1


def diff_replays(
    baseline: str,
    candidate: str,
    *,
    store: str | None = None,
    service: str | None = None,
    only: Sequence[Change] = (),
    segment: str | None = None,
    containing: str | None = None,
    limit: int = 20,
) -> ReplayDiff:
    """Compare two selections. only: list questions with one of these changes; by default those with any. segment,
    containing: only of this segment, only with these words in the question; then questions without a change as well.

    Raises: ConfigurationError, InputError, StoreError.
    """
    selections = parse("A", baseline), parse("B", candidate)
    loaded = load(selections, store=store, service=service, metrics=())
    one, two = loaded.populations
    both = compared(one, two, "paired", expected=True)
    if both.pairs is None or not len(both.pairs):
        raise InputError(f"{baseline!r} and {candidate!r} have no question in common")
    ids = [
        (both.baseline.request_ids[before], both.candidate.request_ids[after])
        for before, after in both.pairs.tolist()
        if segment is None or both.baseline.segments[before] == segment
    ]
    sides = (side_texts(name, text, store, service) for name, text in (("A", baseline), ("B", candidate)))
    pairs = [(pair, _changes(pair)) for pair in _pairs(ids, *sides)]
    words = plain(containing or "").casefold()
    wanted = [
        pair
        for pair, kinds in pairs
        if words in plain(pair.question or "").casefold()
        and (kinds.intersection(only) if only else kinds or segment is not None or words)
    ]
    wanted.sort(key=_severity)
    counts = Counter(kind for _, kinds in pairs for kind in kinds)
    before, after = (
        DiffSide(name=side.name, requests=len(side), unmatched=unmatched)
        for side, unmatched in zip((both.baseline, both.candidate), both.unmatched, strict=True)
    )
    return ReplayDiff(
        baseline=before,
        candidate=after,
        versions=version_changes(both.baseline, both.candidate),
        questions=len(ids),
        missing=len(ids) - len(pairs),
        same=sum(not kinds and pair.same_answer is not None for pair, kinds in pairs),
        unknown=sum(not kinds and pair.same_answer is None for pair, kinds in pairs),
        changed={kind: counts[kind] for kind in CHANGES},
        listed=tuple(wanted[:limit]),
        left_out=max(0, len(wanted) - limit),
    )


def _pairs(ids: Sequence[tuple[str, str]], one: SideTexts, two: SideTexts) -> Iterator[QuestionPair]:
    """The questions whose records are there on both sides, page by page; of files in one go, which are read whole."""
    size = len(ids) if one.selection.file or two.selection.file else _BATCH
    for start in range(0, len(ids), max(1, size)):
        page = ids[start : start + size]
        before, after = one.read([pair[0] for pair in page]), two.read([pair[1] for pair in page])
        yield from (question_pair(before[b], after[a]) for b, a in page if b in before and a in after)


def _changes(pair: QuestionPair) -> set[Change]:
    prompt = pair.prompt
    known: Mapping[Change, object] = {
        "worse": pair.worsened,
        "better": pair.recovered,
        "answer": pair.same_answer is False,
        "evidence": pair.lost or pair.gained,
        "prompt": prompt.added or prompt.removed or prompt.rewritten or prompt.reordered or prompt.template,
    }
    return {kind for kind, is_so in known.items() if is_so}


def _severity(pair: QuestionPair) -> tuple[bool, bool, bool, float, str]:
    """Broken stages first, then lost evidence, then mended ones, then answers by how far they differ."""
    old, new = (side.answer or "" if side else "" for side in (pair.baseline, pair.candidate))
    alike = 1.0 if old == new else SequenceMatcher(None, old.split(), new.split()).quick_ratio()
    return not pair.worsened, not pair.lost, not pair.recovered, alike, pair.candidate.request_id


_WORDS: Final[dict[Change, str]] = {
    "worse": "a stage was sound and is broken",
    "better": "a stage was broken and is sound",
    "answer": "another answer",
    "evidence": "needed chunks lost or gained",
    "prompt": "another prompt",
}


def _title(diff: ReplayDiff) -> str:
    return f"{content.shown_name(diff.baseline.name)} against {content.shown_name(diff.candidate.name)}"


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
    return f"{content.shown_name(side.name)}: {side.requests:,} requests{alone}"


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
