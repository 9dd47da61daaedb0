"""The four stages while they run: what went in, what came out, and the run that stands in the record."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from ragtrace.record.coercion import (
    Chunk,
    Known,
    Unreadable,
    read_answer,
    read_chunks,
    read_packing,
    read_prompt,
)
from ragtrace.record.coercion.chunks import read_chunk
from ragtrace.record.coercion.items import items_of
from ragtrace.record.coercion.values import whole
from ragtrace.record.recorder import Recorder
from ragtrace.record.recording import Recording, describe_error
from ragtrace.record.requests import RequestRecording, current_recording
from ragtrace.record.spans import Attributes, describe_stage
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    Packing,
    PackRun,
    RankMove,
    RerankRun,
    RetrieveRun,
    StageRun,
    replace,
)

__all__ = ["GenerateRecording", "PackRecording", "RerankRecording", "RetrieveRecording", "StageRecording"]


class StageRecording(Recording):
    """One run of a stage, in the current request or, without one, in a request of its own."""

    __slots__ = ("_given", "_owned", "request")

    def __init__(self, recorder: Recorder, name: str, inputs: Mapping[str, Any], given: Collection[str]) -> None:
        self._given = given
        found = current_recording(recorder)
        self._owned = found is None
        self.request: RequestRecording = found or RequestRecording(recorder, name)
        parent = self.request.context if self._owned else None
        super().__init__(recorder, name, self.span_name(name, inputs), parent)
        try:
            self.receive(inputs)
        except Unreadable as error:
            recorder.guard.count(f"inputs.{self.operation}", error.kind, str(error))
        except Exception as error:
            recorder.guard.caught(f"inputs.{self.operation}", error)

    def span_name(self, name: str, inputs: Mapping[str, Any]) -> str:
        """The name of the stage's span."""
        return f"{self.operation} {name}"

    @abstractmethod
    def receive(self, inputs: Mapping[str, Any]) -> None:
        """Take the stage's inputs."""

    @abstractmethod
    def run(self) -> StageRun:
        """The run as it stands in the record, without what all stages share."""

    def describe(self, run: StageRun) -> Attributes:
        """The attributes of the stage's span."""
        return describe_stage(run)

    def note_error(self, error: BaseException) -> None:
        """A stage that fails names itself as the place where its request failed."""
        super().note_error(error)
        self.error = describe_error(error, self.operation)
        self.request.note_stage_error(error, self.operation)
        if self._owned:
            self.request.note_error(error)

    def close(self) -> Attributes:
        """Put the run into the request."""
        run = replace(
            self.run(),
            name=self.name,
            started_at=self.started_at,
            ended_at=self.ended_at,
            span_id=self.span_id,
            error=self.error,
        )
        self.request.runs.append(run)
        return self.describe(run) if self.span is not None and self.span.is_recording() else {}

    def finish(self) -> None:
        """End the stage, then the request that it opened for itself."""
        try:
            super().finish()
        finally:
            if self._owned:
                self.request.ended_at = self.ended_at
                self.request.finish()

    def unread(self, kinds: list[str]) -> None:
        """Count the items of a list that could not be read."""
        for kind in set(kinds):
            message = f"an item of type {kind} has neither an id nor a text"
            self.recorder.guard.count(f"coerce.{self.operation}", kind, message, count=kinds.count(kind))

    def input_ids(self, value: Any) -> list[str]:
        """Chunk ids of what a reranker or packer was given; else what the stage before it left."""
        if value is None:
            return self.request.latest
        try:
            return self._identify(list(items_of(value))) or self.request.latest
        except Unreadable as error:
            if "candidates" in self._given:
                self.recorder.guard.count(f"coerce.{self.operation}", error.kind, str(error))
            return self.request.latest

    def _identify(self, items: list[Any]) -> list[str]:
        seen, known, ids = self.request.seen, None, []
        for item in items:
            found = seen.get(id(item))
            if found is not None:
                ids.append(found[1])
                continue
            known = known or Known(self.request.candidates())
            ids.append(known.identify(read_chunk(item)))
        return ids

    def remember(self, value: Any, ranked: list[tuple[int, Chunk]], latest: list[str], ids: list[str]) -> None:
        """Keep the host's items by identity, so that the next stage's inputs are recognized at no cost."""
        self.request.latest = latest
        if isinstance(value, list | tuple):
            self.request.seen.update(
                (id(value[rank - 1]), (value[rank - 1], chunk_id))
                for (rank, _), chunk_id in zip(ranked, ids, strict=True)
                if rank <= len(value)
            )


