"""The corpus: size, shape and differences between neighbors."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise

import pytest

from ragtrace.demo._corpus import JURISDICTIONS, PRODUCTS, load_corpus, template
from ragtrace.errors import ConfigurationError


def test_size() -> None:
    """About 150 documents and at least 1,500 chunks with ids and texts of their own."""
    corpus = load_corpus()
    assert 140 <= len(corpus.documents) <= 160
    assert len(corpus.chunks) >= 1500
    assert len({chunk.text for chunk in corpus.chunks}) == len(corpus.chunks)


def test_lengths() -> None:
    """Chunks have 40 to 120 words; the summaries are the longest of them."""
    corpus = load_corpus()
    lengths = {chunk.chunk_id: len(chunk.text.split()) for chunk in corpus.chunks}
    assert min(lengths.values()) >= 40
    assert max(lengths.values()) <= 120
    summaries = [lengths[chunk.chunk_id] for chunk in corpus.chunks if chunk.kind == "summary"]
    others = [lengths[chunk.chunk_id] for chunk in corpus.chunks if chunk.kind != "summary"]
    assert min(summaries) > max(others)


def test_headers_and_metadata_agree() -> None:
    """A chunk's header names what its metadata says: product, country, edition, year, section."""
    for chunk in load_corpus().chunks:
        header = chunk.text.partition("\n")[0]
        facts = chunk.metadata
        year = date.fromisoformat(facts["effective_from"]).year
        assert header == (
            f"{facts['product']}, {facts['jurisdiction']}, edition {facts['edition']} ({year}): {facts['section']}"
        )
        assert facts["effective_to"] == f"{year}-12-31"


def test_no_placeholder_is_left() -> None:
    """Every template is filled in."""
    assert not [chunk.chunk_id for chunk in load_corpus().chunks if re.search(r"[{}]", chunk.text)]


def test_neighboring_years_and_countries_differ() -> None:
    """The same section has other figures in the next year and in the next country, so a wrong edition is wrong."""
    corpus = load_corpus()
    by_place = {(chunk.document.code, chunk.key, chunk.source, chunk.document.year): chunk for chunk in corpus.chunks}
    sources = [f"wordings-{place.code.lower()}" for place in JURISDICTIONS]
    for (code, key, source, year), chunk in by_place.items():
        after = by_place.get((code, key, source, year + 1))
        following = dict(pairwise(sources)).get(source)
        beside = by_place.get((code, key, following, year)) if following else None
        for other in (after, beside):
            if other is not None and chunk.evidence:
                assert _figures(chunk.text) != _figures(other.text), (chunk.chunk_id, other.chunk_id)


def test_evidence_sentences_stand_in_their_chunk() -> None:
    """The sentence that states a figure is part of the chunk's text; summaries state none."""
    for chunk in load_corpus().chunks:
        assert all(sentence in chunk.text for sentence in chunk.evidence.values())
        assert bool(chunk.evidence) == (chunk.kind != "summary")


def test_editions_supersede_each_other() -> None:
    """Each edition but the first of a country names the one before it."""
    documents = load_corpus().documents
    for before, after in pairwise(documents):
        if (before.code, before.jurisdiction) == (after.code, after.jurisdiction):
            assert (after.supersedes, after.year) == (before.edition, before.year + 1)
        else:
            assert after.supersedes is None


def test_exception_clauses_are_chunks_of_their_own() -> None:
    """Every product has sections of cover and, apart from them, sections of exceptions."""
    for code in PRODUCTS:
        kinds = {section["key"]: section["kind"] for section in template(code)["section"]}
        exceptions = [key for key, kind in kinds.items() if kind == "exception"]
        assert len(exceptions) >= 2
        assert all(kinds[key.removesuffix("-exception")] == "cover" for key in exceptions)


def test_an_unknown_product_is_refused() -> None:
    """A product without a template is a configuration error that lists the known ones."""
    with pytest.raises(ConfigurationError, match=r"'pets'.*home, travel"):
        template("pets")


def _figures(text: str) -> list[str]:
    return re.findall(r"\d[\d,]*", text.partition("\n")[2])
