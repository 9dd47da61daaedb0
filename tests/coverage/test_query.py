"""Query Coverage and joint Query Coverage."""

from __future__ import annotations

import random

from hypothesis import given, strategies as st

from ragtrace.coverage import extract_facets, joint_query_coverage, match_facets, query_coverage
from ragtrace.types import Candidate, Facet, replace

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
    depth = rng.randint(0, len(candidates))
    inside, outside = candidates[:depth], candidates[depth:]
    at_depth = query_coverage(FACETS, candidates, k=depth)
    rng.shuffle(inside)
    assert query_coverage(FACETS, [*inside, *outside], k=depth) == at_depth


def test_a_comparison_asks_each_side_of_its_own_chunk() -> None:
    """Two years that no chunk meets together: both sides found is full coverage, one side found is not."""
    facets = (FACETS[0], FACETS[1], Facet(kind="time", value="2023"))
    both = [chunk(1, "Home Plus, 2023"), chunk(2, "Home Plus, 2024")]
    assert joint_query_coverage(facets, both) == 1.0
    assert joint_query_coverage(facets, both[:1]) == 2 / 3
    assert joint_query_coverage(facets, [chunk(1, "Home Plus, 2023 and 2024")]) == 1.0


def test_two_editions_of_two_years_are_two_sides_and_not_four() -> None:
    """No chunk need have edition 3.2 and 2024; the year that goes with an edition is the one that its chunk has."""
    facets = extract_facets("What changed from edition 3.2 of 2022 to edition 4.1 of 2024?")
    assert [facet.value for facet in facets] == ["edition 3.2", "2022", "edition 4.1", "2024"]
    both = [chunk(1, "Edition 3.2, 2022: 30 days"), chunk(2, "Edition 4.1, 2024: 60 days")]
    assert joint_query_coverage(facets, both) == 1.0
    assert joint_query_coverage((facets[0], facets[3], facets[2], facets[1]), both) == 1.0
    crossed = [chunk(1, "Edition 3.2, 2024: 30 days"), chunk(2, "Edition 4.1, 2023: 60 days")]
    assert joint_query_coverage(facets, crossed) == 0.5


def test_names_of_several_questions_need_not_stand_together() -> None:
    """Names that were read from the question are asked for each by itself; the host's facets are asked together."""
    chunks = [chunk(1, "Terraform builds"), chunk(2, "Kubernetes runs")]
    read = extract_facets("Do you use Terraform here? How about using Kubernetes?")
    assert [facet.value for facet in read] == ["Terraform", "Kubernetes"]
    assert joint_query_coverage(read, chunks) == 1.0
    assert joint_query_coverage([replace(facet, source="host") for facet in read], chunks) == 0.5


def test_a_facet_lost_or_contradicted_is_named() -> None:
    """The right product in the wrong year: the time is contradicted by that chunk, not merely missing."""
    time, place = match_facets(FACETS[1:], [chunk(1, "Ireland, 2023"), chunk(2, "France, 2022")])
    assert (time.match, time.contradicted_by, time.given) == (0.0, "c1", "2023")
    assert (place.match, place.contradicted_by) == (1.0, None)
    (missing,) = match_facets(FACETS[1:2], [chunk(1, "Ireland")])
    assert (missing.contradicted_by, missing.given, missing.reason) == (None, None, None)


def test_candidates_without_text_leave_it_undetermined() -> None:
    """Never a silent 1, nor a 0: only where readable candidates meet all is coverage known."""
    unread = Candidate(chunk_id="h", rank=9, content_hash="ab")
    assert query_coverage(FACETS, [unread]) is None
    assert joint_query_coverage(FACETS, [unread]) is None
    assert query_coverage(FACETS, [chunk(1, "Home Plus, Ireland"), unread]) is None
    assert query_coverage(FACETS, [*CANDIDATES, unread]) == 1.0
    assert joint_query_coverage(FACETS, [*CANDIDATES, unread]) is None
    assert joint_query_coverage(FACETS, [chunk(1, "Home Plus, Ireland, 2024"), unread]) == 1.0
    assert [found.reason for found in match_facets(FACETS, [unread])] == ["no_candidate_text"] * 3


def test_metadata_of_a_candidate_without_text_can_decide() -> None:
    """Another year than the one asked for is known from the metadata alone."""
    stated = Candidate(chunk_id="h", rank=1, metadata={"year": 2023})
    assert query_coverage(FACETS[1:2], [stated]) == 0.0


@given(
    st.lists(st.text(max_size=60) | st.none(), max_size=6),
    st.text(max_size=80),
    st.integers(0, 6),
    st.randoms(),
)
def test_coverage_of_anything_is_bounded_or_undefined(
    texts: list[str | None], question: str, k: int, rng: random.Random
) -> None:
    """For facets of any question: in [0, 1] or None, the same for every order of the first k."""
    facets = extract_facets(question + " in Ireland since 2024")
    candidates = [Candidate(chunk_id=str(rank), rank=rank, text=text) for rank, text in enumerate(texts, start=1)]
    scores = [measure(facets, candidates, k=k) for measure in (query_coverage, joint_query_coverage)]
    assert all(score is None or 0.0 <= score <= 1.0 for score in scores)
    first = candidates[:k]
    rng.shuffle(first)
    shuffled = first + candidates[k:]
    assert scores == [measure(facets, shuffled, k=k) for measure in (query_coverage, joint_query_coverage)]
