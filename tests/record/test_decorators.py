"""Decorated callables: what is recorded, and that the host notices nothing."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import ragtrace
from ragtrace.errors import ConfigurationError
from ragtrace.record import install
from ragtrace.types import GenerateRun, PackRun, RankMove, RerankRun, RetrieveRun

HITS = [{"id": f"c{number}", "text": f"the text of chunk {number}", "score": 1 - number / 10} for number in range(5)]


@ragtrace.retrieve
def search(query: str, top_k: int = 5) -> list[dict[str, Any]]:
    """A retriever."""
    return HITS[:top_k]


@ragtrace.rerank
def reorder(query: str, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A reranker that keeps three."""
    return hits[::-1][:3]


@ragtrace.pack(budget="limit")
def build(hits: list[dict[str, Any]], limit: int = 100) -> str:
    """A packer that returns just a prompt."""
    return "Use:\n" + "\n".join(hit["text"] for hit in hits[:2])


@ragtrace.generate(model="gpt-4o")
def complete(prompt: str) -> dict[str, Any]:
    """A generator."""
    return {"answer": "So it is [c4].", "usage": {"prompt_tokens": 7, "completion_tokens": 3}, "citations": ["c4"]}


@ragtrace.request(query_class="kind")
def answer(question: str, kind: str = "dates") -> str:
    """The pipeline."""
    prompt = build(reorder(question, search(question + " 2024")))
    return str(complete(prompt)["answer"])


@pytest.mark.parametrize(
    ("call", "query", "top_k"),
    [
        (lambda one, two: one("when?"), "when?", None),
        (lambda one, two: one(query="when?"), "when?", None),
        (lambda one, two: one(), "which?", None),
        (lambda one, two: two("when?", 3), "when?", 3),
        (lambda one, two: two("when?", top_k=3), "when?", 3),
        (lambda one, two: two(top_k=3, query="when?"), "when?", 3),
        (lambda one, two: two("when?"), "when?", 5),
    ],
)
def test_an_argument_is_taken_wherever_it_stands(
    recorded: Any, call: Callable[..., Any], query: str, top_k: int | None
) -> None:
    """By its place, by its name, or its default, of functions with one input and with several."""

    @ragtrace.retrieve
    def one(query: str = "which?") -> list[str]:
        return ["c1"]

    @ragtrace.retrieve
    def two(query: str, top_k: int = 5) -> list[str]:
        return ["c1"]

    with ragtrace.request():
        call(one, two)
    [run] = recorded.record.stages
    assert (run.query, run.top_k) == (query, top_k)


def test_a_function_with_one_input_raises_its_own_error(recorded: Any) -> None:
    """What it is not given, it misses itself; nothing of ours shows."""

    @ragtrace.retrieve
    def one(query: str) -> list[str]:
        return ["c1"]

    with ragtrace.request(), pytest.raises(TypeError, match="missing 1 required positional argument: 'query'"):
        one()  # type: ignore[call-arg]
    assert not recorded.faults


def test_a_decorated_pipeline_leaves_one_record(recorded: Any) -> None:
    """Five decorators, one record: query, rewrite, candidates, moves, packing and answer."""
    assert answer("when?") == "So it is [c4]."
    record = recorded.record
    assert (record.query.original, record.query.rewritten, record.query.query_class) == ("when?", "when? 2024", "dates")
    assert (record.segment, record.status, record.versions) == ("dates", "ok", {"model": "gpt-4o"})
    assert [(hit.chunk_id, hit.rank, hit.score) for hit in record.candidates][:2] == [("c0", 1, 1.0), ("c1", 2, 0.9)]
    assert record.moves == (
        RankMove(chunk_id="c4", rank_before=5, rank_after=1, score=0.6),
        RankMove(chunk_id="c3", rank_before=4, rank_after=2, score=0.7),
        RankMove(chunk_id="c2", rank_before=3, rank_after=3, score=0.8),
        RankMove(chunk_id="c0", rank_before=1),
        RankMove(chunk_id="c1", rank_before=2),
    )
    packing = recorded.run(PackRun).packing
    assert [chunk.chunk_id for chunk in packing.chunks] == ["c4", "c3"]
    assert [(chunk.chunk_id, chunk.reason) for chunk in packing.dropped] == [("c2", "budget")]
    assert packing.budget_tokens == 100
    generation = recorded.run(GenerateRun).generation
    assert generation.answer == "So it is [c4]."
    assert generation.prompt_template.startswith("Use:")
    assert (generation.usage.input_tokens, generation.usage.output_tokens) == (7, 3)


