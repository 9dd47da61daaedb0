"""Spans of one trace become one record, in any order, however often they arrive."""

from __future__ import annotations

import json
from random import Random

import msgspec
import pytest
from hypothesis import given, strategies as st

from ragtrace.receive import _spans as spans, _trace_tree as trace_tree
from ragtrace.receive._assembly import assemble
from ragtrace.receive._spans import ReceivedSpan, SpanEvent
from ragtrace.types import (
    GenerateRun,
    Grade,
    HostGrades,
    PackRun,
    RerankRun,
    RetrieveRun,
    SampledRanking,
    encode_record,
    replace,
)
from tests.receive.spans import TRACE, assembled, model, retriever, span

TEXTS = ("The tariff of 2024 is 4.5 percent of the value.", "The tariff of 2023 was 3.9 percent of the value.")
PROMPT = f"Answer from this.\n\n{TEXTS[0]}\n\n{TEXTS[1]}\n\nWhat is the tariff?"


def request() -> list[ReceivedSpan]:
    """A chain with a retriever and a model below it."""
    root = span(
        1,
        ended_at=9_000,
        attributes={
            "openinference.span.kind": "CHAIN",
            "input.value": "What is the tariff?",
            "output.value": "4.5 percent.",
        },
    )
    return [root, retriever(2, 1, TEXTS), model(3, 1, PROMPT, "4.5 percent.")]


def test_record() -> None:
    """Retrieval, the packing that the prompt shows, and the generation."""
    record = assembled(request())

    assert [type(run) for run in record.stages] == [RetrieveRun, PackRun, GenerateRun]
    assert record.request_id == TRACE
    assert record.service == "assistant"
    assert record.packing is not None
    assert [chunk.chunk_id for chunk in record.packing.chunks] == ["chunk-0", "chunk-1"]
    assert record.versions == {"model": "tiny"}
    assert (record.started_at, record.ended_at) == (1_000, 9_000)


@pytest.mark.parametrize(
    ("attributes", "resource", "cites"),
    [
        ({}, {}, None),
        ({}, {"ragtrace.cites": "false"}, False),
        ({}, {"ragtrace.cites": False}, False),
        ({"ragtrace.cites": False}, {}, False),
        ({"ragtrace.cites": True}, {"ragtrace.cites": "False"}, True),
        ({"ragtrace.cites": True}, {}, True),
        ({}, {"ragtrace.cites": "true"}, True),
        ({}, {"ragtrace.cites": "perhaps"}, None),
        ({}, {"ragtrace.cites": None}, None),
    ],
)
def test_what_is_meant_to_cite(attributes: dict[str, object], resource: dict[str, object], cites: bool | None) -> None:
    """Said by the root's span, else by its resource, as OTEL_RESOURCE_ATTRIBUTES puts it there; else it is learned."""
    root, *stages = request()
    root = msgspec.structs.replace(root, attributes=root.attributes | attributes, resource=root.resource | resource)

    assert assembled([root, *stages]).cites is cites


@pytest.mark.parametrize(("log", "is_kept"), [(-1.5, True), (0.5, False), ("-1.5", False), (None, False)])
def test_a_ranking_that_was_drawn(log: object, is_kept: bool) -> None:
    """As the root's span says it in numbers that can be."""
    root, *stages = request()
    said = {"ragtrace.ranking.alpha": 2, "ragtrace.ranking.places": 5, "ragtrace.ranking.log_probability": log}
    root = msgspec.structs.replace(root, attributes=root.attributes | said)

    found = assembled([root, *stages]).sampled_ranking

    assert found == (SampledRanking(alpha=2.0, log_probability=-1.5, places=5) if is_kept else None)


