"""What is learned of services, and what goes with a tenant: its own services, and nothing of anybody else's."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ragtrace.store import Assembled, Citing, ServiceTraffic, SpanPart, Store, Subject
from ragtrace.store.database import insert
from ragtrace.store.service_traits import REMEMBERED, is_enough
from ragtrace.store.tables import background, exposed, metadata, page_judgment
from ragtrace.types import Gold, RequestRecord

MakeRecord = Callable[..., RequestRecord]

TRAFFIC = ServiceTraffic(
    seen=frozenset({7, 2**32 - 1}),
    counts={3: 2, 5: 1},
    doubts={"judge": {"RANKING": (0.5, 0.25)}},
    requests=2,
    made_at=10,
)


def _noted(store: Store, *answers: tuple[int, int]) -> Citing:
    for batch in answers:
        store.note_answers({"shop": batch})
    return store.citing(["shop"])["shop"]


def test_nothing_is_known_of_a_service_at_first(store: Store) -> None:
    """Whether it cites is open, and stays so until enough answers have come."""
    assert store.citing() == {}
    assert Citing().cites is None
    assert _noted(store, (19, 0)).cites is None
    assert _noted(store, (1, 0)).cites is False


def test_a_service_that_cites_counts_as_citing_from_then_on(store: Store) -> None:
    """Four answers are enough; nothing but an operator takes it back."""
    before = time.time_ns()
    assert _noted(store, (3, 3)).cites is None
    citing = _noted(store, (1, 1))
    assert citing.since is not None
    assert before <= citing.since <= time.time_ns()
    assert (citing.answers, citing.cited, citing.cites) == (4, 4, True)
    assert _noted(store, (5_000, 0)).since == citing.since


def test_services_are_learned_apart(store: Store) -> None:
    """Those that were asked for, or all by name."""
    store.note_answers({"b": (9, 9), "a": (9, 0)})
    assert [(name, known.cited) for name, known in store.citing().items()] == [("a", 0), ("b", 9)]
    assert list(store.citing(["b", "unknown"])) == ["b"]


@pytest.mark.parametrize(("share", "learned"), [(0.05, False), (0.5, True), (1.0, True)])
def test_stray_marks_never_add_up(store: Store, share: float, learned: bool) -> None:
    """One answer in twenty with a "[1]" in it is no citing service, however many come; one in two is."""
    chance = random.Random(7)
    for _ in range(40):
        store.note_answers({"shop": (50, sum(chance.random() < share for _ in range(50)))})
    assert (store.citing()["shop"].cites is True) == learned


def test_stray_marks_reach_the_line_as_rarely_as_is_said() -> None:
    """Of 20,000 services with stray marks in 5 % of 2,000 answers fewer than 0.05 % count as citing; one that cites in
    every second answer does after at most 200."""
    chance = random.Random(11)

    def crosses(share: float, answers: int) -> bool:
        cited = 0
        for count in range(1, answers + 1):
            cited += chance.random() < share
            if is_enough(count, cited):
                return True
        return False

    assert sum(crosses(0.05, 200) for _ in range(20_000)) <= 10  # what has not crossed by then is far from the line
    assert all(crosses(0.5, 200) for _ in range(1_000))


def test_a_service_may_begin_to_cite_at_any_time(store: Store) -> None:
    """What came long ago weighs less and less: after 5,000 answers without, 80 with citations are enough."""
    for _ in range(100):
        store.note_answers({"shop": (50, 0)})
    assert store.citing()["shop"].answers < REMEMBERED
    assert store.citing()["shop"].cites is False
    for _ in range(8):
        store.note_answers({"shop": (10, 10)})
    assert store.citing()["shop"].cites is True


def test_an_operator_may_have_it_forgotten(store: Store) -> None:
    """It is learned anew, from requests that begin from then on; says whether there was anything to forget."""
    assert store.forget_citing("shop") is False
    _noted(store, (30, 30))
    before = time.time_ns()
    assert store.forget_citing("shop") is True
    forgotten = store.citing()["shop"]
    assert (forgotten.answers, forgotten.cited, forgotten.cites) == (0, 0, None)
    assert before <= forgotten.counted_from <= time.time_ns()
    assert store.forget_citing("shop") is False
    assert _noted(store, (20, 0)).counted_from >= forgotten.counted_from
    assert store.citing()["shop"].cites is False


def test_what_a_service_returns_is_kept_whole(store: Store) -> None:
    """Checksums, counts, scores and when; of another service nothing."""
    assert store.traffic("shop") is None
    assert store.save_traffic("shop", TRAFFIC)
    assert store.traffic("shop") == TRAFFIC
    assert store.traffic_made(["shop", "other"]) == {"shop": 10}
    newer = ServiceTraffic(requests=9, made_at=11)
    assert store.save_traffic("shop", newer, is_new=False)
    assert store.traffic("shop") == newer


def test_what_was_erased_meanwhile_does_not_come_back(store: Store) -> None:
    """A worker that kept something before finds it gone, and writes nothing."""
    assert store.save_traffic("shop", TRAFFIC, is_new=False) is False
    assert store.traffic("shop") is None


def test_what_cannot_be_read_is_made_again(store: Store) -> None:
    """It is an estimate; `inspect` says that it is damaged."""
    store.save_traffic("shop", TRAFFIC)
    assert store.inspect().problems == ()
    with store._database.write() as connection:
        connection.execute(sa.update(background).values(body=b"\0"))
    assert store.traffic("shop") is None
    (problem,) = store.inspect().problems
    assert problem.startswith("background shop: what a service usually returns cannot be read")
    assert store.save_traffic("shop", TRAFFIC)
    assert store.traffic("shop") == TRAFFIC


def test_erasure_takes_what_the_services_of_a_subject_returned(store: Store, make_record: MakeRecord) -> None:
    """Who looks for a word could find it there. Other services keep theirs, and citing is counts alone."""
    store.write([make_record("r1", tenant_id="acme"), make_record("r2", service="other", tenant_id="else")])
    for name in ("shop", "other"):
        store.save_traffic(name, TRAFFIC)
        store.note_answers({name: (9, 9)})
    store.erase(Subject(tenant="acme"))
    assert store.traffic_made(["shop", "other"]) == {"other": 10}
    assert store.citing()["shop"].cites is True


def test_erasure_blanks_what_on_call_said_of_a_request(store: Store, make_record: MakeRecord) -> None:
    """The judgment stays, as a count; words that name an erased request do not."""
    store.write([make_record("r1"), make_record("r2")])
    said = {"a": "see r1, it was fine", "b": "see r10", "c": None}
    same: dict[str, Any] = {"service": "shop", "segment": "s", "stage": "retrieval", "severity": "page", "judged_at": 1}
    with store._database.write() as connection:
        for alert_id, comment in said.items():
            row = {"alert_id": alert_id, "judgment": "right", "comment": comment, **same}
            connection.execute(sa.insert(page_judgment).values(row))
    store.erase(Subject(requests=("r1",)))
    with store._database.read() as connection:
        rows = connection.execute(sa.select(page_judgment).order_by(page_judgment.c.alert_id)).all()
    assert [(row.alert_id, row.judgment, row.comment) for row in rows] == [
        ("a", "right", "(erased)"),
        ("b", "right", "see r10"),
        ("c", "right", None),
    ]


def test_retention_leaves_what_was_learned(store: Store, make_record: MakeRecord) -> None:
    """It is of services, not of requests."""
    store.write([make_record("r1")])
    store.save_traffic("shop", TRAFFIC)
    store.note_answers({"shop": (9, 9)})
    store.prune({"all": 0.0})
    assert store.counts()["request"] == 0
    assert store.traffic("shop") == TRAFFIC
    assert store.citing()["shop"].cites is True


APART = ("request", "job", "tenant_service")  # by request, and by tenant
BY_SERVICE = [table for table in metadata.sorted_tables if "service" in table.c and table.name not in APART]
OWN, OTHERS = ("a/shop", "a/x'\"]é%_"), ("shop", "A/shop", "a.b/shop", "b/shop", "a")


def fill(store: Store, service: str) -> None:
    """Put a row of this service into every table that is kept by service, and totals that have its label."""
    written = f'["service","{service}"]'
    with store._database.write() as connection:
        for table in BY_SERVICE:
            row = {column.name: _value(column, service) for column in table.c}
            if table is exposed:
                row["service"] = _json(service)
            connection.execute(insert(connection, table).values(**row).on_conflict_do_nothing())
        for labels in ([["service", service]], [["segment", written], ["service", service]], [["segment", written]]):
            row = {"name": "counted", "labels": _json(labels), "value": 1.0, "first_at": 1.0}
            connection.execute(insert(connection, metadata.tables["total"]).values(**row).on_conflict_do_nothing())
        run = {"run_id": service, "component": "index", "version": "1"}
        connection.execute(insert(connection, metadata.tables["gate_version"]).values(**run))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _value(column: sa.Column[Any], service: str) -> Any:
    kinds: dict[type, Any] = {str: service, int: 1, float: 1.0, bytes: b"1", bool: True}
    return kinds[column.type.python_type]


def named(store: Store, tenant: str, service: str, trace_id: str) -> None:
    """Store a request as the assembler does, of a tenant's spans."""
    store.add_spans([SpanPart(tenant, trace_id, trace_id.encode(), True)], now=100.0)
    (due,) = store.claim_traces(now=200.0)
    record = RequestRecord(
        request_id=f"{tenant}:{trace_id}", service=service, tenant_id=tenant or None, trace_id=trace_id
    )
    store.assembled([Assembled(due, record)])


