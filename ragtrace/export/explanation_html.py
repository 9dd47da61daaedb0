"""An explanation as one HTML file that needs nothing else: no network, no fonts, and no script to be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from ragtrace.explanations import Alignment, Explanation, GeneratorAttribution, Offsets
from ragtrace.export._explanation_shading import (
    FAINTEST,
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
    main_p,
    measured,
    method,
    number,
    precision,
    precision_of,
    unit_of,
    view,
)
from ragtrace.export.evidence_path import claim_summary, claim_views
from ragtrace.html_page import Html, asset, embedded, join, standalone, tag
from ragtrace.safe_text import visible
from ragtrace.types import Claim, RequestRecord

__all__ = [
    "findings",
    "hue",
    "opacity",
    "page",
    "sections",
    "stylesheet",
]

_Color: TypeAlias = tuple[int, int, int]

_TOLD_FROM: Final = 3  # only words of this level tell their figure, which keeps long texts small
_STRONGEST: Final = {False: 0.6, True: 0.85}  # opacity of the strongest shade, in light and dark
_BRIGHTEST: Final = 0.17  # luminance of a hue behind light text
_ROW: Final = 26
_LEFT, _RIGHT, _WIDTH = 130, 270, 400
_LABEL: Final = 14
_TOLD: Final = 4  # documents of which a word's figures are told
_WORDS: Final = 8  # of a question
_OPEN: Final = 2  # documents whose retrieval is shown at once: the first of each ranking
_HIGHER: Final = (
    "WARG (weighted attribution-relevance gap) at p = {:g}, adjusted for chance: the higher, the less the answer "
    "follows the retriever's ranking."
)
_UNITS: Final = {
    "log_probability": "Nats: what a document adds to the log-probability of the word",
    "similarity": "Likeness: what a document adds to the likeness of the response, from 0 to 1",
}


def page(record: RequestRecord, explanation: Explanation, claims: Sequence[Claim] = ()) -> str:
    """The whole file. claims: of the answer, judged; none where no worker was there."""
    body, data = sections(record, explanation, claims)
    script = asset("ragtrace.export", "explanation.js")
    title = f"Explanation of {visible(record.request_id)}"
    return standalone(title, stylesheet(), tag("main", body), data, scripts=[script])


def sections(record: RequestRecord, explanation: Explanation, claims: Sequence[Claim] = ()) -> tuple[Html, Html]:
    """What stands in the page, for a page of another maker, and the figures that its script reads."""
    shown = view(record, explanation)
    answer, data = _answer_text(shown)
    body = join(
        _header(shown),
        _answer(shown, answer, data),
        _claims(record, claims),
        _documents(shown),
        _alignment(shown),
        _question(shown),
        _retrieved(shown),
        _computed(shown),
    )
    return body, embedded("values", data)


def findings(record: RequestRecord, explanation: Explanation) -> tuple[str, ...]:
    """What the explanation says, in sentences: what the answer rests on, and what was wasted or distracted."""
    shown = view(record, explanation)
    next_step = advice(shown)
    return (headline(shown), *flags(shown), *([next_step] if next_step else []))


def stylesheet() -> str:
    """The rules of the page."""
    return asset("ragtrace.export", "base.css") + asset("ragtrace.export", "explanation.css") + _stylesheet()


def _header(shown: View) -> Html:
    record = shown.record
    at = datetime.fromtimestamp(record.started_at / 1e9, UTC)
    origin = f"request {record.request_id} · {record.service}/{record.segment} · {at:%Y-%m-%d %H:%M:%S} UTC"
    question, next_step = shown.question or "The question's text was not kept", advice(shown)
    return tag(
        "header",
        tag("p", f"{origin} · {record.status}", class_="eyebrow"),
        tag("h1", question, dir="auto"),
        tag("p", headline(shown), class_="headline"),
        _flags(shown),
        tag("p", next_step, class_="faint") if next_step else "",
    )


def _flags(shown: View) -> Html:
    items = []
    for sentence in flags(shown):
        name, _, rest = sentence.partition(": ")
        word, separator, reason = rest.partition(" ")
        is_set = rest.startswith("yes")
        items.append(tag("li", f"{name}: ", tag("b", word), separator, reason, class_="yes" if is_set else None))
    return tag("ul", *items, class_="flags") if items else Html("")


def _section(title: str, *parts: str, hint: str = "") -> Html:
    return tag("section", tag("h2", title), tag("p", hint, class_="faint") if hint else "", *parts)


def _answer(shown: View, answer: Html, data: dict[str, Any]) -> Html:
    generator = shown.explanation.generator
    if not shown.answer:
        return _section("The answer", tag("p", "Its text was not kept."))
    if generator is None or not generator.answer_spans:
        reason = "The model does not say where its tokens stand." if generator else "What it used was not computed."
        return _section("The answer", tag("div", answer, class_="text answer", dir="auto"), hint=reason)
    chips = [tag("button", "all documents", data_row=-1, type="button", class_="all", aria_pressed="true")]
    for document in sorted(shown.packed, key=lambda each: each.generator_rank or len(shown.documents)):
        part = f" {number(document.percent, 0)} %" if document.percent is not None else f" {number(document.share, 2)}"
        chips.append(
            tag(
                "button",
                _badge(document),
                part,
                data_row=document.row,
                type="button",
                aria_pressed="false",
                title=document.name,
                aria_label=f"only document {document.letter},{part}",
            )
        )
    return _section(
        "The answer, by the document that adds most to each word",
        tag("div", *chips, class_="chips js-only", role="group", aria_label="documents"),
        tag("div", answer, class_="text answer", id="shaded", dir="auto"),
        tag("p", "Point at a word for its figures; choose a document for what it alone adds.",
            id="figures", class_="faint js-only", aria_live="polite"),
        _legend(data, _UNITS[generator.unit]),
        tag("details", tag("summary", "The figures of each word"), _answer_words(data), class_="data"),
        hint="The letter behind a stretch names the document. − before a letter: this document speaks against it.",
    )  # fmt: skip


def _claims(record: RequestRecord, claims: Sequence[Claim]) -> Html:
    """Which document supports or contradicts each claim, and in which words."""
    views = [claim for claim in claim_views(record, claims) if claim.state is not None]
    if not views:
        return Html("")
    parts: list[Html] = []
    for claim in views:
        doubted = "doubted" if claim.state != "supported" else None
        rows = []
        for line in claim.lines:
            label = tag("b", line.label, class_=doubted) if line.kind == "state" else line.label
            told = tag("q", line.text[1:-1], dir="auto") if line.kind == "quotation" else line.text
            rows += [tag("dt", label), tag("dd", told)]
        parts += [tag("h3", f"Claim {claim.number}"), tag("p", claim.text, dir="auto"), tag("dl", *rows)]
    counts = ", ".join(said for _, said in claim_summary(views))
    return _section("What the documents say of each claim", *parts, hint=f"{len(views)}: {counts}.")


def _legend(data: dict[str, Any], unit: str) -> Html:
    scale = tag("span", *(tag("i", class_=f"s{level}") for level in range(1, LEVELS + 1)), class_="scale")
    against = tag("i", "underlined", class_="n")
    most = f"{number(data['scale'])} {data['unit']} or more"
    return tag("p", "Shades: from 0 ", scale, f" to {most}; ", against, f": less than 0. {unit}.", class_="legend")


def _documents(shown: View) -> Html:
    if not shown.packed:
        return Html("")
    generator = shown.explanation.generator
    sure = "the errors of these shares are unknown"
    if generator is not None and generator.exact:
        sure = "these shares are exact"
    elif generator is not None and generator.method == "leave_one_out":
        sure = "0: the answer changes least without the document, 1: most; errors are unknown"
    elif any(each.error is not None for each in shown.packed):
        sure = "whiskers and ±: one standard error"
    table = tag("div", _shares(shown), class_="scroll")
    return _section("Shares of the documents", table, hint=f"Best share first. Bars from zero; {sure}.")


def _alignment(shown: View) -> Html:
    found = shown.explanation.alignment
    if found is None:
        return Html("")
    main = main_p(found.ps)
    words: list[Html] = []
    if main is not None and main < len(found.adjusted):
        words.append(_warg_scale(found.adjusted[main], found.ps[main]))
        words.append(tag("p", _HIGHER.format(found.ps[main]), class_="faint"))
    words.append(tag("div", _wargs(found), class_="scroll"))
    if found.spearman is not None:
        words.append(tag("p", f"Spearman's rank correlation: {number(found.spearman)}", class_="faint"))
    if found.ties:
        words.append(tag("p", f"{found.ties} neighbors with equal shares keep the retriever's order.", class_="faint"))
    both = tag("div", _rankings(shown), tag("div", *words), class_="two")
    return _section("Does the answer follow the retriever's ranking?", both)


def _question(shown: View) -> Html:
    query = shown.explanation.query
    if query is None or not shown.question:
        return Html("")
    return _section(
        "Which words of the question the answer needs",
        tag(
            "div", _shaded_text(shown.question, query.query_spans, query.shares, LEAST_SHARE), class_="text", dir="auto"
        ),
        tag("details", tag("summary", "The strongest words"), _question_words(shown.question, query)),
    )


def _retrieved(shown: View) -> Html:
    known = [document for document in shown.documents if document.why is not None]
    if not known:
        return Html("")
    first = [each for each in known if 1 in (each.retriever_rank, each.generator_rank)][:_OPEN] or known[:1]
    return _section(
        "Why each document was retrieved",
        *(_reason(document, document in first) for document in known),
        hint="What each word adds to the retriever's score of the pair, by Integrated Gradients; underlined words "
        "lower it. Shades compare within one text.",
    )


def _reason(document: Document, is_open: bool) -> Html:
    why = document.why
    if why is None:
        return Html("")
    delta = why.completeness_delta
    error = "" if delta is None else f", completeness delta {delta:+.2g}".replace("-", "−")
    claim_summary = tag("span", document.found + error, class_="faint")
    parts: list[Html] = [tag("summary", _badge(document), " ", document.name, " ", claim_summary)]
    for name, text, weights in (("Query", document.query_text, why.query), ("Document", document.text, why.document)):
        shaded = _shaded_text(text, weights.spans, weights.weights) if text else Html("its text was not kept")
        parts += [tag("h3", name), tag("div", shaded, class_=f"text d{document.color}", dir="auto")]
    return tag("details", *parts, open=is_open)


def _computed(shown: View) -> Html:
    entries = list(_entries(shown))
    skipped = [tag("li", f"{part}: {why}") for part, why in shown.explanation.skipped.items()]
    missing = _section("What was left out", tag("ul", *skipped)) if skipped else Html("")
    return join(missing, _section("How it was computed", tag("dl", *entries)))


def _entries(shown: View) -> Iterator[Html]:
    found: Explanation = shown.explanation
    generator = found.generator
    if generator is not None and generator.empty is not None and generator.full is not None:
        empty, full = number(generator.empty, 3), number(generator.full, 3)
        yield tag("dt", "what is shared out")
        yield tag("dd", f"from {empty} without any document to {full} with all, {shown.unit}")
    for name, value in method(shown):
        yield tag("dt", name)
        yield tag("dd", value)


def _answer_text(shown: View) -> tuple[Html, dict[str, Any]]:
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


def _shaded_text(text: str, spans: Sequence[Offsets], weights: Sequence[float], least: float = 0.0) -> Html:
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


def _stylesheet() -> str:
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


def _share_bar(document: Document, low: float, high: float) -> Html:
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


def _rankings(view: View) -> Html:
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


def _warg_scale(adjusted: float, p: float) -> Html:
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


def _badge(document: Document) -> Html:
    """A document's letter in its color."""
    return tag("span", document.letter, class_=f"badge d{document.color}")


