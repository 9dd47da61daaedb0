"""Those who wait for the background."""

from __future__ import annotations

from ragtrace.collect.threads import FlushBarrier


def test_an_answer_is_for_those_who_had_asked() -> None:
    """Neither a success nor a failure of what began before one asked answers that one."""
    waiters = FlushBarrier()
    assert waiters.wait(lambda: waiters.settle(1), 10)
    assert not waiters.wait(lambda: waiters.settle(2, is_done=False), 10)
    assert not waiters.wait(lambda: waiters.settle(2), 0.01)


def test_an_earlier_failure_is_not_ones_own() -> None:
    """What had begun before may fail; the answer comes after it."""
    waiters = FlushBarrier()

    def answer() -> None:
        waiters.settle(waiters.asked - 1, is_done=False)
        waiters.settle(waiters.asked)

    assert waiters.wait(answer, 10)
    assert waiters.wait(answer, 10)


def test_a_later_answer_is_for_all_before_it() -> None:
    """One cycle may answer several."""
    waiters = FlushBarrier()
    assert waiters.wait(lambda: waiters.settle(7), 10)
    assert waiters.wait(lambda: None, 10)
