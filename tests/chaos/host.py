"""The host process of the chaos test: `python host.py SETTINGS`. Prints one JSON line per answer, when it has it.

Settings: store, service, seed, start (its first number), mode, pace (seconds between requests), size (of a text), limit
(requests) and queue_bytes. It ends when its standard input does.

Modes: `kill` and `flood` (nothing is done here), `fork`, `full` (a disk that takes nothing for a while), `faulty`
(ragtrace's own parts raise) and `replaced` (the store's file is restored from a copy, or deleted).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import resource
import select
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ragtrace
from ragtrace.collect import BackgroundSink
from ragtrace.collect._delivery import Delivery
from ragtrace.record.stages import PackRecording, RankingRecording

sys.path.insert(0, os.path.dirname(__file__))
from pipeline import Pipeline, is_flagged, request_id_of  # type: ignore[import-not-found]

_refused: set[str | None] = set()  # the requests that a broken part did not take over


class Fault(Exception):
    """What ragtrace's own parts raise here."""


def say(**line: Any) -> None:
    """One line, whole or not at all."""
    os.write(1, json.dumps(line).encode() + b"\n")


def told(number: int, answer: str) -> None:
    """What the host knows once a call has returned: the answer, and whether ragtrace has accepted a flagged request."""
    is_accepted = is_flagged(number) and request_id_of(number) not in _refused
    say(number=number, answer=answer, accepted=is_accepted)