def test_times_are_those_of_the_stages(recorded: Any) -> None:
    """Each stage lies within its request, and no stage ends before it starts."""
    answer("when?")
    record = recorded.record
    assert all(record.started_at <= run.started_at <= run.ended_at <= record.ended_at for run in record.stages)


def test_without_configure_nothing_happens() -> None:
    """An application that never calls configure() runs as if nothing were decorated."""
    install(None)
    assert answer("when?") == "So it is [c4]."
    assert ragtrace.current_request().request_id == ""


def test_a_decorated_function_keeps_its_identity() -> None:
    """Name, docstring, signature and kind of function survive, so that frameworks see what they saw."""
    assert search.__name__ == "search"
    assert search.__doc__ == "A retriever."
    assert list(inspect.signature(search).parameters) == ["query", "top_k"]

    @ragtrace.generate
    async def later() -> str:
        return ""

    assert inspect.iscoroutinefunction(later)


def test_the_value_passes_through_unchanged(recorded: Any) -> None:
    """The host gets the very object that its function returned."""
    value = [object()]
    assert ragtrace.retrieve(lambda query: value)("q") is value


def test_an_exception_passes_through_unchanged(recorded: Any) -> None:
    """The same exception object arrives, with one frame of ours per decorator, and the request is kept as failed."""
    error = ValueError("no index")

    @ragtrace.retrieve
    def broken(query: str) -> None:
        raise error

    @ragtrace.request
    def ask(question: str) -> None:
        broken(question)

    with pytest.raises(ValueError, match="no index") as caught:
        ask("q")
    assert caught.value is error
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames[1:] == ["recorded", "ask", "recorded", "broken"]
    assert error.__context__ is None
    assert error.__cause__ is None
    record = recorded.record
    assert (record.status, record.flags) == ("error", ("error",))
    assert (record.error.type, record.error.message, record.error.stage) == ("ValueError", "no index", "retrieve")
    assert recorded.run(RetrieveRun).error.type == "ValueError"
    assert recorded.durable == [record]


def test_an_exception_that_the_host_handles_fails_the_stage_only(recorded: Any) -> None:
    """A fallback retriever is a healthy request with one failed run."""

    @ragtrace.retrieve
    def broken(query: str) -> None:
        raise KeyError("x")

    @ragtrace.request
    def ask(question: str) -> None:
        try:
            broken(question)
        except KeyError:
            search(question)

    ask("q")
    first, second = recorded.record.stages
    assert (recorded.record.status, first.error.type, second.error) == ("ok", "KeyError", None)


def test_a_stage_without_a_request_opens_one(recorded: Any) -> None:
    """A single decorated retriever is enough for a record."""
    search("alone")
    record = recorded.record
    assert record.query.original == "alone"
    assert len(record.candidates) == 5
    assert set(recorded.spans) == {"request search", "retrieval search"}


def test_async_stages_share_the_request_of_their_task(recorded: Any) -> None:
    """Two tasks at once make two records, each with its own stages."""

    @ragtrace.retrieve
    async def fetch(query: str) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return [{"id": query, "text": "a text about " + query}]

    @ragtrace.request
    async def ask(question: str) -> None:
        await asyncio.gather(fetch(question + "1"), fetch(question + "2"))

    async def both() -> None:
        await asyncio.gather(ask("a"), ask("b"))

    asyncio.run(both())
    found = {record.query.original: [chunk.chunk_id for chunk in record.candidates] for record in recorded.records}
    assert {query: sorted(ids) for query, ids in found.items()} == {"a": ["a1", "a2"], "b": ["b1", "b2"]}


