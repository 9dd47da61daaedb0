"""Leaving documents and sentences out of the prompt of a model that tells nothing but its answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.attribution import shapley_values
from ragtrace.engines.causal_lm import CausalLM, Generated
from ragtrace.engines.http import HttpLM
from ragtrace.engines.model_agnostic import SimilarityGame, leave_documents_out, leave_sentences_out
from ragtrace.errors import AttributionError
from ragtrace.types import PackedChunk
from tests.engines.serving import Served

TEMPLATE = "question : the limit ?\n\n[1] {chunk:a}\n\n[2] {chunk:b}\n\n[3] {chunk:c}\n\nanswer :"
TEXTS = {"a": "The sky is blue. It is wide.", "b": "It rains. The limit is thirty days.", "c": "Cats sleep."}
CHUNKS = [PackedChunk(chunk_id=name, position=at, text=text) for at, (name, text) in enumerate(TEXTS.items(), 1)]
LIMIT = "The limit is thirty days."


class Copying:
    """Answers with the sentence about the limit where the prompt has it, and counts what it is asked."""

    name = "copying"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
        """The answers."""
        self.asked += prompts
        return [Generated(LIMIT if LIMIT in prompt else "I do not know.", 0, 0, "stop") for prompt in prompts]


def test_the_document_that_was_used() -> None:
    """The document without which the answer changes has weight 1, the others 0."""
    model = Copying()
    found = leave_documents_out(SimilarityGame(model, TEMPLATE, CHUNKS))
    assert found.chunk_ids == ("a", "b", "c")
    assert found.shares == (0.0, 1.0, 0.0)
    assert found.values == ((0.0,), (1.0,), (0.0,))
    assert (found.unit, found.method, found.full) == ("similarity", "leave_one_out", 1.0)
    assert found.answer_spans == ((0, len(LIMIT)),)
    assert found.evaluations == len(model.asked) == 4
    assert "[2] The limit" not in model.asked[2]
    assert "[1] The sky is blue. It is wide.\n\n[3] Cats sleep." in model.asked[2]


def test_the_sentence_that_was_used() -> None:
    """Sentences are cut out where they stand; their offsets are those in the chunk."""
    model = Copying()
    game = SimilarityGame(model, TEMPLATE, CHUNKS)
    found = [each for each in leave_sentences_out(game) if each.kind == "document"]
    assert [(each.chunk_id, each.weight) for each in found] == [("a", 0), ("a", 0), ("b", 0), ("b", 1), ("c", 0)]
    texts = [game.prompt[each.start : each.end] for each in found]
    assert texts == ["The sky is blue.", "It is wide.", "It rains.", LIMIT, "Cats sleep."]
    assert any("[2] It rains. [3]" in prompt for prompt in model.asked)


def test_sentences_of_instruction_and_question() -> None:
    """They are parts of the prompt like those of documents, each told by what it is; numbers of chunks are none."""
    template = (
        "Answer by the documents. Say so if you cannot.\n\n[1] {chunk:a}\n[2] {chunk:b}\n\nIs it long? The limit ?\n"
        "Now answer it:"
    )
    asked = "Is it long? The limit ?"

    class Asking(Copying):
        """Answers from the documents, and only while it is asked for the limit."""

        def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
            self.asked += prompts
            knows = [LIMIT in prompt and "The limit ?" in prompt for prompt in prompts]
            return [Generated(LIMIT if each else "I do not know.", 0, 0, "stop") for each in knows]

    model = Asking()
    game = SimilarityGame(model, template, CHUNKS[:2], question=asked, answer=LIMIT)
    found = leave_sentences_out(game)
    told = [(each.kind, game.prompt[each.start : each.end], each.weight) for each in found]
    assert told == [
        ("instruction", "Answer by the documents.", 0.0),
        ("instruction", "Say so if you cannot.", 0.0),
        ("document", "The sky is blue.", 0.0),
        ("document", "It is wide.", 0.0),
        ("document", "It rains.", 0.0),
        ("document", LIMIT, 1.0),
        ("question", "Is it long?", 0.0),
        ("question", "The limit ?", 1.0),
        ("instruction", "Now answer it:", 0.0),
    ]
    assert len(model.asked) == len({*model.asked}) == len(found)


def test_an_answer_that_never_changes() -> None:
    """A constant similarity gives zero weights."""
    model = Copying()
    found = leave_documents_out(SimilarityGame(model, TEMPLATE.replace("answer", LIMIT), CHUNKS))
    assert found.shares == (0.0, 0.0, 0.0)


def test_the_stored_answer_is_what_is_explained() -> None:
    """With an answer given, the model's own to the full prompt is compared with it."""
    game = SimilarityGame(Copying(), TEMPLATE, CHUNKS, answer="Thirty days.")
    found = leave_documents_out(game)
    assert found.answer_spans == ((0, len("Thirty days.")),)
    assert found.full is not None
    assert 0 < found.full < 1
    assert found.shares == (0.0, 1.0, 0.0)


