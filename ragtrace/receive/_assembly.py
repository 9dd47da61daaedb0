"""Assembly: one request record of the spans of one trace, whatever their order, and the assembler of all that are due.

The record depends on the set of spans alone, and its revision is their number: a late span makes a newer revision, and
so does one that comes again with more in it; the same spans again make the same record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Event
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ragtrace.config import Config
from ragtrace.errors import CorruptStore, SchemaMismatch, StoreError, StoreUnavailable
from ragtrace.prompts import escaped
from ragtrace.receive._otlp import read_protobuf
from ragtrace.receive._spans import Judgment, Packed, ReceivedSpan, Reranked, Retrieved, SpanGeneration
from ragtrace.receive._tenants import NO_RIGHTS, Claim, Rights, believed, owned
from ragtrace.receive._trace_tree import ReadSpan, in_order, root_of, stages_of, times_of
from ragtrace.record.coercion import Chunk, Known, Unreadable, read_chunks, read_packing, read_prompt, told_apart
from ragtrace.record.coercion.recognition import read_moves
from ragtrace.record.coercion.values import candidates_of
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Assembled, DueTrace, Store, StoredPart
from ragtrace.types import (
    Candidate,
    ErrorInfo,
    Feedback,
    GenerateRun,
    Generation,
    Grade,
    HostGrades,
    PackRun,
    Query,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageRun,
    replace,
)

__all__ = ["Assembler", "Counted", "Fate", "assemble", "record_of"]

_PROMPT: Final = "prompt"
_ANSWER: Final = "answer"
_SECOND_HAND: Final = 1 << 31  # more spans than a trace has: older than any revision of ragtrace's own channel
_RECENT: Final = 1_000  # candidates that are looked for in a prompt: a trace may hold hours of an agent's work
_EXCEPTION: Final = "exception"
_SOURCES: Final = 5  # names of those that graded


def assemble(spans: Iterable[ReceivedSpan]) -> RequestRecord | None:
    """The record of one trace's spans; None where no span of it belongs to a RAG request, and where the sender names
    its requests and the span with the name has not come: under another id the request would be stored twice.

    The root is the span that a dialect calls a request, else the earliest one whose parent is not among the spans. The
    request's id is the sender's own where a span says it, else the trace's id.
    """
    return record_of(*in_order(spans))


def _graded(read_spans: Sequence[ReadSpan], candidates: Iterable[Candidate]) -> HostGrades | None:
    """The grades that all spans carry; of a chunk that is graded twice the last, as of the action. What the application
    itself says goes before what steps and evaluators say of the candidates in another tool's words."""
    known, others = Known(candidates), [each for read_span in read_spans for each in read_span.reading.graded]
    grades: dict[str, Grade] = {}
    for said in others:
        named = [known.identify(chunk) for _, chunk in _chunks(said.found)[0]]
        pairs = zip(named, said.grades, strict=True) if len(named) == len(said.grades) else ()
        grades |= {name: Grade(chunk_id=name, grade=grade) for name, grade in pairs if name in known.by_id}
    own = [found for read_span in read_spans if (found := read_span.span.graded) is not None]
    stated = {each.chunk_id: each for said in own for each in said.grades}
    actions = [*(said.action for said in reversed(own)), *(said.action for said in reversed(others))]
    grades |= stated
    if not (own or grades):
        return None
    sources = dict.fromkeys(said.source for said in others) if grades.keys() - stated.keys() or not own else {}
    action = next((each for each in actions if each), None)
    return HostGrades(grades=tuple(grades.values()), action=action, source=", ".join(islice(sources, _SOURCES)) or None)