def left(store: Store) -> dict[str, set[str]]:
    """By service, the tables that name it."""
    found: dict[str, set[str]] = {}
    with store._database.read() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(sa.select(table)).mappings():
                for service in (*OWN, *OTHERS):
                    if row.get("service") in (service, _json(service)) or row.get("run_id") == service:
                        found.setdefault(service, set()).add(table.name)
                    if _json(["service", service]) in row.get("labels", ""):
                        found.setdefault(service, set()).add("total")
    return found


def test_all_that_is_kept_by_service(store: Store) -> None:
    """Of the tenant's own services every row of every table goes, found before; those of others, and of services that
    only look alike, stay as they were, and the tenant's that others may name are told."""
    for place, service in enumerate(OWN, 1):
        named(store, "a", service, f"{place:032x}")
    named(store, "a", "shop", f"{7:032x}")
    named(store, "b", "b/shop", f"{8:032x}")
    for service in (*OWN, *OTHERS):
        fill(store, service)
    before = left(store)
    assert all({*(table.name for table in BY_SERVICE), "total", "gate_version"} <= before[each] for each in OWN)

    found = store.find_subject(Subject(tenant="a"))
    gone = store.erase(Subject(tenant="a"))
    assert (gone.requests, gone.shared, found.shared) == (3, ("shop",), ("shop",))
    assert {name: gone.rows[name] for name in found.rows} == {**found.rows, "background": 3}  # of the shared one too
    assert gone.rows["total"] == 3 * len(OWN)  # with the one that counts requests
    assert gone.rows["gate_run"] == len(OWN)
    after = left(store)
    assert not set(OWN) & after.keys()
    requests = {"request", "job", "background", "tenant_service"}  # of the tenant's own requests in a shared service
    assert {each: after[each] - requests for each in OTHERS} == {each: before[each] - requests for each in OTHERS}
    assert store.erase(Subject(tenant="a")).rows == {}


