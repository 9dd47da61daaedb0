"""Carriers: a request goes on in other processes, threads and consumers, and nothing that comes in one hurts."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import get_current

import ragtrace
from ragtrace.record import install
from ragtrace.types import Addendum, Fault

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
ENTRY = "id=r1;service=svc;sampled=1;probability=1.0"


@ragtrace.retrieve
def search(query: str) -> list[dict[str, Any]]:
    """A retriever."""
    return [{"id": f"c-{query}", "text": f"the text for {query}", "score": 0.5}]


def elsewhere(configure: Any, **settings: object) -> Any:
    """A recorder of another process."""
    return configure(service="worker", **settings)


def test_a_carrier_is_small_and_fits_into_headers(configure: Any) -> None:
    """Names and values are printable ASCII, JSON and HTTP can hold it, and it says nothing of who asked what."""
    configure(service="Dienst für Anfragen;=\n")
    with ragtrace.request(
        query="my secret", tenant_id="acme", session_id="s-77", request_id="größe; id=2\r\nX-Evil: 1"
    ) as request:
        carrier = ragtrace.inject()
    assert set(carrier) == {"traceparent", "ragtrace"}
    assert carrier["traceparent"].split("-")[1] == request.trace_id
    text = json.dumps(carrier)
    assert json.loads(text) == carrier
    assert all(value.isascii() and value.isprintable() and " " not in value for value in carrier.values())
    assert not [word for word in ("secret", "acme", "s-77") if word in text]
    assert len(text) < 400


def test_inject_writes_into_what_it_is_given(recorded: Any) -> None:
    """Headers that are there stay there; the same mapping is returned."""
    headers = {"Accept": "text/plain"}
    with ragtrace.request(query="q"):
        assert ragtrace.inject(headers) is headers
    assert set(headers) == {"Accept", "traceparent", "ragtrace"}


def test_outside_of_a_request_there_is_nothing_to_carry(recorded: Any) -> None:
    """Nor without configure(); and taking nothing up is no fault."""
    assert ragtrace.inject() == {}
    with ragtrace.extract({}):
        search("alone")
    install(None)
    assert ragtrace.inject() == {}
    with ragtrace.extract({"ragtrace": ENTRY}) as request:
        assert not request.recording
    assert [record.query.original for record in recorded.records] == ["alone"]
    assert recorded.faults == []


def test_without_an_sdk_a_carrier_names_the_request_alone(configure: Any) -> None:
    """There is no trace to name, unless the host knows one."""
    configure(spans=False)
    with ragtrace.request(query="q", request_id="r"):
        assert ragtrace.inject() == {"ragtrace": "id=r;service=default;sampled=1;probability=1.0"}
    host = trace.NonRecordingSpan(trace.SpanContext(int(TRACE, 16), 7, True, trace.TraceFlags(1)))
    with trace.use_span(host), ragtrace.request(query="q"):
        assert ragtrace.inject()["traceparent"] == f"00-{TRACE}-0000000000000007-01"


def test_a_thread_of_the_hosts_own_joins_the_running_request(recorded: Any) -> None:
    """In the same process nothing is added later: the stages stand in the one record."""

    def work(carrier: dict[str, str]) -> None:
        with ragtrace.extract(carrier) as request:
            search("in the thread")
            request.flag("seen")
        assert get_current() == {}

    with ragtrace.request(query="q", name="ask") as request:
        thread = threading.Thread(target=work, args=(ragtrace.inject(),))
        thread.start()
        thread.join()
        search("in the request")
    record = recorded.record
    assert record.request_id == request.request_id
    assert [candidate.chunk_id for candidate in record.candidates] == ["c-in the thread", "c-in the request"]
    assert record.flags == ("seen",)
    assert recorded.addenda == []
    spans = recorded.exporter.get_finished_spans()
    parent = recorded.spans["request ask"].context
    assert [(span.parent.span_id, span.context.trace_id) for span in spans[:2]] == [
        (parent.span_id, parent.trace_id)
    ] * 2


def test_elsewhere_the_stages_are_added_to_the_record(configure: Any) -> None:
    """The addendum names the request and its service; the spans are children of the carried one."""
    here = configure(service="assistant")
    with ragtrace.request(query="q", request_id="größe 1", name="ask"):
        carrier = ragtrace.inject()
    there = elsewhere(configure)
    with ragtrace.extract(carrier) as request:
        assert (request.request_id, request.recording) == ("größe 1", True)
        search("one")
        with ragtrace.request(query="inner"):
            search("two")
    (addendum,) = there.items
    assert isinstance(addendum, Addendum)
    assert (addendum.request_id, addendum.service, addendum.flags) == ("größe 1", "assistant", ())
    assert there.durable == []
    record = here.record.extended(addendum)
    assert [candidate.chunk_id for candidate in record.candidates] == ["c-one", "c-two"]
    parent = here.spans["request ask"].context
    first = there.exporter.get_finished_spans()[0]
    assert (first.parent.span_id, first.context.trace_id) == (parent.span_id, parent.trace_id)
    assert {span.context.trace_id for span in there.exporter.get_finished_spans()} == {parent.trace_id}


def test_a_carrier_goes_on_from_hop_to_hop(configure: Any) -> None:
    """What is taken up can be injected again: the same request and head decision."""
    configure(service="assistant", sample_rate=0.0, sample_floor=0)
    with ragtrace.request(query="q"):
        first = ragtrace.inject()
    elsewhere(configure)
    with ragtrace.extract(first):
        second = ragtrace.inject()
    assert second["ragtrace"] == first["ragtrace"]
    assert "sampled=0" in first["ragtrace"]


def test_the_head_decision_travels(configure: Any) -> None:
    """What the record will say of the sample is what the carrier says, and a worker's own rate does not matter."""
    here = configure(sample_rate=0.5, sample_floor=0)
    carried = []
    for number in range(40):
        with ragtrace.request(query="q", request_id=f"r{number}"):
            carried.append(ragtrace.inject())
    sampled = {f"r{number}" for number, carrier in enumerate(carried) if "sampled=1" in carrier["ragtrace"]}
    assert {record.request_id for record in here.records} == sampled
    assert 5 < len(sampled) < 35
    assert all(carrier["ragtrace"].endswith("probability=0.5") for carrier in carried)
    there = elsewhere(configure, sample_rate=0.0, sample_floor=0)
    for carrier in carried:
        with ragtrace.extract(carrier):
            search("q")
    assert {addendum.request_id for addendum in there.addenda} == sampled


