"""Requests as they were taken: the values of the stages as the application's code gave them, which nobody has read yet.
`take_request` writes one in the application, in some tens of microseconds; `build_record` makes its record, in another
process.

The columns of candidates go as they are, each text once and its places as numbers; `build_record` fills the same
recordings that the application had, and these read them, so that the record is the same. What does not fit (a request
of several processes, a value that MessagePack does not hold, a capture policy that hides something) is built at once
instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count, islice
from time import time_ns
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from opentelemetry.context import Context

from ragtrace.config import Config
from ragtrace.errors import NewerForm, RecordError
from ragtrace.record._recorder import Draft
from ragtrace.record._recording import Recording
from ragtrace.record.coercion import Chunk, Chunks, Frozen, SnapshotColumns, TakenPacking
from ragtrace.record.content import ContentPolicy
from ragtrace.record.guard import Guard
from ragtrace.record.requests import JoinedRecording, Part, RequestDraft, RequestRecording, StageInput
from ragtrace.record.stages import (
    GenerateRecording,
    PackRecording,
    RerankRecording,
    RetrieveRecording,
    StageRecording,
)
from ragtrace.types import (
    ErrorInfo,
    Facet,
    Fault,
    Generation,
    HostGrades,
    Item,
    RequestRecord,
    SampledRanking,
    TakenRequest,
    replace,
)

__all__ = ["Built", "TakenReader", "build_record", "take_request", "write_taken"]

_VERSION: Final = 2
_SCHEME: Final = 20  # characters within which a URL shows that it is one
_LONG: Final = 40  # characters of a text that is written once, with its places as numbers
_COLUMNS, _ROWS, _READ = range(3)  # what items were taken as: of one shape, each by itself, or read at once
_LOGIN: Final = re.compile(rb"://[^\s/?#]*@")
_BARE: Final = ("",)  # as names: each row is one value, no tuple
_BASIC: Final = frozenset({str, int, float, bool, type(None)})
_UNFIT: Final = (msgspec.MsgspecError, AttributeError, LookupError, OverflowError, TypeError, ValueError)
_Column: TypeAlias = Sequence[Any]
_Given: TypeAlias = tuple[int | None, int | None, list[tuple[int, int] | Chunk]]


class _Items(msgspec.Struct, array_like=True, gc=False):
    """Candidates by columns: `names` are those of `SnapshotColumns`; in `texts` stand the columns that are places."""

    kind: int
    names: tuple[str, ...]
    columns: list[list[Any]]
    texts: tuple[int, ...]
    ranks: list[int] | None
    unread: list[str]


class _Packed(msgspec.Struct, array_like=True, gc=False):
    """A packing. read: its items with tokens, full tokens and whether they were cut, where they were read at once."""

    items: _Items | None
    read: list[tuple[Chunk, int | None, int | None, bool | None]] | None
    unread: Sequence[str]
    dropped: Sequence[tuple[Chunk, str]]
    prompt: int | None
    stated: int | None


class _Stage(msgspec.Struct, array_like=True, gc=False):
    """What all stages share."""

    name: str
    started_at: int
    ended_at: int
    span_id: str | None
    error: ErrorInfo | None
    refused: bool
    is_partial: bool
    earlier: int


class _Retrieved(msgspec.Struct, array_like=True, gc=False, tag="retrieve"):
    stage: _Stage
    items: _Items
    before: int | None
    query: int | None
    top_k: int | None
    source: str | None


class _Reranked(msgspec.Struct, array_like=True, gc=False, tag="rerank"):
    stage: _Stage
    items: _Items
    given: _Given


class _PackedStage(msgspec.Struct, array_like=True, gc=False, tag="pack"):
    stage: _Stage
    packed: _Packed | None
    given: _Given
    budget: int | None


class _Generated(msgspec.Struct, array_like=True, gc=False, tag="generate"):
    stage: _Stage
    model: str | None
    prompt: int | None
    answer: int | None
    found: Generation | None


class _Nothing(msgspec.Struct, array_like=True, gc=False, tag="joined"):
    """A request inside the request, which leaves no run."""


class _Body(msgspec.Struct, array_like=True, gc=False):
    """A request; numbers stand for its texts."""

    taken_at: int
    clock_skew: float
    is_counted: bool  # what could not be read is counted already, by the spans that were described
    request_id: str
    service: str
    trace_id: str | None
    span_id: str | None
    error: ErrorInfo | None
    started_at: int
    ended_at: int
    query: str | None
    rewritten: str | None
    query_class: str | None
    segment: str | None
    facets: tuple[Facet, ...]
    tenant_id: str | None
    session_id: str | None
    versions: dict[str, str]
    cites: bool | None
    sampled_ranking: SampledRanking | None
    graded: HostGrades | None
    attributes: dict[str, Any]
    flags: list[str]
    head_sampled: bool
    head_probability: float
    stages: list[_Retrieved | _Reranked | _PackedStage | _Generated | _Nothing]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Body).decode
_decode_version: Final = msgspec.msgpack.Decoder(list[Any]).decode


def take_request(draft: Draft) -> Item | None:
    """The request as it was taken, or what is built of it where that does not fit. Ends the spans."""
    taken = _taken(draft) if isinstance(draft, RequestDraft) else None
    if taken is None:
        return draft.build()
    draft.discard()
    return taken


def _taken(draft: RequestDraft) -> TakenRequest | None:
    request = draft.request
    if type(request) is not RequestRecording or not request.recorder.policy.keeps_all:
        return None
    try:
        texts = _Texts()
        stages = _Stages(draft.parts, texts).written()
        body = _encode(_body(request, stages))
    except _UNFIT:
        return None
    if _LOGIN.search(body):  # perhaps of a source, and no record tells that
        return None
    return TakenRequest(body=body, texts=tuple(texts), weight=draft.weight)


class _Texts(dict[str, int]):
    """The texts of a request, each with its number."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number

    def place(self, text: str | None) -> int | None:
        """The number of a text."""
        return None if text is None else self[text]

    def columns(self, columns: Iterable[_Column]) -> tuple[list[_Column], tuple[int, ...]]:
        """Columns with numbers in place of long texts, and which these are. URLs stay, so that logins can be seen."""
        written = list(columns)
        places = []
        for place, column in enumerate(written):
            if (
                column
                and type(column[0]) is str
                and len(column[0]) >= _LONG
                and {*map(type, column)} == {str}
                and not any("://" in text[:_SCHEME] for text in column)
            ):
                written[place] = [*map(self.__getitem__, column)]
                places.append(place)
        return written, tuple(places)


