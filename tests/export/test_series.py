"""Folding totals into series: sums, labels of the registry, a bounded number of segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from ragtrace.export.series import MAX_JUDGES, OTHER, Budget, Key, Point, fold
from ragtrace.store import Exemplar, Total


def _late(service: str, segment: str, value: float, exemplar: Exemplar | None = None) -> Total:
    labels = (("segment", segment), ("service", service))
    return Total("ragtrace_late_evaluations_total", labels, value, exemplar)


def _budget(max_segments: int = 50, known: Mapping[tuple[str, str], Sequence[str]] | None = None) -> Budget:
    return Budget({"segment": max_segments}, known)


def _values(totals: Sequence[Total], max_segments: int) -> dict[tuple[str, ...], float]:
    return {key.labels: point.value for key, point in fold(totals, _budget(max_segments)).series.items()}


def test_labels_stand_in_the_registrys_order() -> None:
    """A series' labels are the instrument's, whatever order the store keeps them in."""
    series = fold([_late("shop", "price", 3.0)], _budget()).series
    assert series == {Key("late_evaluations", "", ("shop", "price")): Point(3.0)}


def test_segments_past_the_limit_are_summed_as_other() -> None:
    """The first segments keep their name, the others are one series, and are counted."""
    totals = [_late("shop", "a", 1.0), _late("shop", "b", 2.0), _late("shop", "c", 4.0), _late("shop", "d", 8.0)]
    budget = _budget(2)
    folding = fold(totals, budget)
    assert {key.labels: point.value for key, point in folding.series.items()} == {
        ("shop", "a"): 1.0,
        ("shop", "b"): 2.0,
        ("shop", OTHER): 12.0,
    }
    assert budget.folded == {("segment", "shop"): {"c", "d"}}
    assert budget.new == {("segment", "shop"): ["a", "b"]}
    assert folding.segments == {("shop", "a"), ("shop", "b"), ("shop", OTHER)}


def test_each_service_has_its_own_limit() -> None:
    """A service with many segments does not take the names of another's."""
    totals = [_late("loud", "a", 1.0), _late("loud", "b", 1.0), _late("quiet", "c", 1.0)]
    assert _values(totals, 1) == {("loud", "a"): 1.0, ("loud", OTHER): 1.0, ("quiet", "c"): 1.0}


def test_a_segment_called_other_uses_no_place() -> None:
    """A host's own segment `other` joins the folded ones and is not counted as folded."""
    budget = _budget(1)
    folding = fold([_late("shop", OTHER, 1.0), _late("shop", "a", 2.0), _late("shop", "b", 4.0)], budget)
    assert {key.labels[1]: point.value for key, point in folding.series.items()} == {OTHER: 5.0, "a": 2.0}
    assert budget.folded == {("segment", "shop"): {"b"}}


def test_the_newest_exemplar_of_folded_series_is_kept() -> None:
    """Where series are summed, their newest exemplar stands for them; one without exemplar takes none away."""
    old, new = Exemplar("old", 1.0, 10.0), Exemplar("new", 1.0, 20.0)
    totals = [_late("shop", "a", 1.0, new), _late("shop", "b", 1.0, old), _late("shop", "c", 1.0)]
    assert fold(totals, _budget(0)).series[Key("late_evaluations", "", ("shop", OTHER))].exemplar == new


def test_totals_that_the_registry_lacks_are_left_out() -> None:
    """A metric of an earlier version makes no series, and its segments none either."""
    folding = fold([Total("ragtrace_former_total", (("segment", "a"), ("service", "shop")), 1.0)], _budget())
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
        return fold(totals, _budget()).judges.get("shop", ())

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
    assert _values(totals, 5) == {("shop", "a"): 7.0}


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=3), st.floats(0, 1e6)), max_size=20), st.integers(0, 4)
)
def test_folding_neither_loses_nor_adds(rows: list[tuple[str, str, float]], limit: int) -> None:
    """Whatever the limit, a service's sum stays what it was, and at most limit + 1 series remain."""
    totals = [_late(service, segment, value) for service, segment, value in rows]
    folded = _values(totals, limit)
    for service in "ab":
        before = sum(value for name, _, value in rows if name == service)
        after = [value for labels, value in folded.items() if labels[0] == service]
        assert abs(sum(after) - before) <= 1e-9 * max(1.0, before)
        assert len(after) <= limit + 1


@given(st.permutations("abcdefg"), st.integers(0, 7), st.integers(1, 4))
def test_no_order_of_arrival_moves_a_series(segments: list[str], known: int, limit: int) -> None:
    """Segments that another clock dates before those that have a place, or that come at any other time, rename none of
    them: no counter falls, and `other` grows by what is new only."""
    first = [_late("shop", segment, 1.0) for segment in segments[:known]]
    budget = _budget(limit)
    before = {key.labels: point.value for key, point in fold(first, budget).series.items()}
    later = _budget(limit, budget.new)
    totals = sorted([_late("shop", segment, 1.0) for segment in segments], key=lambda total: total.labels)
    after = {key.labels: point.value for key, point in fold(totals, later).series.items()}
    assert all(after[labels] >= value for labels, value in before.items())
    assert after.get(("shop", OTHER), 0.0) == max(0, len(segments) - limit)


def test_a_lower_limit_folds_the_last_places() -> None:
    """The first ones keep their name; a higher limit gives the others their place back."""
    places = {("segment", "shop"): ("a", "b", "c")}
    totals = [_late("shop", segment, 1.0) for segment in "cba"]
    for limit, names in ((1, {"a", OTHER}), (2, {"a", "b", OTHER}), (5, {"a", "b", "c"})):
        budget = _budget(limit, places)
        assert {key.labels[1] for key in fold(totals, budget).series} == names
        assert not budget.new


def test_other_labels_have_budgets_of_their_own() -> None:
    """Sources are named apart from segments, each within its own limit."""
    budget = Budget({"segment": 1, "source": 2})
    assert [budget.named("source", "shop", name) for name in "abc"] == ["a", "b", OTHER]
    assert [budget.named("segment", "shop", name) for name in "abc"] == ["a", OTHER, OTHER]
    assert [budget.named("metric", "shop", name) for name in "abc"] == ["a", "b", "c"]
