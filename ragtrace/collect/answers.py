"""Those who wait in `flush`: told when all that they asked for is stored, or that it could not be."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Answers"]


class Answers:
    """Counts what was asked and answered. Safe for threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answered = self._failures = 0
        self.asked = 0

    def wait(self, ask: Callable[[], None], timeout: float) -> bool:
        """Ask, and wait up to `timeout` seconds; whether the answer was that all is stored."""
        with self._changed:
            self.asked += 1
            mine, failures = self.asked, self._failures
            ask()
            self._changed.wait_for(lambda: self._answered >= mine or self._failures > failures, timeout)
            return self._answered >= mine

    def settle(self, answered: int | None) -> None:
        """Answer all up to this one; None: something could not be stored."""
        with self._changed:
            if answered is None:
                self._failures += 1
            else:
                self._answered = answered
            self._changed.notify_all()
