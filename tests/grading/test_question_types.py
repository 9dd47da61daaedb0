"""Types of questions by the templates of PopQA."""

from __future__ import annotations

import pytest

from ragtrace.grading import question_entity, question_type

QUESTIONS = {
    "What is Henry Feilden's occupation?": "occupation",
    "In what city was Billy Carlson born?": "place of birth",
    "What genre is Unreal?": "genre",
    "Who is the father of Ann Hoe?": "father",
    "Who is the mother of Ann Hoe?": "mother",
    "In what country is Lonsdale?": "country",
    "Who was the producer of The Accused?": "producer",
    "Who was the director of The Accused?": "director",
    "Who was the screenwriter for Boxer?": "screenwriter",
    "Who was the composer of Beware?": "composer",
    "Who is the author of Beware of Pity?": "author",
    "What is Lima the capital of?": "capital of",
    "What is the capital of Peru?": "capital",
    "What color is Cobalt?": "color",
    "What is the religion of Rufus Holsinger?": "religion",
    "What sport does Dan Cox play?": "sport",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_relation_of_popqa(question: str) -> None:
    """Is told, whatever its case."""
    assert question_type(question) == question_type(question.upper()) == QUESTIONS[question]


@pytest.mark.parametrize("question", ["How do I claim a tariff?", "", "Tell me who wrote Emma and why it is read"])
def test_other_questions(question: str) -> None:
    """Have no relation, and no entity."""
    assert question_type(question) is None
    assert question_entity(question) is None


@pytest.mark.parametrize(
    ("question", "entity"),
    [
        ("What is Henry Feilden's occupation?", "Henry Feilden"),
        ("In what city was Billy Carlson born?", "Billy Carlson"),
        ("What genre is Unreal?", "Unreal"),
        ("Who is the father of Ann Hoe?", "Ann Hoe"),
        ("Who is Ann Hoe's mother?", "Ann Hoe"),
        ("In what country is Lonsdale located in?", "Lonsdale"),
        ("Who produced The Accused?", "The Accused"),
        ("Who is the author of Beware of Pity?", "Beware of Pity"),
        ("What is Lima the capital of?", "Lima"),
        ("What is the capital city of Peru?", "Peru"),
        ("What sport does Dan Cox play?", "Dan Cox"),
    ],
)
def test_the_entity_of_a_template(question: str, entity: str) -> None:
    """Is what the relation is asked of, in the question's own letters."""
    assert question_entity(question) == entity


@pytest.mark.timeout(20)  # where white space can be read in several ways, the first takes hours
@pytest.mark.parametrize(
    "question",
    [
        "what country is " + " " * 20_000 + "\nx",
        "what country is " + " in from" * 20_000 + "\n",
        "what was " + "'s " * 20_000,
        "who wrote " + "?" * 20_000 + "x",
    ],
)
def test_a_hostile_question_takes_no_time(question: str) -> None:
    """However long it is."""
    assert question_type(question) in ("country", "author", None)


def test_white_space_and_marks_do_not_count() -> None:
    """Between words and at the end."""
    assert question_type("  In what\n country  is\tLonsdale ?! . ") == "country"
    assert question_type("Who wrote " + "x" * 500 + "?") is None
