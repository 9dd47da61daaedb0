"""Parts of traces: once their record is stored they refer to its texts, and come back byte for byte, old ones too."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.errors import CorruptStore
from ragtrace.store import Assembled, DueTrace, SpanPart, Store, Subject, migrate
from ragtrace.store._content import GRANULARITY, compress
from ragtrace.store._space import MARGIN
from ragtrace.store.address import Address
from ragtrace.store.database import Database
from ragtrace.store.tables import content, metadata, request, span_part
from ragtrace.types import Candidate, RequestRecord, RetrieveRun, content_hash
from tests.store.parts import ONE, TWO, bodies, execute, text
from tests.store.test_schema import HEAD, up_to

MakeRecord = Callable[..., RequestRecord]

LATER = GRANULARITY + MARGIN + 60


def body(trace_id: str, texts: Sequence[str]) -> bytes:
    """Spans that hold these texts, and something of their own."""
    return trace_id.encode() + b"\x00".join(
        f"\x1aspan {place}".encode() + each.encode() for place, each in enumerate(texts)
    )


def retrieving(make: MakeRecord, request_id: str, texts: Sequence[str], **fields: Any) -> RequestRecord:
    """A request that found these texts."""
    found = tuple(Candidate(chunk_id=f"c{rank}", rank=rank, text=each) for rank, each in enumerate(texts, start=1))
    return make(request_id, stages=(RetrieveRun(candidates=found),), **fields)


def sent(store: Store, *given: tuple[str, bytes], now: float = 100.0) -> dict[str, DueTrace]:
    """Store a part for each of these traces; returns those that are due then, by id."""
    store.add_spans([SpanPart("", trace_id, each, True) for trace_id, each in given], now=now)
    return {each.trace_id: each for each in store.claim_traces(now=now + 60)}


def made(store: Store, due: DueTrace, record: RequestRecord | None) -> Assembled:
    """The trace with the parts that are read for it."""
    parts = store.spans_of([due])["", due.trace_id]
    assert not isinstance(parts, CorruptStore)
    return Assembled(due, record, parts)


def rows(store: Store) -> dict[tuple[str, str], tuple[int, tuple[str, ...] | None]]:
    """By trace and digest: the bytes that a part takes, and the texts that it refers to."""
    with store._database.read() as connection:
        found = connection.execute(sa.select(span_part)).all()
    return {(row.trace_id, row.digest): (len(row.body), row.texts) for row in found}


def hashes(store: Store) -> set[str]:
    """Of all texts."""
    with store._database.read() as connection:
        return set(connection.scalars(sa.select(content.c.hash)))


def test_texts_are_not_kept_twice(store: Store, make_record: MakeRecord) -> None:
    """The part is as it came, takes a fraction, and is known when it is sent again."""
    texts = [text(seed) for seed in range(30)]
    given = body(ONE, [*texts, *texts])
    due = sent(store, (ONE, given))[ONE]
    ((key, (before, _)),) = rows(store).items()
    store.assembled([made(store, due, retrieving(make_record, ONE, [*texts, texts[0]], trace_id=ONE))])

    ((same, (after, refers)),) = rows(store).items()
    assert same == key
    assert refers == tuple(map(content_hash, texts))
    assert after + 16 * len(texts) < before / 10
    assert bodies(store, [due]) == {("", ONE): [given]}
    assert sent(store, (ONE, given), now=300.0) == {}
    assert rows(store) == {key: (after, refers)}


def test_many_traces_that_share_texts(store: Store, make_record: MakeRecord) -> None:
    """More than a few at once, of several tenants, in several parts each; one of them has no record."""
    texts = [text(seed) for seed in range(5)]
    parts = [
        SpanPart(tenant, f"{number:032x}", body(f"{number:032x}", texts[place:]), True)
        for tenant in ("", "a", "b")
        for number in range(10)
        for place in (0, 1)
    ]
    store.add_spans(parts, now=100.0)
    due = store.claim_traces(now=200.0)
    stored = store.spans_of(due)
    batch: list[Assembled] = []
    for each in due:
        found = stored[each.tenant, each.trace_id]
        assert not isinstance(found, CorruptStore)
        silent = (each.tenant, each.trace_id) == ("a", f"{0:032x}")
        record = None if silent else retrieving(make_record, f"{each.tenant}:{each.trace_id}", texts)
        batch.append(Assembled(each, record, found))
    store.assembled(batch)

    expected: dict[tuple[str, str], list[bytes]] = {}
    for part in parts:
        expected.setdefault((part.tenant, part.trace_id), []).append(part.body)
    assert bodies(store, due) == {key: sorted(each) for key, each in expected.items()}
    with store._database.read() as connection:
        alone = connection.execute(
            sa.select(span_part.c.tenant, span_part.c.trace_id).where(span_part.c.texts.is_(None))
        )
        assert {tuple(row) for row in alone} == {("a", f"{0:032x}")}


def test_a_record_without_texts(store: Store, make_record: MakeRecord) -> None:
    """Where the capture policy keeps none, the part stays as it is; so does one that would not become smaller."""
    due = sent(store, (ONE, body(ONE, [text(1)])), (TWO, b"short"))
    before = rows(store)
    bare = Candidate(chunk_id="c1", rank=1)
    records = [
        make_record(ONE, stages=(RetrieveRun(candidates=(bare,)),), trace_id=ONE),
        retrieving(make_record, TWO, ["short"], trace_id=TWO),
    ]
    store.assembled([made(store, due[each.request_id], each) for each in records])

    assert rows(store) == before
    assert {texts for _, texts in before.values()} == {None}
    assert store.traces_waiting()[0] == 0


def test_a_part_that_came_meanwhile(store: Store, make_record: MakeRecord) -> None:
    """It is not touched, and its trace is due again; then all are stored against the newer record's texts."""
    first, late = body(ONE, [text(1)]), body(ONE, [text(1), text(2)])
    due = sent(store, (ONE, first))[ONE]
    read = made(store, due, retrieving(make_record, ONE, [text(1)], trace_id=ONE, record_revision=1))
    store.add_spans([SpanPart("", ONE, late, True)], now=161.0)
    store.assembled([read])
    (again,) = store.claim_traces(now=300.0)
    assert (again.parts, again.bytes) == (2, len(first) + len(late))
    assert {refers for _, refers in rows(store).values()} == {None}
    newer = retrieving(make_record, ONE, [text(1), text(2)], trace_id=ONE, record_revision=2)
    store.assembled([made(store, again, newer)])

    assert [len(refers or ()) for _, refers in rows(store).values()] == [2, 2]
    assert bodies(store, [again]) == {("", ONE): sorted([first, late])}


