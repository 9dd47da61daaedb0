"""What is spooled in the background: samples while the store takes none, and at the end what is left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ragtrace.collect.finishing import Encoded, Finishing
from ragtrace.collect.queue import ITEMS, Waiting
from ragtrace.collect.spool import Segment, Spool
from ragtrace.types import Fault

__all__ = ["Spooling"]

_LOG: Final = logging.getLogger("ragtrace")


class Spooling:
    """Spools finished items; `limit`: bytes of the spool beyond which samples find no room."""

    def __init__(self, spool: Spool, finishing: Finishing, limit: int, count: Callable[[Fault], None]) -> None:
        self._spool = spool
        self._finishing = finishing
        self._limit = limit
        self._count = count

    def put(self, loose: Iterable[Waiting]) -> list[Waiting]:
        """Put finished items into the spool, where they wait for the store; gives those that found no room."""
        left: list[Waiting] = []
        for waiting in loose:
            encoded = self._finishing.entry(waiting.item) if isinstance(waiting.item, ITEMS) else None
            if encoded is not None and not self._append(encoded.entry, waiting.is_durable):
                left.append(waiting._replace(item=encoded.item))
        return left

    def sync(self, segments: Iterable[Segment]) -> None:
        """Bring segments to the disk itself."""
        for segment in segments:
            try:
                segment.sync()
            except OSError as error:
                self._failed(error)

    def join(self) -> None:
        """Hold few files open, however often the store has refused them."""
        try:
            self._spool.join()
        except OSError as error:
            self._failed(error)

    def keep(self, encoded: Encoded) -> None:
        """Spool an item at the end, when no sample can be in its way."""
        try:
            self._spool.durable.append(encoded.entry)
        except Exception as error:
            _LOG.error("a %s is lost at shutdown: %s", type(encoded.item).__name__, error)

    def _append(self, entry: bytes, is_durable: bool) -> bool:
        if not is_durable and self._spool.size + len(entry) > self._limit:
            return False
        try:
            self._spool.samples.append(entry)
        except OSError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: OSError) -> None:
        self._count(self._finishing.fault("sink.spool", type(error).__name__, str(error)))
