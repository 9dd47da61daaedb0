"""What a background thread does now and then, whether or not anything arrives."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Chore"]


class Chore:
    """Something to be done every `seconds`."""

    def __init__(self, do: Callable[[], None] = lambda: None, seconds: float = 60.0) -> None:
        self._do = do
        self._seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def wait(self) -> float:
        """Seconds until it is due."""
        return max(0.0, self._at - time.monotonic())

    def do_if_due(self) -> None:
        """Do it when it is due."""
        if not self.wait:
            self._at = time.monotonic() + self._seconds
            self._do()