def test_requests_that_were_pruned(store: Store) -> None:
    """What is kept by service is the tenant's still when none of its requests is stored any more."""
    named(store, "a", "a/shop", "1" * 32)
    fill(store, "a/shop")
    store.prune({"all": 0.0}, now=4e9)
    assert store.counts()["request"] == 0
    assert store.find_subject(Subject(tenant="a")).rows["release"] == 1
    store.erase(Subject(tenant="a"))
    assert left(store) == {}


def test_a_service_that_others_sent_to(store: Store) -> None:
    """A host that writes to the store itself may name a service as a tenant's are: it stays, and is told as shared;
    and so it does where another tenant was allowed to name it, whose requests are gone."""
    for place, service in enumerate(OWN, 1):
        named(store, "a", service, f"{place:032x}")
        store.put_gold([Gold(service=service, question="What?", chunk_ids=("c",))])
    store.write([RequestRecord(request_id="host", service=OWN[0])])
    named(store, "b", OWN[1], f"{8:032x}")
    store.erase(Subject(requests=(f"b:{8:032x}",)))

    for gone in (store.find_subject(Subject(tenant="a")), store.erase(Subject(tenant="a"))):
        assert sorted(gone.shared) == sorted(OWN)
        assert "gold" not in gone.rows
    assert store.find_subject(Subject(tenant="a")).rows == {}
    assert store.counts()["gold"] == 2


def test_a_session_leaves_the_services(store: Store) -> None:
    """A session, even the tenant's only one, is not the tenant."""
    named(store, "a", "a/shop", "1" * 32)
    store.write([RequestRecord(request_id="a:2", service="a/shop", tenant_id="a", session_id="s")])
    fill(store, "a/shop")
    gone = store.erase(Subject(tenant="a", session="s"))
    assert (gone.requests, gone.shared) == (1, ())
    assert {"release", "total", "gold"} <= left(store)["a/shop"]


def test_what_comes_meanwhile(store: Store) -> None:
    """A service to which a request comes while the tenant is erased keeps what is counted of it, for the next time."""
    named(store, "a", "a/shop", "1" * 32)
    fill(store, "a/shop")
    subject = Subject(tenant="a")
    found = store.find_subject(subject)
    original = store._database.write
    calls = iter(range(100))

    def write() -> Any:
        if next(calls) == 2:  # behind the lease and the first page
            store._database.write = original  # type: ignore[method-assign]
            named(store, "a", "a/shop", "2" * 32)
        return original()

    store._database.write = write  # type: ignore[method-assign]
    gone = store.erase(subject)
    assert "release" not in gone.rows
    assert {"release", "total"} <= left(store)["a/shop"]
    assert store.find_subject(subject).requests == found.requests == 1
    assert store.erase(subject).rows["release"] == 1
    assert left(store) == {}
