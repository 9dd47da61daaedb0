"""Claims by the nearness of embeddings, with an encoder whose vectors are known and with a real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze import analyze_record
from ragtrace.analyze._verification import judge_batch, verified_by
from ragtrace.coverage import JudgedAnswer, score_answer
from ragtrace.engines.verifier import EmbeddingVerifier
from ragtrace.types import Query, replace
from tests.analyze.examples import request
from tests.engines.conftest import Build

AXES = {"cat": 0, "cats": 0, "kitten": 0, "dog": 1, "tax": 2}


class Axes:
    """Texts by the axis of their words: those that name one thing are close, whatever else they say."""

    name = "axes"
    revision = "0123456789ab"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def pieces(self, text: str) -> list[str]:
        """However long it is, it is read."""
        return [text]

    def encode(self, texts: Sequence[str], **_: Any) -> NDArray[np.float32]:
        """Unit vectors; a text without a known word has its own direction."""
        self.calls.append(list(texts))
        vectors = np.zeros((len(texts), 4), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.casefold().replace(".", "").split():
                vectors[row, AXES.get(word, 3)] += 1.0 if word in AXES else 0.01
        lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
        found: NDArray[np.float32] = vectors / lengths
        return found


def verifier() -> tuple[EmbeddingVerifier, Axes]:
    """One that reads by axes."""
    encoder = Axes()
    return EmbeddingVerifier(encoder), encoder  # type: ignore[arg-type]


def test_nearness_is_that_of_the_nearest_sentences() -> None:
    """The best of a sentence and of two that follow each other; contradictions are not judged."""
    judge, _ = verifier()
    near, far, both, empty = judge.verify(
        [
            ("the kitten", "A tax is due. The cat sleeps. Nothing more."),
            ("the kitten", "A tax is due."),
            ("cat dog", "The cat sleeps. The dog barks."),
            ("the kitten", ""),
        ]
    )
    assert near[0] > both[0] - 0.01 > far[0]
    assert near[0] == pytest.approx(1 / (1 + np.exp(-(0.88 - 0.56))), abs=1e-3)
    assert [empty[0], far[0]] == pytest.approx([1 / (1 + np.exp(0.56))] * 2, abs=1e-2)
    assert {against for _, against in (near, far, both, empty)} == {0.0}


def test_a_sentence_longer_than_the_encoder_reads(build: Build) -> None:
    """It is read in pieces: what its end says counts as well."""
    encoder = build()
    encoder._model.max_seq_length = 8
    claim = "limit is thirty days question answer"
    ((support, _),) = EmbeddingVerifier(encoder).verify([(claim, "the a . : 1 2 " * 2 + claim)])
    assert support == pytest.approx(1 / (1 + np.exp(-(0.88 - 0.56))), abs=1e-3)


def test_all_pairs_of_a_call_are_encoded_at_once_and_each_text_once() -> None:
    """The requests of a batch share one call of the model."""
    judge, encoder = verifier()
    records = {str(number): request(request_id=str(number)) for number in range(3)}
    judged = judge_batch(records, judge)
    assert len(encoder.calls) <= 2  # packed chunks, then other candidates
    assert all(len(set(texts)) == len(texts) for texts in encoder.calls)
    assert not any(isinstance(each, Exception) for each in judged.values())


def test_words_and_nearness_are_merged() -> None:
    """The same words, nearer and farther evidence: the support moves, the layer and the model are named."""
    judge, _ = verifier()
    answer, chunk = "The kitten sleeps in the house.", "The kitten sleeps in the house. It purrs."
    (claim,) = score_answer(answer, [chunk], verifier=judge)
    (alone,) = score_answer(answer, [chunk])
    assert claim.support is not None
    assert alone.support is not None
    assert claim.support > 0.5
    assert claim.support != alone.support
    assert claim.layer == "embeddings"
    found = verified_by(judge)
    assert found is not None
    assert (found.name, found.weights, found.calibration) == ("embeddings of axes", "0123456789ab", None)


def test_layers_are_put_on_top_of_each_other() -> None:
    """The last one has the last word, and all are named."""

    class Denying(EmbeddingVerifier):
        """One that supports nothing."""

        lexical_weight = 0.0  # type: ignore[misc]

        def verify(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
            return [(0.01, 0.0)] * len(pairs)

    judge, encoder = verifier()
    denying = Denying(encoder)  # type: ignore[arg-type]
    judged = judge_batch({"r": request()}, judge, denying)["r"]
    assert not isinstance(judged, Exception)
    assert [claim.support for claim in judged.claims if claim.factual] == [0.01]
    found = verified_by(judge, denying)
    assert found is not None
    assert found.name == "embeddings of axes + embeddings of axes"
    assert verified_by() is None


def test_an_answer_near_to_its_question_is_more_relevant() -> None:
    """The encoder that judges claims tells how near question and answer are; both texts are encoded once."""
    judge, encoder = verifier()
    assert judge.cosines([("the kitten", "cat"), ("the kitten", "tax")]) == [pytest.approx(1.0, abs=1e-3), 0.0]
    assert len(encoder.calls) == 1
    assert judge.cosines([]) == []
    asked = replace(request(answer="cat cats kitten"), query=Query(original="kitten cat"))
    near, far = (
        judge_batch({"r": replace(asked, query=Query(original=text))}, judge)["r"] for text in ("kitten cat", "tax")
    )
    assert isinstance(near, JudgedAnswer)
    assert isinstance(far, JudgedAnswer)
    assert near.cosine == pytest.approx(1.0, abs=1e-3)
    assert far.cosine == 0.0
    with_model = analyze_record(asked, judged=near).score("answer_relevance")
    assert with_model is not None
    assert with_model != analyze_record(asked).score("answer_relevance")


def test_the_packaged_encoder_judges() -> None:
    """MiniLM: a paraphrase is nearer than another matter; odd texts are read."""
    pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    from ragtrace.engines.encoder import packaged_encoder

    judge = EmbeddingVerifier.load(packaged_encoder())
    near, far = judge.verify(
        [("Losses must be reported within two weeks.", text)
         for text in ("Report every loss within 14 days.", "The cat sleeps on the sofa.")]
    )  # fmt: skip
    assert near[0] > far[0]
    assert len(judge.verify([("", ""), ("\x00", "\ud800"), ("日本", "مصر " * 50)])) == 3
    assert judge.verify([]) == []
    assert judge.digest
