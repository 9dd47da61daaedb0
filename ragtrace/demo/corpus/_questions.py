"""The questions: natural wording, required facets, and the oracle evidence that answers them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, Final

from ragtrace.demo.corpus._documents import PRODUCTS, Corpus, Document, DocumentSection, load_corpus, template
from ragtrace.types import Facet, Gold

__all__ = ["Question", "load_questions"]

_DRAWS: Final = {"limit": 1, "exception": 2, "deadline": 2, "change": 2, "eligibility": 1}
_WHERE: Final = ("in {place}", "for customers in {place}", "in {place}")
_WHEN: Final = (
    "under the {year} wording",
    "in {year}",
    "under edition {edition} of {year}",
    "on {day} May {year}",
    "according to edition {edition}",
)
_SPAN: Final = (
    "between {before} and {after}",
    "from edition {old} of {before} to edition {new} of {after}",
    "in {before} compared with {after}",
    "from {before} to {after}",
)
_STRIDE: Final = 17


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a user. `evidence` maps each oracle chunk to the sentence in it that answers."""

    text: str
    query_class: str
    facets: tuple[Facet, ...]
    evidence: Mapping[str, str]

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        """The oracle evidence."""
        return tuple(self.evidence)

    @property
    def answer(self) -> str:
        """The sentences that answer."""
        return " ".join(self.evidence.values())

    def gold(self, service: str) -> Gold:
        """The question as an entry of the store's gold set."""
        facets = tuple(self.facets)
        return Gold(
            service=service,
            question=self.text,
            chunk_ids=self.chunk_ids,
            query_class=self.query_class,
            facets=facets,
            answer=self.answer,
        )


@cache
def load_questions() -> tuple[Question, ...]:
    """Every question once, always the same, query classes interleaved."""
    corpus = load_corpus()
    questions = {question.text: question for code in PRODUCTS for question in _product_questions(code, corpus)}
    return tuple(sorted(questions.values(), key=lambda question: _order(question.text)))


def _order(text: str) -> int:
    return sum(ord(letter) * (i + 1) for i, letter in enumerate(text)) % 9973


def _product_questions(code: str, corpus: Corpus) -> Iterator[Question]:
    documents = [document for document in corpus.documents if document.code == code]
    turn = itertools.count(PRODUCTS.index(code))
    for entry in template(code)["question"]:
        for ask in entry["ask"]:
            for _ in range(_DRAWS[entry["class"]]):
                draw = next(turn)
                document = documents[draw * _STRIDE % len(documents)]
                make = _change if entry["class"] == "change" else _plain
                yield make(entry, ask, document, draw, corpus)


def _plain(entry: dict[str, Any], ask: str, document: Document, draw: int, corpus: Corpus) -> Question:
    form = _WHEN[draw % len(_WHEN)]
    day = date(document.year, 5, 1 + draw % 28)
    when = form.format(year=day.year, day=day.day, edition=document.edition)
    facets = [*_subject(entry, document), _moment(form, document, day)]
    return _question(entry, ask.replace("{when}", when), facets, [document], draw, corpus)


def _change(entry: dict[str, Any], ask: str, document: Document, draw: int, corpus: Corpus) -> Question:
    siblings = [
        other
        for other in corpus.documents
        if (other.code, other.jurisdiction) == (document.code, document.jurisdiction)
    ]
    position = min(siblings.index(document), len(siblings) - 2)
    before = siblings[position]
    after = siblings[min(position + 1 + draw % 3, len(siblings) - 1)]
    span = _SPAN[draw % len(_SPAN)].format(before=before.year, after=after.year, old=before.edition, new=after.edition)
    times = [Facet(kind="time", value=str(edition.year)) for edition in (before, after)]
    return _question(
        entry, ask.replace("{span}", span), [*_subject(entry, before), *times], [before, after], draw, corpus
    )


def _subject(entry: dict[str, Any], document: Document) -> list[Facet]:
    return [
        Facet(kind="entity", value=document.product),
        Facet(kind="entity", value=entry["topic"], aliases=tuple(entry.get("aliases", ()))),
        Facet(kind="jurisdiction", value=document.jurisdiction.name, weight=2.0),
    ]


def _moment(form: str, document: Document, day: date) -> Facet:
    if "{year}" not in form:
        return Facet(kind="version", value=document.edition, weight=2.0)
    return Facet(kind="time", value=day.isoformat() if "{day}" in form else str(day.year), weight=2.0)


def _question(
    entry: dict[str, Any], ask: str, facets: list[Facet], documents: list[Document], draw: int, corpus: Corpus
) -> Question:
    document = documents[0]
    place = document.jurisdiction.name
    if place.startswith("United"):
        place = f"the {place}"
    where = _WHERE[draw % len(_WHERE)].format(place=place)
    text = ask.replace("{product}", document.product).replace("{where}", where)
    evidence: dict[str, str] = {}
    for edition, need in itertools.product(documents, entry["needs"]):
        key, figure = need.split(".")
        chunk: DocumentSection = corpus.find(edition, key)
        evidence[chunk.chunk_id] = chunk.evidence[figure]
        text, quantities = _with_quantities(text, chunk)
        facets = [*facets, *quantities]
    return Question(text, entry["class"], tuple(facets), evidence)


def _with_quantities(text: str, chunk: DocumentSection) -> tuple[str, list[Facet]]:
    """`text` with the chunk's figures that it quotes, and these as facets."""
    quoted = {name: value for name, value in chunk.figures.items() if f"{{{name}}}" in text}
    for name, value in quoted.items():
        text = text.replace(f"{{{name}}}", value)
    return text, [Facet(kind="quantity", value=value, weight=0.5) for value in quoted.values()]
