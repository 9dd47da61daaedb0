"""Work in the host's thread is bounded: what is beyond items, time and bytes is counted; the host has its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import ragtrace
from ragtrace.record.coercion.values import Allowance, cut, within
from ragtrace.types import GenerateRun, PackRun, RerankRun, RetrieveRun

MANY = 100_000


@dataclass
class Rich:
    """A candidate as a framework makes it."""

    id: str
    text: str = "said"
    score: float = 0.5
    metadata: dict[str, Any] = field(default_factory=lambda: {"page": 1, "tags": ["a", "b"]})


class Lazy:
    """A candidate whose text waits for a server."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self.id = "a"
        self._wait = wait

    @property
    def text(self) -> str:
        """Load it."""
        self._wait()
        return "said"


class Endless(Sequence[Any]):
    """A sequence without an end, which is no list."""

    def __len__(self) -> int:
        return 10**30

    def __getitem__(self, place: Any) -> Any:
        return {"id": str(place), "text": "said"}


LONG: dict[str, tuple[Callable[[], Any], int]] = {
    "range": (lambda: range(10**12), 10**12),
    "range past 64 bits": (lambda: range(10**30), 2**31),
    "endless": (Endless, 2**31),
    "rich": (lambda: [Rich(str(place)) for place in range(MANY)], MANY),
    "mappings": (lambda: [{"id": str(place), "text": "said"} for place in range(MANY)], MANY),
    "texts": (lambda: [f"text number {place}" for place in range(MANY)], MANY),
    "tuples": (lambda: [(f"c{place}", "said so", 0.5) for place in range(MANY)], MANY),
    "in an object": (lambda: {"hits": [Rich(str(place)) for place in range(MANY)]}, MANY),
    "in columns": (lambda: {"ids": [str(place) for place in range(MANY)], "documents": ["said"] * MANY}, 51),
}


@pytest.fixture
def left_out(recorded: Any) -> Callable[[], dict[str, int]]:
    """How many items were counted as too many, by place."""

    def count() -> dict[str, int]:
        found = [each for each in recorded.items if getattr(each, "kind", "") == "too_many"]
        return {each.where: each.count for each in found}

    return count


@pytest.mark.parametrize("name", LONG)
def test_a_result_of_any_length_is_read_in_part(
    configure: Any, left_out: Callable[[], dict[str, int]], name: str
) -> None:
    """The host gets it as it is; the beginning is recorded as such, and the rest is counted."""
    recorded = configure(read_items=50, read_seconds=60, raise_errors=False)
    make, count = LONG[name]
    given = make()
    with ragtrace.request(query="q"):
        assert ragtrace.retrieve(lambda query: given)("q") is given
    run = recorded.run(RetrieveRun)
    assert len(run.candidates) == (0 if name.startswith("range") else 50)
    assert run.incomplete
    (fault,) = [each for each in recorded.items if getattr(each, "kind", "") == "too_many"]
    assert fault.where == "coerce.retrieve"
    assert fault.count >= min(count, 2**31) - 50 - 1


def test_no_other_stage_reads_more(configure: Any) -> None:
    """A reranker's chunks beyond the bound are not called dropped; a packing of unknown size is unread."""
    recorded = configure(read_items=50, read_seconds=60, raise_errors=False)
    given = [Rich(str(place)) for place in range(200)]
    with ragtrace.request(query="q") as request:
        ragtrace.retrieve(lambda query: given)("q")
        ragtrace.rerank(lambda hits: given[::-1])(range(10**12))
        ragtrace.pack(lambda hits: given)(given)
        ragtrace.generate(lambda prompt: {"answer": "So.", "citations": list(range(10**6))})("p")
        request.set(attributes={"ids": set(range(10**6)), "by id": dict.fromkeys(range(10**6))})
    rerank = recorded.run(RerankRun)
    assert [move.rank_after for move in rerank.moves] == list(range(1, 51))
    assert recorded.run(PackRun).unread
    assert len(recorded.run(GenerateRun).generation.citations) == 50
    assert len(recorded.record.attributes["by id"]) == 50
    assert {each.where for each in recorded.items if getattr(each, "kind", "") == "too_many"} == {
        "coerce.retrieve", "coerce.rerank", "inputs.rerank", "coerce.pack", "coerce.generate", "inputs.request"
    }  # fmt: skip


