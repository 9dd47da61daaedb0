"""Screening: looks at requests outside the sample for reasons to keep them, within a share of one processor core."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from ragtrace.record.guard import fault_now, place_of
from ragtrace.types import Fault, RequestRecord

__all__ = ["Screen", "Screening"]

_LOG: Final = logging.getLogger("ragtrace")
_CREDIT: Final = 0.5  # seconds of CPU time at most that may be spent at once
_REPORT_EVERY: Final = 10.0  # seconds

Screen: TypeAlias = Callable[[RequestRecord], tuple[str, ...]]


class Screening:
    """Runs `screen` as long as there is credit: CPU time that grows by `share` seconds per second.

    Args:
        open_screen: makes the function that gives a record's flags; called at the first record.
        clock, cpu: seconds of wall-clock time, and of this thread's CPU time.
    """

    def __init__(
        self,
        open_screen: Callable[[], Screen],
        share: float,
        service: str = "default",
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._open_screen = open_screen
        self._screen: Screen | None = None
        self._share = share
        self._service = service
        self._clock, self._cpu = clock, cpu
        self._credit = _CREDIT
        self._credited_at = self._reported_at = clock()
        self._skipped = 0
        self._faults: list[Fault] = []
        self._is_broken = False

    def affords(self) -> bool:
        """Whether there is credit for another record; counts one that is skipped."""
        now = self._clock()
        self._credit = min(_CREDIT, self._credit + self._share * (now - self._credited_at))
        self._credited_at = now
        if self._credit > 0.0 and not self._is_broken:
            return True
        self._skipped += 1
        return False

    def flags(self, record: RequestRecord) -> tuple[str, ...]:
        """The reasons to keep this request; none for one that cannot be screened, which is counted."""
        try:
            if self._screen is None:
                self._screen = self._open_screen()
        except Exception as error:
            _LOG.warning("requests outside the sample are not screened: %s: %s", type(error).__name__, error)
            self._is_broken = True
            self._faults.append(self._fault(type(error).__name__, str(error)))
            return ()
        began = self._cpu()
        try:
            return tuple(self._screen(record))
        except Exception as error:
            self._faults.append(self._fault(type(error).__name__, place_of(error)))
            return ()
        finally:
            self._credit -= self._cpu() - began

    def report(self, *, at_once: bool) -> list[Fault]:
        """What went wrong, and now and then, or `at_once`, how many were skipped."""
        faults, self._faults = self._faults, []
        now = self._clock()
        if self._skipped and (at_once or now - self._reported_at >= _REPORT_EVERY):
            message = f"not screened: more than the share {self._share} of a processor core would be needed"
            faults.append(self._fault("budget", message, self._skipped))
            self._skipped, self._reported_at = 0, now
        return faults

    def _fault(self, kind: str, message: str, count: int = 1) -> Fault:
        return fault_now(self._service, "screen", kind, message, count)
