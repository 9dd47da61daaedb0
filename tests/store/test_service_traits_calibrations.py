"""A calibration is proposed into shadow, counts what it would have said, and judges once it is accepted."""

from __future__ import annotations

from dataclasses import replace

from ragtrace.store import FaultFigures, ServiceCalibration, ShadowCounts, Store

FIRST = ServiceCalibration(
    calibration_id="one",
    service="shop",
    judge="j1",
    created_at=5,
    until=4,
    versions={"model": "m-1"},
    raised={"ranking": 0.5, "rewrite": None},
    requests=300,
    blamed=0.01,
    blamed_high=0.02,
    faults=(FaultFigures("ranking", 40, 20, 1, 10),),
)


def test_what_was_fitted_comes_back_as_it_was(store: Store) -> None:
    """Lines that are never reached are None, and stay so; other services are apart."""
    store.propose_calibration(FIRST)
    assert store.calibrations(["shop"]) == store.calibrations() == [FIRST]
    assert store.calibrations(["other"]) == []


def test_one_of_each_judge_is_in_shadow_and_one_at_work(store: Store) -> None:
    """Another proposal takes the place of the first, of the same service and judge alone; one that is accepted retires
    the one before."""
    store.propose_calibration(FIRST)
    store.propose_calibration(replace(FIRST, calibration_id="model", judge="j2", created_at=6))
    store.propose_calibration(replace(FIRST, calibration_id="two", created_at=7))
    assert [each.calibration_id for each in store.calibrations()] == ["two", "model"]
    assert store.accept_calibration("two", 8)
    store.propose_calibration(replace(FIRST, calibration_id="three", created_at=9))
    assert store.accept_calibration("three", 10)
    assert not store.accept_calibration("three", 11)
    states = {each.calibration_id: (each.state, each.accepted_at) for each in store.calibrations()}
    assert states == {"three": ("active", 10), "two": ("retired", 8), "model": ("shadow", None)}
    assert store.reject_calibration("model")
    assert not store.reject_calibration("three")


def test_what_is_said_in_shadow_adds_up_until_it_is_accepted(store: Store) -> None:
    """Workers add their counts; those of a calibration at work stay as they are."""
    store.propose_calibration(FIRST)
    for _ in range(2):
        store.note_shadow({"one": ShadowCounts(16, 3, 2), "gone": ShadowCounts(1, 1, 1)})
    store.accept_calibration("one", 8)
    store.note_shadow({"one": ShadowCounts(16, 3, 2)})
    assert store.calibrations()[0].shadow == ShadowCounts(32, 6, 4)


def test_a_proposal_from_lines_that_judge_no_longer_is_not_kept(store: Store) -> None:
    """Another one was accepted while it was fitted: it could name more than that one."""
    assert store.propose_calibration(FIRST, fitted_from=None)
    assert store.accept_calibration("one", 6)
    late = replace(FIRST, calibration_id="late", created_at=7)
    assert not store.propose_calibration(late, fitted_from=None)
    assert [each.calibration_id for each in store.calibrations()] == ["one"]
    assert store.propose_calibration(late, fitted_from="one")