def test_grades_of_the_hosts_own_evaluator() -> None:
    """Of any span of the trace, by chunk; what cannot be read is left out."""
    root, first, *rest = request()
    names = ("ids", "values", "action")
    said = dict(zip((f"ragtrace.grades.{name}" for name in names), (["a", "b"], [0.5, "no"], "INCORRECT"), strict=True))
    first = msgspec.structs.replace(first, attributes=first.attributes | said)

    found = assembled([root, first, *rest]).graded

    assert found == HostGrades(
        grades=(Grade(chunk_id="a", grade=0.5), Grade(chunk_id="b", grade=-1.0)), action="INCORRECT"
    )
    first = msgspec.structs.replace(first, attributes=first.attributes | {"ragtrace.grades.ids": [{"id": "a"}, "b"]})
    assert assembled([root, first, *rest]).graded == HostGrades(
        grades=(Grade(chunk_id="b", grade=-1.0),), action="INCORRECT"
    )
    first = msgspec.structs.replace(first, attributes=first.attributes | {"ragtrace.grades.values": [0.5, 7]})
    assert assembled([root, first, *rest]).graded is None


@given(st.permutations(range(3)), st.lists(st.integers(0, 2), max_size=4))
def test_order_and_repetition(order: list[int], repeated: list[int]) -> None:
    """Neither makes a difference."""
    spans = request()

    assert assemble([spans[place] for place in (*order, *repeated)]) == assembled(spans)


def test_late_span_makes_a_newer_revision() -> None:
    """The revision is the number of spans, so that a late one replaces what was stored before it."""
    early, late = assembled(request()[:2]), assembled(request())

    assert early.record_revision < late.record_revision
    assert early.request_id == late.request_id
    assert early.generation is not None  # the chain's own answer, until the model's span is there
    assert early.generation.prompt_template is None


def test_nested_spans_of_one_call() -> None:
    """Of nested retrievers the outermost counts; one that does not say what it returned gives way."""
    inner, outer = retriever(4, 2, TEXTS[:1]), retriever(2, 1, TEXTS)
    silent = retriever(2, 1, (), dropped=3)

    for wrapper in (outer, retriever(2, 1, TEXTS[:1])):
        record = assembled([request()[0], wrapper, inner])
        assert [run.span_id for run in record.stages if run.span_id] == [wrapper.span_id]
    record = assembled([request()[0], silent, inner])
    assert [run.span_id for run in record.stages if run.span_id] == [inner.span_id]


@pytest.mark.parametrize("kept", [1, 0])
def test_a_retriever_that_chooses(kept: int) -> None:
    """One that returns only some of what those within it found stands behind them as a reranker: the evidence that it
    lost was retrieved."""
    asked = "What is the tariff?"
    outer = retriever(2, 1, TEXTS[:kept])
    outer.attributes["output.value"] = "[]"
    record = assembled([request()[0], outer, retriever(4, 2, TEXTS), model(6, 1, asked, "4.5 percent.")])

    assert [type(run) for run in record.stages[:2]] == [RetrieveRun, RerankRun]
    assert len(record.candidates) == 2
    assert [move.rank_after for move in record.moves] == [1, None] if kept else [None, None]
    assert record.stages[1].started_at >= record.stages[0].ended_at


def test_retrievers_that_choose_in_turn() -> None:
    """Each is a step of its own, the innermost first."""
    texts = (*TEXTS, "Cork has a port.")
    spans = [retriever(2, 1, texts[:1]), retriever(3, 2, texts[:2]), retriever(4, 3, texts)]
    record = assembled([request()[0], *spans])

    assert [run.span_id for run in record.stages[:3]] == [each.span_id for each in reversed(spans)]
    assert [type(run) for run in record.stages[:3]] == [RetrieveRun, RerankRun, RerankRun]


class Visited(dict[str, str | None]):
    """The parents of spans, which count how often one is asked for."""

    count = 0

    def __getitem__(self, key: str) -> str | None:
        self.count += 1
        return super().__getitem__(key)


def test_many_retrievers_below_many_spans() -> None:
    """Each span is visited once, however deep they stand; a circle of parents ends as well."""
    chain = Visited({str(place): str(place - 1) if place else None for place in range(2_000)})
    chain |= {f"r{place}": "1999" for place in range(1_000)} | {"x": "y", "y": "x"}
    found = trace_tree._nearest(chain, {"7", "x", *(f"r{place}" for place in range(1_000))})

    assert {found[f"r{place}"] for place in range(1_000)} == {"7"}
    assert found["7"] is None
    assert chain.count <= len(chain)


