"""The drawings of an explanation's page, as inline SVG: shares with their errors, two rankings, WARG on its scale."""

from __future__ import annotations

from typing import Final

from ragtrace.export.explanation_view import Document, View, number
from ragtrace.export.markup import Html, join, tag

__all__ = ["rankings", "share_bar", "warg_scale"]

_ROW: Final = 26
_LEFT, _RIGHT, _WIDTH = 130, 270, 400
_LABEL: Final = 14


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
    parts = [_text(_LEFT, _LABEL, "retriever", "end head"), _text(_RIGHT, _LABEL, "answer", "start head")]
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
    return _LABEL + 20 + place * _ROW


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
