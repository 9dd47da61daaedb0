"""Runs assemblers in processes of their own: reading spans takes the interpreter longer than receiving them.

Each is told to stop through its pipe, and stops as well when the pipe breaks, since the receiver is gone then. One that
ends before its time is replaced. What it had taken is due again when its lease runs out.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import time
from functools import partial
from multiprocessing.connection import Connection
from threading import Event, Thread
from typing import Final

from ragtrace.config import Config
from ragtrace.errors import RagtraceError
from ragtrace.receive.assembly import Assembler, Counted, Fate
from ragtrace.receive.tenants import Access, Claim
from ragtrace.store import Store

__all__ = ["Assemblers"]

_LOG: Final = logging.getLogger("ragtrace.receive")
_STOP: Final = "stop"
_LOOK: Final = 0.2  # seconds between two looks whether to stop
_PAUSE: Final = 2.0  # seconds before one that ended is replaced
_PATIENCE: Final = 60.0  # seconds for the page at hand, when told to stop
_ENDING: Final = 5.0  # seconds to end, with nothing left to do


class Assemblers:
    """So many processes. config, keep, counted: as for `Assembler`. access: says what the spans of a tenant may say, in
    each process as in this one, and reads its file again in each."""

    def __init__(
        self, count: int, store_url: str, config: Config, *, keep: float, access: Access, counted: Counted
    ) -> None:
        self._given = (store_url, config, keep, access)
        self._counted = counted
        self._stop = Event()
        self._threads = [Thread(target=self._keep_one, name=f"ragtrace-assembler-{each}") for each in range(count)]

    def start(self) -> None:
        """Start them."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Have them write the page that they have at hand, and wait for their end."""
        self._stop.set()
        for each in self._threads:
            if each.is_alive():
                each.join()

    def _keep_one(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share connections and threads
        while not self._stop.is_set():
            ours, theirs = context.Pipe()
            process = context.Process(target=_assemble, args=(theirs, *self._given), daemon=True)
            try:
                process.start()
            except OSError as error:  # no memory or no descriptors now; there may be later
                _LOG.warning("an assembler cannot be started: %s", error)
                ours.close()
                theirs.close()
                self._stop.wait(_PAUSE)
                continue
            theirs.close()
            self._listen(ours)
            process.join(_ENDING)
            if process.is_alive():
                process.kill()
                process.join()
            ours.close()
            if not self._stop.is_set():
                _LOG.warning("an assembler ended with exit code %s; another one takes its place", process.exitcode)
                self._stop.wait(_PAUSE)

    def _listen(self, channel: Connection) -> None:
        """Count what a process says until it ends; once told to stop, it has a while for that."""
        try:
            while not self._stop.is_set():
                if channel.poll(_LOOK):
                    self._counted(*channel.recv())
            channel.send(_STOP)
            deadline = time.monotonic() + _PATIENCE
            while channel.poll(max(0.0, deadline - time.monotonic())):
                self._counted(*channel.recv())
        except (EOFError, OSError):  # it has ended
            return


def _assemble(channel: Connection, store_url: str, config: Config, keep: float, access: Access) -> None:
    """One process: assemble until it is told to stop, or its receiver is gone."""
    stop = Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the receiver's to hear
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Thread(target=_wait, args=(channel, stop), daemon=True).start()
    try:
        with Store.open(store_url) as store:
            told = partial(_tell, channel)
            Assembler(store, config, keep=keep, rights=access.rights, counted=told).run(stop)
    except RagtraceError as error:
        _LOG.warning("spans wait: %s", error)
        raise SystemExit(1) from None


def _tell(channel: Connection, fate: Fate | Claim, count: int) -> None:
    try:
        channel.send((fate, count))
    except OSError:
        _LOG.debug("nobody counts %d traces that were %s", count, fate)


def _wait(channel: Connection, stop: Event) -> None:
    try:
        channel.recv()
    except (EOFError, OSError):
        _LOG.debug("the receiver is gone")
    stop.set()
