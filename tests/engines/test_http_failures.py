"""What a server may do instead of answering, and what the limits do."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ragtrace.attribution import CoalitionLog, shapley_values
from ragtrace.engines.http import HttpLM
from ragtrace.engines.model_server import Usage
from ragtrace.errors import ModelError, ScoringStopped, ServerError
from tests.engines.serving import Served

PROMPTS = ["the limit is", "a limit is", "question : the limit", "days"]
ANSWER = "thirty days ."
_KEY = "sk-very-secret-words"


@pytest.fixture(autouse=True)
def fresh(model_server: Served) -> Iterator[None]:
    """No faults, and nothing seen yet."""
    model_server.fail()
    model_server.seen()
    yield
    model_server.fail()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which are noted and not made."""
    noted: list[float] = []
    monkeypatch.setattr("ragtrace.engines.model_server.time.sleep", noted.append)
    return noted


def lm(served: Served, **options: Any) -> HttpLM:
    """A client of the vLLM kind, one request at a time unless told."""
    given: dict[str, Any] = {"dialect": "vllm", "concurrency": 1} | options
    return HttpLM(served.at("vllm"), "tiny", **given)


@pytest.mark.parametrize(
    "fault",
    [{"status": 500}, {"status": 503, "body": "<html>busy</html>"}, {"drop": True}, {"status": 429}],
    ids=str,
)
def test_what_passes_is_tried_again(fault: dict[str, Any], model_server: Served, pauses: list[float]) -> None:
    """Two failures of a passing kind cost two pauses, the second longer, and change no score."""
    expected = lm(model_server).score(PROMPTS, ANSWER)
    model_server.fail(fault, fault)
    remote = lm(model_server)
    np.testing.assert_array_equal(remote.score(PROMPTS, ANSWER), expected)
    assert remote.usage.requests == len(PROMPTS) + 2
    assert len(pauses) == 2
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("86400", 60.0)])
def test_retry_after_is_kept_to(asked: str, waited: float, model_server: Served, pauses: list[float]) -> None:
    """The pause is the one that the server asks for, up to a minute."""
    model_server.fail({"status": 429, "headers": {"Retry-After": asked}})
    lm(model_server).score(PROMPTS, ANSWER)
    assert pauses == [waited]


def test_a_retry_after_that_is_none(model_server: Served, pauses: list[float]) -> None:
    """A header that cannot be read is as good as none."""
    model_server.fail({"status": 429, "headers": {"Retry-After": "soon"}})
    lm(model_server).score(PROMPTS, ANSWER)
    assert len(pauses) == 1


def test_a_slow_server(model_server: Served, pauses: list[float]) -> None:
    """An answer that does not come within the timeout is asked for again."""
    expected = lm(model_server).score(PROMPTS[:1], ANSWER)
    model_server.fail({"sleep": 2.0})
    remote = lm(model_server, timeout=1.0)
    np.testing.assert_array_equal(remote.score(PROMPTS[:1], ANSWER), expected)
    assert remote.usage.requests == 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"status": 400, "body": {"error": {"message": "too long"}}}, "refused with 400: too long"),
        ({"status": 404, "body": {"detail": "no such model"}}, "refused with 404: no such model"),
        ({"status": 401, "body": {"message": "no key"}}, "401: no key; give the name of the environment variable"),
        ({"status": 307, "headers": {"Location": "http://127.0.0.1:9/"}}, "refused with 307"),
        ({"status": 200, "body": "<html>hello"}, "no JSON object but '<html>hello'"),
        ({"status": 200, "body": "[1]"}, "no JSON object but"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_does_not_pass_is_said(fault: dict[str, Any], said: str, model_server: Served) -> None:
    """A refusal is not tried again; the error says what the server said."""
    model_server.fail(fault)
    remote = lm(model_server)
    with pytest.raises(ServerError, match=said):
        remote.generate("the")
    assert remote.usage.requests == 1


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{"text": None}]}, {"choices": "a"}], ids=str)
def test_an_answer_without_its_parts(body: dict[str, Any], model_server: Served) -> None:
    """JSON of another kind is an error of ours, whatever is missing."""
    model_server.fail({"body": body}, {"body": body})
    with pytest.raises(ServerError, match="holds no text"):
        lm(model_server).generate("the")
    with pytest.raises(ModelError, match="gives no prompt_logprobs"):
        lm(model_server).score(PROMPTS, ANSWER)


