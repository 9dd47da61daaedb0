"""A record that is written again while the store's upkeep deletes the old one is stored, whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.store import Store, Subject, _records as records, _requests as requests
from ragtrace.types import GenerateRun, Generation, RequestRecord, replace
from tests.store.test_spans_concurrency import waits

MakeRecord = Callable[..., RequestRecord]


def pruned_before(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, url: str) -> None:
    """Let another process prune the request when a function is called for the first time."""
    function = getattr(module, name)

    def pruned_first(*given: object) -> object:
        monkeypatch.setattr(module, name, function)
        with Store.open(url) as other:
            assert other.prune({"all": 10.0}).rows["request"] == 1
        return function(*given)

    monkeypatch.setattr(module, name, pruned_first)


def test_a_request_that_is_pruned_between_two_looks(
    store: Store, url: str, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer revision finds the request there, then gone; it is inserted, and counted once."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    store.write([make_record(started_at=1, record_revision=1)])
    pruned_before(monkeypatch, records, "_locked", url)
    store.write([make_record(started_at=1, record_revision=2)])
    found = store.get_record("r1")
    assert found is not None
    assert found.record_revision == 2
    assert store.inspect(sample=None).problems == ()
    assert sum(each.value for each in store.totals() if each.name == "ragtrace_requests_total") == 1


def test_a_request_that_is_pruned_before_it_is_told_from_others(
    store: Store, url: str, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found under its id no more is no other request: it keeps its id."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    store.write([make_record(started_at=1, record_revision=1)])
    pruned_before(monkeypatch, requests, "tell_apart", url)
    store.write([make_record(started_at=1, record_revision=2)])
    assert [row.request_id for row in store.find_requests()] == ["r1"]
    assert store.faults() == []


def test_two_writers_of_requests_of_which_one_is_pruned(
    store: Store, url: str, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write the same two requests anew, while one of these is old: they take turns, and neither fails."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    now = time.time_ns()
    store.write([make_record("r1", started_at=1), make_record("r2", started_at=now)])
    locked = records._locked
    errors: list[Exception] = []

    def write(revision: int) -> None:
        try:
            newer = [make_record("r1", started_at=1), make_record("r2", started_at=now)]
            store.write([replace(each, record_revision=revision) for each in newer])
        except Exception as error:
            errors.append(error)

    second = threading.Thread(target=write, args=(3,))

    def meanwhile(connection: sa.Connection, ids: Iterable[str]) -> Any:
        monkeypatch.setattr(records, "_locked", locked)
        with Store.open(url) as other:
            other.prune({"all": 10.0})
        found = locked(connection, ids)
        second.start()
        waits(store, second)
        return found

    monkeypatch.setattr(records, "_locked", meanwhile)
    write(2)
    second.join(60)
    assert [str(each.__cause__ or each) for each in errors] == []
    assert {each: found.record_revision for each, found in store.get_records(["r1", "r2"]).items()} == {
        "r1": 3,
        "r2": 3,
    }


def test_texts_of_an_earlier_revision_are_erased(store: Store, make_record: MakeRecord) -> None:
    """A newer record replaces an older one, and its texts are nobody's then; they go with the request."""
    for revision, answer in enumerate(("an answer that was replaced", "the answer that counts"), 1):
        said = GenerateRun(generation=Generation(answer=answer))
        store.write([make_record("r1", stages=(said,), record_revision=revision, tenant_id="acme")])
    store.write([make_record("r2", tenant_id="other")])
    assert store.erase(Subject(tenant="acme")).rows["content"] == 2
    assert store.counts()["content"] == 4
    kept = store.get_record("r2")
    assert kept is not None
    assert kept.stages == make_record("r2").stages
