"""Stages while they run: what went in and what came out is taken at once, and read in the background."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, ClassVar, Final, overload

from opentelemetry.context import get_current

from ragtrace.prompts import escaped
from ragtrace.record import conventions as names
from ragtrace.record._recorder import Recorder
from ragtrace.record._recording import Parts, Recording, describe_error
from ragtrace.record._spans import Attributes
from ragtrace.record.coercion import (
    Chunk,
    Chunks,
    Frozen,
    Known,
    PackerResult,
    PlainChunks,
    SnapshotColumns,
    StreamedAnswer,
    StreamedChunks,
    StreamedPacking,
    TakenPacking,
    Unreadable,
    freeze,
    freeze_known,
    placed,
    read_answer,
    read_chunks,
    read_prompt,
    take_known_packing,
    take_packing,
    told_apart,
)
from ragtrace.record.coercion.chunks import APART, items_of
from ragtrace.record.coercion.recognition import KnownColumns, plain_moves, ranks_of, read_moves
from ragtrace.record.coercion.values import candidates_of, cut, label, size, whole
from ragtrace.record.guard import guarded
from ragtrace.record.requests import KEY, LeavingStage, Part, RequestRecording, StageInput, is_joined
from ragtrace.types import GenerateRun, Generation, PackRun, RerankRun, RetrieveRun, StageRun, replace

__all__ = ["GenerateRecording", "PackRecording", "RerankRecording", "RetrieveRecording", "StageRecording"]

_CHUNK = 400  # bytes of a chunk that was read at once, without its text, roughly
_PART: Final = 4  # of the memory for requests on their way, what one stage found may take this part


class StageRecording(Recording):
    """One run of a stage, in the current request or, without one, in a request of its own."""

    empty: ClassVar[StageRun]
    weight = 200
    _owned = False
    _is_cut = False
    _run: StageRun | None = None

    def __init__(self, recorder: Recorder, name: str, inputs: Mapping[str, Any], given: Collection[str]) -> None:
        self.recorder = recorder
        self.name = name
        self.clock = clock = perf_counter_ns()
        context = get_current()
        request = context.get(KEY)
        if not is_joined(request, recorder):
            request = RequestRecording(recorder, name)
            self.context = context = request.context
            self._owned = True
        self.request = request
        self.recorder = request.recorder
        self.started_at = request.started_at + clock - request.clock
        if request.tracer is not None:
            self.start_span(request.tracer, self.span_name(name, inputs), context)
        try:
            self.receive(inputs, given)
        except BaseException as error:
            self.refuse(error, "inputs")

    def span_name(self, name: str, inputs: Mapping[str, Any]) -> str:
        """The name of the stage's span."""
        return f"{self.operation} {name}"

    @abstractmethod
    def receive(self, inputs: Mapping[str, Any], given: Collection[str]) -> None:
        """Take the stage's inputs; `given` names those that the host maps itself."""

    @abstractmethod
    def run(self) -> StageRun:
        """Read what was taken: the run as it stands in the record, without what all stages share."""

    def described(self) -> Attributes:
        """The attributes of the stage's span."""
        return self.recorder.descriptions.stage(self.read(), self.request, self.span)

    def outlined(self) -> Attributes:
        """What the stage is."""
        return self.recorder.descriptions.outline(self.operation, self.request.session_id, self.known_inputs())

    def known_inputs(self) -> Attributes:
        """What is known of its inputs without reading what it returned; None where it is not."""
        return {}

    def note_error(self, error: BaseException) -> None:
        """A stage that fails names itself as the place where its request failed."""
        super().note_error(error)
        self.error = describe_error(error, self.operation)
        self.request.note_stage_error(error, self.operation)
        if self._owned and not self._is_cut:
            self.request.note_error(error)

    def cut(self, error: BaseException) -> None:
        """The stage says that it was cancelled."""
        self._is_cut = True
        self.fail(error)

    def read(self) -> StageRun:
        """The run, read once. What it needs of other stages they read first; it lets go of them then."""
        if self._run is None:
            run = self._whole()
            self._run = replace(
                run,
                name=self.name,
                started_at=self.started_at,
                ended_at=self.ended_at,
                span_id=self.span_id,
                error=self.error,
                unread=self.refused,
            )
        return self._run

    def _whole(self) -> StageRun:
        with guarded(f"coerce.{self.operation}", self.recorder.guard):
            return self.run()
        self.refused = True
        return self.empty

    def finish(self) -> None:
        """End; once only. Nothing here can fail, so that it needs no guard."""
        if self._token is not None:
            self.leave()
        if self.ended:
            return
        self.ended = True
        self.ended_at = self.ended_at or self.now()
        self.context = None  # each object that is held until the background comes makes garbage collections longer
        if self._owned or self.request.ended:
            self.close()
        else:
            self.request.parts.append(self)

    def close(self) -> None:
        """Put the run into the request; end the request that it opened for itself."""
        self.request.add(self)
        if self._owned:
            self.request.ended_at = self.ended_at
            self.request.finish()

    def abandon(self) -> None:
        """End without a run; without the request that it opened for itself, too."""
        super().abandon()
        if self._owned:
            self.request.abandon()

    @property
    def is_expired(self) -> bool:
        """Whether its request was closed because it did not end."""
        return self.request.is_expired

    def unread(self, kinds: Collection[str]) -> None:
        """Count the items of a list that could not be read."""
        for kind in set(kinds):
            message = f"an item of type {kind} has neither an id nor a text, or raises when it is read"
            self.recorder.guard.count(f"coerce.{self.operation}", kind, message, count=list(kinds).count(kind))

    def given_chunks(self, value: Any, given: Collection[str]) -> StageInput:
        """What a reranker or packer was given; else what the stage before it left."""
        if value is not None:
            if (found := self.request.lineage.recognize_whole(value)) is not None:
                return found
            try:
                if (recognized := self.read_some(self._recognized, value)) is not None:
                    return recognized
            except Unreadable as error:
                if "candidates" in given:
                    self.recorder.guard.count(f"coerce.{self.operation}", error.kind, str(error))
        return StageInput(self.request.latest)

    def _recognized(self, value: Any) -> StageInput | None:
        items = items_of(value)
        return self.request.lineage.recognize(items) if items else None

    def prompt_of(self, value: Any) -> str | None:
        """The text of a query or prompt."""
        return value if value is None or type(value) is str else self.read_some(read_prompt, value)


