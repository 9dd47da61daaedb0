"""Takes a request of any protocol: whose it is, what it holds, and the wait until that is committed; all is counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from ragtrace.errors import RecordError, StoreError
from ragtrace.receive.server.access import Access
from ragtrace.receive.server.bodies import Refused, inflated, unavailable
from ragtrace.receive.server.intake import Intake
from ragtrace.receive.server.meter import Meter, Protocol
from ragtrace.receive.server.signals import MOST_RECORDS, PROTOBUF, Signal, Taken
from ragtrace.receive.wire import fields
from ragtrace.record.content import ContentPolicy

__all__ = ["One", "Taking"]

_LOG: Final = logging.getLogger("ragtrace.receive")
_LARGE: Final = 1 << 20  # bytes
_ONE_LARGE: Final = Lock()
_ANSWERS: Final = {401: "unauthorized", 500: "failed", 503: "busy"}
_INVALID: Final = "invalid"


class Taking:
    """What HTTP and gRPC have in common."""

    def __init__(self, intake: Intake, access: Access, policy: ContentPolicy, meter: Meter) -> None:
        self._given = intake, access, policy, meter
        self._meter = meter

    @contextmanager
    def request(self, protocol: Protocol, signal: Signal) -> Iterator[One]:
        """A request that is taken within the block. Raises: Refused, also for what fails unforeseen."""
        answer = "failed"
        one = One(*self._given, protocol, signal)
        try:
            yield one
            answer = "partial" if one.taken is not None and one.taken.rejected else "accepted"
        except Refused as refused:
            answer = _ANSWERS.get(refused.status, _INVALID)
            raise
        except StoreError as error:
            answer = "busy"
            raise unavailable(error) from None
        except (asyncio.CancelledError, GeneratorExit):  # the sender went away
            answer = _INVALID
            raise
        except Exception as error:
            _LOG.exception("a request of %s over %s failed", signal.name, protocol)
            raise Refused(500, "an internal error, which the receiver's log explains") from error
        finally:
            self._meter.answered(protocol, signal.name, answer)


class One:
    """One request on its way."""

    def __init__(
        self, intake: Intake, access: Access, policy: ContentPolicy, meter: Meter, protocol: Protocol, signal: Signal
    ) -> None:
        self._intake, self._access, self._policy, self._meter = intake, access, policy, meter
        self._protocol, self._signal = protocol, signal
        self._tenant = ""
        self.taken: Taken | None = None

    def authorize(self, authorization: str | None) -> None:
        """Find out whose it is, before anything of it is read. Raises: Refused (401)."""
        tenant = self._access.tenant(authorization)
        if tenant is None:
            raise Refused(401, "no token of a tenant; send `Authorization: Bearer TOKEN`")
        self._tenant = tenant

    def read(self, body: bytes, kind: str, encoding: str = "", most: int = _LARGE) -> Taken:
        """What a body holds that inflates to `most` bytes or fewer; of large ones one at a time, since these may take
        much more as a message. Raises: Refused (400, 413, 415)."""
        try:
            whole = inflated(body, encoding, min(most, _LARGE))
        except Refused as refused:
            if refused.status != 413:
                raise
        else:
            if len(whole) <= _LARGE:
                return self._decoded(whole, kind)
        with _ONE_LARGE:
            return self._decoded(inflated(body, encoding, most), kind)

    def _decoded(self, body: bytes, kind: str) -> Taken:
        self._meter.received(self._protocol, self._signal.name, len(body))
        try:
            if kind == PROTOBUF and fields(body, MOST_RECORDS) > MOST_RECORDS:
                raise Refused(413, f"the body holds more than {MOST_RECORDS:,} records; send smaller batches")
            return self._signal.read(body, kind, self._tenant, self._policy)
        except RecordError as error:
            raise Refused(400, str(error)) from None

    async def commit(self, taken: Taken) -> Taken:
        """Wait until it is durable. Raises: Refused (503), StoreError."""
        if taken.items:
            await asyncio.wrap_future(self._intake.submit(taken.items))
        self.taken = taken
        self._meter.took(self._signal.name, taken)
        return taken
