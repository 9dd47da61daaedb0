"""The corpus: policy wordings (product x jurisdiction x edition) and their chunks, grown from wordings/*.toml; and the
questions about them, with natural wording, required facets, and the oracle evidence that answers them.

Figures are drawn so that the same section differs from year to year and from country to country: a wrong edition or
region reads just like the right one and says something else.
"""

from __future__ import annotations

import itertools
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib import resources
from typing import Any, Final

from ragtrace.errors import ConfigurationError
from ragtrace.types import Facet, Gold

__all__ = [
    "JURISDICTIONS",
    "PRODUCTS",
    "YEARS",
    "Corpus",
    "Document",
    "DocumentSection",
    "Jurisdiction",
    "Question",
    "load_corpus",
    "load_questions",
    "template",
]

PRODUCTS: Final = ("home", "travel", "motor", "business")
YEARS: Final = tuple(range(2017, 2025))
_STEPS: Final = 11  # prime, so that years (step 3) and jurisdictions (step 5) never repeat a neighbor's figure
_NO_CENTS: Final = 10  # a Swedish krona buys about a tenth


@dataclass(frozen=True, slots=True)
class Jurisdiction:
    """A country with its currency; `scale` keeps sums of different currencies of about the same worth."""

    code: str
    name: str
    currency: str
    scale: int = 1


JURISDICTIONS: Final = (
    Jurisdiction("IE", "Ireland", "EUR"),
    Jurisdiction("GB", "United Kingdom", "GBP"),
    Jurisdiction("DE", "Germany", "EUR"),
    Jurisdiction("CH", "Switzerland", "CHF"),
    Jurisdiction("SE", "Sweden", "SEK", _NO_CENTS),
)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A number with its unit: `{days}` renders "30 days", `{days:n}` only "30"."""

    value: int
    unit: str

    def __format__(self, spec: str) -> str:
        if spec == "n":
            return f"{self.value:,}"
        if self.unit.isupper():
            return f"{self.unit} {self.value:,}"
        unit = self.unit.removesuffix("s") if self.value == 1 else self.unit
        return f"{self.value:,} {unit}"


@dataclass(frozen=True, slots=True)
class Document:
    """One edition of one product's wording in one jurisdiction."""

    product: str
    code: str
    jurisdiction: Jurisdiction
    edition: str
    supersedes: str | None
    year: int

    @property
    def doc_id(self) -> str:
        """For example `home-ie-3.1`."""
        return f"{self.code}-{self.jurisdiction.code.lower()}-{self.edition}"

    @property
    def source(self) -> str:
        """The content system that the document comes from: one per jurisdiction."""
        return f"wordings-{self.jurisdiction.code.lower()}"

    @property
    def effective(self) -> tuple[date, date]:
        """First and last day on which the edition is in force."""
        return date(self.year, 1, 1), date(self.year, 12, 31)

    def facts(self) -> dict[str, str]:
        """What a template may mention of its document."""
        first, last = self.effective
        superseded = f"supersedes edition {self.supersedes}" if self.supersedes else "is the first edition"
        return {
            "product": self.product,
            "jurisdiction": self.jurisdiction.name,
            "edition": self.edition,
            "supersedes": superseded,
            "effective_from": f"{first.day} {first:%B %Y}",
            "effective_to": f"{last.day} {last:%B %Y}",
        }


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """One section of one document. `figures` are its drawn quantities by name as they stand in the text, `evidence`
    the sentences that state them."""

    chunk_id: str
    text: str
    document: Document
    key: str
    kind: str
    metadata: Mapping[str, str]
    figures: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def doc_id(self) -> str:
        """The document's id."""
        return self.document.doc_id

    @property
    def source(self) -> str:
        """The document's source."""
        return self.document.source


@dataclass(frozen=True, slots=True)
class Corpus:
    """All documents and chunks."""

    documents: tuple[Document, ...]
    by_id: Mapping[str, DocumentSection]

    @property
    def chunks(self) -> tuple[DocumentSection, ...]:
        """Every chunk, document by document."""
        return tuple(self.by_id.values())

    def find(self, document: Document, key: str) -> DocumentSection:
        """The chunk of one section of one document."""
        return self.by_id[f"{document.doc_id}#{key}"]


@cache
def template(code: str) -> dict[str, Any]:
    """The parsed template file of a product."""
    if code not in PRODUCTS:
        raise ConfigurationError(f"unknown demo product {code!r}; allowed: {', '.join(PRODUCTS)}")
    return tomllib.loads(resources.files("ragtrace.demo").joinpath("wordings", f"{code}.toml").read_text("utf-8"))


@cache
def load_corpus() -> Corpus:
    """Every document and chunk, always the same."""
    documents: list[Document] = []
    chunks: list[DocumentSection] = []
    for code in PRODUCTS:
        for document in _documents(code):
            documents.append(document)
            chunks += [_chunk(document, section) for section in template(code)["section"]]
    return Corpus(tuple(documents), {chunk.chunk_id: chunk for chunk in chunks})


def _documents(code: str) -> list[Document]:
    sheet = template(code)
    absent: dict[str, int] = sheet.get("absent", {})
    editions: Sequence[str] = sheet["editions"]
    return [
        Document(sheet["product"], code, jurisdiction, edition, editions[i - 1] if i > skipped else None, YEARS[i])
        for jurisdiction in JURISDICTIONS
        for skipped in [absent.get(jurisdiction.code, 0)]
        for i, edition in enumerate(editions)
        if i >= skipped
    ]


def _chunk(document: Document, section: dict[str, Any]) -> DocumentSection:
    figures = {name: _draw(document, section["key"], name, spec) for name, spec in section.get("figures", {}).items()}
    facts: dict[str, object] = {**document.facts(), **figures}
    variants = section["variants"]
    variant: str = variants[_seed(document.doc_id, section["key"]) % len(variants)]
    evidence = {
        name: sentence.format_map(facts)
        for sentence in variant.replace("; ", ";\n").replace(". ", ".\n").split("\n")
        for name in figures
        if f"{{{name}" in sentence
    }
    first, last = document.effective
    metadata = {
        "product": document.product,
        "jurisdiction": document.jurisdiction.name,
        "edition": document.edition,
        "effective_from": first.isoformat(),
        "effective_to": last.isoformat(),
        "section": section["title"],
        "kind": section["kind"],
    }
    header = f"{document.product}, {document.jurisdiction.name}, edition {document.edition} ({document.year}): "
    text = f"{header}{section['title']}\n{variant.format_map(facts)}"
    chunk_id = f"{document.doc_id}#{section['key']}"
    stated = {name: f"{figure}" for name, figure in figures.items()}
    return DocumentSection(chunk_id, text, document, section["key"], section["kind"], metadata, stated, evidence)


def _draw(document: Document, key: str, name: str, spec: str) -> _Figure:
    unit, start, step = spec.split()
    place = JURISDICTIONS.index(document.jurisdiction)
    offset = _seed(document.code, key, name)
    value = int(start) + int(step) * ((offset + 3 * YEARS.index(document.year) + 5 * place) % _STEPS)
    if unit == "money":
        return _Figure(value * document.jurisdiction.scale, document.jurisdiction.currency)
    return _Figure(value, unit)


def _seed(*parts: str) -> int:
    return zlib.crc32("/".join(parts).encode())


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
