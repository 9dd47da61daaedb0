"""Thread pools: what a request hands to them stays in it, and everything else is as it was."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import attach, detach, get_current, set_value

import ragtrace
from ragtrace.record import _carriers as carriers
from ragtrace.types import RerankRun, RetrieveRun

GIVEN = ThreadPoolExecutor.submit


@pytest.fixture(autouse=True)
def following() -> Iterator[None]:
    """Pools are followed, as after configure()."""
    carriers.follow_thread_pools()
    yield
    carriers.unfollow_thread_pools()
    assert ThreadPoolExecutor.submit is GIVEN


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """A pool of four threads."""
    with ThreadPoolExecutor(4) as made:
        yield made


@ragtrace.retrieve
def search(source: str) -> list[dict[str, Any]]:
    """A retriever."""
    return [{"id": f"{source}{place}", "text": f"text {place} of {source}"} for place in range(3)]


@ragtrace.rerank
def reorder(query: str) -> list[str]:
    """A reranker that says nothing of its input."""
    return ["a0"]


def names(recorded: Any) -> list[list[str]]:
    """The stages of each record, sorted."""
    return [sorted(run.name for run in record.stages) for record in recorded.records]


@pytest.mark.parametrize("how", ["submit", "map", "run_in_executor", "default executor"])
def test_work_in_a_pool_stays_in_the_request(recorded: Any, pool: ThreadPoolExecutor, how: str) -> None:
    """Every way to hand work to a pool: one record, one trace, the results in order."""

    async def run_all(executor: ThreadPoolExecutor | None) -> list[Any]:
        loop = asyncio.get_running_loop()
        return list(await asyncio.gather(*(loop.run_in_executor(executor, search, source) for source in "abc")))

    with ragtrace.request(query="q"):
        if how == "submit":
            found = [future.result() for future in [pool.submit(search, source) for source in "abc"]]
        elif how == "map":
            found = list(pool.map(search, "abc"))
        else:
            found = asyncio.run(run_all(pool if how == "run_in_executor" else None))
    assert [hits[0]["id"] for hits in found] == ["a0", "b0", "c0"]
    assert names(recorded) == [["search"] * 3]
    assert len(recorded.record.candidates) == 9
    assert len({span.context.trace_id for span in recorded.exporter.get_finished_spans()}) == 1


def test_retrievers_in_a_pool_are_one_input_of_the_reranker(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """Whichever of them ended first, all of their chunks were there to be reranked."""
    for _ in range(50):
        with ragtrace.request(query="q"):
            list(pool.map(search, "abcd"))
            reorder("q")
    for record in recorded.records:
        (run,) = [run for run in record.stages if isinstance(run, RerankRun)]
        assert len(run.moves) == 12
        assert sorted(move.rank_before or 0 for move in run.moves) == list(range(1, 13))


def test_retrievers_that_return_at_the_same_time_are_one_input(recorded: Any) -> None:
    """Both have returned before either has ended, as threads may do at any moment."""
    with ragtrace.request(query="q"):
        with ragtrace.retrieve(query="a") as first, ragtrace.retrieve(query="b") as second:
            first.candidates(["a0", "a1"])
            second.candidates(["b0"])
        reorder("q")
        ragtrace.pack(lambda hits: hits)(["a0"])
        with ragtrace.retrieve(query="c") as third, ragtrace.retrieve(query="d") as fourth:
            third.candidates(["c0"])
            fourth.candidates(["d0"])
        reorder("q")
    before, after = [run for run in recorded.record.stages if isinstance(run, RerankRun)]
    assert {move.chunk_id for move in before.moves if move.rank_before} == {"a0", "a1", "b0"}
    assert {move.chunk_id for move in after.moves if move.rank_before} == {"c0", "d0"}


def test_items_are_recognized_while_other_threads_retrieve(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """Items without id or text are known by who returned them, whatever else ends in between."""

    @ragtrace.retrieve
    def find(source: str) -> list[dict[str, Any]]:
        return [{"id": f"{source}-{place}"} for place in range(4)]

    @ragtrace.rerank
    def turn(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return hits[::-1]

    def work(source: str) -> None:
        turn(find(source)[1:])

    with ragtrace.request(query="q"):
        list(pool.map(work, [f"s{number}" for number in range(100)]))
    runs = [run for run in recorded.record.stages if isinstance(run, RerankRun)]
    assert len(runs) == 100
    for run in runs:
        source = run.moves[0].chunk_id.partition("-")[0]
        assert [(move.chunk_id, move.rank_before) for move in run.moves] == [
            (f"{source}-{place}", place) for place in (3, 2, 1)
        ]


def test_many_requests_share_a_pool(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """Threads that serve one request after the other never mix them up."""

    def ask(number: int) -> list[str]:
        with ragtrace.request(query=f"q{number}"):
            return [found[0]["id"] for found in pool.map(search, [f"{number}x", f"{number}y"])]

    outer = [threading.Thread(target=lambda start: [ask(start + step) for step in range(25)], args=(start,))
             for start in range(0, 200, 25)]  # fmt: skip
    for thread in outer:
        thread.start()
    for thread in outer:
        thread.join()
    assert len(recorded.records) == 200
    for record in recorded.records:
        number = record.query.original.removeprefix("q")
        runs = [run for run in record.stages if isinstance(run, RetrieveRun)]
        assert sorted(run.query or "" for run in runs) == [f"{number}x", f"{number}y"]
        assert [run.ended_at for run in runs] == sorted(run.ended_at for run in runs)


def test_a_pool_inside_a_pool(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """A batch that starts batches, as frameworks do, is still one record."""

    def batch(sources: str) -> list[Any]:
        with ThreadPoolExecutor(2) as inner:
            return list(inner.map(search, sources))

    with ragtrace.request(query="q"):
        list(pool.map(batch, ["ab", "cd"]))
    assert names(recorded) == [["search"] * 4]


def test_outside_of_a_request_nothing_is_added(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """The work finds the context that it found before: none."""
    key = "host"
    token = attach(set_value(key, 1))
    assert pool.submit(get_current).result() == {}
    detach(token)
    with ragtrace.request(query="q"):
        assert pool.submit(get_current).result() != {}
    assert [pool.submit(get_current).result() for _ in range(8)] == [{}] * 8


def test_context_variables_of_the_host_are_not_touched(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """A thread of a pool keeps its own; ragtrace carries its request and the current span, nothing else."""
    theirs = contextvars.ContextVar("theirs", default="unset")
    with ragtrace.request(query="q"):
        theirs.set("of the submitting thread")
        assert pool.submit(theirs.get).result() == "unset"
        pool.submit(theirs.set, "of the worker").result()
    with ThreadPoolExecutor(1) as single:
        single.submit(theirs.set, "kept").result()
        with ragtrace.request(query="q"):
            assert single.submit(theirs.get).result() == "kept"
        assert single.submit(theirs.get).result() == "kept"


def test_submit_is_what_it_was(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """Signature, arguments, future and exception; an exception keeps its identity and its traceback's end."""
    assert inspect.signature(ThreadPoolExecutor.submit) == inspect.signature(GIVEN)
    assert ThreadPoolExecutor.submit.__qualname__ == GIVEN.__qualname__
    error = ValueError("theirs")

    def fail() -> None:
        raise error

    def echo(*args: object, **kwargs: object) -> object:
        return args, kwargs

    with ragtrace.request(query="q"):
        future = pool.submit(echo, 1, fn=2, self=3, context=4)
        assert type(future) is Future
        assert future.result() == ((1,), {"fn": 2, "self": 3, "context": 4})
        assert pool.submit(fail).exception() is error
        with pytest.raises(TypeError):
            pool.submit()  # type: ignore[call-arg]
        assert pool.submit(int, "x").exception().args  # type: ignore[union-attr]


