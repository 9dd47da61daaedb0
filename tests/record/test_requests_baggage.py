"""Tenant and session leave in OpenTelemetry baggage only when that is asked for."""

from __future__ import annotations

from typing import Any

from opentelemetry import baggage, context, propagate

import ragtrace


def outbound() -> dict[str, str]:
    """The headers that an instrumented HTTP client would send."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


@ragtrace.request(session_id="session", tenant_id="tenant")
def ask(question: str, session: str | None = None, tenant: str | None = None) -> dict[str, str]:
    """A request that calls another service from within a stage."""
    with ragtrace.retrieve(query=question):
        return outbound()


def test_nothing_leaves_by_default(recorded: Any) -> None:
    """An outbound call carries the trace and neither tenant nor session."""
    headers = ask("q", "s-secret", "t-secret")
    assert "traceparent" in headers
    assert "secret" not in str(headers)
    assert (recorded.record.session_id, recorded.record.tenant_id) == ("s-secret", "t-secret")
    assert "secret" not in str(ragtrace.inject())


def test_what_is_named_travels_while_the_request_runs(configure: Any) -> None:
    """The session goes along, the tenant that was not named does not, and afterwards nothing does."""
    configure(baggage=("session_id",))
    assert ask("q", "s-1", "t-1")["baggage"] == "session.id=s-1"
    assert "baggage" not in outbound()


def test_incoming_baggage_names_the_session(configure: Any) -> None:
    """A request that starts without one takes it from the caller; its own wins and goes on."""
    recorded = configure(baggage=("session_id", "tenant_id"))
    incoming = propagate.extract({"baggage": "session.id=s-in,tenant.id=t-in"})
    token = context.attach(incoming)
    try:
        ask("q")
        headers = ask("q", "s-own")
        with ragtrace.retrieve(query="q"):
            pass
    finally:
        context.detach(token)
    own = baggage.get_all(propagate.extract(headers))
    assert own == {"session.id": "s-own", "tenant.id": "t-in"}
    assert [record.session_id for record in recorded.records] == ["s-in", "s-own", "s-in"]
    assert {record.tenant_id for record in recorded.records} == {"t-in"}


def test_incoming_baggage_is_not_read_unless_asked(configure: Any) -> None:
    """What a caller sends sets nothing by default."""
    recorded = configure()
    token = context.attach(propagate.extract({"baggage": "session.id=s-in"}))
    try:
        ask("q")
    finally:
        context.detach(token)
    assert recorded.record.session_id is None
