"""What real packages sent, as records; an empty store and what assembles into it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragtrace import config
from ragtrace.receive._assembly import Assembler, assemble
from ragtrace.receive._spans import ReceivedSpan
from ragtrace.receive.imports import read_export
from ragtrace.store import Store
from ragtrace.types import RequestRecord

RECORDED = Path(__file__).parent / "recorded"


@pytest.fixture
def recorded() -> Callable[[str], list[RequestRecord]]:
    """The records of what a package sent, in the order in which its requests ended."""

    def records(name: str) -> list[RequestRecord]:
        traces: defaultdict[str, list[ReceivedSpan]] = defaultdict(list)
        for each in read_export(RECORDED / f"{name}.json").spans:
            traces[each.trace_id].append(each)
        found = [record for spans in traces.values() if (record := assemble(spans)) is not None]
        return sorted(found, key=lambda record: record.ended_at)

    return records


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(f"sqlite:///{tmp_path}/spans.db") as opened:
        yield opened


@pytest.fixture
def assembler(store: Store) -> Assembler:
    """It keeps all content."""
    return Assembler(store, config.load(capture_content="full"))
