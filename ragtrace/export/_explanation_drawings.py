"""What an explanation shows without words: shaded texts, shares as bars, two rankings, WARG on its scale, and whose
terms of the question the retriever and the answer used; and the colors of all of them.

A shaded text is cut at its tokens, and each part is colored as strongly as what its tokens contribute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ragtrace.explanations import GeneratorAttribution, Offsets, TermUse, Use
from ragtrace.export._explanation_view import Document, View, number, precision
from ragtrace.html_page import Html, join, tag
from ragtrace.safe_text import visible

__all__ = [
    "FAINTEST",
    "LEAST_SHARE",
    "LEVELS",
    "PALETTE",
    "USED_BY",
    "Matrix",
    "Segment",
    "Strength",
    "answer_strength",
    "answer_text",
    "color_rules",
    "cut",
    "hue",
    "opacity",
    "opponent",
    "rankings",
    "shaded_text",
    "share_bar",
    "strongest",
    "term_bars",
    "warg_scale",
    "weighed",
    "words",
]

# Ten hues that stay apart with any color blindness: Okabe and Ito's without black, then two of Tol's and a gray.
PALETTE: Final = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233),
    (213, 94, 0), (240, 228, 66), (136, 34, 85), (153, 153, 51), (136, 136, 136),
)  # fmt: skip
LEVELS: Final = 8
_LONGEST_WORD: Final = 32  # scripts without spaces would be one word
FAINTEST: Final = 0.1  # of the scale: what is weaker has no shade
_OPPOSED: Final = 0.25  # of the scale: what speaks so much against a word is marked
_OPPONENT: Final = 0.5  # the same for documents, of which there are many
_LEAST: Final = {"log_probability": 0.5, "similarity": 0.05}  # of the answer's scale, so that noise stays pale
LEAST_SHARE: Final = 0.05
"""The same for the shares of the question's words, which are means over the answer."""

Matrix: TypeAlias = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Segment:
    """`text[start:end]` and the tokens (by number) that stand there; none for what lies between tokens."""

    start: int
    end: int
    text: str
    tokens: tuple[int, ...] = ()

    def total(self, values: Sequence[float]) -> float:
        """The sum of these tokens' values."""
        return sum(values[token] for token in self.tokens if token < len(values))


@dataclass(frozen=True, slots=True)
class Strength:
    """How values become shades: linear up to `scale`, of which there are `LEVELS`."""

    scale: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Strength:
        """From the values that are shown. The top twentieth may be shaded alike, so that one token does not pale the
        rest, down to half of the largest."""
        sizes = sorted(abs(value) for value in values)
        return cls(max(sizes[math.ceil(0.95 * len(sizes)) - 1], sizes[-1] / 2) if sizes else 0.0)

    def level(self, value: float) -> int:
        """From 0 (no shade) to `LEVELS`, whatever the sign."""
        if self.scale <= 0.0 or abs(value) < FAINTEST * self.scale:
            return 0
        return min(LEVELS, math.ceil(LEVELS * abs(value) / self.scale))

    def opposes(self, value: float, part: float = _OPPOSED) -> bool:
        """Whether a value speaks against its word by `part` of the scale, so that it is to be marked."""
        return self.scale > 0.0 and value <= -part * self.scale


def cut(text: str, spans: Sequence[Offsets]) -> list[Segment]:
    """The whole of `text` in segments: tokens whose offsets overlap are one, what lies between them has none, but for
    white space, which goes with the token behind it.

    Offsets beyond the text are clipped; a token without text (a special token) is in no segment.
    """
    segments: list[Segment] = []
    at = 0
    for start, end, tokens in _joined(text, spans):
        if start > at and text[at:start].isspace():
            start = at
        elif start > at:
            segments.append(Segment(at, start, text[at:start]))
        segments.append(Segment(start, end, text[start:end], tokens))
        at = end
    return [*segments, Segment(at, len(text), text[at:])] if at < len(text) else segments


def _joined(text: str, spans: Sequence[Offsets]) -> list[tuple[int, int, tuple[int, ...]]]:
    size = len(text)
    clipped = ((max(0, min(start, size)), min(end, size), token) for token, (start, end) in enumerate(spans))
    joined: list[tuple[int, int, tuple[int, ...]]] = []
    for start, end, token in sorted(place for place in clipped if place[0] < place[1]):
        if joined and start < joined[-1][1]:
            first, last, tokens = joined[-1]
            joined[-1] = (first, max(last, end), (*tokens, token))
        else:
            joined.append((start, end, (token,)))
    return joined


