"""A subject's data can be found, and is gone at once from wherever the store keeps it; nothing brings it back."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.errors import StoreUnavailable
from ragtrace.store import (
    Assembled,
    Delta,
    DueTrace,
    Exemplar,
    Finished,
    SpanPart,
    Store,
    Subject,
    _erasure as erasure,
    _requests as requests,
    _space as space,
    totals,
)
from ragtrace.store.tables import content, counted, feedback, request, tenant_service
from ragtrace.types import Addendum, Fault, Feedback, GenerateRun, Generation, RequestRecord, content_hash
from tests.store.parts import bodies

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]

ONE, TWO = "1" * 32, "2" * 32


def asked(make: MakeRecord, request_id: str, answer: str = "shared", **fields: Any) -> RequestRecord:
    """A record of one text."""
    return make(request_id, stages=(GenerateRun(generation=Generation(answer=answer)),), **fields)


def _ids(store: Store) -> set[str]:
    return {row.request_id for row in store.find_requests(limit=1_000)}


def _texts(store: Store) -> set[str]:
    with store._database.read() as connection:
        return set(connection.scalars(sa.select(content.c.hash)))


def test_a_tenant_is_found_and_erased_with_all_that_belongs_to_it(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished
) -> None:
    """Requests, results, jobs, feedback, addenda, spans, own texts and exemplars go; another tenant's stay."""
    mine = [
        asked(make_record, "a:1", "mine", tenant_id="a", session_id="s1", trace_id=ONE),
        asked(make_record, "a:2", tenant_id="a", session_id="s2"),
    ]
    store.write([*mine, asked(make_record, "b:1", tenant_id="b", session_id="s1", trace_id=TWO)])
    store.write([Feedback(request_id="a:1", score=0.0, comment="bad"), Feedback(request_id="b:1", score=1.0)])
    store.write([Addendum(request_id="a:1", service="shop", addendum_id="x", flags=("late",))])
    store.write([Fault(service="shop", where="request", kind="repeated", message="the other one is a:1", at=5)])
    for job in store.claim("w", limit=10):
        trace_id = ONE if job.request_id == "a:1" else TWO
        shown = Delta("shown", (("of", job.request_id),), 1.0, Exemplar(trace_id, 0.5, 1.0))
        done = make_finished(job)
        store.finish([Finished(job, done.analysis, (*done.deltas, shown))])
    parts = [SpanPart("a", ONE, b"1", True), SpanPart("a", "3" * 32, b"2", False), SpanPart("b", TWO, b"3", True)]
    store.add_spans(parts, now=100.0)

    found = store.find_subject(Subject(tenant="a"))
    shown_of = [total.exemplar.trace_id for total in store.totals() if total.exemplar]
    assert (found.requests, found.first, found.rows["trace"]) == (2, ("a:1", "a:2"), 2)
    assert found.exemplars == shown_of.count(ONE) > 0
    assert len(_ids(store)) == 3
    counted_before = {(total.name, total.labels): total.value for total in store.totals()}

    with store._database.read() as connection:
        judged = connection.scalars(sa.select(feedback.c.feedback_id)).all()
        before = {*judged, "a:1", "a:2", "b:1"}
    gone = store.erase(Subject(tenant="a"))
    assert (gone.requests, gone.first, gone.exemplars) == (2, ("a:1", "a:2"), found.exemplars)
    assert {name: gone.rows[name] for name in found.rows} == found.rows
    assert gone.rows["content"] == 1
    assert _ids(store) == {"b:1"}
    assert _texts(store) == {content_hash("shared")}
    assert {(total.name, total.labels): total.value for total in store.totals()} == counted_before
    assert {total.exemplar.trace_id for total in store.totals() if total.exemplar} == {TWO}
    assert [fault.message for fault in store.faults()] == ["(erased)"]
    assert bodies(store, [DueTrace("a", ONE, 1, 0), DueTrace("b", TWO, 1, 0)]) == {("b", TWO): [b"3"]}
    record = store.get_record("b:1")
    assert record is not None
    assert [each.score for each in record.feedback] == [1.0]
    tables = store.counts()
    for name in ("job", "analysis", "diagnosis", "trait", "request", "feedback", "span_part", "trace"):
        assert tables[name] == 1, name
    with store._database.read() as connection:
        remembered = set(connection.scalars(sa.select(counted.c.request_id)))
    assert len(remembered & before) == 2  # the other tenant's request and its feedback
    assert store.erase(Subject(tenant="a")).rows == {}


