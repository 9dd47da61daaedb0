"""An explanation on a terminal: the answer shaded by document, shares, query words, and why each document was
retrieved.

Without color, quotes and letters stand for the shades.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.text import Text

from ragtrace.explanations import Alignment, Explanation, GeneratorAttribution, TokenWeights
from ragtrace.export._explanation_drawings import (
    LEAST_SHARE,
    LEVELS,
    PALETTE,
    Segment,
    Strength,
    answer_strength,
    cut,
    opponent,
    strongest,
    weighed,
    words,
)
from ragtrace.export._explanation_view import (
    Document,
    View,
    advice,
    bounds,
    flags,
    headline,
    leaves_words_out,
    main_p,
    measured,
    method,
    number,
    phrases_note,
    precision,
    precision_of,
    prompt_parts,
    terms,
    unit_of,
    view,
)
from ragtrace.export.evidence_path import heading, labeled, plain_table, shown_rank
from ragtrace.types import RequestRecord

__all__ = ["render"]

_ENOUGH: Final = ("256", "truecolor")  # with 16 colors neither hues nor shades stay apart
_NEUTRAL: Final = (86, 140, 190)
_QUOTED_FROM: Final = 3  # without color, only what is this strong has quotes
_SMALLEST: Final = 0.35  # so much of the hue is in the faintest shade
_RAISED: Final = dict(zip("ABCDEFGHIJKLMNOPRSTUVWXYZ", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
_NARROWEST, _WIDEST = 12, 44
_FAINT, _HEAD = "dim", "bold"
_EXCERPT: Final = 260  # characters of a document
_SENTENCES: Final = 8  # of a closed model's prompt
_REASONS: Final = 3  # documents from the top of each ranking


def render(record: RequestRecord, explanation: Explanation) -> RenderableType:
    """What the answer of `record` used and why it was retrieved, readable from 80 columns on."""
    shown = view(record, explanation)
    parts: list[RenderableType] = [heading(shown.record), labeled(("found", Text(headline(shown), style=_HEAD)))]
    parts += [labeled(("", _flag(sentence))) for sentence in flags(shown)]
    if next_step := advice(shown):
        parts.append(labeled(("next", Text(next_step))))
    parts += [Text(), *_answer(shown)]
    if shown.packed:
        parts += [Text(), _documents(shown)]
    if explanation.alignment is not None:
        parts += [Text(), *_alignment(explanation.alignment)]
    if explanation.query is not None:
        parts += [Text(), *_query(explanation.query, shown)]
    if explanation.generator is not None and explanation.generator.parts:
        parts += [Text(), *_parts(shown)]
    if explanation.retriever:
        parts += [Text(), *_retrieved(shown)]
    return Group(*parts, Text(), _computed(shown))


def _flag(sentence: str) -> Text:
    name, _, rest = sentence.partition(": ")
    return Text.assemble(f"{name}: ", ("yes", _HEAD), rest[3:]) if rest.startswith("yes") else Text(sentence)


def _answer(shown: View) -> Iterator[RenderableType]:
    generator = shown.explanation.generator
    is_known = bool(shown.answer) and generator is not None
    yield Text(f"the answer{', by the document that adds most to each part' if is_known else ''}", style=_HEAD)
    if not shown.answer:
        yield Text("its text was not kept", style=_FAINT)
    elif generator is None:
        yield Text(shown.answer)
    elif not generator.answer_spans:
        yield Text(shown.answer)
        yield Text("the model does not say where its tokens stand, so that nothing can be shaded", style=_FAINT)
    else:
        segments = words(cut(shown.answer, generator.answer_spans))
        strength = answer_strength(segments, generator)
        rows = {document.row: document for document in shown.packed}
        yield _Shaded([_by_document(segment, generator, strength, rows) for segment in segments])
        unit = "{} nats" if generator.unit == "log_probability" else "a likeness of {}"
        quoted = strength.scale * (_QUOTED_FROM - 1) / LEVELS
        yield _Legend(unit.format(number(strength.scale)), unit.format(number(quoted)))


def _by_document(
    segment: Segment, generator: GeneratorAttribution, strength: Strength, rows: dict[int | None, Document]
) -> _Mark:
    best = strongest(segment, generator.values)
    against = opponent(segment, generator.values, strength)
    level = strength.level(best[1]) if best else 0
    return _Mark(
        segment.text,
        level,
        rows.get(best[0]) if best and level else None,
        rows.get(against) if against is not None else None,
    )


def _documents(shown: View) -> RenderableType:
    table = plain_table("", "document", "found → used", "share", "")
    for place in (2, 3):
        table.columns[place].no_wrap = True
    low, high = bounds(shown.packed)
    digits = precision((low, high))
    for document in shown.packed:
        name = Text(document.name)
        if document.truncated:
            name.append(" (cut)", style="yellow")
        share = measured(document.share, document.error, digits)
        percent = f" {number(document.percent, 0):>3} %" if document.percent is not None else ""
        table.add_row(
            _badge(document),
            name,
            f"{shown_rank(document.retriever_rank):>2} → {shown_rank(document.generator_rank)}",
            Text(f"{share}{percent}"),
            _Bar(document, low, high),
        )
    return Group(table, Text(_columns(shown), style=_FAINT))


def _columns(shown: View) -> str:
    """What ranks and shares are; of errors and parts only where there are some."""
    generator = shown.explanation.generator
    if generator is not None and generator.method == "leave_one_out":
        share = "how much the answer changes without the document, from 0 (the least of all) to 1 (the most)"
    else:
        share = f"what the document adds to the answer, in {shown.unit}"
        share += ", ± one standard error (├┤)" if any(each.error for each in shown.packed) else ""
        share += ", and its part of what all add" if any(each.percent is not None for each in shown.packed) else ""
    return f"found → used: rank as retrieved and reranked → rank by share of the answer; share: {share}"


def _alignment(found: Alignment) -> Iterator[RenderableType]:
    yield Text("does the answer follow the retriever's ranking?", style=_HEAD)
    main = main_p(found.ps)
    lines = []
    if main is not None:
        lines.append(
            (
                "WARG",
                Text.assemble(
                    (number(_at(found.adjusted, main)), _HEAD),
                    " weighted attribution-relevance gap, adjusted: 0 is the retriever's order, 1 a random one "
                    f"(p = {found.ps[main]:g}; raw "
                    f"{number(_at(found.warg, main), 3)}, floor {number(_at(found.floor, main), 3)}, chance "
                    f"{number(_at(found.chance, main), 3)})",
                ),
            )
        )
        others = [place for place in range(len(found.ps)) if place != main]
        if others:
            rest = ", ".join(f"{number(_at(found.adjusted, place))} at p = {found.ps[place]:g}" for place in others)
            lines.append(("", Text(f"adjusted {rest}", style=_FAINT)))
    if found.spearman is not None:
        lines.append(("Spearman", Text(number(found.spearman))))
    if found.ties:
        lines.append(("ties", Text(f"{found.ties} neighbors whose shares are equal keep the retriever's order")))
    yield labeled(*lines)


def _query(query: GeneratorAttribution, shown: View) -> Iterator[RenderableType]:
    yield Text(f"which words of the question the answer needs, {unit_of(query)}", style=_HEAD)
    spans, weights = query.word_shares()
    yield _single(shown.question, TokenWeights(spans=spans, weights=weights), None)
    if query.query_words:
        yield Text(phrases_note(query), style=_FAINT)
    order = sorted(range(len(query.shares)), key=lambda place: -abs(query.shares[place]))[:6]
    parts = []
    digits = precision_of(query)
    for place in order:
        start, end = query.query_spans[place]
        error = query.share_errors[place] if place < len(query.share_errors) else None
        text = " ".join(shown.question[start:end].split())
        parts.append(f"{text} {measured(query.shares[place], error, digits)}")
    yield Text(("; " if query.query_words else ", ").join(parts), style=_FAINT)
    lines = [(name, Text(value)) for name, value in terms(shown)]
    if lines:
        yield Text("terms that went into the search, and into the answer", style=_HEAD)
        yield labeled(*lines)


def _parts(shown: View) -> Iterator[RenderableType]:
    """The sentences of a closed model's prompt without which the answer changes most."""
    yield Text("sentences of the prompt without which the answer changes most", style=_HEAD)
    found = prompt_parts(shown)
    table = plain_table("weight", "of", "sentence")
    for _, name, text, weight in sorted(found, key=lambda part: -part[3])[:_SENTENCES]:
        table.add_row(number(weight), Text(name), Text(" ".join(text.split()) or "its text was not kept"))
    yield table
    yield Text(f"0: the answer changes least without it, 1: most; {len(found)} sentences in all", style=_FAINT)