class RankingRecording(StageRecording):
    """A stage that returns chunks, best first."""

    _taken: SnapshotColumns | Frozen | Chunks = Frozen([], 0)
    _ids: dict[int, str] = {}  # noqa: RUF012 - replaced, never changed
    _left: tuple[str, ...] = ()
    _before: LeavingStage | None = None  # what this one, of the same kind, follows
    _earlier = 0  # how many parts had ended before
    _columns: PlainChunks | None = None  # of what was taken and is not read, once they were asked for

    def take_at_once(self, value: Any) -> bool:
        """A list of items of a shape that was met before."""
        found = freeze_known(value) if type(value) is list and len(value) <= self.recorder.config.read_items else None
        if found is None:
            return False
        self.request.lineage.remember(value, self)
        self._hold(found)
        return True

    def take(self, value: Any) -> None:
        """Candidates in the order of the value; their rank is their place in it."""
        request, part = self.request, cut(value)
        found: SnapshotColumns | Frozen | None = freeze_known(part)
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
        self._hold(read_chunks(part) if found is None else found)

    def _hold(self, taken: SnapshotColumns | Frozen | Chunks) -> None:
        """Keep it, and hand it on to the next stage."""
        if isinstance(taken, Chunks):
            self._taken = taken
            self.weight += sum(len(chunk.text or "") + _CHUNK for _, chunk in taken.ranked)
            if taken.ranked and taken.ranked[0][1].metadata:
                self.weight += size(taken.ranked[0][1].metadata) * len(taken.ranked)  # the first for all
        else:
            most = self.recorder.config.queue_bytes // _PART
            self._taken = taken = taken if taken.weight <= most else self._light(taken, most)
            self.weight += taken.weight
        request = self.request
        parts = request.parts
        self._earlier = ended = len(parts)
        before, request.latest = request.latest, self  # in one step: of two threads, none passes the other over
        if (
            type(before) is type(self)
            and before is not self
            and (before._earlier == ended or type(parts[-1]) is type(self))  # nothing else has ended in between
        ):
            self._before = before

    def _light(self, found: SnapshotColumns | Frozen, most: int) -> SnapshotColumns | Frozen:
        """The items that take no more than their part of the memory for requests on their way."""
        light = found.light(most)
        if len(light.rows) < len(found.rows):
            self.leave_out(len(found.rows) - len(light.rows))
        return light

    def streamed(self) -> Parts:
        """Chunks that are found one by one, or page by page."""
        return StreamedChunks()

    def ranked(self) -> list[tuple[int, Chunk]]:
        """The chunks of what was taken, with their ranks."""
        taken = self._taken
        chunks = taken if isinstance(taken, Chunks) else taken.chunks()
        self.unread(chunks.unread)
        self.refused = self.refused or bool(chunks.unread and not chunks.ranked)
        return chunks.ranked

    def plain(self) -> PlainChunks | None:
        """What was taken by columns, where there is nothing but ids, texts and scores."""
        return self._taken.plain() if isinstance(self._taken, SnapshotColumns) else None

    def columns(self) -> PlainChunks | None:
        """What was taken, while nobody has read it, where all can be told of the columns: each chunk has its own id."""
        if self._columns is None and self._run is None:
            plain = self.plain()
            if plain is not None and plain.are_distinct:
                self._columns = plain
        return self._columns

    def let_go(self) -> None:
        """Once it is read: let go of what was taken."""
        self._taken = Frozen([], 0)
        self._columns = None

    def placed(self, ranked: Sequence[tuple[int, Chunk]], ids: Sequence[str]) -> None:
        """Keep the ids by place, for the stages that go on with these chunks."""
        if ranked and ranked[-1][0] == len(ids):  # none is missing
            self._ids = dict(enumerate(ids))
        else:
            self._ids = {rank - 1: chunk_id for (rank, _), chunk_id in zip(ranked, ids, strict=True)}

    def identified(self) -> dict[int, str]:
        """The chunk ids of its items by their place, from 0."""
        if (columns := self._columns) is not None:
            return dict(enumerate(columns.ids))
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
            self._query = self.prompt_of(query)
            if self._query is None:
                raise Unreadable(query)
            self.weight += len(self._query)
            self.request.note_query(self._query)

    def run(self) -> StageRun:
        """The candidates; those of retrievers one after the other are merged."""
        plain, source, hashed = self.plain(), self._source, self.recorder.policy.keeps_chunks
        if plain is not None and plain.are_distinct:
            found, ids = plain.candidates(source, hashed=hashed), list(plain.ids)
            self._ids = dict(enumerate(ids))
        else:
            ranked = told_apart(self.ranked())
            found = candidates_of(ranked, source, hashed=hashed)
            ids = [known.chunk_id for known in found]
            self.placed(ranked, ids)
        self.let_go()
        before, self._before = self._before, None
        self._left = tuple(dict.fromkeys((*(before.left() if before is not None else ()), *ids)))
        return RetrieveRun(query=self._query, top_k=self._top_k, candidates=tuple(found), incomplete=self.is_partial)

    def described(self) -> Attributes:
        """Ids and scores, and the data source."""
        descriptions = self.recorder.descriptions
        if descriptions.are_short and (columns := self.columns()) is not None:
            return descriptions.retrieval(columns.ids, columns.scores, self._top_k, self._source)
        return self.recorder.descriptions.stage(self.read(), self.request, self.span, self._source)

    def known_inputs(self) -> Attributes:
        """Where it went, and its limit."""
        return {names.RETRIEVAL_TOP_K: self._top_k, names.RETRIEVAL_DATA_SOURCE: self._source}