def answer_strength(segments: Sequence[Segment], generator: GeneratorAttribution) -> Strength:
    """One scale for all documents, by what each segment's best document adds to it."""
    best = (strongest(segment, generator.values) for segment in segments)
    scale = Strength.of(found[1] for found in best if found is not None).scale
    return Strength(max(scale, _LEAST[generator.unit]))


def weighed(
    text: str, spans: Sequence[Offsets], weights: Sequence[float], least: float = 0.0
) -> tuple[list[Segment], list[float], Strength]:
    """The words of a text, the weight of each, and the scale of their shades, `least` or more."""
    segments = words(cut(text, spans))
    totals = [segment.total(weights) for segment in segments]
    scale = Strength.of(total for segment, total in zip(segments, totals, strict=True) if segment.tokens).scale
    return segments, totals, Strength(max(scale, least))


def strongest(segment: Segment, values: Matrix) -> tuple[int, float] | None:
    """The row that adds most to a segment, and how much; None where nothing is known of it or no row adds anything."""
    if not segment.tokens or not values:
        return None
    totals = [segment.total(row) for row in values]
    best = max(range(len(totals)), key=totals.__getitem__)
    return (best, totals[best]) if totals[best] > 0.0 else None


def opponent(segment: Segment, values: Matrix, strength: Strength) -> int | None:
    """The row that speaks most against a segment, where one does so strongly."""
    if not segment.tokens or not values:
        return None
    totals = [segment.total(row) for row in values]
    worst = min(range(len(totals)), key=totals.__getitem__)
    return worst if strength.opposes(totals[worst], _OPPONENT) else None


def words(segments: Sequence[Segment]) -> list[Segment]:
    """The segments with the parts of a word joined."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        if last is not None and _belongs(last, segment):
            tokens = (*last.tokens, *segment.tokens)
            joined[-1] = Segment(last.start, segment.end, last.text + segment.text, tokens)
        else:
            joined.append(segment)
    return joined


def _belongs(last: Segment, segment: Segment) -> bool:
    """Whether a segment goes on with the word before it."""
    is_short = segment.end - last.start <= _LONGEST_WORD
    return is_short and last.text[-1].isalnum() and segment.text[0].isalnum()


USED_BY: Final[Mapping[Use, str]] = {
    "both": "both used it",
    "retriever": "only the retriever used it",
    "generator": "only the answer used it",
    "neither": "neither used it",
}
_Color: TypeAlias = tuple[int, int, int]

_TOLD_FROM: Final = 3  # only words of this level tell their figure, which keeps long texts small
_STRONGEST: Final = {False: 0.6, True: 0.85}  # opacity of the strongest shade, in light and dark
_BRIGHTEST: Final = 0.17  # luminance of a hue behind light text
_ROW: Final = 26
_LEFT, _RIGHT, _WIDTH = 130, 270, 400
_HEAD: Final = 14
_SIDE: Final = 170  # of the bars of a term, to each side


def answer_text(shown: View) -> tuple[Html, dict[str, Any]]:
    """The answer shaded by each word's strongest document, and the figures of every document for the page's script."""
    generator = shown.explanation.generator
    if generator is None or not generator.answer_spans:
        return join(shown.answer), {}
    segments = words(cut(shown.answer, generator.answer_spans))
    strength = answer_strength(segments, generator)
    rows = {document.row: document for document in shown.packed}
    parts: list[Html] = []
    known: list[Segment] = []
    owners = [_owner(segment, generator.values, strength, rows) for segment in segments]
    for place, (segment, (owner, level)) in enumerate(zip(segments, owners, strict=True)):
        if not segment.tokens:
            parts.append(join(segment.text))
            continue
        against = rows.get(opponent(segment, generator.values, strength))
        color = f"d{owner.color} " if owner else ""
        parts.append(_marked(segment.text, f"{color}s{level}{' o' if against else ''}", data_w=len(known)))
        known.append(segment)
        if owner is not None and (place + 1 == len(owners) or owners[place + 1][0] is not owner):
            parts.append(tag("sup", owner.letter))
        if against is not None:
            parts.append(tag("sup", f"−{against.letter}", class_="o"))
    in_order = sorted(shown.packed, key=lambda document: document.row or 0)
    data = {
        "unit": "nats" if generator.unit == "log_probability" else "likeness",
        "scale": strength.scale,
        "faintest": FAINTEST,
        "levels": LEVELS,
        "documents": [{"letter": document.letter, "color": document.color} for document in in_order],
        "words": [each.text.strip() for each in known],
        "values": [
            [round(each.total(generator.values[document.row or 0]), 3) for each in known] for document in in_order
        ],
    }
    return join(*parts), data


def _owner(
    segment: Segment, values: Sequence[Sequence[float]], strength: Strength, rows: dict[int | None, Document]
) -> tuple[Document | None, int]:
    best = strongest(segment, values)
    level = strength.level(best[1]) if best else 0
    return (rows.get(best[0]), level) if best and level else (None, 0)


def shaded_text(text: str, spans: Sequence[Offsets], weights: Sequence[float], least: float = 0.0) -> Html:
    """A text shaded by one weight for each token, in its document's color; words that lower it are underlined."""
    segments, totals, strength = weighed(text, spans, weights, least)
    digits = precision(totals)
    parts: list[str] = []
    for segment, total in zip(segments, totals, strict=True):
        level = strength.level(total)
        if strength.opposes(total):
            parts.append(_marked(segment.text, "n", title=number(total, digits, signed=True)))
        elif level and total > 0.0:
            told = number(total, digits, signed=True) if level >= _TOLD_FROM else None
            parts.append(_marked(segment.text, f"s{level}", title=told))
        else:
            parts.append(segment.text)
    return join(*parts)


