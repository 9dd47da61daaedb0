"""The sentences of a chunk that answer a question."""

from __future__ import annotations

from ragtrace.coverage.answering import answering_sentences

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
