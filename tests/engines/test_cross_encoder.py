"""Relevance scores of a cross-encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ragtrace.engines.cross_encoder import CrossEncoder


def test_one_score_per_text(tiny_cross_encoder: Path) -> None:
    """Scores come in the order of the texts and do not depend on what else is scored with them."""
    model = CrossEncoder.load(tiny_cross_encoder)
    texts = ["the limit is thirty days", "a question", "the answer is 1"]
    scores = model.scores("the limit ?", texts)
    assert scores.shape == (3,)
    alone = [model.scores("the limit ?", [text])[0] for text in texts]
    np.testing.assert_allclose(scores, alone, rtol=1e-4, atol=1e-6)


def test_no_texts(tiny_cross_encoder: Path) -> None:
    """Nothing to score gives nothing."""
    assert CrossEncoder.load(tiny_cross_encoder).scores("the limit ?", []).shape == (0,)
