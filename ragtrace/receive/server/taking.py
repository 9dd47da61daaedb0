"""Takes a request of any protocol: whose it is, what it holds, and the wait until that is committed; all is counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ragtrace.errors import RecordError, StoreError
from ragtrace.receive.limits import Allowance, Limits, Share, TooLarge
from ragtrace.receive.server.access import Access
from ragtrace.receive.server.bodies import Refused, inflated, unavailable
from ragtrace.receive.server.intake import Intake
from ragtrace.receive.server.meter import Meter, Protocol
from ragtrace.receive.server.shares import Accounts, Places, Turns
from ragtrace.receive.server.signals import Signal, Taken
from ragtrace.record.content import ContentPolicy

__all__ = ["One", "Taking", "tenant_of"]

_LOG: Final = logging.getLogger("ragtrace.receive")
_ANSWERS: Final = {401: "unauthorized", 500: "failed", 503: "busy"}
_INVALID: Final = "invalid"


class _Decoders:
    """Decode bodies, tenants in turn; of the large ones one at a time, in a thread of its own: among all others, a few
    would stop these.
    """

    def __init__(self, limits: Limits) -> None:
        self.accounts = Accounts(limits)
        self.small = Turns("small", limits.decoders, self.accounts)
        self.large = Turns("large", Share(1, 1), self.accounts)
        self.places = Places(limits.large, "large bodies wait to be read")


class Taking:
    """What HTTP and gRPC have in common."""

    def __init__(
        self, intake: Intake, access: Access, policy: ContentPolicy, meter: Meter, limits: Limits | None = None
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self._given = intake, access, policy, meter, self.limits, _Decoders(self.limits)
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
        limits: Limits,
        decoders: _Decoders,
        protocol: Protocol,
        signal: Signal,
    ) -> None:
        self._intake, self._access, self._policy, self._meter = intake, access, policy, meter
        self._limits, self._decoders = limits, decoders
        self._protocol, self._signal = protocol, signal
        self._tenant = ""
        self.is_waiting = False
        self.taken: Taken | None = None

    def authorize(self, authorizations: Sequence[str]) -> str:
        """Find out which tenant's it is, before anything of it is read. Raises: Refused (400, 401, 503)."""
        self._tenant = tenant_of(self._access, authorizations, "a tenant")
        self._decoders.accounts.check(self._tenant)
        return self._tenant

    async def read(self, body: bytes, kind: str, encoding: str = "") -> Taken:
        """What a body holds. Raises: Refused (400, 413, 415; 503 where too many large ones wait)."""
        decoders, given, tenant = self._decoders, (body, kind, encoding), self._tenant
        found = await asyncio.wrap_future(decoders.small.submit(tenant, lambda: self._read_small(*given)))
        if found is not None:
            return found
        decoders.places.take(tenant)
        reading = decoders.large.submit(tenant, lambda: self._read(*given))
        reading.add_done_callback(lambda _: decoders.places.give_back(tenant))  # also where its sender waits no longer
        return await asyncio.wrap_future(reading)

    def _read_small(self, body: bytes, kind: str, encoding: str) -> Taken | None:
        """What it holds; None where it is large."""
        size = min(self._limits.inflated, self._limits.large_size)
        try:
            whole = inflated(body, encoding, size, self._limits.members)
        except Refused as refused:
            if refused.status != 413 or size == self._limits.inflated:
                raise
            return None
        return self._decoded(whole, kind) if len(whole) <= self._limits.large_size else None

    def _read(self, body: bytes, kind: str, encoding: str) -> Taken:
        return self._decoded(inflated(body, encoding, self._limits.inflated, self._limits.members), kind)

    def _decoded(self, body: bytes, kind: str) -> Taken:
        self._meter.received(self._protocol, self._signal.name, len(body))
        try:
            return self._signal.read(body, kind, self._tenant, self._policy, Allowance(self._limits))
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


def tenant_of(access: Access, authorizations: Sequence[str], whose: str) -> str:
    """The tenant that a request names. whose: whose token it needs. Raises: Refused (400, 401)."""
    if len(authorizations) > 1:  # what stands before the receiver may have looked at another one
        raise Refused(400, f"the request has {len(authorizations)} values of Authorization; send one")
    tenant = access.tenant(authorizations[0] if authorizations else None)
    if tenant is None:
        raise Refused(401, f"no token of {whose}; send `Authorization: Bearer TOKEN`")
    return tenant
