"""The measures behind a claim's support, and the readings of chunks that they share."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ragtrace.coverage import judge_claims
from ragtrace.coverage.support import Evidence, Statement, Vocabulary
from ragtrace.coverage.support.lexical import Ground, measure, probability
from ragtrace.coverage.support.readings import Reading
from ragtrace.types import Claim, PackedChunk

SAID = "Storm damage to the roof is covered up to 5,000 euros. Hail is covered from 1 May 2024. Report it in two weeks."
WORDS = st.lists(st.sampled_from([*SAID.replace(".", "").split(), "bicycle", "not", "7", "Cork"]), max_size=12)


def statement(text: str) -> Statement:
    """A claim, read."""
    return Statement.read(Claim(start=0, end=len(text), text=text))


def ground(*texts: str) -> Ground:
    """Some evidence."""
    return Ground([Reading(text) for text in texts])


def test_what_repeats_the_evidence_is_not_new() -> None:
    """Nothing of it counts as new, whatever frames the claim, and in whatever shape its values are written."""
    for text in (
        "Storm damage to the roof is covered up to 5,000 euros.",
        "According to passage 1, hail is covered from 2024-05-01 [1].",
        "Report it in 14 days (Document 1).",
    ):
        found = measure(statement(text), ground(SAID))
        assert (found.unseen, found.lacking, found.unstated) == (0.0, 0.0, 0.0), text
        assert probability(found) > 0.8


@pytest.mark.parametrize(
    "text",
    [
        "Bicycles stolen abroad are replaced by courier.",
        "Storm damage to the roof is covered up to 9,000 dollars.",
        "Hail is covered from 1 June 2031.",
        "word" * 10_000,
    ],
)
def test_what_the_evidence_does_not_say_is_unsupported(text: str) -> None:
    """Other words, another amount, another day."""
    (claim,) = judge_claims(text, [PackedChunk(chunk_id="c", position=1, text=SAID)])[0]
    assert (claim.support or 0.0) < 0.5


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Storm damage to the roof is covered by Peabody.", False),
        ("Storm damage is covered by Northgate Mutual.", True),
        ("Storm damage is covered by Northg\u00e0te.", True),
        ("Storm damage is covered by Home Equity Line of Credit (HELOC).", True),
        ("Storm damage is covered by Cork Mutual, as asked.", True),
        ("Cover of Damage by Hurricanes: storm damage is covered.", True),
        ("Storm damage is covered, see Document 2.", True),
        ("Storm damage is covered 27 times.", False),
        ("Step 27: storm damage is covered.", True),
        ("Storm damage is covered by two Northgate policies.", True),
    ],
)
def test_a_name_or_number_that_the_evidence_lacks_is_unstated(text: str, known: bool) -> None:
    """But for what the question names, what only spells out an abbreviation or counts in words, labels and frames."""
    evidence = Ground([Reading("Storm damage is covered by NorthgateMutual; see HELOC policies.")], Reading("Cork?"))
    assert (measure(statement(text), evidence).unstated == 0.0) is known


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("Compute the HMAC-SHA256 of it, ERR_LOCKED or page_size.", None),
        ("Compute the HMAC-SHA512 of the body.", "HMAC-SHA512"),
        ("The log says `ERR_TIMEOUT` then.", "ERR_TIMEOUT"),
        ("Set page_token to the number of rows.", "page_token"),
        ("Wait for a 24-hour period in Q3 2025.", None),
        ("As Section 12.1 and Article 5 say, compute it.", None),
    ],
)
def test_a_code_stands_for_nothing_but_itself(text: str, lacking: str | None) -> None:
    """However its parts are joined; a value is no code, and what numbers a part of a text is no name."""
    said = "Compute the HMAC-SHA256 of the body; ERR_LOCKED, page_size. Wait 24 hours in Q3 2025. 12.1 Term. 5. Fees."
    assert ground(said).lacks(statement(text)) == lacking


def test_a_value_of_the_question_is_not_asked_of_the_evidence_beside_another_statement() -> None:
    """What a claim is about and what it states: an answer that only repeats the question's figure states that."""
    evidence = Ground([Reading("Leave is 20 weeks for all.")], Reading("How much leave after 2 years? Is it 9 weeks?"))
    assert evidence.lacks(statement("After 2 years leave is 20 weeks.")) is None
    assert evidence.lacks(statement("It is 9 weeks.")) == "9 weeks"


@pytest.mark.parametrize(
    ("said", "stated"),
    [
        ("Fees for 2026/27: a deposit is due by 31 July.", True),
        ("2026: due on July 31st", True),
        ("Fees for 2026/27: a deposit is due by 31 August.", False),
        ("CVE of 2026.", False),
    ],
)
def test_a_year_states_a_day_only_where_the_day_stands_too(said: str, stated: bool) -> None:
    """The year of a heading and the day below it are one date."""
    assert (ground(said).lacks(statement("Due by 31 July 2026.")) is None) is stated


def test_an_unstated_name_caps_the_support_of_a_copied_sentence() -> None:
    """One strange name in a long sentence that is otherwise the evidence's own."""
    said = "The festival of Dionysus took place twice a year in the theater below the rock, with tragic playwrights."
    packed = [PackedChunk(chunk_id="c", position=1, text=said)]
    (kept,) = judge_claims(said, packed)[0]
    (swapped,) = judge_claims(said.replace("Dionysus", "Peabody"), packed)[0]
    assert (kept.support or 0.0) > 0.9
    assert ((swapped.support or 0.0), swapped.reason) == (0.4, "Peabody stands nowhere in the prompt")


def test_words_in_the_order_of_the_evidence_count_more_than_the_same_words_in_another() -> None:
    """What is written in other pairs of words rests less on the evidence."""
    copied = measure(statement("Storm damage to the roof is covered."), ground(SAID))
    turned = measure(statement("The roof is covered to storm damage."), ground(SAID))

    assert copied.rewritten < turned.rewritten
    assert probability(copied) > probability(turned)


@settings(max_examples=150)
@given(WORDS, st.lists(WORDS, max_size=3), WORDS)
def test_no_measure_grows_with_more_evidence(claim: list[str], evidence: list[list[str]], more: list[str]) -> None:
    """So that another chunk never lowers the probability."""
    said = statement(" ".join(claim))
    texts = [" ".join(words) for words in evidence]
    before = measure(said, ground(*texts))
    after = measure(said, ground(*texts, " ".join(more)))
    assert all(new <= old for new, old in zip(after.vector, before.vector, strict=True))
    assert 0.0 <= probability(before) <= probability(after) <= 1.0


def test_a_number_without_unit_contradicts_only_where_it_counts_the_same() -> None:
    """Nine claims against three claims, and not against three years."""
    chunk = PackedChunk(chunk_id="c", position=1, text="Nobody with more than 3 claims is insured by this policy.")
    for text, contradicted in (
        ("Nobody with more than 9 claims is insured by this policy.", True),
        ("Nobody with more than 9 storms is insured by this policy.", False),
    ):
        (claim,) = judge_claims(text, [chunk])[0]
        assert ((claim.contradiction or 0.0) >= 0.5) is contradicted, text


def test_rare_words_weigh_more() -> None:
    """By the number of chunks that hold them; a word of none most."""
    vocabulary = Vocabulary([Evidence.read("1", "storm roof"), Evidence.read("2", "storm hail")])
    assert vocabulary.weight("storm") < vocabulary.weight("hail") < vocabulary.weight("bicycl")
