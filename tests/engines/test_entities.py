"""Names by a spaCy pipeline: a blank one with a ruler, where spaCy is installed."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pytest

from ragtrace.coverage import extract_facets
from ragtrace.engines.entities import EntityReader
from ragtrace.errors import MissingExtraError, ModelError

PATTERNS = [
    {"label": "PERIL", "pattern": "escape of water"},
    {"label": "PRODUCT", "pattern": "the Home Plus"},
    {"label": "GPE", "pattern": "oz"},
    {"label": "GPE", "pattern": [{"LOWER": "ireland"}]},
    {"label": "DATE", "pattern": "2024"},
    {"label": "PERSON", "pattern": "X-200"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pipeline on disk that finds what `PATTERNS` say."""
    spacy = pytest.importorskip("spacy", reason="pip install 'ragtrace[spacy]'")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("entity_ruler").add_patterns(PATTERNS)
    pipeline.to_disk(tmp_path / "ruled")
    return tmp_path / "ruled"


def test_a_pipeline_reads_names_that_capitals_do_not_tell(folder: Path) -> None:
    """A peril in small letters; dates, codes and places stay what the rules read, an unknown place is a name."""
    reader = EntityReader.load(str(folder))
    question = "does the Home Plus of 2024 pay for escape of water in ireland, in oz and for the X-200?"
    assert [(facet.kind, facet.value, facet.why) for facet in extract_facets(question, entities=reader)] == [
        ("entity", "Home Plus", "named entity (PRODUCT)"),
        ("time", "2024", "date"),
        ("entity", "escape of water", "named entity (PERIL)"),
        ("jurisdiction", "ireland", "named entity (GPE)"),
        ("entity", "oz", "named entity (GPE)"),
        ("entity", "X-200", "code"),
    ]


def test_what_the_pipeline_overlooks_is_read_by_capitals(folder: Path) -> None:
    """The rules go on working beside it."""
    found = extract_facets("Does Acme pay for escape of water?", entities=EntityReader.load(str(folder)))
    assert [facet.value for facet in found] == ["Acme", "escape of water"]


def test_a_pipeline_that_finds_no_entities_is_refused() -> None:
    """It would silently read nothing."""
    spacy = pytest.importorskip("spacy", reason="pip install 'ragtrace[spacy]'")
    with pytest.raises(ModelError, match="'blank' finds no entities; give one with ner or an entity_ruler"):
        EntityReader("blank", spacy.blank("en"))


def test_without_spacy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install."""
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragtrace\[spacy\]'"):
        EntityReader.load("en_core_web_sm")


@pytest.mark.parametrize("text", ["", "\x00", "\ud800 oz", "مصر é 日本", "a" * 30_000])
def test_odd_questions_are_read(text: str, folder: Path) -> None:
    """Spans slice to the values."""
    facets = extract_facets(text, today=date(2024, 5, 20), entities=EntityReader.load(str(folder)))
    assert all(text[facet.start : facet.end] == facet.value for facet in facets)


@pytest.mark.parametrize(
    ("label", "kinds"),
    [
        ("GPE", ["jurisdiction"]),
        ("NORP", ["jurisdiction"]),
        ("ORG", ["entity"]),
        ("MISC", ["entity"]),
        ("MONEY", []),
        ("DATE", []),
    ],
)
def test_labels_say_what_a_name_is(label: str, kinds: list[str]) -> None:
    """Of a word in small letters, which the rules do not read here; labels of numbers and dates are no names."""
    found = extract_facets("What did kenya say?", entities=lambda _: [(9, 14, label)])
    assert [facet.kind for facet in found] == kinds
