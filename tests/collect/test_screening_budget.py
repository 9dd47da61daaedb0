"""The budget of screening."""

from __future__ import annotations

from typing import Any

from ragtrace.collect import Screening
from ragtrace.types import RequestRecord

RECORD = RequestRecord(request_id="r", service="svc")


class Clocks:
    """Wall-clock and CPU time of our own; each screening takes `cost` seconds of CPU."""

    def __init__(self, cost: float) -> None:
        self.now = self.used = 0.0
        self.cost = cost

    def screening(self, share: float, flags: Any = ("seen",)) -> Screening:
        """A screening that runs on this time."""

        def screen(record: RequestRecord) -> tuple[str, ...]:
            self.used += self.cost
            if isinstance(flags, Exception):
                raise flags
            return tuple(flags)

        return Screening(lambda: screen, share, "svc", clock=lambda: self.now, cpu=lambda: self.used)


def run(screening: Screening, times: int) -> int:
    """How many of so many records are screened."""
    screened = 0
    for _ in range(times):
        if screening.affords():
            assert screening.flags(RECORD) == ("seen",)
            screened += 1
    return screened


def test_a_burst_is_bounded() -> None:
    """Half a second of CPU time, then nothing until time has passed."""
    clocks = Clocks(0.1)
    screening = clocks.screening(0.05)
    assert run(screening, 100) in (5, 6)
    assert run(screening, 100) == 0


def test_in_the_long_run_it_takes_its_share() -> None:
    """5 % of 1000 seconds at 0.1 s each: 500 records beside the first burst."""
    clocks = Clocks(0.1)
    screening = clocks.screening(0.05)
    screened = 0
    for _ in range(10_000):
        clocks.now += 0.1
        screened += run(screening, 1)
    assert 500 <= screened <= 507


def test_what_is_skipped_is_counted_now_and_then() -> None:
    """One fault with the number, every ten seconds, or at once when somebody waits."""
    clocks = Clocks(1.0)
    screening = clocks.screening(0.0)
    assert run(screening, 5) == 1
    assert screening.report(at_once=False) == []
    clocks.now = 10.0
    (fault,) = screening.report(at_once=False)
    assert (fault.where, fault.kind, fault.count, fault.service) == ("screen", "budget", 4, "svc")
    assert screening.report(at_once=True) == []
    run(screening, 3)
    assert [fault.count for fault in screening.report(at_once=True)] == [3]


def test_a_record_that_cannot_be_screened_is_counted() -> None:
    """It costs what it cost, and raises nothing. The message, which may quote content, is not kept."""
    clocks = Clocks(1.0)
    screening = clocks.screening(0.5, ValueError("odd"))
    assert screening.affords()
    assert screening.flags(RECORD) == ()
    assert not screening.affords()
    (fault,) = screening.report(at_once=False)
    assert fault.kind == "ValueError"
    assert "odd" not in fault.message
    assert __file__ in fault.message


def test_without_a_screen_everything_is_skipped() -> None:
    """One that cannot be opened is told once."""

    def broken() -> Any:
        raise ImportError("no numpy")

    screening = Screening(broken, 1.0, "svc")
    assert screening.affords()
    assert screening.flags(RECORD) == ()
    assert [screening.affords() for _ in range(3)] == [False] * 3
    assert [(fault.kind, fault.count) for fault in screening.report(at_once=True)] == [
        ("ImportError", 1), ("budget", 3),
    ]  # fmt: skip