def test_an_async_exception_passes_through(recorded: Any) -> None:
    """An exception of a coroutine arrives unchanged and is recorded; so is a cancellation."""

    @ragtrace.request
    async def ask(question: str) -> None:
        raise asyncio.CancelledError

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await ask("q")

    asyncio.run(run())
    assert recorded.record.error.type == "asyncio.exceptions.CancelledError"


class Retriever:
    """A class-based retriever."""

    @ragtrace.retrieve
    def search(self, query: str) -> list[str]:
        """A method."""
        return [query + " in a text"]

    @classmethod
    @ragtrace.retrieve
    def inner_class_method(cls, query: str) -> list[str]:
        """Decorated below @classmethod."""
        return [query + " in a text"]

    @ragtrace.retrieve
    @classmethod
    def outer_class_method(cls, query: str) -> list[str]:
        """Decorated above @classmethod."""
        return [query + " in a text"]

    @ragtrace.retrieve
    @staticmethod
    def static(text: str) -> list[str]:
        """Decorated above @staticmethod."""
        return [text + " in a text"]

    def __call__(self, query: str) -> list[str]:
        """A callable object."""
        return [query + " in a text"]


CALLABLES: list[Callable[[str], list[str]]] = [
    Retriever().search,
    Retriever.inner_class_method,
    Retriever().outer_class_method,
    Retriever.static,
    ragtrace.retrieve(Retriever()),
    ragtrace.retrieve(functools.partial(Retriever.__call__, Retriever())),
]


@pytest.mark.parametrize("function", CALLABLES)
def test_methods_and_callables(recorded: Any, function: Callable[[str], list[str]]) -> None:
    """Methods, class methods and static methods in either order, callable objects and partials are all decorated."""
    assert function("q") == ["q in a text"]
    assert recorded.run(RetrieveRun).query == "q"
    assert recorded.run(RetrieveRun).candidates[0].text == "q in a text"


def test_the_argument_map(recorded: Any) -> None:
    """Dotted paths, functions of the arguments, plain values, and a path into the result."""

    @ragtrace.request(
        query="payload.question.text",
        segment="payload.tags.0",
        tenant_id=lambda payload: payload["tenant"],
        session_id="s-1",
        facets=[{"kind": "time", "value": 2024}],
        flag=lambda payload: "vip" if payload["vip"] else None,
        versions={"app": "7"},
    )
    def ask(payload: dict[str, Any]) -> None:
        fetch(payload, 3)

    @ragtrace.retrieve(query="payload.question.text", top_k="depth", source="wiki", returns="found.hits")
    def fetch(payload: dict[str, Any], depth: int) -> Any:
        return SimpleNamespace(found={"hits": HITS})

    ask({"question": SimpleNamespace(text="when?"), "tags": ["motor"], "tenant": 7, "vip": True})
    record = recorded.record
    assert (record.query.original, record.segment, record.tenant_id, record.session_id) == (
        "when?",
        "motor",
        "7",
        "s-1",
    )
    assert [(facet.kind, facet.value, facet.source) for facet in record.query.facets] == [("time", "2024", "host")]
    assert (record.flags, record.versions) == (("vip",), {"app": "7"})
    run = recorded.run(RetrieveRun)
    assert (run.query, run.top_k, len(run.candidates)) == ("when?", 3, 5)
    assert {chunk.source for chunk in run.candidates} == {"wiki"}


