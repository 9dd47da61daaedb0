"""Evidence presence: what raises and lowers the estimate, and where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragtrace.coverage import are_alike, evidence_presence
from ragtrace.coverage._reference import restated_share, spoken_share
from ragtrace.types import Candidate, Claim, replace

QUESTION = "How many apprentices did the glass makers of Aldford employ?"
ANSWER = "The glass makers of Aldford employed 40 apprentices in 1611."
OTHERS = tuple(f"The {place} of the town stands in the middle. Visitors like its quiet garden." for place in
               "harbor church market school museum station theater library bridge mill".split())  # fmt: skip


def pool(texts: Sequence[str | None], scores: Sequence[float | None] = ()) -> list[Candidate]:
    """Candidates with these texts, best first."""
    given = scores or [None] * len(texts)
    return [
        Candidate(chunk_id=f"c{rank}", rank=rank, text=text, score=score)
        for rank, (text, score) in enumerate(zip(texts, given, strict=True), start=1)
    ]


def claim(text: str, *, factual: bool = True) -> Claim:
    """One sentence of an answer."""
    return Claim(text=text, start=0, end=len(text), factual=factual)


def estimate(candidates: Sequence[Candidate], *, declined: bool = False, claims: Sequence[Claim] = ()) -> float:
    """The presence, where there is an estimate."""
    found = evidence_presence(QUESTION, candidates, declined=declined, claims=claims)
    assert found is not None
    return found


def test_a_candidate_that_speaks_of_the_question_raises_it() -> None:
    """Above a half with it, below without."""
    assert estimate(pool([ANSWER, *OTHERS])) > 0.5 > estimate(pool(["It was closed.", *OTHERS]))


def test_the_scores_of_the_retriever_do_not_speak_for_it() -> None:
    """The same texts give the same, be their scores flat, steep or absent."""
    slope = [0.3 - 0.01 * place for place in range(10)]
    found = {estimate(pool([ANSWER, *OTHERS], scores)) for scores in ((), [0.9, *slope], [0.31, *slope])}
    assert len(found) == 1


def test_an_answer_that_declines_lowers_it() -> None:
    """Although it was given the best candidates."""
    candidates = pool([ANSWER, *OTHERS])
    assert estimate(candidates, declined=True) < estimate(candidates)


def test_an_answer_that_rests_on_no_candidate_lowers_it() -> None:
    """It has words of its own, where one that alters the evidence keeps most; a greeting tells nothing."""
    candidates = pool([ANSWER, *OTHERS])
    altered = estimate(candidates, claims=[claim("The glass makers of Aldford employed 90 apprentices in 1611.")])
    strange = estimate(candidates, claims=[claim("Blown vessels left its furnaces for Venetian merchants.")])
    assert strange < altered <= estimate(candidates)
    assert estimate(candidates, claims=[claim("Gladly, dear customer!", factual=False)]) == estimate(candidates)


def test_told_share_is_that_of_the_best_told_claim() -> None:
    """Whole where one candidate holds all words of one claim, 1 without claims, 0 where nothing is shared."""
    candidates = pool([ANSWER, *OTHERS])
    known, strange = claim("Aldford employed apprentices."), claim("Venetian merchants.")
    assert restated_share([strange, known], candidates) == pytest.approx(1.0)
    assert restated_share([strange], candidates) == 0.0
    assert restated_share([], candidates) == 1.0


def test_a_supported_claim_in_words_of_its_own_tells_of_its_evidence() -> None:
    """By as much as it says beyond the question; a false blame of retrieval for each paraphrase otherwise."""
    candidates = pool([ANSWER, *OTHERS])
    own = replace(claim("Ninety youngsters learned there."), support=0.8, weight=1.0)
    assert restated_share([own], candidates) == pytest.approx(0.8)
    assert restated_share([replace(own, weight=0.125)], candidates) == pytest.approx(0.1)
    assert estimate(candidates, claims=[own]) > estimate(candidates, claims=[replace(own, support=0.0)])


def test_of_editions_of_one_text_only_absence_can_be_told() -> None:
    """Three wordings of one clause, best first, are told apart by no word; one copy of the best is no such corpus."""
    editions = [f"The glass makers of Aldford employed {count} apprentices." for count in (40, 43, 46)]
    assert are_alike(pool([*editions, *OTHERS]))
    assert evidence_presence(QUESTION, pool([*editions, *OTHERS])) is None
    assert estimate(pool(OTHERS)) < 0.5
    assert not are_alike(pool([*editions[:2], *OTHERS]))
    assert not are_alike(pool([None, None, None, None]))


def test_spoken_share_is_of_one_window() -> None:
    """All words in one sentence are 1; spread over chunks they are less; none are 0."""
    halves = ["The glass makers were many.", "Aldford had some that employ apprentices."]
    assert spoken_share("glass makers of Aldford", pool([ANSWER, *OTHERS])) == pytest.approx(1.0)
    assert 0.3 < (spoken_share("glass makers of Aldford", pool([*halves, *OTHERS])) or 0) < 0.9
    assert spoken_share("xylophone", pool(OTHERS)) == 0.0


def test_where_there_is_no_estimate() -> None:
    """Few candidates, no texts, no words in the question; nothing retrieved is surely absent."""
    assert evidence_presence(QUESTION, pool([ANSWER, *OTHERS[:5]])) is None
    assert evidence_presence(QUESTION, pool([None] * 12)) is None
    assert evidence_presence("???", pool([ANSWER, *OTHERS])) is None
    assert evidence_presence(QUESTION, []) == 0.0