def _marked(text: str, class_: str, **attributes: str | float | None) -> Html:
    """White space at the sides has no shade."""
    core = text.strip()
    before, _, after = text.partition(core) if core else (text, "", "")
    return join(before, tag("i", core, class_=class_, **attributes), after)


def color_rules() -> str:
    """The rules for documents (`d0`, ...) and levels (`s0`, ...), in light and dark."""
    bars = "".join(f".d{place}{{--b:{_listed(color)}}}" for place, color in enumerate(PALETTE))
    return f"{bars}{_theme(False)}@media (prefers-color-scheme:dark){{{_theme(True)}}}"


def _theme(dark: bool) -> str:
    hues = "".join(f".d{place}{{--h:{_listed(hue(color, dark))}}}" for place, color in enumerate(PALETTE))
    levels = "".join(f".s{level}{{--a:{opacity(level, dark)}}}" for level in range(LEVELS + 1))
    return f"{hues}{levels}:root{{--a8:{opacity(LEVELS, dark)}}}"


def hue(color: _Color, dark: bool) -> _Color:
    """A hue as a background: as it is behind dark text, no brighter than light text needs in the dark."""
    if not dark:
        return color
    factor = 1.0
    while _luminance(tuple(round(part * factor) for part in color)) > _BRIGHTEST:
        factor -= 0.02
    red, green, blue = (round(part * factor) for part in color)
    return red, green, blue


def opacity(level: int, dark: bool) -> float:
    """How much of the hue a level shows."""
    return round(_STRONGEST[dark] * (0.15 + 0.85 * level / LEVELS), 3) if level else 0.0


def _luminance(color: Sequence[int]) -> float:
    """Relative luminance, in [0, 1]. Source: WCAG 2.2."""
    parts = [part / 255 for part in color]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _listed(color: _Color) -> str:
    return ",".join(map(str, color))


def share_bar(document: Document, low: float, high: float) -> Html:
    """A share as a bar from zero, with one standard error to both sides; `low` to `high` fill the width."""
    if document.share is None or high <= low:
        return Html("")

    def at(value: float) -> float:
        return round(1 + 98 * (value - low) / (high - low), 2)

    start, end = sorted((at(0.0), at(document.share)))
    parts = [tag("rect", x=f"{start}%", y=5, width=f"{end - start:.2f}%", height=12, class_="bar")]
    if document.error:
        left, right = at(document.share - document.error), at(document.share + document.error)
        parts.append(_line(left, 11, right, 11))
        parts += [_line(side, 6, side, 16) for side in (left, right)]
    zero = at(0.0)
    parts.append(_line(zero, 0, zero, 22, "zero"))
    return tag("svg", *parts, class_=f"share d{document.color}", height=22, aria_hidden="true")


def _line(x1: float, y1: float, x2: float, y2: float, class_: str = "whisker") -> Html:
    return tag("line", x1=f"{x1}%", y1=y1, x2=f"{x2}%", y2=y2, class_=class_)


