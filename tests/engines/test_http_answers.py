"""Answers that look right and are not, and numbers that stand for others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ragtrace.engines._http_dialects import Vllm
from ragtrace.engines.http import HttpLM
from ragtrace.engines.tokens import ScoredToken, may_say
from ragtrace.errors import ModelError, ScoringStopped, ServerError
from tests.engines.serving import Served

LONG = "the limit is thirty days . " * 20


@pytest.fixture(autouse=True)
def fresh(model_server: Served) -> Iterator[None]:
    """No faults."""
    model_server.fail()
    yield
    model_server.fail()


def entries(*tokens: tuple[str, Any]) -> dict[str, Any]:
    """What vLLM answers: texts and log-probabilities of a prompt's tokens."""
    listed = [{"7": {"logprob": value, "decoded_token": text}} for text, value in tokens]
    return {"body": {"choices": [{"prompt_logprobs": [None, *listed]}]}}


def echo(*tokens: tuple[str, Any]) -> dict[str, Any]:
    """The same as an echo."""
    given = {"tokens": [text for text, _ in tokens], "token_logprobs": [value for _, value in tokens]}
    return {"body": {"choices": [{"logprobs": given}], "usage": {"completion_tokens": 0}}}


@pytest.mark.parametrize("value", [-9999.0, float("-inf"), -3.4028234663852886e38])
def test_how_servers_write_a_probability_of_zero(value: float, model_server: Served) -> None:
    """It counts as the least that float32 can hold, as with llama.cpp: -9999 would outweigh all other documents."""
    remote = HttpLM(model_server.at("vllm"), "tiny", dialect="vllm")
    model_server.fail(entries(("the", -1.0), ("a", value)))
    assert remote.score(["the"], "a").tolist() == [[-104.0]]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.7, True, "-1", None])
def test_what_is_no_log_probability(value: Any, model_server: Served) -> None:
    """A probability is none, nor is what is no number."""
    model_server.fail(echo(("the", None), ("a", value)))
    with pytest.raises(ModelError, match="the log-probability"):
        HttpLM(model_server.at("echo"), "tiny", dialect="echo").score(["the"], "a")


@pytest.mark.parametrize("dialect", ["vllm", "echo"])
def test_a_prompt_that_the_server_cut(dialect: str, model_server: Served) -> None:
    """Numbers behind the end of a prompt are not those behind the prompt."""
    tokens = [*((word, -1.0) for word in LONG.split()), ("a", -2.0)]
    form = entries if dialect == "vllm" else echo
    remote = HttpLM(model_server.at(dialect), "tiny", dialect=dialect)
    model_server.fail(form(*tokens[-40:]))
    with pytest.raises(ModelError, match="left a part of it out") as told:
        remote.score([LONG], "a")
    assert not isinstance(told.value, ServerError | ScoringStopped)
    model_server.fail(form(*tokens))
    assert remote.score([LONG], "a").tolist() == [[-2.0]]


def test_a_prompt_that_llama_cpp_cut(model_server: Served) -> None:
    """It says so beside its numbers."""
    body = {"truncated": True, "completion_probabilities": [{"id": 5, "logprob": -1.0}]}
    model_server.fail({}, {"body": body})
    with pytest.raises(ModelError, match="longer than its context"):
        HttpLM(model_server.at("llamacpp"), "tiny", dialect="llama.cpp").score(["the"], "a")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["x" * 300], True),
        (["x" * 236], True),
        (["x" * 235], False),
        (["<unk>"] * 4, True),
        (["\N{REPLACEMENT CHARACTER}"] * 58, False),
    ],
)
def test_how_much_tokens_may_say(texts: list[str], expected: bool) -> None:
    """Unknown ones as much as they can, and a token across the border with the answer is spared."""
    assert may_say(texts, "y" * 150 + " \n" + "z" * 150) is expected


def test_an_interrupt(model_server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is asked behind it, and what was answered before it is kept."""
    asked: list[str] = []

    def tokens(_: Any, prompt: str, answer: str) -> list[ScoredToken]:
        asked.append(prompt)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return [ScoredToken(answer, 0, len(answer), -1.0)]

    monkeypatch.setattr(Vllm, "tokens", tokens)
    remote = HttpLM(model_server.at("vllm"), "tiny", dialect="vllm", concurrency=1)
    with pytest.raises(KeyboardInterrupt):
        remote.score(list("wxyz"), "a")
    assert asked == ["w", "x"]
    assert remote.score(list("wxyz"), "a").tolist() == [[-1.0]] * 4
    assert asked == ["w", "x", "x", "y", "z"]