def _retrieved(shown: View) -> Iterator[RenderableType]:
    how = "what its words and the query's add to its score"
    if leaves_words_out(shown.explanation):
        how = "how much its score falls without each word"
    yield Text(f"why each document was retrieved: {how}", style=_HEAD)
    known = [document for document in shown.documents if document.why is not None]
    chosen = _notable(known)
    for document in chosen:
        why = document.why
        if why is None:
            continue
        name = _badge(document)
        name.append(f" {document.name}  {document.found}")
        yield name
        weights = why.document
        yield labeled(
            ("query", _single(document.query_text, why.query, document)),
            ("document", _single(document.text, weights, document, excerpt=True)),
        )
    if len(chosen) < len(known):
        yield Text(f"and {len(known) - len(chosen)} more: --html FILE shows them all, whole", style=_FAINT)


def _notable(documents: Sequence[Document]) -> list[Document]:
    """The first documents of both rankings, and what the retriever found first; all where there are few."""
    if len(documents) <= 2 * _REASONS:
        return list(documents)
    ranked = [
        each
        for each in documents
        if each.retrieved_rank == 1
        or min(each.retriever_rank or len(documents), each.generator_rank or len(documents)) <= _REASONS
    ]
    return ranked or list(documents[: 2 * _REASONS])