def test_time_ends_the_reading(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that waits ends it: the items before it are recorded, the others counted."""
    clock = [0.0]
    monkeypatch.setattr("ragtrace.record.coercion.values.perf_counter", lambda: clock[-1])
    recorded = configure(read_seconds=0.5, raise_errors=False)
    given = [Lazy(lambda: clock.append(clock.pop() + 0.2)) for _ in range(9)]
    assert ragtrace.retrieve(lambda query: given)("q") is given
    run = recorded.run(RetrieveRun)
    assert 0 < len(run.candidates) <= 3
    assert run.incomplete


def test_one_stall_of_a_busy_machine_leaves_nothing_out(configure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread was not run for longer than the whole allowance, once; a second time ends the reading."""
    clock = [0.0]
    monkeypatch.setattr("ragtrace.record.coercion.values.perf_counter", lambda: clock[-1])
    recorded = configure(read_seconds=0.5, raise_errors=False)
    for stalls, kept in (({2}, 9), ({2, 5}, 6)):
        waits = [2.0 if place in stalls else 0.01 for place in range(9)]
        given = [Lazy(lambda wait=wait: clock.append(clock.pop() + wait)) for wait in waits]  # type: ignore[misc]
        ragtrace.retrieve(lambda query, given=given: given)("q")
        run = recorded.records[-1].stages[0]
        assert (len(run.candidates), run.incomplete) == (kept, kept < 9)


def test_bytes_end_it_too(configure: Any) -> None:
    """What one stage found takes a quarter of the memory for requests on their way, and one item at least."""
    recorded = configure(queue_bytes=400_000, raise_errors=False)
    for texts, kept in ((["x" * 30_000] * 10, 3), (["x " * 10**6], 1), (["a text"] * 100, 100)):
        given = [{"id": str(place), "text": text} for place, text in enumerate(texts)]
        ragtrace.retrieve(lambda query, given=given: given)("q")
        run = recorded.records[-1].stages[0]
        assert (len(run.candidates), run.incomplete) == (kept, kept < len(texts))


def test_a_page_of_a_stream_is_bounded_alone(configure: Any) -> None:
    """The stream has a bound of its own; what is missing in one page makes the stage incomplete."""
    recorded = configure(read_items=50, read_seconds=60, raise_errors=False)

    @ragtrace.retrieve
    def search(query: str) -> Iterator[Any]:
        for page in (200, 30):
            yield [Rich(f"{page}-{place}") for place in range(page)]

    assert [len(page) for page in search("q")] == [200, 30]
    run = recorded.run(RetrieveRun)
    assert run.incomplete
    assert len(run.candidates) == 80


def test_the_usual_is_read_whole(recorded: Any) -> None:
    """A thousand candidates are within every bound."""
    given = [Rich(str(place)) for place in range(1_000)]
    assert ragtrace.retrieve(lambda query: given)("q") is given
    run = recorded.run(RetrieveRun)
    assert (len(run.candidates), run.incomplete) == (1_000, False)


def test_without_an_allowance_all_is_read() -> None:
    """In the background nobody waits; and one in another ends with it."""
    given = list(range(100))
    assert within(given) is given
    assert cut(given) is given
    with Allowance(10, 60.0) as outer:
        with Allowance(5, 60.0) as inner:
            assert list(within(iter(given))) == given[:5]
        assert cut(given) == given[:10]
    assert (inner.left_out, outer.left_out) == (1, 90)
    assert within(given) is given
