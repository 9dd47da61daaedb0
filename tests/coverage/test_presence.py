"""Evidence presence: what raises and lowers the estimate, and where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragtrace.coverage import evidence_presence
from ragtrace.coverage.presence import spoken_share
from ragtrace.types import Candidate

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


def estimate(candidates: Sequence[Candidate], *, declined: bool = False) -> float:
    """The presence, where there is an estimate."""
    found = evidence_presence(QUESTION, candidates, declined=declined)
    assert found is not None
    return found


def test_a_candidate_that_speaks_of_the_question_raises_it() -> None:
    """Above a half with it, below without."""
    assert estimate(pool([ANSWER, *OTHERS])) > 0.5 > estimate(pool([*OTHERS, "It was closed."]))


def test_a_score_that_stands_out_raises_it() -> None:
    """The same texts with a best score like the rest, and with one far above."""
    slope = [0.3 - 0.01 * place for place in range(10)]
    assert estimate(pool([ANSWER, *OTHERS], [0.9, *slope])) > estimate(pool([ANSWER, *OTHERS], [0.31, *slope]))


def test_an_answer_that_declines_lowers_it() -> None:
    """Although it was given the best candidates."""
    candidates = pool([ANSWER, *OTHERS])
    assert estimate(candidates, declined=True) < estimate(candidates)


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
