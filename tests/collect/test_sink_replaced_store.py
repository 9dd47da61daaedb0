"""A host whose store file is deleted or replaced under it loses nothing that it confirms afterwards."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrace.collect import BackgroundSink, Spool
from ragtrace.store import Store
from ragtrace.types import RequestRecord


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "ragtrace.db"


@pytest.fixture
def sink(file: Path, tmp_path: Path) -> Iterator[BackgroundSink]:
    """A host's sink over a real store."""
    opened = BackgroundSink(lambda: Store.open(f"sqlite:///{file}"), Spool(tmp_path / "spool"), retry=(0.05, 0.2))
    yield opened
    opened.close(10)


def _submit(sink: BackgroundSink, names: list[str]) -> None:
    for number, name in enumerate(names):
        sink.submit(RequestRecord(request_id=name, service="svc"), durable=bool(number % 2))


def _confirmed(sink: BackgroundSink) -> None:
    deadline = time.monotonic() + 30
    while not sink.flush(5):
        assert time.monotonic() < deadline


def _stored(file: Path) -> set[str]:
    with Store.open(f"sqlite:///{file}") as store:
        return {row.request_id for row in store.find_requests(limit=10_000)}


def test_what_is_confirmed_after_a_deletion_is_in_the_store_that_follows(
    sink: BackgroundSink, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what happened; nothing waits in the spool in the end."""
    _submit(sink, ["before"])
    _confirmed(sink)
    file.unlink()
    names = [f"after-{number}" for number in range(50)]
    with caplog.at_level(logging.ERROR, logger="ragtrace"):
        _submit(sink, names)
        _confirmed(sink)

    assert set(names) <= _stored(file)
    assert any("was deleted while it was open" in message for message in caplog.messages)


def test_what_is_confirmed_after_a_restore_is_in_the_restored_store(
    sink: BackgroundSink, file: Path, tmp_path: Path
) -> None:
    """Round after round, a copy takes the place of the open file: neither its records nor later ones are lost."""
    names: list[str] = []
    for turn in range(5):
        fresh = [f"{turn}-{number}" for number in range(30)]
        _submit(sink, fresh)
        _confirmed(sink)
        names += fresh
        copy = tmp_path / "copy.db"
        with Store.open(f"sqlite:///{file}") as store, store._database.driver() as connection:
            connection.execute("VACUUM INTO ?", (str(copy),))
        copy.replace(file)
    _submit(sink, ["last"])
    _confirmed(sink)
    assert _stored(file) == {*names, "last"}
