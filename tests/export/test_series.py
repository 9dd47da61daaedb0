"""Folding totals into series: sums, labels of the registry, the names that the budgets leave."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from ragtrace.export import _series as series
from ragtrace.export._series import MAX_JUDGES, Key, SeriesBudget, SeriesValue, fold
from ragtrace.store import Exemplar, Total, totals
from ragtrace.store.totals import OTHER


def _late(service: str, segment: str, value: float, exemplar: Exemplar | None = None) -> Total:
    labels = (("segment", segment), ("service", service))
    return Total("ragtrace_late_evaluations_total", labels, value, exemplar)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets that are soon used up."""
    monkeypatch.setattr(series, "LIMITS", {**totals.LIMITS, "segment": 2, "service": 3})


def _values(totals: Sequence[Total]) -> dict[tuple[str, ...], float]:
    return {key.labels: point.value for key, point in fold(totals, SeriesBudget()).series.items()}


def test_labels_stand_in_the_registrys_order() -> None:
    """A series' labels are the instrument's, whatever order the store keeps them in."""
    found = fold([_late("shop", "price", 3.0)], SeriesBudget()).series
    assert found == {Key("late_evaluations", "", ("shop", "price")): SeriesValue(3.0)}


def test_what_has_no_place_is_summed_as_other() -> None:
    """Totals of which another process has not yet said the name, each under the name that it will have."""
    totals = [_late("shop", segment, float(1 << place)) for place, segment in enumerate(["a", "b", "c", "d", OTHER])]
    budget = SeriesBudget({("service", ""): ["shop"], ("segment", "shop"): ["b"]})
    folding = fold(totals, budget)
    assert {key.labels: point.value for key, point in folding.series.items()} == {
        ("shop", "a"): 1.0,
        ("shop", "b"): 2.0,
        ("shop", OTHER): 28.0,
    }
    assert budget.new == [("segment", "shop", "a")]
    assert folding.segments == {("shop", "a"), ("shop", "b"), ("shop", OTHER)}


def test_a_place_beyond_the_budget_is_kept() -> None:
    """What has counted by name goes on so, though the budget was larger then, or an operator admitted it."""
    names = ["a", "b", "c", "d", "e"]
    budget = SeriesBudget({("service", ""): names})
    assert [budget.service(name) for name in (*names, "f")] == [*names, OTHER]
    assert (budget.service("one/a"), budget.service("one/other"), budget.new) == (
        "one/a",
        "one/other",
        [("tenant", "", "one"), ("service", "one", "one/a")],
    )


def test_the_newest_exemplar_of_folded_series_is_kept() -> None:
    """Where series are summed, their newest exemplar stands for them; one without exemplar takes none away."""
    old, new = Exemplar("old", 1.0, 10.0), Exemplar("new", 1.0, 20.0)
    totals = [_late("shop", "a", 1.0, new), _late("shop", "b", 1.0, old), _late("shop", "c", 1.0)]
    full = SeriesBudget({("segment", "shop"): ["x", "y"]})
    assert fold(totals, full).series[Key("late_evaluations", "", ("shop", OTHER))].exemplar == new


def test_totals_that_the_registry_lacks_are_left_out() -> None:
    """A metric of an earlier version makes no series, and its segments none either."""
    folding = fold([Total("ragtrace_former_total", (("segment", "a"), ("service", "shop")), 1.0)], SeriesBudget())
    assert folding.series == {}
    assert folding.segments == set()


@given(st.lists(st.sampled_from("abcde"), max_size=12), st.lists(st.sampled_from("abcde"), max_size=6))
def test_a_judge_that_has_ended_does_not_come_back(before: list[str], after: list[str]) -> None:
    """Whatever appears later, at most two judges are shown, and one that was left out once stays out."""

    def shown(judges: list[str]) -> tuple[str, ...]:
        totals = [
            Total("ragtrace_sli_requests_total", (("judge", judge), ("segment", "a"), ("service", "shop")), 1.0)
            for judge in judges
        ]
        return fold(totals, SeriesBudget()).judges.get("shop", ())

    last = list(dict.fromkeys(before))[-MAX_JUDGES:]
    assert list(shown(before)) == last
    gone = set(before) - set(last)
    assert not gone & set(shown(before + after))
    assert len(shown(before + after)) <= MAX_JUDGES


def test_labels_that_the_registry_lacks_are_summed_over() -> None:
    """Totals that differ only in a label that the metric no longer has are one series, never a duplicate."""
    base = (("segment", "a"), ("service", "shop"))
    totals = [
        Total("ragtrace_late_evaluations_total", (*base, ("tenant", "x")), 1.0),
        Total("ragtrace_late_evaluations_total", (*base, ("tenant", "y")), 2.0),
        Total("ragtrace_late_evaluations_total", base, 4.0),
    ]
    assert _values(totals) == {("shop", "a"): 7.0}


def test_answers_far_from_their_questions_stand_at_0_where_a_judge_tells_of_them() -> None:
    """In the other segments of its service; a service or a judge without such a model has no such series."""
    labels = {"stage": "generation", "stratum": "random", "reference": "proxy", "judge": "j1"}

    def total(name: str, service: str, segment: str, **more: str) -> Total:
        given = labels | {"service": service, "segment": segment} | more
        return Total(f"ragtrace_{name}_total", tuple(sorted(given.items())), 1.0, None)

    judged = [
        total("sli_requests", service, segment, scope="all", judge=judge)
        for service, segment, judge in [("shop", "a", "j1"), ("shop", "b", "j2"), ("bank", "a", "j1")]
    ]
    known = series.zeros(fold([*judged, total("sli_distant_requests", "shop", "a")], SeriesBudget()))
    found = {key.labels for key in known if key.instrument == "sli_distant_requests"}
    assert {(service, segment, stage, judge) for service, segment, stage, _, _, judge in found} == {
        ("shop", segment, "generation", "j1") for segment in ("a", "b")
    }
