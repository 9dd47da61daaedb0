"""Requests outside the sample in the sink: screened, held for late flags, forgotten."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ragtrace.collect import RecentRequests, Screening, UnsampledRequests
from ragtrace.errors import StoreUnavailable
from ragtrace.types import Addendum, Item, RequestRecord
from tests.collect.drafts import FakeDraft


def outside(screen: Any = None, recent_bytes: int = 2**20) -> UnsampledRequests:
    """With this screen for as much CPU time as it takes."""
    screening = None if screen is None else Screening(lambda: screen, 1.0, "svc", cpu=lambda: 0.0)
    return UnsampledRequests(RecentRequests(recent_bytes, 60.0), screening, "svc")


def bad(record: RequestRecord) -> tuple[str, ...]:
    """Flags those that are called so."""
    return ("seen",) if record.request_id.startswith("bad") else ()


def flags(writer: Any) -> dict[str, tuple[str, ...]]:
    """The flags of the records that arrived."""
    return {item.request_id: item.flags for item in writer.items if isinstance(item, RequestRecord)}


def addenda(writer: Any) -> list[tuple[str, tuple[str, ...]]]:
    """The addenda that arrived."""
    return [(item.request_id, item.flags) for item in writer.items if isinstance(item, Addendum)]


def test_a_flag_of_the_screening_keeps_a_request(make_sink: Any, writer: Any) -> None:
    """Outside the random stratum; the others are forgotten, and all spans end."""
    sink = make_sink(unsampled=outside(bad))
    drafts = [FakeDraft("bad"), FakeDraft("good"), FakeDraft("bad without id", known=False, spans=False)]
    for draft in drafts:
        sink.submit(draft)
    assert sink.flush(10)
    assert flags(writer) == {"bad": ("seen",), "bad without id": ("seen",)}
    assert not any(item.head_sampled for item in writer.items)
    assert [draft.built for draft in drafts] == [1, 1, 1]
    assert writer.faults == {}


def test_what_was_screened_and_kept_is_never_dropped(make_sink: Any, writer: Any) -> None:
    """A full spool is no reason."""
    sink = make_sink(unsampled=outside(bad), spool_bytes=1)
    writer.error = StoreUnavailable("no server")
    sink.submit(FakeDraft("bad"))
    assert not sink.flush(10)
    writer.error = None
    assert sink.flush(10)
    assert flags(writer) == {"bad": ("seen",)}


def test_a_late_flag_finds_a_request_that_ended(make_sink: Any, writer: Any, folder: Path) -> None:
    """Screened or not, with spans or without: it is in the spool when the call returns, once."""
    for number, (screen, spans) in enumerate([(None, False), (None, True), (bad, True)]):
        sink = make_sink(unsampled=outside(screen))
        sink.submit(FakeDraft(f"r{number}", spans=spans))
        assert sink.flush(10)
        writer.error = StoreUnavailable("no server")
        sink.flag(f"r{number}", ("late",))
        assert any(f'"r{number}"'.encode() in path.read_bytes() for path in folder.iterdir())
        writer.error = None
        sink.flag(f"r{number}", ("later",))
        assert sink.close(10)
        assert flags(writer)[f"r{number}"] == ("late",)
        assert addenda(writer)[-1] == (f"r{number}", ("later",))
    assert len(flags(writer)) == 3


def test_a_late_flag_finds_what_still_waits(make_sink: Any, writer: Any) -> None:
    """Sampled or not: the record is durable at once, and written once."""
    writer.gate.clear()
    sink = make_sink(unsampled=outside())
    sink.submit(RequestRecord(request_id="first", service="svc"))
    assert writer.entered.wait(10)
    drafts = [FakeDraft("sampled", kept=True), FakeDraft("not")]
    for draft in drafts:
        sink.submit(draft)
        sink.flag(draft.request_id, ("late",))
        assert draft.built == 1
    writer.gate.set()
    assert sink.flush(10)
    assert flags(writer) == {"first": (), "sampled": ("late",), "not": ("late",)}
    assert [item.request_id for item in writer.items if item.request_id == "sampled"] == ["sampled"]
    assert addenda(writer) == []


def test_a_flag_of_a_request_that_is_elsewhere_is_an_addendum(make_sink: Any, writer: Any) -> None:
    """Durable as well; no flag, no addendum."""
    sink = make_sink(unsampled=outside())
    sink.flag("elsewhere", ("late",))
    sink.flag("elsewhere", ())
    assert sink.flush(10)
    assert addenda(writer) == [("elsewhere", ("late",))]
    assert [item.service for item in writer.items] == ["svc"]


def test_flags_of_both_sides_are_united(make_sink: Any, writer: Any) -> None:
    """A late flag that comes while its request is screened keeps the record, the screening adds to it."""
    entered, go_on = threading.Event(), threading.Event()

    def slow(record: RequestRecord) -> tuple[str, ...]:
        entered.set()
        assert go_on.wait(10)
        return ("seen",)

    sink = make_sink(unsampled=outside(slow))
    sink.submit(FakeDraft("r"))
    assert entered.wait(10)
    sink.flag("r", ("late",))
    go_on.set()
    assert sink.flush(10)
    assert flags(writer) == {"r": ("late",)}
    assert addenda(writer) == [("r", ("seen",))]


def test_what_nobody_wants_is_let_go_at_once(make_sink: Any, writer: Any) -> None:
    """No spans, no screening, and an id that nobody knows, or no room for late flags."""
    sink = make_sink(unsampled=outside())
    unknown = FakeDraft("x", known=False, spans=False)
    sink.submit(unknown)
    assert unknown.discarded == 1
    other = make_sink(unsampled=outside(recent_bytes=0))
    known = FakeDraft("y", spans=False)
    other.submit(known)
    assert known.discarded == 1


def test_without_a_screening_nothing_is_read(make_sink: Any, writer: Any) -> None:
    """Spans end, and what was taken is held as it is until it is too old or too much."""
    sink = make_sink(unsampled=outside(recent_bytes=1500))
    drafts = [FakeDraft("r0"), FakeDraft("r1", known=False), FakeDraft("r2", spans=False)]
    for draft in drafts:
        sink.submit(draft)
        assert sink.flush(10)
    assert [(draft.ended, draft.built, draft.discarded) for draft in drafts] == [(1, 0, 1), (1, 0, 1), (1, 0, 0)]
    sink.flag("r2", ("late",))
    assert sink.flush(10)
    assert flags(writer) == {"r2": ("late",)}


def test_what_is_held_is_bounded(make_sink: Any, writer: Any) -> None:
    """Of unread requests the oldest are let go."""
    sink = make_sink(unsampled=outside(recent_bytes=2500))
    drafts = [FakeDraft(f"r{number}", spans=False) for number in range(5)]
    for draft in drafts:
        sink.submit(draft)
        assert sink.flush(10)
    assert [draft.discarded for draft in drafts] == [1, 1, 1, 0, 0]
    assert sink.close(10)
    assert [draft.discarded for draft in drafts] == [1] * 5


def test_they_take_no_room_from_samples(make_sink: Any, writer: Any) -> None:
    """Half of the queue is not for them; what finds no room ends its spans and is counted apart."""
    entered, go_on = threading.Event(), threading.Event()

    def wait(item: Item) -> Item:
        entered.set()
        assert go_on.wait(10)
        return item

    sink = make_sink(unsampled=outside(), queue_bytes=5000, finish=wait)
    sink.submit(RequestRecord(request_id="first", service="svc"))
    assert entered.wait(10)  # it is being read, and takes a fifth
    drafts = [FakeDraft(f"r{number}", outlined=False) for number in range(5)]
    for draft in drafts:
        sink.submit(draft)
    assert [draft.discarded for draft in drafts] == [0, 1, 1, 1, 1]
    for number in range(2):
        sink.submit(RequestRecord(request_id=f"sample{number}", service="svc"))
    go_on.set()
    assert sink.flush(10)
    assert writer.ids == ["first", "sample0", "sample1"]
    assert writer.faults == {("screen", "full"): 4}


def test_a_draft_that_cannot_be_built_costs_itself(
    make_sink: Any, writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are screened."""
    sink = make_sink(unsampled=outside(bad))
    broken, fine = FakeDraft("bad 1"), FakeDraft("bad 2")
    monkeypatch.setattr(broken, "build", lambda: 1 / 0)
    sink.submit(broken)
    sink.submit(fine)
    assert sink.flush(10)
    assert flags(writer) == {"bad 2": ("seen",)}
    assert writer.faults == {("screen", "ZeroDivisionError"): 1}