def test_nobody_listens(pauses: list[float]) -> None:
    """A port without a server: the address is named, without user and password."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    remote = HttpLM(f"http://me:hidden@127.0.0.1:{port}/v1", "tiny")
    with pytest.raises(ScoringStopped, match=rf"no answer from http://127.0.0.1:{port}/v1/completions") as stopped:
        remote.score(PROMPTS, ANSWER)
    assert "hidden" not in str(stopped.value)
    assert np.isnan(stopped.value.scores).all()


def test_what_was_scored_is_kept(model_server: Served) -> None:
    """A failure in the middle gives what was done, and the same call goes on from there."""
    expected = lm(model_server).score(PROMPTS, ANSWER)
    remote = lm(model_server)
    model_server.fail({}, {}, {"status": 400})
    with pytest.raises(ScoringStopped, match="2 of 4 prompts were scored") as stopped:
        remote.score(PROMPTS, ANSWER)
    np.testing.assert_array_equal(stopped.value.scores[:2], expected[:2])
    assert np.isnan(stopped.value.scores[2:]).all()
    np.testing.assert_array_equal(remote.score(PROMPTS, ANSWER), expected)
    assert remote.usage.requests == 5


def test_a_limit_of_requests(model_server: Served) -> None:
    """No request beyond it is sent, retries included; a higher one goes on."""
    remote = lm(model_server, max_requests=2)
    with pytest.raises(ScoringStopped, match="limit of 2 requests is used up"):
        remote.score(PROMPTS, ANSWER)
    assert len(model_server.seen()) == 2
    remote.allow(max_requests=4)
    assert remote.score(PROMPTS, ANSWER).shape == (4, 3)
    assert len(model_server.seen()) == 2


def test_retries_count(model_server: Served, pauses: list[float]) -> None:
    """A request that is sent again counts again."""
    model_server.fail({"status": 500}, {"status": 500}, {"status": 500})
    remote = lm(model_server, max_requests=2)
    with pytest.raises(ScoringStopped, match="limit of 2 requests"):
        remote.score(PROMPTS, ANSWER)
    assert len(model_server.seen()) == 2


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_limit_of_prompt_tokens(concurrency: int, model_server: Served) -> None:
    """The server's own count is what counts; it is not passed by more than a guess is off."""
    remote = lm(model_server, max_prompt_tokens=18, concurrency=concurrency)
    with pytest.raises(ScoringStopped, match="at most 18 prompt tokens"):
        remote.score(PROMPTS * 1 + [f"{prompt} {prompt}" for prompt in PROMPTS], ANSWER)
    assert 0 < remote.usage.prompt_tokens <= 18 + 10
    assert isinstance(remote.usage, Usage)


_MALFORMED: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "entry": ("vllm", [{"choices": [{"prompt_logprobs": [None, {"1": 5}]}]}]),
    "entries": ("vllm", [{"choices": [{"prompt_logprobs": [None, 5, "x"]}]}]),
    "short ids": ("vllm", [{"prompt_token_ids": [1], "choices": [{"prompt_logprobs": [None, {"1": {}}]}]}]),
    "ids": ("vllm", [{"prompt_token_ids": 5, "choices": [{"prompt_logprobs": [None, {"1": {}}]}]}]),
    "number": ("vllm", [{"choices": [{"prompt_logprobs": [None, {"1": {"decoded_token": "days", "logprob": "x"}}]}]}]),
    "choices": ("vllm", [{"choices": None}]),
    "choice": ("vllm", [{"choices": [7]}]),
    "texts": ("echo", [{"choices": [{"logprobs": {"tokens": [5, ["a"]], "token_logprobs": [None, -1.0]}}]}]),
    "counts": (
        "echo",
        [
            {
                "choices": [{"logprobs": {"tokens": ["a", "days"], "token_logprobs": [None, -1.0]}}],
                "usage": {"completion_tokens": "2"},
            }
        ],
    ),
    "tops": (
        "echo",
        [
            {
                "choices": [
                    {"logprobs": {"tokens": ["a", "b", "c"], "token_logprobs": [None, None, -1.0], "top_logprobs": 5}}
                ]
            }
        ],
    ),
    "no id": ("llama.cpp", [{"tokens": [{"piece": "days"}]}]),
    "id": ("llama.cpp", [{"tokens": [{"id": "x", "piece": "days"}]}]),
    "piece": ("llama.cpp", [{"tokens": [{"id": 5, "piece": [999]}]}]),
    "likely tokens": (
        "llama.cpp",
        [
            {"tokens": [{"id": 1, "piece": ""}, {"id": 5, "piece": "days"}]},
            {"completion_probabilities": []},
            {"completion_probabilities": [{"id": 6, "top_logprobs": [5]}]},
        ],
    ),
}


