"""The database's lease "exporter": two exporters never serve the same counters."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ragtrace.errors import StoreError, StoreUnavailable
from ragtrace.store import Heartbeat, Store

__all__ = ["LEASE_SECONDS", "LeasedStore"]

LEASE_SECONDS: Final = 30.0

_NAME: Final = "exporter"
_LOG: Final = logging.getLogger(__name__)


class LeasedStore:
    """A store that is opened for each use, and used only under the lease.

    Opened each time (milliseconds), it is always the database that the address names now: replaced, migrated or mended
    meanwhile. A thread of its own renews the lease between two uses, so that a slow scrape interval does not lose it.
    Raises: ConfigurationError when `url` is no store's address.
    """

    def __init__(self, url: str, seconds: float = LEASE_SECONDS) -> None:
        self._url = url
        self._seconds = seconds
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._lock = threading.Lock()
        self._trouble: str | None = None
        self._renew()
        self._heartbeat = Heartbeat("the exporter", seconds, self._renew)

    @contextmanager
    def held(self) -> Iterator[Store]:
        """The store, under the lease, by one thread at a time.

        Raises: StoreError when the store cannot be used, or another exporter has the lease.
        """
        with self._lock, Store.open(self._url) as store:
            if not store.acquire(_NAME, self._owner, self._seconds):
                raise StoreUnavailable(
                    f"another exporter serves this store; end it, or wait up to {self._seconds:g} s after its end"
                )
            yield store

    def close(self) -> None:
        """Give the lease back."""
        self._heartbeat.close()
        try:
            with self._lock, Store.open(self._url) as store:
                store.release(_NAME, self._owner)
        except StoreError as error:
            _LOG.warning("the exporter's lease was not given back, it runs out by itself: %s", error)

    def _renew(self) -> bool:
        """Take or prolong the lease, again and again; what is in the way is logged once, until it changes."""
        try:
            with self.held():
                trouble = None
        except StoreError as error:
            trouble = str(error)
        if trouble is not None and trouble != self._trouble:
            _LOG.warning("metrics are not served: %s", trouble)
        self._trouble = trouble
        return True
