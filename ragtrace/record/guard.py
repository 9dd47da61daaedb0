"""The one guard around everything of ragtrace that runs in the host's path: swallow, log once per kind, count."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ragtrace.record.faults import fault_now, is_of_the_host, let_through
from ragtrace.types import Fault

__all__ = ["Guard"]

_LOG: Final = logging.getLogger("ragtrace")
_KINDS: Final = 256  # distinct (where, kind) that are logged
_LENGTH: Final = 300


class Guard:
    """Turns ragtrace's own faults into counted `Fault`s. With `raise_errors`, exceptions are raised again.

    `kept` gives what may be kept of an exception's message, which may quote content.
    """

    def __init__(
        self,
        service: str,
        report: Callable[[Fault], None],
        *,
        raise_errors: bool = False,
        kept: Callable[[str], str] = lambda message: message,
    ) -> None:
        self._service = service
        self._report = report
        self._raise_errors = raise_errors
        self._kept = kept
        self._logged: set[tuple[str, str]] = set()

    def caught(self, where: str, error: BaseException) -> None:
        """An exception of ours in the host's path: counted, and raised again only under `raise_errors`, or when it is
        the host's way to stop what runs."""
        if self._raise_errors or is_of_the_host(error):
            raise error
        self.count(where, type(error).__name__, self._message(error))

    def count(self, where: str, kind: str, message: str = "", *, count: int = 1) -> None:
        """Count something that went wrong or could not be understood. Never raises."""
        try:
            if (where, kind) not in self._logged and len(self._logged) < _KINDS:
                self._logged.add((where, kind))
                _LOG.warning("%s: %s %s (further ones are counted, not logged)", where, kind, message)
            self._report(fault_now(self._service, where, kind, message, count))
        except Exception:
            _LOG.exception("a fault could not be counted")

    def _message(self, error: BaseException) -> str:
        try:
            return self._kept(str(error)[:_LENGTH])
        except BaseException as fault:
            let_through(fault)
            return "(its message cannot be read)"
