"""Parts of traces that an older ragtrace stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import sqlalchemy as sa

from ragtrace.store import Assembled, DueTrace, SpanPart, Store, migrate
from ragtrace.store.address import Address
from ragtrace.store.content import compress
from ragtrace.store.database import Database
from ragtrace.store.tables import metadata, span_part
from ragtrace.types import Candidate, RequestRecord, RetrieveRun
from tests.store.parts import bodies
from tests.store.test_schema import HEAD, up_to


def test_they_are_read_as_they_came(
    url: str, tmp_path: Path, make_record: Callable[..., RequestRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans that waited for their assembly, or for late ones, are read as they came, and then stored like new ones."""
    texts = [Random(number).randbytes(400).hex() for number in range(3)]
    waiting, settled = ("".join(texts).encode() + end for end in (b"w", b"s"))
    with monkeypatch.context() as patched:
        up_to(tmp_path, "0009_bundles", patched)
        assert migrate(url) == "0009"
    database = Database(Address.parse(url))
    trace, part = (sa.table(name, *map(sa.column, metadata.tables[name].c.keys())) for name in ("trace", "span_part"))
    with database.write() as connection:
        for trace_id, body, due_at in (("w", waiting, 1.0), ("s", settled, None)):
            same = {"tenant": "", "trace_id": trace_id}
            times = {"parts": 1, "last_at": 1.0, "due_at": due_at, "attempts": 0, "bytes": len(body)}
            connection.execute(sa.insert(trace).values(**same, **times))
            digest = hashlib.blake2b(body, digest_size=16).hexdigest()
            connection.execute(sa.insert(part).values(**same, digest=digest, body=compress(body)))
    database.close()
    assert migrate(url) == HEAD
    with Store.open(url) as store:
        (due,) = store.claim_traces(now=100.0)
        assert bodies(store, [due, DueTrace("", "s", 1, 0)]) == {("", "w"): [waiting], ("", "s"): [settled]}
        found = tuple(Candidate(chunk_id=f"c{rank}", rank=rank, text=text) for rank, text in enumerate(texts, start=1))
        parts = store.spans_of([due])["", "w"]
        assert isinstance(parts, list)
        store.assembled([Assembled(due, make_record("w", stages=(RetrieveRun(candidates=found),)), parts)])
        with store._database.read() as reading:
            refers = reading.execute(sa.select(span_part.c.trace_id, span_part.c.texts.is_not(None))).all()
        assert store.inspect(sample=None).problems == ()
        assert sorted(map(tuple, refers)) == [("s", False), ("w", True)]
        store.add_spans([SpanPart("", "s", b"late", False)], now=200.0)
        (late,) = store.claim_traces(now=300.0)
        assert bodies(store, [due, late]) == {("", "w"): [waiting], ("", "s"): sorted([b"late", settled])}
