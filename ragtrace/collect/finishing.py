"""From a draft to a finished item and its spool entry; what cannot be written is counted, once per item."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from ragtrace.collect.entries import encode
from ragtrace.errors import RecordError
from ragtrace.record import Draft
from ragtrace.record.guard import fault_now, is_of_the_host, place_of
from ragtrace.types import Fault, Item

__all__ = ["Encoded", "Finishing"]

_LOG: Final = logging.getLogger("ragtrace")


class Encoded(NamedTuple):
    """A finished item, and its spool entry."""

    item: Item
    entry: bytes


class Finishing:
    """Builds, finishes and encodes.

    Args:
        finish: the last step of an item (hashes, content policy).
        scrub: makes an item writable that JSON refused.
    """

    def __init__(
        self,
        finish: Callable[[Item], Item],
        scrub: Callable[[Item], Item],
        service: str,
        count: Callable[[Fault], None],
    ) -> None:
        self._finish = finish
        self._scrub = scrub
        self._service = service
        self._count = count

    def finished(self, item: Item | Draft) -> Item | None:
        """The finished item; None when there is nothing to keep or, counted, it cannot be finished at all."""
        try:
            built = item if isinstance(item, Item) else item.build()
            return None if built is None else self._finish(built)
        except BaseException as error:
            if is_of_the_host(error):
                raise
            self._failed(item, error)
            return None

    def encoded(self, item: Item | Draft) -> Encoded | None:
        """The finished item with its entry; None where there is none, or, counted, it cannot be written at all."""
        finished = self.finished(item)
        return None if finished is None else self.entry(finished)

    def entry(self, finished: Item) -> Encoded | None:
        """The same of an item that is finished already."""
        try:
            return Encoded(finished, encode(finished))
        except RecordError:
            mended = self.mended(finished)
        return None if mended is None else Encoded(mended, encode(mended))

    def mended(self, finished: Item) -> Item | None:
        """An item that JSON refused, made writable; None when, counted, it cannot be."""
        try:
            scrubbed = self._scrub(finished)
            encode(scrubbed)
        except Exception as error:
            self._failed(finished, error)
            return None
        return scrubbed

    def _failed(self, item: Item | Draft, error: BaseException) -> None:
        said = str(error) if isinstance(error, RecordError) else place_of(error)
        _LOG.warning("a %s cannot be written: %s %s", type(item).__name__, type(error).__name__, said)
        self._count(self.fault("sink.encode", type(error).__name__, said))

    def fault(self, where: str, kind: str, message: str, count: int = 1) -> Fault:
        """A fault of this service, now."""
        return fault_now(self._service, where, kind, message, count)