def rankings(view: View) -> Html:
    """The documents in the retriever's order and in that of their shares, each joined by a line."""
    found = view.explanation.alignment
    if found is None or not found.retriever:
        return Html("")
    places = {chunk_id: place for place, chunk_id in enumerate(found.generator)}
    parts = [_text(_LEFT, _HEAD, "retriever", "end head"), _text(_RIGHT, _HEAD, "answer", "start head")]
    for place, chunk_id in enumerate(found.retriever):
        document, other = view.by_id[chunk_id], places.get(chunk_id)
        parts.append(_rank(document, place, _LEFT, "end"))
        if other is not None:
            parts.append(
                tag("line", x1=_LEFT + 8, y1=_y(place), x2=_RIGHT - 8, y2=_y(other), class_=f"slope d{document.color}")
            )
            parts.append(_rank(document, other, _RIGHT, "start"))
    height = _y(len(found.retriever)) - _ROW // 2
    orders = [", ".join(view.by_id[each].letter for each in order) for order in (found.retriever, found.generator)]
    label = f"Order of the retriever: {orders[0]}. Order by share of the answer: {orders[1]}."
    return tag("svg", *parts, viewBox=f"0 0 {_WIDTH} {height}", class_="rankings", role="img", aria_label=label)


def _y(place: int) -> int:
    return _HEAD + 20 + place * _ROW


def _rank(document: Document, place: int, x: int, side: str) -> Html:
    shown = f"{document.letter}  {place + 1}" if side == "end" else f"{place + 1}  {document.letter}"
    return join(
        tag("circle", cx=x + (8 if side == "end" else -8), cy=_y(place), r=5, class_=f"dot d{document.color}"),
        _text(x - 4 if side == "end" else x + 4, _y(place) + 5, shown, side),
    )


def _text(x: float, y: float, text: str, class_: str) -> Html:
    return tag("text", text, x=x, y=y, class_=class_)


def warg_scale(adjusted: float, p: float) -> Html:
    """Where an adjusted WARG stands between the retriever's order (0) and a random one (1)."""
    high = max(1.5, adjusted + 0.1)
    low = min(0.0, adjusted)

    def at(value: float) -> float:
        return round(4 + 92 * (value - low) / (high - low), 2)

    parts: list[Html] = [tag("line", x1="2%", y1=30, x2="98%", y2=30, class_="axis")]
    for value, name in ((0.0, "0 retriever's order"), (1.0, "1 random order")):
        parts.append(tag("line", x1=f"{at(value)}%", y1=24, x2=f"{at(value)}%", y2=36, class_="axis"))
        anchor = "start" if value == 0.0 else "middle"
        parts.append(tag("text", name, x=f"{at(value)}%", y=52, class_=anchor))
    parts.append(tag("circle", cx=f"{at(adjusted)}%", cy=30, r=7, class_="here"))
    anchor = "end" if at(adjusted) > 80 else "start" if at(adjusted) < 20 else "middle"
    parts.append(tag("text", number(adjusted), x=f"{at(adjusted)}%", y=17, class_=f"{anchor} head"))
    label = f"Adjusted WARG at p = {p:g}: {number(adjusted)}; 0 is the retriever's order, 1 a random order."
    return tag("svg", *parts, class_="warg", height=60, role="img", aria_label=label)


def term_bars(terms: Sequence[TermUse]) -> Html:
    """Of each term that somebody used: to the left its part of what all terms add to the retriever's scores, to the
    right of what they add to the answer, each on the scale of its side's largest."""
    used = [term for term in terms if term.used_by != "neither"]
    middle = _SIDE + 90
    most = max([0.0, *(term.retriever for term in used)]), max([0.0, *(term.generator or 0.0 for term in used)])
    parts = [
        _text(middle - 84, _HEAD, "retriever", "end head"),
        _text(middle + 84, _HEAD, "answer", "start head"),
    ]
    for place, term in enumerate(used):
        y = _HEAD + 10 + place * _ROW
        left, right = (
            _SIDE * max(part, 0.0) / whole if whole else 0.0
            for part, whole in zip((term.retriever, term.generator or 0.0), most, strict=True)
        )
        parts += [
            _text(middle, y + 14, _short(visible(term.text)), "middle term"),
            tag("rect", x=f"{middle - 84 - left:.1f}", y=y + 3, width=f"{left:.1f}", height=14, class_="by-retriever"),
            tag("rect", x=middle + 84, y=y + 3, width=f"{right:.1f}", height=14, class_="by-answer"),
        ]
    told = visible("; ".join(f"{term.text}: {USED_BY[term.used_by]}" for term in used))
    width, height = 2 * middle, _HEAD + 14 + len(used) * _ROW
    return tag(
        "svg", *parts, viewBox=f"0 0 {width} {height}", class_="terms", role="img",
        aria_label=f"Terms of the question by who used them. {told}.",
    )  # fmt: skip


def _short(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:19]}…"
