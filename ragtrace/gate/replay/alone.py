"""One replay of a name at a time: two at once would ask each question twice, with the same number of its attempt."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import socket
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ragtrace.errors import ConfigurationError, StoreError
from ragtrace.store import Store
from ragtrace.store.address import Address

__all__ = ["alone"]

_SECONDS: Final = 60.0  # after which another machine may take the place of one that was killed
_LOG: Final = logging.getLogger(__name__)


@contextmanager
def alone(store: Store, run: str, seconds: float = _SECONDS) -> Iterator[None]:
    """Hold the name of a run in a store.

    A lock of this machine keeps its other processes out, and ends with its process, so that a replay that was killed
    goes on at once. A lease in the store, which belongs to the machine, keeps other machines out.
    Raises: ConfigurationError while another process replays the name; StoreError.
    """
    with _locked(store, run):
        name, owner = f"replay {run}", f"{socket.gethostname()} {uuid.getnode():x} {os.getuid()}"
        if not store.acquire(name, owner, seconds):
            raise ConfigurationError(f"{_held(store, run)} (a machine that was stopped lets go after {seconds:g} s)")
        ended = threading.Event()
        keeper = threading.Thread(
            target=_keep, args=(store, name, owner, seconds, ended), name="ragtrace-replay-lease", daemon=True
        )
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()
            with contextlib.suppress(StoreError):  # it runs out by itself
                store.release(name, owner)


@contextmanager
def _locked(store: Store, run: str) -> Iterator[None]:
    address = Address.parse(store.url)
    place = address.file.resolve() if address.is_sqlite else address.url
    key = hashlib.sha256(f"{place}\n{run}".encode()).hexdigest()[:32]
    file = Path(tempfile.gettempdir()) / f"ragtrace-replay-{os.getuid()}-{key}.lock"
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(_held(store, run)) from error
        yield  # the empty file stays: who removed it could remove the one that another process has just locked


def _held(store: Store, run: str) -> str:
    return (
        f"run {run!r} is being replayed into store {store.url} by another process; wait for it, or give another --name"
    )


def _keep(store: Store, name: str, owner: str, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds / 3):
        try:
            if not store.acquire(name, owner, seconds):
                _LOG.warning(
                    "another machine has taken %s, as this one stood still; let one of the two be the last", name
                )
        except StoreError as error:
            _LOG.warning("the lease of %s is not prolonged: %s", name, error)
