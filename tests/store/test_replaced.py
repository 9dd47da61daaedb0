"""A record that is written again while the store's upkeep deletes the old one is stored, whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.store import Store, Subject, records
from ragtrace.types import GenerateRun, Generation, RequestRecord

MakeRecord = Callable[..., RequestRecord]


def test_a_request_that_is_pruned_between_two_looks(
    store: Store, url: str, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer revision finds the request there, then gone; it is inserted, and counted once."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    store.write([make_record(started_at=1, record_revision=1)])
    locked = records._locked

    def pruned_first(connection: sa.Connection, ids: Iterable[str]) -> Any:
        monkeypatch.setattr(records, "_locked", locked)
        with Store.open(url) as other:
            assert other.prune({"all": 10.0}).rows["request"] == 1
        return locked(connection, ids)

    monkeypatch.setattr(records, "_locked", pruned_first)
    store.write([make_record(started_at=1, record_revision=2)])
    found = store.get_record("r1")
    assert found is not None
    assert found.record_revision == 2
    assert store.inspect(sample=None).problems == ()
    assert sum(each.value for each in store.totals() if each.name == "ragtrace_requests_total") == 1


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
