"""Names and parts of speech by a spaCy pipeline: a blank one, or a stand-in where spaCy is not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ragtrace.coverage import extract_facets
from ragtrace.engines.spacy_pipelines import EntityReader, Tagger
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


def _token(text: str, idx: int, pos: str) -> SimpleNamespace:
    return SimpleNamespace(text=text, idx=idx, pos_=pos, is_space=text.isspace())


def _stand_in(monkeypatch: pytest.MonkeyPatch, load: Callable[[str], Any]) -> None:
    """A module of that name with the one function that is used."""
    module = ModuleType("spacy")
    module.load = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spacy", module)


def test_tokens_have_offsets_and_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """White space is no token."""
    tokens = [_token("Home", 0, "PROPN"), _token("\n", 4, "SPACE"), _token("pays", 5, "VERB")]
    _stand_in(monkeypatch, lambda name: lambda text: tokens)
    tagger = Tagger.load("en_small")

    assert tagger.tagged("Home\npays") == [(0, 4, "PROPN"), (5, 9, "VERB")]
    assert tagger.name == "en_small"


def test_tags_without_spacy_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install."""
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"spacy is not installed; pip install 'ragtrace\[spacy\]'"):
        Tagger.load("en_core_web_sm")


def test_a_missing_pipeline_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that brings it."""

    def load(name: str) -> Any:
        raise OSError(f"[E050] Can't find model '{name}'.\nIt does not seem to be there.")

    _stand_in(monkeypatch, load)
    with pytest.raises(
        ModelError, match=r"'en_none' cannot be loaded: .*; python -m spacy download en_none, or"
    ) as caught:
        Tagger.load("en_none")
    assert "\n" not in str(caught.value)


def test_a_pipeline_without_tags_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blank pipeline only cuts texts; an empty text has nothing to tag."""
    _stand_in(monkeypatch, lambda name: lambda text: [_token(text, 0, "")] if text else [])
    tagger = Tagger.load("blank")

    assert tagger.tagged("") == []
    with pytest.raises(ModelError, match="'blank' gives no parts of speech"):
        tagger.tagged("Home")


def test_a_real_pipeline_tags() -> None:
    """Where spaCy and its small English pipeline are installed."""
    pytest.importorskip("spacy", reason="pip install 'ragtrace[spacy]'")
    pytest.importorskip("en_core_web_sm", reason="python -m spacy download en_core_web_sm")

    assert Tagger.load("en_core_web_sm").tagged("Dogs bark.")[0] == (0, 4, "NOUN")


def test_half_a_sign_is_read_as_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """spaCy refuses lone surrogates; the offsets stay."""
    read: list[str] = []

    def pipeline(text: str) -> list[SimpleNamespace]:
        read.append(text)
        return [_token("Home", 2, "PROPN")]

    _stand_in(monkeypatch, lambda name: pipeline)
    assert Tagger.load("en_small").tagged("\ud83d Home") == [(2, 6, "PROPN")]
    assert read == ["? Home"]


def test_a_text_that_spacy_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than its pipeline takes: the error names the pipeline."""

    def refuse(text: str) -> Any:
        raise ValueError("[E088] Text of length 1000001 exceeds maximum of 1000000")

    _stand_in(monkeypatch, lambda name: refuse)
    with pytest.raises(ModelError, match=r"spaCy pipeline 'en_small' cannot read a text of 9 characters: \[E088\]"):
        Tagger.load("en_small").tagged("too long.")
