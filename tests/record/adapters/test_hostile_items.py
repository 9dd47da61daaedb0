"""Items of which one raises when it is looked at: the others are recorded, and the host gets what it gave."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ragtrace
from ragtrace.record.coercion import read_chunks
from ragtrace.types import GenerateRun, PackRun, RetrieveRun

GOOD = {"id": "good", "text": "the text of a chunk", "score": 0.5}


class Lazy:
    """Asks a database that is gone for everything."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} cannot be loaded")


class Detached:
    """The same for one attribute."""

    id = "detached"

    @property
    def text(self) -> str:
        """It cannot be loaded."""
        raise RuntimeError("no session")


class Nameless:
    """It has no text for anybody."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


HOSTILE: dict[str, Callable[[], Any]] = {
    "lazy": Lazy,
    "detached": Detached,
    "too long a number": lambda: {"id": 10**5000, "text": "t"},
    "an id without a text": lambda: {"id": Nameless(), "text": "t"},
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("place", [0, 1])
def test_an_item_that_raises_costs_itself(recorded: Any, make: Callable[[], Any], place: int) -> None:
    """First or last: the others stand at their ranks, and it is counted by its type."""
    given = [GOOD, GOOD | {"id": "also"}]
    given.insert(place * 2, make())

    @ragtrace.retrieve
    def search(query: str) -> list[Any]:
        return given

    assert search("q") is given
    run = recorded.run(RetrieveRun)
    assert [(chunk.chunk_id, chunk.rank) for chunk in run.candidates] == [("good", 2 - place), ("also", 3 - place)]
    assert not run.unread
    assert recorded.faults == [("coerce.retrieve", type(make()).__name__)]


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_streamed_item_that_raises_costs_itself(recorded: Any, make: Callable[[], Any]) -> None:
    """The others pass and are recorded."""

    @ragtrace.retrieve
    def search(query: str) -> Iterator[Any]:
        yield from (GOOD, make())

    assert len(list(search("q"))) == 2
    assert [chunk.chunk_id for chunk in recorded.run(RetrieveRun).candidates] == ["good"]


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_packed_or_dropped_item_that_raises_costs_itself(recorded: Any, make: Callable[[], Any]) -> None:
    """What was packed is there, and so is the prompt."""
    given = {"chunks": [GOOD, make()], "dropped": [make(), ("late", "budget")], "prompt": "Use this."}

    @ragtrace.pack
    def pack(hits: list[Any]) -> dict[str, Any]:
        return given

    assert pack([]) is given
    packing = recorded.run(PackRun).packing
    assert [chunk.chunk_id for chunk in packing.chunks] == ["good"]
    assert [chunk.chunk_id for chunk in packing.dropped] == ["late"]


@pytest.mark.parametrize("value", [Nameless(), 10**5000, {Nameless(): 1}, [Nameless()]], ids=range(4))
def test_a_value_that_cannot_be_shown_costs_itself(value: Any) -> None:
    """In metadata its type stands in its place."""
    ((_, chunk),) = read_chunks([GOOD | {"metadata": {"kind": "law", "odd": value}}]).ranked
    assert chunk.metadata["kind"] == "law"
    assert "(" in str(chunk.metadata["odd"])


def test_bytes_in_metadata_are_cut_before_they_are_shown() -> None:
    """An image beside a text takes no four-fold copy of itself."""
    given = [GOOD | {"metadata": {"image": bytes(10**6)}}]
    tracemalloc.start()
    ((_, chunk),) = read_chunks(given).ranked
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(chunk.metadata["image"]) == 2000
    assert most < 10**6


@pytest.mark.parametrize("citation", [None, object(), Lazy()], ids=["nothing", "object", "lazy"])
def test_a_citation_that_says_nothing_costs_itself(recorded: Any, citation: Any) -> None:
    """The answer and the other citations are there."""

    @ragtrace.generate
    def write(prompt: str) -> dict[str, Any]:
        return {"answer": "So.", "citations": ["good", citation]}

    write("p")
    generation = recorded.run(GenerateRun).generation
    assert generation.answer == "So."
    assert [cited.chunk_id for cited in generation.citations] == ["good", None]
