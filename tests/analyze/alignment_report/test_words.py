"""The words that retrieval goes by."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ragtrace.analyze.alignment_report._rates import ExplainedRequest
from ragtrace.analyze.alignment_report._words import overlaps, sampled_words, shares
from ragtrace.explanations import Explanation, RetrieverAttribution, TokenWeights
from ragtrace.types import Candidate, Query, RequestRecord, RetrieveRun, replace

QUERY = "What does Home Plus pay?"
DOCUMENT = "Home Plus will pay, for theft, 900 euro."
TAGS = {
    "What": "PRON", "does": "AUX", "Home": "PROPN", "Plus": "PROPN", "pay": "VERB", "will": "AUX", "for": "ADP",
    "theft": "NOUN", "900": "NUM", "euro": "NOUN",
}  # fmt: skip


class _Tags:
    """Tags by a list, as a pipeline gives them."""

    name = "by_list"

    def tagged(self, text: str) -> list[tuple[int, int, str]]:
        """Words and punctuation marks."""
        found = re.finditer(r"\w+|[^\w\s]", text)
        return [(each.start(), each.end(), TAGS.get(each.group(), "PUNCT")) for each in found]


def _weights(text: str, **worth: float) -> TokenWeights:
    """Tokens of up to three letters; a word's worth is divided among its own."""
    pieces = [(word.group(), word.start() + at, min(word.start() + at + 3, word.end()))
              for word in re.finditer(r"\w+|[^\w\s]", text) for at in range(0, len(word.group()), 3)]  # fmt: skip
    counts = {word: sum(each == word for each, _, _ in pieces) for word, _, _ in pieces}
    return TokenWeights(
        spans=tuple((start, end) for _, start, end in pieces),
        weights=tuple(worth.get(f"w{word}", 0.0) / counts[word] for word, _, _ in pieces),
    )


def _explained(request_id: str = "r", document: str = DOCUMENT, model: str = "e-1", **worth: float) -> ExplainedRequest:
    found = RetrieverAttribution(
        chunk_id="c", query=_weights(QUERY, wHome=2.0, wPlus=1.0), document=_weights(document, **worth), model=model
    )
    record = RequestRecord(
        request_id=request_id,
        service="s",
        query=Query(original=QUERY),
        stages=(RetrieveRun(candidates=(Candidate(chunk_id="c", rank=1, text=document),)),),
    )
    return ExplainedRequest(record, Explanation(retriever=(found,)), drawn=True)


def test_overlap_counts_query_words_among_the_strongest_half() -> None:
    """Of eight words the strongest four; without case and punctuation; tokens add up to words."""
    found = sampled_words(_explained(wHome=0.5, wPlus=0.4, wtheft=0.9, weuro=0.8, wpay=0.1))

    assert found is not None
    assert found.overlap == pytest.approx(2 / 4)  # theft, euro, Home, Plus
    assert found.at_random == pytest.approx(3 / 8)  # Home, Plus, pay of eight
    assert found.found == pytest.approx(2 / 5)  # of What, does, Home, Plus, pay


def test_words_are_compared_with_the_query_that_found_the_document() -> None:
    """Of two queries, the second here."""
    first = _explained(wHome=0.5, wPlus=0.4, wtheft=0.9, weuro=0.8)
    runs = (RetrieveRun(query="Theft or euro?"), RetrieveRun(query=QUERY, candidates=first.record.candidates))
    record = replace(first.record, stages=runs)
    (found,) = first.explanation.retriever
    by_first, by_second = (
        sampled_words(
            ExplainedRequest(record, Explanation(retriever=(replace(found, query_number=number),)), drawn=True)
        )
        for number in (0, 1)
    )
    assert by_first is not None
    assert by_second == sampled_words(first)
    assert by_first.found == pytest.approx(2 / 3)


def test_an_odd_number_of_words_takes_the_larger_half() -> None:
    """Three words: two of them."""
    found = sampled_words(_explained(document="Home pays theft", wHome=1.0, wtheft=0.5, wpays=-1.0))

    assert found is not None
    assert found.overlap == pytest.approx(1 / 2)


def test_mass_by_part_of_speech_is_over_the_strongest_words() -> None:
    """Of eight words three: Home, theft, euro; a pair needs both of its words among them."""
    found = sampled_words(_explained(wHome=0.5, wPlus=0.6, wtheft=0.9, weuro=0.1), _Tags())

    assert found is not None
    of_document, counts = found.mass["document"], found.counts["document"]
    assert of_document == pytest.approx({"PROPN": 1.1 / 2.0, "NOUN": 0.9 / 2.0, "PROPN PROPN": 1.0})
    assert counts["PROPN"] == pytest.approx(2 / 8)
    assert counts["NOUN"] == pytest.approx(2 / 8)
    assert counts["PROPN PROPN"] == pytest.approx(1 / 7)
    assert found.mass["query"]["PROPN"] == 1.0


def test_a_contraction_has_the_tag_of_its_beginning() -> None:
    """A pipeline cuts words where we do not."""

    class Cut:
        name = "cut"

        def tagged(self, text: str) -> list[tuple[int, int, str]]:
            return [(0, 2, "AUX"), (2, 5, "PART"), (6, 10, "")]

    found = sampled_words(_explained(document="don't stop", wdon=1.0, wstop=0.5), Cut())

    assert found is not None
    assert found.counts["document"] == {"AUX": 0.5, "X": 0.5, "AUX X": 1.0}


@pytest.mark.parametrize("change", ["text", "query", "explanation", "other text"])
def test_what_was_not_kept_gives_no_sample(change: str) -> None:
    """Without texts or weights that belong to them there is nothing to count."""
    explained = _explained(wHome=1.0)
    record, explanation = explained.record, explained.explanation
    changed: dict[str, Any] = {
        "text": (replace(record, stages=()), explanation),
        "query": (replace(record, query=Query()), explanation),
        "explanation": (record, Explanation()),
        "other text": (_explained(document="Home").record, explanation),
    }

    now, known = changed[change]
    assert sampled_words(ExplainedRequest(now, known, drawn=True)) is None


def test_tables_are_over_requests_by_retriever() -> None:
    """A row for each model; a tag that a request lacks has no share there."""
    found = [
        sampled_words(each, _Tags())
        for each in (
            _explained("r1", wHome=1.0, wPlus=0.9, wpay=0.8),
            _explained("r2", wtheft=1.0, weuro=0.9, w900=0.8),
            _explained("r3", model="e-2", wtheft=1.0),
        )
    ]
    samples = [each for each in found if each is not None]
    first, second = overlaps(samples)
    tags = {each.tag: each.mass.mean for each in shares(samples) if (each.model, each.side) == ("e-1", "document")}

    assert (first.model, first.requests, first.documents, second.model, second.requests) == ("e-1", 2, 2, "e-2", 1)
    assert second.overlap.low is None
    assert tags["NOUN"] == pytest.approx(1.9 / 2.7 / 2)
    assert tags["PROPN"] == pytest.approx(1.9 / 2.7 / 2)
    single = [mass for tag, mass in tags.items() if " " not in tag]
    assert single == sorted(single, reverse=True)
    assert overlaps([]) == []
    assert shares([]) == []
