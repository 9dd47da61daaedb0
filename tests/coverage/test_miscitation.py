"""Which citations of a packed chunk are wrong, and how sure that is."""

from __future__ import annotations

import pytest

from ragtrace.coverage import judge_claims
from ragtrace.coverage.miscitation import SURE, Miscitation, miscitation, miscitation_odds
from ragtrace.coverage.relevance import Rarity
from ragtrace.coverage.support import Evidence
from ragtrace.types import PackedChunk

LOCK = "The upper lock of the Varn canal was rebuilt in 1911 by Ilse Bergdorf. It lifts barges by 14 metres."
LOCK_NEXT = "The lower lock of the Varn canal is closed on Sundays from October to March. Its keeper lives next to it."
LOCK_AGAIN = "The upper lock of the Varn canal was rebuilt in 1911 by Ilse Bergdorf; it lifts barges by 14 metres."
TOLL = "Barges above 40 tonnes pay a toll of 85 crowns for each passage. Rowing boats pass without any toll."
FERRY = "A ferry crosses the estuary every 20 minutes in summer. Bicycles travel free of charge on the upper deck."
WATER = "Drinking water is sold at the harbor office. The office opens at seven."


def judged(answer: str, *texts: str, is_numbered: bool = True) -> list[Miscitation | None]:
    """The citations of each claim of an answer to chunks that are named by their places."""
    packed = [PackedChunk(chunk_id=f"c{place}", position=place, text=text) for place, text in enumerate(texts, 1)]
    claims, supports = judge_claims(answer, packed, query="What is there to know of the canal?")
    evidence = [Evidence.read(chunk.chunk_id, chunk.text or "") for chunk in packed]
    return [
        miscitation(claim, evidence, support, Rarity(evidence), is_numbered=is_numbered)
        for claim, support in zip(claims, supports, strict=True)
    ]


def sureness(answer: str, *texts: str, is_numbered: bool = True) -> float:
    """How sure it is that the only claim of an answer cites the wrong chunk."""
    [found] = judged(answer, *texts, is_numbered=is_numbered)
    assert found is not None
    return found.sureness


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Barges of more than 40 tonnes pay 85 crowns for each passage [2].", "[3]"),
        ("The upper lock was rebuilt in 1911 by Ilse Bergdorf [1].", "[4]"),
        ("Bicycles travel free of charge on the upper deck of the ferry [3].", "[1]"),
    ],
)
def test_a_chunk_that_says_nothing_of_the_claim_is_the_wrong_one(right: str, wrong: str) -> None:
    """Beside another one that bears it out; the right one is not."""
    chunks = (LOCK, TOLL, FERRY, WATER)
    assert sureness(right, *chunks) < 0.5
    [found] = judged(right[: right.index("[")] + wrong + ".", *chunks)
    assert found is not None
    assert found.sureness >= SURE
    assert (found.cited, found.other) == (f"c{wrong[1]}", f"c{right[-3]}")


def test_the_next_chunk_of_the_same_document_is_found_by_its_values() -> None:
    """It shares the subject, and neither the year nor the name."""
    claim = "The upper lock of the Varn canal was rebuilt in 1911 by Ilse Bergdorf [2]."
    assert sureness(claim, LOCK, LOCK_NEXT) > 0.93


def test_a_duplicate_is_as_good_as_its_original() -> None:
    """Whichever of them is cited, and an edition that lacks a value is never surely wrong."""
    claim = "The upper lock was rebuilt in 1911 by Ilse Bergdorf [2]."
    assert sureness(claim, LOCK, LOCK_AGAIN, TOLL) < 0.5
    edition = LOCK_AGAIN.replace("1911", "1934").replace("Ilse Bergdorf", "Karl Munz").replace("14", "16")
    assert sureness(claim, LOCK, edition, TOLL) < SURE


def test_a_claim_that_nothing_bears_out_has_no_wrong_citation() -> None:
    """It is the generator's, whatever it cites."""
    assert sureness("Swans breed near the old mill since 1987 [2].", LOCK, TOLL, FERRY) < 0.5


def test_one_right_citation_of_several_will_do() -> None:
    """A second one beside it may be there for what words cannot follow."""
    assert sureness("Barges of more than 40 tonnes pay 85 crowns for each passage [2][3].", LOCK, TOLL, FERRY) < 0.5


def test_a_short_claim_is_never_surely_miscited() -> None:
    """Two words stand in many chunks by chance; "one" is no number."""
    assert sureness("You don't need one [1].", WATER, "You need one.") < SURE