def test_a_wrong_argument_map_is_refused_at_once() -> None:
    """A parameter that the function does not have is an error when the function is decorated, not per request."""
    with pytest.raises(ConfigurationError, match="has no parameter 'question'; give one of query"):

        @ragtrace.retrieve(query="question.text")
        def fetch(query: str) -> None:
            """Never called."""


@pytest.mark.parametrize("thing", [Retriever, 5])
def test_what_cannot_be_decorated_is_refused(thing: Any) -> None:
    """A class or a value is no function."""
    with pytest.raises(ConfigurationError, match="cannot decorate"):
        ragtrace.retrieve()(thing)


def test_an_unknown_argument_is_a_type_error() -> None:
    """The arguments are in the signature."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'qurey'"):
        ragtrace.retrieve(qurey="x")  # type: ignore[call-overload]


def test_an_argument_that_cannot_be_found_is_counted(configure: Any) -> None:
    """A payload without the mapped part costs that part only, and the host nothing."""
    recorded = configure(raise_errors=False)

    @ragtrace.retrieve(query="payload.question")
    def fetch(payload: dict[str, str]) -> list[dict[str, Any]]:
        return HITS

    assert fetch({}) is HITS
    assert recorded.faults == [("arguments.retrieve", "KeyError")]
    assert len(recorded.run(RetrieveRun).candidates) == 5


@pytest.mark.parametrize(
    ("stage", "value", "kind"),
    [
        (ragtrace.retrieve, 5, "int"),
        (ragtrace.retrieve, None, "NoneType"),
        (ragtrace.retrieve, [object()], "object"),
        (ragtrace.rerank, {"no": "list"}, "dict"),
        (ragtrace.pack, 3.5, "float"),
        (ragtrace.generate, object(), "object"),
        (ragtrace.generate, map(str, "ab"), "map"),
    ],
)
def test_a_value_that_cannot_be_read_is_counted(recorded: Any, stage: Any, value: Any, kind: str) -> None:
    """The host's value is untouched; the miss is a fault of that stage with the value's type."""
    decorated = stage(lambda query: value)
    assert decorated("q") is value
    assert recorded.faults == [(f"coerce.{stage.__name__}", kind)]
    assert recorded.record.status == "ok"
    assert [run.unread for run in recorded.record.stages] == [True]


@pytest.mark.parametrize(
    ("stage", "remedy"),
    [
        (ragtrace.retrieve, "return a list of texts, dicts"),
        (ragtrace.pack, "return the prompt as a text"),
        (ragtrace.generate, "return the answer as a text"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_remedy(
    recorded: Any, stage: Any, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A stub that returns nothing: the log says what to return."""
    with caplog.at_level("WARNING", logger="ragtrace"):
        stage(lambda query: None)("q")
    assert recorded.faults
    assert f"None cannot be read; {remedy}" in caplog.text
    assert "say where it is by returns=" in caplog.text


def test_a_generator_value_is_not_consumed(recorded: Any) -> None:
    """A function that returns an iterator hands it to the host whole."""
    stream = (number for number in range(3))
    assert list(ragtrace.retrieve(lambda query: stream)("q")) == [0, 1, 2]


def test_later_changes_by_the_host_do_not_change_the_record(recorded: Any) -> None:
    """What is recorded is what the stage returned at that moment."""
    hits = [{"id": "a", "text": "first text", "score": 0.5, "metadata": {"tags": ["x"], "year": 2024}}]
    ragtrace.retrieve(lambda query: hits)("q")
    hits[0]["metadata"]["tags"].append("y")  # type: ignore[index]
    hits[0].update(id="b", text="changed", score=0.0)
    hits.clear()
    (candidate,) = recorded.run(RetrieveRun).candidates
    assert (candidate.chunk_id, candidate.text, candidate.score) == ("a", "first text", 0.5)
    assert candidate.metadata == {"tags": ["x"], "year": 2024}


