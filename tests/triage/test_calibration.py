"""A calibration is proposed from calm traffic alone, is frozen, and never hides a release that breaks much."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace as dataclass_replace
from pathlib import Path

import pytest

from ragtrace.analyze import judge_id
from ragtrace.analyze.worker import WorkerSettings, run
from ragtrace.errors import ConfigurationError, NotJudged
from ragtrace.store import RequestLabel, ServiceCalibration, Store
from ragtrace.triage import Window, calibration_words, stage_words
from ragtrace.triage.calibration import (
    DAY,
    accept_calibration,
    propose_calibration,
)
from ragtrace.triage.labels import active_calibration, draw_labels
from ragtrace.types import RequestRecord, replace
from tests.triage.calibrated import MINUTE, SERVICE, START, requests

COUNT = 220
CALM = Window.of(START, START + COUNT * MINUTE)
RELEASE = START + COUNT * MINUTE
RELEASED = Window.of(RELEASE + 10 * MINUTE, RELEASE + (COUNT + 10) * MINUTE)
NOW = RELEASE + 2 * DAY


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Requests of a service in which nothing is wrong, analyzed, and a calibration proposed from them."""
    file = tmp_path_factory.mktemp("calibration") / "calm.db"
    with Store.open(f"sqlite:///{file}") as store:
        store.write(list(requests(COUNT)))
        run(store, WorkerSettings(batch=64))
        propose_calibration(store, SERVICE, CALM, copies=15, now=RELEASE)
    return file


@pytest.fixture
def calm(traffic: Path, tmp_path: Path) -> Iterator[Store]:
    """A copy of it."""
    copy = tmp_path / "copy.db"
    shutil.copy(traffic, copy)
    with Store.open(f"sqlite:///{copy}") as store:
        yield store


def _named(store: Store, version: str) -> float:
    """The share of the broken requests of a version whose ranking is named."""
    ids = [row.request_id for row in store.find_requests(service=SERVICE, limit=1000)]
    broken = [id_ for id_ in ids if id_.startswith(version) and id_.endswith("broken")]
    found = [store.get_analysis(id_, "coverage") for id_ in broken]
    return sum(each is not None and each.diagnosis.stage == "ranking" for each in found) / len(broken)


def test_a_release_that_breaks_two_fifths_is_still_named_after_calibrate(calm: Store) -> None:
    """By the frozen calibration as before it, and no other one is proposed from the time of the release or after."""
    _shadowed(calm)
    accepted = accept_calibration(calm, calm.calibrations()[0].calibration_id, now=NOW)
    calm.write(list(requests(COUNT, start=RELEASE + 10 * MINUTE, version="r-2", broken=0.4)))
    run(calm, WorkerSettings(batch=64))
    before = _named(calm, "r-2")
    for window in (Window.of(START, RELEASED.until), RELEASED):
        with pytest.raises(ConfigurationError, match="no calibration is proposed") as refused:
            propose_calibration(calm, SERVICE, window, now=NOW)
        assert "ranking is over its objective" in str(refused.value)
        assert f"when calibration {accepted.calibration_id} was fitted" in str(refused.value)
    assert {each.state for each in calm.calibrations()} == {"active"}
    calm.write(list(requests(30, start=RELEASED.until, version="r-2", broken=0.4)))
    run(calm, WorkerSettings(batch=64))
    assert _named(calm, "r-2") >= before >= 0.9


def _shadowed(store: Store) -> None:
    """Let ten requests be judged while the proposal is in shadow."""
    store.write(list(requests(10, start=RELEASE)))
    run(store, WorkerSettings())


def test_a_release_in_the_window_is_a_reason_by_itself(calm: Store) -> None:
    """Even one that breaks nothing: what is sound now may be sound otherwise."""
    calm.write(list(requests(40, start=RELEASE, version="r-2")))
    run(calm, WorkerSettings(batch=64))
    with pytest.raises(ConfigurationError, match="reranker=r-2 was released in it"):
        propose_calibration(calm, SERVICE, Window.of(START, RELEASE + 40 * MINUTE), now=NOW)


