"""Writes an explanation as one HTML file that needs nothing else: no network, no fonts, and no script to be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ragtrace.explanations import Explanation
from ragtrace.export.claims import claim_views, summary
from ragtrace.export.document import asset, standalone
from ragtrace.export.explanation_findings import advice, flags, headline, method
from ragtrace.export.explanation_shades import answer_text, shaded_text, stylesheet
from ragtrace.export.explanation_shading import LEAST_SHARE, LEVELS
from ragtrace.export.explanation_svg import rankings, warg_scale
from ragtrace.export.explanation_tables import answer_words, badge, question_words, shares, wargs
from ragtrace.export.explanation_view import Document, View, main_p, number, view
from ragtrace.export.markup import Html, join, tag
from ragtrace.strict_json import dumps
from ragtrace.types import Claim, RequestRecord

__all__ = ["page"]

_OPEN: Final = 2  # documents whose retrieval is shown at once: the first of each ranking
_HIGHER: Final = (
    "WARG at p = {:g}, adjusted for chance: the higher, the less the answer follows the retriever's ranking."
)
_UNITS: Final = {
    "log_probability": "Nats: what a document adds to the log-probability of the word",
    "similarity": "Likeness: what a document adds to the likeness of the response, from 0 to 1",
}


def page(record: RequestRecord, explanation: Explanation, claims: Sequence[Claim] = ()) -> str:
    """The whole file. claims: of the answer, judged; none where no worker was there."""
    shown = view(record, explanation)
    answer, data = answer_text(shown)
    body = tag(
        "main",
        _header(shown),
        _answer(shown, answer, data),
        _claims(record, claims),
        _documents(shown),
        _alignment(shown),
        _question(shown),
        _retrieved(shown),
        _computed(shown),
    )
    values = tag("script", Html(_embedded(data)), type="application/json", id="values")
    style = asset("ragtrace.export", "explanation.css") + stylesheet()
    script = asset("ragtrace.export", "explanation.js")
    return standalone(f"Explanation of {shown.record.request_id}", style, body, values, script=script)


def _embedded(data: dict[str, Any]) -> str:
    """JSON for a script element, in which nothing is escaped: no "<" may stand in it."""
    return dumps(data, indent=None).replace("<", "\\u003c")


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
                badge(document),
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
        tag("details", tag("summary", "The figures of each word"), answer_words(data), class_="data"),
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
    counts = ", ".join(said for _, said in summary(views))
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
    table = tag("div", shares(shown), class_="scroll")
    return _section("Shares of the documents", table, hint=f"Best share first. Bars from zero; {sure}.")


def _alignment(shown: View) -> Html:
    found = shown.explanation.alignment
    if found is None:
        return Html("")
    main = main_p(found.ps)
    words: list[Html] = []
    if main is not None and main < len(found.adjusted):
        words.append(warg_scale(found.adjusted[main], found.ps[main]))
        words.append(tag("p", _HIGHER.format(found.ps[main]), class_="faint"))
    words.append(tag("div", wargs(found), class_="scroll"))
    if found.spearman is not None:
        words.append(tag("p", f"Spearman's rank correlation: {number(found.spearman)}", class_="faint"))
    if found.ties:
        words.append(tag("p", f"{found.ties} neighbors with equal shares keep the retriever's order.", class_="faint"))
    both = tag("div", rankings(shown), tag("div", *words), class_="two")
    return _section("Does the answer follow the retriever's ranking?", both)


def _question(shown: View) -> Html:
    query = shown.explanation.query
    if query is None or not shown.question:
        return Html("")
    return _section(
        "Which words of the question the answer needs",
        tag(
            "div", shaded_text(shown.question, query.query_spans, query.shares, LEAST_SHARE), class_="text", dir="auto"
        ),
        tag("details", tag("summary", "The strongest words"), question_words(shown.question, query)),
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
    summary = tag("span", document.found + error, class_="faint")
    parts: list[Html] = [tag("summary", badge(document), " ", document.name, " ", summary)]
    for name, text, weights in (("Query", document.query_text, why.query), ("Document", document.text, why.document)):
        shaded = shaded_text(text, weights.spans, weights.weights) if text else Html("its text was not kept")
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