def test_two_records_of_one_request(store: Store, make_record: MakeRecord) -> None:
    """Of two traces that name one request in one batch the newer one is stored; the other's part needs none of it."""
    due = sent(store, (ONE, body(ONE, [text(1)])), (TWO, body(TWO, [text(2)])))
    older = retrieving(make_record, "r", [text(1)], trace_id=ONE, record_revision=1)
    newer = retrieving(make_record, "r", [text(2)], trace_id=TWO, record_revision=2)
    store.assembled([made(store, due[ONE], older), made(store, due[TWO], newer)])

    assert {trace_id: refers for (trace_id, _), (_, refers) in rows(store).items()} == {
        ONE: None,
        TWO: (content_hash(text(2)),),
    }


def test_texts_that_are_missing(store: Store, make_record: MakeRecord) -> None:
    """The trace that needs them says so, with the remedy; others are read."""
    due = sent(store, *((each, body(each, [text(1), text(int(each[0]) + 1)])) for each in (ONE, TWO)))
    records = [retrieving(make_record, each, [text(1), text(int(each[0]) + 1)], trace_id=each) for each in (ONE, TWO)]
    store.assembled([made(store, due[each.request_id], each) for each in records])
    assert store.inspect(sample=10).problems == ()
    execute(store, sa.delete(content).where(content.c.hash == content_hash(text(2))))

    found = store.spans_of(due.values())
    assert isinstance(found["", ONE], CorruptStore)
    assert str(found["", ONE]).startswith(
        "1 of the 2 texts of its spans are missing; restore the database from a backup"
    )
    assert bodies(store, [due[TWO]]) == {("", TWO): [body(TWO, [text(1), text(3)])]}


