"""A model behind HTTP says what the same model says in this process, in each server's form."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.attribution import shapley_values
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.http import HttpLM
from ragtrace.errors import ConfigurationError, MissingExtraError, ModelError, ScoringStopped
from tests.engines.serving import Served

PROMPTS = [
    "the limit is thirty days . question : the limit ? answer :",
    "[ 1 ] the limit is 1 . [ 2 ] days . question ? answer :",
    "question : the limit ? answer :",
    "a",
]
ANSWER = "the limit is thirty days ."
KINDS = {"vllm": "vllm", "echo": "echo", "llamacpp": "llama.cpp"}


@pytest.fixture(autouse=True)
def fresh(model_server: Served) -> Iterator[None]:
    """No faults, and nothing seen yet."""
    model_server.fail()
    model_server.seen()
    yield
    model_server.fail()


def lm(served: Served, kind: str, **options: Any) -> HttpLM:
    """A client of one kind of server."""
    return HttpLM(served.at(kind), "tiny", **options)


@pytest.mark.parametrize("named", [True, False], ids=["named", "detected"])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_model(kind: str, named: bool, model_server: Served, tiny_causal_lm: Path) -> None:
    """Each dialect, named or found out: the same numbers and the same places as in this process."""
    remote = lm(model_server, kind, dialect=KINDS[kind] if named else "auto")
    local = CausalLM.load(tiny_causal_lm)
    expected = local.score(PROMPTS, ANSWER, method="batched")
    np.testing.assert_allclose(remote.score(PROMPTS, ANSWER), expected, atol=1e-4, rtol=0)
    assert remote.answer_places(PROMPTS[0], ANSWER) == local.answer_places(PROMPTS[0], ANSWER)


@pytest.fixture(scope="module")
def byte_level_server(byte_level_lm: Path) -> Iterator[Served]:
    """A server of the model whose tokens begin with their space."""
    with Served.running(byte_level_lm) as served:
        yield served


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ["thirty days.", "\nthirty days", " thirty", "日本 days"])
@pytest.mark.parametrize("end", [":", ": ", ":\n", ":\n\n", ":  "])
def test_white_space_at_a_prompts_end(
    end: str, answer: str, kind: str, byte_level_server: Served, byte_level_lm: Path
) -> None:
    """It is the prompt's, here and there: the same columns with the same numbers."""
    prompts = [f"[1] The loss must be reported. Answer{end}", f"Answer{end}"]
    local = CausalLM.load(byte_level_lm)
    remote = lm(byte_level_server, kind, dialect=KINDS[kind])
    found = remote.score(prompts, answer)
    np.testing.assert_allclose(found, local.score(prompts, answer), atol=1e-4, rtol=0)
    if answer.isascii():  # of parts of characters the server says where all of them stand
        assert remote.answer_places(prompts[0], answer) == local.answer_places(prompts[0], answer)


@pytest.mark.parametrize("kind", ["vllm", "llamacpp"])
def test_scores_in_the_chat_format(kind: str, model_server: Served, tiny_chat_lm: Path) -> None:
    """The prompt as a user's message, the answer as the assistant's turn, one BOS."""
    local = CausalLM.load(tiny_chat_lm)
    remote = lm(model_server, kind, chat=True)
    expected = local.score(PROMPTS, ANSWER, method="batched")
    np.testing.assert_allclose(remote.score(PROMPTS, ANSWER), expected, atol=1e-4, rtol=0)
    assert remote.answer_places(PROMPTS[0], ANSWER) == local.answer_places(PROMPTS[0], ANSWER)


def test_the_dialect_is_found_with_one_request(model_server: Served) -> None:
    """vLLM shows itself in the answer to a single probe, and is not asked again."""
    remote = lm(model_server, "vllm")
    remote.score(PROMPTS, ANSWER)
    remote.score(PROMPTS, "days")
    bodies = [each["body"] for each in model_server.seen()]
    assert len(bodies) == 1 + 2 * len(PROMPTS)
    assert sum("echo" in body for body in bodies) == 1


