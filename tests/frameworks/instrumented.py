"""A recorder that keeps what it submits, for small real applications of each framework, which no decorator touches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ragtrace.config import load
from ragtrace.record import Draft, Recorder, finish, install
from ragtrace.types import Fault, GenerateRun, Generation, Item, RequestRecord, RetrieveRun, to_builtins


class Records:
    """A sink that keeps the finished records."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.arrived = threading.Event()

    def submit(self, item: Item | Draft, durable: bool = False) -> None:
        """Keep it as the store would."""
        built = item if isinstance(item, Item) else item.build()
        if built is None:
            return
        self.items.append(finish(built, "full"))
        self.arrived.set()

    def flush(self, timeout: float) -> bool:
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
        return [(move.chunk_id, move.rank_before, move.rank_after) for move in self.one.moves]

    def packed(self) -> list[str]:
        """Ids of what stood in the last prompt."""
        packing = self.one.packing
        return [] if packing is None else [chunk.chunk_id for chunk in packing.chunks]

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