def record_of(read_spans: Sequence[ReadSpan], count: int) -> RequestRecord | None:
    """What `assemble` makes of spans that were read: `count` different ones came."""
    steps = list(stages_of(read_spans))
    if not steps:
        return None
    root = root_of(read_spans)
    readings = [read_span.reading for read_span in read_spans]
    is_second_hand = any(reading.is_second_hand for reading in readings)
    if is_second_hand and not root.reading.request_id:
        return None
    request_id = root.reading.request_id or root.span.trace_id
    runs = _Runs(root.reading.question)
    for step in steps:
        runs.add(step)
    about = _About(root, read_spans)
    runs.answer(about.first("answer"), root.span)
    started_at, ended_at = times_of(root, read_spans)
    return RequestRecord(
        request_id=request_id,
        service=about.first("service") or root.span.service,
        segment=about.first("segment") or "default",
        trace_id=root.span.trace_id,
        span_id=root.span.span_id,
        tenant_id=about.first("tenant_id"),
        session_id=about.first("session_id"),
        status="error" if root.span.status == "error" else "ok",
        error=_error(root.span) if root.span.status == "error" else None,
        started_at=started_at,
        ended_at=ended_at,
        query=runs.query(about.first("question"), about.first("query_class")),
        versions=about.versions(),
        cites=root.span.cites,
        sampled_ranking=root.span.sampled_ranking,
        graded=_graded(read_spans, runs.candidates),
        stages=tuple(runs.runs),
        flags=tuple(dict.fromkeys(flag for reading in readings for flag in reading.flags)),
        head_sampled=root.reading.head_sampled is not False,
        head_probability=1.0 if root.reading.head_probability is None else root.reading.head_probability,
        feedback=tuple(
            _feedback(judgment, request_id, reading_of.span)
            for reading_of in read_spans
            for judgment in reading_of.reading.judgments
        ),
        record_revision=count - (_SECOND_HAND if is_second_hand else 0),
    )


def _judgments_of(read_spans: Iterable[ReadSpan]) -> list[Feedback]:
    """What the spans say of a request that they do not make: `request_id` is empty."""
    return [_feedback(said, "", each.span) for each in read_spans for said in each.reading.judgments]


class _About:
    """What the spans say of the request: the root first, then the others in the order in which they began."""

    def __init__(self, root: ReadSpan, read_spans: Sequence[ReadSpan]) -> None:
        self._read_spans = [root, *(each for each in read_spans if each is not root)]

    def first(self, field: str) -> str | None:
        """The first value of a field of the readings."""
        found: Iterator[str | None] = (getattr(each.reading, field) for each in self._read_spans)
        return next((each for each in found if each), None)

    def versions(self) -> dict[str, str]:
        """Version labels; a later span's word counts."""
        found: dict[str, str] = {}
        for each in self._read_spans:
            found |= each.reading.versions
            step = each.reading.step
            if isinstance(step, SpanGeneration) and step.model:
                found["model"] = step.model
        return found


