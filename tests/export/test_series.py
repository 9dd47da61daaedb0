"""Folding totals into series: sums, labels of the registry, a bounded number of segments."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ragtrace.export.series import OTHER, Key, Point, fold
from ragtrace.store import Exemplar, Total


def _late(service: str, segment: str, value: float, exemplar: Exemplar | None = None) -> Total:
    labels = (("segment", segment), ("service", service))
    return Total("ragtrace_late_evaluations_total", labels, value, exemplar)


def _values(totals: Sequence[Total], max_segments: int) -> dict[tuple[str, ...], float]:
    return {key.labels: point.value for key, point in fold(totals, max_segments).series.items()}


def test_labels_stand_in_the_registrys_order() -> None:
    """A series' labels are the instrument's, whatever order the store keeps them in."""
    series = fold([_late("shop", "price", 3.0)]).series
    assert series == {Key("late_evaluations", "", ("shop", "price")): Point(3.0)}


def test_segments_past_the_limit_are_summed_as_other() -> None:
    """The first segments keep their name, the others are one series, and are counted."""
    totals = [_late("shop", "a", 1.0), _late("shop", "b", 2.0), _late("shop", "c", 4.0), _late("shop", "d", 8.0)]
    folding = fold(totals, 2)
    assert {key.labels: point.value for key, point in folding.series.items()} == {
        ("shop", "a"): 1.0,
        ("shop", "b"): 2.0,
        ("shop", OTHER): 12.0,
    }
    assert folding.folded == {"shop": 2}
    assert folding.segments == {("shop", "a"), ("shop", "b"), ("shop", OTHER)}


def test_each_service_has_its_own_limit() -> None:
    """A service with many segments does not take the names of another's."""
    totals = [_late("loud", "a", 1.0), _late("loud", "b", 1.0), _late("quiet", "c", 1.0)]
    assert _values(totals, 1) == {("loud", "a"): 1.0, ("loud", OTHER): 1.0, ("quiet", "c"): 1.0}


def test_a_segment_called_other_uses_no_place() -> None:
    """A host's own segment `other` joins the folded ones and is not counted as folded."""
    folding = fold([_late("shop", OTHER, 1.0), _late("shop", "a", 2.0), _late("shop", "b", 4.0)], 1)
    assert {key.labels[1]: point.value for key, point in folding.series.items()} == {OTHER: 5.0, "a": 2.0}
    assert folding.folded == {"shop": 1}


def test_the_newest_exemplar_of_folded_series_is_kept() -> None:
    """Where series are summed, their newest exemplar stands for them; one without exemplar takes none away."""
    old, new = Exemplar("old", 1.0, 10.0), Exemplar("new", 1.0, 20.0)
    totals = [_late("shop", "a", 1.0, new), _late("shop", "b", 1.0, old), _late("shop", "c", 1.0)]
    assert fold(totals, 0).series[Key("late_evaluations", "", ("shop", OTHER))].exemplar == new


def test_totals_that_the_registry_lacks_are_left_out() -> None:
    """A metric of an earlier version makes no series, and its segments none either."""
    folding = fold([Total("ragtrace_former_total", (("segment", "a"), ("service", "shop")), 1.0)])
    assert folding.series == {}
    assert folding.segments == set()


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


@given(st.lists(st.text(min_size=1, max_size=2), unique=True, max_size=8), st.integers(1, 4))
def test_a_later_segment_moves_no_earlier_one(segments: list[str], limit: int) -> None:
    """A new segment never renames a series that was there before, so no counter falls."""
    totals = [_late("shop", segment, 1.0) for segment in segments]
    for known in range(len(totals)):
        before, after = _values(totals[:known], limit), _values(totals[: known + 1], limit)
        assert all(after[labels] >= value for labels, value in before.items())
