"""Remote write, as a receiver decodes it with a reader of its own."""

from __future__ import annotations

import base64
import struct
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric

from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.export import push
from ragtrace.export.exporter import PushFailed
from ragtrace.export.exposition import collected
from ragtrace.export.push import RemoteWriteTarget
from ragtrace.store import Store
from tests.export.receiver import receiving
from tests.export.stores import TRACE, add_request

cramjam = pytest.importorskip("cramjam", reason="pip install ragtrace[remote-write]")

AT = 1_700_000_100.25


@pytest.fixture
def metrics(tmp_path: Path) -> tuple[Metric, ...]:
    """What a store with two analyzed requests exposes."""
    with Store.open(f"sqlite:///{tmp_path / 'ragtrace.db'}") as store:
        add_request(store, "r1", 0.87)
        add_request(store, "r2", 0.4)
        return collected(store)


def _fields(message: bytes) -> dict[int, list[Any]]:
    """The fields of a protobuf message, by their numbers: integers, doubles, bytes."""
    found: dict[int, list[Any]] = defaultdict(list)
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        tag = number()
        if tag & 7 == 0:
            found[tag >> 3].append(number())
        elif tag & 7 == 1:
            found[tag >> 3].append(struct.unpack("<d", message[place : place + 8])[0])
            place += 8
        else:
            length = number()
            found[tag >> 3].append(message[place : place + length])
            place += length
    return found


def _labels(messages: list[bytes]) -> list[tuple[str, str]]:
    return [(_fields(one)[1][0].decode(), _fields(one)[2][0].decode()) for one in messages]


def _series(body: bytes) -> list[tuple[list[tuple[str, str]], float, int, list[Any]]]:
    """Labels, value, time and exemplars of each series."""
    found = []
    for series in _fields(bytes(cramjam.snappy.decompress_raw(body)))[1]:
        fields = _fields(series)
        [sample] = map(_fields, fields[2])
        found.append((_labels(fields[1]), sample[1][0] if 1 in sample else 0.0, sample[2][0], fields[3]))
    return found


def test_every_sample_is_a_series(metrics: tuple[Metric, ...]) -> None:
    """As a scrape would give it: sorted labels, none empty, the job, one time, and the exemplars' traces."""
    with receiving() as receiver:
        target = RemoteWriteTarget(f"{receiver.url}/api/v1/write")
        target.send(metrics, AT)
        target.close()
    [(body, headers)] = receiver.posted
    sent = _series(body)
    expected = {
        (sample.name, *sorted((name, value) for name, value in sample.labels.items() if value)): sample.value
        for metric in metrics
        for sample in metric.samples
    }
    shown = {}
    for labels, value, at, _ in sent:
        assert labels == sorted(labels)
        assert (at, ("job", "ragtrace") in labels) == (1_700_000_100_250, True)
        rest = [label for label in labels if label[0] not in ("__name__", "job")]
        shown[(dict(labels)["__name__"], *rest)] = value
    assert shown == expected
    assert len(sent) == len(expected)
    exemplars = [_fields(one) for *_, given in sent for one in given]
    assert {_labels(one[1])[0] for one in exemplars} == {("trace_id", TRACE)}
    assert {one[3][0] for one in exemplars} == {1_700_000_000_500}
    assert {name: headers[name] for name in ("Content-Encoding", "Content-Type")} == {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
    }
    assert headers["X-Prometheus-Remote-Write-Version"] == "0.1.0"


def test_large_pushes_are_split(metrics: tuple[Metric, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """No series is lost or sent twice."""
    monkeypatch.setattr(push, "_SERIES", 100)
    with receiving() as receiver:
        target = RemoteWriteTarget(f"{receiver.url}/api/v1/write")
        target.send(metrics, AT)
        target.close()
    parts = [_series(body) for body, _ in receiver.posted]
    assert {len(part) for part in parts[:-1]} == {100}
    sent = [tuple(labels) for part in parts for labels, *_ in part]
    assert len(sent) == len(set(sent)) == sum(len(metric.samples) for metric in metrics)


def test_a_refusal_says_what_the_receiver_said(metrics: tuple[Metric, ...]) -> None:
    """Its status, its words, and how long it wants to be left alone."""
    with receiving() as receiver:
        receiver.refusals = [(503, "7"), (400, None)]
        target = RemoteWriteTarget(f"{receiver.url}/api/v1/write")
        with pytest.raises(PushFailed, match="answered 503: not now") as failed:
            target.send(metrics, AT)
        assert failed.value.retry_after == 7.0
        with pytest.raises(PushFailed, match="answered 400") as failed:
            target.send(metrics, AT)
        assert failed.value.retry_after is None
        target.close()
    with pytest.raises(PushFailed, match="cannot be reached"):
        RemoteWriteTarget("http://127.0.0.1:9/api/v1/write").send(metrics, AT)


def test_secrets_come_from_the_environment_or_the_address(
    metrics: tuple[Metric, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header as OpenTelemetry's exporters take it, or a user and a password that no message shows."""
    with receiving() as receiver:
        address = f"{receiver.url}/api/v1/write"
        monkeypatch.setenv(push.HEADERS_VARIABLE, "Authorization=Bearer%20token,X-Scope-OrgID=shop")
        RemoteWriteTarget(address).send(metrics, AT)
        monkeypatch.delenv(push.HEADERS_VARIABLE)
        target = RemoteWriteTarget(address.replace("http://", "http://me:p%40ss@"))
        assert target.shown == address
        target.send(metrics, AT)
    first, second = ({name.lower(): value for name, value in headers.items()} for _, headers in receiver.posted)
    assert (first["authorization"], first["x-scope-orgid"]) == ("Bearer token", "shop")
    assert base64.b64decode(second["authorization"].removeprefix("Basic ")) == b"me:p@ss"


@pytest.mark.parametrize(("module", "package"), [("cramjam", "cramjam"), ("google.protobuf", "protobuf")])
def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    """With the command that installs it; an address that is none is refused as well."""
    with pytest.raises(ConfigurationError, match="remote write"):
        RemoteWriteTarget("localhost:9090")
    push._write_request.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"{package}.*ragtrace\[remote-write\]"):
        RemoteWriteTarget("http://localhost:9090/api/v1/write")
