"""Windows over long evidence, and the marks of shared words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragtrace.engines.text_pairs import encode_pairs, windows
from tests.engines.verifiers import save_encoder


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    """A tokenizer whose tokens are words."""
    transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")
    return transformers.AutoTokenizer.from_pretrained(save_encoder(tmp_path / "encoder"))


def test_what_fits_is_one_window(tokenizer: Any) -> None:
    """Short evidence stays as it is."""
    assert windows(tokenizer, "The limit.", "The limit is 30 days.\nThe policy ends.", 32) == [
        "The limit is 30 days.\nThe policy ends."
    ]


def test_long_evidence_is_covered(tokenizer: Any) -> None:
    """Every sentence stands in some window with one of its neighbors, and every window fits beside the claim."""
    evidence = " ".join(f"The limit is {days} days." for days in range(30, 42))
    found = windows(tokenizer, "The limit.", evidence, 24)
    assert len(found) > 2
    for days in range(30, 42):
        assert any(f"is {days} days" in window for window in found)
    for days in range(30, 41):
        assert any(f"{days} days. The limit is {days + 1}" in window for window in found)
    for window in found:
        assert len(tokenizer(window, "The limit.")["input_ids"]) <= 24


def test_a_sentence_that_does_not_fit_is_cut(tokenizer: Any) -> None:
    """One endless sentence comes in pieces, none of which is lost."""
    evidence = "the policy ends in may " * 20 + "and the limit is 500"
    found = windows(tokenizer, "The limit.", evidence, 16)
    assert all(len(tokenizer(window, "The limit.")["input_ids"]) <= 16 for window in found)
    assert set(evidence.split()) == {word for window in found for word in window.split()}


def test_a_claim_longer_than_the_model_can_read(tokenizer: Any) -> None:
    """It is cut to one half, so that there is room for evidence."""
    (features,) = encode_pairs(tokenizer, [("days " * 100, "the limit " * 100)], 32, marked=False)
    assert len(features["input_ids"]) <= 32
    assert windows(tokenizer, "days " * 100, "the limit is 30 .", 32)


@pytest.mark.parametrize("max_tokens", [16, 17, 32])
def test_beside_a_long_claim_no_evidence_is_lost(tokenizer: Any, max_tokens: int) -> None:
    """Of each window every token is read, the last one too."""
    claim, evidence = "limit " * 100, "policy ends in may " * 30
    found = windows(tokenizer, claim, evidence, max_tokens)
    encoded = encode_pairs(tokenizer, [(claim, window) for window in found], max_tokens, marked=False)
    for window, features in zip(found, encoded, strict=True):
        own = tokenizer(window, add_special_tokens=False)["input_ids"]
        assert features["input_ids"][1 : len(own) + 1] == own
        assert len(features["input_ids"]) <= max_tokens


def test_shared_words_are_marked(tokenizer: Any) -> None:
    """A claim's word that the evidence lacks has type 2, evidence's word that the claim has type 3; stems count."""
    (features,) = encode_pairs(tokenizer, [("the limits was 40 .", "The limit is 30 .")], 32, marked=True)
    #         <s> The limit is 30 . </s> the limits was 40 . </s>
    assert features["token_type_ids"] == [0, 3, 3, 0, 0, 0, 0, 1, 1, 2, 2, 1, 0]


def test_unmarked_pairs_are_those_of_the_tokenizer(tokenizer: Any) -> None:
    """Other models get what their tokenizer makes of evidence and claim."""
    (features,) = encode_pairs(tokenizer, [("the limit", "the policy")], 32, marked=False)
    expected = tokenizer("the policy", "the limit")
    assert features == {name: list(expected[name]) for name in expected}
