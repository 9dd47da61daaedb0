"""Prompts for subsets of documents and of words."""

from __future__ import annotations

import pytest

from ragtrace.analyze.prompts import INSTRUCTIONS, SubsetPrompts, Unexplained
from ragtrace.types import GenerateRun, Generation, PackedChunk, Packing, PackRun, Query, RequestRecord, replace
from tests.analyze.examples import ANSWER, QUESTION, RERANK, RETRIEVE, TEXTS, packed, request

TEMPLATE = "Use these.\n[1] {chunk:water}\n[2] {chunk:old}\nQ: What does Home Plus pay for escape of water in 2024? A:"


def answered(template: str | None = None, answer: str | None = ANSWER, packing: PackRun | None = None) -> RequestRecord:
    """A request with two packed chunks."""
    generation = Generation(answer=answer, prompt_template=template)
    return request(RETRIEVE, RERANK, packing or packed("water", "old"), GenerateRun(generation=generation))


@pytest.mark.parametrize(("renumbered", "number"), [(True, 1), (False, 2)])
def test_the_records_own_template_is_used(renumbered: bool, number: int) -> None:
    """Wrappers leave with their chunk; the others count from 1, or keep their numbers."""
    prompts = SubsetPrompts.of(answered(TEMPLATE), renumbered=renumbered)
    assert prompts.documents == ("water", "old")
    assert prompts.of_documents({"old"}) == f"Use these.\n[{number}] {TEXTS['old']}\nQ: {QUESTION} A:"
    assert prompts.of_documents(()) == f"Use these.\nQ: {QUESTION} A:"


@pytest.mark.parametrize(("renumbered", "number"), [(True, 1), (False, 2)])
def test_without_a_template_it_is_the_papers(renumbered: bool, number: int) -> None:
    """Documents count from 1 in a subset, or keep their number; without any the instructions stay."""
    prompts = SubsetPrompts.of(answered(), renumbered=renumbered)
    assert prompts.of_documents({"old"}) == (
        f"{INSTRUCTIONS}\n\n[{number}] {TEXTS['old']}\n\nQuestion: {QUESTION}\nAnswer:"
    )
    assert prompts.of_documents(()) == f"{INSTRUCTIONS}\n\n\nQuestion: {QUESTION}\nAnswer:"
    assert prompts.of_documents(prompts.documents).count("\n[") == 2


def test_a_template_without_chunks_is_not_used() -> None:
    """A prompt in which no chunk was found would not change with them."""
    assert SubsetPrompts.of(answered("What is it?")).of_documents(()).startswith(INSTRUCTIONS)


@pytest.mark.parametrize("template", [TEMPLATE, None])
def test_words_leave_the_question_alone(template: str | None) -> None:
    """By place, with the space before them; punctuation and documents stay."""
    prompts = SubsetPrompts.of(answered(template))
    assert [word.text for word in prompts.words[:3]] == ["What", "does", "Home"]
    assert "?" not in [word.text for word in prompts.words]
    kept = [word.text in ("escape", "water") for word in prompts.words]
    assert prompts.of_words(kept) == prompts.of_documents(prompts.documents).replace(QUESTION, "escape water?")
    assert prompts.of_words([True] * len(kept)) == prompts.of_documents(prompts.documents)


@pytest.mark.parametrize("template", [None, "{chunk:water}\nQ: %s\nA:"])
def test_white_space_around_the_question_stays(template: str | None) -> None:
    """With all of its words the prompt is the one that was answered."""
    asked = " \tWhat does it cover? \n"
    record = replace(answered(template and template % asked), query=Query(original=asked))
    prompts = SubsetPrompts.of(record)
    assert prompts.of_words([True] * 4) == prompts.of_documents(prompts.documents)
    assert " \tWhat cover? \n" in prompts.of_words([True, False, False, True])


def test_the_question_need_not_stand_in_the_prompt() -> None:
    """Then its words cannot be left out of it."""
    assert not SubsetPrompts.of(answered("{chunk:water} Q: another")).has_question
    assert SubsetPrompts.of(answered()).has_question


def test_a_chunk_that_was_packed_in_two_parts_is_one_document() -> None:
    """Both parts leave together."""
    twice = tuple(PackedChunk(chunk_id="water", position=place, text=text) for place, text in enumerate("ab", 1))
    prompts = SubsetPrompts.of(
        answered("{chunk:water}; {chunk:water}.", packing=PackRun(packing=Packing(chunks=twice)))
    )
    assert prompts.documents == ("water",)
    assert prompts.of_documents({"water"}) == "a; b."


HIDDEN = PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="water", position=1, content_hash="0"),)))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (request(RETRIEVE), "no generation was recorded"),
        (answered(answer=None), "the answer's text was not kept"),
        (answered(answer=" \n"), "the answer is empty"),
        (answered(packing=HIDDEN), "the text of chunk 'water' was not kept"),
        (replace(answered(), query=Query()), "neither the prompt's template nor the question was kept"),
        (answered("{chunk:water} {chunk:else}"), r"has \{chunk:else\}, which was not packed"),
    ],
)
def test_what_a_record_lacks_is_said(record: RequestRecord, reason: str) -> None:
    """Without an answer, or texts that were hashed away, nothing can be scored."""
    with pytest.raises(Unexplained, match=reason):
        SubsetPrompts.of(record)
