"""The drawings of the pages, as SVG: a request's path, its times, shares, trends; and the style sheet that has their
colors: that of the explanation, the pages' own rules, and which sentence each claim lights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Final

from ragtrace.export.explanation_html import stylesheet as explanation_rules
from ragtrace.export.request_view import ChunkView, RequestView, stage_times
from ragtrace.html_page import Html, tag
from ragtrace.safe_text import visible
from ragtrace.types import RequestRecord

__all__ = [
    "CLAIMS",
    "path_picture",
    "share_bar",
    "state_bar",
    "stylesheet",
    "times_picture",
    "trend_line",
    "trend_picture",
]

_ROW: Final = 30
_BOX: Final = 24
_HEAD: Final = 44
_GAP: Final = 86  # between columns, where the lines run
_WIDE: Final = 232
_LETTER, _BOLD = 7.1, 8.2  # pixels of a letter of 13 pixels, about


def path_picture(view: RequestView) -> Html:
    """Columns for what was retrieved, reranked and packed and for the claims of the answer; a line leads each chunk on
    to its next rank, and each chunk of the prompt to the claims that it supports or contradicts."""
    return _Path(view).drawn()


class _Path:
    def __init__(self, view: RequestView) -> None:
        self._view = view
        self._titles = ["Retrieved"] + (["Reranked"] if view.has_reranking else []) + ["In the prompt", "Answer"]
        self._columns: list[list[tuple[ChunkView, int]]] = []
        self._columns.append(_by_rank((one, one.retrieved) for one in view.chunks))
        if view.has_reranking:
            self._columns.append(_by_rank((one, one.reranked) for one in view.chunks))
        self._columns.append(_by_rank((one, one.position) for one in view.chunks))
        self._lost = [one for one in view.chunks if one.is_needed and one.lost_at and one.lost_at != "truncation"]
        self._y: list[dict[int, float]] = []

    def drawn(self) -> Html:
        """The whole picture."""
        parts: list[Html] = []
        boxes: list[Html] = []
        for place, column in enumerate(self._columns):
            rows: dict[int, float] = {}
            y, last = float(_HEAD), 0
            for chunk, rank in column:
                if rank > last + 1 and place < len(self._columns) - 1:
                    boxes.append(_text(self._x(place) + 8, y + 12, f"⋮ {rank - last - 1} more", "faint"))
                    y += 22
                rows[chunk.number] = y
                boxes.append(self._box(place, chunk, rank, y))
                y, last = y + _ROW, rank
            self._y.append(rows)
        boxes += self._ghosts()
        claims = self._claims()
        parts += self._lines()
        height = self._height()
        head = [_text(self._x(place), 18, title, "head") for place, title in enumerate(self._titles)]
        head += [_text(self._x(place), 34, note, "faint") for place, note in enumerate(self._notes()) if note]
        width = self._x(len(self._titles) - 1) + _WIDE + 8
        label = "The way of each chunk from retrieval to the answer; the list of chunks below says the same in words."
        return tag(
            "svg", *head, *parts, *boxes, *claims, viewBox=f"0 0 {width} {height}", class_="path", role="group",
            aria_label=label, width=width, height=height,
        )  # fmt: skip

    def _x(self, place: int) -> int:
        return 2 + place * (_WIDE + _GAP)

    def _notes(self) -> Iterator[str]:
        view = self._view
        total = len(view.record.candidates)
        yield f"{total} candidates, best rank first" if total != 1 else "1 candidate"
        if view.has_reranking:
            yield "red lines sink, green ones rise"
        if view.used and view.budget:
            yield f"{view.used:,} of {view.budget:,} tokens"
        else:
            yield f"{view.used:,} tokens" if view.used else ""
        count = sum(bool(one.view.number) for one in view.claims)
        yield f"{count} {'claim' if count == 1 else 'claims'}"

    def _box(self, place: int, chunk: ChunkView, rank: int, y: float) -> Html:
        is_last = place == len(self._columns) - 1
        cut = " ✂" if is_last and chunk.is_truncated else ""
        star = "★ " if chunk.is_needed else ""
        name = _short(f"{rank}  {star}{chunk.chunk_id}{cut}", _WIDE - 14, is_bold=chunk.is_needed)
        classes = ["chunk", "needed" if chunk.is_needed else "", "packed" if chunk.position else ""]
        if chunk.lost_at and chunk.is_needed:
            classes.append("lost")
        about = [f"{chunk.chunk_id}: rank {rank}"]
        about += [chunk.loss] if chunk.loss else []
        about += [f"left out: {chunk.dropped}"] if chunk.dropped else []
        return tag(
            "a",
            tag("title", _about(", ".join(about))),
            tag("rect", x=self._x(place), y=y, width=_WIDE, height=_BOX, rx=5),
            _text(self._x(place) + 8, y + 17, name, "name"),
            href=f"#chunk-{chunk.number}",
            class_=" ".join(filter(None, classes)),
        )

    def _ghosts(self) -> Iterator[Html]:
        """Needed chunks where they should have stood: in the prompt, or among the candidates."""
        place = len(self._columns) - 1
        for chunk in self._lost:
            at = 0 if chunk.lost_at == "retrieval" else place
            y = self._bottom(at) + 8
            self._y[at][-chunk.number] = y
            words = {"retrieval": "never retrieved", "rerank": "sunk in reranking", "packing": "left out"}
            name = _short(f"✕ ★ {chunk.chunk_id}", _WIDE - 14, is_bold=True)
            yield _text(self._x(at) + 8, y + 40, f"needed, but {words.get(chunk.lost_at or '', 'lost')}", "loss")
            yield tag(
                "a",
                tag("title", _about(f"{chunk.chunk_id} is needed; {chunk.loss}")),
                tag("rect", x=self._x(at), y=y, width=_WIDE, height=_BOX, rx=5),
                _text(self._x(at) + 8, y + 17, name, "name"),
                href=f"#chunk-{chunk.number}",
                class_="chunk ghost",
            )

    def _bottom(self, place: int) -> float:
        """The end of a column; below a chunk that was lost stands how."""
        ends = (y + _ROW + (18 if number < 0 else 0) for number, y in self._y[place].items())
        return max(ends, default=float(_HEAD))

    def _claims(self) -> Iterator[Html]:
        """Worked out before the lines that lead to them."""
        drawn, y, place = [], float(_HEAD), len(self._columns)
        self._claim_y: dict[int, float] = {}
        for link in self._view.claims:
            if link.view.number is None:
                continue
            self._claim_y[link.view.number] = y
            mark = {"good": "✓", "bad": "✗", "doubt": "?", "plain": "·"}[link.tone]
            name = _short(f"{mark} {link.view.number}  {link.view.text}", _WIDE - 14)
            drawn.append(
                tag(
                    "a",
                    tag("title", _about(f"claim {link.view.number}, {link.view.state}: {link.view.text}")),
                    tag("rect", x=self._x(place), y=y, width=_WIDE, height=_BOX, rx=5),
                    _text(self._x(place) + 8, y + 17, name, "name"),
                    href=f"#claim-{link.view.number}",
                    class_=f"said {link.tone}",
                )
            )
            y += _ROW
        if not drawn:
            answer = self._view.record.generation
            words = "no answer was recorded" if answer is None or answer.answer is None else "claims are not judged"
            drawn.append(_text(self._x(place) + 8, _HEAD + 16, words, "faint"))
        return iter(drawn)

    def _lines(self) -> Iterator[Html]:
        last = len(self._columns) - 1
        for place in range(last):
            ranks = {chunk.number: rank for chunk, rank in self._columns[place + 1]}
            for chunk, rank in self._columns[place]:
                before, after = self._y[place].get(chunk.number), self._y[place + 1].get(chunk.number)
                if before is None:
                    continue
                strong = " strong" if chunk.is_needed or chunk.position else ""
                if after is not None:
                    moved = rank - ranks.get(chunk.number, 0)
                    is_ranked = place + 1 < last
                    way = "kept" if not is_ranked or moved == 0 else "rose" if moved > 0 else "sank"
                    yield self._line(place, before, after, f"way {way}{strong}")
                elif (ghost := self._y[place + 1].get(-chunk.number)) is not None:
                    yield self._line(place, before, ghost, "way sank strong dashed")
        by_number = {chunk.number: self._y[last].get(chunk.number) for chunk in self._view.chunks}
        for link in self._view.claims:
            end = self._claim_y.get(link.view.number or 0)
            decides, others = link.contradictions[:1], link.contradictions[1:]
            for numbers, kind in (
                (link.supports, "supports strong"), (decides, "contradicts strong"), (others, "differs")
            ):  # fmt: skip
                for number in numbers:
                    start = by_number.get(number)
                    if start is not None and end is not None:
                        yield self._line(last, start, end, f"way {kind}")

    def _line(self, place: int, start: float, end: float, class_: str) -> Html:
        x1, x2 = self._x(place) + _WIDE, self._x(place + 1)
        y1, y2, middle = start + _BOX / 2, end + _BOX / 2, (self._x(place) + _WIDE + self._x(place + 1)) / 2
        return tag("path", d=f"M{x1} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2} {y2:g}", class_=class_)

    def _height(self) -> float:
        lowest = [self._bottom(place) for place in range(len(self._y))]
        return max([*lowest, *(y + _ROW for y in self._claim_y.values()), _HEAD + _ROW]) + 6


def _by_rank(ranked: Iterable[tuple[ChunkView, int | None]]) -> list[tuple[ChunkView, int]]:
    """The chunks of one column, the best rank first."""
    return sorted(((chunk, rank) for chunk, rank in ranked if rank is not None), key=lambda pair: pair[1])


def times_picture(record: RequestRecord) -> Html:
    """When each stage ran, as a waterfall over the request's time."""
    left, width, rows = 150, 560, []
    lines = stage_times(record)
    began, whole = lines[0].began, lines[0].ended - lines[0].began
    for place, one in enumerate(lines):
        y = 6 + place * 26
        x = left + width * (one.began - began) / whole
        w = max(2.0, width * one.milliseconds * 1e6 / whole)
        label = f"{one.milliseconds:,.1f} ms{' (error)' if one.is_error else ''}"
        own = one.name if one.name and one.name != one.kind else ""
        rows.append(_text(left - 10, y + 14, _short(f"{one.kind} {own}".strip(), left - 14), "end"))
        rows.append(tag("rect", x=f"{x:.1f}", y=y, width=f"{w:.1f}", height=18, rx=3, class_=f"run {one.kind}"))
        rows.append(_text(left + width + 10, y + 14, label, "figure"))
    height = 12 + 26 * len(lines)
    told = "; ".join(f"{one.kind} {one.milliseconds:.1f} ms" for one in lines)
    return tag(
        "svg", *rows, viewBox=f"0 0 {left + width + 120} {height}", class_="times", role="img", aria_label=told,
        width=left + width + 120, height=height,
    )  # fmt: skip


