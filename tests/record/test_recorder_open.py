"""Open requests: found by id, closed when they never end, and never kept alive."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import ragtrace
from ragtrace.record import close_overdue
from ragtrace.record._recorder import OpenRequests
from ragtrace.record._verbs import retrieve
from ragtrace.record.guard import Guard
from ragtrace.record.instrumentation.base import close_request, open_request
from ragtrace.record.requests import RequestRecording


def opened() -> OpenRequests:
    """Those of the recorder in use."""
    recorder = ragtrace.record.active()
    assert recorder is not None
    return recorder.open


def age(request: Any, seconds: float) -> None:
    """Let a request have begun earlier."""
    request._recording.clock -= int(seconds * 1e9)
    request._recording.started_at -= int(seconds * 1e9)


def test_a_request_that_does_not_end_is_closed(configure: Any) -> None:
    """Flagged as unfinished, with what it has, and its span ends; what follows is harmless."""
    recorded = configure(request_ttl=60)
    with ragtrace.request(query="q", name="long") as request:
        retrieve(lambda query: [("a", "text", 0.5)])("q")
        age(request, 59)
        close_overdue()
        assert recorded.records == []
        age(request, 2)
        close_overdue()
        record = recorded.record
        assert (record.flags, record.status, len(record.stages)) == (("unfinished",), "ok", 1)
        assert recorded.durable == [record]
        assert recorded.spans["request long"].end_time is not None
        request.set(segment="late")
        request.flag("later")
        with pytest.raises(ZeroDivisionError), retrieve(query="q"):
            raise ZeroDivisionError
        close_overdue()
    assert recorded.records[0] == record
    assert recorded.flagged == [(record.request_id, ("later",))]
    assert [fault for fault in recorded.faults if fault != ("request.set", "ended")] == []


def test_a_stage_that_hangs_ends_its_span_when_it_returns(configure: Any) -> None:
    """Its request was closed meanwhile; the stage is added to it."""
    recorded = configure(request_ttl=1)
    with ragtrace.request(query="q") as request:
        with retrieve(query="q", name="slow") as run:
            age(request, 2)
            close_overdue()
            run.candidates([("a", "text", 0.5)])
        assert recorded.record.stages == ()
    assert recorded.spans["retrieval slow"].end_time is not None
    (addendum,) = recorded.addenda
    assert (addendum.request_id, len(addendum.stages)) == (request.request_id, 1)


def test_without_a_limit_of_time_nothing_is_closed(configure: Any) -> None:
    """ttl 0."""
    recorded = configure(request_ttl=0)
    with ragtrace.request(query="q") as request:
        age(request, 10**6)
        close_overdue()
        assert recorded.records == []
    assert recorded.record.flags == ()


def test_a_request_that_the_host_drops_is_not_kept_alive(configure: Any) -> None:
    """Counted, and forgotten."""
    recorded = configure()
    recorder = ragtrace.record.active()
    assert recorder is not None
    RequestRecording(recorder, "dropped")
    gc.collect()
    close_overdue()
    close_overdue()
    assert recorded.faults == [("request", "dropped")]
    assert opened()._requests == {}


def test_a_generator_that_is_collected_ends_its_request(configure: Any) -> None:
    """It is closed by Python, and recorded as it stands."""

    @ragtrace.request
    def stream(question: str) -> Iterator[str]:
        yield "a"
        yield "b"

    recorded = configure()
    running = stream("q")
    next(running)
    assert len(opened()._requests) == 1
    del running
    gc.collect()
    assert opened()._requests == {}
    assert recorded.record.query.original == "q"


def test_the_open_requests_are_bounded(configure: Any) -> None:
    """For each one beyond the limit the oldest is closed, and counted."""
    recorded = configure()
    recorder = ragtrace.record.active()
    assert recorder is not None
    recorder.open = OpenRequests(0, recorder.guard, limit=2)
    running = [RequestRecording(recorder, f"r{number}") for number in range(4)]
    assert [request.ended for request in running] == [True, True, False, False]
    assert [record.flags for record in recorded.records] == [("unfinished",)] * 2
    assert recorded.faults == [("request", "too_many")] * 2


def test_an_open_request_is_found_by_its_id(configure: Any) -> None:
    """A flag that names it from elsewhere reaches it while it runs."""
    recorded = configure(sample_rate=0.0, sample_floor=0)
    with ragtrace.request(query="q") as request:
        other = threading.Thread(target=ragtrace.flag, args=(request.request_id, "seen"))
        other.start()
        other.join()
    assert (recorded.record.flags, recorded.flagged) == (("seen",), [])


def test_a_forked_child_leaves_the_parents_requests_open(recorded: Any) -> None:
    """It neither closes nor joins nor ends them; each is recorded once, by the parent."""
    with ragtrace.request(query="q") as request:
        age(request, 1e6)
        child = os.fork()
        if child == 0:
            is_joined = ragtrace.current_request().recording or opened().find(request.request_id) is not None
            close_overdue()
            getattr(request, "_recording").finish()  # noqa: B009
            os._exit(len(recorded.items) + is_joined)
        assert os.waitpid(child, 0)[1] == 0
        close_overdue()
    assert recorded.record.flags == ("unfinished",)


def test_ending_twice_counts_once() -> None:
    """The host's thread and ours may end a request at the same time: one of them hands it over."""

    class Running:
        pass

    found, request = OpenRequests(0, Guard("s", print)), Running()
    number = found.add(request)  # type: ignore[arg-type]
    assert [found.leave(number), found.leave(number)] == [True, False]


def test_a_request_without_a_stage_leaves_nothing_open(configure: Any) -> None:
    """An instrumented pipeline that retrieved nothing ends without a record."""
    recorded = configure()
    request = open_request("indexing")
    assert request is not None
    close_request(request)
    close_overdue()
    assert opened()._requests == {}
    assert (recorded.items, list(recorded.spans)) == ([], ["request indexing"])