def _body(request: RequestRecording, stages: list[Any]) -> _Body:
    config = request.recorder.config
    return _Body(
        time_ns(),
        config.clock_skew,
        request.span is not None and request.span.is_recording(),
        request.request_id,
        config.service,
        request.trace_id,
        request.span_id,
        request.error,
        request.started_at,
        request.ended_at,
        request.query,
        request.rewritten,
        request.query_class,
        request.segment,
        request.facets,
        request.tenant_id,
        request.session_id,
        request.versions,
        request.cites,
        request.sampled_ranking,
        request.graded,
        request.attributes,
        list(request.flags),
        request.head_sampled,
        request.head_probability,
        stages,
    )


class _Stages:
    """The parts of a request, which name each other by their places. Raises: one of `_UNFIT` for what does not fit."""

    def __init__(self, parts: Sequence[Part], texts: _Texts) -> None:
        self._parts = parts
        self._texts = texts
        self._places = {id(part): place for place, part in enumerate(parts)}

    def written(self) -> list[Any]:
        """All of them."""
        return [_WRITERS[type(part)](self, part) for part in self._parts]

    def retrieved(self, part: RetrieveRecording) -> _Retrieved:
        """A retriever call."""
        before = None if part._before is None else self._places[id(part._before)]
        query = self._texts.place(part._query)
        return _Retrieved(
            self._shared(part, part._earlier), self._items(part._taken), before, query, part._top_k, part._source
        )

    def reranked(self, part: RerankRecording) -> _Reranked:
        """A reranker call."""
        return _Reranked(self._shared(part, part._earlier), self._items(part._taken), self._given(part._given))

    def packed(self, part: PackRecording) -> _PackedStage:
        """A packing."""
        packed = None if part._taken is None else self._packing(part._taken)
        return _PackedStage(self._shared(part, part._earlier), packed, self._given(part._given), part._budget)

    def generated(self, part: GenerateRecording) -> _Generated:
        """A generator call."""
        prompt, answer = self._texts.place(part._prompt), self._texts.place(part._answer)
        return _Generated(self._shared(part, 0), part._model, prompt, answer, part._found)

    def joined(self, part: JoinedRecording) -> _Nothing:
        """A request inside the request."""
        return _Nothing()

    def _shared(self, part: StageRecording, earlier: int) -> _Stage:
        if part._run is not None:
            raise ValueError("it has been read")
        span_id, started_at, ended_at = part.span_id, part.started_at, part.ended_at
        return _Stage(part.name, started_at, ended_at, span_id, part.error, part.refused, part.is_partial, earlier)

    def _items(self, taken: SnapshotColumns | Frozen | Chunks) -> _Items:
        if isinstance(taken, SnapshotColumns):
            columns, texts = self._texts.columns(taken.columns())
            return _Items(_COLUMNS, taken.names, columns, texts, None, [])  # type: ignore[arg-type]
        if isinstance(taken, Frozen):
            kind = _kind_of(taken.rows)
            rows = taken.rows if kind is tuple else [(row,) for row in taken.rows]
            if rows and not rows[0]:
                raise TypeError("rows without columns cannot be counted")
            columns, texts = self._texts.columns(zip(*rows, strict=True))  # rows of several lengths do not fit
            return _Items(_ROWS, () if kind is tuple else _BARE, columns, texts, None, [])  # type: ignore[arg-type]
        chunks = [chunk for _, chunk in taken.ranked]
        columns, texts = self._texts.columns(zip(*map(msgspec.structs.astuple, chunks), strict=True))
        return _Items(_READ, (), columns, texts, [rank for rank, _ in taken.ranked], taken.unread)  # type: ignore[arg-type]

    def _packing(self, taken: TakenPacking) -> _Packed:
        is_read = isinstance(taken.chunks, list)
        items = None if is_read or taken.chunks is None else self._items(taken.chunks)  # type: ignore[arg-type]
        read: Any = taken.chunks if is_read else None
        return _Packed(items, read, taken.unread, taken.dropped, self._texts.place(taken.prompt), taken.stated)

    def _given(self, given: StageInput) -> _Given:
        left, whole, parts = given.sources()
        return (
            None if left is None else self._places[id(left)],
            None if whole is None else self._places[id(whole)],
            [part if isinstance(part, Chunk) else (self._places[id(part[0])], part[1]) for part in parts],
        )