def test_an_exception_in_the_block_reaches_the_host_and_flags_the_request(configure: Any) -> None:
    """It is durable when the block has ended, also for a request outside of the sample."""
    there = elsewhere(configure)
    error = ValueError("theirs")

    def fail() -> None:
        with ragtrace.extract({"ragtrace": ENTRY.replace("sampled=1", "sampled=0")}):
            search("q")
            raise error

    with pytest.raises(ValueError, match="theirs") as raised:
        fail()
    assert raised.value is error
    (addendum,) = there.durable
    assert isinstance(addendum, Addendum)
    assert addendum.flags == ("error",)
    assert [run.name for run in addendum.stages] == ["search"]


def test_an_exception_in_a_thread_flags_the_running_request(recorded: Any) -> None:
    """Where the request itself runs, it gets the flag."""
    with ragtrace.request(query="q"):
        with pytest.raises(KeyError), ragtrace.extract(ragtrace.inject()):
            raise KeyError("theirs")
        search("q")
    assert recorded.record.flags == ("error",)
    assert recorded.addenda == []


def test_a_block_without_stages_leaves_nothing(configure: Any) -> None:
    """Neither a record nor an addendum."""
    there = elsewhere(configure)
    with ragtrace.extract({"traceparent": PARENT, "ragtrace": ENTRY}):
        pass
    assert (there.items, there.exporter.get_finished_spans()) == ([], ())


def test_a_trace_without_an_entry_gives_the_trace(recorded: Any) -> None:
    """The service before does not use ragtrace: an own request, in that trace."""
    with ragtrace.extract({"traceparent": PARENT}), ragtrace.request(query="q"):
        search("q")
    assert recorded.record.trace_id == TRACE
    assert recorded.addenda == []
    assert recorded.faults == []


def test_a_running_request_is_not_taken_out_of_its_trace(recorded: Any) -> None:
    """By a carrier that names no request."""
    with ragtrace.request(query="q") as request, ragtrace.extract({"traceparent": PARENT}):
        search("q")
    assert {format(span.context.trace_id, "032x") for span in recorded.exporter.get_finished_spans()} == {
        request.trace_id
    }


@pytest.mark.parametrize(
    "carrier",
    [
        [("Traceparent", PARENT), ("RAGTRACE", ENTRY)],
        [(b"traceparent", PARENT.encode()), (b"ragtrace", ENTRY.encode()), (b"x", b"\xff")],
        {"ragtrace": ENTRY + ";later=1", "other": "x", "traceparent": PARENT},
    ],
    ids=["pairs, as HTTP spells them", "bytes, as Kafka and ASGI have them", "of a later version"],
)
def test_carriers_come_in_many_forms(recorded: Any, carrier: Any) -> None:
    """Mappings and pairs, text and bytes, whatever the case of the names."""
    with ragtrace.extract(carrier):
        search("q")
    (addendum,) = recorded.addenda
    assert addendum.request_id == "r1"
    (span,) = recorded.exporter.get_finished_spans()
    assert format(span.context.trace_id, "032x") == TRACE
    assert recorded.faults == []


