"""What people marked, as the benchmark reads it of each data set."""

from __future__ import annotations

from typing import Any

from bench.evidence import Marked, agreement, of_clapnq, of_expertqa, of_wice


def test_the_sentences_that_an_answer_needs() -> None:
    """Of a passage of three to eight sentences; white space makes no other sentence."""
    output = [{"answer": "41 EUR.", "selected_sentences": ["It is 41  EUR."]}]
    row: dict[str, Any] = {"input": "what is the fee", "output": output}
    sentences = ["A fee is due.", "It is 41 EUR.", "", "Bees hum."]
    assert of_clapnq(row | {"passages": [{"sentences": sentences}]}) == Marked(
        "what is the fee", ["A fee is due.", "It is 41 EUR.", "Bees hum."], frozenset({1}), "41 EUR."
    )
    assert of_clapnq(row | {"passages": [{"sentences": sentences[:2]}]}) is None


def test_the_sentences_that_a_claim_rests_on() -> None:
    """Eight around the first set that lies near together, with all that is marked among them."""
    row: dict[str, Any] = {
        "claim": "It opened.",
        "evidence": [f"Sentence {at}." for at in range(20)],
        "meta": {"claim_title": "Tarn"},
        "supporting_sentences": [[0, 19], [10, 12], [12, 13]],
    }
    found = of_wice(row)
    assert found is not None
    assert [found.sentences[at] for at in sorted(found.marked)] == ["Sentence 10.", "Sentence 12.", "Sentence 13."]
    assert len(found.sentences) == 8
    assert of_wice(row | {"supporting_sentences": [[0, 19]]}) is None


def test_the_sources_that_a_claim_cites() -> None:
    """Without their numbers and addresses; only a claim that an expert found completely supported counts."""
    sources = [f"[{at}] https://example.org/{at}\n\nSource {at} speaks." for at in (1, 2, 3)]
    claims: list[dict[str, Any]] = [
        {"claim_string": "All of it [1].", "evidence": sources, "support": "Complete"},
        {"claim_string": "The fee is due [2].", "evidence": sources[1:2], "support": "Complete"},
    ]
    row: dict[str, Any] = {"question": "What is due?", "claims": claims}
    texts = ["Source 1 speaks.", "Source 2 speaks.", "Source 3 speaks."]
    assert of_expertqa(row) == Marked("What is due", texts, frozenset({1}), "The fee is due.")
    assert of_expertqa(row | {"claims": [claims[0], claims[1] | {"support": "Partial"}]}) is None


def test_agreement() -> None:
    """F1 of what was chosen, and the share of the marked parts in it; nothing chosen agrees with nothing."""
    assert agreement({0, 1}, frozenset({1, 2, 3})) == (0.4, 1 / 3)
    assert agreement(set(), frozenset({1})) == (0.0, 0.0)