def _kind_of(rows: Sequence[Any]) -> type:
    """What all of these rows are: texts, or tuples or mappings of texts and numbers. Raises: TypeError."""
    kinds = {*map(type, rows)}
    if kinds <= {str}:
        return str
    parts = chain.from_iterable(row.values() if type(row) is dict else row for row in rows)
    if kinds not in ({tuple}, {dict}) or not _BASIC.issuperset(map(type, parts)):
        raise TypeError(f"rows of {kinds}")
    return kinds.pop()


_WRITERS: Final[dict[type, Callable[[_Stages, Any], Any]]] = {
    RetrieveRecording: _Stages.retrieved,
    RerankRecording: _Stages.reranked,
    PackRecording: _Stages.packed,
    GenerateRecording: _Stages.generated,
    JoinedRecording: _Stages.joined,
}


class _Frame(msgspec.Struct, array_like=True, gc=False):
    """One of several requests that are written together: the texts that none before it had, the first of which has the
    number `first` among all of theirs."""

    version: int
    together: bytes
    first: int
    texts: list[bytes]
    places: list[int]
    body: bytes


_decode_frame: Final = msgspec.msgpack.Decoder(_Frame).decode


def write_taken(requests: Iterable[TakenRequest]) -> list[bytes]:
    """A frame for each of them. A text stands in the first that has it, so that one that is damaged costs those alone
    that share a text with it, for which it was the first."""
    known, together, frames = _Texts(), os.urandom(8), []
    for request in requests:
        first = len(known)
        places = [*map(known.__getitem__, request.texts)]
        new: list[bytes] = []
        if len(known) > first:
            added = [*islice(reversed(known), len(known) - first)]
            new = [text.encode("utf-8", "surrogatepass") for text in reversed(added)]
        frames.append(_encode(_Frame(_VERSION, together, first, new, places, request.body)))
    return frames


