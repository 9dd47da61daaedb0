"""Reads one side from a file: a record in each line, analyzed here where its analysis does not stand beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ragtrace.errors import InputError, RecordError
from ragtrace.gate._sameness import MOST, Trace, trace_of
from ragtrace.gate.selection import ALLOWED, Selection
from ragtrace.registry.instruments import ANSWER_COVERAGE
from ragtrace.store import MeasuredRequest, Store
from ragtrace.store.populations import is_of_versions, traits_of
from ragtrace.store.rows import UNANSWERED, unanswered, verifier_of
from ragtrace.store.service_traits import is_enough
from ragtrace.types import Analysis, Gold, RequestRecord, decode_record

if TYPE_CHECKING:
    from ragtrace.analyze.analysis import ServiceView

__all__ = ["find", "measured", "service_views"]

_BATCH: Final = 200
_MOST_TEXTS: Final = 1_000  # chunks of a service, from which on more tell little of its words


class _Line(msgspec.Struct, frozen=True):
    """What `ragtrace show --json` prints: a record with its analysis."""

    record: msgspec.Raw = msgspec.Raw()
    analysis: Analysis | None = None


_LINES: Final = msgspec.json.Decoder(_Line)


def measured(
    side: str,
    selection: Selection,
    golds: Store | None,
    metrics: Sequence[str],
    service: str | None,
    views: Mapping[str, ServiceView] | None = None,
    traces: dict[str, Trace] | None = None,
) -> Iterator[MeasuredRequest]:
    """The requests of a file that the selection's other parts allow. golds: a store whose gold sets are the reference
    of the questions that have one. views: of `service_views`. traces: gets what each of the first `MOST` requests did.

    Raises: InputError naming the line.
    """
    batch: list[tuple[RequestRecord, Analysis | None]] = []
    for read in _selected(side, selection, service):
        if traces is not None and len(traces) <= MOST:
            traces[read[0].request_id] = trace_of(read[0])
        batch.append(read)
        if len(batch) == _BATCH:
            yield from _measured(batch, golds, metrics, views or {})
            batch = []
    yield from _measured(batch, golds, metrics, views or {})


def find(
    selection: Selection, service: str | None, request_ids: frozenset[str]
) -> dict[str, tuple[RequestRecord, Analysis]]:
    """These requests of a file, by id, each with its analysis. Raises: InputError naming the line."""
    views: Mapping[str, ServiceView] | None = None
    found: dict[str, tuple[RequestRecord, Analysis]] = {}
    for record, analysis in _selected("side", selection, service):
        if record.request_id in request_ids:
            if analysis is None and views is None:
                views = service_views([("side", selection, service)])
            found[record.request_id] = record, analysis or _analyze(record, {}, (views or {}).get(record.service))
    return found


def service_views(sides: Iterable[tuple[str, Selection, str | None]]) -> dict[str, ServiceView]:
    """What the records of all files tell of their services, so that both sides are analyzed alike: whether the answers
    of a side cite, and how usual words are. sides: name, selection and service of each.

    Raises: InputError naming the line.
    """
    tallies: dict[str, _ServiceTally] = {}
    for side, selection, service in sides:
        if selection.file is not None:
            for record, analysis in _selected(side, selection, service):
                if analysis is None:
                    tallies.setdefault(record.service, _ServiceTally()).add(side, record)
    return {service: tally.view() for service, tally in tallies.items()}


@dataclass(slots=True)
class _ServiceTally:
    """Of one service's records: how many answers each side has, how many of them cite, and the texts that it found."""

    answers: Counter[str] = field(default_factory=Counter)
    cited: Counter[str] = field(default_factory=Counter)
    texts: dict[str, None] = field(default_factory=dict)

    def add(self, side: str, record: RequestRecord) -> None:
        """Count a record."""
        from ragtrace.coverage import find_citations, first_number

        if record.generation and record.generation.answer and record.packing:
            first = first_number(record.generation.prompt_template)
            marks = find_citations(record.generation.answer, record.packing.chunks, record.candidates, first=first)
            self.answers[side] += 1
            self.cited[side] += any(mark.chunk_id is not None for mark in (*marks, *record.generation.citations))
        if len(self.texts) < _MOST_TEXTS:
            self.texts.update((candidate.text, None) for candidate in record.candidates if candidate.text)

    def view(self) -> ServiceView:
        """What it comes to."""
        from ragtrace.analyze.analysis import ServiceView
        from ragtrace.coverage import Background

        is_citing = any(is_enough(count, self.cited[side]) for side, count in self.answers.items())
        return ServiceView(cites=is_citing, background=Background.of(self.texts))


