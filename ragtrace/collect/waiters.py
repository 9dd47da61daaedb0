"""Those who wait for the background: told when all that was there when they asked is done, or that it cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Waiters"]


class Waiters:
    """Counts what was asked and settled. Safe for threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._done = self._failed = 0
        self.asked = 0

    def wait(self, ask: Callable[[], None], timeout: float) -> bool:
        """Ask, and wait up to `timeout` seconds; whether it is done."""
        with self._changed:
            self.asked += 1
            mine = self.asked
            ask()
            self._changed.wait_for(lambda: max(self._done, self._failed) >= mine, timeout)
            return self._done >= mine

    def settle(self, asked: int, *, is_done: bool = True) -> None:
        """Answer all up to this one."""
        with self._changed:
            if is_done:
                self._done = max(self._done, asked)
            else:
                self._failed = max(self._failed, asked)
            self._changed.notify_all()