def test_a_break_of_one_small_segment_is_a_reason(calm: Store) -> None:
    """Six broken requests of ten: less than one in thirty of all, which all together do not show."""
    broken = _spread(requests(6, start=START + MINUTE // 2, broken=1.0), 36)
    sound = _spread(requests(4, start=START + 18 * MINUTE + MINUTE // 2), 50)
    calm.write([replace(each, segment="night") for each in (*broken, *sound)])
    run(calm, WorkerSettings(batch=64))
    with pytest.raises(ConfigurationError) as refused:
        propose_calibration(calm, SERVICE, CALM, copies=5, now=NOW)
    assert "window: ranking in segment night is over its objective." in str(refused.value)


def _spread(found: Iterable[RequestRecord], minutes: int) -> list[RequestRecord]:
    """These requests so many minutes apart, where they were one apart."""
    return [
        replace(each, started_at=at, ended_at=at + MINUTE // 60)
        for place, each in enumerate(found)
        for at in (each.started_at + place * (minutes - 1) * MINUTE,)
    ]


def test_several_tiny_segments_count_as_one(calm: Store) -> None:
    """A break that each of them hides is seen in all of them together."""
    broken = _spread(requests(12, start=START + MINUTE // 2, broken=0.6), 18)
    calm.write([replace(each, segment=f"s{place % 3}") for place, each in enumerate(broken)])
    run(calm, WorkerSettings(batch=64))
    with pytest.raises(ConfigurationError, match=r"ranking in segment \*other\* is over its objective"):
        propose_calibration(calm, SERVICE, CALM, copies=5, now=NOW)


class _Silent:
    """A judge of answers that judges no question about some cards."""

    name, digest, calibration = "silent", "0", None

    def answers(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        if any(card in question for question, _ in pairs for card in ("amber", "basalt", "cobalt")):
            raise NotJudged("odd", "nothing was said")
        return [0.9] * len(pairs)


def test_labels_of_what_no_model_judged_waive_nothing(calm: Store) -> None:
    """Enough requests are called sound, but too few of them can be judged by the model that is calibrated: whether the
    stage that burns is broken or blamed is not known then."""
    calm.write(_spread(requests(24, start=START + MINUTE // 2, broken=1.0), 9))
    run(calm, WorkerSettings(batch=64))
    ids = [row.request_id for row in calm.find_requests(service=SERVICE, limit=1000)]
    drawing = draw_labels(calm, SERVICE, CALM, len(ids))
    drawn = [each.request_id for each in calm.drawn_requests(drawing.drawing_id)]
    sound = [each for each in drawn if each.endswith("sound")][:190]
    calm.put_labels([RequestLabel(id_, "ada", "none", labeled_at=START) for id_ in sound])
    assert propose_calibration(calm, SERVICE, CALM, copies=5, now=NOW).labeled_sound == 190
    with pytest.raises(ConfigurationError, match="ranking is over its objective"):
        propose_calibration(calm, SERVICE, CALM, WorkerSettings(answers=_Silent()), copies=5, now=NOW)


class _Names:
    """Reads no name in any question."""

    name = "none"

    def __call__(self, text: str) -> list[tuple[int, int, str]]:
        return []


def test_what_reads_names_is_part_of_the_judge(calm: Store) -> None:
    """Its lines are no others' lines, and it is named beside the models."""
    words = calm.calibrations()[0]
    read = propose_calibration(calm, SERVICE, CALM, WorkerSettings(entities=_Names()), copies=5, now=RELEASE)
    assert read.judge == judge_id(reader="none") != words.judge
    assert read.models == "names: none"
    run(calm, WorkerSettings())
    calm.write(list(requests(2, start=RELEASE)))
    run(calm, WorkerSettings(entities=_Names()))
    assert {each.calibration_id: each.shadow.requests for each in calm.calibrations()} == {
        words.calibration_id: 0,
        read.calibration_id: 2,
    }


def test_it_changes_nothing_for_a_day_and_is_accepted_after_it(calm: Store) -> None:
    """In shadow the judge stays who it was, and what it would have said is counted; later its id is in the digest."""
    proposed = calm.calibrations()[0]
    with pytest.raises(ConfigurationError, match="in shadow until"):
        accept_calibration(calm, proposed.calibration_id, now=RELEASE + DAY - 1)
    with pytest.raises(ConfigurationError, match="no request was judged"):
        accept_calibration(calm, proposed.calibration_id, now=NOW)
    _shadowed(calm)
    assert calm.calibrations()[0].shadow.requests == 10
    assert _judges(calm) == {judge_id()}
    accepted = accept_calibration(calm, proposed.calibration_id[:6], now=NOW)
    assert active_calibration(calm, SERVICE, judge_id()) == accepted
    calm.redo(service=SERVICE, since=RELEASE, again=True)
    run(calm, WorkerSettings())
    assert _judges(calm) == {judge_id(), judge_id(calibration=accepted.calibration_id)}
    with pytest.raises(ConfigurationError, match="is active"):
        accept_calibration(calm, proposed.calibration_id, now=NOW)


def _judges(store: Store) -> set[str | None]:
    rows = store.find_requests(service=SERVICE, limit=1000)
    found = [store.get_analysis(row.request_id, "coverage") for row in rows]
    return {each.diagnosis.judge for each in found if each is not None}


def test_what_it_promises_is_said_of_injected_losses(calm: Store) -> None:
    """Never of natural ones, whose share is not known; a stage that words cannot name is said to need a model."""
    proposed = calm.calibrations()[0]
    words = calibration_words(proposed)
    assert "injected losses" in words
    assert "blames at most 0.0% of sound requests" in words
    assert "retrieval cannot be named without a probe" in words
    assert stage_words(proposed).startswith("retrieval 0 of ")
    few = ServiceCalibration(calibration_id="x", service=SERVICE, judge="j")
    assert "no loss could be injected" in calibration_words(few)


def test_too_few_requests_are_no_traffic_to_calibrate_on(calm: Store) -> None:
    """A share as small as the bound takes two hundred."""
    with pytest.raises(ConfigurationError, match="can be told from 200 on"):
        propose_calibration(calm, SERVICE, Window.of(START, START + 50 * MINUTE), now=NOW)


def test_lines_come_down_only_where_labels_say_so(calm: Store) -> None:
    """With as many requests that people call sound as tell the bound, false blame is measured on them: on those that
    were drawn for it, and not on what somebody picked."""
    proposed = calm.calibrations()[0]
    assert all(line is None or line >= 0 for line in proposed.raised.values())
    strict = dict(proposed.raised) | {"generation": 2.0, "altered": None}
    calm.reject_calibration(proposed.calibration_id)
    calm.propose_calibration(dataclass_replace(proposed, calibration_id="strict", raised=strict))
    assert calm.accept_calibration("strict", RELEASE)
    ids = [row.request_id for row in calm.find_requests(service=SERVICE, limit=1000)]
    calm.put_labels([RequestLabel(id_, "ada", "none", labeled_at=START) for id_ in ids])
    by_hand = propose_calibration(calm, SERVICE, CALM, copies=15, now=RELEASE)
    assert by_hand.labeled_sound == 0
    assert by_hand.raised == strict
    draw_labels(calm, SERVICE, CALM, COUNT)
    labeled = propose_calibration(calm, SERVICE, CALM, copies=15, now=RELEASE)
    assert labeled.labeled_sound == COUNT
    assert labeled.blamed_high <= 0.015
    assert labeled.raised["altered"] == 0.0 or (labeled.raised["generation"] or 0.0) < 2.0
    assert sum(each.named for each in labeled.faults) > sum(each.named for each in by_hand.faults)
