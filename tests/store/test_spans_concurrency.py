"""Many send, assemble, forget and erase spans at once: none waits for another in a circle, and nothing is lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

import pytest
import sqlalchemy as sa

from ragtrace.store import Assembled, DueTrace, SpanPart, Store, Subject, _requests as requests, _spans as spans
from tests.store.parts import ONE, THREE, TWO, MakeRecord, assembled, part, read, saying, text


def waits(store: Store, thread: threading.Thread) -> None:
    """Return when somebody waits for a lock, or the thread has ended."""
    query = sa.text(
        "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    for _ in range(3_000):
        with store._database.read() as watcher:
            if watcher.scalar(query) or not thread.is_alive():
                return
        time.sleep(0.01)
    pytest.fail("nobody waited")


@pytest.mark.parametrize("gone", [None, ONE, TWO])
def test_a_sender_and_an_assembler(store: Store, make_record: MakeRecord, gone: str | None) -> None:
    """A sender that has the first trace and wants the second; the assembler, that has both, waits and has none."""
    if store.url.startswith("sqlite"):
        pytest.skip("only one writes at a time")
    store.add_spans([part(1, TWO)], now=100)
    store.add_spans([part(1, ONE)], now=101)
    due = store.claim_traces(now=200)
    assert [each.trace_id for each in due] == [TWO, ONE]
    made = [assembled(store, make_record, each) for each in due]
    if gone is not None:
        with store._database.write() as connection:
            requests.remember_erased(connection, [requests.digest_of_trace("", gone)], 0.0)
    errors: list[Exception] = []

    def settle() -> None:
        try:
            store.assembled(made)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=settle)
    with store._database.write() as sender:
        spans._insert(sender, spans._compressed([part(2, ONE)]), 201.0, 5.0, 60.0)
        thread.start()
        waits(store, thread)
        spans._insert(sender, spans._compressed([part(2, TWO)]), 201.0, 5.0, 60.0)
    thread.join(60)

    assert errors == []
    left = {each.trace_id: each.parts for each in store.claim_traces(now=1_000)}
    assert left == {each: 2 for each in (ONE, TWO) if each != gone}


ERASED = ("e", THREE)


class _Crowd:
    """Threads that send, assemble, stand still, forget and erase the same few traces, over and over."""

    def __init__(self, store: Store, make: MakeRecord) -> None:
        self.traces = [(tenant, f"{number:032x}") for tenant in ("", "B", "a") for number in range(2)]
        self.errors: list[Exception] = []
        self.sent: set[tuple[str, ...]] = set()
        self.recorded: set[tuple[str, ...]] = set()
        self._store, self._make = store, make
        self._stop, self._turns = threading.Event(), threading.Semaphore()

    def run(self) -> None:
        """Until all that is sent is sent; then assemble the rest."""
        senders = [threading.Thread(target=self._send, args=(seed,)) for seed in (1, 2, 3)]
        works = [self._assembler(4), self._assembler(5), self._forget, self._erase]
        others = [threading.Thread(target=self._again, args=(work,)) for work in works]
        for thread in (*senders, *others):
            thread.start()
        for thread in senders:
            thread.join()
        self._stop.set()
        for thread in others:
            thread.join()
        self._add([SpanPart(*key, b"last", True) for key in self.traces])
        while due := self._store.claim_traces():
            self._written(due)

    def _again(self, work: Callable[[], object]) -> None:
        try:
            while not self._stop.is_set() and not self.errors:
                work()
        except Exception as error:
            self.errors.append(error)
        finally:
            self._turns.release(1_000)  # nobody waits for one who ended

    def _send(self, seed: int) -> None:
        """Spans of several traces in one batch, some of which came before, as fast as they are assembled."""
        drawn, sent = random.Random(seed), list[SpanPart]()
        try:
            for turn in range(60):
                self._turns.acquire()
                keys = [*drawn.sample(self.traces, drawn.choice([0, 1, 2])), ERASED]
                given = [SpanPart(*key, f"{seed}-{turn} {text(seed)}".encode(), True) for key in keys]
                sent += given
                self._add([*given, drawn.choice(sent)], grace=drawn.choice([0.0, 0.03]))
                if self.errors:
                    return
        except Exception as error:
            self.errors.append(error)

    def _add(self, given: Sequence[SpanPart], grace: float = 0.0) -> None:
        self._store.add_spans(given, grace=grace)
        self.sent.update((each.part.tenant, each.part.trace_id, each.digest) for each in spans._compressed(given))

    def _assembler(self, seed: int) -> Callable[[], object]:
        """It writes half of what is due at once, and half of it when another one may have it."""
        drawn, late = random.Random(seed), list[Assembled]()

        def work() -> None:
            due = self._store.claim_traces(limit=4, lease_seconds=0.002)
            self._turns.release(2)
            self._written(due[::2])
            late.extend(self._made(due[1::2]))
            drawn.shuffle(late)
            while len(late) > 4:
                if drawn.random() < 0.1:
                    self._store.fail_trace(late.pop().trace, "broken")
                else:
                    self._write([late.pop(), late.pop()])

        return work

    def _written(self, due: Sequence[DueTrace]) -> None:
        self._write(self._made(due))

    def _made(self, due: Sequence[DueTrace]) -> list[Assembled]:
        made: list[Assembled] = []
        for each in due:
            parts = read(self._store, each)
            made.append(Assembled(each, saying(self._make, parts, f"{each.tenant}:{each.trace_id}"), parts))
        return made

    def _write(self, made: Sequence[Assembled]) -> None:
        self._store.assembled(made)
        for each in made:
            self.recorded.update((each.trace.tenant, each.trace.trace_id, part.digest) for part in each.parts)

    def _forget(self) -> None:
        self._store.forget_spans(0.0)

    def _erase(self) -> None:
        self._store.erase(Subject(requests=(":".join(ERASED),)), rewrite=False)


def test_all_at_once(store: Store, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits for another in a circle, and each part was in a record before it went; spans that are erased come at
    the same moment."""
    monkeypatch.setattr(spans, "_unerased", lambda connection, packed: packed)
    monkeypatch.setattr(spans, "_ATTEMPTS", 1_000)
    crowd = _Crowd(store, make_record)
    crowd.run()

    assert [str(each.__cause__ or each) for each in crowd.errors] == []
    lost = crowd.sent - crowd.recorded
    assert [each for each in lost if each[:2] != ERASED] == []
    assert len(crowd.sent) > 200