def test_a_figure_that_the_cited_chunk_gives_by_arithmetic_may_stand_in_another_one_by_chance() -> None:
    """Two nights at 14 euros are 28, and so is something else."""
    berth = "A berth for two visitors costs 28 euros. Visitors pay it at the harbor office."
    night = "Visitors pay 14 euros for each night at the pier. The second night in a row is free of any toll."
    assert sureness("You pay for two nights only, so it is 28 euros [2].", berth, night, FERRY) < SURE
    assert sureness("You pay for two visitors only, so it is 28 euros [3].", berth, night, FERRY) >= SURE


def test_a_chunk_that_words_do_not_see_to_support_the_claim_must_be_ahead_by_more() -> None:
    """The claim is told in words of its own; what tells the chunks apart are its values."""
    ahead = "Boats heavier than 40 tonnes owe 85 crowns each passage they make [3]."
    [found] = judged(ahead, LOCK, TOLL, FERRY)
    assert found is not None
    assert (found.other, found.sureness >= SURE) == ("c2", True)
    beside = "Heavy vessels over 40 tonnes owe something whenever they go through [3]."
    assert sureness(beside, LOCK, TOLL, FERRY) < SURE


def test_numbers_that_may_count_from_zero_are_never_surely_wrong() -> None:
    """Where the prompt does not tell, and the chunk behind the cited one bears the claim out."""
    claim = "Barges of more than 40 tonnes pay 85 crowns for each passage [1]."
    assert sureness(claim, FERRY, TOLL, LOCK, is_numbered=False) < SURE <= sureness(claim, FERRY, TOLL, LOCK)
    assert sureness(claim, FERRY, LOCK, TOLL, is_numbered=False) >= SURE


def test_only_a_claim_that_cites_one_of_several_chunks_can_be_wrong() -> None:
    """Neither without a citation, nor where there is nothing else to cite."""
    assert judged("Rowing boats pass without any toll.", LOCK, TOLL) == [None]
    assert judged("Rowing boats pass without any toll [1].", LOCK) == [None]


def odds_by_model(answer: str, said: dict[str, float], *texts: str, is_numbered: bool = True) -> float:
    """The log odds that the only claim of an answer cites the wrong chunk, where a model says so of the chunks."""
    packed = [PackedChunk(chunk_id=f"c{place}", position=place, text=text) for place, text in enumerate(texts, 1)]
    [claim], _ = judge_claims(answer, packed, query="What is there to know of the canal?")
    evidence = [Evidence.read(chunk.chunk_id, chunk.text or "") for chunk in packed]
    found = miscitation_odds(claim, evidence, said, claim, Rarity(evidence), is_numbered=is_numbered)
    assert found is not None
    assert found[1] == f"c{answer[-3]}"
    return found[0]


PARAPHRASE = "Heavy boats are charged at the gate [2]."  # words tell next to nothing of it


def test_a_model_tells_where_words_cannot() -> None:
    """A "yes" of another chunk beside the "no" of the cited one is two judgments; both "yes" are next to none."""
    wrong = odds_by_model(PARAPHRASE, {"c1": 3.0, "c2": -3.0}, TOLL, FERRY)
    both = odds_by_model(PARAPHRASE, {"c1": 3.0, "c2": 3.0}, TOLL, FERRY)
    right = odds_by_model(PARAPHRASE, {"c1": -3.0, "c2": 3.0}, TOLL, FERRY)
    assert wrong - both == pytest.approx(6.0)
    assert both - right > 3.0
    assert wrong - right > 9.0


def test_where_two_chunks_say_the_same_that_another_one_bears_the_claim_out_tells_little() -> None:
    """A duplicate does so as well, whichever is cited."""
    said = {"c1": 3.0, "c2": -3.0}
    claim = "The upper lock was rebuilt in 1911 by Ilse Bergdorf [2]."
    other = odds_by_model(claim, said, LOCK, TOLL) - odds_by_model(claim, {"c1": -3.0, "c2": -3.0}, LOCK, TOLL)
    same = odds_by_model(claim, said, LOCK, LOCK_AGAIN) - odds_by_model(
        claim, {"c1": -3.0, "c2": -3.0}, LOCK, LOCK_AGAIN
    )
    assert same < other - 1.0


def test_a_citation_that_would_be_right_counted_from_zero_is_never_sure_by_a_model_either() -> None:
    """Unless the prompt tells from where its chunks are counted."""
    claim, said = "Barges of more than 40 tonnes pay 85 crowns for each passage [1].", {"c1": -5.0, "c2": 5.0}
    assert odds_by_model(claim, said, FERRY, TOLL) > 8.0
    assert odds_by_model(claim, said, FERRY, TOLL, is_numbered=False) < 4.0
