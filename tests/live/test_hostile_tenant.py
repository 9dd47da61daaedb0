"""A hostile tenant, with a token of its own, beside a normal one: a real receiver takes spans and logs of both over
HTTP and gRPC, and whatever the hostile one says, all that is kept of the normal one stays as it was.

The scene can be extended: send as a tenant, let the receiver settle, and compare what is kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sa

from ragtrace.analyze.worker import run as analyze
from ragtrace.export import exposition
from ragtrace.receive._logs import parse_logs_json
from ragtrace.receive._otlp import parse_json
from ragtrace.record import conventions as names
from ragtrace.store import Store, Subject
from ragtrace.store.tables import metadata
from ragtrace.triage import Window, triage_segment
from ragtrace.types import to_builtins
from tests.live.receiver import free_port
from tests.receive.test_logs import EVALUATION, attribute, logs

grpc = pytest.importorskip("grpc")
pytest.importorskip("uvicorn")

NORMAL, HOSTILE, LISTED = "acme", "beta", "gamma"
TOKENS = {tenant: f"{tenant}-token-0123456789" for tenant in (NORMAL, HOSTILE, LISTED, "prometheus")}
RIGHTS = {LISTED: "services=desk,shop sampling=0.25"}
REQUESTS = 24
HOUR = 3_600_000_000_000
ANSWER = "The deductible of policy HX-2 is 500 EUR from 2024"
NAMES = (
    "shop",
    "acme/shop",
    "/shop",
    "../acme/shop",
    "acme",
    "acme:shop",
    "desk",
    "",
    "\x00shop",
    "é" * 999,
    'x"]],["service","acme/shop',
)
"""What the hostile tenant calls its service: the normal one's, as it says it and as it is stored, and what may be taken
for it."""


class Numbered(Protocol):
    """What gives requests their ids and their times, in nanoseconds."""

    numbers: Iterator[int]
    started_at: int


class Scene:
    """`ragtrace serve` with three tenants, over one database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.http, self.rpc = url, free_port(), free_port()
        self.started_at = time.time_ns() - 60_000_000_000
        lines = [f"{tenant} {token} {RIGHTS.get(tenant, '')}\n" for tenant, token in TOKENS.items()]
        (folder / "tokens").write_text("".join(lines[:-1]))
        (folder / "scrapers").write_text(lines[-1])
        options = {
            "port": self.http, "grpc-port": self.rpc, "grace": 0.05, "ttl": 0.2, "assemblers": 1, "store": url,
            "tokens": folder / "tokens", "metrics-tokens": folder / "scrapers",
        }  # fmt: skip
        command = [sys.executable, "-m", "ragtrace", "serve", *(f"--{name}={value}" for name, value in options.items())]
        with (folder / "serve.log").open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log)
        self.store = Store.open(url)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.rpc}")
        self.numbers: Iterator[int] = iter(range(1, 1_000_000))
        deadline = time.monotonic() + 120
        while (answer := self.ask("/readyz", None))[0] != 200:
            assert self.process.poll() is None, (folder / "serve.log").read_text()
            assert time.monotonic() < deadline, (answer, (folder / "serve.log").read_text())
            time.sleep(0.05)

    def ask(self, path: str, tenant: str | None, body: bytes | None = None, kind: str = "json") -> tuple[int, bytes]:
        """Status and body of an answer over HTTP; 0 where there is none yet."""
        headers = {"Authorization": f"Bearer {TOKENS[tenant]}"} if tenant else {}
        headers["Content-Type"] = {"json": "application/json", "protobuf": "application/x-protobuf"}[kind]
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, b""

    def send(self, tenant: str, signal: str, body: bytes, way: str) -> None:
        """Hand over a body in JSON by one of the `WAYS`; it is committed when this returns."""
        message = parse_json(body)[0] if signal == "traces" else parse_logs_json(body)[0]
        if way == "grpc":
            service = {"traces": "trace.v1.TraceService", "logs": "logs.v1.LogsService"}[signal]
            call = self.channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")
            call(message.SerializeToString(), metadata=(("authorization", f"Bearer {TOKENS[tenant]}"),), timeout=20)
        else:
            sent = body if way == "json" else message.SerializeToString()
            assert self.ask(f"/v1/{signal}", tenant, sent, way)[0] == 200

    def settle(self) -> None:
        """Wait until all that came is a request, and analyze it."""
        deadline = time.monotonic() + 120
        while self.store.traces_waiting()[0]:
            assert time.monotonic() < deadline, "traces wait"
            time.sleep(0.05)
        analyze(self.store)

    def close(self) -> None:
        """End it, and wait."""
        self.channel.close()
        self.store.close()
        self.process.terminate()
        self.process.wait(60)


