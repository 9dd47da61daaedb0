"""Which chunks are equivalent evidence, and which sentences of a chunk answer a question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtrace.coverage import PromptEvidence
from ragtrace.coverage._evidence import answering_sentences, hold_the_same
from ragtrace.coverage.support import Evidence
from ragtrace.types import Candidate, PackedChunk

RULES = Path(__file__).with_name("railway_rules.yaml")
HEADING = "Northgate Home, Sweden, edition 2.0 (2019): Escape of water\n"
CAUSE = "We pay for damage caused by water that escapes from fixed pipes, tanks and domestic appliances."
LIMIT = "The most we pay for escape of water is SEK 180,000 for each event."
EXCESS = "A deductible of SEK 2,500 applies to every water claim."


def test_the_sentence_that_shares_most_words_answers() -> None:
    """And none where there is none."""
    assert answering_sentences("theft limit?", "Fire is covered. The limit for theft is €5. Bye.") == (
        "The limit for theft is €5.",
    )
    assert answering_sentences("theft", "") == answering_sentences("theft", " \n ") == ()


def test_a_heading_is_no_part_of_the_first_sentence() -> None:
    """Its words and its year speak for all sentences alike, so that the sentence with the amount answers."""
    question = "A pipe burst. Up to what amount does Northgate Home cover escape of water in Sweden in 2019?"
    assert answering_sentences(question, f"{HEADING}{CAUSE} {LIMIT}") == (LIMIT,)
    assert answering_sentences("In which edition is water covered in Sweden?", f"{HEADING}{CAUSE}") == (CAUSE,)


def test_a_broken_line_is_no_heading() -> None:
    """What goes on in lower case, or behind a comma, is one sentence."""
    text = "The limit for theft\nis €5. Fire is covered."
    assert answering_sentences("What is the limit for theft?", text) == ("The limit for theft\nis €5.",)
    text = "After a theft,\nHome Plus pays €5. Fire is covered."
    answer = "After a theft,\nHome Plus pays €5."
    assert answering_sentences("What does Home Plus pay after a theft?", text) == (answer,)


def test_sentences_that_words_cannot_tell_apart_all_answer() -> None:
    """Two amounts in two sentences about equally near to the question."""
    assert set(answering_sentences("What is the limit for water?", f"{LIMIT} {EXCESS}")) == {LIMIT, EXCESS}


def test_each_part_of_a_question_is_answered() -> None:
    """A sentence that answers only the second part is an answer, too."""
    question = "What is the limit for water, and when must a claim be reported?"
    late = "A claim must be reported within 14 days."
    assert late in answering_sentences(question, f"{late} Our office is open.")


QUESTION = "How long may I keep a borrowed kayak?"
NEEDED = "A borrowed kayak may be kept for nine days."


def _prompt(*texts: str, doc_id: str | None = None, truncated: bool = False) -> PromptEvidence:
    chunks = [
        PackedChunk(chunk_id=f"p{at}", position=at, text=text, truncated=truncated) for at, text in enumerate(texts)
    ]
    candidates = [Candidate(chunk_id=chunk.chunk_id, rank=1, doc_id=doc_id) for chunk in chunks]
    return PromptEvidence(QUESTION, chunks, candidates)


LOST = Candidate(chunk_id="lost", rank=1, text=f"Paddles are at the quay. {NEEDED}")


@pytest.mark.parametrize(
    ("texts", "other"),
    [
        ([f"Paddles are at the quay.\n{NEEDED}"], "p0"),  # the same, with its lines broken
        ([f"{NEEDED} Whoever is late pays 12 crowns. Lockers are free."], "p0"),  # the next chunk, which overlaps
        (["Edition of 2019. The club house has a sauna.", f"Edition of 2019. {NEEDED} Dogs stay ashore."], "p1"),
        (["A borrowed kayak may be kept for ten days. Paddles are at the quay."], None),  # another figure
        (["A kayak may be borrowed by members. Paddles are at the quay."], None),  # the same words, and no answer
        (["A borrowed kayak may be kept"], None),  # the sentence is cut, and its rest is not there
        ([], None),
    ],
)
def test_a_chunk_with_the_answering_sentence_stands_in(texts: list[str], other: str | None) -> None:
    """A duplicate, a neighbor that overlaps or another edition does; one that says something else does not."""
    assert _prompt(*texts).stand_in(LOST) == other
    assert _prompt(*texts).leaves_out(LOST) is (other is None)


def test_a_sentence_may_be_cut_between_two_chunks_of_a_document() -> None:
    """Both in the prompt hold it; of two documents nobody knows that they belong together."""
    halves = ("Lockers are free. A borrowed kayak may be", "kept for nine days. Dogs stay ashore.")
    assert _prompt(*halves, doc_id="rules").stand_in(LOST) == "p0"
    assert _prompt(*halves[::-1], doc_id="rules").stand_in(LOST) == "p1"
    assert _prompt(*halves).stand_in(LOST) is None


def test_what_a_cut_left_of_a_chunk_may_stand_in() -> None:
    """It holds the sentence, although it is no whole chunk; it is no duplicate."""
    assert _prompt(f"{NEEDED} Lockers", truncated=True).stand_in(LOST) == "p0"
    assert _prompt(f"{NEEDED} Lockers", truncated=True).duplicates([LOST]) == {}


def test_any_member_of_a_class_counts() -> None:
    """Where the prompt holds one, nothing of its class is lost; a member of two classes is needed for the other."""
    a, b, c = (Candidate(chunk_id=name, rank=1, text=f"{name} says it") for name in ("p0", "b", "c"))
    prompt = _prompt("p0 says it in other words than the others do")
    assert prompt.stand_ins([(b, a)]) == {"b": "p0"}
    assert prompt.stand_ins([(b, a), (b, c)]) == {}
    assert prompt.stand_ins([(b, c)]) == {}


def test_chunks_hold_the_same_of_a_claim() -> None:
    """Where the one has the sentence of the other that speaks most of it."""
    one, two = (Evidence.read("", text) for text in (f"Dogs stay ashore. {NEEDED}", f"{NEEDED} Lockers are free."))
    other = Evidence.read("", "A borrowed kayak may be kept for ten days.")
    assert hold_the_same(NEEDED, one, two)
    assert not hold_the_same(NEEDED, one, other)
    assert not hold_the_same("Nothing of it", one, two)


@pytest.mark.parametrize("case", yaml.safe_load(RULES.read_text("utf-8")), ids=lambda case: case["name"])
def test_rules_of_a_railway(case: dict[str, Any]) -> None:
    """Neighbors, editions, tables, lists and other languages are the same where they say the same, and only there."""
    prompt = PromptEvidence(case["question"], [PackedChunk(chunk_id="p", position=1, text=case["packed"])])
    stands_in = prompt.stand_in(Candidate(chunk_id="lost", rank=1, text=case["lost"])) == "p"
    assert stands_in is case["same"]
