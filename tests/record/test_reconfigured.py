"""A request that is open while `configure` or `shutdown` is called: nothing of it is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace.store import Store


def search(name: str) -> None:
    """One stage."""
    ragtrace.retrieve(lambda query: [{"id": name, "text": "t"}])("q")


@pytest.mark.parametrize("flag", [None, "vip"])
def test_an_open_request_outlives_a_second_configure(tmp_path: Path, flag: Any) -> None:
    """Its later stages belong to it, and the next start of its store has it, flagged or not."""
    first, second = (f"sqlite:///{tmp_path / name}.db" for name in ("first", "second"))
    ragtrace.configure(store=first)
    with ragtrace.request(query="open", request_id="open", flag=flag):
        search("before")
        ragtrace.configure(store=second)
        search("after")
    search("of the second")
    assert ragtrace.shutdown(timeout=60)
    ragtrace.configure(store=first)
    assert ragtrace.shutdown(timeout=60)
    with Store.open(first) as opened:
        record = opened.get_record("open")
        assert record is not None
        assert [candidate.chunk_id for candidate in record.candidates] == ["before", "after"]
        assert record.flags == ((flag,) if flag else ())
    with Store.open(second) as opened:
        assert opened.get_record("open") is None
        assert len(opened.find_requests()) == 1


def test_an_open_request_outlives_a_shutdown(tmp_path: Path) -> None:
    """It ends in the spool; its spans' end is the same."""
    store = f"sqlite:///{tmp_path / 'x.db'}"
    ragtrace.configure(store=store)
    with ragtrace.request(query="open", request_id="open", flag="vip"):
        search("before")
        assert ragtrace.shutdown(timeout=60)
    ragtrace.configure(store=store)
    assert ragtrace.shutdown(timeout=60)
    with Store.open(store) as opened:
        record = opened.get_record("open")
        assert record is not None
        assert len(record.stages) == 1