def test_examples_of_services_without_a_place_are_erased(
    store: Store, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service beyond its budget is an example in the totals of `other`: there the erased traces go, also those of a
    service that was admitted since; examples of other traces stay."""
    monkeypatch.setattr(totals, "LIMITS", {**totals.LIMITS, "service": 1})
    services = ["first", "second", "third", "a/first", "a/second"]
    traces = [f"{number}" * 32 for number in range(1, 6)]
    for service, trace_id in zip(services, traces, strict=True):
        shown = [Delta(name, (("service", service),), 1.0, Exemplar(trace_id, 0.5, 1.0)) for name in (service, "all")]
        with store._database.write() as connection:
            totals.add(connection, shown)
        store.write([make_record(trace_id, service=service, trace_id=trace_id, tenant_id="a")])
    assert store.admit("third")
    assert {total.name for total in store.totals() if total.exemplar} == {*services, "all"}

    def examples() -> set[tuple[str, str]]:
        return {(dict(total.labels)["service"], total.exemplar.trace_id) for total in store.totals() if total.exemplar}

    before = examples()
    erased_traces = (traces[1], traces[2], traces[4])
    assert {("other", traces[1]), ("other", traces[2]), ("a/other", traces[4])} <= before
    found = store.find_subject(Subject(requests=erased_traces))
    assert store.erase(Subject(requests=erased_traces)).exemplars == found.exemplars > 0
    assert examples() == {each for each in before if each[1] not in erased_traces} != set()


def test_nothing_brings_it_back(store: Store, make_record: MakeRecord) -> None:
    """A spool that delivers again, a late span, late feedback and a trace that was being assembled change nothing."""
    record = asked(make_record, "a:1", "mine", tenant_id="a", trace_id=ONE)
    late: list[Any] = [
        record,
        Feedback(request_id="a:1", score=0.0),
        Addendum(request_id="a:1", service="shop", addendum_id="x", flags=("late",)),
        asked(make_record, "b:1"),
    ]
    store.write([record])
    part = SpanPart("a", ONE, b"1", True)
    store.add_spans([part], now=100.0)
    (due,) = store.claim_traces(now=200.0)
    store.erase(Subject(tenant="a"))
    store.write(late)
    store.assembled([Assembled(due, asked(make_record, "a:1", "mine", tenant_id="a", trace_id=ONE, started_at=7))])
    assert store.add_spans([part, SpanPart("b", ONE, b"1", True)], now=300.0) == 1
    assert _ids(store) == {"b:1"}
    assert _texts(store) == {content_hash("shared")}
    tables = store.counts()
    assert (tables["feedback"], tables["addendum"], tables["span_part"], tables["job"]) == (0, 0, 1, 1)
    again = asked(make_record, "a:1", "new", started_at=99_000)
    store.write([again, Feedback(request_id="a:1", score=1.0)])
    found = store.get_record("a:1")
    assert found is not None
    assert [each.score for each in found.feedback] == [1.0]


def test_a_part_that_slipped_in_is_deleted_when_it_would_be_assembled(store: Store, make_record: MakeRecord) -> None:
    """A sender that was writing spans of an erased trace at that moment leaves none of them behind."""
    store.add_spans([SpanPart("a", ONE, b"1", True), SpanPart("a", TWO, b"1", True)], now=100.0)
    due = store.claim_traces(now=200.0)
    with store._database.write() as connection:
        requests.remember_erased(connection, [requests.digest_of_trace("a", ONE)], 0.0)
    ids = [each.trace_id for each in due]
    records = [asked(make_record, f"a:{each}", each, tenant_id="a", trace_id=each) for each in ids]
    store.assembled(list(map(Assembled, due, records)))
    assert _ids(store) == {f"a:{TWO}"}
    assert bodies(store, due) == {("a", TWO): [b"1"]}
    assert _texts(store) == {content_hash(TWO)}


def test_a_session_of_a_tenant(store: Store, make_record: MakeRecord) -> None:
    """A session of that tenant alone, where both are given; of every tenant otherwise."""
    store.write([asked(make_record, f"{each}:1", tenant_id=each, session_id="s") for each in "abc"])
    store.write([asked(make_record, "a:2", tenant_id="a")])
    assert store.erase(Subject(tenant="a", session="s")).first == ("a:1",)
    assert store.erase(Subject(session="s")).first == ("b:1", "c:1")
    assert _ids(store) == {"a:2"}


def test_requests_by_id_with_all_attempts(store: Store, make_record: MakeRecord) -> None:
    """A host that gave an id to two requests erases both; one whose id begins the same stays, and so does a trace that
    another request shares."""
    store.write([asked(make_record, "r", trace_id=ONE), asked(make_record, "r", started_at=2_000_000_007)])
    store.write([asked(make_record, "r2", trace_id=ONE)])
    store.add_spans([SpanPart("", ONE, b"1", True)], now=100.0)
    gone = store.erase(Subject(requests=("r", "nobody")))
    assert gone.first == ("r", "r~19700101T000002.000000007")
    assert _ids(store) == {"r2"}
    assert store.counts()["trace"] == 1
    store.write([asked(make_record, "r", trace_id=ONE), asked(make_record, "r", started_at=2_000_000_007)])
    assert _ids(store) == {"r2"}


def test_what_waits_is_erased_too(store: Store) -> None:
    """Feedback and addenda whose request never came, and a trace that is not assembled, by the id it would have."""
    late = GenerateRun(generation=Generation(answer="late"))
    store.write([Addendum(request_id="r", service="shop", addendum_id="x", stages=(late,))])
    store.write([Feedback(request_id="r", score=1.0), Feedback(request_id="other", score=1.0)])
    store.write([Feedback(request_id=f"a:{ONE}", score=1.0), Feedback(request_id="a:17", score=1.0)])
    store.add_spans([SpanPart("", TWO, b"1", True)], now=100.0)
    found = store.find_subject(Subject(requests=("r", TWO)))
    gone = store.erase(Subject(requests=("r", TWO)))
    assert (found.requests, found.rows) == (0, {"addendum": 1, "feedback": 1, "trace": 1})
    assert gone.rows == {**found.rows, "content": 1}
    assert store.erase(Subject(tenant="a")).rows == {"feedback": 1}
    assert store.counts()["feedback"] == 2


def test_a_text_that_comes_into_use_meanwhile_stays(store: Store, make_record: MakeRecord) -> None:
    """A writer uses a condemned text after the requests were read: it touches it, so that it is not deleted."""
    store.write([asked(make_record, "a", "mine", tenant_id="a")])
    read = space.in_use
    with pytest.MonkeyPatch.context() as patched:

        def in_use(*arguments: Any, **named: Any) -> list[str]:
            used = list(read(*arguments, **named))
            if named.get("damaged"):  # as who deletes asks, after the requests were read to mark the texts
                store.write([asked(make_record, "b", "mine", tenant_id="b")])
            return used

        patched.setattr(space, "in_use", in_use)
        gone = store.erase(Subject(tenant="a"))
    assert "content" not in gone.rows
    assert _texts(store) == {content_hash("mine")}


def test_writers_and_an_erasure(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """Of tenants that ask the same, one is erased over and over beside a worker; no answer of the others is missing."""
    failed: list[BaseException] = []
    stop = threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                store.finish([make_finished(job) for job in store.claim("w", limit=4)])
        except BaseException as error:
            failed.append(error)

    def write(tenant: str) -> None:
        try:
            for turn in range(40):
                records = [asked(make_record, f"{tenant}-{turn}-{each}", f"{each}", tenant_id=tenant) for each in "xyz"]
                store.write(records)
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(tenant,)) for tenant in ("kept", "erased", "kept 2")]
    worker = threading.Thread(target=work)
    for thread in (*writers, worker):
        thread.start()
    while any(thread.is_alive() for thread in writers):
        store.erase(Subject(tenant="erased"), rewrite=False)
    stop.set()
    worker.join(60)
    store.erase(Subject(tenant="erased"))
    assert failed == []
    rows = store.find_requests(limit=1_000)
    assert len(rows) == 240
    for row in rows:
        record = store.get_record(row.request_id)
        assert record is not None
        assert record.stages[0].generation.answer == row.request_id[-1]  # type: ignore[union-attr]


def test_a_killed_erasure_is_finished_by_the_next(store: Store, make_record: MakeRecord) -> None:
    """Texts that a run has condemned and not deleted go with the next run, whatever that erases."""
    store.write([asked(make_record, "a", "mine", tenant_id="a"), asked(make_record, "b", "ours", tenant_id="b")])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(space, "delete_condemned", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.erase(Subject(tenant="a"))
    assert len(_texts(store)) == 2
    assert store.erase(Subject(tenant="nobody")).rows == {"content": 1}
    assert _texts(store) == {content_hash("ours")}


def test_an_erasure_is_written_down(store: Store, make_record: MakeRecord) -> None:
    """Who, when, what kind of subject and how many rows, and no name of the tenant: neither its own, nor that of its
    services in what was written down before. Where nothing was found, nothing is."""
    store.write([asked(make_record, f"t-1:{number}", f"{number}", tenant_id="t-1") for number in range(3)])
    store.write([make_record("theirs", service="t-2/shop"), make_record("r", session_id="s", tenant_id="t-2")])
    store.add_spans([SpanPart("t-1", ONE, b"1", True)], now=100.0)
    with store._database.write() as connection:
        connection.execute(sa.insert(tenant_service).values(tenant="t-1", service="t-1/shop"))
        totals.add(connection, [Delta("d", (("service", "t-1/shop"),), 1.0)])
    for service in ("t-1/shop", "t-2/shop"):
        store.forget_totals(service)
    gone = store.erase(Subject(tenant="t-1"), reference="DSR-17")
    session = store.erase(Subject(tenant="t-2", session="s"))
    assert store.erase(Subject(requests=("nobody",))).rows == {}
    first, second, third, fourth = store.audit()
    assert [first.subject, second.subject] == [{"kind": "service of an erased tenant"}, {"service": "t-2/shop"}]
    assert store.forgotten() == {"t-2/shop": second.at / 1e9}
    assert (third.action, third.subject, third.rows) == (
        erasure.ERASED,
        {"kind": "tenant", "reference": "DSR-17"},
        gone.rows,
    )
    assert gone.rows["request"] == gone.rows["content"] == 3
    assert (fourth.subject, fourth.rows) == ({"kind": "session"}, session.rows)
    assert third.at < fourth.at
    assert "@" in third.actor
    assert "t-1" not in repr(store.audit())


def test_an_erasure_that_was_ended_is_written_down(store: Store, make_record: MakeRecord) -> None:
    """What went by then is, in the same transaction; the next run writes down the rest."""
    store.write([asked(make_record, "a", "mine", tenant_id="a")])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(erasure, "_erase_waiting", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.erase(Subject(tenant="a"))
    (ended,) = store.audit()
    assert ended.rows["request"] == 1
    store.erase(Subject(tenant="a"))
    assert [deed.rows for deed in store.audit()] == [ended.rows, {"content": 1}]


def test_the_bytes_are_gone_from_a_sqlite_file(tmp_path: Path, make_record: MakeRecord) -> None:
    """Neither the file nor its write-ahead log holds the texts, the ids or the names of what was erased."""
    file = tmp_path / "r.db"
    texts = [secrets.token_hex(24) for _ in range(60)]
    words = ["tenant-of-the-test", "session-of-the-test", "request-of-the-test", *texts]
    with Store.open(f"sqlite:///{file}") as store:
        sa.event.listen(store._database._engine, "begin", _careless)
        for number, text in enumerate(texts):
            request_id = f"request-of-the-test-{number}"
            whose = {"tenant_id": "tenant-of-the-test", "session_id": "session-of-the-test"}
            store.write([asked(make_record, request_id, text, **whose), asked(make_record, f"kept-{number}")])
        assert [word for word in words if not _holds(tmp_path, word)] == []
        store.erase(Subject(tenant="tenant-of-the-test"))
        assert [word for word in words if _holds(tmp_path, word)] == []
        assert len(_ids(store)) == 60


def test_without_rewriting_the_log_is_emptied(tmp_path: Path, make_record: MakeRecord) -> None:
    """The rows are gone, and so are their copies in the write-ahead log; the outcome says that the file was not
    written anew."""
    with Store.open(f"sqlite:///{tmp_path}/r.db") as store:
        store.write([make_record(f"r{number}", tenant_id="a") for number in range(20)])
        assert store.erase(Subject(tenant="a"), rewrite=False).rewritten is False
        assert _ids(store) == set()
        assert (tmp_path / "r.db-wal").stat().st_size == 0


def test_a_full_disk_is_said_before_anything_is_deleted(
    tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file cannot be written anew; without that the erasure works."""
    with Store.open(f"sqlite:///{tmp_path}/r.db") as store:
        store.write([make_record("a", tenant_id="a")])
        monkeypatch.setattr("shutil.disk_usage", lambda folder: shutil._ntuple_diskusage(10, 5, 5))
        with pytest.raises(StoreUnavailable, match="which has 5; free some space, or set SQLITE_TMPDIR"):
            store.erase(Subject(tenant="a"))
        assert _ids(store) == {"a"}
        store.erase(Subject(tenant="a"), rewrite=False)
        assert _ids(store) == set()


def _careless(connection: sa.Connection) -> None:
    """As SQLite is in most builds: what is deleted stays in the file."""
    connection.exec_driver_sql("PRAGMA secure_delete = OFF")


def _holds(folder: Path, word: str) -> bool:
    return any(word.encode() in file.read_bytes() for file in folder.iterdir() if file.is_file())


def test_totals_are_locked_in_the_order_of_their_writers(store: Store) -> None:
    """Whatever the database's own order is, or an erasure and a worker could wait for each other."""
    if store.url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    deltas = [Delta("shown", (("of", each),), 1.0, Exemplar(ONE, 0.5, 1.0)) for each in ("a", "B", "Z", "c")]
    with store._database.write() as connection:
        known = sa.text("SELECT count(*) FROM pg_collation WHERE collname = 'en-x-icu'")
        if not connection.scalar(known):
            pytest.skip("this server has the collation C alone")
        connection.execute(sa.text('ALTER TABLE total ALTER COLUMN labels TYPE text COLLATE "en-x-icu"'))
        totals.add(connection, deltas)
        found = erasure._exemplars(connection, [("", ONE)], [], lock=True)
    assert len(found) == 4
    assert found == sorted(found)


def test_a_damaged_request_is_erased_as_well(store: Store, make_record: MakeRecord) -> None:
    """Its own payload need not be readable, nor those of others."""
    store.write([asked(make_record, "a", "mine", tenant_id="a"), asked(make_record, "b", "ours", tenant_id="b")])
    store.write([asked(make_record, "c", "own", tenant_id="a")])
    with store._database.write() as connection:
        connection.execute(sa.update(request).where(request.c.request_id != "c").values(payload=b"x"))
    gone = store.erase(Subject(tenant="a"))
    assert (gone.requests, gone.rows["content"]) == (2, 1)
