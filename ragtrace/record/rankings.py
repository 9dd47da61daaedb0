"""Retriever and reranker while they run: stages that return chunks, best first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ragtrace.record.coercion import (
    Chunk,
    Chunks,
    Columns,
    Frozen,
    StreamedChunks,
    Unreadable,
    freeze,
    freeze_known,
    read_chunks,
    read_prompt,
    told_apart,
)
from ragtrace.record.coercion.allowance import cut
from ragtrace.record.coercion.chunks import items_of
from ragtrace.record.coercion.recognition import read_moves
from ragtrace.record.coercion.values import label, size, whole
from ragtrace.record.lineage import Given, Left, known_from
from ragtrace.record.recording import Parts
from ragtrace.record.spans import Attributes
from ragtrace.record.stages import CHUNK, StageRecording
from ragtrace.types import RerankRun, RetrieveRun, StageRun

__all__ = ["RerankRecording", "RetrieveRecording"]

_PART: Final = 4  # of the memory for requests on their way, what one stage found may take this part


class RankingRecording(StageRecording):
    """A stage that returns chunks, best first."""

    _taken: Columns | Frozen | Chunks = Frozen([], 0)
    _ids: dict[int, str] = {}  # noqa: RUF012 - replaced, never changed
    _left: tuple[str, ...] = ()
    _before: Left | None = None  # what this one, of the same kind, follows
    _earlier = 0  # how many parts had ended before

    def take(self, value: Any) -> None:
        """Candidates in the order of the value; their rank is their place in it."""
        request, part = self.request, cut(value)
        found: Columns | Frozen | None = freeze_known(part)
        if found is not None:
            request.lineage.remember(value, self)
        elif type(value) is StreamedChunks:
            found = Frozen(value.rows, value.weight)
            request.lineage.remember(value.items, self)
        else:
            items = items_of(part)
            if type(items) is list or isinstance(items, list | tuple):
                found = freeze(cut(items))
                request.lineage.remember(items, self)
        if found is None:
            self._taken = chunks = read_chunks(part)
            self.weight += sum(len(chunk.text or "") + CHUNK for _, chunk in chunks.ranked)
            if chunks.ranked and chunks.ranked[0][1].metadata:
                self.weight += size(chunks.ranked[0][1].metadata) * len(chunks.ranked)  # the first for all
        else:
            self._taken = found = self._light(found)
            self.weight += found.weight
        parts = request.parts
        self._earlier = ended = len(parts)
        before, request.latest = request.latest, self  # in one step: of two threads, none passes the other over
        if (
            type(before) is type(self)
            and before is not self
            and (before._earlier == ended or type(parts[-1]) is type(self))  # nothing else has ended in between
        ):
            self._before = before

    def _light(self, found: Columns | Frozen) -> Columns | Frozen:
        """The items that take no more than their part of the memory for requests on their way."""
        most = self.recorder.config.queue_bytes // _PART
        light = found.light(most) if found.weight > most else found
        if len(light.rows) < len(found.rows):
            self.leave_out(len(found.rows) - len(light.rows))
        return light

    def streamed(self) -> Parts:
        """Chunks that are found one by one, or page by page."""
        return StreamedChunks()

    def ranked(self) -> list[tuple[int, Chunk]]:
        """The chunks of what was taken, with their ranks."""
        taken, self._taken = self._taken, Frozen([], 0)
        chunks = taken if isinstance(taken, Chunks) else taken.chunks()
        self.unread(chunks.unread)
        self.refused = self.refused or bool(chunks.unread and not chunks.ranked)
        return chunks.ranked

    def placed(self, ranked: Iterable[tuple[int, Chunk]], ids: Sequence[str]) -> None:
        """Keep the ids by place, for the stages that go on with these chunks."""
        self._ids = {rank - 1: chunk_id for (rank, _), chunk_id in zip(ranked, ids, strict=True)}

    def identified(self) -> dict[int, str]:
        """The chunk ids of its items by their place, from 0."""
        self.read()
        return self._ids

    def left(self) -> list[str]:
        """The ids of the chunks that the next stage goes on with, each once."""
        self.read()
        return list(self._left)


class RetrieveRecording(RankingRecording):
    """A retriever call."""

    operation = "retrieve"
    empty = RetrieveRun()
    _query: str | None = None
    _top_k: int | None = None
    _source: str | None = None

    def span_name(self, name: str, inputs: Mapping[str, Any]) -> str:
        """`retrieval {data_source}`, as the GenAI conventions name it."""
        source = inputs.get("source")
        return f"retrieval {name if source is None else label(source)}"

    def receive(self, inputs: Mapping[str, Any], given: Collection[str]) -> None:
        """The query, its limit and where it goes."""
        query, top_k, source = inputs.get("query"), inputs.get("top_k"), inputs.get("source")
        if top_k is not None:
            self._top_k = whole(top_k)
        if source is not None:
            self._source = label(source)
        if query is not None:
            self._query = read_prompt(query)
            if self._query is None:
                raise Unreadable(query)
            self.weight += len(self._query)
            self.request.note_query(self._query)

    def run(self) -> StageRun:
        """The candidates; those of retrievers one after the other are merged."""
        ranked = told_apart(self.ranked())
        source = self._source
        found = [chunk.candidate(rank, source) for rank, chunk in ranked]
        ids = [known.chunk_id for known in found]
        self.placed(ranked, ids)
        before, self._before = self._before, None
        self._left = tuple(dict.fromkeys((*(before.left() if before is not None else ()), *ids)))
        return RetrieveRun(query=self._query, top_k=self._top_k, candidates=tuple(found), incomplete=self.is_partial)

    def described(self) -> Attributes:
        """Ids and scores, and the data source."""
        return self.recorder.descriptions.stage(self.read(), self.request, self.span, self._source)


class RerankRecording(RankingRecording):
    """A reranker call."""

    operation = "rerank"
    empty = RerankRun()
    _given = Given()

    def receive(self, inputs: Mapping[str, Any], given: Collection[str]) -> None:
        """What is reranked."""
        self._given = self.given_chunks(inputs.get("candidates"), given)

    def run(self) -> StageRun:
        """The new order, and who fell out of it."""
        ranked, candidates = self.ranked(), known_from(self.request.parts[: self._earlier])
        inputs = self._given.ids(candidates)
        self._given, self._before = Given(), None
        ids, kept, lost = read_moves(ranked, inputs, candidates)
        self.placed(ranked, ids)
        self._left = tuple(move.chunk_id for move in kept)
        # what was not read of the result is not known to have been dropped
        return RerankRun(moves=kept if self.is_partial else (*kept, *lost))
