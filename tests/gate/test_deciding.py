"""From judged cells to one decision, and to what a reader must know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from ragtrace.gate.deciding import decide, first_broken, warnings
from ragtrace.gate.defaults import default_rule
from ragtrace.gate.metrics import METRICS
from ragtrace.gate.model import Cell, Comparison, Policy
from tests.gate.populations import population


def cell(outcome: str, metric: str = "answer_coverage", **fields: Any) -> Cell:
    """One judged cell; any field may be given."""
    known = METRICS[metric]
    given: dict[str, Any] = {
        "stage": known.stage,
        "segment": None,
        "family": "overall",
        "action": "block",
        "margin": 0.03,
    }
    given |= {"kind": known.kind, "direction": known.direction, "outcome": outcome, "reason": "", "n": (9, 9), **fields}
    return msgspec.convert({"metric": metric, **given}, Cell)


def segment(outcome: str, **fields: Any) -> Cell:
    """A cell of a segment."""
    return cell(outcome, **{"segment": "refunds", "family": "segments", **fields})


PASS = cell("pass")


@pytest.mark.parametrize(
    ("cells", "changes", "decision"),
    [
        ((PASS,), {}, "pass"),
        ((PASS, cell("fail")), {}, "block"),
        ((PASS, segment("fail")), {}, "block"),
        ((PASS, cell("fail", family="floors")), {}, "block"),
        ((PASS, cell("fail", action="warn")), {}, "pass"),
        ((PASS, segment("fail", action="warn")), {}, "pass"),
        ((PASS, cell("inconclusive")), {}, "undecided"),
        ((PASS, cell("inconclusive")), {"on_inconclusive": "warn"}, "pass"),
        ((PASS, cell("inconclusive", action="warn")), {}, "pass"),
        ((PASS, cell("inconclusive", family="floors")), {}, "undecided"),
        ((PASS, cell("not_enough_data")), {}, "undecided"),
        ((PASS, cell("not_enough_data")), {"on_inconclusive": "warn"}, "pass"),
        ((PASS, segment("inconclusive")), {}, "pass"),
        ((PASS, segment("inconclusive")), {"on_inconclusive_segment": "block"}, "undecided"),
        ((PASS, segment("not_enough_data")), {"on_inconclusive_segment": "block"}, "pass"),
        ((PASS, segment("not_enough_data", required=True)), {}, "block"),
        ((PASS, segment("not_enough_data", required=True)), {"on_missing": "warn"}, "pass"),
        ((cell("inconclusive"), segment("not_enough_data", required=True)), {}, "block"),
        ((cell("inconclusive"), segment("fail")), {}, "block"),
        ((cell("inconclusive"),), {"on_inconclusive": "warn"}, "pass"),
        ((cell("inconclusive"), cell("not_enough_data")), {"on_inconclusive": "warn"}, "pass"),
        ((cell("not_enough_data"),), {"on_inconclusive": "warn"}, "undecided"),
        ((cell("not_enough_data", action="warn"),), {}, "undecided"),
        ((cell("fail", action="warn"),), {}, "pass"),
        ((cell("inconclusive", action="warn"), segment("fail", action="warn")), {}, "pass"),
        ((), {}, "undecided"),
    ],
)
def test_the_decision_follows_the_policy(cells: Sequence[Cell], changes: dict[str, Any], decision: str) -> None:
    """Harm first, then what is missing, then what is open; what was never judged is no pass."""
    assert decide(cells, Policy(rules=(default_rule("answer_coverage"),), **changes)) == decision


def test_the_earliest_stage_that_blocks_is_named() -> None:
    """In the order of the stages, whatever the order of the cells; warnings name none."""
    late, early = cell("fail", "citation_coverage"), segment("fail", metric="evidence_recall")
    assert first_broken([late, early, cell("fail", "errors")]) == "ranking"
    assert first_broken([late, segment("fail", metric="evidence_recall", action="warn")]) == "citation"
    assert first_broken([cell("fail", "errors")]) is None


def _comparison(**fields: Any) -> Comparison:
    one = population({"answer_coverage": [1.0, 1.0]})
    return Comparison(one, replace(one, **fields), np.array([[0, 0]]), (1, 1))


def test_what_was_left_out_is_said() -> None:
    """Rows without a partner, requests that cannot be judged, rules without data, and sides that mix versions."""
    mixed = {"model": {"m1": 5, "m2": 9, "m3": 1, "m4": 2}, "index": {"i": 17}}
    told = warnings(_comparison(excluded={"not analyzed": 4}, versions=mixed), [PASS], ["output_tokens"])
    assert told == (
        "Left out of the candidate: 4 not analyzed.",
        "The candidate mixes versions: model m2 (9), m1 (5), m4 (2), ....",
        "Without a partner, and left out: 1 of the baseline's requests and 1 of the candidate's.",
        "Neither side has them, so they are not judged: output_tokens.",
    )


def test_a_margin_that_cannot_be_detected_is_said() -> None:
    """Only where the data leave the rule open: what was found, or shown to be no worse, needs no more data."""
    weak: dict[str, Any] = {"detectable": 0.1, "needed": 400}
    cells = [cell("inconclusive", **weak), cell("pass", **weak), cell("fail", **weak), segment("inconclusive", **weak),
             cell("inconclusive", "errors", detectable=0.01, needed=9)]  # fmt: skip
    told = warnings(Comparison(_comparison().baseline, _comparison().candidate, None), cells, [])
    assert told == (
        "With these data the policy cannot detect its own margin of answer coverage (400 requests a side would).",
    )
