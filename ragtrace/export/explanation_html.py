"""Explanations in HTML: the sections that stand in the page of a request, and one file that needs nothing else, no
network, no fonts, and no script to be read. Of an answer both are of the same template.

Of a chunk's grade: both texts with each word in the color of what it adds, and the strongest words as bars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ragtrace.analyze.grade_attribution import GradeAttribution
from ragtrace.analyze.prompts import retrieval_queries
from ragtrace.attribution import WeightedSpan
from ragtrace.explanations import Explanation, GeneratorAttribution, TermUse, term_uses
from ragtrace.export._explanation_drawings import (
    FAINTEST,
    LEAST_SHARE,
    LEVELS,
    USED_BY,
    Strength,
    answer_text,
    color_rules,
    rankings,
    shaded_text,
    share_bar,
    term_bars,
    warg_scale,
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
    unit_of,
    view,
)
from ragtrace.export.findings import claim_summary, claim_views
from ragtrace.html_page import Html, asset, embedded, join, standalone, tag, templates
from ragtrace.safe_text import visible
from ragtrace.types import Claim, RequestRecord

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["grade_page", "grade_sections", "page", "sections", "stylesheet"]

_TOLD: Final = 4  # documents of which a word's figures are told
_WORDS: Final = 8  # of a question
_OPEN: Final = 2  # documents whose retrieval is shown at once: the first of each ranking
_LONGEST: Final = 1_200  # characters of a part of the prompt of a closed model
_UNITS: Final = {
    "log_probability": "Nats: what a document adds to the log-probability of the word",
    "similarity": "Likeness: what a document adds to the likeness of the response, from 0 to 1",
}


def page(record: RequestRecord, explanation: Explanation, claims: Sequence[Claim] = ()) -> str:
    """The whole file. claims: of the answer, judged; none where no worker was there."""
    shown = view(record, explanation)
    body, data = sections(record, explanation)
    judged = [claim for claim in claim_views(record, claims) if claim.state is not None]
    at = datetime.fromtimestamp(record.started_at / 1e9, UTC)
    whole = (
        _templates()
        .get_template("explanation.html")
        .render(
            shown=shown,
            at=f"{at:%Y-%m-%d %H:%M:%S} UTC",
            claims=judged,
            counts=", ".join(said for _, said in claim_summary(judged)),
            sections=body,
        )
    )
    script = asset("ragtrace.export", "explanation.js")
    title = f"Explanation of {visible(record.request_id)}"
    return standalone(title, stylesheet(), tag("main", Html(whole)), data, scripts=[script])


def sections(record: RequestRecord, explanation: Explanation) -> tuple[Html, Html]:
    """What the page of a request shows of its explanation, and the figures that the script reads."""
    shown = view(record, explanation)
    answer, data = answer_text(shown)
    terms = term_uses(explanation, record.query.original, retrieval_queries(record))
    found, query = shown.explanation.alignment, shown.explanation.query
    low, high = bounds(shown.packed)
    main = main_p(found.ps) if found else None
    values: dict[str, Any] = {
        "shown": shown,
        "generator": shown.explanation.generator,
        "alignment": found,
        "headline": headline(shown),
        "flags": list(_flags(shown)),
        "advice": advice(shown),
        "terms": [term for term in terms if term.used_by != "neither"],
        "question": _colored_question(shown.question, terms),
        "term_bars": term_bars(terms),
        "query_words": _query_words(shown.question, query) if query and shown.question else None,
        "query": query,
        "answer": answer,
        "data": data,
        "answer_words": list(_answer_words(data)),
        "by_share": sorted(shown.packed, key=lambda each: each.generator_rank or len(shown.documents)),
        "bars": {each.row: share_bar(each, low, high) for each in shown.packed},
        "digits": precision((low, high)),
        "sure": _sureness(shown),
        "parts": list(_prompt_parts(shown)),
        "p": found.ps[main] if found and main is not None and main < len(found.adjusted) else None,
        "warg": warg_scale(found.adjusted[main], found.ps[main])
        if found and main is not None and main < len(found.adjusted)
        else None,
        "wargs": list(zip(found.ps, found.adjusted, found.warg, found.floor, found.chance, strict=False))
        if found
        else [],
        "rankings": rankings(shown),
        "retrieved": list(_retrieved(shown)),
        "words_left_out": leaves_words_out(explanation),
        "method": list(method(shown)),
    }
    body = _templates().get_template("explanation_sections.html").render(values)
    return Html(body), embedded("values", data)


def stylesheet() -> str:
    """The rules of the page."""
    return asset("ragtrace.export", "base.css") + asset("ragtrace.export", "explanation.css") + color_rules()


@cache
def _templates() -> Environment:
    environment = templates("ragtrace.export")
    environment.filters |= {"number": number, "measured": measured, "unit": unit_of, "phrases_note": phrases_note}
    environment.globals |= {"levels": LEVELS, "used_by": USED_BY, "units": _UNITS}
    return environment


def _flags(shown: View) -> Sequence[tuple[str, str, str]]:
    """Of each its name, yes or no, and the rest of the sentence."""
    told = []
    for sentence in flags(shown):
        name, _, rest = sentence.partition(": ")
        word, separator, reason = rest.partition(" ")
        told.append((name, word, separator + reason))
    return told


def _colored_question(question: str, terms: Sequence[TermUse]) -> Html:
    """The question, each term in the color of who used it; a place is good in it as it is in the recorded question, of
    the same length."""
    parts, at = list[Html | str](), 0
    for term in sorted((one for one in terms if one.place and one.used_by != "neither"), key=lambda one: one.place):  # type: ignore[arg-type,return-value]  # it has one
        start, end = term.place or (0, 0)
        parts.append(question[at:start])
        parts.append(tag("b", question[start:end], class_=f"term {term.used_by}", title=USED_BY[term.used_by]))
        at = end
    return join(*parts, question[at:])


def _query_words(question: str, query: GeneratorAttribution) -> tuple[Html, list[tuple[str, str]]]:
    """The question shaded by what each word adds to the answer, and the words or phrases that matter most."""
    digits = precision_of(query)
    order = sorted(range(len(query.shares)), key=lambda place: -abs(query.shares[place]))[:_WORDS]
    rows = []
    for place in order:
        start, end = query.query_spans[place]
        error = query.share_errors[place] if place < len(query.share_errors) else None
        rows.append((question[start:end], measured(query.shares[place], error, digits)))
    return shaded_text(question, *query.word_shares(), LEAST_SHARE), rows


def _answer_words(data: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """What the shades of the answer say in numbers, of each word that has one; data: as `answer_text` gives it."""
    if not data:
        return ()
    least = FAINTEST * data["scale"]
    letters = [each["letter"] for each in data["documents"]]
    rows = []
    for place, word in enumerate(data["words"]):
        values = [(series[place], name) for series, name in zip(data["values"], letters, strict=True)]
        told = sorted((each for each in values if abs(each[0]) >= least), key=lambda each: -abs(each[0]))[:_TOLD]
        if told:
            rows.append((word, ", ".join(f"{letter} {number(value, signed=True)}" for value, letter in told)))
    return rows


def _sureness(shown: View) -> str:
    """How sure the shares are."""
    generator = shown.explanation.generator
    if generator is not None and generator.exact:
        return "these shares are exact"
    if generator is not None and generator.method == "leave_one_out":
        return "0: the answer changes least without the document, 1: most; errors are unknown"
    if any(each.error is not None for each in shown.packed):
        return "whiskers and ±: one standard error"
    return "the errors of these shares are unknown"


def _prompt_parts(shown: View) -> Sequence[tuple[Document | None, str, str, int, float]]:
    """Of a closed model, whose answers alone are known: each part of the prompt in its order, its name, its text, the
    level of its color and its weight."""
    return [
        (document, name, text[:_LONGEST], min(LEVELS, round(LEVELS * weight)), weight)
        for document, name, text, weight in prompt_parts(shown)
    ]


def _retrieved(shown: View) -> Sequence[tuple[Document, bool, str, list[tuple[str, Html | None]]]]:
    """Of each document whose retrieval is explained: whether it is open, its completeness, and the two shaded texts."""
    known = [document for document in shown.documents if document.why is not None]
    first = [each for each in known if 1 in (each.retriever_rank, each.generator_rank)][:_OPEN] or known[:1]
    rows = []
    for document in known:
        why = document.why
        if why is None:
            continue
        delta = why.completeness_delta
        error = "" if delta is None else f", completeness delta {delta:+.2g}".replace("-", "−")
        texts = [
            (name, shaded_text(text, weights.spans, weights.weights) if text else None)
            for name, text, weights in (
                ("Query", document.query_text, why.query),
                ("Document", document.text, why.document),
            )
        ]
        rows.append((document, document in first, document.found + error, texts))
    return rows


_FOR, _AGAINST = "d0", "d5"  # blue and vermilion of the palette
_BARS = 14
_WIDTH, _HEIGHT, _MIDDLE = 240, 14, 120
_DIGITS = 3
_FIGURES = ("adds", "by gradients")


def grade_page(found: GradeAttribution, chunk_id: str) -> str:
    """The whole file."""
    title = f"Why {visible(chunk_id)} got its grade"
    return standalone(title, stylesheet(), tag("main", tag("h1", title), grade_sections(found)))


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