class RerankRecording(RankingRecording):
    """A reranker call."""

    operation = "rerank"
    empty = RerankRun()
    _given = StageInput()

    def receive(self, inputs: Mapping[str, Any], given: Collection[str]) -> None:
        """What is reranked."""
        self._given = self.given_chunks(inputs.get("candidates"), given)

    def run(self) -> StageRun:
        """The new order, and who fell out of it."""
        plain, candidates = self.plain(), self.request.known(self._earlier)
        inputs = self._given.ids(candidates)
        moves = None if plain is None else plain_moves(plain, inputs, candidates)
        if moves is not None:
            ids, kept, lost = moves
            self._ids = dict(enumerate(ids))
        else:
            ranked = self.ranked()
            ids, kept, lost = read_moves(ranked, inputs, candidates)
            self.placed(ranked, ids)
        self._given, self._before = StageInput(), None
        self.let_go()
        self._left = tuple(move.chunk_id for move in kept)
        # what was not read of the result is not known to have been dropped
        return RerankRun(moves=kept if self.is_partial else (*kept, *lost))

    def described(self) -> Attributes:
        """Ranks before and after."""
        descriptions = self.recorder.descriptions
        columns = self.columns() if descriptions.are_short and not self.is_partial else None
        known = None if columns is None else _known_by_columns(self.request, self._earlier)
        if columns is None or known is None:
            return super().described()
        before = ranks_of(self._given.ids(known))
        kept = set(columns.ids)
        lost = [name for name in before if name not in kept]
        ranks = [before.get(name, 0) for name in columns.ids]
        return descriptions.reranking(columns.ids, columns.scores, len(before), ranks, lost)