def _answer_words(data: dict[str, Any]) -> Html:
    """What the shades of the answer say in numbers, of each word that has one; data: as `answer_text` gives it."""
    least = FAINTEST * data["scale"]
    letters = [each["letter"] for each in data["documents"]]
    rows = []
    for place, word in enumerate(data["words"]):
        values = [(series[place], name) for series, name in zip(data["values"], letters, strict=True)]
        told = sorted((each for each in values if abs(each[0]) >= least), key=lambda each: -abs(each[0]))[:_TOLD]
        if told:
            figures = ", ".join(f"{letter} {number(value, signed=True)}" for value, letter in told)
            rows.append(tag("tr", tag("th", word, scope="row"), tag("td", figures)))
    heads = [tag("th", "word", scope="col"), tag("th", f"strongest documents, {data['unit']}", scope="col")]
    return _table("What documents add to each word", heads, rows)


def _shares(shown: View) -> Html:
    """The documents of the prompt, best share first, with ranks, shares, errors and bars."""
    low, high = bounds(shown.packed)
    names = ("rank: retrieved, reranked", "rank: answer", f"share, {shown.unit}", "of what all add")
    ordered = sorted(shown.packed, key=lambda each: each.generator_rank or len(shown.documents))
    rows = [_share(document, names, low, high) for document in ordered]
    heads = [tag("th", "document", scope="col"), *map(_over_numbers, names), tag("td")]
    return _table("Shares of the documents", heads, rows, "shares")


