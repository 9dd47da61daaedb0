"""Two threads: a store that hangs holds neither spans nor the reading, and what is on its way then is not lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ragtrace.collect import _delivery as delivery
from ragtrace.types import Item, RequestRecord
from tests.collect.drafts import FakeDraft


@pytest.fixture
def hanging(make_sink: Any, writer: Any) -> Any:
    """A sink whose store has begun to write and does not end."""
    writer.gate.clear()
    sink = make_sink(queue_bytes=10_000)
    sink.submit(RequestRecord(request_id="first", service="svc"))
    assert writer.entered.wait(10)
    return sink


def test_spans_end_while_the_store_hangs(hanging: Any, writer: Any) -> None:
    """Who waits for them does not wait for the store; who flushes does."""
    draft = FakeDraft("r", kept=True)
    hanging.submit(draft)
    assert hanging.end_spans(10)
    assert draft.built == 1
    assert not hanging.flush(0.05)
    writer.gate.set()
    assert hanging.flush(10)
    assert writer.ids == ["first", "r"]


def test_what_was_read_weighs_what_it_holds(hanging: Any, writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what it seemed to before: the queue's bound holds while the store hangs."""
    heavy, next_one = FakeDraft("heavy", kept=True, weight=10), FakeDraft("next", kept=True, weight=10)
    full = RequestRecord(request_id="heavy", service="svc", attributes={"a": "x" * 20_000})
    monkeypatch.setattr(heavy, "build", lambda: full)
    hanging.submit(heavy)
    assert hanging.end_spans(10)
    hanging.submit(next_one)
    assert next_one.discarded == 1
    writer.gate.set()
    assert hanging.flush(10)
    assert writer.ids == ["first", "heavy"]
    assert writer.faults == {("sink.queue", "full"): 1}


def test_what_is_read_when_the_deadline_comes_is_kept(make_sink: Any, writer: Any) -> None:
    """What waits behind it is in the spool at once, and itself as soon as it is finished."""
    entered, go_on = threading.Event(), threading.Event()

    def wait(item: Item) -> Item:
        if threading.current_thread().name == "ragtrace-sink":
            entered.set()
            assert go_on.wait(10)
        return item

    sink = make_sink(finish=wait)
    sink.submit(FakeDraft("slow", kept=True))
    assert entered.wait(10)
    sink.submit(FakeDraft("behind", kept=True))
    assert not sink.close(0.05)
    assert make_sink().flush(10)
    assert writer.ids == ["behind"]
    go_on.set()
    assert sink._reader.join(10)
    assert make_sink().flush(10)
    assert writer.ids == ["behind", "slow"]


def test_what_others_leave_is_adopted_while_it_runs(
    make_sink: Any, writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was open when another configuration took over is stored by that."""
    monkeypatch.setattr(delivery, "_ADOPT_EVERY", 0.0)
    former, running = make_sink(), make_sink()
    assert former.close(10)
    assert running.flush(10)
    former.submit(RequestRecord(request_id="late", service="svc"), durable=True)
    assert running.flush(10)
    assert writer.ids == ["late"]
