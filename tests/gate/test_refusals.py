"""Refusals told apart: the evidence was there, it was not, or nothing tells."""

from __future__ import annotations

from math import nan
from pathlib import Path

import numpy as np
import pytest

from ragtrace.analyze.worker import run as analyze
from ragtrace.gate._metrics import METRICS, REFUSALS, refusals, silence
from ragtrace.gate._population import compared, load
from ragtrace.gate.policy import default_rule
from ragtrace.gate.runs import compare
from ragtrace.gate.selection import parse
from ragtrace.gate.types import GateReport, Policy, Population
from ragtrace.store import Store
from ragtrace.types import GenerateRun, Generation, Gold, RequestRecord, encode_record, replace
from tests.gate.measured import recorded
from tests.gate.populations import population

DECLINES = "I am sorry, I cannot answer that question."
COUNT = 200


def _answered(request_id: str, answer: str) -> RequestRecord:
    found = recorded(request_id)
    return replace(found, stages=(*found.stages[:2], GenerateRun(generation=Generation(answer=answer))))


@pytest.mark.parametrize(
    ("retrieval", "ranking", "generation", "kind"),
    [
        ("sound", "sound", "not_known", "false_refusals"),
        ("suspected", "not_known", "broken", "false_refusals"),
        ("broken", "sound", "not_known", "right_refusals"),
        ("sound", "broken", "suspected", "right_refusals"),
        ("suspected", "sound", "suspected", "untold_refusals"),
        ("", "", "", "untold_refusals"),
    ],
)
def test_the_states_tell(retrieval: str, ranking: str, generation: str, kind: str) -> None:
    """Of an answer that states nothing; one that states something is no refusal, whatever broke."""
    states = {"retrieval": [retrieval] * 3, "ranking": [ranking] * 3, "generation": [generation] * 3}
    codes = population({"errors": [0] * 3}, states=states).states  # type: ignore[arg-type]  # the registry's stages
    found = refusals(np.array([1.0, 0.0, nan]), codes)
    for metric in REFUSALS:
        assert list(found[metric]) == pytest.approx([float(metric == kind), 0.0, nan], nan_ok=True)
    assert list(silence(found)) == pytest.approx([1.0, 0.0, nan], nan_ok=True)


@pytest.mark.parametrize(
    ("gold", "kinds"),
    [
        ("hx-2", [None, "false_refusals", "false_refusals", "false_refusals"]),
        ("elsewhere", [None, "right_refusals", "right_refusals", "right_refusals"]),
        (None, [None, "untold_refusals", "false_refusals", "false_refusals"]),
    ],
)
def test_a_store_and_a_file_tell(tmp_path: Path, gold: str | None, kinds: list[str | None]) -> None:
    """By gold evidence that is in the prompt or was never found. Without any, an answer that declines casts doubt on
    the evidence; one that is empty does not, beside a chunk that matches the question."""
    records = [recorded("r0"), _answered("r1", DECLINES), _answered("r2", ""), _answered("r3", "Hello!")]
    url, file = f"sqlite:///{tmp_path}/gate.db", tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join(map(encode_record, records)))
    with Store.open(url) as store:
        golds = [Gold(service="shop", question=each.query.original, chunk_ids=(gold,)) for each in records if gold]
        store.put_gold(golds)
        store.write(records)
        analyze(store)
    for source in (url, str(file)):
        [found] = load([parse("--side", source)], store=url, service=None, metrics=["false_refusals"]).populations
        for metric in REFUSALS:
            assert list(found.scores[metric]) == [float(kind == metric) for kind in kinds]


def _side(name: str, refused: range, retrieval: str = "suspected", generation: str = "sound") -> Population:
    """Each question is answered but for those that are refused, of which the states before tell by `retrieval`."""
    silent = np.array([float(row in refused) for row in range(COUNT)])
    states = {
        "retrieval": [retrieval] * COUNT,
        "generation": ["not_known" if row in refused else generation for row in range(COUNT)],
    }
    bare = population({"errors": np.zeros(COUNT)}, name=name, states=states)  # type: ignore[arg-type]  # as above
    return population({**bare.scores, **refusals(silent, bare.states)}, name=name, states=states)  # type: ignore[arg-type]


def test_a_sound_answer_to_the_same_question_tells() -> None:
    """A question that either side answered could be answered; one that both decline stays open. Sides count alike."""
    before, after = _side("one", range(5)), _side("two", range(3, 20))
    for one, two, false in ((before, after, range(5, 20)), (after, before, range(3))):
        found = compared(one, two, "paired").candidate.scores
        assert list(np.flatnonzero(found["false_refusals"])) == list(false)
        assert list(np.flatnonzero(found["untold_refusals"])) == [3, 4]
    assert not before.scores["false_refusals"].any()
    assert not compared(before, after, "unpaired").candidate.scores["false_refusals"].any()
    bare = population({"errors": np.zeros(COUNT)}, name="bare")
    assert compared(before, bare, "paired").candidate is bare


def _judged(baseline: Population, candidate: Population, *, paired: bool = True) -> GateReport:
    rules = tuple(default_rule(metric) for metric in (*REFUSALS, "errors"))
    return compare(baseline, candidate, Policy(rules=rules, pairing="paired" if paired else "unpaired"))


def test_false_refusals_block() -> None:
    """Where the evidence was there, and where the baseline answered soundly."""
    answers = _side("one", range(0), "sound")
    for retrieval in ("sound", "suspected"):
        found = _judged(answers, _side("two", range(40), retrieval))
        assert (found.decision, found.first_broken) == ("block", "generation")
        assert [cell.metric for cell in found.cells if cell.blocks and not cell.segment] == ["false_refusals"]
        assert "false refusals" in found.headline


def test_right_refusals_explain() -> None:
    """What was lost before blocks by itself; that the candidate says so is no harm."""
    found = _judged(_side("one", range(0), "broken", "suspected"), _side("two", range(40), "broken"))
    [cell] = [cell for cell in found.cells if cell.metric == "right_refusals" and not cell.segment]
    assert (found.decision, cell.outcome, cell.action) == ("pass", "fail", "warn")


def test_refusals_of_which_nothing_tells_leave_a_run_open() -> None:
    """They neither block nor pass, and the next step is to give questions their evidence."""
    sides = _side("one", range(0), generation="suspected"), _side("two", range(40))
    for paired in (True, False):
        found = _judged(*sides, paired=paired)
        assert found.decision == "undecided"
        assert "refusals that may be right or false rose" in found.headline
        assert any("evidence (a gold set)" in step for step in found.next_steps)
    relaxed = Policy(rules=found.policy.rules, pairing="unpaired", on_suspected="warn")
    assert compare(*sides, relaxed).decision == "pass"


def test_refusals_are_metrics_of_generation() -> None:
    """Only those of which nothing tells prove nothing."""
    assert {METRICS[metric].stage for metric in REFUSALS} == {"generation"}
    assert [METRICS[metric].hint for metric in REFUSALS] == [False, False, True]
    assert [default_rule(metric).action for metric in REFUSALS] == ["block", "warn", "warn"]
