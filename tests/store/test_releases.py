"""Releases: as requests carry them or somebody recorded them; and the gate's runs with their reports."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store import ChunkSeen, GateRun, Release, Store
from ragtrace.store.tables import gate_run
from ragtrace.types import RequestRecord

MakeRecord = Callable[..., RequestRecord]


def test_a_recorded_time_wins_and_makes_no_second_release(store: Store, make_record: MakeRecord) -> None:
    """Before or after the first request that carries the version, in whatever order both arrive."""
    store.record_release("shop", "model", "a", 70)
    store.write([make_record("r1", started_at=50, versions={"model": "a", "index": "i"})])
    store.record_release("shop", "index", "i", 20)
    assert store.releases() == [
        Release("shop", "index", "i", 50, 20),
        Release("shop", "model", "a", 50, 70),
    ]
    assert [release.at for release in store.releases()] == [20, 70]


def test_an_earlier_request_moves_only_what_was_first_seen(store: Store, make_record: MakeRecord) -> None:
    """The recorded time stays."""
    store.record_release("shop", "model", "a", 70)
    store.write([make_record("r1", started_at=50, versions={"model": "a"})])
    store.write([make_record("r2", started_at=30, versions={"model": "a"})])
    assert store.releases() == [Release("shop", "model", "a", 30, 70)]


def test_a_later_word_replaces_an_earlier_one(store: Store) -> None:
    """A version that is rolled back to comes into use once more."""
    for at in (10, 90, 40):
        store.record_release("shop", "model", "a", at)
        store.record_release("shop", "model", "a", at)
    assert store.releases() == [Release("shop", "model", "a", None, 40)]


def test_what_was_recorded_can_be_taken_back(store: Store, make_record: MakeRecord) -> None:
    """What requests carried stays; taking back what nobody said changes nothing."""
    store.write([make_record("r1", started_at=50, versions={"model": "a", "index": "i"})])
    store.record_release("shop", "model", "a", 70)
    store.record_release("shop", "model", "typo", 70)
    assert store.forget_release("shop", "model", "a")
    assert store.forget_release("shop", "model", "typo")
    assert not store.forget_release("shop", "index", "i")
    assert not store.forget_release("shop", "model", "never")
    assert store.releases() == [Release("shop", "index", "i", 50), Release("shop", "model", "a", 50)]


def test_index_versions_are_compared_in_their_recorded_order(store: Store, make_record: MakeRecord) -> None:
    """A build whose first request came late is the older one when somebody says so."""
    store.write([make_record("r1", started_at=10, versions={"index": "v2"})])
    store.write([make_record("r2", started_at=20, versions={"index": "v1"})])
    store.record_release("shop", "index", "v1", 5)
    store.note_chunks([ChunkSeen("shop", "v1", "c", "one"), ChunkSeen("shop", "v2", "c", "two")])
    assert [(drift.previous_version, drift.version, drift.rewritten) for drift in store.drift()] == [("v1", "v2", 1)]


def test_names_that_no_database_takes_are_kept_readable(store: Store) -> None:
    """NUL becomes a replacement character, in recording as in taking back."""
    store.record_release("shop", "model", "a\x00", 1)
    assert store.releases() == [Release("shop", "model", "a\ufffd", None, 1)]
    assert store.forget_release("shop", "model", "a\x00")


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
    store.add_gate_run(_run("d4", 4, "a_/tried"), b"{}")
    for at in range(5, 9):
        store.add_gate_run(_run(f"e{at}", at, "ab/tried"), b"{}")
        store.add_gate_run(_run(f"f{at}", at, "A_/tried"), b"{}")
    assert [run.run_id for run in store.gate_runs(tenant="a_", limit=2)] == ["d4"]
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
