"""Vectors of texts by a server of embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.engines.http import EmbeddingServer
from ragtrace.errors import ConfigurationError, ServerError
from tests.engines.serving import Served


def test_a_vector_for_each_text(model_server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the texts, whatever the server's; each text once, so many in a request, with the key."""
    model_server.seen()
    monkeypatch.setenv("KEY_OF_TESTS", "secret")
    model = EmbeddingServer(model_server.at("embeddings"), "small", api_key_env="KEY_OF_TESTS", batch=2)
    texts = ["the limit", "thirty days", "the limit", " ", "no more"]
    vectors = model.encode(texts)
    assert vectors.shape == (5, 64)
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert not vectors[3].any()
    assert vectors.sum(axis=1).tolist() == [2, 2, 2, 0, 2]
    asked = model_server.seen()
    assert sorted(len(each["body"]["input"]) for each in asked) == [1, 2]
    assert {each["key"] for each in asked} == {"Bearer secret"}
    assert {each["body"]["model"] for each in asked} == {"small"}
    assert (model.usage.requests, model.usage.prompt_tokens) == (2, 6)


def test_nothing_to_read(model_server: Served) -> None:
    """No text asks for nothing."""
    assert len(EmbeddingServer(model_server.at("embeddings"), "small").encode([])) == 0


def test_a_server_that_passes(model_server: Served) -> None:
    """A request that fails for a passing reason is sent again."""
    model_server.fail({"status": 503})
    assert EmbeddingServer(model_server.at("embeddings"), "small").encode(["a limit"]).sum() == 2
    model_server.fail()


def test_an_answer_without_vectors(model_server: Served) -> None:
    """A server of chats, or an answer that lacks a text, is an error with a remedy."""
    with pytest.raises(ServerError, match="404"):
        EmbeddingServer(model_server.at("closed"), "small", retries=0).encode(["a limit"])
    model_server.fail({"body": {"data": [{"index": 1, "embedding": [1.0]}]}})
    with pytest.raises(ServerError, match="did not answer with 1 vectors"):
        EmbeddingServer(model_server.at("embeddings"), "small", retries=0).encode(["a limit"])
    model_server.fail()


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"concurrency": 0}])
def test_a_number_that_cannot_be(wrong: dict[str, int]) -> None:
    """It is refused when the model is made."""
    with pytest.raises(ConfigurationError, match="a whole number from 1 on"):
        EmbeddingServer("http://localhost:1/v1", "small", **wrong)  # type: ignore[arg-type]  # one of two numbers