WAYS = ("json", "protobuf", "grpc")


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """One with nothing in its database."""
    url = f"sqlite:///{tmp_path}/received.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_server").new_database()
    running = Scene(url, tmp_path)
    yield running
    running.close()


def trace(
    scene: Numbered, service: str, *, answer: str = ANSWER, own: dict[str, Any] | None = None, after: int = 0
) -> bytes:
    """One request in JSON: in OpenInference's words with the service in its resource, or (own) with a root in
    ragtrace's own words that says this of it. after: nanoseconds from the beginning to its own."""
    number = next(scene.numbers)
    said = f"{ANSWER}."
    kinds: list[dict[str, Any]] = [
        {"openinference.span.kind": "CHAIN", "input.value": "What is the deductible of policy HX-2 in 2024?"},
        {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": said},
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m-1" if own is None else "m-evil",
            "llm.input_messages.0.message.content": f"{said}\n\nWhat is the deductible of policy HX-2 in 2024?",
            "llm.output_messages.0.message.content": f"{answer} [1].",
        },
    ]
    if own is not None:
        kinds[0] = {names.REQUEST_ID: f"r{number}", names.REQUEST_SERVICE: service, "input.value": "What?", **own}
    spans = [
        {
            "traceId": f"{number:032x}",
            "spanId": f"{place:016x}",
            "parentSpanId": "" if place == 1 else f"{1:016x}",
            "name": "step",
            "startTimeUnixNano": str(scene.started_at + after + place),
            "endTimeUnixNano": str(scene.started_at + after + 10 - place),
            "attributes": [{"key": key, "value": _written(value)} for key, value in given.items()],
        }
        for place, given in enumerate(kinds, 1)
    ]
    scopes = [
        {"scope": {"name": names.TRACER if own is not None and place == 0 else "tracer"}, "spans": [span]}
        for place, span in enumerate(spans)
    ]
    resource = {"attributes": [attribute("service.name", service)] if service else []}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}).encode()


def _written(value: Any) -> dict[str, Any]:
    kinds = {str: "stringValue", bool: "boolValue", float: "doubleValue"}
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(_written, value))}}
    return {kinds[type(value)]: value}


CLAIM: dict[str, Any] = {
    names.REQUEST_HEAD_PROBABILITY: 1e-6,
    names.REQUEST_HEAD_SAMPLED: True,
    names.REQUEST_FLAGS: ["error", "thumbs_down"],
    names.REQUEST_SEGMENT: "default",
    f"{names.VERSION}.index": "i-evil",
}


def normal(scene: Scene) -> None:
    """What the normal tenant sends: sound requests of its shop, and what their readers say."""
    for place in range(REQUESTS):
        scene.send(NORMAL, "traces", trace(scene, "shop"), WAYS[place % len(WAYS)])
    scene.send(NORMAL, "logs", logs(EVALUATION | {"traceId": f"{1:032x}"}), "json")
    scene.settle()


def hostile(scene: Scene, tenant: str = HOSTILE) -> None:
    """What the hostile tenant sends: bad answers under every name, by every way, with releases and weights; judgments
    of the normal one's requests; and spans of its traces."""
    bad = "Policy QT-9 covers 9 kayaks from 1931"
    for place, (name, own) in enumerate((name, own) for name in NAMES for own in (None, CLAIM)):
        scene.send(tenant, "traces", trace(scene, name, answer=bad, own=own), WAYS[place % len(WAYS)])
    for claim in ({"tenant.id": NORMAL}, {names.REQUEST_ID: f"{NORMAL}:{1:032x}"}, {names.REQUEST_ID: f"{1:032x}"}):
        scene.send(tenant, "traces", trace(scene, "shop", answer=bad, own={**CLAIM, **claim}), "json")
    stolen = trace(scene, "shop", answer=bad, own=CLAIM)
    number = next(scene.numbers) - 1
    scene.send(tenant, "traces", stolen.replace(f"{number:032x}".encode(), f"{1:032x}".encode()), "grpc")
    for way in WAYS:
        scene.send(tenant, "logs", logs(EVALUATION | {"traceId": f"{2:032x}"}), way)
    scene.settle()