class RetrieveRecording(StageRecording):
    """A retriever call."""

    operation = "retrieve"
    __slots__ = ("_candidates", "_query", "_source", "_top_k")

    def span_name(self, name: str, inputs: Mapping[str, Any]) -> str:
        """`retrieval {data_source}`, as the GenAI conventions name it."""
        return f"retrieval {inputs.get('source') or name}"

    def receive(self, inputs: Mapping[str, Any]) -> None:
        """The query, its limit and where it goes."""
        self._candidates: tuple[Candidate, ...] = ()
        query = inputs.get("query")
        self._query = read_prompt(query)
        self._top_k = whole(inputs.get("top_k"))
        source = inputs.get("source")
        self._source = None if source is None else str(source)
        if self._query is not None:
            self.request.note_query(self._query)
        elif query is not None:
            raise Unreadable(query)

    def take(self, value: Any) -> None:
        """Candidates in the order of the value; their rank is their place in it."""
        ranked, unread = read_chunks(value)
        found = [chunk.candidate(rank) for rank, chunk in ranked]
        if self._source is not None:
            found = [known if known.source else replace(known, source=self._source) for known in found]
        self._candidates = tuple(found)
        ids = [known.chunk_id for known in found]
        runs = self.request.runs
        earlier = self.request.latest if runs and isinstance(runs[-1], RetrieveRun) else []
        self.remember(value, ranked, list(dict.fromkeys((*earlier, *ids))), ids)
        self.unread(unread)

    def run(self) -> StageRun:
        """The retriever's part."""
        return RetrieveRun(query=self._query, top_k=self._top_k, candidates=self._candidates)

    def describe(self, run: StageRun) -> Attributes:
        """Ids and scores, and the data source."""
        return describe_stage(run, self._source)


class RerankRecording(StageRecording):
    """A reranker call."""

    operation = "rerank"
    __slots__ = ("_inputs", "_moves")

    def receive(self, inputs: Mapping[str, Any]) -> None:
        """What is reranked."""
        self._moves: tuple[RankMove, ...] = ()
        self._inputs = self.input_ids(inputs.get("candidates"))

    def take(self, value: Any) -> None:
        """The new order, and who fell out of it."""
        ranked, unread = read_chunks(value)
        before = {chunk_id: rank for rank, chunk_id in reversed(list(enumerate(self._inputs, 1)))}
        candidates = Known(self.request.candidates())
        after: dict[str, RankMove] = {}
        ids = []
        for rank, chunk in ranked:
            chunk_id = self._identity(chunk, candidates)
            ids.append(chunk_id)
            move = RankMove(chunk_id=chunk_id, rank_before=before.get(chunk_id), rank_after=rank, score=chunk.score)
            after.setdefault(chunk_id, move)
        lost = [
            RankMove(chunk_id=known_id, rank_before=rank) for known_id, rank in before.items() if known_id not in after
        ]
        lost.sort(key=lambda move: move.rank_before or 0)
        self._moves = (*after.values(), *lost)
        self.remember(value, ranked, list(after), ids)
        self.unread(unread)

    def _identity(self, chunk: Chunk, known: Known) -> str:
        """A reranker may return positions among its inputs instead of chunks."""
        if chunk.index is not None and 0 <= chunk.index < len(self._inputs):
            return self._inputs[chunk.index]
        return known.identify(chunk)

    def run(self) -> StageRun:
        """The reranker's part."""
        return RerankRun(moves=self._moves)


class PackRecording(StageRecording):
    """A packing of chunks into a prompt."""

    operation = "pack"
    __slots__ = ("_budget", "_inputs", "_packing")

    def receive(self, inputs: Mapping[str, Any]) -> None:
        """What there is to pack, and the token budget."""
        self._packing = Packing()
        self._budget = whole(inputs.get("budget"))
        self._inputs = self.input_ids(inputs.get("candidates"))

    def take(self, value: Any) -> None:
        """What was packed, and what was not."""
        packed = read_packing(value, Known(self.request.candidates()), self._inputs, self._budget)
        self._packing = packed.packing
        if packed.prompt is not None:
            self.request.prompt = packed.prompt
        self.unread(packed.unread)

    def run(self) -> StageRun:
        """The packer's part."""
        return PackRun(packing=self._packing)


class GenerateRecording(StageRecording):
    """A generator call."""

    operation = "generate"
    __slots__ = ("_generation", "_model", "_prompt")

    def span_name(self, name: str, inputs: Mapping[str, Any]) -> str:
        """`chat {model}`, as the GenAI conventions name it."""
        model = inputs.get("model")
        model = model if isinstance(model, str) else self.request.versions.get("model")
        return f"chat {model}" if model else "chat"

    def receive(self, inputs: Mapping[str, Any]) -> None:
        """The model and the prompt; without a prompt, the one that the packer returned."""
        model = inputs.get("model")
        named = isinstance(model, str) or (model is not None and "model" in self._given)
        self._model = str(model) if named else self.request.versions.get("model")
        self._prompt = read_prompt(inputs.get("prompt")) or self.request.prompt
        self._generation = Generation(model=self._model, prompt_template=self._prompt)

    def take(self, value: Any) -> None:
        """The answer and what came with it."""
        packed = next((run.packing for run in reversed(self.request.runs) if isinstance(run, PackRun)), Packing())
        found = read_answer(value, [chunk.chunk_id for chunk in packed.chunks])
        model = self._model or found.model
        self._generation = replace(found, model=model, prompt_template=found.prompt_template or self._prompt)
        if model is not None:
            self.request.versions.setdefault("model", model)

    def run(self) -> StageRun:
        """The generator's part."""
        return GenerateRun(generation=self._generation)
