"""Ingestion of a request of any protocol: whose it is, what it holds, and the wait until that is committed; all counts.

Each tenant has places for what is under way and a share of the processor's time, so that none can take the receiver
from the others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar

from ragtrace.errors import RecordError, StoreError
from ragtrace.receive._limits import DecodingBudget, ReceiverLimits, TenantQuota, TooLarge
from ragtrace.receive._tenants import Access
from ragtrace.receive.server._bodies import LATER, DecodedBody, Refused, Signal, inflated, unavailable
from ragtrace.receive.server._commit_queue import Intake
from ragtrace.receive.server._meter import Meter, Protocol
from ragtrace.record.content import ContentPolicy

__all__ = ["IngestRequest", "Ingestor", "Places", "ProcessorBudgets", "TenantScheduler", "tenant_of"]

_T = TypeVar("_T")
_CONTENDED: Final = 10.0  # seconds after a body had to wait for its turn


class Places:
    """What is under way, of all tenants and of each.

    what: of what there is so much, as in "5 `what` already"; size: places that each of the share has.
    """

    def __init__(self, share: TenantQuota, what: str, size: int = 1) -> None:
        self._total, self._of_tenant = share.total * size, share.tenant * size
        self._what = what
        self._taken = Counter[str]()
        self._lock = Lock()

    def take(self, tenant: str, count: int = 1) -> None:
        """Have so many more. Raises: Refused (503), which takes none, when all or the tenant's own are taken."""
        with self._lock:
            total, own = self._taken.total(), self._taken[tenant]
            if total + count > self._total:
                raise Refused(503, f"{total:,} {self._what} already; come back later", LATER)
            if tenant and own + count > self._of_tenant:
                raise Refused(503, f"{own:,} {self._what} already for this tenant alone; come back later", LATER)
            self._taken[tenant] += count

    def give_back(self, tenant: str, count: int = 1) -> None:
        """Have so many fewer."""
        with self._lock:
            self._taken[tenant] -= count
            if self._taken[tenant] <= 0:
                del self._taken[tenant]

    @contextmanager
    def one(self, tenant: str) -> Iterator[None]:
        """Have one within the block. Raises: Refused (503)."""
        self.take(tenant)
        try:
            yield
        finally:
            self.give_back(tenant)


class ProcessorBudgets:
    """The processor time that each tenant has left: it grows by a rate up to a burst, and decoding its bodies is paid
    from it. Who has most is served first; who has none is refused while others wait for their turns.
    """

    def __init__(self, limits: ReceiverLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = limits.rate, limits.burst, clock
        self._left: dict[str, tuple[float, float]] = {}  # seconds left, and when that was so
        self._waited: dict[str, float] = {}  # when a body last had to wait
        self._lock = Lock()

    def left(self, tenant: str) -> float:
        """Seconds; below 0 once more was taken than there was."""
        left, at = self._left.get(tenant, (self._burst, 0.0))
        return min(self._burst, left + self._rate * (self._clock() - at))

    def pay(self, tenant: str, seconds: float) -> None:
        """So much was taken."""
        with self._lock:
            self._left[tenant] = (max(self.left(tenant) - seconds, -self._burst), self._clock())

    def waits(self, tenant: str) -> None:
        """A body of it has to wait for its turn."""
        with self._lock:
            self._waited[tenant] = self._clock()

    def check(self, tenant: str) -> None:
        """Raises: Refused (503) where a tenant has none left, and another one's bodies wait or did so lately."""
        if not tenant or (left := self.left(tenant)) >= 0:
            return
        lately = self._clock() - _CONTENDED
        with self._lock:
            self._waited = {name: at for name, at in self._waited.items() if at > lately}
            if self._waited.keys() - {tenant}:
                reason = "this tenant's bodies take more processor time than its share, and others wait"
                raise Refused(503, f"{reason}; come back later", math.ceil(max(-left / self._rate, 1)))


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)


class TenantScheduler:
    """A few threads that work for tenants in turn. The next is one that has fewest of them, and of these the one with
    most of its processor time left. What its caller no longer waits for is not begun.
    """

    def __init__(self, name: str, threads: TenantQuota, accounts: ProcessorBudgets) -> None:
        self._pool = ThreadPoolExecutor(threads.total, f"ragtrace-{name}")
        self._threads, self._accounts = threads, accounts
        self._waiting: dict[str, deque[_Job]] = {}
        self._running = Counter[str]()
        self._lock = Lock()

    def submit(self, tenant: str, work: Callable[[], _T]) -> Future[_T]:
        """Do this work for a tenant, once it is its turn."""
        job = _Job(work)
        with self._lock:
            self._waiting.setdefault(tenant, deque()).append(job)
            self._start()
            is_waiting = job in self._waiting.get(tenant, ())
        if is_waiting:
            self._accounts.waits(tenant)
            job.done.add_done_callback(partial(self._forget, tenant, job))
        return job.done

    def _start(self) -> None:
        """Begin what may begin; the lock is held."""
        while self._waiting and self._running.total() < self._threads.total:
            ready = [each for each in self._waiting if not each or self._running[each] < self._threads.tenant]
            if not ready:
                return
            tenant = min(ready, key=lambda each: (self._running[each], -self._accounts.left(each)))
            job = self._take(tenant)
            if job.done.set_running_or_notify_cancel():
                self._running[tenant] += 1
                self._pool.submit(self._run, tenant, job)

    def _take(self, tenant: str) -> _Job:
        jobs = self._waiting.pop(tenant)
        job = jobs.popleft()
        if jobs:  # behind the others
            self._waiting[tenant] = jobs
        return job

    def _run(self, tenant: str, job: _Job) -> None:
        began, result, failure = time.thread_time(), None, None
        try:
            result = job.work()
        except BaseException as error:  # its caller gets it
            failure = error
        self._accounts.pay(tenant, time.thread_time() - began)
        with self._lock:
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]
            self._start()
        if failure is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(failure)

    def _forget(self, tenant: str, job: _Job, done: Future[Any]) -> None:
        if done.cancelled():
            with self._lock:
                jobs = self._waiting.get(tenant, deque[_Job]())
                if job in jobs:
                    jobs.remove(job)
                if not jobs:
                    self._waiting.pop(tenant, None)


