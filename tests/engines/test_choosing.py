"""Models by what is written on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.analyze.attribution import ClosedEngine, GeneratorEngine, RetrieverEngine
from ragtrace.engines.choosing import as_baseline, is_silent, load_generator, load_retriever
from ragtrace.engines.models import digest_of
from ragtrace.errors import ConfigurationError, ModelError
from tests.engines.serving import Served


def test_a_folder_is_a_causal_language_model(tiny_causal_lm: Path) -> None:
    """With what is stored beside its results."""
    model: GeneratorEngine | ClosedEngine = load_generator(str(tiny_causal_lm))
    assert isinstance(model, GeneratorEngine)
    assert (model.kind, model.name) == ("causal_lm", tiny_causal_lm.name)
    assert model.revision == digest_of(tiny_causal_lm)
    assert model.device in ("cpu", "cuda")


def test_an_address_is_a_server() -> None:
    """Of texts or of a chat; nothing is asked yet."""
    model = load_generator("http://localhost:9/v1#small")
    assert isinstance(model, GeneratorEngine)
    assert (model.kind, model.name, model.device) == ("http", "small", "remote")
    chat = load_generator("chat:https://localhost:9/v1#chat")
    assert isinstance(chat, ClosedEngine)
    assert chat.name == "chat"


def test_a_chat_is_asked_whether_it_gives_log_probabilities(model_server: Served, tiny_causal_lm: Path) -> None:
    """Once; a completion's server and a local model are taken at their word."""
    closed = load_generator(f"chat:{model_server.at('closed')}#tiny")
    model_server.seen()
    assert is_silent(closed)
    asked = len(model_server.seen())
    assert asked > 0
    assert is_silent(closed)
    assert model_server.seen() == []
    assert not is_silent(load_generator(f"chat:{model_server.at('vllm')}#tiny"))
    assert not is_silent(load_generator("http://localhost:9/v1#small"))
    assert not is_silent(load_generator(str(tiny_causal_lm)))


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


@pytest.mark.parametrize("model", ["chat:http://user:s3cret@host:8000/v1", "https://user:s3cret@host/v1"])
def test_a_refused_address_shows_no_password(model: str) -> None:
    """Neither in a chat's address nor in a plain one."""
    with pytest.raises(ConfigurationError, match="host") as refused:
        load_generator(model)
    assert "s3cret" not in str(refused.value)