def test_a_server_without_grammars_of_ids(model_server: Served, tiny_causal_lm: Path) -> None:
    """Where llama.cpp refuses the grammar, each token is asked for by itself, and the grammar not sent again."""
    remote = lm(model_server, "llamacpp", dialect="llama.cpp", concurrency=1)
    model_server.fail({}, {"status": 400, "body": "no"})
    expected = CausalLM.load(tiny_causal_lm).score(PROMPTS, ANSWER, method="batched")
    np.testing.assert_allclose(remote.score(PROMPTS, ANSWER), expected, atol=1e-4, rtol=0)
    asked = [each["body"] for each in model_server.seen() if each["path"].endswith("/completion")]
    assert sum("grammar" in body for body in asked) == 1
    assert sum("logit_bias" in body for body in asked) == len(PROMPTS) * len(ANSWER.split())


def test_a_grammar_that_is_not_kept_to(model_server: Served, tiny_causal_lm: Path) -> None:
    """Other tokens than the answer's are no scores of it: llama.cpp goes on without a grammar that it cannot read."""
    remote = lm(model_server, "llamacpp", dialect="llama.cpp", concurrency=1)
    model_server.fail({}, {"body": {"completion_probabilities": [{"id": 5, "logprob": -1.0}]}})
    expected = CausalLM.load(tiny_causal_lm).score(PROMPTS[:1], ANSWER, method="batched")
    np.testing.assert_allclose(remote.score(PROMPTS[:1], ANSWER), expected, atol=1e-4, rtol=0)


def test_a_probability_of_zero(model_server: Served) -> None:
    """What llama.cpp writes for a probability that float32 cannot hold becomes the least that it could hold."""
    lowest = {"completion_probabilities": [{"id": 5, "logprob": -3.4028234663852886e38}]}
    model_server.fail({}, {"body": lowest}, {"body": lowest})
    remote = lm(model_server, "llamacpp", dialect="llama.cpp")
    tokens = remote.score(["the"], "a")
    assert tokens.tolist() == [[-104.0]]


@pytest.mark.parametrize("kind", ["vllm", "echo", "closed"])
def test_generation(kind: str, model_server: Served, tiny_causal_lm: Path, tiny_chat_lm: Path) -> None:
    """Completions continue the text, chats answer the message; both are greedy and counted."""
    chat = kind == "closed"
    local = CausalLM.load(tiny_chat_lm if chat else tiny_causal_lm)
    remote = lm(model_server, kind, chat=chat)
    found = remote.generate_many(PROMPTS[:2], max_new_tokens=5)
    expected = [local.generate(prompt, max_new_tokens=5) for prompt in PROMPTS[:2]]
    assert [(each.text, each.input_tokens) for each in found] == [(each.text, each.input_tokens) for each in expected]
    assert remote.generate(PROMPTS[0], max_new_tokens=5) == found[0]


def test_a_server_without_log_probabilities(model_server: Served) -> None:
    """A closed chat model is told apart, with what to do instead."""
    with pytest.raises(ModelError, match=r"no log-probabilities .* leave documents out instead") as told:
        lm(model_server, "closed", chat=True).score(PROMPTS, ANSWER)
    assert not isinstance(told.value, ScoringStopped)


def test_a_log_probability_that_is_missing(model_server: Served) -> None:
    """A null within the answer is an error that names it, not a zero."""
    entries = [None, *({"5": {"logprob": None, "decoded_token": word}} for word in "a the limit".split())]
    model_server.fail({"body": {"choices": [{"prompt_logprobs": entries}]}})
    with pytest.raises(ModelError, match="log-probability None"):
        lm(model_server, "vllm", dialect="vllm").score(["a"], "the limit")


def test_likely_tokens_in_place_of_the_prompts(model_server: Served) -> None:
    """A server that lists top tokens counts only where it says which of them the prompt has."""
    listed = {"5": {"logprob": -1.0, "decoded_token": "the"}, "6": {"logprob": -9.0, "decoded_token": "a"}}
    body: dict[str, Any] = {
        "choices": [{"prompt_logprobs": [None, {"4": {"logprob": -2.0, "decoded_token": "is"}}, listed]}]
    }
    model_server.fail({"body": body}, {"body": {**body, "prompt_token_ids": [1, 4, 6]}})
    remote = lm(model_server, "vllm", dialect="vllm")
    with pytest.raises(ModelError, match="2 likely tokens"):
        remote.score(["is"], "a")
    assert remote.score(["is"], "a").tolist() == [[-9.0]]