_RADIUS: Final = 11  # of a release's number on the time axis
_STATES: Final = ("sound", "suspected", "not_known", "broken")


def state_bar(counts: Sequence[tuple[str, float]]) -> Html:
    """A bar of the shares of each state; the shares add up to 1."""
    parts, at = [], 0.0
    for state, share in counts:
        if share > 0:
            parts.append(tag("rect", x=f"{100 * at:.2f}%", y=0, width=f"{100 * share:.2f}%", height=14, class_=state))
            at += share
    return tag("svg", *parts, class_="states", height=14, width="100%", aria_hidden="true")


def share_bar(share: float, low: float, high: float, target: float) -> Html:
    """A share with its interval, and a mark at what the objective allows."""
    parts = [
        tag("rect", x="0", y=3, width=f"{100 * share:.2f}%", height=8, class_="broken"),
        tag("line", x1=f"{100 * low:.2f}%", x2=f"{100 * high:.2f}%", y1=7, y2=7, class_="whisker"),
        tag("line", x1=f"{100 * target:.2f}%", x2=f"{100 * target:.2f}%", y1=0, y2=14, class_="target"),
    ]
    return tag("svg", *parts, class_="share", height=14, width="100%", aria_hidden="true")


def trend_line(shares: Sequence[float | None], allowed: float) -> Html:
    """Small bars of a share over time, None where there was no request, with a line at what is allowed."""
    step, height = 7, 18
    most = max([2 * allowed, *(share for share in shares if share is not None)]) or 1.0
    parts = [
        tag("rect", x=place * step, y=f"{height * (1 - share / most):.1f}", width=step - 1,
            height=f"{height * share / most:.1f}", class_="broken")
        for place, share in enumerate(shares)
        if share
    ]  # fmt: skip
    y = f"{height * (1 - allowed / most):.1f}"
    parts.append(tag("line", x1=0, x2=len(shares) * step, y1=y, y2=y, class_="target"))
    return tag("svg", *parts, class_="spark", width=len(shares) * step, height=height, aria_hidden="true")