@pytest.mark.parametrize("case", _MALFORMED)
def test_an_answer_of_another_form(case: str, model_server: Served) -> None:
    """It is a clear error, and one that another attempt would not mend."""
    dialect, bodies = _MALFORMED[case]
    kind = dialect.replace(".", "")
    model_server.fail(*({"body": body} for body in bodies))
    remote = HttpLM(model_server.at(kind), "tiny", dialect=dialect, concurrency=1)
    with pytest.raises(ModelError) as told:
        remote.score([""], "days")
    assert not isinstance(told.value, ServerError | ScoringStopped)
    assert len(model_server.seen()) == len(bodies)


@pytest.mark.parametrize("usage", [{"prompt_tokens": "x"}, {"prompt_tokens": -3}, {"completion_tokens": [1]}, 5, None])
def test_counts_that_are_none(usage: Any, model_server: Served) -> None:
    """A generated text is not lost for them."""
    model_server.fail({"body": {"choices": [{"text": "so it is"}], "usage": usage}})
    remote = lm(model_server)
    found = remote.generate("the")
    assert (found.text, found.input_tokens, found.output_tokens) == ("so it is", 0, 0)
    assert remote.usage.prompt_tokens >= 0


def test_the_log_of_coalitions_goes_on(model_server: Served) -> None:
    """What a limit left of a run starts the next one: also in another process, from the scores of the error."""
    asked: list[np.ndarray[Any, np.dtype[np.bool_]]] = []

    def game(remote: HttpLM, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        asked.append(rows)
        return remote.score([" ".join(np.array(["the", "limit", "is"])[row]) + " ?" for row in rows], ANSWER)

    expected = shapley_values(lambda rows: game(lm(model_server), rows), 3)
    with pytest.raises(ScoringStopped) as stopped:
        shapley_values(lambda rows: game(lm(model_server, max_requests=5), rows), 3)
    done = ~np.isnan(stopped.value.scores).any(axis=1)
    log = CoalitionLog(3, asked[-1][done], stopped.value.scores[done])
    other = lm(model_server)
    found = shapley_values(lambda rows: game(other, rows), 3, continue_from=log)
    np.testing.assert_array_equal(found.values, expected.values)
    assert other.usage.requests == 3


def test_several_requests_at_a_time(model_server: Served) -> None:
    """Requests that wait for one another at the server get there together, and rows keep the prompts' order."""
    expected = lm(model_server).score(PROMPTS, ANSWER)
    model_server.fail({"meet": True}, {"meet": True})
    np.testing.assert_array_equal(lm(model_server, concurrency=2, retries=0).score(PROMPTS, ANSWER), expected)


def test_what_was_generated_is_kept(model_server: Served) -> None:
    """A failure loses no answer; without one nothing is held on to."""
    remote = lm(model_server)
    model_server.fail({}, {"status": 400})
    with pytest.raises(ServerError):
        remote.generate_many(PROMPTS)
    assert len(remote.generate_many(PROMPTS)) == 4
    assert remote.usage.requests == 5
    remote.generate_many(PROMPTS[:1])
    assert remote.usage.requests == 6


def test_the_key_is_sent_and_shown_nowhere(
    model_server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes from the environment; an error in which the server repeats it shows stars."""
    monkeypatch.setenv("RAGTRACE_TEST_KEY", _KEY)
    caplog.set_level(logging.DEBUG)
    remote = lm(model_server, api_key_env="RAGTRACE_TEST_KEY")
    model_server.fail({"status": 401, "body": {"error": {"message": f"bad key {_KEY}"}}})
    with pytest.raises(ServerError, match=r"bad key \*\*\*") as refused:
        remote.generate("the")
    assert model_server.seen()[0]["key"] == f"Bearer {_KEY}"
    assert _KEY not in str(refused.value) + repr(remote) + repr(vars(remote)) + caplog.text


def test_options_are_sent(model_server: Served) -> None:
    """Further fields go along, and None takes one out."""
    remote = lm(model_server, options={"seed": 7, "temperature": None})
    remote.generate("the")
    body = model_server.seen()[0]["body"]
    assert body["seed"] == 7
    assert "temperature" not in body
