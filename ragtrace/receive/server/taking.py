"""Takes a request of any protocol: whose it is, what it holds, and the wait until that is committed; all is counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Semaphore
from typing import Final

from ragtrace.errors import RecordError, StoreError
from ragtrace.receive.otlp_json import TooLarge
from ragtrace.receive.server.access import Access
from ragtrace.receive.server.bodies import Refused, inflated, unavailable
from ragtrace.receive.server.intake import Intake
from ragtrace.receive.server.meter import Meter, Protocol
from ragtrace.receive.server.signals import MOST_RECORDS, PROTOBUF, Signal, Taken
from ragtrace.receive.wire import fields, held
from ragtrace.record.content import ContentPolicy

__all__ = ["LARGE", "One", "Taking"]

LARGE: Final = 1 << 20
"""Bytes of a body, beyond which it is decoded alone: as a message it may take many times that."""

_LOG: Final = logging.getLogger("ragtrace.receive")
_MOST_LARGE: Final = 8  # bodies that are decoded alone, or wait for it
_MOST_HELD: Final = 500_000  # attributes, events and links of a request
_SOON: Final = 1  # seconds
_ANSWERS: Final = {401: "unauthorized", 500: "failed", 503: "busy"}
_INVALID: Final = "invalid"


@dataclass(slots=True)
class _Large:
    """Decodes one large body at a time, in a thread of its own: in the threads of all, a few would stop the others."""

    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "ragtrace-large"))
    room: Semaphore = field(default_factory=lambda: Semaphore(_MOST_LARGE))


class Taking:
    """What HTTP and gRPC have in common."""

    def __init__(self, intake: Intake, access: Access, policy: ContentPolicy, meter: Meter) -> None:
        self._given = intake, access, policy, meter, _Large()
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
            answer = "busy" if one.is_waiting else _INVALID
            raise
        except Exception as error:
            _LOG.exception("a request of %s over %s failed", signal.name, protocol)
            raise Refused(500, "an internal error, which the receiver's log explains") from error
        finally:
            self._meter.answered(protocol, signal.name, answer)


class One:
    """One request on its way."""

    def __init__(
        self,
        intake: Intake,
        access: Access,
        policy: ContentPolicy,
        meter: Meter,
        large: _Large,
        protocol: Protocol,
        signal: Signal,
    ) -> None:
        self._intake, self._access, self._policy, self._meter, self._large = intake, access, policy, meter, large
        self._protocol, self._signal = protocol, signal
        self._tenant = ""
        self.is_waiting = False
        self.taken: Taken | None = None

    def authorize(self, authorization: str | None) -> str:
        """Find out which tenant's it is, before anything of it is read. Raises: Refused (401)."""
        tenant = self._access.tenant(authorization)
        if tenant is None:
            raise Refused(401, "no token of a tenant; send `Authorization: Bearer TOKEN`")
        self._tenant = tenant
        return tenant

    async def read(self, body: bytes, kind: str, encoding: str = "", most: int = LARGE) -> Taken:
        """What a body holds that inflates to `most` bytes or fewer; of large ones one at a time.

        Raises: Refused (400, 413, 415; 503 where too many large ones wait).
        """
        found = await asyncio.to_thread(self._read_small, body, kind, encoding, most)
        if found is not None:
            return found
        large = self._large
        if not large.room.acquire(blocking=False):
            raise Refused(503, f"{_MOST_LARGE} large bodies wait to be read; come back later", _SOON)
        reading = large.thread.submit(self._read, body, kind, encoding, most)
        reading.add_done_callback(lambda _: large.room.release())  # also where its sender waits no longer
        return await asyncio.wrap_future(reading)

    def _read_small(self, body: bytes, kind: str, encoding: str, most: int) -> Taken | None:
        """What it holds; None where it is large."""
        try:
            whole = inflated(body, encoding, min(most, LARGE))
        except Refused as refused:
            if refused.status != 413:
                raise
            return None
        return self._decoded(whole, kind) if len(whole) <= LARGE else None

    def _read(self, body: bytes, kind: str, encoding: str, most: int) -> Taken:
        return self._decoded(inflated(body, encoding, most), kind)

    def _decoded(self, body: bytes, kind: str) -> Taken:
        self._meter.received(self._protocol, self._signal.name, len(body))
        try:
            if kind == PROTOBUF:
                _check(body)
            return self._signal.read(body, kind, self._tenant, self._policy)
        except TooLarge as error:
            raise Refused(413, str(error)) from None
        except RecordError as error:
            raise Refused(400, str(error)) from None

    async def commit(self, taken: Taken) -> Taken:
        """Wait until it is committed. Raises: Refused (503), StoreError."""
        self.is_waiting = True
        if taken.items:
            await asyncio.wrap_future(self._intake.submit(taken.items))
        self.taken = taken
        self._meter.took(self._signal.name, taken)
        return taken


def _check(body: bytes) -> None:
    """Raises: TooLarge, RecordError."""
    if fields(body, MOST_RECORDS) > MOST_RECORDS:
        raise TooLarge(f"the body holds more than {MOST_RECORDS:,} records; send smaller batches")
    # each takes two bytes or more: a small body cannot hold many
    if len(body) > LARGE and held(body, _MOST_HELD) > _MOST_HELD:
        raise TooLarge(f"the body holds more than {_MOST_HELD:,} attributes, events and links; send smaller batches")