class _Hostile(dict[str, str]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "carrier",
    [
        None,
        7,
        "ragtrace",
        [1, 2],
        {"ragtrace": 5},
        {"ragtrace": None},
        {"ragtrace": ""},
        {"ragtrace": "x" * 10_000_000},
        {"ragtrace": ENTRY + ";x=" + "y" * 5000},
        {"ragtrace": "id=;service=s;sampled=1;probability=1"},
        {"ragtrace": "id=r;service=s;sampled=2;probability=1"},
        {"ragtrace": "id=r;service=s;sampled=1;probability=nan"},
        {"ragtrace": "id=r;service=s;sampled=1;probability=7"},
        {"ragtrace": "id=r;service=s;sampled=1;probability=1e999"},
        {"ragtrace": "id=r"},
        {"ragtrace": b"\xff\xfe"},
        {"traceparent": "00-zz-yy-01"},
        {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
        {"traceparent": ["a", "b"]},
        {5: 6},
        _Hostile(),
    ],
    ids=lambda carrier: repr(carrier)[:40],
)
def test_a_broken_carrier_is_as_good_as_none(configure: Any, carrier: Any) -> None:
    """Counted once; the stages are recorded as without it, and the host's exception is its own."""
    recorded = configure(raise_errors=False)

    def fail() -> None:
        with ragtrace.extract(carrier):
            assert search("q")[0]["id"] == "c-q"
            raise LookupError("theirs")

    with pytest.raises(LookupError, match="theirs"):
        fail()
    assert get_current() == {}
    assert [where for where, _ in recorded.faults] == ["carrier.extract"]
    assert [run.name for run in recorded.record.stages] == ["search"]
    assert recorded.addenda == []


@pytest.mark.parametrize(
    "carrier",
    [
        {"ragtrace": "secret@example.com"},
        {"ragtrace": "id=r;service=s;sampled=1;probability=secret"},
        {"ragtrace": "id=r;service=s;sampled=secret;probability=1"},
        {"traceparent": "secret"},
        {"ragtrace": "secret" * 1000},
        "secret",
        {"ragtrace": KeyError("secret")},
    ],
)
def test_a_fault_says_nothing_of_what_the_carrier_held(configure: Any, carrier: Any) -> None:
    """Whatever may be kept of messages: what is broken may be anything of the host's."""
    recorded = configure(raise_errors=False, capture_content="full")
    with ragtrace.extract(carrier):
        search("q")
    (fault,) = [item for item in recorded.items if isinstance(item, Fault)]
    assert fault.where == "carrier.extract"
    assert fault.message
    assert "secret" not in fault.message


def test_a_broken_trace_does_not_cost_the_request(recorded: Any) -> None:
    """What of a carrier can be read is used."""
    with ragtrace.extract({"traceparent": "garbage", "ragtrace": ENTRY}):
        search("q")
    assert [addendum.request_id for addendum in recorded.addenda] == ["r1"]
    assert recorded.faults == [("carrier.extract", "ValueError")]


def test_a_mapping_that_cannot_be_written_to_is_harmless(configure: Any) -> None:
    """A fault of ours, counted; so is an id that no header can hold."""
    recorded = configure(raise_errors=False)

    class Sealed(dict[str, str]):
        def __setitem__(self, name: str, value: str) -> None:
            raise TypeError("sealed")

    sealed = Sealed()
    with ragtrace.request(query="q", request_id="r" * 5000):
        assert ragtrace.inject(sealed) is sealed
        assert "ragtrace" not in ragtrace.inject()
    assert recorded.faults == [("carrier.inject", "TypeError"), ("carrier.inject", "ValueError")]


def test_a_stage_that_ends_after_its_block_is_added_as_well(configure: Any) -> None:
    """As it is after a request's end."""
    there = elsewhere(configure)
    began, let_go = threading.Event(), threading.Event()

    @ragtrace.retrieve
    def slow(query: str) -> list[str]:
        began.set()
        let_go.wait(30)
        return ["late"]

    def work(context: Any) -> None:
        context.run(slow, "q")

    import contextvars

    with ragtrace.extract({"ragtrace": ENTRY}):
        thread = threading.Thread(target=work, args=(contextvars.copy_context(),))
        thread.start()
        assert began.wait(30)
    let_go.set()
    thread.join()
    (addendum,) = there.addenda
    assert (addendum.request_id, addendum.service) == ("r1", "svc")
