"""Feedback and flags by request id."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import ragtrace
from ragtrace.types import Feedback


def judged(recorded: Any) -> list[tuple[str | None, float | None, str]]:
    """Label, score and source of the feedback so far."""
    return [(item.label, item.score, item.source) for item in recorded.items if isinstance(item, Feedback)]


@pytest.mark.parametrize(
    ("said", "flags"),
    [
        ({"score": -1}, ("thumbs_down",)),
        ({"label": "thumbs_down"}, ("thumbs_down",)),
        ({"score": -0.2, "label": "wrong", "source": "verifier"}, ("thumbs_down",)),
        ({"task_success": False}, ("task_failure",)),
        ({"task_success": True}, None),
        ({"score": 0.0}, None),
        ({"score": 1, "label": "thumbs_up"}, None),
        ({"comment": "thanks"}, None),
    ],
)
def test_what_flags_a_request(recorded: Any, said: dict[str, Any], flags: tuple[str, ...] | None) -> None:
    """A negative judgment keeps it; the judgment is durable in any case."""
    ragtrace.feedback("r", **said)
    assert recorded.flagged == ([] if flags is None else [("r", flags)])
    assert recorded.durable == recorded.items
    assert len(recorded.items) == 1


def test_task_success_is_a_judgment_of_its_own(recorded: Any) -> None:
    """Beside a score, each with the source."""
    ragtrace.feedback("r", score=0.8, task_success=False, source="verifier")
    assert judged(recorded) == [("task_failure", 0.0, "verifier"), (None, 0.8, "verifier")]


def test_a_running_request_is_flagged_itself(configure: Any) -> None:
    """Nothing has to be found later."""
    recorded = configure(sample_rate=0.0, sample_floor=0)
    with ragtrace.request(query="q") as request:
        ragtrace.feedback(request.request_id, label="thumbs_down")
    assert (recorded.record.flags, recorded.flagged) == (("thumbs_down",), [])


def test_a_flag_after_the_end_goes_to_the_sink(recorded: Any) -> None:
    """By the handle as by the id; setting anything then is counted."""
    with ragtrace.request(query="q", request_id="r") as request:
        pass
    request.flag("first")
    ragtrace.flag("r", "second")
    ragtrace.flag("elsewhere", "third")
    request.set(segment="late")
    assert recorded.flagged == [("r", ("first",)), ("r", ("second",)), ("elsewhere", ("third",))]
    assert recorded.faults == [("request.set", "ended")]


def test_a_flag_without_configure_warns(caplog: pytest.LogCaptureFixture) -> None:
    """It says what to do."""
    with caplog.at_level(logging.WARNING, "ragtrace"):
        ragtrace.flag("r", "x")
    assert "flag x for r is lost: call ragtrace.configure() first" in caplog.text


def test_a_fault_of_ours_does_not_reach_the_host(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted instead."""
    recorded = configure(raise_errors=False)

    def fail(request_id: str, flags: tuple[str, ...]) -> None:
        raise OSError("broken")

    monkeypatch.setattr(recorded, "flag", fail)
    with ragtrace.request(query="q", request_id="r") as request:
        pass
    request.flag("x")
    ragtrace.flag("r", "x")
    ragtrace.feedback("r", score=-1)
    assert recorded.faults == [("request.flag", "OSError"), ("flag", "OSError"), ("feedback", "OSError")]


@pytest.mark.parametrize("score", [4.0, -1.5, float("nan"), float("inf")])
def test_a_score_that_is_no_outcome_is_kept_and_said(recorded: Any, score: float) -> None:
    """A rating from 1 to 5 would be good whatever it is; `ragtrace doctor` shows that it cannot be read."""
    ragtrace.feedback("r", score=score)
    assert len(judged(recorded)) == 1
    assert recorded.faults == [("feedback", "score")]


@pytest.mark.parametrize("score", [-1, 0, 0.5, 1])
def test_a_score_in_range_is_no_fault(recorded: Any, score: float) -> None:
    """Both scales, ends included."""
    ragtrace.feedback("r", score=score)
    assert recorded.faults == []