def _selected(side: str, selection: Selection, service: str | None) -> Iterator[tuple[RequestRecord, Analysis | None]]:
    path = Path(selection.file or "")
    for number, line in _file_lines(side, path):
        read = _read_line(f"{path}, line {number}", line)
        if _is_wanted(read[0], selection, service):
            yield read


def _file_lines(side: str, path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as opened:
            yield from ((number, line) for number, line in enumerate(opened, 1) if line.strip())
    except OSError as error:
        raise InputError(f"the {side} {str(path)!r} cannot be read: {error.strerror}; give {ALLOWED}") from error


def _read_line(where: str, line: bytes) -> tuple[RequestRecord, Analysis | None]:
    try:
        parsed = _LINES.decode(line)
        body = bytes(parsed.record)
        record = decode_record(body or line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, RecordError) as error:
        raise InputError(
            f"{where}: {error}; give a record (docs/reference/record.schema.json), or what ragtrace show --json prints"
        ) from error
    return record, parsed.analysis


def _is_wanted(record: RequestRecord, selection: Selection, service: str | None) -> bool:
    if service is not None and record.service != service:
        return False
    if selection.replay is not None and traits_of(record).replay != selection.replay:
        return False
    if (selection.since or 0) > record.started_at or (selection.until or record.started_at + 1) <= record.started_at:
        return False
    return is_of_versions(record.versions, dict(selection.versions), dict(selection.others))


def _measured(
    batch: Sequence[tuple[RequestRecord, Analysis | None]],
    golds: Store | None,
    metrics: Sequence[str],
    views: Mapping[str, ServiceView],
) -> Iterator[MeasuredRequest]:
    known: Mapping[tuple[str, str], Gold] = {}
    if golds is not None:
        known = golds.find_golds({(record.service, record.query.original) for record, found in batch if found is None})
    for record, analysis in batch:
        yield _of_record(record, analysis or _analyze(record, known, views.get(record.service)), metrics)


def _analyze(record: RequestRecord, golds: Mapping[tuple[str, str], Gold], view: ServiceView | None) -> Analysis:
    from ragtrace.analyze import analyze_record
    from ragtrace.analyze.analysis import ServiceView

    return analyze_record(record, golds.get((record.service, record.query.original)), service=view or ServiceView())


def _of_record(record: RequestRecord, analysis: Analysis, metrics: Sequence[str]) -> MeasuredRequest:
    scores = {score.metric: score.value for score in analysis.scores}
    reasons = {score.metric: score.reason for score in analysis.scores}
    scores[UNANSWERED] = unanswered(scores.get(ANSWER_COVERAGE.id), reasons.get(ANSWER_COVERAGE.id))
    diagnosis = analysis.diagnosis
    return MeasuredRequest(
        request_id=record.request_id,
        segment=record.segment,
        started_at=record.started_at,
        ended_at=record.ended_at,
        status=record.status,
        head_sampled=record.head_sampled,
        head_probability=record.head_probability,
        traits=traits_of(record),
        analyzer_version=analysis.analyzer_version,
        reference=analysis.reference,
        verdict=diagnosis.verdict,
        states={found.stage: found.state for found in diagnosis.stages},
        cause=diagnosis.cause,
        values=tuple(scores.get(metric) for metric in metrics),
        judge=diagnosis.judge,
        verifier=verifier_of(analysis),
    )
