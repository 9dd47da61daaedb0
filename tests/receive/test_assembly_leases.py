"""Leases of an assembler's traces last as long as there is progress, and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from ragtrace.receive import _assembly as assembly
from ragtrace.receive._assembly import Assembler, record_of
from ragtrace.receive._trace_tree import ReadSpan
from ragtrace.store import Assembled, DueTrace, Store
from ragtrace.types import RequestRecord, replace
from tests.receive.test_assembly import request
from tests.receive.test_assembly_assembler import part


def slowly(monkeypatch: pytest.MonkeyPatch, seconds: Sequence[float], meanwhile: Callable[[], object]) -> None:
    """Let traces take so many seconds, one after the other; at the end of each something else happens."""
    clock, following = [1e9], iter(seconds)
    monkeypatch.setattr(time, "time", lambda: clock[0])

    def made(told: list[ReadSpan], count: int) -> RequestRecord | None:
        clock[0] += next(following)
        meanwhile()
        return record_of(told, count)

    monkeypatch.setattr(assembly, "record_of", made)


def several(store: Store) -> None:
    """Four traces that are due."""
    parts = [part([replace(each, trace_id=f"{number:032x}") for each in request()]) for number in range(1, 5)]
    store.add_spans(parts, now=0)


def test_a_page_that_takes_long(store: Store, assembler: Assembler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its traces stay whose they are as long as one after the other is made: another assembler gets none of them."""
    others: list[DueTrace] = []
    slowly(monkeypatch, [25] * 4, lambda: others.extend(store.claim_traces()))
    several(store)

    assert assembler.step() == 4
    assert others == []
    assert store.counts()["request"] == 4
    assert store.traces_waiting()[0] == 0


def test_an_assembler_that_stands_still(store: Store, assembler: Assembler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes longer for one trace than its lease loses all; what it made is written, and changes nothing else."""
    others: list[DueTrace] = []
    slowly(monkeypatch, [61, 0, 0, 0], lambda: others.extend(store.claim_traces()))
    several(store)
    assembler.step()

    assert len(others) == 4
    assert store.counts()["request"] == 4
    assert store.traces_waiting()[0] == 4
    for each in others:
        store.assembled([Assembled(each, None)])
    assert store.traces_waiting()[0] == 0