def test_at_the_end_their_spans_end(make_sink: Any, writer: Any) -> None:
    """Those that still wait are not kept, and nothing is left over."""
    sink, entered, go_on = make_sink(unsampled=outside()), threading.Event(), threading.Event()
    slow, draft = FakeDraft("slow", outlined=False), FakeDraft("good", outlined=False)
    end_spans = slow.end_spans

    def wait() -> None:
        entered.set()
        assert go_on.wait(10)
        end_spans()

    slow.end_spans = wait  # type: ignore[method-assign]
    sink.submit(slow)
    assert entered.wait(10)
    sink.submit(draft)
    assert not sink.close(0.05)
    assert (draft.built, draft.discarded) == (0, 1)
    go_on.set()
    assert sink._reader.join(10)
    assert (slow.ended, slow.built, slow.discarded) == (1, 0, 1)


def test_an_id_that_only_the_spans_tell_can_be_flagged(make_sink: Any, writer: Any) -> None:
    """Nobody asked for it before it was drawn, in the application's thread or in the background."""
    sink = make_sink(unsampled=outside())
    for draft in (FakeDraft("r0", known=False), FakeDraft("r1", known=False, outlined=False)):
        sink.submit(draft)
        assert sink.flush(10)
        sink.flag(draft.request_id, ("late",))
        assert sink.flush(10)
        assert flags(writer)[draft.request_id] == ("late",)


