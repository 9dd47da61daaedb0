"""Whose each request and trace is: tenants that share a trace do not share an erasure, and pages come by an index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from ragtrace.store import Assembled, SpanPart, Store, Subject, TraceJudgment, _erasure as erasure
from ragtrace.store.tables import request
from ragtrace.types import Feedback, RequestRecord
from tests.store.parts import bodies

MakeRecord = Callable[..., RequestRecord]

ONE, TWO = "1" * 32, "2" * 32


def _ids(store: Store) -> set[str]:
    return {row.request_id for row in store.find_requests(limit=1_000)}


def _of(make: MakeRecord, tenant: str, trace_id: str, **fields: Any) -> RequestRecord:
    """The request of spans that came with a tenant's token."""
    return make(f"{tenant}:{trace_id}", tenant_id=tenant, trace_id=trace_id, **fields)


def test_a_trace_that_another_tenant_has_too(store: Store, make_record: MakeRecord) -> None:
    """The tenants' spans are apart: those of the erased one go, those of the other one stay."""
    store.add_spans([SpanPart("a", ONE, b"1", True), SpanPart("b", ONE, b"2", True)], now=100.0)
    due = sorted(store.claim_traces(now=200.0), key=lambda each: each.tenant)
    records = [_of(make_record, "a", ONE, session_id="s"), _of(make_record, "b", ONE)]
    store.assembled(list(map(Assembled, due, records)))
    assert store.erase(Subject(tenant="a", session="s")).rows["trace"] == 1
    assert bodies(store, due) == {("b", ONE): [b"2"]}


def test_another_tenants_request_is_assembled(store: Store, make_record: MakeRecord) -> None:
    """Two tenants have a trace of one id, and one of them is erased before both are assembled."""
    store.add_spans([SpanPart("a", ONE, b"1", True), SpanPart("b", ONE, b"2", True)], now=100.0)
    due = store.claim_traces(now=200.0)
    store.erase(Subject(tenant="a"))
    store.assembled([Assembled(each, _of(make_record, each.tenant, ONE)) for each in due])
    assert _ids(store) == {f"b:{ONE}"}


def test_an_attribute_that_names_the_tenant(store: Store, make_record: MakeRecord) -> None:
    """Spans without a token are nobody's before they are assembled; a request of theirs does not come back either."""
    store.add_spans([SpanPart("", ONE, b"1", True)], now=100.0)
    (due,) = store.claim_traces(now=200.0)
    record = make_record(ONE, tenant_id="a", trace_id=ONE)
    store.assembled([Assembled(due, record)])
    store.add_spans([SpanPart("", ONE, b"2", False)], now=300.0)
    (due,) = store.claim_traces(now=400.0)
    store.erase(Subject(tenant="a"))
    store.assembled([Assembled(due, make_record(ONE, tenant_id="a", trace_id=ONE, started_at=7))])
    assert _ids(store) == set()


def test_a_late_judgment_that_names_no_tenant(store: Store, make_record: MakeRecord) -> None:
    """It does not wait under the trace's id for a request that was erased."""
    store.write([_of(make_record, "a", ONE), _of(make_record, "b", TWO)])
    store.erase(Subject(tenant="a"))
    said = Feedback(feedback_id="", request_id="", score=0.0)
    store.add_judgments([TraceJudgment(tenant, each, said) for tenant in ("", "a") for each in (ONE, TWO)])
    assert store.counts()["feedback"] == 2
    assert store.find_subject(Subject(requests=(ONE, f"a:{ONE}"))).rows == {}


def test_attempts_of_an_id(store: Store, make_record: MakeRecord) -> None:
    """All of them and nothing that only begins the same, in whatever order the database sorts."""
    for request_id in ("r", "ü"):
        moments = (1, 2_000_000_007, 2**62, -(10**18))
        store.write([make_record(request_id, started_at=at) for at in moments])
    for other in ("r~", "r~x", "r2", "R", "r~19700101", "q~20240101T000000.000000000"):
        store.write([make_record(other)])
    for request_id in ("r", "ü"):
        found = store.find_subject(Subject(requests=(request_id,)))
        assert found.requests == 4 + 2 * (request_id == "r"), found.first
        assert all(each.partition("~")[0] == request_id for each in found.first)


@pytest.mark.parametrize(
    ("subject", "index"),
    [
        (Subject(tenant="a"), "ix_request_tenant_id_request_id (tenant_id=? AND request_id>?)"),
        (Subject(session="s"), "ix_request_session_id_request_id (session_id=? AND request_id>?)"),
        (Subject(requests=("r",)), "sqlite_autoindex_request_1 (request_id"),
    ],
)
def test_pages_come_by_an_index(tmp_path: Path, subject: Subject, index: str) -> None:
    """SQLite's plan of each page searches that index from where the last page ended, and sorts nothing."""
    path = tmp_path / "plan.db"
    with Store.open(f"sqlite:///{path}"):
        engine = sa.create_engine(f"sqlite:///{path}")
        for chosen in erasure._chosen(subject):
            page = sa.select(request.c.request_id, request.c.payload).where(*chosen, request.c.request_id > "m")
            query = page.order_by(request.c.request_id).limit(100)
            written = query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
            with engine.connect() as connection:
                plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {written}")]
            assert len(plan) == 1, plan
            assert index in plan[0]
        engine.dispose()
