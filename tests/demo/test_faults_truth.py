"""Truth: what a fault did to a request, by comparison with the healthy run."""

from __future__ import annotations

from dataclasses import replace

from ragtrace.demo._assistant import AnsweredQuestion
from ragtrace.demo._corpus import Question
from ragtrace.demo._faults import Truth, judge
from ragtrace.demo._generation import Context, DemoAnswer, PackedHit
from ragtrace.demo._retrieval import Hit

_QUESTION = Question("How long?", "deadline", (), {"a": "It is 30 days.", "b": "It is not paid."})
_TEXTS = {"a": "Notice. It is 30 days.", "b": "Exception. It is not paid.", "c": "Other."}


def _outcome(hits: str, packed: str, answer: str = "30 days [1].") -> AnsweredQuestion:
    return AnsweredQuestion(
        "request",
        [Hit(name, _TEXTS[name], 1.0, "doc", "source") for name in hits],
        Context([PackedHit(name, _TEXTS[name], 5, 5) for name in packed], [], 100),
        DemoAnswer(answer, ""),
    )


_HEALTHY = _outcome("abc", "ab")


def test_the_same_run_is_untouched() -> None:
    """Nothing changed, nothing broken."""
    assert judge(_QUESTION, _HEALTHY, _HEALTHY) == Truth()


def test_evidence_gone_from_the_candidates() -> None:
    """Retrieval broke it, even where other evidence was lost later."""
    assert judge(_QUESTION, _HEALTHY, _outcome("ac", "c")) == Truth("retrieval")


def test_evidence_gone_before_the_prompt() -> None:
    """Ranking broke it."""
    assert judge(_QUESTION, _HEALTHY, _outcome("abc", "ac")) == Truth("ranking")


def test_answering_sentence_cut_away() -> None:
    """A packed chunk without its answering sentence counts as lost in ranking."""
    cut = replace(_HEALTHY.context, chunks=[PackedHit("a", "Notice.", 1, 5, True), _HEALTHY.context.chunks[1]])
    assert judge(_QUESTION, _HEALTHY, replace(_HEALTHY, context=cut)) == Truth("ranking")


def test_answer_altered() -> None:
    """Generation broke it only where the prompt was the same."""
    assert judge(_QUESTION, _HEALTHY, _outcome("abc", "ab", "90 days [1].")) == Truth("generation")


def test_another_answer_from_another_prompt_is_not_blamed() -> None:
    """With the evidence still in the prompt, an answer that differs as the rest of the prompt does is untouched."""
    assert judge(_QUESTION, _HEALTHY, _outcome("abc", "abc", "About 30 days [1].")) == Truth()


def test_organic_misses() -> None:
    """Evidence that the healthy run lacks too is the fault of none."""
    poor = _outcome("ac", "a")
    assert judge(_QUESTION, poor, poor) == Truth(organic=True)
    assert judge(_QUESTION, poor, _outcome("c", "c")) == Truth("retrieval", organic=True)
