"""An answer scored on its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from ragtrace.coverage import SUPPORTED, answer_coverage, citation_coverage, score_answer

CHUNKS = [
    "Storm cover\nWe pay up to €5,000 for storm damage to roofs and fences. Flood damage is not covered.",
    "Claims\nReport every loss within 14 days by telephone. Our office in Cork is open on weekdays.",
]


def test_claims_carry_what_was_found() -> None:
    """Offsets, support, contradiction, citations and the best chunk, named by its place."""
    answer = "Storm damage to fences is paid up to €5,000 [1]. Losses must be reported within 30 days [2]. Call us?"
    paid, reported, question = score_answer(answer, CHUNKS)
    assert [answer[claim.start : claim.end] for claim in (paid, reported, question)] == [
        paid.text,
        reported.text,
        question.text,
    ]
    assert (paid.support or 0.0) >= SUPPORTED
    assert (paid.contradiction, paid.best_chunk) == (0.0, "1")
    assert (reported.support or 0.0) < SUPPORTED
    assert (reported.contradiction or 0.0) >= SUPPORTED
    assert reported.reason == "30 days, the evidence says 14 days"
    assert [mark.chunk_id for mark in reported.citations] == ["2"]
    assert (question.factual, question.support, question.contradiction) == (False, None, None)


def test_words_of_the_question_are_not_held_against_a_claim() -> None:
    """Whoever asks about Oakdale is answered about Oakdale."""
    answer = "At Oakdale Mutual Insurance, flood damage is not covered."
    without = score_answer(answer, CHUNKS)[0].support or 0.0
    asked = score_answer(answer, CHUNKS, query="Does Oakdale Mutual Insurance cover flood damage?")[0].support or 0.0
    assert asked > without


class Believer:
    """A verifier that believes everything."""

    name = "believer"

    def verify(self, pairs: Sequence[tuple[str, str]]) -> Sequence[tuple[float, float]]:
        """Full support of each pair."""
        return [(1.0, 0.0) for _ in pairs]


def test_a_verifier_decides_where_there_is_one() -> None:
    """Its word replaces that of words alone, in another language, too."""
    for answer in ("Bicycles are replaced by courier.", "Die Frist gilt nicht für die Mieter."):
        (claim,) = score_answer(answer, CHUNKS, verifier=Believer())
        assert (claim.support, claim.layer) == (1.0, "entailment")


@pytest.mark.parametrize(
    ("answer", "chunks", "reason"),
    [
        ("Die Frist gilt nicht für die Mieter.", CHUNKS, "language"),
        ("الحد الأقصى هو خمسة آلاف.", CHUNKS, "language"),
        ("期限は30日です。", CHUNKS, "language"),
        ("The limit is €5,000.", ["Die Grenze ist nicht für die Mieter.", "期限は30日です。"], "language"),
        ("The limit is €5,000.", [], "no_evidence_text"),
        ("The limit is €5,000.", ["", "  "], "no_evidence_text"),
        ("I don't know.", CHUNKS, "abstained"),
    ],
)
def test_what_words_cannot_tell_is_undetermined(answer: str, chunks: list[str], reason: str) -> None:
    """No support and no contradiction, and the reason; never a silent 1.0 or 0.0."""
    claims = score_answer(answer, chunks)
    assert claims
    assert all((claim.support, claim.contradiction, claim.reason) == (None, None, reason) for claim in claims)
    assert not any(claim.supports or claim.contradictions for claim in claims)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n\t",
        "…",
        "word " * 20_000,
        "Storm damage is covered. " * 4_000,
        "[" * 50_000,
        "(" * 50_000 + "1",
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 2_000,
        "\u202eegamad mrotS\u202c is e\u0301t\u0327e\u0301.",
        "```\n" * 3_000,
        "\ud800 is no character.",
        "1" * 100_000,
    ],
)
def test_odd_answers_do_no_harm(answer: str) -> None:
    """Nothing crashes or takes for ever, offsets slice, and what the chunks do not say is not supported."""
    claims = score_answer(answer, CHUNKS)
    assert all(answer[claim.start : claim.end] == claim.text for claim in claims)
    assert all(claim.support is None or 0.0 <= claim.support <= 1.0 for claim in claims)


STATEMENTS = st.sampled_from(
    [
        "We pay up to €5,000 for storm damage to roofs and fences",
        "Flood damage is covered",
        "Flood damage is not covered",
        "Report every loss within 14 days by telephone",
        "The fee is 7 % in 2024 [2]",
        "Nobody knows [9]",
        "Is it so?",
        "كل شيء",
    ]
)
TEXTS = st.lists(STATEMENTS | st.text(max_size=60), min_size=1, max_size=4).map(". ".join)


@settings(max_examples=80)
@given(TEXTS, st.lists(TEXTS, max_size=3), TEXTS)
def test_scores_are_in_range_and_more_evidence_never_hurts(answer: str, chunks: list[str], more: str) -> None:
    """AC and CC lie in [0, 1] or are undefined, offsets slice, and adding the answer's own words never lowers AC."""
    before = score_answer(answer, chunks)
    after = score_answer(answer, [*chunks, more, answer])
    for claims in (before, after):
        assert all(answer[claim.start : claim.end] == claim.text for claim in claims)
        for value in (answer_coverage(claims), citation_coverage(claims)):
            assert value is None or 0.0 <= value <= 1.0
    known = [answer_coverage(claims) for claims in (before, after)]
    if not any(claim.reason in ("language", "no_evidence_text", "abstained") for claim in (*before, *after)):
        assert (known[0] or 0.0) <= (known[1] or 0.0)