class PackRecording(StageRecording):
    """A packing of chunks into a prompt."""

    operation = "pack"
    empty = PackRun()
    _budget: int | None = None
    _given = StageInput()
    _earlier = 0
    _taken: TakenPacking | None = None

    def receive(self, inputs: Mapping[str, Any], given: Collection[str]) -> None:
        """What there is to pack, and the token budget."""
        if (budget := inputs.get("budget")) is not None:
            self._budget = whole(budget)
        self._given = self.given_chunks(inputs.get("candidates"), given)

    def known_inputs(self) -> Attributes:
        """The token budget."""
        return {names.PACK_BUDGET: self._budget}

    def streamed(self) -> Parts:
        """A streamed packing."""
        return StreamedPacking()

    def take_at_once(self, value: Any) -> bool:
        """A list of items of a shape that was met before."""
        is_short = type(value) is list and len(value) <= self.recorder.config.read_items
        known = take_known_packing(value) if is_short else None
        if known is not None:
            self._hold(known)
        return known is not None

    def take(self, value: Any) -> None:
        """What was packed, and what was not."""
        self._hold(value.taken() if type(value) is StreamedPacking else take_packing(value))

    def _hold(self, taken: TakenPacking) -> None:
        self._taken = taken
        self._earlier = len(self.request.parts)
        if taken.prompt is not None:
            self.weight += len(taken.prompt)
            self.request.prompt = taken.prompt
        if isinstance(taken.chunks, list):
            self.weight += sum(len(item.chunk.text or "") + _CHUNK for item in taken.chunks)
        elif taken.chunks is not None:
            self.weight += taken.chunks.weight

    def run(self) -> StageRun:
        """The packing."""
        taken, known = self._taken, self.request.known(self._earlier)
        if taken is None:
            return PackRun()
        packed = self._placed(taken, known)
        self._taken, self._given = None, StageInput()
        self.unread(packed.unread)
        self.refused = self.refused or self.is_partial or bool(packed.unread and not packed.packing.chunks)
        return PackRun(packing=packed.packing)

    def _placed(self, taken: TakenPacking, known: Known) -> PackerResult:
        return placed(taken, known, self._given.ids(known), self._budget, (self.request.query, self.request.rewritten))

    def described(self) -> Attributes:
        """What was packed, and why the rest was not."""
        descriptions, taken, known = self.recorder.descriptions, self._taken, None
        if descriptions.are_short and taken is not None and taken.is_plain and self._run is None:
            known = _known_by_columns(self.request, self._earlier)
        if known is None or taken is None:
            return super().described()
        return descriptions.packing(self._placed(taken, known).packing)


