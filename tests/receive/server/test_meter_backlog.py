"""A store that does not answer, as PostgreSQL behind a broken network: who asks for the receiver's state is told so."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrace.receive import _meter as meter
from tests.receive.server.test_meter import scraped
from tests.receive.server.test_routes import JSON, Receiver
from tests.receive.test_otlp import SPAN, batch


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """One that everybody may send to."""
    running = Receiver(tmp_path)
    yield running
    running.close()


class Silence:
    """A store that is asked what waits, and does not say it until the gate opens."""

    def __init__(self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.asked, read = threading.Event(), list[int](), receiver.store.traces_waiting

        def silent() -> tuple[int, float | None]:
            self.asked.append(1)
            self.gate.wait(60)
            return read()

        monkeypatch.setattr(receiver.store, "traces_waiting", silent)


def test_not_ready(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not ready, and says why, however many ask; one question is under way, and bodies are taken meanwhile."""
    monkeypatch.setattr(meter, "PATIENCE", 0.2)
    silence, answers = Silence(receiver, monkeypatch), list[tuple[int, bytes]]()
    asking = [threading.Thread(target=lambda: answers.append(receiver.send(None, "/readyz")[:2])) for _ in range(40)]
    for each in asking:
        each.start()
    taken = receiver.send(batch(SPAN), content_type=JSON)[0]
    for each in asking:
        each.join()
    asked = len(silence.asked)
    silence.gate.set()
    while not json.loads((state := receiver.send(None, "/readyz"))[1])["ready"]:
        assert state[0] == 503

    assert (taken, asked, len(answers)) == (200, 1, 40)
    assert {status for status, _ in answers} == {503}
    assert all("the store has not answered for" in json.loads(body)["reason"] for _, body in answers)


def test_metrics(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the receiver itself knows is shown."""
    monkeypatch.setattr(meter, "PATIENCE", 0.2)
    silence = Silence(receiver, monkeypatch)
    status, text, _ = receiver.send(None, "/metrics")
    silence.gate.set()

    assert status == 200
    assert ("room_ratio",) in scraped(text)
    assert ("waiting_traces",) not in scraped(text)
    assert len(silence.asked) == 1