def test_spans_that_need_no_reading_end_where_the_request_ends(make_sink: Any, writer: Any) -> None:
    """Nothing of such a request passes the background; one whose spans tell what was taken waits there."""
    sink = make_sink(unsampled=outside())
    sink._reader.rest(10)  # the background does nothing
    drafts = [FakeDraft("a"), FakeDraft("b", known=False), FakeDraft("c", outlined=False)]
    for draft in drafts:
        sink.submit(draft)
    assert [draft.ended for draft in drafts] == [1, 1, 0]
    sink._reader.go_on()
    assert sink.flush(10)
    assert [draft.ended for draft in drafts] == [1, 1, 1]


@pytest.mark.parametrize("known", [True, False])
def test_a_span_processor_may_flag_the_request_whose_spans_end(make_sink: Any, writer: Any, known: bool) -> None:
    """It waits for nobody: in its own thread the request is taken as it is."""
    sink = make_sink(unsampled=outside())
    draft = FakeDraft("r", known=known)
    end_spans = draft.end_spans

    def flagging() -> None:
        end_spans()
        sink.flag("r", ("seen",))

    draft.end_spans = flagging  # type: ignore[method-assign]
    sink.submit(draft)
    assert sink.flush(10)
    assert (flags(writer), addenda(writer)) == (({"r": ("seen",)}, []) if known else ({}, [("r", ("seen",))]))


def test_a_late_flag_waits_until_the_spans_of_its_request_have_ended(make_sink: Any, writer: Any) -> None:
    """In another thread, while a processor of the application takes long; it has the whole record then."""
    sink = make_sink(unsampled=outside())
    draft, entered, go_on = FakeDraft("r"), threading.Event(), threading.Event()
    end_spans = draft.end_spans

    def slow() -> None:
        entered.set()
        assert go_on.wait(10)
        assert draft.built == 0
        end_spans()

    draft.end_spans = slow  # type: ignore[method-assign]
    ending = threading.Thread(target=sink.submit, args=(draft,))
    ending.start()
    assert entered.wait(10)
    flagging = threading.Thread(target=sink.flag, args=("r", ("late",)))
    flagging.start()
    flagging.join(0.2)
    assert flagging.is_alive()
    go_on.set()
    for thread in (ending, flagging):
        thread.join(10)
    assert sink.flush(10)
    assert (flags(writer), addenda(writer)) == ({"r": ("late",)}, [])


def test_a_late_flag_waits_for_its_own_request_only(
    make_sink: Any, writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the background ends the spans of one, another is flagged at once; the first follows with all it has."""
    entered, go_on = threading.Event(), threading.Event()
    slow, other = FakeDraft("slow"), FakeDraft("other")
    end_spans = slow.end_spans

    def wait() -> None:
        entered.set()
        assert go_on.wait(10)
        assert slow.built == 0
        end_spans()

    monkeypatch.setattr(slow, "end_spans", wait)
    holding = outside()
    holding.hold([slow, other])
    reading = threading.Thread(target=holding.read, args=([slow, other],))
    reading.start()
    assert entered.wait(10)
    assert [item.flags for item in holding.take("other", ("late",)) if isinstance(item, RequestRecord)] == [("late",)]
    found: list[Any] = []
    flagging = threading.Thread(target=lambda: found.extend(holding.take("slow", ("late",))))
    flagging.start()
    go_on.set()
    for thread in (flagging, reading):
        thread.join()
    assert [(item.request_id, item.flags) for item in found] == [("slow", ("late",))]
    assert (slow.built, other.built) == (1, 1)


def test_a_forked_child_holds_nothing_of_its_parents(make_sink: Any, writer: Any) -> None:
    """Their spans are the parent's to end; a flag becomes an addendum there."""
    holding = outside()
    sink = make_sink(unsampled=holding)
    draft = FakeDraft("r", spans=False)
    sink.submit(draft)
    assert sink.flush(10)
    child = os.fork()
    if child == 0:
        os._exit(len(holding.take("r", ("late",))) + draft.built + draft.discarded)
    assert os.waitpid(child, 0)[1] == 0
    sink.flag("r", ("late",))
    assert sink.flush(10)
    assert flags(writer) == {"r": ("late",)}