def _known_by_columns(request: RequestRecording, earlier: int) -> Known | None:
    """What retrievers among the first parts returned, for descriptions; None where one has been read, or has to be."""
    columns = [part.columns() for part in request.parts[:earlier] if isinstance(part, RetrieveRecording)]
    if None in columns or any(APART in "".join(each.ids) for each in columns if each is not None):
        return None
    return KnownColumns(each for each in columns if each is not None)


class GenerateRecording(StageRecording):
    """A generator call."""

    operation = "generate"
    empty = GenerateRun()
    _model: str | None = None
    _answer: str | None = None
    _found: Generation | None = None
    _before: tuple[Part, ...] = ()

    def span_name(self, name: str, inputs: Mapping[str, Any]) -> str:
        """`chat {model}`, as the GenAI conventions name it."""
        model = inputs.get("model")
        model = label(model) if isinstance(model, str) else self.request.versions.get("model")
        return f"chat {model}" if model else "chat"

    def receive(self, inputs: Mapping[str, Any], given: Collection[str]) -> None:
        """The model and the prompt; without a prompt, the one that the packer returned."""
        model = inputs.get("model")
        named = isinstance(model, str) or (model is not None and "model" in given)
        self._model = label(model) if named else self.request.versions.get("model")
        self._prompt = self.prompt_of(inputs.get("prompt")) or self.request.prompt

    def known_inputs(self) -> Attributes:
        """The model."""
        return {names.REQUEST_MODEL: self._model}

    def streamed(self) -> Parts:
        """A streamed answer; it may end after its request, which does not know its stages any longer then."""
        self._before = tuple(self.request.parts)
        return StreamedAnswer()

    def take_at_once(self, value: Any) -> bool:
        """An answer that is a text."""
        if type(value) is str:
            self.take(value)
        return type(value) is str

    def take(self, value: Any) -> None:
        """The answer and what came with it."""
        if type(value) is StreamedAnswer:
            self.unread(value.unread)
            self.refused = self.refused or bool(value.unread)
            if not value.is_read:
                return
            value = value.whole()
        if type(value) is str:
            self._answer = value
            self.weight += len(value)
        else:
            self._found = found = read_answer(value, _PackedIds((*self._before, *self.request.parts)))
            self.weight += len(found.answer or "") + len(found.prompt_template or "")
            self.weight += sum([_CHUNK + len(each.marker) + len(each.chunk_id or "") for each in found.citations])
            self._model = self._model or found.model
        self.weight += len(self._prompt or "")
        if self._model is not None:
            self.request.versions.setdefault("model", self._model)

    def run(self) -> StageRun:
        """The generation."""
        found = self._found or Generation(answer=self._answer)
        template = found.prompt_template or (self._prompt and escaped(self._prompt))
        generation = replace(found, model=self._model, prompt_template=template)
        return GenerateRun(generation=generation)


class _PackedIds(Sequence[str]):
    """The chunk ids of the last packing, read only when a citation names one by its place."""

    def __init__(self, runs: Sequence[Part]) -> None:
        self._runs = runs

    def _ids(self) -> list[str]:
        packs = [part for part in self._runs if isinstance(part, PackRecording)]
        run = packs[-1].read() if packs else None
        return [chunk.chunk_id for chunk in run.packing.chunks] if isinstance(run, PackRun) else []

    def __len__(self) -> int:
        return len(self._ids())

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        return self._ids()[place]
