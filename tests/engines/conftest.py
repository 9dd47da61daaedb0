"""Tiny models with random weights, saved to a folder as real ones are."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace.engines.encoder import Encoder
from tests.engines.serving import Served

Build = Callable[..., Encoder]
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] }} : {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)
_TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
_VOCABULARY = "the a limit is days thirty question answer [ ] 1 2 . ? : user assistant"


@pytest.fixture(scope="session")
def tiny_causal_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a two-layer Llama whose tokenizer adds a BOS."""
    tokenizer = _tokenizer(_library("transformers"), adds_bos=True)
    return _llama(tmp_path_factory.mktemp("causal-lm"), tokenizer, num_attention_heads=2, max_position_embeddings=128)


@pytest.fixture
def build(tiny_cross_encoder: Path, tiny_causal_lm: Path) -> Build:
    """A bi-encoder around one of the tiny models, with the pooling and the other modules that are asked for."""
    library = pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")

    def tower(pooling: str, causal: bool) -> list[Any]:
        transformer = modules.Transformer(str(tiny_causal_lm if causal else tiny_cross_encoder))
        if causal:
            transformer.tokenizer.padding_side = "left"
        return [transformer, modules.Pooling(transformer.get_embedding_dimension(), pooling)]

    def make(
        pooling: str = "mean", *, causal: bool = False, normalize: bool = False, routed: bool = False, **more: Any
    ) -> Encoder:
        parts = tower(pooling, causal)
        if routed:
            parts = [modules.Router.for_query_document(parts, tower("cls", False))]
        if normalize:
            parts.append(modules.Normalize())
        return Encoder("tiny", library.SentenceTransformer(modules=parts, device="cpu", **more).double())

    return make


@pytest.fixture(scope="session")
def byte_level_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Llama whose tokens begin with their space, as those of most models do."""
    tokenizer = _byte_level(_library("transformers"))
    size = {"num_attention_heads": 4, "max_position_embeddings": 256, "initializer_range": 0.3}
    return _llama(tmp_path_factory.mktemp("byte-level-lm"), tokenizer, **size)


@pytest.fixture(scope="session")
def tiny_chat_lm(tiny_causal_lm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a chat template."""
    folder = tmp_path_factory.mktemp("chat-lm") / "model"
    shutil.copytree(tiny_causal_lm, folder)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return folder


@pytest.fixture(scope="session")
def model_server(tiny_chat_lm: Path) -> Iterator[Served]:
    """A process that serves the tiny model over HTTP in the forms of several servers."""
    pytest.importorskip("httpx2", reason="pip install 'ragtrace[http]'")
    with Served.running(tiny_chat_lm) as served:
        yield served


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a one-label BERT classifier."""
    transformers = _library("transformers")
    tokenizer = _tokenizer(transformers, adds_bos=False)
    _library("torch").manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(tokenizer), num_attention_heads=2, num_labels=1, **_TINY)
    return _saved(
        tmp_path_factory.mktemp("cross-encoder"), transformers.BertForSequenceClassification(config), tokenizer
    )


def _library(name: str) -> Any:
    return pytest.importorskip(name, reason="pip install 'ragtrace[models]'")


def _llama(folder: Path, tokenizer: Any, **size: Any) -> Path:
    transformers = _library("transformers")
    marks = {f"{mark}_token_id": getattr(tokenizer, f"{mark}_token_id") for mark in ("bos", "eos", "pad")}
    _library("torch").manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), **_TINY, **marks, **size)
    return _saved(folder, transformers.LlamaForCausalLM(config), tokenizer)


def _saved(folder: Path, model: Any, tokenizer: Any) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _byte_level(transformers: Any) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(
        ["Answer: thirty days. The loss must be reported within thirty days. [1] [2]"] * 5, trainer
    )
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def _tokenizer(transformers: Any, *, adds_bos: bool) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *_VOCABULARY.split()])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if adds_bos:
        inner.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", words["<s>"])]
        )
    else:
        inner.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> $B:1 </s>:1",
            special_tokens=[("<s>", words["<s>"]), ("</s>", words["</s>"])],
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