def test_a_pool_that_is_shut_down_refuses_as_before(recorded: Any) -> None:
    """Its own exception reaches the host."""
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with ragtrace.request(query="q"), pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(search, "a")


def test_a_subclass_with_a_submit_of_its_own(recorded: Any) -> None:
    """Frameworks subclass the pool and copy the context: the work still runs once, in one record."""

    class Copying(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            return super().submit(functools.partial(contextvars.copy_context().run, fn, *args, **kwargs))

    with Copying(2) as pool, ragtrace.request(query="q"):
        list(pool.map(search, "ab"))
    assert names(recorded) == [["search"] * 2]


def test_following_twice_wraps_once_and_is_undone() -> None:
    """configure() may run any number of times."""
    ours = ThreadPoolExecutor.submit
    carriers.follow_thread_pools()
    assert ThreadPoolExecutor.submit is ours
    carriers.unfollow_thread_pools()
    assert ThreadPoolExecutor.submit is GIVEN
    carriers.unfollow_thread_pools()
    assert ThreadPoolExecutor.submit is GIVEN
    carriers.follow_thread_pools()
    assert ThreadPoolExecutor.submit is not GIVEN


def test_another_wrapper_around_ours_stays(
    recorded: Any, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undone below somebody else's wrapper it does nothing, and used again it is not put there twice."""
    below: Any = ThreadPoolExecutor.submit
    calls: list[int] = []

    @functools.wraps(below)
    def theirs(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        calls.append(1)
        future: Future[Any] = below(self, fn, *args, **kwargs)
        return future

    with monkeypatch.context() as patched:
        patched.setattr(ThreadPoolExecutor, "submit", theirs)
        carriers.unfollow_thread_pools()
        assert ThreadPoolExecutor.submit is theirs
        with ragtrace.request(query="q"):
            pool.submit(search, "a").result()
        assert names(recorded) == [["search"], []]
        carriers.follow_thread_pools()
        assert ThreadPoolExecutor.submit is theirs
        with ragtrace.request(query="q"):
            pool.submit(search, "a").result()
        assert names(recorded)[2:] == [["search"]]
    assert len(calls) == 2


def test_together_with_opentelemetrys_own_instrumentation(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """A wrapper that also attaches the context, as opentelemetry-instrumentation-threading does: the same record."""
    below: Any = ThreadPoolExecutor.submit

    def attaching(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        context = get_current()

        def within(*args: Any, **kwargs: Any) -> Any:
            token = attach(context)
            try:
                return fn(*args, **kwargs)
            finally:
                detach(token)

        future: Future[Any] = below(self, within, *args, **kwargs)
        return future

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ThreadPoolExecutor, "submit", attaching)
        with ragtrace.request(query="q"):
            list(pool.map(search, "ab"))
    assert names(recorded) == [["search"] * 2]
    assert pool.submit(get_current).result() == {}


def test_without_following_a_stage_in_a_pool_is_on_its_own(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """What follow_threads=False means."""
    carriers.unfollow_thread_pools()
    with ragtrace.request(query="q"):
        pool.submit(search, "a").result()
    assert names(recorded) == [["search"], []]


def test_a_stage_that_ends_after_its_request_is_added_to_it(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """A future that timed out: the host's request goes on, and what the retriever found still reaches the record."""
    let_go, began = threading.Event(), threading.Event()

    @ragtrace.retrieve
    def slow(source: str) -> list[dict[str, str]]:
        began.set()
        let_go.wait(30)
        return [{"id": source, "text": "late"}]

    futures = []

    def ask() -> None:
        with ragtrace.request(query="q"):
            futures.append(pool.submit(slow, "a"))
            assert began.wait(30)
            futures[0].result(timeout=0)

    with pytest.raises(TimeoutError):
        ask()
    let_go.set()
    (future,) = futures
    assert future.result(30) == [{"id": "a", "text": "late"}]
    record, (addendum,) = recorded.record, recorded.addenda
    assert record.flags == ("error",)
    assert addendum.request_id == record.request_id
    assert [candidate.chunk_id for candidate in record.extended(addendum).candidates] == ["a"]
    assert recorded.faults == []
    assert all(span.end_time for span in recorded.exporter.get_finished_spans())


def test_a_late_stage_of_a_request_that_is_not_kept_leaves_nothing(configure: Any, pool: ThreadPoolExecutor) -> None:
    """Neither record nor addendum; its span ends all the same."""
    recorded = configure(sample_rate=0.0, sample_floor=0)
    let_go, began = threading.Event(), threading.Event()

    @ragtrace.retrieve(name="slow")
    def slow(source: str) -> list[str]:
        began.set()
        let_go.wait(30)
        return []

    with ragtrace.request(query="q"):
        future = pool.submit(slow, "a")
        assert began.wait(30)
    let_go.set()
    future.result(30)
    assert recorded.items == []
    assert "retrieval slow" in recorded.spans


def test_a_sink_that_fails_does_not_reach_a_late_stage(
    configure: Any, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of the host returns what it returns."""
    recorded = configure(raise_errors=False)
    let_go, began = threading.Event(), threading.Event()

    @ragtrace.retrieve
    def slow(source: str) -> list[str]:
        began.set()
        let_go.wait(30)
        return [source]

    with ragtrace.request(query="q"):
        future = pool.submit(slow, "a")
        assert began.wait(30)

    def refuse(item: object, durable: bool = False) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(recorded, "submit", refuse)
    let_go.set()
    assert future.result(30) == ["a"]


def test_work_that_begins_after_its_request_is_a_request_of_its_own(recorded: Any) -> None:
    """It waited in the pool for too long to be a part; it stays in the trace."""
    block = threading.Event()
    with ThreadPoolExecutor(1) as single:
        single.submit(block.wait, 30)
        with ragtrace.request(query="q", name="ask"):
            future = single.submit(search, "a")
        block.set()
        future.result(30)
    assert names(recorded) == [[], ["search"]]
    assert len({record.trace_id for record in recorded.records}) == 1


def test_two_threads_that_ask_for_the_id_get_the_same(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """Whoever asks first, there is one id."""
    for _ in range(100):
        with ragtrace.request(query="q"):
            barrier = threading.Barrier(4)

            def told(barrier: threading.Barrier = barrier) -> str:
                barrier.wait(30)
                return ragtrace.current_request().request_id

            ids = {future.result() for future in [pool.submit(told) for _ in range(4)]}
        assert ids == {recorded.records[-1].request_id}


def test_no_span_stays_current_in_the_pool(recorded: Any, pool: ThreadPoolExecutor) -> None:
    """After a request, its threads are as clean as before."""
    with ragtrace.request(query="q"):
        list(pool.map(search, "abcdefgh"))
    assert {pool.submit(trace.get_current_span).result() for _ in range(16)} == {trace.INVALID_SPAN}
