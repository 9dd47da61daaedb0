"""Facets: extraction from the question and typed, graded matching against candidates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.coverage.facets import extract_facets, facet_in_text, facet_matrix
from ragtrace.types import Candidate, Facet, FacetKind

IRISH = {
    "effective_from": "2024-01-01",
    "effective_to": "2024-12-31",
    "jurisdiction": "IE",
    "version": "1.10",
    "product": "Home Plus",
}
TEXT = "Home Plus cover in France, edition 2023, pays up to 14 days of rent."


def match(kind: FacetKind, value: str, metadata: dict[str, Any] | None = None, text: str = "", **more: Any) -> float:
    """The match of one facet with one candidate."""
    facet = Facet(kind=kind, value=value, **more)
    return float(facet_matrix([facet], [Candidate(chunk_id="c", rank=1, metadata=metadata or {}, text=text)])[0, 0])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("time", "2024", 1.0),
        ("time", "March 2024", 1.0),
        ("time", "2023", 0.0),
        ("jurisdiction", "Ireland", 1.0),
        ("jurisdiction", "Irish", 1.0),
        ("jurisdiction", "France", 0.0),
        ("version", "1.10.0", 1.0),
        ("version", "1.1", 0.0),
        ("entity", "home plus", 1.0),
        ("entity", "Home Basic", 0.0),
    ],
)
def test_metadata_that_states_the_matter_decides(kind: FacetKind, value: str, expected: float) -> None:
    """The text mentions France and 2023, the metadata say what the chunk is: Irish, 2024, version 1.10."""
    assert match(kind, value, IRISH, TEXT) == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("time", "2023", 1.0),
        ("time", "2024", 0.0),
        ("jurisdiction", "French", 1.0),
        ("jurisdiction", "Ireland", 0.0),
        ("entity", "Home Plus", 1.0),
        ("entity", "Home", 1.0),
        ("entity", "Plus cover in Spain", 0.0),
        ("quantity", "two weeks", 1.0),
        ("quantity", "30 days", 0.0),
        ("custom", "rent", 1.0),
    ],
)
def test_without_metadata_the_text_decides(kind: FacetKind, value: str, expected: float) -> None:
    """Dates, places, names and quantities are read from the text, quantities after conversion."""
    assert match(kind, value, None, TEXT) == expected


def test_time_matches_are_graded_by_overlap() -> None:
    """An edition in force for half of the year asked for meets half of it."""
    half = {"effective_from": "2024-07-01", "effective_to": "2025-06-30"}
    assert match("time", "2024", half) == pytest.approx(184 / 365)
    assert match("time", "2030", {"valid_from": "2024-01-01"}) == 1.0


def test_a_state_meets_its_country_by_half() -> None:
    """California is in the United States, but not all of them."""
    assert match("jurisdiction", "California", {"jurisdiction": "US"}) == 0.5
    assert match("jurisdiction", "California", {"state": "California"}) == 1.0


def test_aliases_count_as_the_value() -> None:
    """A product's short name meets the facet when the host says that it does."""
    assert match("entity", "Northgate Home Plus", None, "HP+ is sold here", aliases=("HP",)) == 1.0


def test_extraction_finds_typed_facets_with_spans() -> None:
    """Name, place, date and quantity, each with the span it came from and marked as read from the query."""
    question = "What does Home Plus in Ireland pay as of March 2024 after a 30-day vacancy?"
    facets = extract_facets(question)
    assert [(facet.kind, facet.value) for facet in facets] == [
        ("entity", "Home Plus"),
        ("jurisdiction", "Ireland"),
        ("time", "March 2024"),
        ("quantity", "30-day"),
    ]
    assert all(question[facet.start : facet.end] == facet.value and facet.source == "query" for facet in facets)


def test_a_question_without_constraints_has_no_facets() -> None:
    """Nothing is invented."""
    assert extract_facets("how do I file a claim?") == ()


def test_facet_in_text_tells_what_a_rewrite_dropped() -> None:
    """The rewritten query is read with the same eyes as a candidate."""
    facet = Facet(kind="time", value="2024")
    assert facet_in_text(facet, "escape of water limit 2024")
    assert not facet_in_text(facet, "escape of water limit")


@given(
    st.text(max_size=80),
    st.text(max_size=200),
    st.sampled_from(["entity", "time", "jurisdiction", "version", "quantity", "custom"]),
)
def test_any_value_matches_any_text_within_bounds(value: str, text: str, kind: FacetKind) -> None:
    """Never an error, always in [0, 1]."""
    assert 0.0 <= match(kind, value, {"version": value, "date": value}, text) <= 1.0


def test_a_bare_number_is_no_version_of_a_text() -> None:
    """ "page 2" does not meet version 2; "edition 2" and "2.0" do."""
    assert match("version", "2", None, "version 3, see page 2") == 0.0
    assert match("version", "2", None, "edition 2 of the rules") == 1.0
    assert match("version", "2", None, "since 2.0 it is so") == 1.0