def _single(text: str, weights: TokenWeights, document: Document | None, *, excerpt: bool = False) -> RenderableType:
    """A text shaded by one series of weights."""
    if not text:
        return Text("its text was not kept", style=_FAINT)
    segments, totals, strength = weighed(text, weights.spans, weights.weights, LEAST_SHARE if document is None else 0.0)
    marks = [
        _Mark(
            " ".join(segment.text.splitlines()) or " " if excerpt else segment.text,
            strength.level(total) if total > 0.0 else 0,
            document,
            opposed=strength.opposes(total),
        )
        for segment, total in zip(segments, totals, strict=True)
    ]
    return _Shaded(_densest(marks, totals) if excerpt else marks, lettered=False)


def _densest(marks: list[_Mark], totals: Sequence[float]) -> list[_Mark]:
    """The `_EXCERPT` characters that say most about a long text."""
    if sum(len(mark.text) for mark in marks) <= _EXCERPT:
        return marks
    best, chosen = -1.0, (0, len(marks))
    first, size, held = 0, 0, 0.0
    for last, mark in enumerate(marks):
        size += len(mark.text)
        held += abs(totals[last])
        while size > _EXCERPT and first < last:
            size -= len(marks[first].text)
            held -= abs(totals[first])
            first += 1
        if held > best + 1e-12:
            best, chosen = held, (first, last + 1)
    start, end = chosen
    front, back = [_Mark("… ")] if start else [], [_Mark(" …")] if end < len(marks) else []
    return [*front, *marks[start:end], *back]


def _computed(shown: View) -> RenderableType:
    lines = [(name, Text(value, style=_FAINT)) for name, value in method(shown)]
    skipped = [("skipped", Text(f"{part}: {why}", style="yellow")) for part, why in shown.explanation.skipped.items()]
    return labeled(*lines, *skipped)


def _at(values: Sequence[float], place: int) -> float | None:
    return values[place] if place < len(values) else None


@dataclass(frozen=True, slots=True)
class _Mark:
    """A piece of text: how strongly a document speaks for it, and which speaks against it."""

    text: str
    level: int = 0
    document: Document | None = None
    against: Document | None = None
    opposed: bool = False


@dataclass(frozen=True, slots=True)
class _Shaded:
    """A text of marks, with their documents' colors; without color `«in quotes»ᵃ`, with letters if `lettered`."""

    marks: Sequence[_Mark]
    lettered: bool = True

    def __rich_console__(self, console: Console, _options: ConsoleOptions) -> RenderResult:
        """What the console can show."""
        yield self._colored() if _is_colored(console) else self._quoted()

    def _colored(self) -> Text:
        text = Text()
        for document, run in groupby(self.marks, key=_owner):
            last = None
            for last in run:
                core = last.text.strip() if last.level or last.opposed else ""
                before, found, after = last.text.partition(core) if core else (last.text, "", "")
                text.append(before)
                text.append(found, _style(last))
                text.append(after + _against(last))
            if self.lettered and document is not None and last is not None:
                text.append(_raised(document.letter), "bold")
        return text

    def _quoted(self) -> Text:
        text = Text()
        for strong, run in groupby(self.marks, key=lambda mark: (_owner(mark), _is_strong(mark), mark.opposed)):
            marks = list(run)
            words = "".join(mark.text for mark in marks)
            core = words.strip()
            owner, is_strong, opposed = strong
            if core and (is_strong or opposed):
                letter = _raised(owner.letter) if owner is not None and self.lettered else ""
                words = words.replace(core, f"{'«−' if opposed else '«'}{core}»{letter}", 1)
            text.append(words + "".join(dict.fromkeys(_against(mark) for mark in marks)))
        return text


