"""A slow loss over many releases is told, though none of them lost more than the margin."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrace.gate.policy import default_rule
from ragtrace.gate.reports import SUFFIXES, render
from ragtrace.gate.runs import compare, with_anchor
from ragtrace.gate.types import GateReport, Policy, Population
from tests.gate.populations import population

COUNT, STEP = 400, 0.01
POLICY = Policy(rules=(default_rule("answer_coverage"),))


def _release(number: int) -> Population:
    """Each release loses a point of what answers cover, with a noise of its own."""
    noise = np.random.default_rng(number).normal(0, 0.02, COUNT)
    coverage = np.clip(0.95 - STEP * number + noise, 0, 1)
    return population({"answer_coverage": coverage}, name=f"replay:r{number}", analyzer_versions={"1": COUNT})


def _judged(number: int, *, blocks: bool = False) -> GateReport:
    """A release against the one before, and against the first."""
    candidate = _release(number)
    report, against = (compare(_release(other), candidate, POLICY) for other in (number - 1, 0))
    return with_anchor(report, against, blocks=blocks)


def test_ten_releases_pass_and_the_loss_is_told() -> None:
    """Against the release before each one passes; against the anchor the loss is told from the fourth on, at the
    latest, and the first is not accused."""
    found = [_judged(number) for number in range(1, 11)]
    assert [each.decision for each in found] == ["pass"] * 10
    told = [bool(each.anchor and each.anchor.worse) for each in found]
    assert not any(told[:2])
    assert all(told[3:])
    last = found[-1]
    assert last.headline.startswith("Passed: ")
    assert "But since the anchor replay:r0, over all requests, answer coverage fell by 1" in last.headline
    assert any("ragtrace gate compare replay:r0 replay:r10" in step for step in last.next_steps)


def test_it_blocks_where_it_is_asked_to() -> None:
    """With the stage, and a sentence that does not accuse the release alone."""
    report = _judged(10, blocks=True)
    assert (report.decision, report.exit_code, report.first_broken) == ("block", 1, "generation")
    assert report.headline.startswith("Blocked: since the anchor replay:r0")
    assert "against the baseline nothing failed" in report.headline
    assert _judged(1, blocks=True).decision == "pass"


@pytest.mark.parametrize("form", SUFFIXES)
def test_every_form_says_so(form: str) -> None:
    """JUnit XML has a failure of its own for it."""
    text = render(_judged(10, blocks=True), form)  # type: ignore[arg-type]
    assert "since the anchor replay:r0" in " ".join(text.replace("\\", "").split())
    if form == "junit":
        assert 'failures="1"' in text
