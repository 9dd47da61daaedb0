"""The extractive answerer and the prompt."""

from __future__ import annotations

from typing import cast

from ragtrace.demo._corpus import Question, load_corpus, load_questions
from ragtrace.demo._generation import Context, ExtractiveAnswerer, LanguageModelAnswerer, PackedHit, prompt_template
from ragtrace.engines.causal_lm import CausalLM, Generated


def _context(*chunk_ids: str) -> Context:
    chunks = load_corpus().by_id
    return Context([PackedHit(name, chunks[name].text, 1, 1) for name in chunk_ids], [], 640)


def _of_class(query_class: str) -> list[Question]:
    return [question for question in load_questions() if question.query_class == query_class]


def test_sentences_are_quoted_with_their_extract() -> None:
    """Each sentence of an answer stands in the extract that it cites."""
    question = _of_class("limit")[0]
    answer = ExtractiveAnswerer().generate(question.text, _context("home-ie-2.0#glance", *question.chunk_ids)).answer
    (sentence,) = question.evidence.values()
    assert answer == f"{sentence.rstrip('.;')} [2]."


def test_a_change_names_both_editions() -> None:
    """A comparison gets one sentence per edition, each with its edition and year."""
    question = _of_class("change")[0]
    answer = ExtractiveAnswerer().generate(question.text, _context(*question.chunk_ids)).answer
    for chunk_id in question.chunk_ids:
        document = load_corpus().by_id[chunk_id].document
        assert f"In edition {document.edition} ({document.year}), " in answer
    assert "[1]." in answer
    assert "[2]." in answer


def test_most_answers_hold_the_evidence() -> None:
    """From the oracle chunks alone, most answers quote every answering sentence."""
    answerer = ExtractiveAnswerer()
    right = 0
    for question in load_questions():
        answer = answerer.generate(question.text, _context(*question.chunk_ids)).answer
        right += all(sentence.rstrip(".;")[1:] in answer for sentence in question.evidence.values())
    assert right >= 0.85 * len(load_questions())


def test_without_evidence_it_abstains() -> None:
    """An empty prompt gives an abstention, not an invention."""
    answer = ExtractiveAnswerer().generate("What is the limit?", _context()).answer
    assert answer == "I could not find this in the policy wordings."


def test_prompt_template_keeps_places_for_the_chunks() -> None:
    """The template names each packed chunk in order, so that the prompt can be rebuilt for any subset."""
    template = prompt_template("Why?", _context("home-ie-2.0#water", "home-ie-2.0#storm"))
    assert "[1] {chunk:home-ie-2.0#water}\n[2] {chunk:home-ie-2.0#storm}" in template
    assert "Question: Why?" in template


def test_a_language_model_gets_the_texts_and_its_counts_are_kept() -> None:
    """The prompt holds the extracts in place of their names; a question that looks like one stays as it is."""
    prompts: list[str] = []

    class _Echo:
        name = "echo"

        def generate(self, prompt: str) -> Generated:
            prompts.append(prompt)
            return Generated("It is 30 days [1].", 120, 7, "length")

    context = Context([PackedHit("a", r"Texts with {braces} and \\1.", 1, 1)], [], 640)
    answer = LanguageModelAnswerer(cast(CausalLM, _Echo())).generate("Why {chunk:b}?", context)
    assert r"[1] Texts with {braces} and \\1." in prompts[0]
    assert "Question: Why {chunk:b}?" in prompts[0]
    assert answer.usage == {"input_tokens": 120, "output_tokens": 7}
    assert (answer.answer, answer.finish_reason) == ("It is 30 days [1].", "length")
