"""Limits of a receiver in one table, the same over HTTP and gRPC and in protobuf and JSON."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ragtrace.errors import RecordError

__all__ = ["DEPTH", "DecodingBudget", "ReceiverLimits", "TenantQuota", "TooLarge", "affordable"]

DEPTH: Final = 100
"""Messages in messages, the request included: protobuf's reader has this limit, and it cannot be another."""

_LOOK: Final = 256  # values, after which the clock is read


class TooLarge(RecordError):
    """A body that can be read and holds too much: its sender should send smaller ones."""


class TenantQuota(NamedTuple):
    """How many there may be at once, and how many of these may be one tenant's."""

    total: int
    tenant: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverLimits:
    """All limits of a receiver. Sizes in bytes, times in seconds. Without tokens all senders are one tenant, which then
    has all.
    """

    # a body; beyond, its sender gets 413
    body: int = 16 << 20  # as it is sent
    inflated: int = 16 << 20  # without its content encoding
    records: int = 100_000  # spans or log records, with the resources and scopes that they stand under
    attributes: int = 500_000  # attributes, events and links, and values within values
    values: int = 4_000_000  # fields in protobuf, members and elements in JSON
    copied: int = 128 << 20  # all traces of a request, each with its resource
    decoding: float = 10.0  # processor time

    # a gzip; beyond, 400
    members: int = 1_000

    # a connection; beyond, it is closed
    head: float = 10.0  # until a request's head has come, and until a sender reads on
    handshake: float = 10.0  # until TLS has begun
    idle: int = 1_000  # connections without a request; the one that has waited longest gives way
    streams: int = 128  # calls over one connection of gRPC
    silence: float = 60.0  # without a call over gRPC, from the connection's beginning on
    connections: int = 2_000  # of gRPC; a further one is refused

    # a body on its way; beyond, 503
    arrival: float = 60.0  # until all of it has come
    pause: float = 10.0  # until something more of it has come; over gRPC, which shows no part of a message, all of it

    # what is under way; beyond, 503
    requests: TenantQuota = field(default=TenantQuota(1_000, 250))  # over each protocol
    bodies: TenantQuota = field(
        default=TenantQuota(16, 4)
    )  # of the largest size, that are received or wait to be decoded
    large: TenantQuota = field(default=TenantQuota(8, 4))  # bodies of more than `large_size`, decoded one at a time
    large_size: int = 1 << 20
    decoders: TenantQuota = field(default=TenantQuota(4, 2))  # threads for other bodies
    room: float = 0.5  # a tenant's part of the bytes that may wait to be written

    # processor time for a tenant's bodies, while another tenant's wait for theirs; beyond, 503
    rate: float = 0.5  # in each second
    burst: float = 10.0


def affordable(connections: int) -> int:
    """As many connections, or a quarter of the process' file descriptors: the others are for all else."""
    try:
        import resource
    except ImportError:  # not on Windows
        return connections
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if allowed == resource.RLIM_INFINITY else min(connections, allowed // 4)


class DecodingBudget:
    """What the decoding of one body may still take. limits: None for a file that somebody reads on purpose."""

    def __init__(self, limits: ReceiverLimits | None = None) -> None:
        self.limits = limits
        self._records = limits.records if limits is not None else 0
        self._attributes = limits.attributes if limits is not None else 0
        self._ends = time.thread_time() + limits.decoding if limits is not None else 0.0
        self._unseen = 0

    def take_record(self) -> None:
        """A resource, a scope, a span or a log record. Raises: TooLarge."""
        if self.limits is None:
            return
        self._records -= 1
        if self._records < 0:
            raise TooLarge(f"the body holds more than {self.limits.records:,} records; send smaller batches")
        self.tick()

    def take(self, count: int = 1) -> None:
        """Attributes, events, links, or values within values. Raises: TooLarge."""
        if self.limits is None:
            return
        self._attributes -= count
        if self._attributes < 0:
            raise TooLarge(
                f"the body holds more than {self.limits.attributes:,} attributes, events and links; "
                "send smaller batches"
            )
        self.tick()

    def tick(self, count: int = 1) -> None:
        """Something was decoded. Raises: TooLarge once that has taken too long."""
        self._unseen += count
        if self._unseen >= _LOOK:
            self._unseen = 0
            self.check_time()

    def check_time(self) -> None:
        """Raises: TooLarge once this thread has worked on the body for too long, not counting what others took."""
        if self.limits is not None and time.thread_time() > self._ends:
            raise TooLarge(
                f"the body was not decoded within {self.limits.decoding:g} seconds of processor time; "
                "send smaller batches"
            )
