"""Query Coverage and joint Query Coverage."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ragtrace.coverage import joint_query_coverage, match_facets, query_coverage
from ragtrace.types import Candidate, Facet

FACETS = (
    Facet(kind="entity", value="Home Plus", weight=2.0),
    Facet(kind="time", value="2024"),
    Facet(kind="jurisdiction", value="Ireland"),
)


def chunk(rank: int, text: str) -> Candidate:
    """A candidate with text only."""
    return Candidate(chunk_id=f"c{rank}", rank=rank, text=text)


CANDIDATES = [
    chunk(1, "Home Plus, France, 2023"),
    chunk(2, "Motor, Ireland, 2024"),
    chunk(3, "Home Plus, Ireland, 2023"),
]


def test_different_candidates_may_meet_different_facets() -> None:
    """All facets are met somewhere, but the best single candidate meets weight 3 of 4."""
    assert query_coverage(FACETS, CANDIDATES) == 1.0
    assert joint_query_coverage(FACETS, CANDIDATES) == 0.75


def test_only_the_first_k_count() -> None:
    """QC@1 sees the first candidate alone."""
    assert query_coverage(FACETS, CANDIDATES, k=1) == 0.5
    assert joint_query_coverage(FACETS, CANDIDATES, k=2) == 0.5


def test_no_facets_is_undefined_not_full() -> None:
    """Without required facets there is nothing to cover."""
    assert query_coverage((), CANDIDATES) is None
    assert joint_query_coverage((), CANDIDATES) is None


def test_no_candidates_cover_nothing() -> None:
    """A retriever that returned nothing has coverage 0."""
    assert query_coverage(FACETS, []) == 0.0
    assert joint_query_coverage(FACETS, []) == 0.0


def test_matches_name_the_candidate_and_the_dropped_facet() -> None:
    """Each facet's proof: who met it first, and whether the rewrite kept it."""
    matches = match_facets(FACETS, CANDIDATES, rewritten="Home Plus Ireland limit")
    assert [(found.chunk_id, found.rank, found.in_rewrite) for found in matches] == [
        ("c1", 1, True),
        ("c2", 2, False),
        ("c2", 2, True),
    ]
    assert match_facets(FACETS, [])[0].chunk_id is None


@given(
    st.lists(st.sampled_from(["Home Plus", "2024", "Ireland", "Home Plus 2024", "", "Irish Home Plus 2024"])),
    st.randoms(),
)
def test_coverage_is_bounded_and_blind_to_order(texts: list[str], rng: random.Random) -> None:
    """In [0, 1], joint never above QC, the same for any order of the candidates."""
    candidates = [chunk(rank, text) for rank, text in enumerate(texts, start=1)]
    coverage, joint = query_coverage(FACETS, candidates), joint_query_coverage(FACETS, candidates)
    assert coverage is not None
    assert joint is not None
    assert 0.0 <= joint <= coverage <= 1.0
    rng.shuffle(candidates)
    assert query_coverage(FACETS, candidates) == coverage


def test_a_comparison_asks_each_side_of_its_own_chunk() -> None:
    """Two years that no chunk meets together: both sides found is full coverage, one side found is not."""
    facets = (FACETS[0], FACETS[1], Facet(kind="time", value="2023"))
    both = [chunk(1, "Home Plus, 2023"), chunk(2, "Home Plus, 2024")]
    assert joint_query_coverage(facets, both) == 1.0
    assert joint_query_coverage(facets, both[:1]) == 2 / 3
    assert joint_query_coverage(facets, [chunk(1, "Home Plus, 2023 and 2024")]) == 1.0
