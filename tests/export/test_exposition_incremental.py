"""What a scrape costs: SQLite's own count of the steps that its machine takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.export.exposition import collected
from ragtrace.store import Store
from ragtrace.types import RequestRecord
from tests.export.stores import add_request


@contextmanager
def _counting() -> Iterator[list[int]]:
    """Counts the steps of every SQLite connection that is opened in the block."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def connected(connection: Any, _record: object) -> None:
        connection.set_progress_handler(step, 1)

    sa.event.listen(sa.Engine, "connect", connected)
    try:
        yield steps
    finally:
        sa.event.remove(sa.Engine, "connect", connected)


def _steps(url: str) -> int:
    with _counting() as steps, Store.open(url) as store:
        before = steps[0]  # without the opening, which checks the schema
        collected(store)
        return steps[0] - before


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store whose series are all there, and whose label values have their places."""
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    with Store.open(url) as store:
        add_request(store, "first")
        collected(store)
    return url


def test_a_scrape_does_not_depend_on_the_history(url: str) -> None:
    """After ten times as many requests, analyses and done jobs of the same series a scrape takes the same steps."""
    with Store.open(url) as store:
        for number in range(20):
            add_request(store, f"a{number}")
        few = _steps(url)
        for number in range(200):
            add_request(store, f"b{number}")
    assert _steps(url) == few
    assert few > 0


def test_a_scrape_depends_on_what_is_new(url: str) -> None:
    """The measure can tell: more series, or jobs that wait, are more steps."""
    before = _steps(url)
    with Store.open(url) as store:
        add_request(store, "other", segment="another")
        collected(store)  # gives the new segment its place
        with_series = _steps(url)
        store.write([RequestRecord(request_id=f"w{number}", service="shop", segment="price") for number in range(50)])
    with_jobs = _steps(url)
    assert before < with_series < with_jobs