_LOG: Final = logging.getLogger("ragtrace.receive")
_ANSWERS: Final = {401: "unauthorized", 500: "failed", 503: "busy"}
_INVALID: Final = "invalid"


class _Decoders:
    """Decode bodies, tenants in turn; of the large ones one at a time, in a thread of its own: among all others, a few
    would stop these.
    """

    def __init__(self, limits: ReceiverLimits) -> None:
        self.accounts = ProcessorBudgets(limits)
        self.small = TenantScheduler("small", limits.decoders, self.accounts)
        self.large = TenantScheduler("large", TenantQuota(1, 1), self.accounts)
        self.places = Places(limits.large, "large bodies wait to be read")


class Ingestor:
    """The way of requests into the store, for HTTP and gRPC alike."""

    def __init__(
        self, intake: Intake, access: Access, policy: ContentPolicy, meter: Meter, limits: ReceiverLimits | None = None
    ) -> None:
        self.limits = ReceiverLimits() if limits is None else limits
        self._given = intake, access, policy, meter, self.limits, _Decoders(self.limits)
        self._meter = meter

    @contextmanager
    def request(self, protocol: Protocol, signal: Signal) -> Iterator[IngestRequest]:
        """A request that is taken within the block. Raises: Refused, also for what fails unforeseen."""
        answer = "failed"
        one = IngestRequest(*self._given, protocol, signal)
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


class IngestRequest:
    """One request on its way: authorized, read, committed."""

    def __init__(
        self,
        intake: Intake,
        access: Access,
        policy: ContentPolicy,
        meter: Meter,
        limits: ReceiverLimits,
        decoders: _Decoders,
        protocol: Protocol,
        signal: Signal,
    ) -> None:
        self._intake, self._access, self._policy, self._meter = intake, access, policy, meter
        self._limits, self._decoders = limits, decoders
        self._protocol, self._signal = protocol, signal
        self._tenant = ""
        self.is_waiting = False
        self.taken: DecodedBody | None = None

    def authorize(self, authorizations: Sequence[str]) -> str:
        """Find out which tenant's it is, before anything of it is read. Raises: Refused (400, 401, 503)."""
        self._tenant = tenant_of(self._access, authorizations, "a tenant")
        self._decoders.accounts.check(self._tenant)
        return self._tenant

    async def read(self, body: bytes, kind: str, encoding: str = "") -> DecodedBody:
        """What a body holds. Raises: Refused (400, 413, 415; 503 where too many large ones wait)."""
        decoders, given, tenant = self._decoders, (body, kind, encoding), self._tenant
        found = await asyncio.wrap_future(decoders.small.submit(tenant, lambda: self._read_small(*given)))
        if found is not None:
            return found
        decoders.places.take(tenant)
        reading = decoders.large.submit(tenant, lambda: self._read(*given))
        reading.add_done_callback(lambda _: decoders.places.give_back(tenant))  # also where its sender waits no longer
        return await asyncio.wrap_future(reading)

    def _read_small(self, body: bytes, kind: str, encoding: str) -> DecodedBody | None:
        """What it holds; None where it is large."""
        size = min(self._limits.inflated, self._limits.large_size)
        try:
            whole = inflated(body, encoding, size, self._limits.members)
        except Refused as refused:
            if refused.status != 413 or size == self._limits.inflated:
                raise
            return None
        return self._decoded(whole, kind) if len(whole) <= self._limits.large_size else None

    def _read(self, body: bytes, kind: str, encoding: str) -> DecodedBody:
        return self._decoded(inflated(body, encoding, self._limits.inflated, self._limits.members), kind)

    def _decoded(self, body: bytes, kind: str) -> DecodedBody:
        self._meter.received(self._protocol, self._signal.name, len(body))
        try:
            return self._signal.read(body, kind, self._tenant, self._policy, DecodingBudget(self._limits))
        except TooLarge as error:
            raise Refused(413, str(error)) from None
        except RecordError as error:
            raise Refused(400, str(error)) from None

    async def commit(self, taken: DecodedBody) -> DecodedBody:
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