def test_the_last_retrievers_are_the_rerankers_input_when_none_is_given(recorded: Any) -> None:
    """Several retrievers merged count as one input, in their order."""

    @ragtrace.rerank
    def reorder_all() -> list[str]:
        return ["b", "a"]

    @ragtrace.request
    def ask(question: str) -> None:
        ragtrace.retrieve(lambda query: ["a", "x"])(question)
        ragtrace.retrieve(lambda query: ["b", "a"])(question)
        reorder_all()

    ask("q")
    assert [(move.chunk_id, move.rank_before, move.rank_after) for move in recorded.record.moves] == [
        ("b", 3, 1),
        ("a", 1, 2),
        ("x", 2, None),
    ]


def test_a_reranker_may_return_positions(recorded: Any) -> None:
    """CrossEncoder.rank and hosted rerankers give positions among their inputs."""

    @ragtrace.request
    def ask(question: str) -> None:
        hits = search(question)
        ragtrace.rerank(lambda hits: [{"corpus_id": 2, "score": 0.9}, {"index": 0, "relevance_score": 0.4}])(hits)

    ask("q")
    assert recorded.run(RerankRun).moves[:2] == (
        RankMove(chunk_id="c2", rank_before=3, rank_after=1, score=0.9),
        RankMove(chunk_id="c0", rank_before=1, rank_after=2, score=0.4),
    )


@pytest.mark.parametrize(
    ("cites", "payload", "said"),
    [
        (False, {}, False),
        (True, {}, True),
        (None, {}, None),
        ("payload.cites", {"cites": True}, True),
        ("payload.cites", {"cites": None}, None),
        (lambda payload: payload.get("form") == "report", {"form": "chat"}, False),
    ],
)
def test_whether_an_answer_is_meant_to_cite(recorded: Any, cites: Any, payload: dict[str, Any], said: Any) -> None:
    """For all calls of a function, or by what it is called with."""

    @ragtrace.request(query=lambda payload: "q", cites=cites)
    def ask(payload: dict[str, Any]) -> None:
        """Answer."""

    ask(payload)
    assert recorded.record.cites is said


def test_a_request_inside_a_request_joins_it(recorded: Any) -> None:
    """One record, the outer query, and what the inner one adds."""

    @ragtrace.request(flag="deep")
    def inner(question: str) -> None:
        search(question)

    @ragtrace.request
    def outer(question: str) -> None:
        inner("part of " + question)

    outer("q")
    assert (recorded.record.query.original, recorded.record.flags) == ("q", ("deep",))
    assert set(recorded.spans) == {"request outer", "request inner", "retrieval search"}


def test_a_fault_of_ours_never_reaches_the_host(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When recording itself breaks, the host's function still runs once and its value arrives."""
    recorded = configure(raise_errors=False)

    def explode(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("ragtrace.record._verbs.RetrieveInstrument.recording", explode)
    assert search("q") == HITS
    assert recorded.faults == [("record.retrieve", "RuntimeError")]


def test_a_failing_sink_never_reaches_the_host(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that raises is our problem only."""
    recorded = configure(raise_errors=False)

    def refuse(item: object, durable: bool = False) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(recorded, "submit", refuse)
    assert search("q") == HITS


@pytest.mark.parametrize("request_id", ["", None, lambda question: ""])
def test_a_request_without_an_id_of_its_own_draws_one(recorded: Any, request_id: Any) -> None:
    """An absent header is an empty text; two requests of no id are not the same one."""
    ask: Any = ragtrace.request(request_id=request_id)(lambda question: search(question))
    ask("one")
    ask("two")
    first, second = (record.request_id for record in recorded.records)
    assert first
    assert first != second


def test_a_version_that_nobody_knows_is_none(recorded: Any) -> None:
    """`os.environ.get` of what is not set names no version."""
    versions: Any = {"index": os.environ.get("RAGTRACE_NO_SUCH_INDEX"), "model": "m"}
    with ragtrace.request(query="q", versions=versions):
        pass
    assert recorded.record.versions == {"model": "m"}
