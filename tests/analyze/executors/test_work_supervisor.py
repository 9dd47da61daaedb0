"""Workers that end are replaced within bounds; none of them is real here, and the clock stands still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ragtrace.analyze import _executor_work as supervision
from ragtrace.analyze._executor_work import RESTARTS, State, Work, watch
from ragtrace.analyze.worker import WorkerSettings, WorkSummary
from ragtrace.errors import WorkerError
from ragtrace.store import Store
from ragtrace.types import RequestRecord

BEGUN = State(has_begun=True)


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept = 0.0

    def monotonic(self) -> float:
        """The time now."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Scripted:
    """A worker that goes through states, one each time it is asked; told to stop, it ends with what it did."""

    def __init__(self, number: int, work: Work, owner: str, states: Sequence[State]) -> None:
        self.number = number
        self.work = work
        self.owner = owner
        self.states = list(states)
        self.is_stopped = self.is_killed = False

    def state(self) -> State:
        """The next of its states, the last one again and again."""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return State(True, is_over=True, summary=state.summary) if self.is_stopped and state.has_begun else state

    def stop(self) -> None:
        """From now on it ends where it is."""
        self.is_stopped = True

    def kill(self) -> None:
        """Note it."""
        self.is_killed = True


class Stage:
    """Starts scripted workers; the scripts of a place follow one another."""

    def __init__(self, *scripts: Sequence[Sequence[State]]) -> None:
        self._scripts = [list(each) for each in scripts]
        self.started: list[Scripted] = []

    def begin(self, number: int, work: Work, owner: str) -> Scripted:
        """Start the next worker of this place."""
        scripts = self._scripts[number]
        self.started.append(Scripted(number, work, owner, scripts.pop(0) if len(scripts) > 1 else scripts[0]))
        return self.started[-1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The crew's clock."""
    stands = Clock()
    monkeypatch.setattr(supervision, "time", stands)
    return stands


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Work on an empty store."""
    url = f"sqlite:///{tmp_path}/r.db"
    Store.open(url).close()
    return Work(store=url)


def working(done: int) -> State:
    """A worker at work."""
    return State(True, summary=WorkSummary(done=done))


def over(done: int, failed: int = 0) -> State:
    """A worker that found nothing left."""
    return State(True, is_over=True, summary=WorkSummary(done=done, failed=failed))


def dead(done: int = 0) -> State:
    """A worker whose process is gone."""
    error = WorkerError("its process was ended by SIGKILL")
    return State(done > 0, is_over=True, is_gone=True, summary=WorkSummary(done=done), error=error)


def failed(done: int = 0) -> State:
    """A worker that says what is wrong."""
    return State(done > 0, is_over=True, summary=WorkSummary(done=done), error=WorkerError("no such model"))


def test_what_all_did_is_added_up(clock: Clock, work: Work) -> None:
    """Progress is told when it changes, the sum at the end; every worker is let go."""
    stage, told = Stage([[BEGUN, working(3), over(5, 1)]], [[BEGUN, over(2)]]), []
    summary = watch(stage.begin, work, 2, on_progress=lambda so_far: told.append(so_far.done))
    assert summary == WorkSummary(done=7, failed=1)
    assert told == [5, 7]
    assert all(each.is_killed for each in stage.started)


def test_a_worker_that_ends_is_replaced(clock: Clock, work: Work, caplog: pytest.LogCaptureFixture) -> None:
    """Another one does what is left of its share, as another owner; what the first one did counts; it is said why."""
    stage = Stage([[working(4), dead(4)], [over(2)]], [[over(6)]])
    assert watch(stage.begin, work_with(work, limit=13), 2) == WorkSummary(done=12)
    assert [(each.number, each.work.settings.limit) for each in stage.started] == [(0, 7), (1, 6), (0, 3)]
    assert len({each.owner for each in stage.started}) == 3
    assert "worker 0 of the analyzer is replaced: its process was ended by SIGKILL" in caplog.text


def test_what_it_had_leased_is_free_at_once(clock: Clock, work: Work) -> None:
    """Its replacement finds the jobs that the worker that is gone had leased."""
    with Store.open(work.store) as store:
        store.write([RequestRecord(request_id="r1", service="s")])
        stage = Stage([[BEGUN, dead()], [over(1)]])

        def start(number: int, its: Work, owner: str) -> Scripted:
            assert len(store.claim(owner)) == 1
            return stage.begin(number, its, owner)

        assert watch(start, work, 1) == WorkSummary(done=1)
        assert len(stage.started) == 2


def test_what_its_last_transaction_held_is_done_at_the_end(clock: Clock, work: Work) -> None:
    """Jobs that could not be freed when the worker ended, and are free when all have ended, start one more worker."""
    with Store.open(work.store) as store:
        store.write([RequestRecord(request_id="r1", service="s")])
        stage = Stage([[BEGUN, dead()], [over(0)], [over(1)]])

        def start(number: int, its: Work, owner: str) -> Scripted:
            if len(stage.started) == 1:  # now the database lets go of what the first one had
                assert len(store.claim(stage.started[0].owner)) == 1
            return stage.begin(number, its, owner)

        assert watch(start, work, 1) == WorkSummary(done=1)
        assert len(stage.started) == 3
        assert store.queue_depth()["leased"] == 0


def test_one_that_cannot_begin_ends_all(clock: Clock, work: Work) -> None:
    """Its error is raised; one that works commits what is at hand, one that still starts is ended."""
    stage = Stage([[BEGUN, working(1)]], [[State()]], [[State(), failed()]])
    with pytest.raises(WorkerError, match="no such model"):
        watch(stage.begin, work, 3)
    assert [each.is_stopped for each in stage.started] == [True, False, False]
    assert all(each.is_killed for each in stage.started)


def test_one_that_fails_later_is_replaced(clock: Clock, work: Work) -> None:
    """What it needs was there once: a database that is restarted is there again."""
    stage = Stage([[BEGUN, working(2), failed(2)], [failed()], [over(3)]])
    assert watch(stage.begin, work, 1) == WorkSummary(done=5)


def test_too_many_ends_within_a_minute_end_all(clock: Clock, work: Work) -> None:
    """The pauses double; then the last reason is raised with how often it was tried."""
    stage, before = Stage([[BEGUN, dead()]]), clock.now
    with pytest.raises(WorkerError, match=f"worker 0 ended more than {RESTARTS} times within a minute: its process"):
        watch(stage.begin, work, 1)
    assert len(stage.started) == RESTARTS + 1
    assert 15 <= clock.now - before < 20


def test_ends_that_lie_apart_are_borne(clock: Clock, work: Work) -> None:
    """A worker that ends every half minute is replaced again and again."""
    slow = [[working(1)] * 300 + [dead(1)] for _ in range(2 * RESTARTS)]
    assert watch(Stage([*slow, [over(0)]]).begin, work, 1) == WorkSummary(done=2 * RESTARTS)


@pytest.mark.parametrize("ends", [lambda: over(2), lambda: dead(2)])
def test_stop_replaces_nobody(clock: Clock, work: Work, ends: Callable[[], State]) -> None:
    """Told to stop, all workers are told once, and whoever ends is let go."""
    stage = Stage([[BEGUN, working(2), ends()]])
    assert watch(stage.begin, work, 1, stop=lambda: bool(stage.started)) == WorkSummary(
        done=2 * stage.started[0].is_stopped
    )
    assert len(stage.started) == 1


@pytest.mark.parametrize(("limit", "shares"), [(7, [3, 2, 2]), (2, [1, 1]), (None, [None, None, None])])
def test_a_limit_is_shared(clock: Clock, work: Work, limit: int | None, shares: list[int | None]) -> None:
    """All do together no more than the limit; more workers than jobs are not started."""
    stage = Stage(*[[[over(0)]]] * 3)
    watch(stage.begin, work_with(work, limit=limit), 3)
    assert [each.work.settings.limit for each in stage.started] == shares


def work_with(work: Work, limit: int | None) -> Work:
    """The work with a limit."""
    return Work(store=work.store, settings=WorkerSettings(limit=limit))
