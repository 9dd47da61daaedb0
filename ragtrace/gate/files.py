"""Reads one side from a file: a record in each line, analyzed here where its analysis does not stand beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ragtrace.errors import InputError, RecordError
from ragtrace.gate.selection import ALLOWED, Selection
from ragtrace.store import Measured, Store
from ragtrace.store.compared import UNANSWERED, unanswered
from ragtrace.store.traits import traits_of
from ragtrace.types import Analysis, Gold, RequestRecord, decode_record

__all__ = ["measured"]

_PAGE: Final = 200


class _Line(msgspec.Struct, frozen=True):
    """What `ragtrace show --json` prints: a record with its analysis."""

    record: msgspec.Raw = msgspec.Raw()
    analysis: Analysis | None = None


_LINES: Final = msgspec.json.Decoder(_Line)


def measured(
    side: str, selection: Selection, golds: Store | None, metrics: Sequence[str], service: str | None
) -> Iterator[Measured]:
    """The requests of a file that the selection's other parts allow. golds: a store whose gold sets are the reference
    of the questions that have one.

    Raises: InputError naming the line.
    """
    path = Path(selection.file or "")
    page: list[tuple[RequestRecord, Analysis | None]] = []
    for number, line in _lines(side, path):
        read = _read(f"{path}, line {number}", line)
        if _is_wanted(read[0], selection, service):
            page.append(read)
        if len(page) == _PAGE:
            yield from _measured(page, golds, metrics)
            page = []
    yield from _measured(page, golds, metrics)


def _lines(side: str, path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as opened:
            yield from ((number, line) for number, line in enumerate(opened, 1) if line.strip())
    except OSError as error:
        raise InputError(f"the {side} {str(path)!r} cannot be read: {error.strerror}; give {ALLOWED}") from error


def _read(where: str, line: bytes) -> tuple[RequestRecord, Analysis | None]:
    try:
        given = _LINES.decode(line)
        body = bytes(given.record)
        record = decode_record(body or line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, RecordError) as error:
        raise InputError(
            f"{where}: {error}; give a record (docs/record.schema.json), or what ragtrace show --json prints"
        ) from error
    return record, given.analysis


def _is_wanted(record: RequestRecord, selection: Selection, service: str | None) -> bool:
    if service is not None and record.service != service:
        return False
    if selection.replay is not None and traits_of(record).replay != selection.replay:
        return False
    if (selection.since or 0) > record.started_at or (selection.until or record.started_at + 1) <= record.started_at:
        return False
    return all(record.versions.get(component) == version for component, version in selection.versions)


def _measured(
    page: Sequence[tuple[RequestRecord, Analysis | None]], golds: Store | None, metrics: Sequence[str]
) -> Iterator[Measured]:
    known: Mapping[tuple[str, str], Gold] = {}
    if golds is not None:
        known = golds.find_golds({(record.service, record.query.original) for record, found in page if found is None})
    for record, analysis in page:
        yield _of_record(record, analysis or _analyzed(record, known), metrics)


def _analyzed(record: RequestRecord, golds: Mapping[tuple[str, str], Gold]) -> Analysis:
    from ragtrace.analyze import analyze_record

    return analyze_record(record, golds.get((record.service, record.query.original)))


def _of_record(record: RequestRecord, analysis: Analysis, metrics: Sequence[str]) -> Measured:
    scores = {score.metric: score.value for score in analysis.scores}
    reasons = {score.metric: score.reason for score in analysis.scores}
    scores[UNANSWERED] = unanswered(scores.get("answer_coverage"), reasons.get("answer_coverage"))
    diagnosis = analysis.diagnosis
    return Measured(
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
        stage=diagnosis.stage,
        cause=diagnosis.cause,
        values=tuple(scores.get(metric) for metric in metrics),
        verifier=_verifier(analysis),
    )


def _verifier(analysis: Analysis) -> str | None:
    if not analysis.claims:
        return None
    return analysis.verified_by.name if analysis.verified_by else ""
