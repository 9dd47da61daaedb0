"""sentence-transformers' hits out of its real search, and of a real cross-encoder with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragtrace.record.coercion import Chunk
from tests.captures.pipelines import check_stages
from tests.frameworks.conftest import Reads

DISTRIBUTIONS = ("sentence-transformers", "torch")
REASON = "sentence-transformers is not installed: make frameworks"

torch = pytest.importorskip("torch", reason=REASON)
sentence_transformers = pytest.importorskip("sentence_transformers", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

VECTORS = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]
TEXTS = ["alpha is the first letter", "beta is the second letter"]


@pytest.mark.captures("ids", "scores", "moves", "packed", where="`semantic_search` hits")
def test_semantic_search(reads: Reads) -> None:
    """One list per query, of places in the corpus; one query's list alone reads the same."""
    corpus = torch.tensor(VECTORS)
    one, two = sentence_transformers.util.semantic_search(corpus[[0, 2]], corpus, top_k=2)
    expected = [Chunk(score=one[0]["score"], index=0), Chunk(score=one[1]["score"], index=1)]
    reads("semantic_search", [one], expected)
    reads("semantic_search_hits", one, expected)
    check_stages(two, [Chunk(score=hit["score"], index=hit["corpus_id"]) for hit in two])
    reads("semantic_search_several", [one, two], [expected[0], Chunk(score=two[0]["score"], index=2), expected[1]])
    reads("semantic_search_nothing", [[]], [])


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The smallest model of its kind, made here: nothing is downloaded."""
    folder: Path = tmp_path_factory.mktemp("model")
    words = sorted({word for text in TEXTS for word in text.split()})
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=5 + len(words), num_labels=1, **sizes)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return sentence_transformers.CrossEncoder(str(folder), device="cpu")


@pytest.mark.captures("ids", "scores", "texts", "moves", "packed", where="`CrossEncoder.rank`")
@pytest.mark.parametrize("with_texts", [True, False])
def test_rank(reads: Reads, cross_encoder: Any, with_texts: bool) -> None:
    """Places among the inputs and scores, with or without the texts."""
    found = cross_encoder.rank("alpha", TEXTS, return_documents=with_texts)
    assert sorted(hit["corpus_id"] for hit in found) == [0, 1]
    expected = [
        Chunk(text=TEXTS[hit["corpus_id"]] if with_texts else None, score=hit["score"], index=hit["corpus_id"])
        for hit in found
    ]
    reads("rank_with_texts" if with_texts else "rank", found, expected)