class TakenReader:
    """Reads the frames of requests, one after the other."""

    def __init__(self) -> None:
        self._together = b""
        self._texts: dict[int, str] = {}

    def read(self, frame: bytes) -> TakenRequest:
        """The request. Raises: RecordError for bytes that are none, or that need a text of a frame that was not read;
        NewerForm for those of a newer ragtrace."""
        try:
            version = _decode_version(frame)[0]
            if isinstance(version, int) and version > _VERSION:
                raise NewerForm(
                    f"requests wait that were taken in form {version}, and this ragtrace reads up to {_VERSION}; "
                    "upgrade where `ragtrace build` runs before the applications"
                )
            found = _decode_frame(frame)
            if found.together != self._together:
                self._together, self._texts = found.together, {}
            texts = [text.decode("utf-8", "surrogatepass") for text in found.texts]
            self._texts.update(zip(count(found.first), texts, strict=False))
            return TakenRequest(body=found.body, texts=tuple([self._texts[place] for place in found.places]))
        except KeyError as error:
            raise RecordError(f"a request as it was taken lacks its text {error}, which was in another entry") from None
        except (msgspec.MsgspecError, ValueError, LookupError) as error:
            raise RecordError(f"no request as it was taken: {error}") from error


class Built(NamedTuple):
    """A record, and what could not be read for it."""

    record: RequestRecord
    faults: list[Fault]


def build_record(taken: TakenRequest) -> Built:
    """The record, finished (hashes, template). Raises: RecordError when it cannot be made of that."""
    faults: list[Fault] = []
    try:
        body = _decode(taken.body)
        request = _Reading(body, taken.texts, faults).request()
        runs = sorted((run for part in request.parts if (run := part.read()) is not None), key=lambda run: run.ended_at)
        record = request.record(tuple(runs))
        finished = request.recorder.policy.finish(record, now=body.taken_at)
    except _UNFIT as error:
        raise RecordError(f"a request that was taken cannot be built: {type(error).__name__}: {error}") from error
    assert isinstance(finished, RequestRecord)
    if body.is_counted:
        return Built(finished, [])
    # each with a time of its own that follows from the request: built again, it is the same fault, and counted once
    return Built(finished, [replace(fault, at=body.taken_at + place) for place, fault in enumerate(faults)])


class _Worker:
    """What recordings need of a recorder to be read."""

    def __init__(self, body: _Body, faults: list[Fault]) -> None:
        self.config = Config(service=body.service, clock_skew=body.clock_skew)
        self.policy = ContentPolicy(self.config)
        self.guard = Guard(body.service, faults.append)