class Host:
    """Threads and an event loop that answer one number after the other."""

    def __init__(self, given: SimpleNamespace) -> None:
        self.given = given
        self.pipeline = Pipeline(ragtrace, given.size)
        self.numbers = itertools.count(given.start)
        self.stop = threading.Event()
        self.file = Path(given.store.removeprefix("sqlite:///"))
        self.turn = threading.Lock()
        self.epoch = 0  # odd while the store's file is being replaced
        self.due: set[str] = set()  # what the file that stands there must hold once a flush has said so
        self.ways = itertools.chain(("restored", "missed", "deleted"), iter(lambda: "", None))

    def told(self, number: int, answer: str, began: int) -> None:
        """What the host knows once a call has returned; what began in an earlier epoch may be in the file of then."""
        told(number, answer)
        with self.turn:
            if self.given.mode == "replaced" and is_flagged(number) and began == self.epoch and not began % 2:
                self.due.add(request_id_of(number))

    def next(self) -> int | None:
        """The next number; None at the end."""
        number = next(self.numbers)
        return None if self.stop.is_set() or number >= self.given.start + self.given.limit else number

    def serve(self) -> None:
        """In a thread."""
        while (number := self.next()) is not None:
            began = self.epoch
            self.told(number, self.pipeline.answer(number), began)
            time.sleep(self.given.pace)

    async def serve_async(self) -> None:
        """In a task."""
        while (number := self.next()) is not None:
            began = self.epoch
            self.told(number, await self.pipeline.answer_async(number), began)
            await asyncio.sleep(self.given.pace)

    async def serve_tasks(self) -> None:
        """In an event loop."""
        await asyncio.gather(*(self.serve_async() for _ in range(3)))

    def run(self) -> None:
        """Until standard input ends."""
        threads = [threading.Thread(target=self.serve) for _ in range(3)]
        threads.append(threading.Thread(target=lambda: asyncio.run(self.serve_tasks())))
        for thread in threads:
            thread.start()
        chance = random.Random(self.given.seed)
        while not select.select([0], [], [], chance.uniform(0.02, 0.12))[0]:
            getattr(self, f"do_{self.given.mode}", lambda chance: None)(chance)
            say(disturbed=True)
        self.stop.set()
        for thread in threads:
            thread.join()
        self.pipeline.close()
        if self.given.mode == "replaced":
            say(due=sorted(self.due))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def do_fork(self, chance: random.Random) -> None:
        """A child in the middle of a request answers some numbers of its own and ends in one of three ways."""
        end, first = chance.choice(("exit", "end", "kill")), self.given.start * 1000 + next(self.numbers) * 100
        with ragtrace.request(query="around a fork", request_id=f"around-{first}", flag="fork"):
            hits = self.pipeline.search("around")
            child = os.fork()
            if child == 0:
                self.in_child(first, end)
            os.waitpid(child, 0)
            self.pipeline.rerank("around", hits)
        say(around=f"around-{first}")

    def in_child(self, first: int, end: str) -> None:
        """Its requests are its own, and the one around it is the parent's."""
        self.pipeline = Pipeline(ragtrace)  # the threads of the other pool are not here
        for number in range(first, first + 5):
            told(number, self.pipeline.answer(number))
        if end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if end == "end":
            ragtrace.shutdown()
        os._exit(0)

    def do_full(self, chance: random.Random) -> None:
        """No file may grow for a while: neither spool nor database."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (chance.choice((1, 5000)), resource.RLIM_INFINITY))
        time.sleep(chance.uniform(0.05, 0.3))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def do_replaced(self, chance: random.Random) -> None:
        """A copy takes the place of the store's file, at once or after a while without any; or the file is deleted."""
        way = next(self.ways) or chance.choice(("restored", "missed", "restored", "missed", "deleted"))
        confirmed = self.confirmed()
        copy = self.file.with_name("copy.db")
        with closing(sqlite3.connect(self.file, timeout=30)) as connection:
            connection.execute("VACUUM INTO ?", (str(copy),))
        self.epoch += 1
        if way != "restored":
            self.file.unlink()
        if way == "missed":
            time.sleep(chance.uniform(0.1, 0.5))
        if way != "deleted":
            copy.replace(self.file)
        with self.turn:
            self.due = set() if way == "deleted" else confirmed
            self.epoch += 1
        copy.unlink(missing_ok=True)
        self.confirmed()

    def confirmed(self) -> set[str]:
        """Flush until all is said to be stored, and look each time whether it is."""
        for _ in range(600):
            with self.turn:
                asked = set(self.due)
            if ragtrace.flush(timeout=0.1):
                say(confirmed=len(asked), missing=sorted(asked - self.stored(asked)), exists=self.file.exists())
                if self.file.exists():
                    return asked
        say(confirmed=0, missing=["no flush said that all is stored"])
        return set()

    def stored(self, names: Iterable[str]) -> set[str]:
        """Those of these requests that the file which stands there holds."""
        try:
            with closing(sqlite3.connect(f"{self.file.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
                ids = {row[0] for row in connection.execute("SELECT request_id FROM request")}
        except sqlite3.OperationalError:
            return set()
        return ids.intersection(names)


def redactor(seed: int) -> Callable[[str], str]:
    """A redactor of the host's that raises now and then."""
    chance = random.Random(seed)

    def redact(text: str) -> str:
        if chance.random() < 0.05:
            raise Fault("redact")
        return text

    return redact


def break_ragtrace(seed: int) -> None:
    """Let its parts raise now and then: what reads results, what takes requests over, what writes to the store."""
    chance = random.Random(seed)
    for owner, name in ((RankingRecording, "take"), (PackRecording, "receive"), (Delivery, "_write_batch")):
        setattr(owner, name, _raising(getattr(owner, name), chance))
    submit = BackgroundSink.submit

    def refuse(self: BackgroundSink, item: Any, durable: bool = False) -> None:
        if chance.random() < 0.05 and hasattr(item, "build"):
            _refused.add(item.known_id)
            raise Fault("submit")
        submit(self, item, durable)

    setattr(BackgroundSink, "submit", refuse)  # noqa: B010


def _raising(given: Any, chance: random.Random) -> Any:
    def raising(*args: Any, **kwargs: Any) -> Any:
        if chance.random() < 0.05:
            raise Fault(given.__name__)
        return given(*args, **kwargs)

    return raising


def main() -> None:
    """Run."""
    given = SimpleNamespace(**json.loads(sys.argv[1]))
    settings: dict[str, Any] = {"service": given.service, "store": given.store, "queue_bytes": given.queue_bytes}
    if given.mode == "faulty":
        break_ragtrace(given.seed)
        settings |= {"capture_content": "redacted", "redactor": redactor(given.seed)}
    ragtrace.configure(**settings, raise_errors=False)
    say(ready=os.getpid())
    Host(given).run()
    say(stored=ragtrace.shutdown(timeout=60))


main()
