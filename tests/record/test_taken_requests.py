"""A request that was taken and built elsewhere has the record that it would have had at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_tracer

import ragtrace
from ragtrace.config import load
from ragtrace.errors import NewerForm, RecordError
from ragtrace.record import Draft, Recorder, TakenReader, build_record, install, take_request, write_taken
from ragtrace.record.requests import RequestDraft
from ragtrace.record.stages import GenerateRecording
from ragtrace.types import Fault, Item, RequestRecord, TakenRequest
from tests.record.conftest import Configure

TEXTS = [
    f"Passage {number} says what the policy of year {2000 + number} covers, and what it does not."
    for number in range(12)
]
TEXTS += ["short", "", "a word of seven languages: \u4fdd\u967a \U0001f600", "x" * 500, "bytes \xabRT\x01 of ours"]


class Both:
    """A sink that builds each request in both ways."""

    def __init__(self) -> None:
        self.pairs: list[tuple[RequestRecord, RequestRecord]] = []
        self.taken = 0
        self.faults: list[Fault] = []
        self.recorder: Recorder

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Build it here and, of what was taken, there."""
        if isinstance(item, Fault):
            self.faults.append(item)
        if not isinstance(item, RequestDraft):
            return
        request, parts, context = item.request, list(item.parts), item.request.context
        taken = take_request(item)
        here = len(self.faults)
        request.context, request.parts = context, parts
        built = RequestDraft(request, parts).build()
        assert isinstance(built, RequestRecord)
        if isinstance(taken, TakenRequest):
            self.taken += 1
            (frame,) = write_taken([taken])
            there, faults = build_record(TakenReader().read(frame))
            if request.tracer is not None:  # its spans were described, which counted them
                assert faults == []
            else:
                told = [(fault.where, fault.kind, fault.count) for fault in self.faults[here:]]
                assert [(fault.where, fault.kind, fault.count) for fault in faults] == told
        else:
            assert isinstance(taken, RequestRecord)
            finished = self.recorder.policy.finish(taken)
            assert isinstance(finished, RequestRecord)
            there = finished
        finished = self.recorder.policy.finish(built)
        assert isinstance(finished, RequestRecord)
        self.pairs.append((finished, there))

    def flag(self, request_id: str, flags: tuple[str, ...]) -> None:
        """Nothing is flagged late."""

    def flush(self, timeout: float) -> bool:
        """Nothing waits."""
        return True

    end_spans = close = flush


@pytest.fixture
def both() -> Iterator[Callable[..., Both]]:
    """Puts a recorder with such a sink in use."""

    def use(*, spans: bool, **given: object) -> Both:
        sink = Both()
        sink.recorder = Recorder(load(**given), sink, TracerProvider() if spans else None)
        install(sink.recorder)
        return sink

    yield use
    install(None)


@dataclass
class Hit:
    """A hit that is an object."""

    id: str
    text: str
    score: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


def as_mapping(number: int, text: str, score: float | None) -> Any:
    """What most search clients return."""
    return {"id": f"c{number}", "text": text, "score": score}


def as_rich(number: int, text: str, score: float | None) -> Any:
    """With metadata, a document and a source."""
    about = {"page": number, "tags": ["a", text[:5]], "url": f"https://host/{number}"}
    return {"id": f"c{number}", "content": text, "score": score, "doc_id": f"d{number % 3}", "metadata": about}


SHAPES: dict[str, Callable[[int, str, float | None], Any]] = {
    "mapping": as_mapping,
    "rich": as_rich,
    "object": lambda number, text, score: Hit(f"c{number}", text, score, {"page": number}),
    "pair": lambda number, text, score: (text, 0.5 if score is None else score),
    "triple": lambda number, text, score: (f"c{number}", text, 0.5 if score is None else score),
    "text": lambda number, text, score: text or "nothing",
    "without id": lambda number, text, score: {"text": text or "nothing", "score": score},
    "distance": lambda number, text, score: {"id": number, "text": text, "distance": score},
    "unreadable": lambda number, text, score: {"text": text, "id": f"c{number}"} if number % 3 else object(),
}
SCORES = st.one_of(st.none(), st.floats(-5, 5), st.sampled_from([0.0, 1.0, float("nan"), float("inf")]))


