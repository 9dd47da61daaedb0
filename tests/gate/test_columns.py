"""The columns of one side: every value in its place, and what cannot be judged counted."""

from __future__ import annotations

from math import isnan
from typing import Any

import pytest

from ragtrace.errors import InputError
from ragtrace.gate.columns import Columns
from ragtrace.gate.model import Population
from tests.gate.measured import measured

METRICS = ("answer_coverage", "broken_retrieval", "broken_ranking", "errors", "latency", "output_tokens")


def _population(*requests: Any, reference: Any = None, metrics: tuple[str, ...] = METRICS) -> Population:
    columns = Columns("candidate", "replay:b", metrics)
    for request in requests:
        columns.add(request)
    return columns.population(reference)


def _values(**fields: Any) -> dict[str, float | None]:
    found = _population(measured(values=(0.5,), **fields))
    return {metric: None if isnan(found.scores[metric][0]) else float(found.scores[metric][0]) for metric in METRICS}


def test_a_healthy_request_has_every_value() -> None:
    """Scores as they were analyzed, no broken stage, its time in seconds, its tokens."""
    assert _values(output_tokens=7) == {
        "answer_coverage": 0.5, "broken_retrieval": 0.0, "broken_ranking": 0.0, "errors": 0.0, "latency": 1.0,
        "output_tokens": 7.0,
    }  # fmt: skip


def test_only_the_first_broken_stage_is_broken() -> None:
    """Of the stages behind it nothing is known to be broken."""
    found = _values(verdict="selection_failure", stage="ranking")
    assert (found["broken_retrieval"], found["broken_ranking"]) == (0.0, 1.0)


def test_an_undetermined_request_tells_of_no_stage() -> None:
    """A verdict that nobody could reach is undefined, and so are tokens that nobody counted."""
    found = _values(verdict="undetermined")
    assert (found["broken_retrieval"], found["broken_ranking"], found["output_tokens"]) == (None, None, None)


@pytest.mark.parametrize(
    "fields", [{"status": "error"}, {"ended_at": 0}, {"ended_at": 999_999_999}], ids=["failed", "no end", "backwards"]
)
def test_a_time_that_says_nothing_is_undefined(fields: dict[str, Any]) -> None:
    """A request that failed was quick, and a clock that runs backwards measures nothing."""
    assert _values(**fields)["latency"] is None
    assert _values(**fields)["errors"] == float(fields.get("status") == "error")


def test_what_cannot_be_judged_is_counted() -> None:
    """Requests that wait for their analysis, flagged ones outside the sample, and impossible probabilities."""
    found = _population(
        measured("a", values=(0.5,)),
        measured("b", analyzer_version=None),
        measured("c", head_sampled=False, values=(0.5,)),
        measured("d", head_sampled=False, analyzer_version=None),
        measured("e", head_probability=0.0, values=(0.5,)),
    )
    assert list(found.request_ids) == ["a"]
    assert found.excluded == {
        "not analyzed": 1, "outside the random sample": 2, "without a usable sampling probability": 1,
    }  # fmt: skip


def test_requests_weigh_what_they_stand_for() -> None:
    """One that was kept with probability 0.1 stands for ten."""
    assert list(_population(measured(head_probability=0.1, values=(1.0,))).weights) == [pytest.approx(10.0)]


def test_references_are_never_mixed() -> None:
    """What was judged by the other kind of reference is left out, and counted."""
    requests = [
        measured("a", values=(1.0,)),
        measured("b", reference="proxy", values=(0.5,), cluster="s", versions={"model": "m2"}),
        measured("c", reference="none", values=(0.25,), cause="x"),
    ]
    oracle, proxy = _population(*requests, reference="oracle"), _population(*requests, reference="proxy")
    assert (list(oracle.request_ids), oracle.excluded) == (["a"], {"judged without an oracle reference": 2})
    assert (list(proxy.request_ids), proxy.excluded) == (["b", "c"], {"judged without a proxy reference": 1})
    assert (list(proxy.clusters), list(proxy.causes)) == (["s", "c"], ["", "x"])
    assert list(proxy.scores["answer_coverage"]) == [0.5, 0.25]
    assert proxy.versions == {"model": {"m1": 1, "m2": 1}}
    assert len(_population(*requests)) == 3


def test_the_last_attempt_of_a_replay_counts() -> None:
    """Whatever the order in which attempts come; earlier ones are counted."""
    again = {"replay": "n", "question": "q", "values": (1.0,)}
    found = _population(*(measured(f"r{each}", attempt=each, **again) for each in (2, 1, 3)))
    assert (list(found.request_ids), found.excluded) == (["r3"], {"an earlier attempt": 2})


def test_one_attempt_is_made_once() -> None:
    """The same question twice in a replay cannot be told apart."""
    again = {"replay": "n", "question": "q", "values": (1.0,)}
    with pytest.raises(InputError, match=r"the candidate 'replay:b' asked question 'q' twice"):
        _population(measured("a", **again), measured("b", **again))


def test_a_request_stands_there_once() -> None:
    """Twice, it would count twice."""
    with pytest.raises(InputError, match=r"the candidate 'replay:b' holds request 'a' twice; give each request once"):
        _population(measured("a", values=(1.0,)), measured("a", values=(1.0,)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1])
def test_an_impossible_score_is_said(value: float) -> None:
    """With its request: undefined is None, never NaN."""
    with pytest.raises(
        InputError, match=r"answer_coverage of request 'b' of the candidate is .*, and must be from 0 to 1"
    ):
        _population(measured("a", values=(1.0,)), measured("b", values=(value,)))


def test_many_requests_take_little_memory() -> None:
    """Words that repeat are one object, and versions are counted by their release."""
    versions = {"model": "m1"}
    segment = "".join(["se", "gment"])
    requests = (measured(f"r{at}", segment=segment, versions=versions, values=(1.0,)) for at in range(1_000))
    found = _population(*requests)
    assert len({id(each) for each in found.segments}) == 1
    assert found.versions == {"model": {"m1": 1_000}}
