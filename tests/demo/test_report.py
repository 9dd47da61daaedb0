"""The printed report of a demo run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ragtrace.demo.report import WIDTH, DemoResult, DiagnosisAccuracy, ScenarioResult, report

STAGES = ("retrieval", "ranking", "generation", "citation")
TITLES = ("with the oracle evidence", "with the proxy reference alone")


def _printed(*verdicts: str) -> list[str]:
    """The report of a run in which untouched requests got each of these verdicts, and faults every stage."""
    confusion = {(truth, found): 1_000 for truth in STAGES for found in STAGES}
    agreement = DiagnosisAccuracy(confusion | dict.fromkeys([("untouched", verdict) for verdict in verdicts], 7))
    scenario = ScenarioResult("recall", "a fault", 9, 0, agreement, agreement, (), None)
    output = io.StringIO()
    result = DemoResult("sqlite:///a.db", "demo", 1, 1, (scenario,), 1.0)
    Console(file=output, width=WIDTH, markup=False, highlight=False).print(report(result))
    return output.getvalue().splitlines()


def test_tables_stand_beside_each_other_where_there_is_room() -> None:
    """Both references at one glance; below each other where many verdicts came, so that no word is cut."""
    assert any(all(title in line for title in TITLES) for line in _printed())
    lines = _printed("healthy", "no_break_found", "error")
    assert not any(all(title in line for title in TITLES) for line in lines)
    heads = [line.split() for line in lines if line.startswith("true \\ found")]
    assert [" ".join(head[3:]) for head in heads] == ["retriev. ranking generat. citation error healthy no break"] * 2


@pytest.mark.parametrize("verdict", ["healthy", "no_break_found", "no_retrieval_needed", "error"])
def test_a_verdict_without_a_stage_blames_nobody(verdict: str) -> None:
    """It is right of an untouched request, whatever is not known of it."""
    agreement = DiagnosisAccuracy({("untouched", verdict): 3, ("untouched", "ranking"): 1})
    assert agreement.false_blame == 0.25
    assert any("7" in line for line in _printed(verdict) if line.startswith("untouched"))
