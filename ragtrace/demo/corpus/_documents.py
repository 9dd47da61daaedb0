"""Grows policy wordings (product x jurisdiction x edition) and their chunks from the TOML templates.

Figures are drawn so that the same section differs from year to year and from country to country: a wrong edition or
region reads just like the right one and says something else.
"""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib import resources
from typing import Any, Final

from ragtrace.errors import ConfigurationError

__all__ = [
    "JURISDICTIONS",
    "PRODUCTS",
    "YEARS",
    "Corpus",
    "Document",
    "DocumentSection",
    "Jurisdiction",
    "load_corpus",
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
    return tomllib.loads(resources.files("ragtrace.demo.corpus").joinpath(f"{code}.toml").read_text("utf-8"))


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
