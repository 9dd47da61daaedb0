"""A recorder that keeps what it submits, for small real applications of each framework, which no decorator touches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ragtrace.config import load
from ragtrace.record import ContentPolicy, Draft, Recorder, install
from ragtrace.types import (
    Fault,
    GenerateRun,
    Generation,
    Item,
    Packing,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    to_builtins,
)


class Records:
    """A sink that keeps the finished records."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.policy = ContentPolicy(load())
        self.arrived = threading.Event()

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Keep it as the store would."""
        if not isinstance(item, Item):
            built = item.build()
            if built is None:
                return
            item = built
        self.items.append(self.policy.finish(item))
        self.arrived.set()

    def flag(self, request_id: str, flags: tuple[str, ...]) -> None:
        """Nothing is flagged after its end here."""
        raise AssertionError(request_id)

    def flush(self, timeout: float) -> bool:
        """Nothing waits."""
        return True

    def end_spans(self, timeout: float) -> bool:
        """Nothing waits."""
        return True

    def close(self, timeout: float) -> bool:
        """Nothing waits."""
        return True

    @property
    def faults(self) -> list[str]:
        """What went wrong, or could not be read."""
        return [f"{item.where}: {item.kind} {item.message}" for item in self.items if isinstance(item, Fault)]

    @property
    def all(self) -> list[RequestRecord]:
        """The records so far; no fault may have come with them."""
        assert self.faults == []
        return [item for item in self.items if isinstance(item, RequestRecord)]

    @property
    def one(self) -> RequestRecord:
        """The only record."""
        (record,) = self.all
        return record

    def stages(self) -> list[str]:
        """The stages of the only record, in the order of their ends."""
        return [str(to_builtins(run)["stage"]) for run in self.one.stages]

    def retrieved(self) -> list[tuple[str, float | None]]:
        """Ids and scores of all candidates of the only record, retrieval by retrieval."""
        runs = [run for run in self.one.stages if isinstance(run, RetrieveRun)]
        return [(each.chunk_id, each.score) for run in runs for each in run.candidates]

    def moves(self) -> list[tuple[str, int | None, int | None]]:
        """Id, rank before and rank after, of the last reranking."""
        run = [run for run in self.one.stages if isinstance(run, RerankRun)][-1]
        return [(move.chunk_id, move.rank_before, move.rank_after) for move in run.moves]

    def packed(self) -> list[str]:
        """Ids of what stood in the last prompt."""
        packing = self.one.packing
        return [] if packing is None else [chunk.chunk_id for chunk in packing.chunks]

    def packing(self) -> Packing:
        """The last packing."""
        packing = self.one.packing
        assert packing is not None
        return packing

    def check_path(self, question: str, texts: Mapping[str, str], metadata: Callable[[str], Mapping[str, Any]]) -> None:
        """The path of an application that reranks `whole`, `cut` and `dropped`, of these `texts` by id, to the top."""
        assert (self.one.query.original, self.stages()) == (question, ["retrieve", "rerank", "pack", "generate"])
        before = [chunk_id for chunk_id, _ in self.retrieved()]
        assert sorted(before) == sorted(texts)
        for candidate in self.one.candidates:
            assert candidate.text == texts[candidate.chunk_id]
            assert isinstance(candidate.score, float)
            assert {**candidate.metadata, **metadata(candidate.chunk_id)} == candidate.metadata
        order = ("whole", "cut", "dropped")
        lost = [(name, rank, None) for rank, name in enumerate(before, 1) if name not in order]
        assert self.moves() == [(name, before.index(name) + 1, rank) for rank, name in enumerate(order, 1)] + lost
        self.check_packing()

    def check_packing(self) -> None:
        """One chunk is whole, one is cut, one is dropped."""
        packing = self.packing()
        assert [(each.chunk_id, each.truncated) for each in packing.chunks] == [("whole", False), ("cut", True)]
        assert [each.chunk_id for each in packing.dropped] == ["dropped"]
        assert "{chunk:whole}" in (self.generation().prompt_template or "")

    def check_generation(self, model: str = "parrot", tokens: tuple[int, int] = (7, 2)) -> None:
        """The answer, and what it cost."""
        generation = self.generation()
        assert (generation.answer, generation.model, generation.finish_reason) == ("Twenty days.", model, "stop")
        assert generation.usage is not None
        assert (generation.usage.input_tokens, generation.usage.output_tokens) == tokens

    def check_error(self) -> None:
        """A model that was away, after a retrieval."""
        record = self.one
        assert record.error is not None
        assert (record.status, record.error.stage, record.flags) == ("error", "generate", ("error",))
        assert record.error.message == "the model is away"
        assert record.error.type == "TimeoutError"
        assert len(record.candidates) == 4

    def generation(self) -> Generation:
        """The last generation."""
        return [run for run in self.one.stages if isinstance(run, GenerateRun)][-1].generation


@contextmanager
def recording() -> Iterator[Records]:
    """A recorder in use; faults are counted, since frameworks swallow what their hooks raise."""
    sink = Records()
    install(Recorder(load(service="frameworks", raise_errors=False), sink))
    try:
        yield sink
    finally:
        install(None)