class _Runs:
    """The runs of a record, in the order of the path, each read with what came before it."""

    def __init__(self, question: str | None) -> None:
        self.runs: list[StageRun] = []
        self._question = question
        self._candidates: list[Candidate] = []
        self._left: list[str] = []
        self._rewritten: str | None = None
        self._is_packed = False

    def add(self, read_span: ReadSpan) -> None:
        """Read one stage."""
        step = read_span.reading.step
        if isinstance(step, Retrieved):
            self._retrieve(step, read_span.span)
        elif isinstance(step, Reranked):
            self._rerank(step, read_span.span)
        elif isinstance(step, Packed):
            self._pack(step, read_span.span)
        elif isinstance(step, SpanGeneration):
            self._generate(step, read_span.span)

    @property
    def candidates(self) -> list[Candidate]:
        """Those of all retrievals, the last ones where they are very many."""
        return self._candidates

    def query(self, question: str | None, query_class: str | None) -> Query:
        """What was asked, and what the last retriever was given instead."""
        original = question or self._rewritten or ""
        rewritten = self._rewritten if self._rewritten and self._rewritten != original else None
        return Query(original=original, rewritten=rewritten, query_class=query_class)

    def answer(self, answer: str | None, span: ReceivedSpan) -> None:
        """The request's own answer, unless the last model's call says it: what was called may have rewritten the
        question only, or judged the answer afterwards."""
        if not answer:
            return
        searched = max((place for place, run in enumerate(self.runs) if isinstance(run, RetrieveRun)), default=-1)
        said = [place for place, run in enumerate(self.runs) if isinstance(run, GenerateRun) and run.generation.answer]
        same = [place for place in said if self._says(place, answer)]
        if same and same[-1] < said[-1]:
            later = [
                run for run in self.runs[same[-1] + 1 :] if not (isinstance(run, PackRun) and run.span_id is None)
            ]  # packed for the judge
            self.runs[same[-1] + 1 :] = later
        elif said and (same or said[-1] > searched):
            return
        at = span.ended_at
        self.runs.append(GenerateRun(name=_ANSWER, started_at=at, ended_at=at, generation=Generation(answer=answer)))

    def _says(self, place: int, answer: str) -> bool:
        run = self.runs[place]
        return isinstance(run, GenerateRun) and (run.generation.answer or "").split() == answer.split()

    def _retrieve(self, step: Retrieved, span: ReceivedSpan) -> None:
        chunks, unread = _chunks(step.found)
        chunks = told_apart(chunks)
        ranks = step.ranks or range(1, 1 + max((place for place, _ in chunks), default=0))
        candidates = tuple(candidates_of([(ranks[place - 1], chunk) for place, chunk in chunks], None, hashed=True))
        self._rewritten = step.query or self._rewritten
        most = max(_RECENT, len(candidates))
        self._candidates = [*self._candidates, *candidates][-most:]
        self._left = list(dict.fromkeys((*self._left, *(each.chunk_id for each in candidates))))[-most:]
        self._is_packed = False
        run = RetrieveRun(query=step.query, top_k=step.top_k, candidates=candidates, unread=unread)
        self.runs.append(_timed(replace(run, incomplete=step.incomplete), span))

    def _rerank(self, step: Reranked, span: ReceivedSpan) -> None:
        known = Known(self._candidates)
        chunks, unread = _chunks(step.kept)
        given: Sequence[str] = step.given_ids or self._left
        if step.given is not None:
            given = [known.identify(chunk) for _, chunk in _chunks(step.given)[0]]
        _, kept, lost = read_moves(chunks, given, known)
        self._left = [move.chunk_id for move in kept]
        self._is_packed = False
        # what a cut span does not name is not known to have been dropped
        moves = kept if step.incomplete else (*kept, *lost)
        self.runs.append(_timed(RerankRun(moves=moves, unread=unread), span))

    def _pack(self, step: Packed, span: ReceivedSpan) -> None:
        known = Known(self._candidates)
        try:
            packing = read_packing(list(step.chunks), known, self._left, step.budget).packing
        except Unreadable:
            self.runs.append(_timed(PackRun(unread=True), span))
            return
        if step.dropped:
            packing = replace(packing, dropped=step.dropped)
        self._is_packed = True
        self.runs.append(_timed(PackRun(packing=packing), span))

    def _generate(self, step: SpanGeneration, span: ReceivedSpan) -> None:
        prompt = read_prompt(step.prompt)
        if prompt and not self._is_packed and self._candidates and not step.incomplete:
            self._find_packing(prompt, span)
        generation = Generation(
            answer=step.answer,
            prompt_template=None if prompt is None else escaped(prompt),
            finish_reason=step.finish_reason,
            usage=step.usage,
            model=step.model,
        )
        self.runs.append(_timed(GenerateRun(generation=generation), span))

    def _find_packing(self, prompt: str, span: ReceivedSpan) -> None:
        """Which candidates stand in the prompt; one that holds none plans a search or rewrites the question."""
        questions = (self._question, self._rewritten)
        packing = read_packing(prompt, Known(self._candidates), self._left, None, questions).packing
        if packing.chunks:
            self.runs.append(
                PackRun(name=_PROMPT, started_at=span.started_at, ended_at=span.started_at, packing=packing)
            )


