"""The demo's scenarios as pipelines of a replay, and its questions as a file. tests/gate/test_demo.py gates them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragtrace.demo import pipelines
from ragtrace.demo._corpus import load_questions
from ragtrace.demo._faults import SCENARIOS
from ragtrace.demo.runner import SERVICE
from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay_inputs import load_pipeline, read_questions


def test_the_questions_come_back_as_they_are(tmp_path: Path) -> None:
    """With their classes, oracle evidence and facets, each under an id of its own."""
    file = tmp_path / "questions.jsonl"
    assert pipelines.write_questions(file) == len(load_questions())
    read = read_questions(file)
    assert [question.as_gold(SERVICE) for question in read] == [each.gold(SERVICE) for each in load_questions()]
    assert [question.id for question in read[:2]] == ["q000", "q001"]


def test_each_scenario_has_its_pipeline() -> None:
    """Under its own name."""
    for scenario in SCENARIOS:
        assert load_pipeline(f"ragtrace.demo.pipelines:{scenario.name}") is getattr(pipelines, scenario.name)


def test_an_unknown_scenario_is_refused() -> None:
    """As everywhere."""
    nothing: Any = None
    with pytest.raises(ConfigurationError, match="unknown scenario 'chaos'"):
        pipelines.assistant("chaos", nothing)
