"""Models by what is written on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.analyze.attribution import ClosedEngine, GeneratorEngine, RetrieverEngine
from ragtrace.engines.choosing import as_baseline, load_generator, load_retriever
from ragtrace.errors import ConfigurationError, ModelError


def test_a_folder_is_a_causal_language_model(tiny_causal_lm: Path) -> None:
    """With what is stored beside its results."""
    model: GeneratorEngine | ClosedEngine = load_generator(str(tiny_causal_lm))
    assert isinstance(model, GeneratorEngine)
    assert (model.kind, model.name, model.revision) == ("causal_lm", tiny_causal_lm.name, None)
    assert model.device in ("cpu", "cuda")


def test_an_address_is_a_server() -> None:
    """One that scores answers, or a chat that does not; nothing is asked yet."""
    model = load_generator("http://localhost:9/v1#small")
    assert isinstance(model, GeneratorEngine)
    assert (model.kind, model.name, model.device) == ("http", "small", "remote")
    closed = load_generator("closed:https://localhost:9/v1#chat")
    assert isinstance(closed, ClosedEngine)
    assert not isinstance(closed, GeneratorEngine)
    assert closed.name == "chat"


def test_an_address_without_a_name_is_refused() -> None:
    """The error shows the form."""
    with pytest.raises(ConfigurationError, match=r"http://localhost:8000/v1#NAME"):
        load_generator("http://localhost:9/v1")


def test_a_baseline_is_one_of_four() -> None:
    """Another name is refused with those that there are."""
    assert as_baseline("mask") == "mask"
    with pytest.raises(ConfigurationError, match="give unk, mask, pad, zero"):
        as_baseline("black")


def test_a_cross_encoder_is_named_as_one(tiny_cross_encoder: Path) -> None:
    """The model's other kind cannot be told from its name."""
    model: RetrieverEngine = load_retriever(f"cross:{tiny_cross_encoder}")
    assert (model.kind, model.name) == ("cross_encoder", tiny_cross_encoder.name)
    with pytest.raises(ModelError, match="no model folder"):
        load_retriever("./nowhere")
