"""Leases: one holder at a time over all processes, such as the exporter, or one upkeep.

What deletes beside writers must not delete beside another that deletes. The fence of its lease is the owner: an upkeep
that stood still until another one took its place stops at its next step. What works in steps prolongs its lease between
them; what waits for something else, a model or an application, has a heartbeat.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import sqlalchemy as sa

from ragtrace.errors import StoreError
from ragtrace.store.database import Database, insert
from ragtrace.store.tables import lease

__all__ = ["Heartbeat", "UpkeepLease", "acquire", "pause", "release"]

_LOG: Final = logging.getLogger(__name__)
_SHORTEST: Final = 0.01  # seconds between two batches of an upkeep
_LONGEST: Final = 3600.0  # seconds; one that ends later is what a clock left that was set back


def acquire(connection: sa.Connection, name: str, owner: str, seconds: float, now: float) -> bool:
    """Take or prolong the lease `name`. False when another owner holds it."""
    statement = insert(connection, lease).values(name=name, owner=owner, expires_at=now + seconds)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["name"],
            set_={"owner": owner, "expires_at": now + seconds},
            where=sa.or_(lease.c.owner == owner, lease.c.expires_at <= now, lease.c.expires_at > now + _LONGEST),
        )
    )
    return connection.scalar(sa.select(lease.c.owner).where(lease.c.name == name)) == owner


def release(connection: sa.Connection, name: str, owner: str) -> None:
    """Give the lease back; nothing happens when another owner holds it."""
    connection.execute(sa.delete(lease).where(lease.c.name == name, lease.c.owner == owner))


def pause(began: float) -> None:
    """Leave writers as much time as a batch of an upkeep took, which began then by the monotonic clock."""
    time.sleep(max(_SHORTEST, time.monotonic() - began))


class Heartbeat:
    """A thread that prolongs leases each third of their time, until `close` or the end of the block.

    Args:
        what: is leased, for the log.
        seconds: the time of the leases.
        prolong: gives False where nothing is left to prolong. What the store raises is logged, and tried again.
    """

    def __init__(self, what: str, seconds: float, prolong: Callable[[], bool]) -> None:
        self._what = what
        self._seconds = seconds
        self._prolong = prolong
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ragtrace-lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds / 3):
            try:
                if not self._prolong():
                    return
            except StoreError as error:
                _LOG.warning("the lease of %s could not be prolonged: %s", self._what, error)


_NAME: Final = "upkeep"
_SECONDS: Final = 30.0  # a killed upkeep holds up the next one for as long
_LOOK: Final = 0.2


class UpkeepLease:
    """Holds the lease of upkeep while it is entered. Raises: StoreError when another one does not end."""

    def __init__(self, database: Database, what: str, wait: float = _SECONDS + 5.0) -> None:
        self._database = database
        self._owner = f"{what} on {socket.gethostname()} {os.getpid()} {uuid.uuid4().hex[:8]}"
        self._wait = wait
        self._held_at = time.monotonic()

    def __enter__(self) -> Self:
        deadline = time.monotonic() + self._wait
        while not self._acquired():
            if time.monotonic() > deadline:
                with self._database.read() as connection:
                    holder = connection.scalar(sa.select(lease.c.owner).where(lease.c.name == _NAME))
                raise StoreError(
                    f"store {self._database.address.shown}: {holder or 'another upkeep'} is at work; "
                    "wait until it has ended, and try again"
                )
            time.sleep(_LOOK)
        return self

    def _acquired(self) -> bool:
        with self._database.write() as connection:
            return acquire(connection, _NAME, self._owner, _SECONDS, time.time())

    def hold(self, connection: sa.Connection) -> None:
        """Prolong the lease in the transaction of a step. Raises: StoreError when another one has it."""
        mine = sa.update(lease).where(lease.c.name == _NAME, lease.c.owner == self._owner)
        if not connection.execute(mine.values(expires_at=time.time() + _SECONDS)).rowcount:
            raise StoreError(
                f"store {self._database.address.shown}: this stood still for too long and another upkeep took its "
                "place; run it again"
            )
        self._held_at = time.monotonic()

    def keep(self) -> None:
        """Prolong the lease between steps that only read, where it is time to."""
        if time.monotonic() - self._held_at > _SECONDS / 6:
            with self._database.write() as connection:
                self.hold(connection)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._database.write() as connection:
            release(connection, _NAME, self._owner)
