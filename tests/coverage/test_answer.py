"""Support and contradiction of claims by the packed evidence, always-on layer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ragtrace.coverage import SUPPORTED, answer_coverage, claim_supports, contradiction_rate, judge_claims
from ragtrace.coverage.verifier import sparse
from ragtrace.types import Candidate, Citation, Claim, PackedChunk

NEW = (
    "Northgate Home Plus, Ireland, edition 2024: escape of water\n"
    "We pay up to €5,000 for damage caused by water escaping from a fixed installation. "
    "We do not pay if the home has been unoccupied for more than 30 consecutive days. Report the loss within 14 days."
)
OLD = NEW.replace("2024", "2023").replace("5,000", "4,000")
PACKED = [PackedChunk(chunk_id="new", position=1, text=NEW), PackedChunk(chunk_id="old", position=2, text=OLD)]


def test_supports_are_those_of_factual_claims() -> None:
    """One for each claim that states something, in the order of the answer; weights and questions change nothing."""
    claims = [
        Claim(start=0, end=1, text="a", support=0.25, weight=3.0),
        Claim(start=1, end=2, text="b?", factual=False),
        Claim(start=2, end=3, text="c", support=1.0),
    ]
    assert claim_supports(claims) == (0.25, 1.0)
    assert claim_supports([]) == ()


def judge(answer: str, packed: list[PackedChunk] = PACKED, candidates: tuple[Candidate, ...] = ()) -> Claim:
    """The first claim of `answer`."""
    return judge_claims(answer, packed, candidates)[0][0]


@pytest.mark.parametrize(
    "answer",
    [
        "We pay up to €5,000 for damage caused by water escaping from a fixed installation [1].",
        "In the 2024 edition, we pay up to €5,000 for damage by water escaping from a fixed installation [1].",
        "We do not pay if the home has been unoccupied for more than 30 consecutive days [1].",
        "The loss must be reported within two weeks [1].",
    ],
)
def test_what_the_evidence_says_is_supported(answer: str) -> None:
    """Verbatim, framed by what the heading says, and with a quantity in another unit."""
    claim = judge(answer)
    assert claim.support is not None
    assert claim.support >= 0.6
    assert (claim.contradiction, claim.best_chunk) == (0.0, "new")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("We pay up to €6,000 for damage caused by water escaping from a fixed installation.", "says €"),
        (
            "We do not pay if the home has been unoccupied for more than 90 consecutive days.",
            "says 30 consecutive days",
        ),
        ("We pay if the home has been unoccupied for more than 30 consecutive days.", "negated"),
        ("Report the loss within 20 days.", "says 14 days"),
    ],
)
def test_an_altered_value_or_negation_contradicts(answer: str, reason: str) -> None:
    """The proof names what the evidence says instead."""
    claim = judge(answer)
    assert claim.support is not None
    assert claim.support < 0.6
    assert claim.contradiction is not None
    assert claim.contradiction >= 0.6
    assert reason in (claim.reason or "")


def test_the_cited_chunk_is_held_to_its_word() -> None:
    """€4,000 stands in last year's chunk, but the claim cites this year's, which says €5,000."""
    answer = "We pay up to €4,000 for damage caused by water escaping from a fixed installation"
    assert (judge(f"{answer} [1].").contradiction or 0.0) > 0.9
    assert judge(f"{answer} [2].").contradiction == 0.0


def test_a_count_is_contradicted_by_another_count_beside_the_same_number_of_years() -> None:
    """The three years of the claim do not say that there may be three losses."""
    said = "Nobody with more than 3 claims in the previous three years is insured."
    claim = judge(said.replace("3 claims", "9 claims"), [PackedChunk(chunk_id="c", position=1, text=said)])
    assert claim.contradiction is not None
    assert claim.contradiction > 0.6
    assert claim.reason == "9, the evidence says 3"


def test_an_invented_sentence_is_neither_supported_nor_contradicted() -> None:
    """What the evidence does not speak of is unsupported."""
    claim = judge("Bicycles stolen abroad are replaced by courier.")
    assert claim.support is not None
    assert claim.support < 0.3
    assert (claim.supports, claim.contradiction) == ({}, 0.0)


def test_support_by_a_chunk_that_was_not_packed_is_recorded() -> None:
    """It tells a selection loss from a hallucination."""
    claim = judge(
        "Bicycles are covered up to €900.",
        PACKED,
        (Candidate(chunk_id="bike", rank=9, text="Bicycles are covered up to €900."),),
    )
    assert (claim.support or 0.0) < 0.3
    assert claim.supports == {}
    assert claim.unselected_chunk == "bike"
    assert (claim.unselected_support or 0.0) > 0.9


def test_coverage_weighs_factual_claims_only() -> None:
    """Weighted shares; undefined without a factual claim."""
    claims = [
        Claim(start=0, end=1, text="a", weight=3.0, support=0.9, contradiction=0.0),
        Claim(start=0, end=1, text="b", weight=1.0, support=0.1, contradiction=0.8),
        Claim(start=0, end=1, text="c", factual=False),
    ]
    assert answer_coverage(claims) == 0.75
    assert contradiction_rate(claims) == 0.25
    assert answer_coverage(claims[2:]) is None
    assert contradiction_rate([]) is None


SENTENCES = st.sampled_from([*NEW.split("\n")[1].split(". "), "Cats sleep all day", "We pay 7 % of it", "", "؟ 你好。"])


@settings(max_examples=60)
@given(st.lists(SENTENCES, max_size=4), st.lists(SENTENCES, max_size=4), SENTENCES)
def test_a_supporting_chunk_never_lowers_coverage(answer: list[str], evidence: list[str], more: str) -> None:
    """In [0, 1], and adding a chunk to the prompt never lowers it."""
    text = ". ".join(answer) + "."
    packed = [
        PackedChunk(chunk_id=str(place), position=place, text=part) for place, part in enumerate(evidence, start=1)
    ]
    pool = tuple(Candidate(chunk_id=chunk.chunk_id, rank=1, text=chunk.text) for chunk in packed)
    extra = PackedChunk(chunk_id="extra", position=9, text=more)
    everything = (*pool, Candidate(chunk_id="extra", rank=2, text=more))
    before = answer_coverage(judge_claims(text, packed, everything)[0])
    after = answer_coverage(judge_claims(text, [*packed, extra], everything)[0])
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert 0.0 <= before <= after <= 1.0


@pytest.mark.parametrize(
    "answer", ["", "   ", "…", "؟؟", "a" * 100_000, "| a | b |\n|---|---|\n| 1 | 2 |", "\u202eabc", "e\u0301t\u00e9."]
)
def test_odd_answers_have_a_defined_result(answer: str) -> None:
    """Never a crash, and nothing that was not claimed is called supported."""
    claims, supports = judge_claims(answer, PACKED)
    assert len(claims) == len(supports)
    assert answer_coverage(claims) in (None, 0.0)


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The limit is EUR 2.500,00.", "The limit is EUR 2,500."),
        ("The rate is 5.5%.", "The rate is 5,5 %."),
        ("It starts on 03/04/2025.", "It starts on 3 April 2025."),
        ("It starts on 04.03.2025.", "It starts on 4 March 2025."),
        ("It starts on the 1st of May 2025.", "It starts on 1 May 2025."),
        ("The notice period is 1 month.", "The notice period is 30 days."),
        ("Theft isn't covered.", "Theft is not covered."),
    ],
)
def test_the_same_value_in_another_shape_is_supported(claim: str, evidence: str) -> None:
    """Decimal commas, dates in figures, months in days, contractions: none of them contradicts."""
    judged = judge(claim, [PackedChunk(chunk_id="c", position=1, text=evidence)])
    assert judged.support is not None
    assert judged.support >= 0.6
    assert judged.contradiction == 0.0


def test_a_citation_without_a_place_belongs_to_the_claims_that_its_chunk_supports() -> None:
    """A host that reports citations beside the answer is not told that nothing was cited."""
    answer = "Report the loss within 14 days. Bicycles are replaced by courier."
    marks = [Citation(marker="new", chunk_id="new"), Citation(marker="gone", chunk_id="gone")]
    first, second = judge_claims(answer, PACKED, citations=marks)[0]
    assert [mark.chunk_id for mark in first.citations] == ["new"]
    assert second.citations == ()


def test_a_closing_list_of_sources_claims_nothing() -> None:
    """What stands below "Sources:" is no statement."""
    claims, _ = judge_claims("Report the loss within 14 days [1].\n\nSources:\n[1] Policy wording 2024", PACKED)
    assert [claim.text for claim in claims if claim.factual] == ["Report the loss within 14 days [1]."]


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("Report the loss within 14 days. Bicycles are replaced by courier.\n\nSources: [1], [2]", 2),
        ("- Report the loss within 14 days\n- Bicycles are replaced by courier\n\n[1] [2]", 2),
        ("Report the loss within 14 days. Bicycles are replaced by courier [1][2].", 2),
        ("Report the loss within 14 days [1]. Bicycles are replaced by courier.", 1),
        ("- Report the loss within 14 days\n- Bicycles are replaced by courier [1][2]", 1),
        ("Cars fly on Sundays. Report the loss within 14 days [1].", 1),
        ("The rules say [1][2]:\n- Report the loss within 14 days\n- Bicycles are replaced by courier", 2),
        ("The rules say [1]:\n- Report the loss within 14 days\n- Bicycles are replaced by courier", 1),
        ("The rules say [1][2]:\n- Cars fly on Sundays\n\nReport the loss within 14 days.", 0),
        ("The rules say much [1][2].\n- Report the loss within 14 days\n- Bicycles are replaced by courier", 1),
    ],
)
def test_marks_that_end_an_answer_or_a_paragraph_cite_what_they_support(answer: str, cited: int) -> None:
    """A list of sources is of the whole answer, as are marks by themselves; those of a paragraph's end are of it, and
    those of the line that leads a list in, of its items."""
    texts = ("Report every loss within 14 days.", "Bicycles are replaced by courier.")
    packed = [PackedChunk(chunk_id=str(at), position=at, text=text) for at, text in enumerate(texts, start=1)]
    claims = [claim for claim in judge_claims(answer, packed)[0] if claim.factual]
    assert sum(any(mark.chunk_id for mark in claim.citations) for claim in claims) == cited


def test_a_claim_keeps_what_each_chunk_says_of_it() -> None:
    """Support and contradiction by each packed chunk alone: the old edition contradicts what the new one supports."""
    claims, supports = judge_claims("We pay up to €5,000 for damage caused by escaping water.", PACKED)
    (claim,) = claims
    assert claim.supports.keys() == {"new"}
    assert claim.supports["new"] == pytest.approx(supports[0]["new"], abs=0.01)
    assert claim.contradictions.keys() == {"old"}
    assert claim.contradictions["old"] >= SUPPORTED
    assert claim.contradiction == 0.0  # of the answer: the new edition supports it


def test_what_hardly_says_anything_of_a_claim_is_not_kept() -> None:
    """Nor anything of a sentence that states nothing; values are cut, so that none rises to a threshold."""
    aside = PackedChunk(chunk_id="aside", position=3, text="Bicycles are covered up to €900 in the whole of Europe.")
    greeting, claim = judge_claims("Hello! Report the loss within 14 days.", [*PACKED, aside])[0]
    assert claim.supports.keys() == {"new", "old"}
    assert (greeting.supports, greeting.contradictions) == ({}, {})
    assert sparse({"a": 0.2, "b": 0.1999, "c": 0.4999, "d": 0.29, "e": 1.0}) == {
        "a": 0.2,
        "c": 0.49,
        "d": 0.29,
        "e": 1.0,
    }
