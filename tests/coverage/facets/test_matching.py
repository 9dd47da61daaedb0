"""Typed, graded matching of facets against candidates."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrace.coverage.facets import contradictions, facet_in_text, facet_matrix, judge_facet
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


@pytest.mark.parametrize(
    ("kind", "value", "text", "expected"),
    [
        ("time", "Q3 2023", "in the three months ended September 30, 2023", 1.0),
        ("time", "2024", "it holds since 2015", 0.5),
        ("jurisdiction", "Texas", "our office in Austin, TX", 1.0),
        ("jurisdiction", "Georgia", "Atlanta, Georgia", 1.0),
        ("jurisdiction", "Georgia", "Tbilisi, Georgia", 1.0),
        ("jurisdiction", "Munich", "the law of Bavaria", 0.5),
        ("version", "from 13.4 to 15", "PostgreSQL 14.2", 1.0),
        ("version", "12+", "version 13", 1.0),
        ("quantity", "between 3 and 5 kg", "it weighs 4000 g", 1.0),
        ("quantity", "between 3 and 5 kg", "it weighs 6 kg", 0.0),
        ("entity", "ISO 27001:2022", "certified by ISO 27001:2022", 1.0),
        ("entity", "ISO 27001:2022", "certified by ISO 27001", 0.5),
        ("entity", "ISO 27001:2022", "certified by ISO/IEC 27001:2022", 1.0),
        ("entity", "ISO 27001:2022", "certified by ISO/IEC 27001", 0.5),
        ("entity", "ISO 27001:2022", "certified by ISO 9001", 0.0),
        ("entity", "résumé", "the re\u0301sume\u0301s", 1.0),
    ],
)
def test_texts_of_real_life(kind: FacetKind, value: str, text: str, expected: float) -> None:
    """Periods that end on a day, cities with their state, ranges, standards with their year."""
    assert match(kind, value, None, text) == expected


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
    assert 0.0 <= match(kind, value, None, text) <= 1.0


def test_a_bare_number_is_no_version_of_a_text() -> None:
    """ "page 2" does not meet version 2; "edition 2" and "2.0" do."""
    assert match("version", "2", None, "version 3, see page 2") == 0.0
    assert match("version", "2", None, "edition 2 of the rules") == 1.0
    assert match("version", "2", None, "since 2.0 it is so") == 1.0


@pytest.mark.parametrize(
    ("kind", "value", "text", "expected"),
    [
        ("time", "before 2023", "the 2021 edition", 1.0),
        ("time", "before 2023", "the 2023 edition", 0.0),
        ("time", "since May 2024", "paid in June 2024", 1.0),
        ("time", "since May 2024", "paid in April 2024", 0.0),
        ("time", "2024", "in force since 2020", 0.5),
        ("time", "before 2023", "valid before 2023", 1.0),
        ("version", "v3 or later", "from version 3.2", 1.0),
        ("version", "v3 or later", "version 2.9 only", 0.0),
        ("version", "1.10", "since version 1.9", 0.0),
        ("quantity", "3 kg", "there are 3 or 8 labels", 0.0),
        ("quantity", "3 kg", "weight (g) | 3 | 8", 0.0),
        ("quantity", "3 kg", "weight (kg) | 3 | 8", 1.0),
        ("quantity", "$500", "fee | 500", 0.0),
        ("quantity", "$500", "fee, USD: 400 | 500", 1.0),
        ("quantity", "at least 5 GB", "it holds 8,000 MB", 1.0),
        ("quantity", "at least 5 GB", "it holds 4 GB", 0.0),
        ("quantity", "under $500", "costs $499", 1.0),
        ("quantity", "EUR 2.500", "up to €2,500", 1.0),
        ("quantity", "between 3 and 5 km", "after 4,000 m", 1.0),
        ("entity", "European Central Bank", "The ECB raised rates", 1.0),
        ("entity", "ECB", "The European Central Bank raised rates", 1.0),
        ("entity", "X-200", "the X 200 printer", 1.0),
        ("entity", "X200", "the X-300 printer", 0.0),
        ("entity", "São Paulo Bank", "sao paulo banks", 1.0),
        ("entity", "Acme Inc", "Acme sells", 1.0),
        ("entity", "Barack Obama", "Obama, Barack (born 1961)", 0.5),
        ("entity", "VSMCs", "a VSMC is", 1.0),
        ("entity", "AlphaBeta", "Alpha-beta levels", 1.0),
        ("entity", "policies", "one policy", 1.0),
        ("jurisdiction", "France", "an office in Paris", 1.0),
        ("jurisdiction", "Jordan", "Jordan Smith wrote it", 0.0),
    ],
)
def test_matching_is_typed(kind: FacetKind, value: str, text: str, expected: float) -> None:
    """Bounds hold what lies in them, units convert, names go by words, initials, codes and inflection."""
    assert match(kind, value, None, text) == expected


@pytest.mark.parametrize(
    ("kind", "value", "text", "given"),
    [
        ("time", "2024", "the edition of 2023", "2023"),
        ("time", "2024", "no date at all", None),
        ("jurisdiction", "Ireland", "rules of France", "FR"),
        ("jurisdiction", "Ireland", "rules", None),
        ("version", "v3", "version 2", "2"),
        ("version", "v3", "it takes 2.5 hours", None),
        ("entity", "X-200", "the X-300 printer", "another code of the same kind"),
        ("entity", "Home Plus", "Home Basic", None),
    ],
)
def test_a_contradicted_facet_is_not_a_missing_one(kind: FacetKind, value: str, text: str, given: str | None) -> None:
    """Another year, country, version or model contradicts; saying nothing of it does not."""
    judgment = judge_facet(Facet(kind=kind, value=value), Candidate(chunk_id="c", rank=1, text=text))
    assert judgment.match == 0.0
    assert judgment.contradicted is (given is not None)
    assert judgment.given == given


def test_contradictions_have_a_cell_for_each_facet_and_candidate() -> None:
    """The first chunk states another year, the second another place."""
    facets = (Facet(kind="time", value="2024"), Facet(kind="jurisdiction", value="Ireland"))
    chunks = [Candidate(chunk_id="a", rank=1, text="Ireland 2023"), Candidate(chunk_id="b", rank=2, text="France 2024")]
    assert contradictions(facets, chunks).tolist() == [[True, False], [False, True]]
    assert contradictions((), chunks).shape == (0, 2)


def test_of_a_candidate_without_text_nothing_is_known() -> None:
    """Its metadata may still speak of the facet; an empty text is known to be empty."""
    facets = (Facet(kind="time", value="2024"), Facet(kind="entity", value="Home Plus"))
    bare = Candidate(chunk_id="a", rank=1, metadata={"year": 2024})
    empty = Candidate(chunk_id="b", rank=2, text="")
    matrix = facet_matrix(facets, [bare, empty])
    assert matrix[0].tolist() == [1.0, 0.0]
    assert np.isnan(matrix[1, 0])
    assert matrix[1, 1] == 0.0


@pytest.mark.parametrize(
    "unit",
    [
        "Jordan 2024 ",
        "日本2024年",
        "e\u0301",
        "A-1 ",
        "1.",
        "مصر ",
        "((((",
        "v1.2.3 5 km ",
        "a",
        "1",
        "a.",
        "aB",
        "a_",
        " ",
        "> ",
    ],
)
def test_a_huge_candidate_is_judged(unit: str) -> None:
    """100 kB of anything match within bounds."""
    text = unit * (100_000 // len(unit))
    for kind, value in (("time", "2024"), ("jurisdiction", "Egypt"), ("version", "1.2"), ("quantity", "5 km"),
                        ("entity", "A-1")):  # fmt: skip
        assert 0.0 <= match(cast(FacetKind, kind), value, None, text) <= 1.0


@pytest.mark.parametrize(
    ("facet", "rewritten", "kept"),
    [
        (Facet(kind="jurisdiction", value="German"), "limit Germany", True),
        (Facet(kind="time", value="last year", aliases=("2023-01-01/2023-12-31",)), "limit 2023", True),
        (Facet(kind="time", value="last year", aliases=("2023-01-01/2023-12-31",)), "limit last year", True),
        (Facet(kind="time", value="before 2023"), "limit 2023", False),
        (Facet(kind="entity", value="European Central Bank"), "ECB rate", True),
        (Facet(kind="version", value="v3 or later"), "release notes", False),
    ],
)
def test_a_rewrite_may_use_other_words(facet: Facet, rewritten: str, kept: bool) -> None:
    """What it says in other words is not lost, another bound is."""
    assert facet_in_text(facet, rewritten) is kept


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("Tenant Fees Act 2019", "the Tenant Fees Act 2019 bans them", 1.0),
        ("Tenant Fees Act 2019", "under the Tenant Fees Act a fee is void", 0.5),
        ("Tenant Fees Act 2019", "no tenant pays: the 2019 Act forbids it", 1.0),
        ("Tenant Fees Act 2019", "the 2019 Act forbids it", 0.5),
        ("Tenant Fees Act 2019", "the Tenant Fees Act 2004 forbade it", 0.0),
        ("section 9 of the Patents Act 1977", "s. 9(2) of the Patents Act 1977", 1.0),
        ("section 9 of the Patents Act 1977", "section 9 says so", 0.5),
        ("section 9 of the Patents Act 1977", "section 12 of the Patents Act 1977", 0.0),
        ("section 9 of the Patents Act 1977", "the Patents Act 1977 in general", 0.0),
        ("section 9 of the Patents Act 1977", "Patents Act 1977\n9.—(1) An employee", 1.0),
        ("section 9(2) of the Patents Act 1977", "section 9 of the Patents Act 1977", 0.5),
        ("section 9(2) of the Patents Act 1977", "section 9(3) of the Patents Act 1977", 0.0),
        ("Article 15 GDPR", "Art. 15 of the General Data Protection Regulation", 1.0),
        ("Article 15 GDPR", "Article 16 GDPR", 0.0),
        ("42 U.S.C. § 1983", "suits under 42 USC 1983", 1.0),
        ("42 U.S.C. § 1983", "suits under 42 U.S.C. 1981", 0.0),
        ("§ 433 BGB", "nach § 433 Abs. 1 BGB", 1.0),
        ("clause 7.2 of the Lease", "The Lease\n7.2 Repairs. The tenant", 1.0),
        ("Brother MFC-L2710DW", "the MFC-L2710DW scans", 1.0),
        ("Brother MFC-L2710DW", "the MFC-L3750CDW scans", 0.0),
        ("Galaxy A52", "the A52 has two cameras", 1.0),
        ("Marks & Spencer", "Marks and Spencer closed", 1.0),
        ("Northgate plc", "Northgate sold it", 1.0),
        ("COGS", "the cost of goods sold rose", 1.0),
        ("COPD", "chronic obstructive pulmonary disease", 1.0),
        ("PMI", "people must insure", 0.0),
    ],
)
def test_citations_and_products_are_met_as_texts_write_them(value: str, text: str, expected: float) -> None:
    """A law by its year, a provision by its parts, a product by its model, an abbreviation by its words."""
    assert match("entity", value, None, text) == expected


@pytest.mark.parametrize(
    ("value", "text", "contradicted"),
    [
        ("Tenant Fees Act 2019", "the Tenant Fees Act 2004 forbade it", True),
        ("Tenant Fees Act 2019", "the Housing Act 2004", False),
        ("section 9 of the Patents Act 1977", "section 12 of the Patents Act 1977", True),
        ("section 9 of the Patents Act 1977", "section 12 of the Finance Act 2004", False),
        ("section 9 of the Patents Act 1977", "the Patents Act 1977 in general", False),
    ],
)
def test_another_section_of_the_same_law_contradicts(value: str, text: str, contradicted: bool) -> None:
    """So does the law of another year; another law does not."""
    judgment = judge_facet(Facet(kind="entity", value=value), Candidate(chunk_id="c", rank=1, text=text))
    assert judgment.contradicted is contradicted


def test_the_law_of_a_section_may_stand_in_the_metadata() -> None:
    """A chunk of a law seldom repeats the law's title."""
    section = "section 9 of the Patents Act 1977"
    assert match("entity", section, {"title": "Patents Act 1977"}, "9.—(1) An employee") == 1.0
    assert match("entity", section, {"title": "Finance Act 2004"}, "9.—(1) An employee") == 0.5


def test_a_text_outvotes_metadata_for_the_year_of_a_name() -> None:
    """A page of 2024 about Budget Rules 2021 meets the year that the name has; one without the name does not."""
    asked = Facet(kind="time", value="2021", aliases=("Budget Rules 2021",))
    (named,) = facet_matrix([asked], [Candidate(chunk_id="a", rank=1, metadata={"year": 2024},
                                                text="The Budget Rules 2021 hold.")])  # fmt: skip
    assert named.tolist() == [1.0]
    assert match("time", "2021", {"year": 2024}, "Rules.", aliases=("Budget Rules 2021",)) == 0.0
    assert match("time", "2021", {"year": 2024}, "The Budget Rules 2021 hold.") == 0.0


def test_a_half_year_without_a_year_is_met_by_its_words() -> None:
    """The first half is H1."""
    assert match("time", "H1", None, "sales of the first half", aliases=("first half",)) == 1.0
    assert match("time", "H1", None, "sales of the second half", aliases=("first half",)) == 0.0
