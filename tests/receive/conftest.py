"""What real packages sent, as records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtrace.receive.assembly import assemble
from ragtrace.receive.exports import read_export
from ragtrace.receive.spans import ReceivedSpan
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
