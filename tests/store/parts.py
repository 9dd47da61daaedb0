"""Parts of traces as the store takes them in and hands them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store import Assembled, DueTrace, SpanPart, Store, StoredPart
from ragtrace.store.tables import span_part, trace
from ragtrace.types import Candidate, RequestRecord, RetrieveRun

MakeRecord = Callable[..., RequestRecord]

ONE, TWO, THREE, FOUR = (digit * 32 for digit in "1234")


def text(seed: int) -> str:
    """A text that resembles no other."""
    return Random(seed).randbytes(400).hex()


def part(seed: int, trace_id: str = ONE) -> SpanPart:
    """Spans that say a text."""
    return SpanPart("", trace_id, text(seed).encode(), True)


def bodies(store: Store, due: Iterable[DueTrace]) -> dict[tuple[str, str], list[bytes]]:
    """What came of these traces, which can be read."""
    found: dict[tuple[str, str], list[bytes]] = {}
    for key, parts in store.spans_of(due).items():
        assert not isinstance(parts, CorruptStore)
        found[key] = sorted(part.body for part in parts)
    return found


def saying(make: MakeRecord, parts: Sequence[StoredPart], trace_id: str = ONE) -> RequestRecord:
    """A request of the texts of these spans, newer the more they are."""
    found = tuple(
        Candidate(chunk_id=f"c{rank}", rank=rank, text=each.body.decode()) for rank, each in enumerate(parts, 1)
    )
    stages = (RetrieveRun(candidates=found),)
    return make(trace_id, stages=stages, trace_id=trace_id, record_revision=len(parts))


def read(store: Store, due: DueTrace) -> list[StoredPart]:
    """The parts of a trace."""
    parts = store.spans_of([due]).get((due.tenant, due.trace_id), [])
    assert not isinstance(parts, CorruptStore)
    return parts


def assembled(store: Store, make: MakeRecord, due: DueTrace) -> Assembled:
    """A trace with its record."""
    parts = read(store, due)
    return Assembled(due, saying(make, parts, due.trace_id), parts)


def state(store: Store) -> list[tuple[object, ...]]:
    """All that is stored of traces."""
    with store._database.read() as connection:
        rows = [tuple(row) for table in (trace, span_part) for row in connection.execute(sa.select(table))]
    return sorted(rows, key=str)


def execute(store: Store, statement: sa.Executable) -> None:
    """Change what is stored behind its back."""
    with store._database.write() as connection:
        connection.execute(statement)
