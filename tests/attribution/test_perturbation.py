"""Explanations of models of which only the response is known."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.attribution import Span, leave_one_out, score_drops
from ragtrace.attribution.perturbation import distances
from ragtrace.errors import AttributionError


def test_the_word_that_decides() -> None:
    """Without it the response changes most: weight 1; without what changes nothing: 0."""
    asked: list[str] = []

    def respond(texts: list[str]) -> list[str]:
        asked.extend(texts)
        return ["thirty days" if "deadline" in text else "no idea" for text in texts]

    found = leave_one_out("what is the deadline ?", respond)
    assert [(part.text, part.weight) for part in found.parts] == [
        ("what", 0.0),
        ("is", 0.0),
        ("the", 0.0),
        ("deadline", 1.0),
        ("?", 0.0),
    ]
    assert asked[0] == "what is the deadline ?"
    assert asked[4] == "what is the ?"
    assert found.n_evaluations == len(asked) == 6


def test_each_occurrence_by_itself() -> None:
    """A word that stands twice is left out once at a time."""
    asked: list[str] = []

    def respond(texts: list[str]) -> list[str]:
        asked.extend(texts)
        return texts

    leave_one_out("go or go", respond)
    assert asked[1:] == ["or go", "go go", "go or"]


def test_a_constant_response_gives_no_weights() -> None:
    """And no division by zero."""
    found = leave_one_out("a b c", lambda texts: ["same"] * len(texts), similarity="jaro-winkler")
    assert [part.weight for part in found.parts] == [0, 0, 0]
    assert leave_one_out("", lambda texts: texts).parts == ()


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_rounding_gives_no_weights(scale: float) -> None:
    """Similarities that differ in their last digits alone are equal; beside a real difference they stay as they are."""
    draw = np.random.default_rng(0)
    vector = draw.normal(size=384)

    def respond(texts: list[str]) -> list[np.ndarray]:
        return [len(text) * vector for text in texts]

    found = leave_one_out("one two three four five six", respond, similarity="cosine")
    assert [part.weight for part in found.parts] == [0] * 6
    noise = scale * (1 + 1e-7 * draw.random(5))
    assert not distances(noise).any()
    assert distances(np.append(noise, 0.99 * scale))[-1] == 1
    assert distances(np.array([1e-3, 2e-3])).tolist() == [1, 0]
    with pytest.raises(AttributionError, match="similarity of two responses is not finite"):
        distances(np.array([0.5, np.nan]))


def test_documents_vectors_and_own_similarities() -> None:
    """Parts may be given, responses may be vectors, and the comparison a function."""
    prompt = "[1] water [2] fire [3] water"
    parts = [Span(0, 9, "[1] water"), Span(10, 18, "[2] fire"), Span(19, 28, "[3] water")]

    def vectors(texts: list[str]) -> list[list[int]]:
        return [[text.count("water"), text.count("fire")] for text in texts]

    found = leave_one_out(prompt, vectors, spans=parts, similarity="cosine")
    assert [part.weight for part in found.parts] == pytest.approx([found.parts[2].weight, 1, found.parts[0].weight])
    by_function = leave_one_out(prompt, vectors, spans=parts, similarity=lambda a, b: float(b[0]))
    assert [part.weight for part in by_function.parts] == [1, 0, 1]


def test_sentences() -> None:
    """The unit for prompts of a generator."""
    found = leave_one_out("It rained. The roof leaked.", lambda texts: texts, unit="sentence")
    assert [part.text for part in found.parts] == ["It rained.", "The roof leaked."]


def test_score_drops() -> None:
    """What a score loses with each word, gains included."""
    values = {"good": 2.0, "bad": -1.0}
    found = score_drops("good bad roof", lambda texts: [sum(values.get(w, 0) for w in t.split()) for t in texts])
    assert [(part.text, part.weight) for part in found] == [("good", 2.0), ("bad", -1.0), ("roof", 0.0)]


def test_bad_input() -> None:
    """Parts outside of the text, too few responses, unknown or undefined similarities."""
    with pytest.raises(AttributionError, match="part 1:9 is not within the text of 3"):
        leave_one_out("abc", lambda texts: texts, spans=[Span(1, 9, "")])
    with pytest.raises(AttributionError, match="2 texts got 1 responses"):
        leave_one_out("abc", lambda texts: texts[:1])
    with pytest.raises(AttributionError, match="no similarity 'bleu'; give one of cosine"):
        leave_one_out("abc", lambda texts: texts, similarity="bleu")
    with pytest.raises(AttributionError, match="the similarity without 'abc' is not finite"):
        leave_one_out("abc", lambda texts: texts, similarity=lambda a, b: float("nan"))
    with pytest.raises(AttributionError, match="give a finite one for each"):
        score_drops("abc", lambda texts: [np.nan] * len(texts))
    with pytest.raises(AttributionError, match="similarities must be an array of real numbers"):
        leave_one_out("abc", lambda texts: texts, similarity=lambda a, b: b)
    with pytest.raises(AttributionError, match="scores must be an array of real numbers"):
        score_drops("abc", lambda texts: texts)
