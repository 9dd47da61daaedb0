"""Judgements that name a trace join its request, whichever comes first, each once, and no other tenant's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest

from ragtrace.registry.instruments import OUTCOMES
from ragtrace.store import Store, TraceJudgement
from ragtrace.types import Feedback, RequestRecord, replace

MakeRecord = Callable[..., RequestRecord]

TRACE = "5b8efff798038103d269b633813fc60c"
SAID = Feedback(request_id="", source="judge", score=1.0, label="pass", comment="so it is", created_at=5)


def judgement(tenant: str = "", said: Feedback = SAID) -> TraceJudgement:
    """One of the trace."""
    return TraceJudgement(tenant, TRACE, said)


def judged(store: Store, request_id: str) -> list[tuple[str | None, str]]:
    """Label and source of what is said of a request."""
    record = store.get_record(request_id)
    assert record is not None
    assert all(each.request_id == request_id for each in record.feedback)
    return [(each.label, each.source) for each in record.feedback]


def counted(store: Store) -> float:
    """Good outcomes."""
    found = [each.value for each in store.totals() if each.name == OUTCOMES.name and ("result", "good") in each.labels]
    return sum(found)


@pytest.mark.parametrize("request_id", [TRACE, "the host's own"])
@pytest.mark.parametrize("order", list(permutations(["request", "judgement", "judgement"])), ids="-".join)
def test_whichever_comes_first(store: Store, make_record: MakeRecord, request_id: str, order: Sequence[str]) -> None:
    """It joins the request under the id that this has, and counts once."""
    for each in order:
        if each == "request":
            store.write([make_record(request_id, trace_id=TRACE)])
        else:
            store.add_judgements([judgement()])
    assert judged(store, request_id) == [("pass", "judge")]
    assert (counted(store), store.counts()["feedback"]) == (1.0, 1)


@pytest.mark.parametrize("first", ["trace", "feedback"])
def test_the_same_by_another_way(store: Store, make_record: MakeRecord, first: str) -> None:
    """What a span or a log says, and the host says again by itself, is one judgement."""
    ways = {
        "trace": lambda: store.add_judgements([judgement()]),
        "feedback": lambda: store.write([replace(SAID, request_id="own", created_at=77)]),
    }
    store.write([make_record("own", trace_id=TRACE, feedback=(replace(SAID, request_id="own", created_at=3),))])
    for way in (first, *(ways.keys() - {first})):
        ways[way]()
    assert judged(store, "own") == [("pass", "judge")]
    assert counted(store) == 1.0


def test_the_same_said_before_the_request(store: Store, make_record: MakeRecord) -> None:
    """Of two that waited, one by its trace and one by its id, one is left."""
    store.add_judgements([judgement()])
    store.write([replace(SAID, request_id="own")])
    store.write([make_record("own", trace_id=TRACE)])
    assert judged(store, "own") == [("pass", "judge")]
    assert counted(store) == 1.0


@pytest.mark.parametrize("first", ["request", "judgement"])
def test_tenants(store: Store, make_record: MakeRecord, first: str) -> None:
    """A tenant judges its own requests only, also where another one's have the same trace."""

    def request() -> None:
        for tenant in ("alpha", "beta"):
            store.write([make_record(f"{tenant}:own", trace_id=TRACE, tenant_id=tenant)])

    def say() -> None:
        store.add_judgements([judgement("beta"), judgement("gamma", replace(SAID, source="spy"))])

    for step in (request, say) if first == "request" else (say, request):
        step()
    assert judged(store, "alpha:own") == []
    assert judged(store, "beta:own") == [("pass", "judge")]


@pytest.mark.parametrize("first", ["request", "judgement"])
def test_a_record_of_the_host_itself(store: Store, make_record: MakeRecord, first: str) -> None:
    """It names its tenant, whose judgements it has; those that came without tokens are everybody's."""

    def say() -> None:
        store.add_judgements([judgement("alpha"), judgement("", replace(SAID, source="other"))])

    if first == "judgement":
        say()
    store.write([make_record("own", trace_id=TRACE, tenant_id="alpha")])
    if first == "request":
        say()
    assert sorted(judged(store, "own")) == [("pass", "judge"), ("pass", "other")]


def test_what_belongs_to_a_stored_request_stays(store: Store, make_record: MakeRecord) -> None:
    """A request whose id is the trace's keeps what is said of it, whatever else comes with this trace."""
    store.write([make_record(TRACE, trace_id=TRACE)])
    store.add_judgements([judgement()])
    store.write([make_record("another", trace_id=TRACE)])
    assert judged(store, TRACE) == [("pass", "judge")]
    assert judged(store, "another") == []


def test_several_requests_of_a_trace(store: Store, make_record: MakeRecord) -> None:
    """The one that began first is meant, in whatever order they are written."""
    store.add_judgements([judgement()])
    store.write([make_record(each, trace_id=TRACE, started_at=at) for each, at in (("late", 9), ("early", 1))])
    store.add_judgements([judgement(said=replace(SAID, source="second", created_at=9))])
    assert judged(store, "late") == []
    assert judged(store, "early") == [("pass", "judge"), ("pass", "second")]


def test_a_newer_record_without_it(store: Store, make_record: MakeRecord) -> None:
    """What a record carried stays when another record of the same request is the newer one, or is older."""
    said = replace(SAID, request_id="r1")
    store.write([make_record(feedback=(said,))])
    store.write([make_record(record_revision=1)])
    store.write([make_record(record_revision=-5, feedback=(replace(said, source="late", created_at=9),))])
    assert judged(store, "r1") == [("pass", "judge"), ("pass", "late")]
    assert counted(store) == 2.0