@dataclass(frozen=True, slots=True)
class _Legend:
    """What the marks of an answer mean: of colors from where on they are darkest, without color what has quotes."""

    darkest: str
    quoted: str

    def __rich_console__(self, console: Console, _options: ConsoleOptions) -> RenderResult:
        """For what the console can show."""
        marks = (
            f"darkest from {self.darkest} on"
            if _is_colored(console)
            else f"in «quotes», with its document's letter: what one document adds more than {self.quoted} to"
        )
        yield Text(f"{marks}; ⁻ before a letter: this document speaks against it", style=_FAINT)


def _is_colored(console: Console) -> bool:
    return console.color_system in _ENOUGH and not console.no_color


def _owner(mark: _Mark) -> Document | None:
    return mark.document if mark.level else None


def _is_strong(mark: _Mark) -> bool:
    return mark.level >= _QUOTED_FROM


def _against(mark: _Mark) -> str:
    return f"⁻{_raised(mark.against.letter)}" if mark.against is not None else ""


def _raised(letter: str) -> str:
    """A document's letter as a superscript; Unicode has none for Q."""
    return "".join(_RAISED.get(each, f"({each})") for each in letter)


def _badge(document: Document) -> Text:
    """A document's letter in its color."""
    return Text.assemble((f" {document.letter} ", _filled(PALETTE[document.color], 1.0)))


def _style(mark: _Mark) -> str:
    if mark.opposed:
        return "underline red"
    hue = PALETTE[mark.document.color] if mark.document is not None else _NEUTRAL
    return _filled(hue, _SMALLEST + (1 - _SMALLEST) * mark.level / LEVELS)


def _filled(hue: tuple[int, int, int], strength: float) -> str:
    """A background of this hue with text that can be read on it."""
    base = (250, 250, 250) if _is_light() else (28, 28, 28)
    red, green, blue = (round(strength * part + (1 - strength) * own) for part, own in zip(hue, base, strict=True))
    is_bright = 0.299 * red + 0.587 * green + 0.114 * blue > 128
    return f"{'#000000' if is_bright else '#ffffff'} on #{red:02x}{green:02x}{blue:02x}"


def _is_light() -> bool:
    """Whether the terminal says that its background is light."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


@dataclass(frozen=True, slots=True)
class _Bar:
    """A share as a bar from zero, with one standard error to both sides."""

    document: Document
    low: float
    high: float

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        """At least `_NARROWEST` columns, at most `_WIDEST`."""
        return Measurement(min(_NARROWEST, options.max_width), min(_WIDEST, max(_NARROWEST, options.max_width // 4)))

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """The bar in the document's color."""
        red, green, blue = PALETTE[self.document.color]
        yield Text("".join(self._cells(min(options.max_width, _WIDEST))), style=f"rgb({red},{green},{blue})")

    def _cells(self, width: int) -> Iterator[str]:
        share, error = self.document.share, self.document.error or 0.0
        if share is None or self.high <= self.low:
            return
        zero, end = self._cell(0.0, width), self._cell(share, width)
        first, last = self._cell(share - error, width), self._cell(share + error, width)
        for cell in range(width):
            if error and first < last and cell in (first, last):
                yield "├" if cell == first else "┤"
            elif error and first < cell < last:
                yield "━" if _between(cell, zero, end) else "─"
            elif _between(cell, zero, end):
                yield "█"
            else:
                yield "│" if cell == zero else " "

    def _cell(self, value: float, width: int) -> int:
        return round((value - self.low) / (self.high - self.low) * (width - 1))


def _between(cell: int, first: int, last: int) -> bool:
    return first != last and min(first, last) <= cell <= max(first, last)
