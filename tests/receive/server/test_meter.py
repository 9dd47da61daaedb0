"""The receiver's metrics: what happened, by the registry's names, and whom they are shown."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ragtrace import config
from ragtrace.errors import StoreUnavailable
from ragtrace.receive._assembly import Assembler
from ragtrace.receive._meter import Meter
from ragtrace.registry.instruments import ATTRIBUTES, INSTRUMENTS
from tests.receive.server.test_judging import OF_TRACE
from tests.receive.server.test_routes import ALPHA, JSON, SCRAPER, Receiver
from tests.receive.test_logs import logs
from tests.receive.test_otlp import SPAN, batch


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """One that everybody may send to."""
    running = Receiver(tmp_path)
    yield running
    running.close()


def scraped(text: bytes) -> dict[tuple[str, ...], float]:
    """The samples, by name and label values."""
    families = text_string_to_metric_families(text.decode())
    samples = [sample for family in families for sample in family.samples if not sample.name.endswith("_created")]
    return {(each.name.removeprefix("ragtrace_receiver_"), *values(each.labels)): each.value for each in samples}


def values(labels: dict[str, str]) -> list[str]:
    """Those of the labels, in one order."""
    return [labels[name] for name in ("protocol", "signal", "answer", "fate", "le") if name in labels]


def test_what_happened(receiver: Receiver) -> None:
    """Requests by their answers, their records by their fate, bytes, commits, and what waits."""
    sent = batch(SPAN, SPAN | {"spanId": "00"})
    receiver.send(sent, content_type=JSON)
    receiver.send(logs(OF_TRACE, {}), "/v1/logs", content_type=JSON)
    receiver.send(b"{", content_type=JSON)
    receiver.send(b"", content_type="text/plain")
    found = scraped(receiver.send(None, "/metrics")[1])

    assert found["requests_total", "http", "traces", "partial"] == 1
    assert found["requests_total", "http", "traces", "invalid"] == 2
    assert found["requests_total", "http", "logs", "accepted"] == 1
    assert found["items_total", "traces", "accepted"] == found["items_total", "traces", "rejected"] == 1
    assert found["items_total", "logs", "accepted"] == found["items_total", "logs", "ignored"] == 1
    assert found["bytes_total", "http", "traces"] == len(sent) + 1
    assert found["commit_seconds_count",] == 2
    assert (found["room_ratio",], found["waiting_traces",], found["overdue_seconds",]) == (0, 1, 0)


def test_all_series_are_there(receiver: Receiver) -> None:
    """At 0 from the start: a counter that first appears at 1 has no increase. Labels have the registry's values."""
    found = scraped(receiver.send(None, "/metrics")[1])
    names = {each.name for each in INSTRUMENTS.values() if each.id.startswith("receiver_")}

    assert {f"ragtrace_receiver_{key[0]}" for key in found} >= {
        name for name in names if not name.endswith("commit_seconds")
    }
    for answer in ATTRIBUTES["answer"]:
        for protocol in ATTRIBUTES["protocol"]:
            assert found["requests_total", protocol, "logs", answer] == 0
    assert {key[1] for key in found if key[0] == "traces_total"} == {"assembled", "failed"}


def test_overdue(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the oldest trace that is due has waited; without the store what it alone knows is left out."""
    receiver.send(batch(SPAN), content_type=JSON)
    ahead = time.time() + 100
    monkeypatch.setattr(time, "time", lambda: ahead)
    found = scraped(receiver.send(None, "/metrics")[1])
    assert 80 < found["overdue_seconds",] < 100

    def fails() -> tuple[int, float | None]:
        raise StoreUnavailable("away")

    monkeypatch.setattr(receiver.store, "traces_waiting", fails)
    status, text, _ = receiver.send(None, "/metrics")
    assert status == 200
    assert ("overdue_seconds",) not in scraped(text)
    assert ("room_ratio",) in scraped(text)


def test_assembly(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces are counted as they are assembled, or fail."""
    meter = Meter()
    assembler = Assembler(receiver.store, config.load(), counted=meter.assembled)
    receiver.send(batch(SPAN), content_type=JSON)
    assembler.step(now=time.time() + 100)
    monkeypatch.setattr("ragtrace.receive._assembly.record_of", lambda told, count: 1 / 0)
    receiver.send(batch(SPAN | {"name": "again"}), content_type=JSON)
    assembler.step(now=time.time() + 100)
    found = scraped(meter.exposition())

    assert (found["traces_total", "assembled"], found["traces_total", "failed"]) == (1, 1)


def test_whom_they_are_shown(tmp_path: Path) -> None:
    """Where senders have tokens: who has one for it, and no tenant."""
    guarded = Receiver(tmp_path, tokens=True)
    statuses = {
        token: guarded.send(None, "/metrics", **({} if token is None else {"authorization": f"Bearer {token}"}))[0]
        for token in (None, ALPHA, SCRAPER)
    }
    sending = guarded.send(batch(SPAN), content_type=JSON, authorization=f"Bearer {SCRAPER}")
    guarded.close()

    assert statuses == {None: 401, ALPHA: 401, SCRAPER: 200}
    assert sending[0] == 401
    assert "token" in json.loads(sending[1])["message"]
