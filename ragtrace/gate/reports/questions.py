"""Questions before and after, as every form of a report shows them: which ones, in which words, and as Markdown, in a
terminal and on a page. All texts of the host are hostile: they are put on one line, cut, and escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragtrace.export.evidence_path import labeled
from ragtrace.formats import code, escaped, plain, shortened, show_command, table
from ragtrace.gate._metrics import METRICS
from ragtrace.gate.question_pairs import Word, word_changes
from ragtrace.gate.reports.content import metric_name
from ragtrace.gate.types import AnswerSide, CellChanges, GateReport, LostEvidence, QuestionPair
from ragtrace.html_page import Html, join, tag

__all__ = [
    "StageQuestion",
    "as_html",
    "as_markdown",
    "as_text",
    "prompt_words",
    "stage_questions",
]

_NO_TEXT: Final = "no text is stored"
_LOST: Final = {
    "retrieval": "not found by retrieval",
    "rerank": "lost in rerank",
    "packing": "lost in packing",
    "truncation": "cut off in the prompt",
}
_WIDEST: Final = 3  # chunk ids that are named
_SCORES: Final = 4


class StageQuestion(NamedTuple):
    """A question, and in which metrics of the stage it is among the worst, with its values on both sides."""

    pair: QuestionPair
    metrics: Mapping[str, tuple[float | None, float | None]]


def stage_questions(report: GateReport) -> dict[str, list[StageQuestion]]:
    """The worst questions of each stage that was judged, as far as their texts are known; each question at the first
    stage that names it. The first one of every cell comes before the second one of any."""
    known = {pair.candidate.request_id: pair for pair in report.questions}
    found: dict[str, list[StageQuestion]] = {}
    shown: set[str] = set()
    for stage in dict.fromkeys(cell.stage for cell in report.cells):
        cells = [cell for cell in report.changes if cell.stage == stage]
        depth = max((len(cell.pairs) for cell in cells), default=0)
        ids = dict.fromkeys(cell.pairs[at].candidate for at in range(depth) for cell in cells if at < len(cell.pairs))
        own = [each for each in ids if each in known and each not in shown]
        shown.update(own)
        if own:
            found[stage or "request"] = [StageQuestion(known[each], _values(cells, each)) for each in own]
    return found


def _values(cells: Sequence[CellChanges], candidate: str) -> dict[str, tuple[float | None, float | None]]:
    """The metrics in which a question is among the worst, with both values."""
    return {
        cell.metric: (pair.before, pair.after) for cell in cells for pair in cell.pairs if pair.candidate == candidate
    }


def _changed_stages(pair: QuestionPair) -> str:
    """`generation sound → broken, citation sound → not known`; "" where none changed or one side is not known."""
    if pair.baseline is None:
        broken = [stage for stage, state in pair.candidate.states.items() if state == "broken"]
        return f"{', '.join(broken)} broken" if broken else ""
    before, after = pair.baseline.states, pair.candidate.states
    changed = [stage for stage in {**before, **after} if before.get(stage) != after.get(stage)]
    return ", ".join(f"{stage} {_state(before.get(stage))} → {_state(after.get(stage))}" for stage in changed)


def _state(state: str | None) -> str:
    return "none" if state is None else state.replace("_", " ")


def _changed_scores(pair: QuestionPair, metrics: Sequence[str] | None = None) -> str:
    """`answer coverage 1 → 0.25`, the largest changes first; metrics: only these."""
    known = [
        (name, old, new)
        for name, (old, new) in pair.scores.items()
        if (metrics is None or name in metrics) and name in METRICS and METRICS[name].state is None
    ]
    known.sort(key=lambda each: -abs((each[1] or 0.0) - (each[2] or 0.0)))
    before = "" if pair.baseline is None else "{} → "
    return ", ".join(
        f"{metric_name(name)} {before.format(_value(old))}{_value(new)}" for name, old, new in known[:_SCORES]
    )


def _quantities(each: StageQuestion) -> str:
    """`latency 0.169 s → 0.236 s`: what is no score of the analysis."""
    known = [(METRICS[name], values) for name, values in each.metrics.items() if name in METRICS]
    told = []
    for metric, values in known:
        unit = metric.unit.strip("{}")
        sides = [f"{value:.3g} {unit}" for value in values if value is not None]
        told += [f"{metric.title} {' → '.join(sides)}"] if metric.kind == "quantity" and sides else []
    return ", ".join(told)


def _value(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def prompt_words(pair: QuestionPair) -> str:
    """What became of the prompt."""
    change = pair.prompt
    if pair.baseline is None:
        return ""
    parts = []
    if change.removed:
        parts.append(f"{_number(change.removed)} left it ({_chunks(change.removed)})")
    if change.added:
        parts.append(f"{_number(change.added)} came ({_chunks(change.added)})")
    if change.rewritten:
        parts.append(f"{_number(change.rewritten)} with another text ({_chunks(change.rewritten)})")
    if change.reordered:
        parts.append("in another order")
    if change.template:
        parts.append("another template")
    return ", ".join(parts) or "the same chunks in the same order"


def _number(ids: Sequence[str]) -> str:
    return f"{len(ids)} chunk{'' if len(ids) == 1 else 's'}"


def _chunks(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _WIDEST} more" if len(ids) > _WIDEST else ""
    return ", ".join(_short(each) for each in ids[:_WIDEST]) + more


def _short(name: str) -> str:
    line = plain(name)
    return line if len(line) <= 40 else line[:39] + "…"


def _evidence_lines(pair: QuestionPair) -> Iterator[tuple[str, str]]:
    """The needed chunks that were lost, with their words, and those that came."""
    for lost in pair.lost:
        yield "lost chunk", f"{_short(lost.chunk_id)}, {_where(lost)}: {_text(lost.text)}"
    if pair.gained:
        yield "gained", _chunks(pair.gained)


def _where(lost: LostEvidence) -> str:
    words = _LOST.get(lost.where, f"lost in {plain(lost.where)}")
    if lost.rank_before is not None and lost.rank_after is not None:
        words += f", rank {lost.rank_before} → {lost.rank_after}"
    return f"{words} ({plain(lost.reason).replace('_', ' ')})" if lost.reason else words


def _text(text: str | None) -> str:
    return _NO_TEXT if text is None else shortened(plain(text))


def _facts(each: StageQuestion) -> Iterator[tuple[str, str]]:
    """All of a question but its answers."""
    pair = each.pair
    words = (_changed_stages(pair), _changed_scores(pair, list(each.metrics) or None), _quantities(each))
    if any(words):
        yield "changed", "; ".join(filter(None, words))
    yield from _sentences(pair)
    yield from _evidence_lines(pair)
    if prompt := prompt_words(pair):
        yield "prompt", prompt


def _sentences(pair: QuestionPair) -> Iterator[tuple[str, str]]:
    """The sentence of the new answer that is borne least; that of the old one where the new one has none."""
    side = pair.candidate
    if side.sentence is not None:
        yield side.sentence_state or "not supported", shortened(plain(side.sentence))
    elif pair.baseline is not None and pair.baseline.sentence is not None:
        yield f"{pair.baseline.sentence_state} before", shortened(plain(pair.baseline.sentence))


def _title(pair: QuestionPair) -> str:
    return _text(pair.question) if pair.question is not None else "(the question is not stored)"


def _answer(side: AnswerSide) -> str:
    return f"({_NO_TEXT})" if side.answer is None else plain(side.answer)


def _panels(pair: QuestionPair, most: int | None = None) -> list[tuple[str, list[Word]]]:
    """Both answers with what went and what came; one answer where there is no other, or both are the same; what is said
    of a text that is not stored is no change."""
    sides = [(name, side) for name, side in (("before", pair.baseline), ("after", pair.candidate)) if side is not None]
    texts = [_limited(_answer(side), most) for _, side in sides]
    if len(sides) < 2 or any(side.answer is None for _, side in sides):
        return [(name, [("same", text)]) for (name, _), text in zip(sides, texts, strict=True)]
    if texts[0] == texts[1]:
        return [("the same answer before and after", [("same", texts[0])])]
    words = word_changes(texts[0], texts[1])
    return [
        ("before", [word for word in words if word[0] != "added"]),
        ("after", [word for word in words if word[0] != "removed"]),
    ]


def _limited(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else text[: most - 1] + "…"


def as_markdown(questions: Sequence[StageQuestion]) -> Iterator[str]:
    """The lines of a list of questions, each with a table of both answers."""
    for each in questions:
        yield from ("", f"**{escaped(_title(each.pair))}** ({escaped(_short(each.pair.segment))})", "")
        panels = [(name, shortened(" ".join(text for _, text in words))) for name, words in _panels(each.pair)]
        yield from table([name for name, _ in panels], [[text for _, text in panels]])
        yield ""
        yield from (f"- {name}: {escaped(text)}" for name, text in _facts(each))
        yield f"- look at {code(show_command(each.pair.candidate.request_id))}{_before(each.pair)}"


def _before(pair: QuestionPair) -> str:
    return f", before: {code(plain(pair.baseline.request_id))}" if pair.baseline is not None else ""


_ANSWER: Final = 400  # characters of an answer in a terminal
_MARKS: Final[dict[str, str]] = {"removed": "del", "added": "ins"}
_STYLES: Final = {"same": "", "removed": "red", "added": "green"}


def as_text(questions: Sequence[StageQuestion]) -> Iterator[RenderableType]:
    """Each question with both answers side by side; what went is red on the left, what came is green on the right."""
    for each in questions:
        yield Text()
        yield Text.assemble((_title(each.pair), "bold"), (f"  {_short(each.pair.segment)}", "dim"))
        panels = _panels(each.pair, _ANSWER)
        sides = Table.grid(padding=(0, 2, 0, 0), expand=True)
        for _ in panels:
            sides.add_column(ratio=1, overflow="fold")
        sides.add_row(*(Text(name, style="dim") for name, _ in panels))
        sides.add_row(*(_styled(words) for _, words in panels))
        facts = labeled(*((name, Text(text)) for name, text in _facts(each)))
        yield Padding(sides, (0, 0, 0, 2))
        yield Padding(facts, (0, 0, 0, 2))


def _styled(words: Sequence[Word]) -> Text:
    return Text(" ").join(Text(text, style=_STYLES[kind]) for kind, text in words)


def as_html(questions: Sequence[StageQuestion]) -> Html:
    """The questions, each with both answers side by side; what went and what came is marked."""
    return join(*(_card(each) for each in questions))


def _card(each: StageQuestion) -> Html:
    pair = each.pair
    lines = [(name, tag("span", text, dir="auto")) for name, text in _facts(each)]
    commands = tag("code", show_command(pair.candidate.request_id))
    if pair.baseline is not None:
        earlier = tag("code", plain(pair.baseline.request_id))
        commands = join(commands, tag("span", " before: ", class_="faint"), earlier)
    lines.append(("look at", commands))
    return tag(
        "article",
        tag("h4", tag("span", _title(pair), dir="auto"), " ", tag("span", _short(pair.segment), class_="faint")),
        tag("div", *(_panel(name, words) for name, words in _panels(pair)), class_="sides"),
        tag("dl", *(join(tag("dt", name), tag("dd", text)) for name, text in lines)),
        class_="question",
    )


def _panel(title: str, words: Sequence[Word]) -> Html:
    parts: list[str] = []
    for kind, text in words:
        parts += [" " if parts else "", tag(_MARKS[kind], text) if kind in _MARKS else text]
    return tag("div", tag("b", title, class_="faint"), tag("p", *parts, dir="auto"))
