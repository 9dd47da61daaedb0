"""The proxy reference: chosen from all candidates by question and facets alone."""

from __future__ import annotations

import pytest

from ragtrace.coverage import proxy_reference
from ragtrace.coverage.support import readings
from ragtrace.coverage.values import Value, values
from ragtrace.types import Candidate, Facet

YEARS = ("2022", "2023", "2024")


def pool() -> list[Candidate]:
    """Three editions of two sections."""
    sections = {
        "water": "Escape of water is covered up to €5,000.",
        "theft": "Theft of bicycles is covered up to €900.",
    }
    return [
        Candidate(
            chunk_id=f"{section}-{year}", rank=rank, text=f"Home Plus, edition {year}\n{text}", metadata={"year": year}
        )
        for rank, (section, text, year) in enumerate(
            ((section, text, year) for section, text in sections.items() for year in YEARS), start=1
        )
    ]


def test_the_chunk_that_meets_question_and_facets_is_chosen() -> None:
    """Not the first candidate, and not another year's."""
    facets = (Facet(kind="entity", value="Home Plus"), Facet(kind="time", value="2023"))
    assert proxy_reference("Is theft of bicycles covered in 2023?", facets, pool()) == ("theft-2023",)


def test_a_comparison_needs_a_chunk_for_each_side() -> None:
    """Two years in one question: the best chunk of each."""
    facets = (Facet(kind="time", value="2022"), Facet(kind="time", value="2024"))
    found = proxy_reference("How did cover for escape of water change?", facets, pool())
    assert sorted(found) == ["water-2022", "water-2024"]


def test_the_order_of_the_candidates_does_not_matter() -> None:
    """Ranks are what selection is judged on, so they may not enter the reference."""
    facets = (Facet(kind="time", value="2023"),)
    forward = proxy_reference("escape of water limit", facets, pool())
    assert set(forward) == set(proxy_reference("escape of water limit", facets, pool()[::-1]))


def test_candidates_without_text_or_match_give_no_reference() -> None:
    """No text, no words in common, nothing at all: an empty reference."""
    blind = [Candidate(chunk_id="a", rank=1), Candidate(chunk_id="b", rank=2)]
    assert proxy_reference("escape of water", (), blind) == ()
    assert proxy_reference("xylophone", (), pool()) == ()
    assert proxy_reference("escape of water", (), []) == ()


def test_a_name_that_was_read_chooses_no_chunk() -> None:
    """The question's words decide already; a name that the host requires does choose."""
    chunks = [
        Candidate(chunk_id="answer", rank=1, text="Theft of bicycles is covered up to €900."),
        Candidate(chunk_id="name", rank=2, text="Northgate sells policies."),
    ]
    question = "Is theft of bicycles covered by Northgate?"
    read, required = Facet(kind="entity", value="Northgate", source="query"), Facet(kind="entity", value="Northgate")
    assert proxy_reference(question, (read,), chunks) == ("answer",)
    assert proxy_reference(question, (required,), chunks) == ("name",)


def test_another_year_counts_against_a_chunk_and_no_year_hardly() -> None:
    """A year that was read from the question: contradicted is worse than missing, stated is best."""
    chunks = [
        Candidate(chunk_id="other", rank=1, text="Theft of bicycles was covered in 2022."),
        Candidate(chunk_id="none", rank=2, text="Theft of bicycles is covered."),
    ]
    facets = (Facet(kind="time", value="2023", source="query"),)
    question = "Is theft of bicycles covered in 2023?"
    assert proxy_reference(question, facets, chunks) == ("none",)
    stated = Candidate(chunk_id="stated", rank=3, text="Theft of bicycles is covered in 2023.")
    assert proxy_reference(question, facets, [*chunks, stated]) == ("stated",)


def test_candidates_that_score_nearly_as_well_belong_to_it() -> None:
    """Two chunks that speak of the question about equally; the third shares one word."""
    chunks = [
        Candidate(chunk_id="one", rank=1, text="Theft of bicycles is covered at home."),
        Candidate(chunk_id="two", rank=2, text="Theft of bicycles is covered up to €900 per year."),
        Candidate(chunk_id="far", rank=3, text="Bicycles have two wheels."),
    ]
    assert proxy_reference("is theft of bicycles covered", (), chunks) == ("one", "two")


def test_of_editions_of_one_text_only_the_best_belongs_to_it() -> None:
    """Where candidates repeat each other, the one that is nearly as good is another edition."""

    text = "Theft of bicycles from locked cellars is covered {}"
    endings = ("by Northgate.", "by Northgate in part.", "by no one.")
    chunks = [
        Candidate(chunk_id=f"c{rank}", rank=rank, text=text.format(end)) for rank, end in enumerate(endings, start=1)
    ]
    question = "is theft of bicycles covered for 90 days by Northgate"
    assert proxy_reference(question, (), chunks) == ("c1",)


def test_a_judge_of_relevance_counts_beside_the_words() -> None:
    """What it finds most relevant is chosen where the words fit about as well, both where it hardly tells them apart;
    what no word fits stays no reference."""
    chunks = [
        Candidate(chunk_id="words", rank=1, text="A mooring fee may be raised by the Tarn council."),
        Candidate(chunk_id="answer", rank=2, text="The mooring fee is 41 EUR."),
    ]
    question = "what does mooring cost on the Tarn"
    assert proxy_reference(question, (), chunks) == ("words",)
    assert proxy_reference(question, (), chunks, relevance={"words": 0.2, "answer": 0.8}) == ("answer",)
    assert proxy_reference(question, (), chunks, relevance={"words": 0.75, "answer": 0.8}) == ("words", "answer")
    assert proxy_reference(question, (), chunks, relevance={"words": 0.0}) == ("words",)
    assert proxy_reference("xylophone", (), chunks, relevance={"words": 0.9, "answer": 0.9}) == ()


def test_figures_are_read_only_of_the_sentence_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the best sentence has the kind of value that is asked for, the figures of no other one matter."""
    read: list[str] = []

    def noted(text: str) -> tuple[Value, ...]:
        read.append(text)
        return values(text)

    monkeypatch.setattr(readings, "values", noted)
    said = "The mooring fee of a Tarn barge is 41 EUR."
    text = f"Berths\n\nA fee was raised 3 times by the Tarn council. {said} Its 2 ropes are new."
    asked = "What is the mooring fee of a Tarn barge?"
    chosen = proxy_reference(asked, (), [Candidate(chunk_id="a", rank=1, text=text)])
    assert chosen == ("a",)
    assert read == [said]