@dataclass
class Plan:
    """One request."""

    shape: str
    hits: list[tuple[int, int, float | None]]
    again: list[int]
    order: list[int]
    copies: bool
    packed: int
    packing: str
    answer: str
    fails: str
    settings: dict[str, Any]


PLANS = st.builds(
    Plan,
    shape=st.sampled_from(sorted(SHAPES)),
    hits=st.lists(st.tuples(st.integers(0, 9), st.integers(0, len(TEXTS) - 1), SCORES), max_size=12),
    again=st.lists(st.integers(0, 9), max_size=4),
    order=st.lists(st.integers(0, 15), max_size=8),
    copies=st.booleans(),
    packed=st.integers(0, 6),
    packing=st.sampled_from(["items", "prompt", "mapping", "none", "stream", "tokens"]),
    answer=st.sampled_from(["text", "mapping", "citing", "none", "stream"]),
    fails=st.sampled_from(["", "", "", "retrieve", "rerank", "pack", "generate", "request"]),
    settings=st.fixed_dictionaries(
        {},
        optional={
            "segment": st.sampled_from(["default", "en\x1b[0m"]),
            "tenant_id": st.just("t1"),
            "session_id": st.just("s1"),
            "facets": st.just([{"kind": "time", "value": "2024", "aliases": ["24"]}]),
            "cites": st.booleans(),
            "versions": st.just({"index": "v7"}),
            "attributes": st.dictionaries(
                st.text(max_size=3), st.one_of(st.integers(), st.text(max_size=9)), max_size=2
            ),
            "rewritten": st.just("another question"),
            "sampled_ranking": st.just({"alpha": 1.0, "log_probability": -2.0, "places": 2}),
        },
    ),
)


def run(plan: Plan) -> None:
    """The request of a plan."""

    def fail(stage: str) -> None:
        if plan.fails == stage:
            raise RuntimeError(f"{stage} failed")

    make = SHAPES[plan.shape]

    @ragtrace.retrieve(source="index")
    def search(query: str, k: int = 10) -> list[Any]:
        fail("retrieve")
        return [make(number, TEXTS[text], score) for number, text, score in plan.hits]

    @ragtrace.retrieve
    def search_again(query: str) -> list[Any]:
        return [make(number, TEXTS[number], 0.25) for number in plan.again]

    @ragtrace.rerank
    def rerank(query: str, hits: Sequence[Any]) -> list[Any]:
        fail("rerank")
        chosen = [hits[at] for at in plan.order if at < len(hits)]
        return [dict(hit) if plan.copies and isinstance(hit, dict) else hit for hit in chosen]

    @ragtrace.pack(budget="max_tokens")
    def pack(hits: list[Any], max_tokens: int = 500) -> Any:
        fail("pack")
        chosen = hits[: plan.packed]
        words = "\n\n".join(hit["text"] for hit in chosen if isinstance(hit, dict) and "text" in hit)
        if plan.packing == "prompt":
            return f"Answer the question.\n\n{words}\n\nWhat ends?"
        if plan.packing == "mapping":
            return {
                "chunks": chosen,
                "dropped": [(hit, "budget") for hit in hits[plan.packed :]],
                "prompt": words or "?",
            }
        if plan.packing == "tokens":
            return [{**hit, "tokens": 3, "tokens_full": 5} if isinstance(hit, dict) else hit for hit in chosen]
        if plan.packing == "stream":
            return (hit for hit in chosen)
        return None if plan.packing == "none" else chosen

    @ragtrace.generate(model="m1")
    def generate(prompt: str) -> Any:
        fail("generate")
        if plan.answer == "mapping":
            return {
                "answer": "It ends in 2024.",
                "finish_reason": "stop",
                "usage": {"input_tokens": 9, "output_tokens": 4},
            }
        if plan.answer == "citing":
            return {"answer": "It ends [1].", "citations": [{"marker": "[1]", "chunk_id": "c1"}]}
        if plan.answer == "stream":
            return (part for part in ["It ", "ends."])
        return None if plan.answer == "none" else "It ends in 2024."

    @ragtrace.request
    def ask(question: str) -> None:
        ragtrace.current_request().set(**plan.settings)
        found = search(question)
        if plan.again:
            found = found + search_again("a narrower question")
            ragtrace.current_request().grade({"c1": 0.5})
        packed = pack(rerank(question, found))
        if plan.packing == "stream":
            list(packed)
        answer = generate("Answer the question from the passages.")
        if plan.answer == "stream":
            "".join(answer)
        fail("request")

    with suppress(RuntimeError):
        ask("What ends?")


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS, spans=st.booleans(), within=st.booleans())
def test_the_record_is_the_same(both: Callable[..., Both], plan: Plan, spans: bool, within: bool) -> None:
    """Whatever the stages return, in whatever order, with spans or without, inside of a host's span or not."""
    sink = both(spans=spans, service="svc", versions={"prompt": "p1"})
    if within:
        with get_tracer("host", tracer_provider=TracerProvider()).start_as_current_span("host"):
            run(plan)
    else:
        run(plan)
    for here, there in sink.pairs:
        assert there == here


