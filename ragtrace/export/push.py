"""The thread that pushes the metrics that a scrape would give, every so many seconds, and the addresses of receivers.

All series are cumulative, so that a push that failed needs no repetition: the next one carries what it would have said,
and more. Only the exporter that has the store's lease pushes; a second one sends nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final, Protocol

from prometheus_client.metrics_core import Metric

from ragtrace.errors import ConfigurationError, StoreError
from ragtrace.export._lease import LeasedStore
from ragtrace.export._series import MAX_SERIES
from ragtrace.export.exposition import collected

__all__ = [
    "PUSH_SECONDS",
    "PushFailed",
    "PushTarget",
    "Pusher",
    "check_period",
]

PUSH_SECONDS: Final = 30.0
_LONGEST: Final = 300.0  # seconds between two tries, unless the receiver asks for more
_ASKED: Final = 3600.0  # the longest Retry-After that is believed
_GRACE_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 15.0  # a little longer than a request may take
_LOG: Final = logging.getLogger(__name__)


class PushFailed(Exception):
    """A receiver did not take the metrics. retry_after: in how many seconds it wants the next try, where it said so."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PushTarget(Protocol):
    """Where metrics are pushed to."""

    @property
    def shown(self) -> str:
        """The address without a password."""
        ...

    def send(self, metrics: Sequence[Metric], at: float) -> None:
        """Send the families, whose values are those of `at` (Unix seconds). Raises: PushFailed."""
        ...

    def close(self) -> None:
        """End, and cut short a `send` that waits to try again."""
        ...


def check_period(seconds: float) -> None:
    """Raises: ConfigurationError for a period that is no positive number."""
    if not 0 < seconds < float("inf"):
        raise ConfigurationError.of("push seconds", seconds, "a number above 0")


class Pusher:
    """A thread that pushes to one target. A failure is logged once, until it changes, and the pauses grow.

    Raises: ConfigurationError for a period that is no positive number.
    """

    def __init__(
        self, store: LeasedStore, target: PushTarget, seconds: float = PUSH_SECONDS, *, max_series: int = MAX_SERIES
    ) -> None:
        check_period(seconds)
        self._store = store
        self._target = target
        self._seconds = seconds
        self._max_series = max_series
        self._failures = 0
        self._trouble: str | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ragtrace-exporter-push", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. What was not pushed is pushed by the next exporter, since counters stand in the store."""
        self._closed.set()
        self._thread.join(_GRACE_SECONDS)  # cutting short what would end by itself only makes noise
        self._target.close()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        pause = 0.0
        while not self._closed.wait(pause):
            pause = self._push()

    def _push(self) -> float:
        """Push once; the seconds until the next try."""
        started = time.monotonic()
        try:
            with self._store.held() as store:  # held while reading only: sending must keep no scrape waiting
                metrics, at = collected(store, self._max_series), time.time()
            self._target.send(metrics, at)
        except StoreError as error:
            self._note(str(error))
            return self._seconds
        except PushFailed as error:
            self._failures += 1
            self._note(str(error))
            return self._pause(error.retry_after)
        except Exception as error:  # what we did not foresee must not end the thread
            self._failures += 1
            self._note(f"{type(error).__name__}: {error}")
            return self._pause(None)
        self._failures = 0
        self._note(None)
        return max(0.0, self._seconds - (time.monotonic() - started))

    def _pause(self, asked: float | None) -> float:
        grown = max(self._seconds, min(self._seconds * 2.0 ** min(self._failures - 1, 10), _LONGEST))
        return max(grown, min(asked or 0.0, _ASKED))

    def _note(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble and not self._closed.is_set():
            _LOG.warning("metrics are not pushed to %s: %s", self._target.shown, trouble)
        if trouble is None and self._trouble is not None:
            _LOG.info("metrics are pushed to %s again", self._target.shown)
        self._trouble = trouble
