"""`ragtrace.instrument("sentence_transformers")` on a small real application, with tiny models of random weights."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.context import get_current

import ragtrace
from tests.frameworks.instrumented import Records, recording
from tests.frameworks.openai_api import ANSWER, serving

reason = "sentence-transformers is not installed (pip install 'ragtrace[models,otel]')"
pytest.importorskip("opentelemetry.instrumentation", reason=reason)
library = pytest.importorskip("sentence_transformers", reason=reason)

DISTRIBUTIONS = ("sentence-transformers", "torch", "transformers", "opentelemetry-instrumentation")

TEXTS = [
    "Employees may take twenty days of leave in a calendar year.",
    "The notice period is three months to the end of a quarter.",
    "A bonus is paid in March when the targets have been met.",
    "Travel in the second class is paid for all journeys by train.",
]
QUESTION = "How many days of leave are there in a year?"


def tokenizer() -> Any:
    """A tokenizer of the words above."""
    tokenizers = pytest.importorskip("tokenizers")
    words = sorted({word for text in (*TEXTS, QUESTION) for word in text.replace(".", " .").replace("?", " ?").split()})
    numbers = {word: number for number, word in enumerate(["<pad>", "<unk>", "<s>", "</s>", *words])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return made


@pytest.fixture(scope="module")
def encoder() -> Any:
    """A bi-encoder of random word vectors."""
    pytest.importorskip("torch").manual_seed(0)
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    layers = [modules.StaticEmbedding(tokenizer(), embedding_dim=32)]
    return library.SentenceTransformer(modules=layers, device="cpu")


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cross-encoder of two random layers."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    folder: Path = tmp_path_factory.mktemp("cross-encoder")
    torch.manual_seed(0)
    words = tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=words.get_vocab_size(), num_labels=1, **sizes)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    marks = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **marks).save_pretrained(folder)
    return library.CrossEncoder(str(folder), device="cpu")


@pytest.fixture(autouse=True)
def instrumented() -> Iterator[None]:
    """The library is instrumented; nothing stays attached to the test's own context."""
    ragtrace.instrument("sentence_transformers")
    before = get_current()
    yield
    assert get_current() == before
    ragtrace.uninstrument("sentence_transformers")


@pytest.fixture
def records() -> Iterator[Records]:
    """A recorder in use."""
    with recording() as found:
        yield found


@pytest.mark.captures("ids", "scores", "texts", "moves", where="sentence-transformers", mode="sync")
def test_an_application_is_one_record(records: Records, encoder: Any, cross_encoder: Any) -> None:
    """Hits with their texts and scores, and the moves, in the host's request: no stage is decorated."""
    corpus = encoder.encode(TEXTS, convert_to_tensor=True)
    with ragtrace.request():
        hits = library.util.semantic_search(encoder.encode(QUESTION, convert_to_tensor=True), corpus, top_k=4)[0]
        found = [TEXTS[hit["corpus_id"]] for hit in hits]
        ranked = cross_encoder.rank(QUESTION, found, top_k=2)
    assert records.one.query.original == QUESTION
    assert records.stages() == ["retrieve", "rerank"]
    assert records.retrieved() == [(str(hit["corpus_id"]), hit["score"]) for hit in hits]
    assert [each.text for each in records.one.candidates] == found
    ids = [str(hit["corpus_id"]) for hit in hits]
    kept = [(ids[each["corpus_id"]], each["corpus_id"] + 1, rank) for rank, each in enumerate(ranked, 1)]
    assert records.moves()[:2] == kept
    assert [after for _, _, after in records.moves()] == [1, 2, None, None]
    assert [move.score for move in records.one.moves[:2]] == [each["score"] for each in ranked]