def test_a_part_that_is_damaged(store: Store, make_record: MakeRecord) -> None:
    """Its trace cannot be read, and says so; the others can."""
    due = sent(store, (ONE, body(ONE, [text(1)])), (TWO, body(TWO, [text(2)])))
    store.assembled([made(store, due[TWO], retrieving(make_record, TWO, [text(2)], trace_id=TWO))])
    execute(store, sa.update(span_part).where(span_part.c.trace_id == ONE).values(body=b"x"))

    found = store.spans_of(due.values())
    assert "its spans are damaged" in str(found["", ONE])
    assert bodies(store, [due[TWO]]) == {("", TWO): [body(TWO, [text(2)])]}


def test_texts_stay_as_long_as_a_part_needs_them(store: Store, make_record: MakeRecord) -> None:
    """Garbage is what neither a request nor a part uses."""
    due = sent(store, (ONE, body(ONE, [text(1)])))[ONE]
    store.assembled([made(store, due, retrieving(make_record, ONE, [text(1)], trace_id=ONE))])
    execute(store, sa.delete(request))

    assert store.collect_garbage(now=time.time() + LATER).deleted == 0
    assert bodies(store, [due]) == {("", ONE): [body(ONE, [text(1)])]}
    assert store.forget_spans(0.0) == 1
    assert store.collect_garbage(now=time.time() + LATER).deleted == 1


def test_a_pruned_request(store: Store, make_record: MakeRecord) -> None:
    """Its spans go with it; where a late one waits they stay, and can be read when it is assembled."""
    due = sent(store, (ONE, body(ONE, [text(1)])), (TWO, body(TWO, [text(2)])))
    records = [retrieving(make_record, each, [text(int(each[0]))], trace_id=each) for each in (ONE, TWO)]
    store.assembled([made(store, due[each.request_id], each) for each in records])
    store.add_spans([SpanPart("", TWO, b"late", False)], now=300.0)
    store.prune({"all": 1.0})
    store.collect_garbage(now=time.time() + LATER)

    assert store.counts()["request"] == 0
    assert hashes(store) == {content_hash(text(2))}
    assert bodies(store, due.values()) == {("", TWO): sorted([b"late", body(TWO, [text(2)])])}


def test_an_erasure(store: Store, make_record: MakeRecord) -> None:
    """The spans of the erased request go with its texts; a text that spans of another need stays."""
    due = sent(store, (ONE, body(ONE, [text(0), text(1)])), (TWO, body(TWO, [text(0), text(2)])))
    records = [retrieving(make_record, each, [text(0), text(int(each[0]))], trace_id=each) for each in (ONE, TWO)]
    store.assembled([made(store, due[each.request_id], each) for each in records])
    execute(store, sa.delete(request).where(request.c.request_id == TWO))
    store.erase(Subject(requests=(ONE,)))

    assert hashes(store) == {content_hash(text(0)), content_hash(text(2))}
    assert bodies(store, due.values()) == {("", TWO): [body(TWO, [text(0), text(2)])]}


def test_an_erased_request_of_a_shared_trace(store: Store, make_record: MakeRecord) -> None:
    """The trace stays; when it is assembled, its record is dropped, and no part refers to the texts of that."""
    asked = retrieving(make_record, "r", [text(1)], trace_id=ONE)
    store.write([asked, make_record("r2", trace_id=ONE)])
    due = sent(store, (ONE, body(ONE, [text(1)])))[ONE]
    store.erase(Subject(requests=("r",)))
    store.assembled([made(store, due, asked)])

    assert [refers for _, refers in rows(store).values()] == [None]
    assert store.get_record("r") is None
    assert content_hash(text(1)) not in hashes(store)
    assert bodies(store, [due]) == {("", ONE): [body(ONE, [text(1)])]}


def test_what_was_forgotten_does_not_come_back(store: Store, make_record: MakeRecord) -> None:
    """An assembler that stood still until another one was done and the spans were forgotten brings none back."""
    told = text(1)
    sleeper = made(store, sent(store, (ONE, body(ONE, [told])))[ONE], retrieving(make_record, ONE, [told]))
    (again,) = store.claim_traces(now=1_000.0)
    store.assembled([made(store, again, sleeper.record)])
    assert store.forget_spans(10.0, now=2_000.0) == 1
    late = SpanPart("", ONE, body(ONE, [text(2)]), False)
    store.add_spans([late], now=2_000.0)

    store.assembled([sleeper])
    assert len(rows(store)) == 1


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
