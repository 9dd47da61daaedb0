"""Ingestion of a request of any protocol: whose it is, what it holds, and the wait until that is committed; all counts.

Each tenant has places for what is under way and a share of the processor's time, so that none can take the receiver
from the others. Requests that come together share a transaction. What waits for it is bounded in bytes; beyond, a
sender is asked to come back later, which loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Condition, Lock, Thread
from typing import Any, Final, TypeVar

from ragtrace.errors import RecordError, StoreError, StoreUnavailable
from ragtrace.receive._bodies import LATER, DecodedBody, Item, Refused, Signal, inflated, unavailable
from ragtrace.receive._limits import DecodingBudget, ReceiverLimits, TenantQuota, TooLarge
from ragtrace.receive._meter import Meter, Protocol
from ragtrace.receive._tenants import Access
from ragtrace.record.content import ContentPolicy
from ragtrace.store import SpanPart, Store, TraceJudgment

__all__ = ["IngestRequest", "Ingestor", "Intake", "Places", "ProcessorBudgets", "TenantScheduler", "tenant_of"]

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


_BATCH: Final = 8 << 20  # bytes of a transaction
_LATER: Final = 1  # seconds
_REFUSING: Final = 5.0  # seconds after a refusal, in which others are likely
_JUDGMENT: Final = 256  # bytes of one beside its comment


@dataclass(slots=True)
class _Waiting:
    items: Sequence[Item]
    tenant: str
    size: int
    done: Future[None] = field(default_factory=Future)


class Intake:
    """One thread that writes what tenants bring, in turn. grace, ttl: seconds, see `Store.add_spans`; most: bytes that
    may wait; share: a tenant's part of these. committed: is told what each transaction took, in seconds.
    """

    def __init__(
        self,
        store: Store,
        *,
        grace: float,
        ttl: float,
        most: int,
        share: float = 0.5,
        committed: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._store = store
        self._committed = committed
        self._grace, self._ttl = grace, ttl
        self._most, self._of_tenant = most, most * share
        self._waiting: dict[str, deque[_Waiting]] = {}  # by tenant
        self._sizes = Counter[str]()
        self._refused_at = float("-inf")
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._run, name="ragtrace-intake", daemon=True)
        self._thread.start()

    def submit(self, items: Sequence[Item]) -> Future[None]:
        """Hand items of one tenant over; the future is done when they are committed, or fails as the store does.

        Raises: Refused (503) when too much waits already, or the receiver is closing.
        """
        one = _Waiting(items, items[0].tenant, sum(map(_size, items)))
        with self._changed:
            if self._closing:
                raise Refused(503, "the receiver is shutting down", _LATER)
            size, own = self._sizes.total(), self._sizes[one.tenant]
            if self._waiting and size + one.size > self._most:
                self._refused_at = time.monotonic()
                raise Refused(503, f"{size:,} bytes wait to be written; come back later", _LATER)
            if one.tenant in self._waiting and one.tenant and own + one.size > self._of_tenant:
                raise Refused(503, f"{own:,} bytes of this tenant wait to be written; come back later", _LATER)
            self._waiting.setdefault(one.tenant, deque()).append(one)
            self._sizes[one.tenant] += one.size
            self._changed.notify()
        return one.done

    @property
    def load(self) -> float:
        """The share of the room that is taken, in [0, 1] and a little above."""
        return self._sizes.total() / self._most

    @property
    def is_full(self) -> bool:
        """Whether there is no room, or was none a moment ago: a large request may find none where a small one does."""
        return self.load >= 1 or time.monotonic() - self._refused_at < _REFUSING

    def close(self) -> None:
        """Write what waits, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            try:
                self._write(item for one in batch for item in one.items)
            except Exception as error:
                if len(batch) > 1 and not isinstance(error, OSError | StoreUnavailable):
                    self._one_by_one(batch)
                    continue
                self._end(batch, error)
            else:
                self._end(batch, None)

    def _write(self, items: Iterable[Item]) -> None:
        """Parts in one transaction, judgments in another; both may be written again."""
        began, given = time.monotonic(), list(items)
        parts = [each for each in given if isinstance(each, SpanPart)]
        judgments = [each for each in given if isinstance(each, TraceJudgment)]
        if parts:
            self._store.add_spans(parts, grace=self._grace, ttl=self._ttl)
        if judgments:
            self._store.add_judgments(judgments)
        self._committed(time.monotonic() - began)

    def _one_by_one(self, batch: list[_Waiting]) -> None:
        """Find out whose parts cannot be written."""
        for one in batch:
            try:
                self._write(one.items)
            except Exception as error:
                self._end([one], error)
            else:
                self._end([one], None)

    def _next(self) -> list[_Waiting] | None:
        with self._changed:
            while not self._waiting:
                if self._closing:
                    return None
                self._changed.wait()
            batch, size = list[_Waiting](), 0
            while self._waiting:
                tenant, waiting = next(iter(self._waiting.items()))
                size += waiting[0].size
                if batch and size > _BATCH:
                    break
                batch.append(waiting.popleft())
                del self._waiting[tenant]
                if waiting:  # behind the others
                    self._waiting[tenant] = waiting
            return batch

    def _end(self, batch: list[_Waiting], error: Exception | None) -> None:
        with self._changed:
            for one in batch:
                self._sizes[one.tenant] -= one.size
                if not self._sizes[one.tenant]:
                    del self._sizes[one.tenant]
        for one in batch:
            if one.done.set_running_or_notify_cancel():
                if error is None:
                    one.done.set_result(None)
                else:
                    one.done.set_exception(error)
        if error is not None:
            _LOG.warning("what %d requests brought was not written: %s", len(batch), error)


def _size(item: Item) -> int:
    return len(item.body) if isinstance(item, SpanPart) else _JUDGMENT + len(item.said.comment or "")
