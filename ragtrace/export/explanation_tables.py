"""The tables of an explanation's page: shares with their bars, figures of words, WARG at each p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ragtrace.explanations import Alignment, GeneratorAttribution
from ragtrace.export.explanation_shading import FAINTEST
from ragtrace.export.explanation_svg import share_bar
from ragtrace.export.explanation_view import Document, View, bounds, measured, number, precision, precision_of, unit_of
from ragtrace.export.markup import Html, tag

__all__ = ["answer_words", "badge", "question_words", "shares", "wargs"]

_TOLD: Final = 4  # documents of which a word's figures are told
_WORDS: Final = 8  # of a question


def badge(document: Document) -> Html:
    """A document's letter in its color."""
    return tag("span", document.letter, class_=f"badge d{document.color}")


def answer_words(data: dict[str, Any]) -> Html:
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


def shares(shown: View) -> Html:
    """The documents of the prompt, best share first, with ranks, shares, errors and bars."""
    low, high = bounds(shown.packed)
    names = ("rank: retriever", "rank: answer", f"share, {shown.unit}", "of what all add")
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
        tag("th", badge(document), " ", document.name, cut, scope="row"),
        *(tag("td", value, class_="num", data_name=name) for name, value in zip(names, figures, strict=True)),
        tag("td", share_bar(document, low, high), class_="barcell"),
        data_row=document.row,
    )


def wargs(found: Alignment) -> Html:
    """WARG at each p with its floor and chance."""
    rows = []
    for p, *values in zip(found.ps, found.adjusted, found.warg, found.floor, found.chance, strict=False):
        cells = [tag("td", number(value, 3), class_="num") for value in values]
        rows.append(tag("tr", tag("th", f"{p:g}", scope="row"), *cells))
    heads = [tag("th", "p", scope="col"), *map(_over_numbers, ("adjusted", "raw", "floor", "chance"))]
    return _table("WARG at each p", heads, rows)


def question_words(question: str, query: GeneratorAttribution) -> Html:
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
