"""Access to each route and method: without the right token nothing is read or written, and never another tenant's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrace.receive._logs import parse_logs_json
from ragtrace.receive._otlp import parse_json
from ragtrace.receive._rpc import methods
from tests.receive.server.test_judging import OF_TRACE, RETRIEVAL, assemble
from tests.receive.server.test_routes import ALPHA, BETA, JSON, SCRAPER, Receiver
from tests.receive.server.test_rpc import Receiver as RpcReceiver
from tests.receive.spans import TRACE
from tests.receive.test_logs import logs
from tests.receive.test_otlp import batch

grpc = pytest.importorskip("grpc")

OPEN = {"/healthz", "/readyz"}
"""What anybody may ask: it says nothing of anybody's requests."""

BODIES = {"/v1/traces": batch(RETRIEVAL), "/v1/logs": logs(OF_TRACE), "/metrics": None}
MESSAGES = {
    "trace": parse_json(batch(RETRIEVAL))[0].SerializeToString(),
    "logs": parse_logs_json(logs(OF_TRACE))[0].SerializeToString(),
}
WRONG = (None, "", "Bearer wrong-token-0123456789", f"Basic {ALPHA}", ALPHA, f"Bearer {ALPHA}x", f"Bearer {ALPHA[:-1]}")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Receiver]:
    """A receiver with the tokens of two tenants and of one that scrapes; it has a request of beta's."""
    running = Receiver(tmp_path, tokens=True)
    for path in ("/v1/traces", "/v1/logs"):
        running.send(BODIES[path], path, content_type=JSON, authorization=f"Bearer {BETA}")
    assemble(running)
    yield running
    running.close()


def paths(receiver: Receiver) -> list[tuple[str, str]]:
    """Every route with its methods, as the application has them."""
    routes: list[Any] = receiver.application.routes
    return [(each.path, method) for each in routes for method in sorted(each.methods)]


def rows(receiver: Receiver) -> dict[str, int]:
    """How many rows there are in each table."""
    return dict(receiver.store.counts())


def test_the_routes_that_are_known(guarded: Receiver) -> None:
    """A new route must be named here: as open, or with what is sent to it below."""
    assert {path for path, _ in paths(guarded)} == OPEN | BODIES.keys()


@pytest.mark.parametrize("token", WRONG)
def test_without_the_right_token(guarded: Receiver, token: str | None) -> None:
    """Nothing is read or written by any route that is not open; what is open says nothing of a request."""
    before = rows(guarded)
    for path, method in paths(guarded):
        headers = {"content_type": JSON} | ({} if token is None else {"authorization": token})
        status, body, answered = guarded.send(BODIES.get(path), path, method=method, **headers)
        if path in OPEN:
            assert status == 200
        else:
            assert (path, status, answered["www-authenticate"]) == (path, 401, "Bearer")
        assert TRACE.encode() not in body
        assert b"tariff" not in body
    assert rows(guarded) == before


@pytest.mark.parametrize("token", [ALPHA, BETA, SCRAPER])
def test_a_token_opens_its_own_only(guarded: Receiver, token: str) -> None:
    """A tenant's token does not show the metrics of all, and the scraper's writes nothing."""
    for path, method in paths(guarded):
        before = rows(guarded)
        status, body, _ = guarded.send(
            BODIES.get(path), path, method=method, content_type=JSON, authorization=f"Bearer {token}"
        )
        if path not in OPEN:
            assert (status == 200) == ((path == "/metrics") == (token == SCRAPER))
        if status != 200:
            assert rows(guarded) == before
        assert b"alpha" not in body
        assert b"beta" not in body


def test_another_tenants_requests(guarded: Receiver) -> None:
    """What alpha sends of beta's trace, by any route, is alpha's: beta's request stays as it was."""
    before = guarded.store.get_record(f"beta:{TRACE}")
    worse = RETRIEVAL | {"name": "mine now", "events": []}
    said = OF_TRACE | {"timeUnixNano": "9", "spanId": ""}
    for path, body in (("/v1/traces", batch(worse)), ("/v1/logs", logs(said))):
        assert guarded.send(body, path, content_type=JSON, authorization=f"Bearer {ALPHA}")[0] == 200
    assemble(guarded)
    own = guarded.store.get_record(f"alpha:{TRACE}")

    assert before is not None
    assert own is not None
    assert guarded.store.get_record(f"beta:{TRACE}") == before
    assert {each.request_id for each in own.feedback} == {own.request_id}
    assert own.stages[0].name == "mine now"


def test_a_name_of_another_tenant(guarded: Receiver) -> None:
    """Who calls its own request by another tenant's name still writes its own."""
    before = guarded.store.get_record(f"beta:{TRACE}")
    named = {"key": "ragtrace.request.id", "value": {"stringValue": f"beta:{TRACE}"}}
    tenant = {"key": "tenant.id", "value": {"stringValue": "beta"}}
    spans = batch(RETRIEVAL | {"attributes": [*RETRIEVAL["attributes"], named, tenant]})
    body = json.loads(spans)
    body["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"] = "ragtrace"
    for each in (spans, json.dumps(body).encode()):
        assert guarded.send(each, content_type=JSON, authorization=f"Bearer {ALPHA}")[0] == 200
    assemble(guarded)

    assert guarded.store.get_record(f"beta:{TRACE}") == before
    assert all(
        row.request_id.startswith(("alpha:", "beta:")) for row in guarded.store.find_requests(service="assistant")
    )


@pytest.fixture
def rpc(tmp_path: Path) -> Iterator[RpcReceiver]:
    """A gRPC server with the token of one tenant."""
    running = RpcReceiver(tmp_path)
    yield running
    running.close()


def test_every_method(rpc: RpcReceiver) -> None:
    """Without the right token no method writes anything; with it each does."""
    found = methods(rpc.ingestor)
    assert {path.split(".")[3] for path in found} == MESSAGES.keys()
    for path in found:
        body = MESSAGES[path.split(".")[3]]
        before = dict(rpc.store.counts())
        for token in WRONG:
            with pytest.raises(grpc.RpcError) as raised:
                rpc.export(body, token, path)
            assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert rpc.store.counts() == before
        rpc.export(body, method=path)
        assert rpc.store.counts() != before


def test_other_methods(rpc: RpcReceiver) -> None:
    """There are none."""
    for path in ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "/grpc.health.v1.Health/Check"):
        with pytest.raises(grpc.RpcError) as raised:
            rpc.export(b"", method=path)
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