class Describing:
    """A sink that describes the spans of each request by the columns that were taken, then by the runs."""

    def __init__(self) -> None:
        self.pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.read = 0  # stages that had to be read for their description

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Describe it twice."""
        if isinstance(item, RequestDraft):
            parts: list[Any] = list(item.parts)
            by_columns = [dict(BoundedAttributes(attributes=part.described())) for part in parts]
            self.read += sum(part._run is not None for part in parts if not isinstance(part, GenerateRecording))
            for part in parts:
                part.read()
            by_runs = [dict(BoundedAttributes(attributes=part.described())) for part in parts]
            self.pairs += zip(by_columns, by_runs, strict=True)
            item.discard()

    def end_spans(self, timeout: float) -> bool:
        """They have ended."""
        return True


@pytest.fixture
def describing() -> Iterator[Callable[..., Describing]]:
    """Puts a recorder with such a sink in use."""

    def use(**given: object) -> Describing:
        sink: Any = Describing()
        install(Recorder(load(**given), sink, TracerProvider()))
        return sink  # type: ignore[no-any-return]

    yield use
    install(None)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS)
def test_spans_say_the_same_of_columns(describing: Callable[..., Describing], plan: Plan) -> None:
    """Whatever the stages return: nothing is read for it where columns tell it, and nothing else is told."""
    sink = describing(service="svc")
    run(plan)
    for by_columns, by_runs in sink.pairs:
        assert by_columns == by_runs


@pytest.mark.parametrize("again", [[], [1, 2, 3]])
def test_the_usual_spans_are_described_without_a_reading(
    describing: Callable[..., Describing], again: list[int]
) -> None:
    """Of one retriever and of several; the record is not built for them."""
    sink = describing(service="svc")
    hits: list[tuple[int, int, float | None]] = [(number, number, 0.5) for number in range(6)]
    run(Plan("mapping", hits, again, [3, 1, 2], False, 2, "items", "text", "", {}))
    assert (len(sink.pairs), sink.read) == (5 if again else 4, 0)
    assert sink.pairs[-2][0]["ragtrace.pack.dropped.reasons"] == ("probably budget",)


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "unreadable"])
@pytest.mark.parametrize("spans", [True, False])
def test_usual_shapes_are_taken_and_not_built(both: Callable[..., Both], shape: str, spans: bool) -> None:
    """A host that returns one of them pays for no record."""
    sink = both(spans=spans)
    hits: list[tuple[int, int, float | None]] = [(number, number, 0.5) for number in range(6)]
    run(Plan(shape, hits, [], [3, 1, 2], False, 2, "items", "text", "", {}))
    assert sink.taken == 1
    ((here, there),) = sink.pairs
    assert there == here
    assert len(there.candidates) == 6


@pytest.mark.parametrize("value", [2**70, {"a": {1, 2}}, "\ud800"])
def test_what_does_not_fit_is_built_at_once(both: Callable[..., Both], value: Any) -> None:
    """A value that MessagePack lacks or refuses costs no request."""
    sink = both(spans=False)
    with ragtrace.request(query="q") as request:
        request.set(attributes={"odd": value})
        with ragtrace.retrieve(query="q") as found:
            found.candidates([{"id": "a", "text": "b", "odd": value}])
    assert len(sink.pairs) == 1


def test_a_policy_that_hides_something_builds_at_once(both: Callable[..., Both]) -> None:
    """What is not to be kept is in nothing that is written."""
    sink = both(spans=False, capture_content="error=off")
    with ragtrace.request(query="q"):
        pass
    assert (sink.taken, len(sink.pairs)) == (0, 1)


def test_a_stage_that_follows_its_request_is_an_addendum(configure: Configure) -> None:
    """Only whole requests are taken."""
    recorded = configure(spans=False)
    request = ragtrace.request(query="q")
    request.__enter__()
    late = ragtrace.retrieve(query="q")
    late.__enter__()
    request.__exit__(None, None, None)
    late.__exit__(None, None, None)
    assert len(recorded.records) == len(recorded.addenda) == 1


@pytest.mark.parametrize("where", ["stage", "hit", "long hit", "metadata"])
def test_the_login_of_a_source_is_never_taken(both: Callable[..., Both], where: str) -> None:
    """The record does not tell it, so nothing that is written may."""
    sink = both(spans=False)
    source = f"https://user:SECRET@host/{'path/' * 20 if where == 'long hit' else ''}"
    hits = [{"id": "a", "text": "b", "metadata" if where == "metadata" else "source": source} for _ in "ab"]
    if where == "metadata":
        hits = [{"id": "a", "text": "b", "metadata": {"source": source}}]  # type: ignore[dict-item]
    with ragtrace.request(query="q"):
        if where == "stage":
            ragtrace.retrieve(source=source)(lambda query: [{"id": "a", "text": "b"}])("q")
        else:
            ragtrace.retrieve(lambda query: hits)("q")
    assert sink.taken == 0
    ((here, there),) = sink.pairs
    assert here == there


def test_empty_rows_are_counted_as_ever(both: Callable[..., Both]) -> None:
    """Items that hold nothing are items that cannot be read, not none at all."""
    sink = both(spans=False)
    with ragtrace.request(query="q"):
        ragtrace.retrieve(lambda query: [(), ()])("q")
    assert sink.taken == 0


def test_texts_are_written_once() -> None:
    """Requests that share texts share them in what is written as well."""
    one = TakenRequest(body=b"", texts=("long " * 200, "other"))
    other = TakenRequest(body=b"", texts=("third", *one.texts))
    (alone,), together = write_taken([one]), write_taken([one, other, *[one] * 18])
    assert sum(map(len, together)) < len(alone) + 20 * 20
    reader = TakenReader()
    assert [reader.read(frame).texts for frame in together] == [one.texts, other.texts, *[one.texts] * 18]


def test_a_frame_that_is_missing_costs_those_that_need_its_texts() -> None:
    """No text of another batch, or of another number, takes its place; what needs none of it is read."""
    texts = [("a" * 50, "b" * 50), ("a" * 50, "c" * 50), ("c" * 50, "d" * 50), ("e" * 50,)]
    batch = [TakenRequest(body=str(number).encode(), texts=each) for number, each in enumerate(texts)]
    (before,) = write_taken([TakenRequest(body=b"before", texts=("x" * 50, "y" * 50, "z" * 50, "w" * 50))])
    first, second, third, fourth = write_taken(batch)
    for lost, needed in ((first, {0, 1}), (second, {1, 2}), (third, {2}), (fourth, {3})):
        reader, read = TakenReader(), set()
        reader.read(before)
        for frame in (first, second, third, fourth):
            if frame is not lost:
                with suppress(RecordError):
                    found = reader.read(frame)
                    assert found == batch[int(found.body)]
                    read.add(int(found.body))
        assert read == {0, 1, 2, 3} - needed


def test_a_newer_form_is_told_from_damage() -> None:
    """It waits for another version; what is no such value at all does not."""
    with pytest.raises(NewerForm, match="form 3, and this ragtrace reads up to 2; upgrade where `ragtrace build`"):
        TakenReader().read(msgspec.msgpack.encode([3, "a later form"]))
    for damaged in (
        b"",
        b"\x93",
        msgspec.msgpack.encode([2, "no texts"]),
        msgspec.msgpack.encode([2, b"", 0, [b"\xff"], [0], b""]),
    ):
        with pytest.raises(RecordError, match="no request as it was taken"):
            TakenReader().read(damaged)
    with pytest.raises(RecordError, match="lacks its text 0, which was in another entry"):
        TakenReader().read(msgspec.msgpack.encode([2, b"", 0, [], [0], b""]))
    with pytest.raises(RecordError, match="a request that was taken cannot be built"):
        build_record(TakenRequest(body=b"\x90", texts=()))