def test_with_openai_the_prompt_and_the_answer_arrive(records: Records, encoder: Any, cross_encoder: Any) -> None:
    """Two instrumented libraries and a request around them: the whole evidence path."""
    openai = pytest.importorskip("openai", reason="openai is not installed (pip install 'ragtrace[openai,otel]')")
    ragtrace.instrument("openai")
    with serving() as url:
        client = openai.OpenAI(base_url=url, api_key="-")
        corpus = encoder.encode(TEXTS)
        with ragtrace.request():
            hits = library.util.semantic_search(encoder.encode(QUESTION), corpus, top_k=4)[0]
            found = [TEXTS[hit["corpus_id"]] for hit in hits]
            best = [found[each["corpus_id"]] for each in cross_encoder.rank(QUESTION, found, top_k=2)]
            prompt = "\n".join(best) + f"\n\n{QUESTION}"
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
    ragtrace.uninstrument("openai")
    assert records.stages() == ["retrieve", "rerank", "pack", "generate"]
    assert records.packed() == [str(TEXTS.index(text)) for text in best]
    assert records.generation().answer == ANSWER


@pytest.mark.captures("error", where="sentence-transformers", mode="sync")
def test_an_exception_of_the_library(records: Records, encoder: Any) -> None:
    """The host gets it; the record says where it came from."""
    with pytest.raises(RuntimeError):
        library.util.semantic_search(encoder.encode(QUESTION), encoder.encode(TEXTS)[:, :7])
    error = records.one.error
    assert error is not None
    assert (error.type, error.stage, records.one.query.original) == ("RuntimeError", "retrieve", QUESTION)


def test_predicted_scores_are_an_order(records: Records, encoder: Any, cross_encoder: Any) -> None:
    """Hosts that score pairs themselves rank by what comes out."""
    corpus = encoder.encode_document(TEXTS)
    with ragtrace.request():
        hits = library.util.semantic_search(encoder.encode_query([QUESTION]), corpus, top_k=3)[0]
        scores = cross_encoder.predict([(QUESTION, TEXTS[hit["corpus_id"]]) for hit in hits])
    order = sorted(range(3), key=lambda place: -scores[place])
    ids = [str(hit["corpus_id"]) for hit in hits]
    assert records.moves() == [(ids[place], place + 1, rank) for rank, place in enumerate(order, 1)]
    assert records.one.query.original == QUESTION


def test_other_predictions_are_no_rerankings(records: Records, cross_encoder: Any) -> None:
    """One pair, and pairs of different questions."""
    cross_encoder.predict((QUESTION, TEXTS[0]))
    cross_encoder.predict([(text, QUESTION) for text in TEXTS])
    assert records.items == []


def test_several_queries_are_several_retrievals(records: Records, encoder: Any) -> None:
    """A batch of queries, each with its own hits."""
    corpus = encoder.encode(TEXTS)
    with ragtrace.request(query=QUESTION):
        library.util.semantic_search(encoder.encode([QUESTION, TEXTS[1]]), corpus, top_k=2)
    assert records.stages() == ["retrieve", "retrieve"]
    assert records.one.query.rewritten == TEXTS[1]


def test_unknown_embeddings_keep_positions_and_scores(records: Records, encoder: Any) -> None:
    """Embeddings that were not made by the library have no texts; a dead matrix's texts are forgotten."""
    corpus = encoder.encode(TEXTS)
    copied = corpus.copy()
    del corpus
    gc.collect()
    library.util.semantic_search(encoder.encode(QUESTION), copied, top_k=2)
    assert [each.text for each in records.one.candidates] == [None, None]
    assert all(chunk_id.isdigit() for chunk_id, _ in records.retrieved())


def test_suppressed_and_uninstrumented_calls_are_not_recorded(records: Records, encoder: Any) -> None:
    """OpenTelemetry's suppress_instrumentation, and uninstrument()."""
    from opentelemetry.instrumentation.utils import suppress_instrumentation

    corpus = encoder.encode(TEXTS)
    with suppress_instrumentation():
        library.util.semantic_search(encoder.encode(QUESTION), corpus)
    ragtrace.uninstrument("sentence_transformers")
    library.util.semantic_search(encoder.encode(QUESTION), corpus)
    assert records.items == []
    assert not hasattr(library.util.semantic_search, "_self_wrapper")