def rows(store: Store, *tables: sa.Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of these tables, or of all, with its table."""
    with store._database.read() as connection:
        for table in tables or metadata.sorted_tables:
            for row in connection.execute(sa.select(table)).mappings():
                yield table.name, dict(row)


def kept(scene: Scene, service: str) -> dict[str, Any]:
    """All that is kept of a service and said of it: its rows in every table, its requests with what belongs to them,
    its series, and its triage."""
    window = Window.of(scene.started_at - HOUR, scene.started_at + HOUR)
    report = to_builtins(triage_segment(scene.store, service, None, window))
    requests = scene.store.find_requests(service=service, limit=1_000)
    ids = {row.request_id for row in requests}
    found = [
        (table, row)
        for table, row in rows(scene.store)
        if row.get("service") in (service, json.dumps(service)) or row.get("request_id") in ids
    ]
    series = [line for line in exposition(scene.store).decode().splitlines() if f'service="{service}"' in line]
    totals = [total for total in scene.store.totals() if dict(total.labels).get("service") == service]
    return {
        "requests": sorted(requests, key=lambda row: row.request_id),
        "records": [scene.store.get_record(each) for each in sorted(ids)],
        "rows": sorted(found, key=repr),
        "releases": scene.store.releases(service),
        "series": [line for line in series if "_seconds" not in line],
        "totals": sorted(totals, key=repr),
        "triage": {name: value for name, value in report.items() if name != "made_at"},
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> Sequence[str]:
    """Which parts of what is kept have changed."""
    return [name for name, value in before.items() if value != after[name]]


def test_a_hostile_tenant_beside_a_normal_one(scene: Scene) -> None:
    """It changes nothing of the normal one's requests, verdicts, triage, releases, totals and segments; nothing that it
    claims of sampling counts; and nothing of it is left after its erasure."""
    normal(scene)
    before = kept(scene, f"{NORMAL}/shop")
    assert len(before["requests"]) == REQUESTS
    assert {release.version for release in before["releases"]} == {"m-1"}
    assert [len(record.feedback) for record in before["records"]].count(1) == 1
    assert before["totals"]
    assert before["series"]

    hostile(scene)
    theirs = [row for table, row in rows(scene.store, metadata.tables["request"]) if row["tenant_id"] == HOSTILE]
    assert len(theirs) >= 2 * len(NAMES)
    assert differences(before, kept(scene, f"{NORMAL}/shop")) == []
    assert {row["service"].split("/")[0] for row in theirs} == {HOSTILE}
    assert {(row["head_probability"], row["head_sampled"]) for row in theirs} == {(1.0, True)}
    assert not {flag for row in theirs for flag in json.loads(row["flags"])} & {"error", "thumbs_down"}
    by_name = [row for table, row in rows(scene.store) if row.get("service") and table != "exposed"]
    services = {row["service"] for row in by_name}
    assert {service for service in services if not service.startswith(f"{HOSTILE}/")} <= {f"{NORMAL}/shop"}
    assert claims(scene)["ignored"] > len(NAMES)
    assert (claims(scene)["believed"], claims(scene)["bounded"]) == (0, 0)

    gone = scene.store.erase(Subject(tenant=HOSTILE), rewrite=False)
    assert gone.requests == len(theirs)
    assert gone.shared == ()
    assert {"release", "total", "tenant_service"} <= gone.rows.keys()
    assert scene.store.find_subject(Subject(tenant=HOSTILE)).rows == {}
    assert differences(before, kept(scene, f"{NORMAL}/shop")) == []
    assert [(table, row) for table, row in rows(scene.store) if f"{HOSTILE}/" in repr(row) or "evil" in repr(row)] == []
    assert HOSTILE not in exposition(scene.store).decode()

    scene.send(LISTED, "traces", trace(scene, "desk", own=CLAIM), "grpc")
    scene.send(LISTED, "traces", trace(scene, "other", own={**CLAIM, names.REQUEST_HEAD_PROBABILITY: 0.5}), "json")
    scene.settle()
    listed = scene.store.find_requests(service="desk"), scene.store.find_requests(service=f"{LISTED}/other")
    records = [scene.store.get_record(row.request_id) for found in listed for row in found]
    assert [record.head_probability for record in records if record is not None] == [0.25, 0.5]
    assert (claims(scene)["believed"], claims(scene)["bounded"]) == (1, 1)
    assert scene.store.erase(Subject(tenant=LISTED), rewrite=False).shared == ("desk",)
    assert {release.service for release in scene.store.releases()} == {f"{NORMAL}/shop", "desk"}


def claims(scene: Scene) -> dict[str, float]:
    """What became of claims of sampling, by the receiver's metrics."""
    lines = scene.ask("/metrics", "prometheus")[1].decode().splitlines()
    begins = 'ragtrace_receiver_claims_total{claim="'
    found = [line.removeprefix(begins).split('"} ') for line in lines if line.startswith(begins)]
    return {claim: float(value) for claim, value in found}