def trend_picture(
    stages: Sequence[tuple[str, str, Sequence[tuple[float | None, float | None, str]]]],
    releases: Sequence[tuple[float, str]],
    times: Sequence[tuple[float, str]],
) -> Html:
    """Of each stage a row of bars over time: the share of requests in which it broke, and on top of it the share in
    which it is suspected.

    stages: of each its name, a figure, and by slice the two shares (None: no request) and the link of the slice.
    releases: where each came, from 0 to 1, and its number. times: the same of the marks of the axis.
    """
    left, width, row = 128, 872, 64
    parts: list[Html] = []
    for place, (name, figure, slices) in enumerate(stages):
        base = 40 + place * row + 46
        parts.append(_text(0, base - 24, name, "head"))
        parts.append(_text(0, base - 7, figure, "faint"))
        # for a narrow window, which shows the newest end alone
        parts.append(tag("text", name, x=left + width, y=base - 48, class_="again", aria_hidden="true"))
        parts.append(tag("line", x1=left, x2=left + width, y1=base, y2=base, class_="axis"))
        step = width / max(1, len(slices))
        for number, (broken, suspected, link) in enumerate(slices):
            x = left + number * step
            if broken is None:
                continue
            bars = [tag("rect", x=f"{x:.1f}", y=base - 44, width=f"{step:.1f}", height=44, class_="hit")]
            high = 44 * broken
            if broken:
                bars.append(_bar(x, base - high, step, high, "broken"))
            if suspected:
                bars.append(_bar(x, base - high - 44 * suspected, step, 44 * suspected, "suspected"))
            told = f"{name}: broken in {broken:.0%}, suspected in {suspected or 0:.0%} of this slice's requests"
            parts.append(tag("a", tag("title", told), *bars, href=link, tabindex="-1"))
    bottom = 40 + len(stages) * row
    places = [left + width * at for at, _ in releases]
    for x, circle, (_, mark) in zip(places, _apart(places, left + width), releases, strict=True):
        parts.append(tag("line", x1=f"{circle:.1f}", x2=f"{x:.1f}", y1=25, y2=32, class_="release"))
        parts.append(tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=32, y2=bottom - 18, class_="release"))
        parts.append(tag("circle", cx=f"{circle:.1f}", cy=14, r=_RADIUS, class_="release"))
        parts.append(_text(circle, 18.5, mark, "middle number"))
    for at, written in times:
        parts.append(_text(left + width * at, bottom - 2, written, "faint middle"))
    label = "Shares of broken and suspected requests by stage over time, with the releases; the tables say the same."
    return tag(
        "svg", *parts, viewBox=f"0 0 {left + width + 24} {bottom + 4}", class_="trend", role="group", aria_label=label,
        width=left + width + 24, height=bottom + 4,
    )  # fmt: skip


