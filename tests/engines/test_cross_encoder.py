"""Relevance scores of a cross-encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.engines.encoder import CrossEncoder
from ragtrace.errors import ModelError
from tests.engines.verifiers import save_encoder


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


def test_its_prompt_is_given_to_the_model_and_stays(tiny_cross_encoder: Path) -> None:
    """It stands before the query, changes the score, and gets no attribution."""
    library = pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    loaded = library.CrossEncoder(
        str(tiny_cross_encoder), device="cpu", prompts={"ask": "question : "}, default_prompt_name="ask"
    )
    model, texts = CrossEncoder("tiny", loaded), ["the limit is thirty days .", ""]
    expected = loaded.predict([("the limit ?", text) for text in texts])
    np.testing.assert_allclose(model.scores("the limit ?", texts), expected, rtol=1e-5)
    gradients = model.gradients("the limit ?", texts, of="query")
    found = [gradients.value(x[None], np.array([number]))[0] for number, x in enumerate(gradients.inputs)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    parts = ["special", "prompt", "prompt", "query", "query", "query", "special"]
    assert [token.part for token in gradients.tokens[0]][:7] == parts
    assert [("the limit ?")[token.start : token.end] for token in gradients.tokens[0][3:6]] == ["the", "limit", "?"]


@pytest.mark.parametrize("of", ["query", "document"])
def test_an_empty_text_is_explained_as_it_is_scored(tiny_cross_encoder: Path, of: Any) -> None:
    """Beside others, and with what a tokenizer refuses."""
    model, texts = CrossEncoder.load(tiny_cross_encoder), ["", "the limit is 1 .", "half a \ud800 sign"]
    for query in ("the limit ?", "", "half \udfff ?"):
        gradients = model.gradients(query, texts, of=of)
        found = [gradients.value(x[None], np.array([number]))[0] for number, x in enumerate(gradients.inputs)]
        np.testing.assert_allclose(found, model.scores(query, texts), rtol=1e-4)


def test_several_scores_for_a_pair(tiny_cross_encoder: Path, tmp_path: Path) -> None:
    """A classifier is no reranker: which of its scores is the relevance cannot be told."""
    transformers = pytest.importorskip("transformers")
    classifier = transformers.AutoModelForSequenceClassification.from_pretrained(
        tiny_cross_encoder, num_labels=3, ignore_mismatched_sizes=True
    )
    classifier.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(tiny_cross_encoder).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has 3 scores for a pair; give a reranker, which has one"):
        CrossEncoder.load(tmp_path)


def test_an_encoder_is_no_reranker(tmp_path: Path) -> None:
    """Weights that its folder lacks would be drawn at random, and its scores with them."""
    with pytest.raises(ModelError, match="is a BertModel: weights that score a pair are not in it; give a reranker"):
        CrossEncoder.load(save_encoder(tmp_path))


QUERY = "{{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}"
DOCUMENT = "{{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first | trim }}"


def chatting(folder: Path, template: str, longest: int = 256) -> CrossEncoder:
    """A language model whose next token tells the relevance, behind a chat template, as Qwen3-Reranker does."""
    library = pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    modules = pytest.importorskip("sentence_transformers.cross_encoder.modules")
    transformer = modules.Transformer(
        str(folder), transformer_task="text-generation", processor_kwargs={"chat_template": template}
    )
    transformer.max_seq_length = longest
    parts = [transformer, modules.LogitScore(true_token_id=5, false_token_id=6)]
    return CrossEncoder("chat", library.CrossEncoder(modules=parts, device="cpu"))


@pytest.mark.parametrize(
    "template", [f"Loss?\nQ: {QUERY}\nD: {DOCUMENT}\nyes or no:", f"D: {DOCUMENT}\nQ: {QUERY}\nyes or no:"]
)
@pytest.mark.parametrize("of", ["query", "document"])
def test_a_pair_in_a_chat_template(byte_level_lm: Path, template: str, of: Any) -> None:
    """Its own score; only the texts' tokens move, and stand where the texts have them, whatever repeats around them."""
    model, query = chatting(byte_level_lm, template), "Loss 😀?"
    texts = ["The loss must be reported.", "yes", "  thirty days \n", "", query]
    gradients = model.gradients(query, texts, of=of, baseline="pad")
    found = [gradients.value(x[None], np.array([number]))[0] for number, x in enumerate(gradients.inputs)]
    np.testing.assert_allclose(found, model.scores(query, texts), rtol=1e-4)
    for text, tokens, x, x0 in zip(texts, gradients.tokens, gradients.inputs, gradients.baselines, strict=True):
        assert [token.part == of for token in tokens] == np.any(x != x0, axis=1).tolist()
        for part, whole in (("query", query), ("document", text)):
            own = {at for token in tokens if token.part == part for at in range(token.start, token.end)}
            assert "".join(whole[at] for at in sorted(own)).strip() == whole.strip()


def test_a_document_cut_within_a_chat_template(byte_level_lm: Path) -> None:
    """It is explained as far as it is read."""
    model = chatting(byte_level_lm, f"Q: {QUERY}\nD: {DOCUMENT}", longest=24)
    text = "thirty days " * 20
    (tokens,) = model.gradients("loss", [text], baseline="pad").tokens
    own = [token for token in tokens if token.part == "document"]
    assert len(tokens) == 24
    assert own[0].start == 0
    assert own[-1].end < 24 * len("thirty ")
    assert all(text[token.start : token.end].strip() in token.text for token in own)


def test_a_chat_template_that_says_something_else(byte_level_lm: Path) -> None:
    """Where the texts stand cannot be told, and the error says so."""
    model = chatting(byte_level_lm, f"Q: {QUERY}\nD: {DOCUMENT[:-3]} | upper }}}}")
    with pytest.raises(ModelError, match="reads other tokens than its tokenizer gives for the text"):
        model.gradients("loss", ["thirty days"], baseline="pad")
