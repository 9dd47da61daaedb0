"""Where tokens stand in the query or document that they are of."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace.engines.tokens import Token, pair_tokens, text_tokens


@pytest.fixture(scope="module")
def trimming() -> Any:
    """A byte-level tokenizer that trims spaces off its offsets, as RoBERTa's does; no space has joined a word."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    signs = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=signs, show_progress=False
    )
    inner.train_from_iterator(["limit"] * 2, trainer)
    inner.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 1), ("<s>", 0), add_prefix_space=False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>")


def test_a_space_by_itself_stands_before_what_follows(trimming: Any) -> None:
    """The tokenizer gives it no length; it counts to the character behind it, at a text's end to the last one."""
    text = "a limit "
    found = text_tokens(trimming, trimming(text)["input_ids"], "", text, "document")
    assert found == (
        Token("<s>", 0, 0, "special"),
        Token("a", 0, 1, "document"),
        Token("Ġ", 2, 3, "document"),
        Token("limit", 2, 7, "document"),
        Token("Ġ", 7, 8, "document"),
        Token("</s>", 0, 0, "special"),
    )


def test_a_space_of_the_prompt_is_the_prompts(trimming: Any) -> None:
    """Also where the tokenizer puts it at the text's beginning."""
    found = text_tokens(trimming, trimming("q: limit")["input_ids"], "q: ", "limit", "query")
    assert [token.part for token in found] == ["special", "prompt", "prompt", "prompt", "query", "special"]


def test_each_token_of_a_pair_is_of_its_side(trimming: Any) -> None:
    """Spaces of the query are the query's, not the document's."""
    found = pair_tokens(trimming, trimming("a limit", "b limit")["input_ids"], "", "a limit", "b limit")
    own = [(token.part, token.start, token.end) for token in found if token.part != "special"]
    assert own == [(part, *place) for part in ("query", "document") for place in ((0, 1), (2, 3), (2, 7))]


@pytest.mark.parametrize("texts", [("a limit", ""), ("", "a limit"), ("", "")])
def test_an_empty_side_of_a_pair(trimming: Any, texts: tuple[str, str]) -> None:
    """The pair is still read as one, with the special tokens between the two."""
    ids = trimming([texts[0]], [texts[1]])["input_ids"][0]
    found = pair_tokens(trimming, ids, "", *texts)
    assert sum(token.part == "special" for token in found) == 4
    assert {token.part for token in found} == {"special"} | {
        part for part, text in zip(("query", "document"), texts, strict=True) if text
    }
