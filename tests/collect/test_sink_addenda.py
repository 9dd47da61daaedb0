"""Addenda go through the spool into a real store, and survive the process that took them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ragtrace.collect import BackgroundSink, Spool
from ragtrace.errors import StoreUnavailable
from ragtrace.store import Store
from ragtrace.types import Addendum, GenerateRun, Generation, Item, RequestRecord

RECORD = RequestRecord(request_id="r1", service="s")
ADDENDUM = Addendum(
    request_id="r1",
    service="s",
    addendum_id="a",
    flags=("late",),
    stages=(GenerateRun(ended_at=9, generation=Generation(answer="Written elsewhere.")),),
)


class Down:
    """A store that cannot be reached."""

    def write(self, items: Sequence[Item], /) -> None:
        """Fail."""
        raise StoreUnavailable("down")

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("items", [[RECORD, ADDENDUM], [ADDENDUM, RECORD], [ADDENDUM, RECORD, RECORD, ADDENDUM]])
def test_what_the_spool_holds_is_united_by_the_next_process(tmp_path: Path, folder: Path, items: list[Item]) -> None:
    """Taken while the store was down, in whatever order and however often, they are one record in the end."""
    url = f"sqlite:///{tmp_path}/r.db"
    first = BackgroundSink(Down, Spool.open(folder, url))
    for item in items:
        first.submit(item, durable=True)
    assert not first.close(10)
    second = BackgroundSink(lambda: Store.open(url), Spool.open(folder, url))
    assert second.close(60)
    with Store.open(url) as store:
        found = store.get_record("r1")
        assert found is not None
        assert (found.flags, found.stages, found.record_revision) == (("late",), ADDENDUM.stages, 1)
        assert store.counts()["addendum"] == 1
        assert not [fault for fault in store.faults() if fault.where != "sink.write"]