def test_sentences_are_compared_with_the_stored_answer_too() -> None:
    """Also where the model no longer gives it: what keeps it from doing so has no weight, as for documents."""

    class Distracted(Copying):
        def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
            texts = ["I do not know." if "Cats" in prompt else LIMIT for prompt in prompts]
            return [Generated(text, 0, 0, "stop") for text in texts]

    game = SimilarityGame(Distracted(), TEMPLATE, CHUNKS, answer=LIMIT)
    assert leave_documents_out(game).shares == (1.0, 1.0, 0.0)
    found = [each.weight for each in leave_sentences_out(game) if each.kind == "document"]
    assert found == [1.0, 1.0, 1.0, 1.0, 0.0]


def test_shapley_values_of_the_likeness() -> None:
    """The same game has Shapley values: they sum to what the documents change, all of it the right document's."""
    found = shapley_values(SimilarityGame(Copying(), TEMPLATE, CHUNKS), 3)
    np.testing.assert_allclose(found.values.sum(axis=0), found.full - found.empty, atol=1e-9)
    np.testing.assert_allclose(found.scores[[0, 2]], 0, atol=1e-12)
    assert found.ranking[0] == 1


def test_without_documents() -> None:
    """No documents, no weights."""
    found = leave_documents_out(SimilarityGame(Copying(), "answer :", []))
    assert (found.chunk_ids, found.shares, found.full) == ((), (), 1.0)


def test_a_document_that_is_packed_twice() -> None:
    """It is one player: both places leave the prompt together, and each place has its sentences."""
    model = Copying()
    game = SimilarityGame(model, "[1] {chunk:b}\n\n[2] {chunk:b}\n\nanswer :", CHUNKS[1:2])
    assert leave_documents_out(game).chunk_ids == ("b",)
    assert LIMIT not in model.asked[1]
    sentences = leave_sentences_out(game)
    assert [game.prompt[each.start : each.end] for each in sentences] == ["It rains.", LIMIT] * 2
    assert [each.chunk_id for each in sentences] == ["b"] * 4


def test_vectors_compare_the_answers() -> None:
    """An encoder compares by meaning instead of letters."""

    class Counting:
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.array([[text.count("limit"), text.count("know")] for text in texts], dtype=np.float32)

    found = leave_documents_out(SimilarityGame(Copying(), TEMPLATE, CHUNKS, encoder=Counting()))
    assert found.shares == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("name", ["cosine", "other"])
def test_a_similarity_that_texts_do_not_have(name: str) -> None:
    """Vectors need an encoder."""
    with pytest.raises(AttributionError, match="or an encoder"):
        SimilarityGame(Copying(), TEMPLATE, CHUNKS, similarity=name)


def test_a_record_without_texts() -> None:
    """Chunks whose texts were not kept are an error that says so."""
    with pytest.raises(ValueError, match="has no text"):
        SimilarityGame(Copying(), TEMPLATE, [PackedChunk(chunk_id=each, position=1) for each in "abc"])


def test_a_closed_model_behind_http(model_server: Served, tiny_chat_lm: Path) -> None:
    """Through a real server the weights are those of the same model in this process."""

    class Local:
        name = "local"
        model = CausalLM.load(tiny_chat_lm)

        def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
            return [self.model.generate(prompt, max_new_tokens=max_new_tokens) for prompt in prompts]

    remote = HttpLM(model_server.at("closed"), "tiny", chat=True)
    template = "question : {chunk:a} {chunk:b} {chunk:c} answer :"
    texts = ["the limit is thirty .", "a limit is days .", "1 2 ?"]
    chunks = [PackedChunk(chunk_id=name, position=1, text=text) for name, text in zip("abc", texts, strict=True)]
    found = leave_documents_out(SimilarityGame(remote, template, chunks, max_new_tokens=6))
    expected = leave_documents_out(SimilarityGame(Local(), template, chunks, max_new_tokens=6))
    assert found.shares == expected.shares
    assert found.engine == "http"
    assert found.model == "tiny"