def test_a_reranker_within_a_retriever() -> None:
    """It is what chose; the retriever around it is no further step."""
    reranker = span(
        5,
        2,
        attributes={
            "openinference.span.kind": "RERANKER",
            **{f"reranker.input_documents.{place}.document.id": f"chunk-{place}" for place in range(2)},
            "reranker.output_documents.0.document.id": "chunk-1",
        },
    )
    chosen = retriever(2, 1, TEXTS[1:])
    chosen.attributes["retrieval.documents.0.document.id"] = "chunk-1"
    record = assembled([request()[0], chosen, retriever(4, 2, TEXTS), reranker])

    assert [type(run) for run in record.stages] == [RetrieveRun, RerankRun, GenerateRun]
    assert record.stages[1].span_id == reranker.span_id


def test_texts_under_one_id() -> None:
    """Where the id is that of a document, each of its chunks is told apart, and the one in the prompt is found."""
    found = retriever(2, 1, (TEXTS[1], TEXTS[0]))
    for place in range(2):
        found.attributes[f"retrieval.documents.{place}.document.id"] = "file"
    record = assembled([request()[0], found, model(3, 1, f"{TEXTS[0]}\nWhat is the tariff?", "4.5 percent.")])

    first, second = record.candidates
    assert first.chunk_id == "file"
    assert (second.chunk_id.partition("~")[0], second.doc_id) == ("file", "file")
    assert record.packing is not None
    assert [each.chunk_id for each in record.packing.chunks] == [second.chunk_id]


def test_a_cut_prompt() -> None:
    """Where messages of the model's span are missing, what is not in the rest is not known to have been left out."""
    root, found, said = request()
    for part in ("role", "content"):
        said.attributes[f"llm.input_messages.1.message.{part}"] = said.attributes.pop(
            f"llm.input_messages.0.message.{part}"
        )
    record = assembled([root, found, replace(said, dropped=2)])

    assert record.packing is None
    assert record.generation is not None


def test_two_retrievers_beside_each_other() -> None:
    """Both count: their candidates are united."""
    other = retriever(5, 1, ("Cork has a port.",))
    other.attributes["retrieval.documents.0.document.id"] = "other"

    assert {each.chunk_id for each in assembled([*request(), other]).candidates} == {"chunk-0", "chunk-1", "other"}


@pytest.mark.parametrize("dropped", [0, 74])
def test_truncated_evidence(dropped: int) -> None:
    """A span that lost attributes to a limit leaves the retrieval unknown, and no failure."""
    record = assembled([request()[0], retriever(2, 1, TEXTS, dropped=dropped)])
    run = record.stages[0]

    assert isinstance(run, RetrieveRun)
    assert run.incomplete is bool(dropped)
    assert record.is_retrieved is not bool(dropped)


def test_missing_places_are_truncated_evidence() -> None:
    """The first documents are what a limit takes away; the ranks of the others stay as they are known."""
    cut = retriever(2, 1, TEXTS)
    for part in ("id", "content"):
        del cut.attributes[f"retrieval.documents.0.document.{part}"]
    record = assembled([request()[0], cut])

    assert not record.is_retrieved
    assert [(each.chunk_id, each.rank) for each in record.candidates] == [("chunk-1", 2)]


def test_root_that_never_came() -> None:
    """The earliest span whose parent is missing stands for the root."""
    record = assembled(request()[1:])

    assert record.query.original == "What is the tariff?"
    assert record.generation is not None


def test_circle_of_parents() -> None:
    """Ids of a sender may make a circle; there is a record nevertheless."""
    spans = [retriever(2, 3, TEXTS), model(3, 2, PROMPT, "4.5 percent.")]

    assert len(assembled(spans).candidates) == 2


def test_nothing_of_a_request() -> None:
    """A trace without any stage makes no record."""
    assert assemble([span(1, attributes={"http.method": "GET"})]) is None
    assert assemble([]) is None