def _chunks(value: Any) -> tuple[list[tuple[int, Chunk]], bool]:
    try:
        found = read_chunks(value)
    except Unreadable:
        return [], True
    return found.ranked, bool(found.unread and not found.ranked)


def _timed(run: StageRun, span: ReceivedSpan) -> StageRun:
    error = _error(span) if span.status == "error" else None
    return replace(
        run, name=span.name, started_at=span.started_at, ended_at=span.ended_at, span_id=span.span_id, error=error
    )


def _error(span: ReceivedSpan) -> ErrorInfo:
    for event in span.events:
        if event.name == _EXCEPTION:
            kind, message = event.attributes.get("exception.type"), event.attributes.get("exception.message")
            return ErrorInfo(type=str(kind or "Error"), message=str(message or ""))
    return ErrorInfo(type="Error", message=span.message)


def _feedback(judgment: Judgment, request_id: str, span: ReceivedSpan) -> Feedback:
    return judgment.feedback(request_id, span.ended_at)


Fate: TypeAlias = Literal["assembled", "failed"]
Counted: TypeAlias = Callable[[Fate | Claim, int], object]
"""Is told how many traces were assembled, or failed, and what became of their senders' word on sampling."""

_Said = TypeVar("_Said", RequestRecord, Feedback)

_LOG: Final = logging.getLogger("ragtrace.receive")
_PAGE: Final = 128
_PAGE_BYTES: Final = 16 << 20  # of the spans that are read at once; in memory they are several times as large
_LARGEST: Final = 32 << 20  # bytes of the spans of one trace
_LEASE: Final = 60.0  # seconds; whoever stands still at one trace for longer loses all that he has
_IDLE: Final = 0.5  # seconds between two looks at an empty store
_PAUSE: Final = 5.0  # seconds after the store failed
_FORGET: Final = 60.0  # seconds between two looks for spans that are no longer needed
_PAGE_FORGOTTEN: Final = 500
_ALL_FAIL: Final = (StoreUnavailable, SchemaMismatch, CorruptStore)  # whatever is written


