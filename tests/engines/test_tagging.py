"""Parts of speech by a spaCy pipeline, which stands in for itself where spaCy is not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ragtrace.engines.tagging import Tagger
from ragtrace.errors import MissingExtraError, ModelError


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


def test_without_spacy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
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
