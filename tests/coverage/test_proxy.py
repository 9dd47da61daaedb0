"""The proxy reference: chosen from all candidates by question and facets alone."""

from __future__ import annotations

from ragtrace.coverage import proxy_reference
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
