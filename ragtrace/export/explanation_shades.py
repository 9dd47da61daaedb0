"""Shaded texts in HTML: the answer by document, texts by one series of weights, and the colors they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from ragtrace.explanations import Offsets
from ragtrace.export.explanation_shading import (
    FAINTEST,
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
from ragtrace.export.explanation_view import Document, View, number, precision
from ragtrace.export.markup import Html, join, tag

__all__ = ["answer_text", "hue", "opacity", "shaded_text", "stylesheet"]

Color: TypeAlias = tuple[int, int, int]

_TOLD_FROM: Final = 3  # only words of this level tell their figure, which keeps long texts small
_STRONGEST: Final = {False: 0.6, True: 0.85}  # opacity of the strongest shade, in light and dark
_BRIGHTEST: Final = 0.17  # luminance of a hue behind light text


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


def stylesheet() -> str:
    """The rules for documents (`d0`, ...) and levels (`s0`, ...), in light and dark."""
    bars = "".join(f".d{place}{{--b:{_listed(color)}}}" for place, color in enumerate(PALETTE))
    return f"{bars}{_theme(False)}@media (prefers-color-scheme:dark){{{_theme(True)}}}"


def _theme(dark: bool) -> str:
    hues = "".join(f".d{place}{{--h:{_listed(hue(color, dark))}}}" for place, color in enumerate(PALETTE))
    levels = "".join(f".s{level}{{--a:{opacity(level, dark)}}}" for level in range(LEVELS + 1))
    return f"{hues}{levels}:root{{--a8:{opacity(LEVELS, dark)}}}"


def hue(color: Color, dark: bool) -> Color:
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


def _listed(color: Color) -> str:
    return ",".join(map(str, color))