@pytest.mark.parametrize(("tops", "value"), [({"a": -2.0, "the": -1.0}, -2.0), ({"the": -1.0}, None)])
def test_a_token_among_the_likely_ones(tops: dict[str, float], value: float | None, model_server: Served) -> None:
    """Where an echo tells the likely tokens only, the answer's is read from them, and missed where it is not there."""
    given = {"tokens": ["is", "a", "x"], "token_logprobs": [None, None, -1.0], "top_logprobs": [None, tops, {}]}
    model_server.fail({"body": {"choices": [{"logprobs": given}], "usage": {"completion_tokens": 1}}})
    remote = lm(model_server, "echo", dialect="echo")
    if value is None:
        with pytest.raises(ModelError, match="log-probability None"):
            remote.score(["is"], "a")
    else:
        assert remote.score(["is"], "a").tolist() == [[value]]


def test_prompts_that_cut_the_answer_differently(model_server: Served) -> None:
    """What one prompt's tokens merge is merged for all; the places are those of the columns."""

    def cut(*tokens: str) -> dict[str, Any]:
        entries = [{"7": {"logprob": -1.0, "decoded_token": token}} for token in tokens]
        return {"body": {"choices": [{"prompt_logprobs": [None, *entries]}]}}

    model_server.fail(cut("a", "th", "irty", "days"), cut("the", "thirty", "da", "ys"), cut("1", "thi", "rty", "days"))
    remote = lm(model_server, "vllm", dialect="vllm", concurrency=1)
    assert remote.score(["a", "the"], "thirty days").tolist() == [[-2.0, -1.0], [-1.0, -2.0]]
    assert remote.answer_places("a", "thirty days") == [(0, 6), (7, 11)]
    assert remote.score(["a", "1"], "thirty days").tolist() == [[-2.0, -1.0], [-2.0, -1.0]]


def test_an_empty_answer_and_no_prompts(model_server: Served) -> None:
    """No answer is an error; no prompts are no rows."""
    remote = lm(model_server, "vllm", dialect="vllm")
    with pytest.raises(ModelError, match="the answer is empty"):
        remote.score(PROMPTS, " \n")
    assert remote.score([], ANSWER).shape[0] == 0
    assert model_server.seen() == []


def test_shapley_values_over_http(model_server: Served, tiny_causal_lm: Path) -> None:
    """The game of documents gives the same values through a server as in this process."""
    chunks = ["the limit is thirty .", "a limit is days .", "[ 1 ] ?"]
    remote, local = lm(model_server, "echo"), CausalLM.load(tiny_causal_lm)

    def prompts(coalitions: np.ndarray[Any, np.dtype[np.bool_]]) -> list[str]:
        given = [[chunk for chunk, stays in zip(chunks, row, strict=True) if stays] for row in coalitions]
        return [" ".join([*each, "question : the limit ? answer :"]) for each in given]

    found = shapley_values(lambda rows: remote.score(prompts(rows), ANSWER), 3)
    expected = shapley_values(lambda rows: local.score(prompts(rows), ANSWER), 3)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-4)
    assert found.exact


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dialect": "tgi"}, "dialect 'tgi'"),
        ({"concurrency": 0}, "concurrency 0"),
        ({"timeout": 0.0}, "timeout 0"),
        ({"max_requests": -1}, "max_requests -1"),
        ({"api_key_env": "RAGTRACE_TEST_NO_SUCH_KEY"}, "api_key_env 'RAGTRACE_TEST_NO_SUCH_KEY'"),
        ({"dialect": "echo", "chat": True}, "chat True"),
    ],
)
def test_settings_that_cannot_be_used(options: dict[str, Any], named: str) -> None:
    """Each is named with its value, before anything is sent."""
    with pytest.raises(ConfigurationError, match=named):
        HttpLM("http://127.0.0.1:9/v1", "tiny", **options)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install."""
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragtrace\[http\]'"):
        HttpLM("http://127.0.0.1:9/v1", "tiny")


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://a/v1", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    """An address without scheme or host."""
    with pytest.raises(ConfigurationError, match="base_url"):
        HttpLM(url, "tiny")