def test_error() -> None:
    """A failed stage and a failed request keep the exception's type."""
    event = SpanEvent("exception", 5, {"exception.type": "TimeoutError", "exception.message": "too slow"})
    root = span(1, status="error", events=(event,), attributes=request()[0].attributes)
    failed = retriever(2, 1, (), status="error", message="no index")
    record = assembled([root, failed])

    assert record.status == "error"
    assert record.error is not None
    assert record.error.type == "TimeoutError"
    assert record.stages[0].error is not None
    assert record.stages[0].error.message == "no index"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    sorted(
        {name for each in request() for name in each.attributes}
        | {
            "gen_ai.operation.name",
            "gen_ai.input.messages",
            "gen_ai.retrieval.documents",
            "traceloop.span.kind",
            "traceloop.entity.input",
            "traceloop.entity.output",
            "gen_ai.provider.name",
            "gen_ai.prompt.1.content",
            "gen_ai.completion.0.content",
            "llm.request.type",
            "langfuse.observation.type",
            "langfuse.observation.level",
            "langfuse.observation.input",
            "langfuse.observation.output",
            "ai.observability.span_type",
            "ai.observability.call.return",
            "ai.observability.retrieval.retrieved_contexts",
            "ai.operationId",
            "ai.prompt.messages",
            "ragtrace.request.id",
            "ragtrace.retrieval.document.ids",
            "ragtrace.retrieval.document.scores",
            "ragtrace.rerank.document.ids",
            "ragtrace.rerank.document.ranks_before",
            "ragtrace.pack.document.ids",
            "ragtrace.pack.tokens",
        }
    )
)
KINDS = st.sampled_from(
    ["RETRIEVER", "RERANKER", "LLM", "CHAIN", "retriever", "generation", "retrieval", "chat", "task", "tool", "rerank"]
)
SPANS = st.builds(
    lambda number, parent, attributes, scope, dropped: span(
        number, parent, attributes=attributes, scope=scope, dropped=dropped
    ),
    st.integers(1, 6),
    st.none() | st.integers(1, 6),
    st.dictionaries(NAMES, VALUES | KINDS, max_size=8),
    st.sampled_from(["", "ragtrace"]),
    st.sampled_from([0, 5]),
)


@given(st.lists(SPANS, max_size=6), st.randoms())
def test_any_values(spans: list[ReceivedSpan], random: Random) -> None:
    """Attributes of any type never raise, and the record does not depend on the order."""
    unique = list({each.span_id: each for each in spans}.values())
    shuffled = random.sample(unique, len(unique))

    assert assemble(shuffled) == assemble(unique)


def test_a_span_that_is_sent_again_with_more_in_it() -> None:
    """The fuller one counts, in whatever order they come, and makes a newer revision."""
    root, found, said = request()
    running = model(3, 1, PROMPT, "4.5", ended_at=0)
    early, late = assembled([root, found, running]), assembled([running, said, root, found])

    assert late == assembled([said, root, running, found])
    assert late.generation is not None
    assert late.generation.answer == "4.5 percent."
    assert early.record_revision < late.record_revision


def test_a_span_without_times() -> None:
    """It does not move the request to 1970."""
    record = assembled([*request(), span(4, 1, started_at=0, ended_at=0)])

    assert (record.started_at, record.ended_at) == (1_000, 9_000)


def test_root_before_orphans() -> None:
    """A span without a parent is the root, though one whose parent is elsewhere began earlier."""
    orphan = span(9, 77, started_at=1, resource={"service.name": "gateway"})

    assert assembled([orphan, *request()]).service == "assistant"


def test_many_spans() -> None:
    """A long chain of spans of one kind takes each span once."""
    chain = [
        span(number, number - 1 if number > 1 else None, attributes={"openinference.span.kind": "RETRIEVER"})
        for number in range(1, 20_000)
    ]
    record = assembled([*chain, retriever(20_000, 19_999, TEXTS)])

    assert len(record.stages) == 1
    assert len(record.candidates) == 2


def test_a_judge_after_the_answer() -> None:
    """A model that judges the answer is not the answer, and its prompt not the context."""
    judge = model(4, 1, f"Is it grounded in this?\n\n{TEXTS[1]}", "yes")
    record = assembled([*request(), judge])

    assert record.generation is not None
    assert record.generation.answer == "4.5 percent."
    assert record.packing is not None
    assert len(record.packing.chunks) == 2


