"""Tiny classifiers of pairs with random weights, and labelled claims as published sets ship them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["WORDS", "save_classifier", "save_encoder", "write_ragtruth"]

WORDS = "the a limit deductible policy is was ends in days may june thirty forty not 30 40 500 700 eur . , [ ] 1 2"


def save_classifier(folder: Path, *labels: str, places: int = 64, **more: Any) -> Path:
    """Save a one-layer BERT classifier with these labels in `folder`."""
    transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")
    tokenizer, config = _parts(transformers, places)
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: place for place, label in enumerate(labels)}
    config.update(more)
    return _saved(folder, tokenizer, transformers.BertForSequenceClassification(config))


def save_encoder(folder: Path, places: int = 64) -> Path:
    """Save a one-layer BERT encoder in `folder`."""
    transformers = pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")
    tokenizer, config = _parts(transformers, places)
    return _saved(folder, tokenizer, transformers.BertModel(config))


def write_ragtruth(folder: Path, sources: Sequence[int]) -> Path:
    """Write `folder`/ragtruth/qa.jsonl: of each source one true answer, and one whose number is marked as wrong."""
    rows = []
    for source in sources:
        days = 30 + source % 7
        wrong = f"The limit is {days + 40} days."
        rows.append(
            {
                "source_id": source,
                "source": {
                    "question": "What is the limit?",
                    "passages": f"passage 1:The limit is {days} days.\n\npassage 2:The policy ends in May.",
                },
                "responses": [
                    {"response": f"The limit is {days} days. The policy ends in May.", "labels": []},
                    {
                        "response": f"The policy ends in May. {wrong}",
                        "labels": [
                            {
                                "start": 24,
                                "end": 24 + len(wrong),
                                "label_type": "Evident Conflict",
                                "implicit_true": False,
                            }
                        ],
                    },
                ],
            }
        )
    (folder / "ragtruth").mkdir(parents=True, exist_ok=True)
    (folder / "ragtruth" / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return folder


def _parts(transformers: Any, places: int) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")
    tokenizers = pytest.importorskip("tokenizers")
    names = ["<pad>", "<s>", "</s>", "<unk>", *WORDS.split()]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: place for place, word in enumerate(names)}, unk_token="<unk>")
    )
    inner.normalizer = tokenizers.normalizers.Lowercase()
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(names),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=places,
    )
    return tokenizer, config


def _saved(folder: Path, tokenizer: Any, model: Any) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