def _apart(places: Sequence[float], most: float) -> list[float]:
    """Where circles stand that shall not cover each other, in their order, none behind `most`: releases of one moment
    stand side by side."""
    found: list[float] = []
    for x in places:
        found.append(max(x, found[-1] + 2 * _RADIUS + 2) if found else x)
    for number in range(len(found) - 1, -1, -1):
        limit = most if number == len(found) - 1 else found[number + 1] - 2 * _RADIUS - 2
        found[number] = min(found[number], limit)
    return found


def _bar(x: float, y: float, step: float, height: float, class_: str) -> Html:
    return tag(
        "rect", x=f"{x + 1:.1f}", y=f"{y:.1f}", width=f"{max(1.0, step - 2):.1f}", height=f"{height:.1f}", class_=class_
    )


def _text(x: float, y: float, text: str, class_: str) -> Html:
    return tag("text", visible(text), x=f"{x:.1f}", y=f"{y:.1f}", class_=class_)


def _about(text: str) -> str:
    """What stands at the pointer."""
    return visible(text[:400])


def _short(text: str, width: float, *, is_bold: bool = False) -> str:
    """A text of the host on one line, cut to a width."""
    line = " ".join(text[:400].split())
    most = int(width / (_BOLD if is_bold else _LETTER))
    return line if len(line) <= most else f"{line[: most - 1]}…"


CLAIMS: Final = 120
"""Claims of an answer that light their sentence under the pointer; a link leads to it in any case."""


def stylesheet() -> str:
    """All rules, for every page."""
    own = resources.files("ragtrace.web").joinpath("page", "web.css").read_text("utf-8")
    return f"{explanation_rules()}{own}{''.join(_linked())}"


def _linked() -> Iterator[str]:
    """A claim under the pointer or the keyboard lights its sentence, and the sentence its claim."""
    for number in range(1, CLAIMS + 1):
        hot = f".c{number}:is(:hover,:focus-visible,:target)"
        yield f".reading:has({hot}) .c{number}{{--lit:1;outline:2px solid currentColor;outline-offset:1px}}"
