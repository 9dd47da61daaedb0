"""The words for verdicts, states and reasons."""

from __future__ import annotations

from typing import get_args

from ragtrace.analyze import _stage_states as stage_states
from ragtrace.analyze.diagnosis import CAUSE_COMPONENTS
from ragtrace.registry.instruments import STAGES
from ragtrace.registry.wording import CAUSES, FIXES, PROBE_CAUSES, REASONS, STATES, VERDICTS, cause_words, reason_words
from ragtrace.types import ProbeCause, StageState


def test_every_reason_and_every_state_has_its_words() -> None:
    """No more and no fewer than the rules give."""
    assert set(REASONS) == set(stage_states.REASONS)
    assert set(STATES) == set(get_args(StageState))


def test_every_cause_of_a_probe_has_its_words_and_its_fix() -> None:
    """In the singular, behind a chunk's id, and as a noun; the causes that are known without a probe, too."""
    causes = set(get_args(ProbeCause))
    assert set(PROBE_CAUSES) == causes
    assert causes < set(FIXES) <= set(CAUSES)
    assert causes | {"absent_from_candidates", "returned_before"} <= set(CAUSE_COMPONENTS)
    assert (cause_words("below_depth"), cause_words("facets_unmet"), cause_words(None)) == (
        "below the depth asked for",
        "facets unmet",
        "unknown",
    )


def test_every_verdict_has_its_words() -> None:
    """The failures of all stages, and what is said where nothing broke."""
    failures = {stage.failure for stage in STAGES}
    assert set(VERDICTS) == failures | {"healthy", "no_break_found", "no_retrieval_needed", "error"}
    assert "undetermined" not in VERDICTS


def test_reasons_are_nouns_that_fit_behind_a_colon() -> None:
    """They begin in lower case, end without a mark, and are short enough for a line."""
    for words in (*REASONS.values(), reason_words("low_match", "ranking")):
        assert words[0].islower()
        assert words[-1].isalpha()
        assert len(words) <= 50


def test_a_reason_may_mean_something_else_at_another_stage() -> None:
    """What is a poor match at retrieval is a better match left out at ranking."""
    assert reason_words("low_match", "retrieval") == "words that do not match the question"
    assert reason_words("low_match", "ranking") == "a better match outside of the prompt"


def test_a_reason_of_a_later_version_is_spelled_out() -> None:
    """And one that is missing is no reason."""
    assert reason_words("too_new", "ranking") == "too new"
    assert reason_words(None) == "no proof either way"