class Assembler:
    """Makes records of traces. Several may run, in several processes: each trace is one's at a time.

    config: its capture policy says what of content is kept. keep: seconds for which the spans of an assembled trace
    stay, so that a late one can still be united with them. rights: what the spans of a tenant may say.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        keep: float = 3600.0,
        rights: Callable[[str], Rights] = lambda tenant: NO_RIGHTS,
        counted: Counted = lambda fate, count: None,
    ) -> None:
        self._store = store
        self._rights = rights
        self._counted = counted
        self._policy = ContentPolicy(config)
        self._keep = keep

    def run(self, stop: Event, report: Callable[[Exception], object] = lambda error: None) -> None:
        """Work until `stop` is set. Errors of the store are logged, reported, and waited out."""
        forgotten = 0.0
        while not stop.is_set():
            try:
                count = self.step()
                forgotten += _IDLE
                if forgotten >= _FORGET and self._forget() < _PAGE_FORGOTTEN:
                    forgotten = 0.0  # else there is more: it goes on after the next page, so that neither waits long
            except Exception as error:  # one that ended this thread would end the assembly of all
                _LOG.warning("spans wait: %s", error, exc_info=not isinstance(error, StoreError))
                report(error)
                stop.wait(_PAUSE)
                continue
            if not count:
                stop.wait(_IDLE)

    def step(self, now: float | None = None) -> int:
        """Assemble the traces that are due, up to a page of them. Returns how many were taken."""
        leases = _Leases(self._store, now)
        due = leases.claim()
        for each in due:
            if each.bytes > _LARGEST:
                error = f"its spans take {each.bytes:,} bytes; a trace may have {_LARGEST:,}"
                _LOG.warning("trace %s of tenant %r cannot be assembled: %s", each.trace_id, each.tenant, error)
                self._fail(leases, each, error)
        for some in _pages([each for each in due if each.bytes <= _LARGEST]):
            self._assemble(leases, some)
        return len(due)

    def _assemble(self, leases: _Leases, due: Sequence[DueTrace]) -> None:
        stored = self._store.spans_of(due)
        made: list[Assembled] = []
        for each in due:
            leases.keep()
            try:
                made.append(self._made(each, stored.pop((each.tenant, each.trace_id), [])))
            except Exception as error:  # a trace that cannot be read stops no other
                _LOG.exception("trace %s of tenant %r cannot be assembled", each.trace_id, each.tenant)
                self._fail(leases, each, f"{type(error).__name__}: {error}")
        self._write(leases, made)

    def _forget(self) -> int:
        return self._store.forget_spans(self._keep, limit=_PAGE_FORGOTTEN)

    def _made(self, due: DueTrace, parts: list[StoredPart] | CorruptStore) -> Assembled:
        if isinstance(parts, CorruptStore):
            raise parts
        spans = [span for part in parts for span in read_protobuf(part.body).spans]
        read_spans, count = in_order(spans)
        record = record_of(read_spans, count)
        if record is None:
            said = tuple(self._finished(each) for each in _judgments_of(read_spans))
            return Assembled(due, None, judgments=said)
        span_ids = {each.span.span_id for each in read_spans}
        rights = self._rights(due.tenant)
        record, claim = believed(self._finished(record), due.tenant, rights)
        if claim is not None:
            self._counted(claim, 1)
        return Assembled(due, owned(record, due.tenant, rights), parts, span_ids)

    def _finished(self, item: _Said) -> _Said:
        """What of it may be kept."""
        finished = self._policy.finish(item)
        assert isinstance(finished, type(item))
        return finished

    def _write(self, leases: _Leases, made: list[Assembled]) -> None:
        """All in one transaction; one by one where a record cannot be written, so that no other waits for it."""
        leases.keep()
        try:
            self._store.assembled([each._replace(trace=leases.newest(each.trace)) for each in made])
        except _ALL_FAIL:
            raise
        except Exception as error:
            if len(made) == 1:
                self._fail(leases, made[0].trace, str(error))
            else:
                for each in made:
                    self._write(leases, [each])
        else:
            self._counted("assembled", len(made))

    def _fail(self, leases: _Leases, due: DueTrace, error: str) -> None:
        self._store.fail_trace(leases.newest(due), error, leases.now)
        self._counted("failed", 1)


class _Leases:
    """The leases of the traces of one step. They are prolonged between two traces, so that none is lost while there is
    progress, however slow. now: the time that is taken for the present, None for the clock's."""

    def __init__(self, store: Store, now: float | None) -> None:
        self.now = now
        self._store = store
        self._held: dict[tuple[str, str], DueTrace] = {}
        self._renewed_at = self._time()

    def claim(self) -> list[DueTrace]:
        """Take a page of the traces that are due."""
        due = self._store.claim_traces(limit=_PAGE, lease_seconds=_LEASE, now=self.now)
        self._held = {(each.tenant, each.trace_id): each for each in due}
        return due

    def keep(self) -> None:
        """Prolong those that are still held, where a third of their time is over."""
        if self._time() - self._renewed_at > _LEASE / 3:
            self._renewed_at = self._time()
            self._held |= self._store.renew_traces(self._held.values(), lease_seconds=_LEASE, now=self.now)

    def newest(self, due: DueTrace) -> DueTrace:
        """The trace with its newest lease."""
        return self._held[due.tenant, due.trace_id]

    def _time(self) -> float:
        return time.time() if self.now is None else self.now


def _pages(due: Sequence[DueTrace]) -> Iterator[list[DueTrace]]:
    """The traces in groups that are not too large together."""
    page: list[DueTrace] = []
    size = 0
    for each in due:
        if page and size + each.bytes > _PAGE_BYTES:
            yield page
            page, size = [], 0
        page.append(each)
        size += each.bytes
    if page:
        yield page
