"""The drawing of why a chunk got its grade: both texts with each word in the color of what it adds, and the strongest
words as bars; for the page of a request, and as one file that needs no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtrace.analyze.grade_attribution import GradeAttribution
from ragtrace.attribution import WeightedSpan
from ragtrace.export._explanation_drawings import color_rules
from ragtrace.export._explanation_shading import Strength
from ragtrace.export._explanation_view import number
from ragtrace.html_page import Html, asset, join, standalone, tag
from ragtrace.safe_text import visible

__all__ = ["grade_page", "grade_sections"]

_FOR, _AGAINST = "d0", "d5"  # blue and vermilion of the palette
_BARS = 14
_WIDTH, _HEIGHT, _MIDDLE = 240, 14, 120
_DIGITS = 3
_FIGURES = ("adds", "by gradients")


def grade_page(found: GradeAttribution, chunk_id: str) -> str:
    """The whole file."""
    style = asset("ragtrace.export", "base.css") + asset("ragtrace.export", "explanation.css") + color_rules()
    title = f"Why {visible(chunk_id)} got its grade"
    return standalone(title, style, tag("main", tag("h1", title), grade_sections(found)))


def grade_sections(found: GradeAttribution) -> Html:
    """The texts with their words shaded, and the bars; one scale for all."""
    strength = Strength.of(word.weight for word in (*found.question, *found.document))
    scale = number(strength.scale, _DIGITS)
    sides = zip(("The question", "The chunk"), found.texts, (found.question, found.document), strict=True)
    headline = f"Grade {found.grade:+.2f} by {visible(found.judge)}; of two empty texts {found.empty:+.2f}."
    return join(
        tag("p", headline, class_="headline"),
        _legend(scale),
        *(_side(side, text, words, strength) for side, text, words in sides),
        _separator(found),
        tag("section", tag("h2", "The strongest words"), _bars(found)),
        *_notes(found),
    )


def _side(side: str, text: str, words: Sequence[WeightedSpan], strength: Strength) -> Html:
    total = sum(word.weight for word in words)
    return tag("section", tag("h2", f"{side}, {total:+.2f} in all"), _heat(text, words, strength))


def _legend(scale: str) -> Html:
    return tag(
        "p",
        tag("i", "speaks for it", class_=f"{_FOR} s6"),
        " ",
        tag("i", "speaks against it", class_=f"{_AGAINST} s6"),
        f", the strongest shade from {scale} on. Each word adds its weight to the grade of two empty texts.",
        class_="legend",
    )


def _heat(text: str, words: Sequence[WeightedSpan], strength: Strength) -> Html:
    parts: list[str] = []
    at = 0
    for word in words:
        parts.append(visible(text[at : word.start]))
        level = strength.level(word.weight)
        side = _FOR if word.weight > 0 else _AGAINST
        told = number(word.weight, _DIGITS, signed=True)
        said = visible(word.text)
        parts.append(tag("i", said, class_=f"{side} s{level}", title=told) if level else said)
        at = word.end
    return tag("div", *parts, visible(text[at:]), class_="text", dir="auto")


def _separator(found: GradeAttribution) -> Html:
    if found.separator is None:
        return Html("")
    return tag("p", f"What stands between both texts adds {number(found.separator, _DIGITS, signed=True)}.")


def _bars(found: GradeAttribution) -> Html:
    sides = [("question", found.question, found.gradients.question if found.gradients else None),
             ("chunk", found.document, found.gradients.document if found.gradients else None)]  # fmt: skip
    rows = [
        (side, word, beside[place] if beside is not None else None)
        for side, words, beside in sides
        for place, word in enumerate(words)
    ]
    chosen = sorted((row for row in rows if row[1].weight), key=lambda row: -abs(row[1].weight))[:_BARS]
    scale = abs(chosen[0][1].weight) if chosen else 0.0
    heads = ["word", "of the", "adds", *(["by gradients"] if found.gradients else []), ""]
    return tag(
        "table",
        tag("caption", "The strongest words"),
        tag(
            "thead",
            tag("tr", *(tag("th", head, scope="col", class_="num" if head in _FIGURES else None) for head in heads)),
        ),
        tag("tbody", *(_row(side, word, beside, scale) for side, word, beside in chosen)),
    )


def _row(side: str, word: WeightedSpan, beside: WeightedSpan | None, scale: float) -> Html:
    length = min(1.0, abs(word.weight) / scale) * _MIDDLE if scale > 0 else 0.0
    start = _MIDDLE if word.weight > 0 else _MIDDLE - length
    bar = tag(
        "svg",
        tag("rect", x=round(start, 1), y=2, width=round(length, 1), height=_HEIGHT - 4, class_="bar"),
        tag("line", x1=_MIDDLE, x2=_MIDDLE, y1=0, y2=_HEIGHT, class_="zero"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        class_=_FOR if word.weight > 0 else _AGAINST,
        role="img",
        aria_label=f"{word.weight:+.3f}",
    )
    figures = [number(each.weight, _DIGITS, signed=True) for each in (word, beside) if each is not None]
    return tag(
        "tr",
        tag("th", visible(word.text), scope="row", dir="auto"),
        tag("td", side),
        *(tag("td", figure, class_="num") for figure in figures),
        tag("td", bar),
    )


def _notes(found: GradeAttribution) -> Iterator[Html]:
    for share, what in (
        (found.shared, "of what speaks for it stands on words that question and chunk share."),
        (found.missing, "of what speaks against it stands on words of the question that the chunk lacks."),
    ):
        if share is not None:
            yield tag("p", f"{100 * share:.0f} % {what}")
    exact = "" if found.is_exact else "; parts that were not looked into share their worth evenly"
    yield tag("p", f"Owen values; {found.evaluations:,} pairs were graded{exact}.", class_="faint")
