"""Runs of the release gate are kept with their reports, and found by service and by release."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store import GateRun, Store
from ragtrace.store.tables import gate_run


def _run(run_id: str, at: int, service: str = "shop", *versions: tuple[str, str], **fields: str) -> GateRun:
    given = {"decision": "pass", "baseline": "replay:a", "candidate": "replay:b", **fields}
    return GateRun(run_id, service, at, versions=versions, **given)


def test_runs_are_found_newest_first(store: Store) -> None:
    """All of them or those of one service, up to a limit, as they were kept."""
    runs = [
        _run("a1", 1, "shop", ("model", "m1"), ("reranker", "v1")),
        _run("b2", 3, "shop", ("model", "m2"), decision="block", first_broken="ranking"),
        _run("c3", 2, "other", ("model", "m1")),
    ]
    for run in runs:
        store.add_gate_run(run, b"{}")
    assert store.gate_runs() == [runs[1], runs[2], runs[0]]
    assert store.gate_runs("shop") == [runs[1], runs[0]]
    assert store.gate_runs(limit=1) == [runs[1]]
    assert store.gate_runs_of("shop", "model") == [runs[1], runs[0]]
    assert store.gate_runs_of("shop", "model", "m1") == [runs[0]]
    assert store.gate_runs_of("shop", "index") == []


def test_a_report_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    """Where one run begins so; two, or none, give nothing."""
    store.add_gate_run(_run("abc", 1), b'{"a": 1}')
    store.add_gate_run(_run("abd", 2), b"{}")
    assert store.gate_report("abc") == b'{"a": 1}'
    assert (store.gate_report("ab"), store.gate_report("x"), store.gate_report("_bc")) == (None, None, None)


def test_a_run_is_kept_once(store: Store) -> None:
    """The same run again changes nothing; odd names are cleaned as everywhere."""
    run = _run("a", 1, "shop\x00", ("model", "m\x00"))
    store.add_gate_run(run, b"1")
    store.add_gate_run(run, b"2")
    assert store.gate_report("a") == b"1"
    [found] = store.gate_runs("shop\x00")
    assert (found.service, found.versions) == ("shop\ufffd", (("model", "m\ufffd"),))


def test_a_damaged_report_is_said(store: Store) -> None:
    """With its run and what to do."""
    store.add_gate_run(_run("a", 1), b"1")
    with store._database.write() as connection:
        connection.execute(sa.update(gate_run).values(body=b"no"))
    with pytest.raises(CorruptStore, match=r"the gate run 'a' cannot be read: .*; restore the database from a copy"):
        store.gate_report("a")