def _share(document: Document, names: Sequence[str], low: float, high: float) -> Html:
    digits = precision((low, high))
    figures = (
        str(document.retriever_rank or "-"),
        str(document.generator_rank or "-"),
        measured(document.share, document.error, digits),
        f"{number(document.percent, 0)} %" if document.percent is not None else "-",
    )
    cut = tag("span", " cut in the prompt", class_="faint") if document.truncated else ""
    return tag(
        "tr",
        tag("th", _badge(document), " ", document.name, cut, scope="row"),
        *(tag("td", value, class_="num", data_name=name) for name, value in zip(names, figures, strict=True)),
        tag("td", _share_bar(document, low, high), class_="barcell"),
        data_row=document.row,
    )


def _wargs(found: Alignment) -> Html:
    """WARG at each p with its floor and chance."""
    rows = []
    for p, *values in zip(found.ps, found.adjusted, found.warg, found.floor, found.chance, strict=False):
        cells = [tag("td", number(value, 3), class_="num") for value in values]
        rows.append(tag("tr", tag("th", f"{p:g}", scope="row"), *cells))
    heads = [tag("th", "p", scope="col"), *map(_over_numbers, ("adjusted", "raw", "floor", "chance"))]
    return _table("WARG at each p", heads, rows)


def _question_words(question: str, query: GeneratorAttribution) -> Html:
    """The words of the question that matter most."""
    digits = precision_of(query)
    order = sorted(range(len(query.shares)), key=lambda place: -abs(query.shares[place]))[:_WORDS]
    rows = []
    for place in order:
        start, end = query.query_spans[place]
        error = query.share_errors[place] if place < len(query.share_errors) else None
        figure = tag("td", measured(query.shares[place], error, digits), class_="num")
        rows.append(tag("tr", tag("th", question[start:end], scope="row"), figure))
    return _table(
        "Shares of the question's words",
        [tag("th", "word", scope="col"), _over_numbers(f"share, {unit_of(query)}")],
        rows,
    )


def _over_numbers(name: str) -> Html:
    return tag("th", name, scope="col", class_="num")


def _table(caption: str, heads: Sequence[Html], rows: Sequence[Html], class_: str | None = None) -> Html:
    return tag("table", tag("caption", caption), tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_=class_)