def test_a_rewriter_is_not_the_answer() -> None:
    """Where only the call that rewrote the question is traced, the root says the answer."""
    root, found, _ = request()
    rewriter = model(2, 1, "Rewrite: what is the tariff?", "tariff rate of goods")
    record = assembled([root, rewriter, replace(found, span_id="00000000000000aa", started_at=4_000)])

    assert record.generation is not None
    assert record.generation.answer == "4.5 percent."


def test_half_a_character() -> None:
    """A text that JavaScript cut within a character can be stored."""
    given = {"openinference.span.kind": "CHAIN", "input.value": '{"question": "tariff \\ud83d"}'}
    record = assembled([span(1, ended_at=9_000, attributes=given), *request()[1:]])

    assert record.query.original == "tariff \ufffd"
    assert encode_record(record)


def test_reasoning_is_no_answer() -> None:
    """What the model thought is left out; what a tool returned stands in the prompt."""
    said = [{"type": "reasoning", "content": "Let me see."}, {"type": "text", "content": "4.5 percent."}]
    asked = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": list(TEXTS)}]}
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([asked]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": said}]),
        "gen_ai.usage.input_tokens": 1e300,
    }
    record = assembled([*request()[:2], span(3, 1, attributes=chat)])

    assert record.generation is not None
    assert record.generation.answer == "4.5 percent."
    assert record.generation.usage is None
    assert record.packing is not None
    assert len(record.packing.chunks) == 2


@pytest.mark.parametrize("operation", [["chat"], {"chat": 1}, 5, None])
def test_an_operation_of_another_type(operation: object) -> None:
    """It is as good as absent, and stops nothing."""
    given = {"gen_ai.operation.name": operation}

    assert assembled([*request(), span(4, 1, attributes=given)]).stages == assembled(request()).stages


@pytest.mark.parametrize(
    "prompts", [{"llm.prompts": [PROMPT]}, {"llm.prompts.0.prompt.text": PROMPT}], ids=["a list", "flattened"]
)
def test_completions(prompts: dict[str, object]) -> None:
    """A prompt and its completion, where there are no messages."""
    given = {"openinference.span.kind": "LLM", "llm.choices.0.completion.text": "4.5 percent.", **prompts}
    record = assembled([*request()[:2], span(3, 1, attributes=given)])

    assert record.generation is not None
    assert record.generation.answer == "4.5 percent."
    assert record.packing is not None
    assert len(record.packing.chunks) == 2


def test_a_long_trace() -> None:
    """A prompt is searched for what was found of late, not for all that an agent has ever found."""
    spans = [span(1, ended_at=9_000_000, attributes={"openinference.span.kind": "CHAIN"})]
    for number in range(10, 1_010, 2):
        texts = [f"Fact {number}-{place} of the tariff." for place in range(10)]
        ids = {f"retrieval.documents.{place}.document.id": f"{number}-{place}" for place in range(10)}
        found = retriever(number, 1, texts)
        spans += [replace(found, attributes=found.attributes | ids), model(number + 1, 1, "\n\n".join(texts), "yes")]
    record = assembled(spans)

    assert record.packing is not None
    assert [chunk.chunk_id for chunk in record.packing.chunks] == [f"1008-{place}" for place in range(10)]
    assert len(record.candidates) == 5_000


def test_a_value_that_is_nested_too_deep_is_a_text() -> None:
    """What looks like JSON and cannot be read as such is kept as it came."""
    question = "[" * 100_000
    root, *rest = request()
    record = assemble([replace(root, attributes={**root.attributes, "input.value": question}), *rest])
    assert record is not None
    assert record.query.original == question


@pytest.mark.parametrize("length", [200, 20_000])
def test_names_of_any_length(length: int) -> None:
    """Places of lists are found in them; only usual ones are remembered."""
    name = "x" * length
    spans._known_layout.cache_clear()  # a full one does not grow
    remembered = spans._known_layout.cache_info().currsize
    attributes = {f"{name}.0.a": 1, f"{name}.10.b.0.c": 2, f"{name}.x.d": 3}
    assert spans.grouped(attributes, name) == {0: {"a": 1}, 10: {"b.0.c": 2}}
    assert spans.column(attributes, name, "a") == {0: 1, 10: None}
    assert (spans._known_layout.cache_info().currsize > remembered) == (length < 256)
