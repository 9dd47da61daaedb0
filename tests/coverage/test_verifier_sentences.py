"""The sentences of texts that hold most of a claim."""

from __future__ import annotations

from hypothesis import given, strategies as st

from ragtrace.coverage.verifier import containment, gather

FILLER = "The weather was mild and nobody went out for long that day. " * 12


def test_short_texts_are_given_whole() -> None:
    """What fits is not selected from."""
    assert gather("A limit.", ["One sentence.", "Another one."]) == "One sentence. Another one."


def test_sentences_of_two_texts_are_brought_together() -> None:
    """A claim that rests on two texts finds both of its sentences, in the order of the texts."""
    texts = [f"The deductible is 500 EUR. {FILLER}", f"{FILLER} The policy ends in Denmark."]
    found = gather("The deductible of 500 EUR ends in Denmark.", texts, limit=20)
    assert found.startswith("The deductible is 500 EUR.")
    assert found.endswith("The policy ends in Denmark.")
    assert len(found.split()) <= 22


def test_nothing_in_common() -> None:
    """A claim that shares no word with the texts gets their beginning, not nothing."""
    assert gather("Quantum chromodynamics.", [f"First things first. {FILLER}"], limit=5) == "First things first."


def test_containment() -> None:
    """The share of the claim's words and numbers that a text holds."""
    assert containment("The limit is 30 days", "A limit of 30 days.") == 1.0
    assert containment("The limit is 30 days", "A limit of 40 days.") == 2 / 3
    assert containment("", "A limit.") == 0.0


@given(st.text(max_size=200), st.lists(st.text(max_size=300), max_size=4))
def test_any_text(claim: str, texts: list[str]) -> None:
    """No text breaks it, and what comes out stands in the texts."""
    found = gather(claim, texts, limit=10)
    assert all(word in " ".join(texts) for word in found.split())
    assert 0.0 <= containment(claim, " ".join(texts)) <= 1.0