class _Reading:
    """The recordings of a request, as they were when it ended."""

    def __init__(self, body: _Body, texts: Sequence[str], faults: list[Fault]) -> None:
        self._body = body
        self._texts = texts
        self._recorder: Any = _Worker(body, faults)
        self._request = RequestRecording.__new__(RequestRecording)
        self._parts: list[Any] = [_KINDS[type(stage)].__new__(_KINDS[type(stage)]) for stage in body.stages]

    def request(self) -> RequestRecording:
        """The request with its stages."""
        body = self._body
        vars(self._request).update(
            {name: getattr(body, name) for name in _OF_REQUEST},
            recorder=self._recorder,
            _request_id=body.request_id,
            flags=dict.fromkeys(body.flags),
            parts=self._parts,
            context=_NOWHERE,
            _trace_id=body.trace_id,
            _span_id=body.span_id,
        )
        for part, stage in zip(self._parts, body.stages, strict=True):
            if not isinstance(stage, _Nothing):
                vars(part).update(self._shared(stage.stage), **self._own(stage))
        return self._request

    def _shared(self, stage: _Stage) -> dict[str, Any]:
        return {
            "recorder": self._recorder,
            "request": self._request,
            **{name: getattr(stage, name) for name in ("name", "started_at", "ended_at", "error")},
            "refused": stage.refused,
            "is_partial": stage.is_partial,
            "_span_id": stage.span_id,
            "_earlier": stage.earlier,
        }

    def _own(self, stage: Any) -> dict[str, Any]:
        if isinstance(stage, _Retrieved):
            return {
                "_taken": self._items(stage.items),
                "_before": None if stage.before is None else self._parts[stage.before],
                "_query": self._text(stage.query),
                "_top_k": stage.top_k,
                "_source": stage.source,
            }
        if isinstance(stage, _Reranked):
            return {"_taken": self._items(stage.items), "_given": self._given(stage.given)}
        if isinstance(stage, _PackedStage):
            taken = None if stage.packed is None else self._packing(stage.packed)
            return {"_taken": taken, "_given": self._given(stage.given), "_budget": stage.budget}
        prompt, answer = self._text(stage.prompt), self._text(stage.answer)
        return {"_model": stage.model, "_prompt": prompt, "_answer": answer, "_found": stage.found}

    def _text(self, place: int | None) -> str | None:
        return None if place is None else self._texts[place]

    def _items(self, items: _Items) -> SnapshotColumns | Frozen | Chunks:
        columns: list[_Column] = list(items.columns)
        for place in items.texts:
            columns[place] = [self._texts[at] for at in columns[place]]
        if items.kind == _COLUMNS:
            return SnapshotColumns.of(items.names, columns)
        rows = list(zip(*columns, strict=True))
        if items.kind == _ROWS:
            return Frozen([row[0] for row in rows] if items.names else rows, 0)
        return Chunks(list(zip(items.ranks or (), (Chunk(*row) for row in rows), strict=True)), items.unread)

    def _packing(self, packed: _Packed) -> TakenPacking:
        chunks: Any = None if packed.items is None else self._items(packed.items)
        if packed.read is not None:
            chunks = TakenPacking.of_items(packed.read)
        return TakenPacking(chunks, packed.unread, packed.dropped, self._text(packed.prompt), packed.stated)

    def _given(self, given: _Given) -> StageInput:
        left, whole, parts = given
        return StageInput(
            None if left is None else self._parts[left],
            None if whole is None else self._parts[whole],
            [part if isinstance(part, Chunk) else (self._parts[part[0]], part[1]) for part in parts],
        )


_KINDS: Final[dict[type, type[Recording]]] = {
    _Retrieved: RetrieveRecording,
    _Reranked: RerankRecording,
    _PackedStage: PackRecording,
    _Generated: GenerateRecording,
    _Nothing: JoinedRecording,
}
_OF_REQUEST: Final = (
    "started_at", "ended_at", "query", "rewritten", "query_class", "segment", "facets", "tenant_id", "session_id",
    "versions", "cites", "sampled_ranking", "graded", "attributes", "head_sampled", "head_probability", "error",
)  # fmt: skip
_NOWHERE: Final = Context()  # the trace is known
